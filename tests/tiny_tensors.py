"""What tiny random models of many architectures are made of."""

import numpy as np
from numpy.typing import NDArray

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


def biases(seed: int, n_layer: int = N_LAYER) -> Tensors:
    t = Tensors(seed)
    for il in range(n_layer):
        for x, n in (("q", N_Q), ("k", N_KV), ("v", N_KV)):
            t.vector(f"blk.{il}.attn_{x}.bias", n, 0)
    return t


def head_norms(seed: int, d_head: int, n_layer: int = N_LAYER) -> Tensors:
    t = Tensors(seed)
    for name in blocks("attn_q_norm.weight", "attn_k_norm.weight", n_layer=n_layer):
        t.vector(name, d_head)
    return t


def further(t: Tensors, il: int) -> None:
    """What layer `il` has in order to predict further tokens."""
    t.matrix(f"blk.{il}.nextn.eh_proj", N_EMBD, 2 * N_EMBD)
    t.vector(f"blk.{il}.nextn.enorm.weight", N_EMBD)
    t.vector(f"blk.{il}.nextn.hnorm.weight", N_EMBD)


def prefixed(arch: str, meta: dict[str, object]) -> dict[str, object]:
    return {f"{arch}.{name}": value for name, value in meta.items()}
