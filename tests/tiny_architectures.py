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
    meta = {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0}
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
    )
}
