"""Every kernel in plain numpy and float32: the specification of the fast ones and their oracle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from llm.gguf import Tensor
from llm.kernels.interrupt import checkpoint
from llm.kernels.operands import F32, I32, Act, Embedding, KvRows, Linear, Norm, Rope, Router, Visible


@dataclass(frozen=True)
class DenseLinear(Linear):
    """The whole matrix in float32: weight [n_out, n_in], bias [n_out] or None."""

    weight: F32
    bias: F32 | None

    def __post_init__(self) -> None:
        n_out, n_in = self.weight.shape
        object.__setattr__(self, "n_in", n_in)
        object.__setattr__(self, "n_out", n_out)


@dataclass(frozen=True)
class TensorRows(Embedding):
    """A table that stays in its file format."""

    tensor: Tensor

    def __post_init__(self) -> None:
        n_vocab, n_embd = self.tensor.shape
        object.__setattr__(self, "n_vocab", n_vocab)
        object.__setattr__(self, "n_embd", n_embd)


def set_threads(n: int) -> None:
    """numpy's own threads are left as they are."""


def load_linear(tensors: Sequence[Tensor], bias: F32 | None = None, precision: str = "auto") -> Linear:
    rows = [t.to_f32().reshape(t.shape[0], -1) for t in tensors]
    return DenseLinear(np.ascontiguousarray(np.concatenate(rows)), bias)


def load_embedding(tensor: Tensor) -> Embedding:
    return TensorRows(tensor)


def embed(table: Embedding, ids: I32, scale: float = 1.0) -> F32:
    assert isinstance(table, TensorRows)
    return table.tensor.rows_f32(ids) * np.float32(scale)


def linear(
    x: F32,
    w: Linear,
    *,
    norm: Norm | None = None,
    act: Act | None = None,
    residual: F32 | None = None,
    out: F32 | None = None,
) -> F32:
    assert isinstance(w, DenseLinear)
    assert x.shape[-1] == w.n_in, (x.shape, w.n_in)
    checkpoint()
    y = (_norm(x, norm) if norm else x) @ w.weight.T
    if w.bias is not None:
        y = y + w.bias
    return result(_act(y, act) if act else y, residual, out)


def gated(x: F32, w: Linear, act: Act, *, norm: Norm | None = None) -> F32:
    y = linear(x, w, norm=norm)
    gate, up = np.split(y, 2, axis=-1)
    return _act(gate, act) * up


def experts(
    x: F32,
    router: Router,
    gate_up: Sequence[Linear],
    down: Sequence[Linear],
    act: Act,
    *,
    norm: Norm | None = None,
    residual: F32 | None = None,
    out: F32 | None = None,
) -> F32:
    y = _norm(x, norm) if norm else x
    logits = linear(x, router.w, norm=router.norm) if router.norm else linear(y, router.w)
    chosen, weights = route(logits, router)
    total = np.zeros_like(x)
    for e in np.unique(chosen):
        tok, place = np.nonzero(chosen == e)
        h = gated(y[tok], gate_up[e], act)  # [n, n_ff]
        total[tok] += linear(h, down[e]) * weights[tok, place, None]
    return result(total, residual, out)


def route(logits: F32, router: Router) -> tuple[NDArray[np.intp], F32]:
    """Experts of each row and their weights, [n_tok, n_used] each, from logits [n_tok, n_expert]."""
    if router.score == "softmax":
        score = np.exp(logits - logits.max(axis=1, keepdims=True))
        score /= score.sum(axis=1, keepdims=True)
    else:
        score = 1 / (1 + np.exp(-logits))
    order = np.argsort(-(score if router.bias is None else score + router.bias), axis=1, kind="stable")
    chosen = order[:, : router.n_used]
    weights = np.take_along_axis(score, chosen, axis=1)
    if router.normed:
        weights /= weights.sum(axis=1, keepdims=True)
    return chosen, weights * router.scale[chosen]


def norm(x: F32, n: Norm, *, residual: F32 | None = None, out: F32 | None = None) -> F32:
    return result(_norm(x, n), residual, out)


def add(x: F32, y: F32, *, out: F32 | None = None) -> F32:
    return np.add(x, y, out=out)


def mul(x: F32, y: F32, *, out: F32 | None = None) -> F32:
    return np.multiply(x, y, out=out)


