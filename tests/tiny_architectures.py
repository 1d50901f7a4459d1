"""A tiny random model of each architecture beyond llama and gemma3, in each form that its files come in."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.tiny import make_text_gguf

F32 = NDArray[np.float32]
N_LAYER, N_EMBD, N_HEAD, N_HEAD_KV, D_HEAD, N_FF = 2, 64, 4, 2, 16, 96  # as make_text_gguf has them
N_Q, N_KV = N_HEAD * D_HEAD, N_HEAD_KV * D_HEAD


class Tensors(dict[str, F32]):
    """Random tensors by name."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def matrix(self, name: str, *shape: int) -> None:
        numbers = self._rng.standard_normal(shape) / np.sqrt(shape[-1])
        self[f"{name}.weight"] = numbers.astype(np.float32)

    def vector(self, name: str, n: int, mean: float = 1.0) -> None:
        self[name] = (mean + 0.2 * self._rng.standard_normal(n)).astype(np.float32)


def blocks(*names: str, n_layer: int = N_LAYER) -> list[str]:
    """Each of `names` in each block."""
    return [f"blk.{il}.{name}" for il in range(n_layer) for name in names]


def qwen2(path: Path) -> Path:
    return make_text_gguf(path, "qwen2", tensors=_biases(10), seed=10)


def qwen2_untied(path: Path) -> Path:
    """The long-context form: stretched by YaRN."""
    t = _biases(11)
    meta: dict[str, object] = {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0}
    meta |= {"qwen2.rope.scaling.original_context_length": 64, "qwen2.rope.freq_base": 1e6}
    return make_text_gguf(path, "qwen2", tensors=t, meta=meta, tied=False, seed=11)


def internlm2(path: Path) -> Path:
    return make_text_gguf(path, "internlm2", tied=False, seed=12)


def qwen3(path: Path) -> Path:
    """Heads are wider than n_embd / n_head."""
    return make_text_gguf(path, "qwen3", tensors=_head_norms(13, 32), d_head=32, seed=13)


def qwen2vl(path: Path) -> Path:
    meta: dict[str, object] = {"qwen2vl.rope.dimension_sections": [2, 3, 3, 0]}
    meta["qwen2vl.attention.layer_norm_rms_epsilon"] = 1e-6  # the peer takes it for 0, whatever the file says
    return make_text_gguf(path, "qwen2vl", tensors=_biases(14), meta=meta, seed=14)


def qwen3vl(path: Path) -> Path:
    """Rows of pictures have three levels."""
    meta: dict[str, object] = {
        "qwen3vl.rope.dimension_sections": [3, 3, 2, 0],
        "qwen3vl.n_deepstack_layers": 2,
    }
    return make_text_gguf(path, "qwen3vl", tensors=_head_norms(15, 16, 3), meta=meta, n_layer=3, seed=15)


def smollm3(path: Path) -> Path:
    """Five layers, so that the fourth and the one behind it differ."""
    return make_text_gguf(path, "smollm3", n_layer=5, seed=16)


def granite(path: Path) -> Path:
    meta: dict[str, object] = {
        "embedding_scale": 12.0,
        "residual_scale": 0.22,
        "logit_scale": 8.0,
        "attention.scale": 0.1,
    }
    return make_text_gguf(path, "granite", meta=_prefixed("granite", meta), seed=17)


def granite_plain(path: Path) -> Path:
    """Only the scale that must be there, and no rotation."""
    meta: dict[str, object] = {"logit_scale": 0.5, "rope.scaling.finetuned": False}
    return make_text_gguf(path, "granite", meta=_prefixed("granite", meta), seed=18)


def granite_deep(path: Path) -> Path:
    """As in Granite 4 Vision: the second and third level of a picture's rows go in before layers 2 and 1."""
    meta: dict[str, object] = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}
    meta |= {"deepstack_mapping": [-1, 2, 1]}
    return make_text_gguf(path, "granite", meta=_prefixed("granite", meta), n_layer=3, seed=19)


