"""Vision transformer of the SigLIP kind: patches through a matrix, learned positions, blocks, a norm."""

from dataclasses import dataclass

from llm.errors import ModelError
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, Act
from llm.weights import Weights
from mtmd.encoders.blocks import Blocks


@dataclass(frozen=True)
class VitHparams:
    """Keys `clip.vision.*` that every vision tower has."""

    n_embd: int = key("embedding_length")
    n_layer: int = key("block_count")
    n_head: int = key("attention.head_count")
    eps: float = key("attention.layer_norm_epsilon")
    image_size: int = key("image_size")
    patch_size: int = key("patch_size")
    image_mean: tuple[float, float, float] = key("image_mean")
    image_std: tuple[float, float, float] = key("image_std")
    use_gelu: bool = key(".clip.use_gelu", default=False)
    use_silu: bool = key(".clip.use_silu", default=False)

    def __post_init__(self) -> None:
        if self.image_size % self.patch_size:
            sizes = f"image_size {self.image_size}, patch_size {self.patch_size}"
            raise ModelError(f"{sizes}: the image is no whole number of patches")

    @property
    def act(self) -> Act:
        """Neither key set means the sigmoid approximation, CLIP's own."""
        return "gelu" if self.use_gelu else "silu" if self.use_silu else "gelu_quick"

    @property
    def n_side(self) -> int:
        """Patches along one side of a square image."""
        return self.image_size // self.patch_size


class Vit:
    """The tower under `v.` for square images of `image_size`."""

    def __init__(self, hp: VitHparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.patch_embd = w.linear("patch_embd", shape=(hp.n_embd, 3 * hp.patch_size**2))
        self.position_embd = w.array("position_embd.weight", (hp.n_side**2, hp.n_embd))
        self.blocks = Blocks(w, k, hp.n_layer, hp.n_head, hp.eps, hp.act)
        self.post_ln = w.norm("post_ln", hp.eps, n=hp.n_embd, center=True)

    def __call__(self, pixels: F32) -> F32:
        """pixels [3, image_size, image_size], normalised -> [n_patch, n_embd], patches row by row."""
        x = self.k.patches(pixels, self.hp.patch_size)  # [n_patch, 3 patch_size^2]
        x = self.k.linear(x, self.patch_embd, residual=self.position_embd)  # [n_patch, n_embd]
        return self.k.norm(self.blocks(x), self.post_ln)
