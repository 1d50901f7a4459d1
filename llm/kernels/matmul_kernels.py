"""The compiled products for prompts and pictures, `many_rows_*`, one per arithmetic.

All compute act(norm(x) W^T + b) + residual, or act(gate) * up with `gated`, from a table of weight groups,
int64 [n_group, 5]: format, address, first output, number of outputs (16, fewer in a last group), address of
the biases (0: none). With `gated`, group i of the first half holds gates for the outputs of group i of the
second. Operands that are absent are empty arrays. Threads take tasks from a counter, so that a slow one does
not hold up the others. `work` is the address of scratch memory: the counter, x in the form that is
multiplied, and an area for each thread.
"""

from typing import Any

from llm.kernels.amx import TILE_BYTES, multiply_tiles, start_tiles, stop_tiles
from llm.kernels.jit import inline, parallel_kernel, prange
from llm.kernels.matmul_ends import (
    INT8_BYTES,
    activate,
    bf16_row,
    int8_row,
    norm_row,
    put,
)
from llm.kernels.matmul_panels import panel_bf16, panel_f32, panel_int8
from llm.kernels.matmul_tiles import (
    PANEL_INT8_BYTES,
    multiply_bf16,
    multiply_f32,
    multiply_int8,
    multiply_int8_in_halves,
)
from llm.kernels.quants import BLOCK_FORMATS, ROWS
from llm.kernels.simd import at, fetch_add, load_f32, load_f32_part, poke_i64, store_f32, zeros_f32

HALVES = tuple(number for number, f in BLOCK_FORMATS.items() if f.scales.halves)
HEAD_BYTES = 128  # of `work`: the counter; at 64 the set-up of the matrix unit
OUT_BYTES = 4096  # of an area: products float32 [32, 32]
ALONE = 400_000  # products that one thread has done (13 us) when two that share them have met again
CACHED = 1 << 20  # bytes of x that a thread's cache should hold beside a panel


@inline
def _put_rows(groups, g, act, t, n, products, residual, out):  # type: ignore[no-untyped-def]
    """Products of n rows from row t on with group g; each is 16 numbers, 128 bytes apart."""
    first, width = groups[g, 2], groups[g, 3]
    bias = load_f32_part(groups[g, 4], width) if groups[g, 4] else zeros_f32()
    to, add = at(out, t * out.shape[1] + first), 0
    if residual.size:
        add = at(residual, t * out.shape[1] + first)
    step = out.shape[1] * 4
    if width == ROWS and act == 0 and not add:
        for i in range(n):
            store_f32(to + i * step, load_f32(products + i * 128) + bias)
    else:
        for i in range(n):
            v = activate(act, load_f32(products + i * 128) + bias)
            put(v, width, add + i * step if add else 0, to + i * step)


@inline
def _put_gated(groups, g, h, act, t, n, products, out):  # type: ignore[no-untyped-def]
    """Gates from group g, what they gate from group h."""
    first, width = groups[g, 2], groups[g, 3]
    bias = up_bias = zeros_f32()
    if groups[g, 4]:
        bias, up_bias = load_f32_part(groups[g, 4], width), load_f32_part(groups[h, 4], width)
    to, step = at(out, t * out.shape[1] + first), out.shape[1] * 4
    for i in range(n):
        gate = activate(act, load_f32(products + i * 128) + bias)
        put(gate * (load_f32(products + i * 128 + 64) + up_bias), width, 0, to + i * step)