def scale(x: F32, factors: F32, *, out: F32 | None = None) -> F32:
    return np.multiply(x, factors.reshape(-1, *[1] * (x.ndim - 1)), out=out)


def softcap(x: F32, cap: float) -> F32:
    return np.tanh(x / np.float32(cap)) * np.float32(cap)


def qkv_to_rows(
    qkv: F32,
    n_head: int,
    kv: KvRows,
    at: I32,
    *,
    rope: Rope | None = None,
    q_norm: Norm | None = None,
    k_norm: Norm | None = None,
) -> F32:
    n_tok, n_head_kv = len(qkv), len(kv.k)
    d = qkv.shape[1] // (n_head + 2 * n_head_kv)
    heads = qkv.reshape(n_tok, n_head + 2 * n_head_kv, d)
    q, k, v = np.split(heads, [n_head, n_head + n_head_kv], axis=1)
    if q_norm:
        q = _norm(q, q_norm)
    if k_norm:
        k = _norm(k, k_norm)
    if rope:
        q, k = _rotate(q, rope), _rotate(k, rope)
    kv.k[:, at] = cache_rows(k.transpose(1, 0, 2), kv.k.dtype)
    kv.v[:, at] = cache_rows(v.transpose(1, 0, 2), kv.v.dtype)
    return np.ascontiguousarray(q)


def short_conv(bcx: F32, w: F32, kv: KvRows, at: I32, first: I32) -> F32:
    b, c, x = np.split(bcx, 3, axis=1)
    kv.k[0, at] = b * x
    y = np.zeros_like(x)
    for age, tap in enumerate(w.T[::-1]):  # w [n_embd, n]: newest last
        seen = at - np.int32(age)
        y += np.where((seen >= first)[:, None], kv.k[0, np.maximum(seen, 0)], 0) * tap
    return c * y


def record(run: Callable[[], F32]) -> Callable[[], F32]:
    return run


