"""Idefics3, SmolVLM, granite-docling: SigLIP tower, pixel shuffle, one linear layer.

A picture is enlarged to the longest edge, cut into square tiles row by row, and shown once more as a whole.
Source: HuggingFaceTB/SmolVLM, transformers modeling_idefics3.py and processing_idefics3.py. Authors and peer
agree, save that the authors give a grid of one tile as the overview alone, which no published size can bring
about; here it stays tile and overview, as the peer has it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm.errors import ModelError
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.weights import Weights
from mtmd import image
from mtmd.encoders.vit import Vit, VitHparams
from mtmd.media import Image
from mtmd.projector import Compat, Projector, Tile, register


@dataclass(frozen=True)
class Hparams(VitHparams):
    n_merge: int = key("projector.scale_factor")  # neighbours joined along each side
    longest_edge: int = key("preproc_image_size", default=lambda hp: 4 * hp.image_size)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_side % self.n_merge:
            raise ModelError(
                f"{self.n_side} patches a side cannot be joined by {self.n_merge} (scale_factor)"
            )


@register("idefics3", Hparams)
class Idefics3(Projector[Image]):
    kind = "image"

    def __init__(self, hp: Hparams, w: Weights, k: Kernels, compat: Compat) -> None:
        self.hp, self.k = hp, k
        self.vit = Vit(hp, w["v"], k)
        n_out = w.shape("mm.model.fc.weight")[0]
        self.fc = w["mm.model"].linear("fc", shape=(n_out, hp.n_merge**2 * hp.n_embd))
        self.n_embd = self.fc.n_out

    def preprocess(self, media: Image) -> list[Tile]:
        grid, overview = image.idefics3_tiles(media.pixels, self.hp.longest_edge, self.hp.image_size)
        cells = [
            self._tile(pixels, row, col)
            for row, pixels_of_row in enumerate(grid, 1)
            for col, pixels in enumerate(pixels_of_row, 1)
        ]
        return [*cells, self._tile(overview)]

    def encode(self, tile: Tile) -> F32:
        x = self.vit(tile.x)  # [n_patch, n_embd]
        x = self.k.pixel_shuffle(x, (self.hp.n_side, self.hp.n_side), self.hp.n_merge)
        return self.k.linear(x, self.fc)  # [n_tok, n_out]

    def layout(self, tiles: Sequence[Tile]) -> Iterator[str | Tile]:
        *cells, overview = tiles
        for tile in cells:
            if tile.col == 1 and tile.row > 1:
                yield "\n"
            yield f"<fake_token_around_image><row_{tile.row}_col_{tile.col}>"
            yield tile
        yield "\n\n<fake_token_around_image><global-img>"
        yield overview
        yield "<fake_token_around_image>"

    def _tile(self, pixels: image.U8, row: int = 0, col: int = 0) -> Tile:
        x = image.normalise(pixels, self.hp.image_mean, self.hp.image_std)  # [3, image_size, image_size]
        return Tile(x, (self.hp.n_side // self.hp.n_merge) ** 2, row, col)
