"""Weight matrices and what multiplies by them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm.gguf import GgmlType, Tensor
from llm.kernels import amx
from llm.kernels.elementwise import activated
from llm.kernels.interrupt import checkpoint
from llm.kernels.matmul_few import multiplied, prepared
from llm.kernels.matmul_many import AMX, BF16, EXACT, INT8, INT15, Arithmetic, multiplied_many
from llm.kernels.matmul_pack import packed, unpacked
from llm.kernels.operands import F32, I32, Act, Embedding, Linear, Norm, Precision
from llm.kernels.quants import BLOCK_FORMATS, COLUMN_BYTES, ROWS, group_bytes
from llm.kernels.simd_dot import NATIVE_BF16, NATIVE_DOT4
from llm.kernels.tasks import Calls, address_of, aligned, not_repeatable, submit

U8 = NDArray[np.uint8]
PACKABLE = BLOCK_FORMATS.keys() | COLUMN_BYTES.keys()
FAST_BF16 = NATIVE_BF16 and not amx.IN_PROCESSOR  # Intel's vectors do 80 GFLOPS so, and 145 in float32


@dataclass(frozen=True)
class PackedLinear(Linear):
    """Groups of 16 rows; `groups` int64 [n_group, 5] is the table that `matmul_many` describes."""

    n_in: int
    n_out: int
    groups: NDArray[np.int64]
    kept: tuple[U8 | F32, ...]  # the memory that addresses in `groups` point to
    few: int  # up to this many rows of x are multiplied as `matmul_few` does
    many: Arithmetic  # for more
    in_pairs: bool  # whether group i of the first half of outputs has its partner in group i of the second


@dataclass(frozen=True)
class TensorTable(Embedding):
    """A table in the file's format."""

    n_vocab: int
    n_embd: int
    tensor: Tensor


def load_linear(tensors: Sequence[Tensor], bias: F32 | None = None, precision: Precision = "auto") -> Linear:
    parts = [_pack(t) for t in tensors]
    n_in = {int(np.prod(t.shape[1:], dtype=np.int64)) for t in tensors}
    assert len(n_in) == 1, [(t.name, t.shape) for t in tensors]
    n_out = sum(t.shape[0] for t in tensors)
    groups = np.concatenate([table for table, _ in parts])
    groups[:, 2] = np.cumsum(groups[:, 3]) - groups[:, 3]
    kept: list[U8 | F32] = [memory for _, memory in parts]
    if bias is not None:
        bias = np.array(bias, np.float32)
        assert bias.shape == (n_out,), (bias.shape, n_out)
        groups[:, 4] = address_of(bias) + 4 * groups[:, 2]
        kept.append(bias)
    formats = set(groups[:, 0].tolist())
    many = _arithmetic(formats, precision)
    few = 0 if precision == "exact" and formats & BLOCK_FORMATS.keys() else many.few
    return PackedLinear(n_in.pop(), n_out, groups, tuple(kept), few, many, _in_pairs(groups, n_out))


def load_embedding(tensor: Tensor) -> Embedding:
    return TensorTable(tensor.shape[0], tensor.shape[1], tensor)


def embed(table: Embedding, ids: I32, scale: float = 1.0) -> F32:
    assert isinstance(table, TensorTable)
    t = table.tensor
    if int(t.type) not in PACKABLE:
        not_repeatable()
        return t.rows_f32(ids) * np.float32(scale)
    fmt, calls, out = int(t.type), Calls(), np.empty((len(ids), table.n_embd), np.float32)
    groups = aligned(-(-len(ids) // ROWS) * group_bytes(fmt, _padded(table.n_embd)))
    packed(calls, fmt, t.data, t.data.nbytes // table.n_vocab, ids, table.n_embd, groups)
    unpacked(calls, fmt, groups, scale, out)
    submit(calls)
    return out


def linear(
    x: F32,
    w: Linear,
    *,
    norm: Norm | None = None,
    act: Act | None = None,
    residual: F32 | None = None,
    out: F32 | None = None,
) -> F32:
    assert isinstance(w, PackedLinear)
    out = np.empty((len(x), w.n_out), np.float32) if out is None else out
    _multiply(x, w, norm, act, False, residual, out)
    return out


def gated(x: F32, w: Linear, act: Act, *, norm: Norm | None = None) -> F32:
    assert isinstance(w, PackedLinear)
    n = w.n_out // 2
    if not w.in_pairs:
        y = linear(x, w, norm=norm)
        return activated(act, y[:, :n], y[:, n:])
    out = np.empty((len(x), n), np.float32)
    _multiply(x, w, norm, act, True, None, out)
    return out


def _multiply(
    x: F32, w: PackedLinear, norm: Norm | None, act: Act | None, gated: bool, residual: F32 | None, out: F32
) -> None:
    n_tok, n_in = x.shape
    assert n_in == w.n_in, (x.shape, w.n_in)
    calls = Calls()
    if n_tok <= w.few:
        rows = prepared(calls, x, norm)
        multiplied(calls, rows, w, act, gated, residual, out)
    else:
        checkpoint()
        multiplied_many(calls, w.many, x, norm, w.groups, act, gated, residual, out)
    submit(calls)


class Arena:
    """Zeroed memory for weights, many to a chunk: the system backs large chunks with large pages, which a
    processor reads from memory twice as fast."""

    CHUNK = 1 << 25

    def __init__(self) -> None:
        self._free = aligned(0)

    def take(self, n_bytes: int) -> U8:
        if n_bytes > self._free.nbytes:
            self._free = aligned(max(n_bytes, self.CHUNK))
        taken, self._free = self._free[:n_bytes], self._free[_padded(n_bytes, 64) :]
        return taken


def _pack(t: Tensor) -> tuple[NDArray[np.int64], U8]:
    """The tensor's rows of the table, without places, and its groups; types without kernels as float32."""
    fmt, data, n_out = int(t.type), t.data, t.shape[0]
    n_in = int(np.prod(t.shape[1:], dtype=np.int64))
    if fmt not in PACKABLE:
        fmt, data = int(GgmlType.F32), t.to_f32().view(np.uint8).reshape(-1)
    n_group, size = -(-n_out // ROWS), group_bytes(fmt, _padded(n_in))
    memory = ARENA.take(n_group * size)
    calls = Calls()
    packed(calls, fmt, data, data.nbytes // n_out, n_out, n_in, memory)
    calls.play()
    table = np.zeros((n_group, 5), np.int64)
    table[:, 0], table[:, 1] = fmt, address_of(memory) + size * np.arange(n_group)
    table[:, 3] = np.minimum(n_out - ROWS * np.arange(n_group), ROWS)
    return table, memory


def _arithmetic(formats: set[int], precision: Precision) -> Arithmetic:
    """The fastest way with many rows that keeps to the precision of these formats, or to that asked for."""
    if precision == "exact" or int(GgmlType.F32) in formats:
        return EXACT
    if amx.available():
        return AMX
    if precision == "fast" and NATIVE_DOT4 and formats <= BLOCK_FORMATS.keys():
        return INT8
    if FAST_BF16:
        return BF16
    return INT15 if NATIVE_DOT4 and formats <= BLOCK_FORMATS.keys() else EXACT


def _in_pairs(groups: NDArray[np.int64], n_out: int) -> bool:
    n = len(groups) // 2
    first, second = groups[:n, 2:4], groups[n:, 2:4]
    return len(groups) % 2 == 0 and bool(np.all(first + np.array([n_out // 2, 0]) == second))


def _padded(n: int, unit: int = 32) -> int:
    return -(-n // unit) * unit


ARENA = Arena()