def attention(q: F32, kv: KvRows, visible: Visible, scale: float, *, softcap: float = 0.0) -> F32:
    n_tok, n_head, d = q.shape
    out = np.zeros_like(q)
    for start, stop in stretches(visible):
        lo, hi = visible.lo[start:stop], visible.hi[start:stop]
        first, last = int(lo.min()), max(int(hi.max()), int(lo.min()))
        row = np.arange(first, last)
        seen = (row >= lo[:, None]) & (row < hi[:, None])  # [n, n_rows]
        for h in range(n_head):
            k, v = (cache_f32(a[h * len(a) // n_head, first:last]) for a in (kv.k, kv.v))
            score = q[start:stop, h] @ k.T * np.float32(scale)  # [n, n_rows]
            if softcap:
                score = np.tanh(score / softcap) * np.float32(softcap)
            score = np.where(seen, score, -np.inf)
            top = np.max(score, axis=1, keepdims=True, initial=np.float32(-3e38))
            p = np.exp(score - top)
            total = p.sum(axis=1, keepdims=True)
            out[start:stop, h] = p @ v / np.where(total > 0, total, 1)
    return out.reshape(n_tok, n_head * d)


def cache_f32(rows: NDArray[Any]) -> F32:
    """Cache rows of any kind [..., n] as numbers [..., d]."""
    if rows.dtype == np.uint16:
        return (rows.astype(np.uint32) << 16).view(np.float32)
    if rows.dtype != np.uint8:
        return rows.astype(np.float32)
    n_block = rows.shape[-1] // 34
    blocks = rows.reshape(*rows.shape[:-1], n_block, 34)
    scale = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float32)
    return (scale * blocks[..., 2:].view(np.int8)).reshape(*rows.shape[:-1], 32 * n_block)


def cache_rows(x: F32, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers [..., d] as cache rows of a kind [..., n]."""
    if dtype == np.uint16:
        return (np.ascontiguousarray(x).view(np.uint32) + 0x8000 >> 16).astype(np.uint16)
    if dtype != np.uint8:
        return x.astype(dtype)
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(axis=-1, keepdims=True) / np.float32(127)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    codes = np.rint(np.nan_to_num(blocks * inverse)).astype(np.int8).view(np.uint8)
    packed = np.concatenate([scale.astype(np.float16).view(np.uint8), codes], axis=-1)
    return packed.reshape(*x.shape[:-1], -1)


def stretches(visible: Visible) -> list[tuple[int, int]]:
    """Start and stop of queries that stand together and see rows in common: those of one sequence."""
    lo, hi = visible.lo, visible.hi
    apart = (hi[1:] <= lo[:-1]) | (hi[:-1] <= lo[1:])
    ends = [*(np.flatnonzero(apart) + 1).tolist(), len(lo)]
    return list(zip([0, *ends[:-1]], ends))


def patches(pixels: F32, size: int) -> F32:
    c, h, w = pixels.shape
    x = pixels.reshape(c, h // size, size, w // size, size).transpose(1, 3, 0, 2, 4)
    return np.ascontiguousarray(x).reshape(-1, c * size * size)


def conv1d(x: F32, w: Linear, kernel: int, stride: int, pad: int, *, act: Act | None = None) -> F32:
    return linear(windows_1d(x, kernel, stride, pad), w, act=act)


def conv2d(x: F32, w: Linear, kernel: int, stride: int, pad: int, *, act: Act | None = None) -> F32:
    windows = windows_2d(x, kernel, stride, pad)  # [h', w', c_in k k]
    y = linear(windows.reshape(-1, windows.shape[2]), w, act=act)
    return y.reshape(*windows.shape[:2], w.n_out)


def windows_1d(x: F32, kernel: int, stride: int, pad: int) -> F32:
    """What each output of a convolution sees: x [n_row, c_in] -> [n_row', c_in kernel]."""
    x = np.pad(x, ((pad, pad), (0, 0)))
    windows = sliding_window_view(x, kernel, axis=0)[::stride]  # [n_row', c_in, kernel]
    return np.ascontiguousarray(windows).reshape(len(windows), -1)


def windows_2d(x: F32, kernel: int, stride: int, pad: int) -> F32:
    """x [h, w, c_in] -> [h', w', c_in k k]."""
    x = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
    windows = sliding_window_view(x, (kernel, kernel), axis=(0, 1))[
        ::stride, ::stride
    ]  # [h', w', c_in, k, k]
    return np.ascontiguousarray(windows).reshape(*windows.shape[:2], -1)


def pixel_shuffle(x: F32, grid: tuple[int, int], n: int) -> F32:
    ny, nx = grid
    c = x.shape[-1]
    y = x.reshape(ny // n, n, nx // n, n, c).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(y).reshape(-1, n * n * c)


def _norm(x: F32, n: Norm) -> F32:
    if n.center:
        x = x - x.mean(axis=-1, keepdims=True)
    y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(n.eps)) * n.weight
    return y if n.bias is None else y + n.bias


def _act(x: F32, act: Act) -> F32:
    match act:
        case "silu":
            return x / (1 + np.exp(-x))
        case "gelu":
            inner = np.float32(0.7978845608) * (x + np.float32(0.044715) * x**3)
            return np.float32(0.5) * x * (1 + np.tanh(inner))
        case "gelu_erf":
            from scipy.special import erf  # 0.2 s, which a program on the fast kernels does without

            return np.float32(0.5) * x * (1 + erf(x * np.float32(0.70710678)))
        case "gelu_quick":
            return x / (1 + np.exp(np.float32(-1.702) * x))
        case "relu":
            return np.maximum(x, 0)


def _rotate(x: F32, rope: Rope) -> F32:
    """x [n_tok, n_head, d_head]; dimensions past the rotated ones pass through."""
    n_pair = rope.cos.shape[1]
    cos, sin = rope.cos[:, None], rope.sin[:, None]
    y = x.copy()
    if rope.kind == "norm":
        first, second = slice(0, 2 * n_pair, 2), slice(1, 2 * n_pair, 2)
    else:
        first, second = slice(0, n_pair), slice(n_pair, 2 * n_pair)
    a, b = x[..., first], x[..., second]
    y[..., first] = a * cos - b * sin
    y[..., second] = a * sin + b * cos
    return y


def result(y: F32, residual: F32 | None, out: F32 | None) -> F32:
    """y + residual, in `out` if there is one."""
    if residual is not None:
        return np.add(y, residual, out=out)
    if out is not None:
        out[...] = y
        return out
    return np.ascontiguousarray(y, dtype=np.float32)