def mistral3(path: Path) -> Path:
    """Queries have grown twice by position 23."""
    meta: dict[str, object] = {
        "attention.temperature_scale": 0.4,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
    }
    meta |= {"rope.scaling.original_context_length": 10, "rope.scaling.yarn_log_multiplier": 1.0}
    meta |= {"rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 0.5}
    return make_text_gguf(path, "mistral3", meta=_prefixed("mistral3", meta), tied=False, seed=20)


def mistral3_plain(path: Path) -> Path:
    return make_text_gguf(path, "mistral3", seed=21)


def gemma2(path: Path) -> Path:
    t = Tensors(22)
    for name in blocks("post_attention_norm.weight", "post_ffw_norm.weight", n_layer=3):
        t.vector(name, N_EMBD)
    meta: dict[str, object] = {
        "attention.sliding_window": 8,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 10.0,
    }
    return make_text_gguf(path, "gemma2", tensors=t, meta=_prefixed("gemma2", meta), n_layer=3, seed=22)


def phi3(path: Path) -> Path:
    """A context longer than the first one, part of a head rotates."""
    return _phi3(path, 23, n_ctx_orig=64)


def phi3_short(path: Path) -> Path:
    """A context as long as the first one."""
    return _phi3(path, 24, n_ctx_orig=8192)


def _phi3(path: Path, seed: int, n_ctx_orig: int) -> Path:
    t = Tensors(seed)
    _fuse(t)
    t.vector("rope_factors_long.weight", 4, 8.0)
    t.vector("rope_factors_short.weight", 4)
    meta: dict[str, object] = {"rope.dimension_count": 8, "rope.scaling.attn_factor": 1.2}
    meta |= {"rope.scaling.original_context_length": n_ctx_orig, "attention.sliding_window": 0}
    without = blocks(*(f"attn_{x}.weight" for x in "qkv"), "ffn_gate.weight")
    return make_text_gguf(
        path, "phi3", tensors=t, meta=_prefixed("phi3", meta), without=without, tied=False, seed=seed
    )


def phi2(path: Path) -> Path:
    t = _biases(25)
    for name in ("output_norm.bias", *blocks("attn_norm.bias", "attn_output.bias", "ffn_down.bias")):
        t.vector(name, N_EMBD, 0)
    for name in blocks("ffn_up.bias"):
        t.vector(name, N_FF, 0)
    t.vector("output.bias", 274, 0)
    meta: dict[str, object] = {"attention.layer_norm_epsilon": 1e-5, "rope.dimension_count": 8}
    without = [*blocks("ffn_gate.weight", "ffn_norm.weight"), "phi2.attention.layer_norm_rms_epsilon"]
    return make_text_gguf(
        path, "phi2", tensors=t, meta=_prefixed("phi2", meta), without=without, tied=False, seed=25
    )


def glm4(path: Path) -> Path:
    return _glm4(path, 26, {"rope.dimension_count": 8})


def glm4_vision(path: Path) -> Path:
    """Positions have axes."""
    return _glm4(path, 27, {"rope.dimension_count": 16, "rope.dimension_sections": [2, 3, 3, 0]})


def _glm4(path: Path, seed: int, meta: dict[str, object]) -> Path:
    t = _biases(seed)
    for name in blocks("post_attention_norm", "post_ffw_norm"):
        t.vector(f"{name}.weight", N_EMBD)
    for name in blocks("ffn_up"):
        t.matrix(name, 2 * N_FF, N_EMBD)
    without = blocks("ffn_gate.weight")
    return make_text_gguf(
        path, "glm4", tensors=t, meta=_prefixed("glm4", meta), without=without, tied=False, seed=seed
    )


def _prefixed(arch: str, meta: dict[str, object]) -> dict[str, object]:
    return {f"{arch}.{name}": value for name, value in meta.items()}


def _fuse(t: Tensors) -> None:
    """One matrix for q, k, v and one for gate and up in each block."""
    for il in range(N_LAYER):
        t.matrix(f"blk.{il}.attn_qkv", N_Q + 2 * N_KV, N_EMBD)
        t.matrix(f"blk.{il}.ffn_up", 2 * N_FF, N_EMBD)


def _biases(seed: int) -> Tensors:
    t = Tensors(seed)
    for il in range(N_LAYER):
        for x, n in (("q", N_Q), ("k", N_KV), ("v", N_KV)):
            t.vector(f"blk.{il}.attn_{x}.bias", n, 0)
    return t


def _head_norms(seed: int, d_head: int, n_layer: int = N_LAYER) -> Tensors:
    t = Tensors(seed)
    for name in blocks("attn_q_norm.weight", "attn_k_norm.weight", n_layer=n_layer):
        t.vector(name, d_head)
    return t


CASES: dict[str, Callable[[Path], Path]] = {
    make.__name__: make
    for make in (
        qwen2,
        qwen2_untied,
        internlm2,
        qwen3,
        qwen2vl,
        qwen3vl,
        smollm3,
        granite,
        granite_plain,
        granite_deep,
        mistral3,
        mistral3_plain,
        gemma2,
        phi3,
        phi3_short,
        phi2,
        glm4,
        glm4_vision,
    )
}