@inline
def _times_amx(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    multiply_tiles(x, 16 * next_x, w0, w1, n_block, out)


@inline
def _times_bf16(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    multiply_bf16(x, next_x, w0, w1, n_block, out)


@inline
def _times_int8(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    if halves:
        multiply_int8_in_halves(x, next_x, w0, w1, n_block, out)
    else:
        multiply_int8(x, next_x, w0, w1, n_block, out)


@inline
def _times_f32(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    multiply_f32(x, next_x, w0, w1, 32 * n_block, out)


@inline
def _put_tiled(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    bf16_row(row, n_block, rows + t // 16 * n_block * TILE_BYTES + t % 16 * 64, TILE_BYTES)


@inline
def _put_bf16(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    bf16_row(row, n_block, rows + t * n_block * 64, 64)


@inline
def _put_int8(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    int8_row(row, n_block, rows + t * n_block * INT8_BYTES)


@inline
def _put_f32(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    for p in range(0, n_block * 128, 64):
        store_f32(rows + t * n_block * 128 + p, load_f32(row + p))


def _arithmetic(
    x_bytes: int, put_row: Any, panel_bytes: int, unpack: Any, multiply: Any, n_row: int
) -> tuple[Any, Any]:
    """The two halves of a thread's work, `prepare` and then `multiply_all`.

    A block is `x_bytes` of a row of x and `panel_bytes` of a panel; `n_row` rows are multiplied at once.
    """

    @inline
    def area(n_tok, n_block, work, i):  # type: ignore[no-untyped-def]
        """Address of thread i's: products, then two panels; before that, the row that `put_row` takes."""
        rows = (n_tok + 31) // 32 * 32 * n_block * x_bytes
        return work + HEAD_BYTES + rows + i * (OUT_BYTES + 2 * n_block * panel_bytes)

    @inline
    def prepare(x, weight, bias, eps, center, work, i, n_thread):  # type: ignore[no-untyped-def]
        """The i-th part of the rows of x: norm and conversion."""
        n, n_in = x.shape
        n_block = (n_in + 31) // 32
        w, b = at(weight, 0) if weight.size else 0, at(bias, 0) if bias.size else 0
        row = area(n, n_block, work, i)
        for t in range(i * n // n_thread, (i + 1) * n // n_thread):
            norm_row(at(x, t * n_in), n_in, w, b, eps, center, row)
            put_row(row, n_block, work + HEAD_BYTES, t)

    @inline
    def multiply_all(n_in, groups, act, gated, residual, out, work, i, n_thread):  # type: ignore[no-untyped-def]
        """Tasks while there are any: two groups of weights times some rows of x."""
        n_tok, n_block = len(out), (n_in + 31) // 32
        next_x, panel = n_block * x_bytes, n_block * panel_bytes
        n_pair = len(groups) // 2 if gated else (len(groups) + 1) // 2
        rows = max(64, min(CACHED // next_x, n_tok * n_pair // (n_thread * 3)) // 32 * 32)
        products = area(n_tok, n_block, work, i)
        panels = products + OUT_BYTES
        while True:
            task = fetch_add(work, 1)
            if task >= n_pair * ((n_tok + rows - 1) // rows):
                break
            g = task % n_pair if gated else task % n_pair * 2
            h = g + n_pair if gated else min(g + 1, len(groups) - 1)
            for k in range(2):
                f = h if k else g
                unpack(groups[f, 0], groups[f, 1], n_block, panels + k * panel)
            halves = groups[g, 0] in HALVES or groups[h, 0] in HALVES
            start = task // n_pair * rows
            for t in range(start, min(start + rows, n_tok), n_row):
                x = work + HEAD_BYTES + t * next_x
                multiply(halves, x, next_x, panels, panels + panel, n_block, products)
                n = min(n_row, n_tok - t)
                if gated:
                    _put_gated(groups, g, h, act, t, n, products, out)
                else:
                    _put_rows(groups, g, act, t, n, products, residual, out)
                    if h > g:
                        _put_rows(groups, h, act, t, n, products + 64, residual, out)

    return prepare, multiply_all


_prepare_amx, _multiply_amx = _arithmetic(64, _put_tiled, TILE_BYTES, panel_bf16, _times_amx, 32)
_prepare_bf16, _multiply_bf16 = _arithmetic(64, _put_bf16, TILE_BYTES, panel_bf16, _times_bf16, 8)
_prepare_int8, _multiply_int8 = _arithmetic(
    INT8_BYTES, _put_int8, PANEL_INT8_BYTES, panel_int8, _times_int8, 4
)
_prepare_f32, _multiply_f32 = _arithmetic(128, _put_f32, 2048, panel_f32, _times_f32, 8)


@parallel_kernel
def many_rows_amx(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """bfloat16 on the matrix unit; all formats but float32."""
    poke_i64(work, 0)
    for i in prange(n_thread):
        _prepare_amx(x, weight, bias, eps, center, work, i, n_thread)
    for i in prange(n_thread):
        start_tiles(work + 64)
        _multiply_amx(x.shape[1], groups, act, gated, residual, out, work, i, n_thread)
        stop_tiles()


@parallel_kernel
def many_rows_bf16(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """bfloat16 dot products; all formats but float32."""
    poke_i64(work, 0)
    for i in prange(n_thread):
        _prepare_bf16(x, weight, bias, eps, center, work, i, n_thread)
    for i in prange(n_thread):
        _multiply_bf16(x.shape[1], groups, act, gated, residual, out, work, i, n_thread)


@parallel_kernel
def many_rows_int8(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """int8 dot products; block formats alone."""
    poke_i64(work, 0)
    for i in prange(n_thread):
        _prepare_int8(x, weight, bias, eps, center, work, i, n_thread)
    for i in prange(n_thread):
        _multiply_int8(x.shape[1], groups, act, gated, residual, out, work, i, n_thread)


@parallel_kernel
def many_rows_f32(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """float32; all formats."""
    poke_i64(work, 0)
    for i in prange(n_thread):
        _prepare_f32(x, weight, bias, eps, center, work, i, n_thread)
    for i in prange(n_thread):
        _multiply_f32(x.shape[1], groups, act, gated, residual, out, work, i, n_thread)


def work_bytes(n_tok: int, n_in: int, n_thread: int) -> int:
    """Scratch memory that any of the kernels is content with."""
    n_block = (n_in + 31) // 32
    return HEAD_BYTES + (n_tok + 31) // 32 * 32 * n_block * 208 + n_thread * (OUT_BYTES + n_block * 4096)


@parallel_kernel
def gate_rows(x, act, out):  # type: ignore[no-untyped-def]
    """act(gate) * up of rows gate | up, where `gated` cannot pair their groups."""
    n_tok, n = out.shape
    for t in prange(n_tok):
        for k in range(0, n, 16):
            left = min(n - k, 16)
            v = activate(act, load_f32_part(at(x, t * 2 * n + k), left))
            put(v * load_f32_part(at(x, t * 2 * n + n + k), left), left, 0, at(out, t * n + k))
