"""The compiled products: `few_rows` for decoding, `many_rows_*` for prompts and pictures, one per arithmetic.

All compute act(norm(x) W^T + b) + residual, or act(gate) * up with `gated`, from a table of weight groups,
int64 [n_group, 5]: format, address, first output, number of outputs (16, fewer in a last group), address of
the biases (0: none). With `gated`, group i of the first half holds gates for the outputs of group i of the
second. Operands that are absent are empty arrays. Threads take tasks from a counter, so that a slow one does
not hold up the others. `work` is the address of scratch memory: the counter, x in the form that is
multiplied, and an area for each thread.
"""

from typing import Any

from llm.gguf import GgmlType
from llm.kernels.amx import TILE_BYTES, multiply_tiles, start_tiles, stop_tiles
from llm.kernels.jit import inline, parallel_kernel, prange
from llm.kernels.matmul_ends import INT8_BYTES, activate, bf16_row, int8_row, norm_row, put
from llm.kernels.matmul_pack import pack_row
from llm.kernels.matmul_panels import panel_bf16, panel_f32, panel_int8
from llm.kernels.matmul_rows import product
from llm.kernels.matmul_tiles import (
    PANEL_INT8_BYTES,
    multiply_bf16,
    multiply_f32,
    multiply_int8,
    multiply_int8_in_halves,
)
from llm.kernels.quants import ROWS
from llm.kernels.simd import at, fetch_add, load_f32, load_f32_part, poke_i64, store_f32, zeros_f32

Q6_K = int(GgmlType.Q6_K)  # the one format with two scales in a block
HEAD_BYTES = 128  # of `work`: the counter; at 64 the set-up of the matrix unit
OUT_BYTES = 4096  # of an area: products float32 [32, 32]
CACHED = 1 << 20  # bytes of x that a thread's cache should hold beside a panel


@parallel_kernel
def few_rows(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    n_tok, n_in = x.shape
    n_block = (n_in + 31) // 32
    row_bytes = n_block * (128 + INT8_BYTES)
    w, b = at(weight, 0) if weight.size else 0, at(bias, 0) if bias.size else 0
    for t in range(n_tok):
        row = work + HEAD_BYTES + t * row_bytes
        norm_row(at(x, t * n_in), n_in, w, b, eps, center, row)
        int8_row(row, n_block, row + n_block * 128)
    poke_i64(work, 0)
    for _ in prange(n_thread):
        _few(n_tok, n_block, groups, act, gated, residual, out, work, n_thread)


@inline
def _few(n_tok, n_block, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    n_task = len(groups) // 2 if gated else len(groups)
    each = max(1, n_task // (n_thread * 8))
    while True:
        first = fetch_add(work, each)
        if first >= n_task:
            break
        for g in range(first, min(first + each, n_task)):
            for t in range(n_tok):
                x = work + HEAD_BYTES + t * n_block * (128 + INT8_BYTES)
                v = _group_product(groups, g, x, n_block)
                if gated:
                    v = activate(act, v) * _group_product(groups, g + n_task, x, n_block)
                else:
                    v = activate(act, v)
                to = t * out.shape[1] + groups[g, 2]
                put(v, groups[g, 3], at(residual, to) if residual.size else 0, at(out, to))


@inline
def _group_product(groups, g, x, n_block):  # type: ignore[no-untyped-def]
    v = product(groups[g, 0], groups[g, 1], x, x + n_block * 128, n_block)
    return v + load_f32_part(groups[g, 4], groups[g, 3]) if groups[g, 4] else v


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


def _many(unpack: Any, multiply: Any, n_row: int) -> Any:
    """A thread's work: tasks while there are any, each two groups times rows of x, `n_row` at once."""

    @inline
    def many(x, next_x, panel_bytes, n_block, groups, act, gated, residual, out, work, area, n_thread):  # type: ignore[no-untyped-def]
        n_tok = len(out)
        n_pair = len(groups) // 2 if gated else (len(groups) + 1) // 2
        rows = max(32, min(CACHED // next_x, n_tok * n_pair // (n_thread * 4)) // 32 * 32)
        n_task = n_pair * ((n_tok + rows - 1) // rows)
        panels = area + OUT_BYTES
        while True:
            task = fetch_add(work, 1)
            if task >= n_task:
                break
            g = task % n_pair if gated else task % n_pair * 2
            h = g + n_pair if gated else min(g + 1, len(groups) - 1)
            for i in range(2):
                f = h if i else g
                unpack(groups[f, 0], groups[f, 1], n_block, panels + i * panel_bytes)
            halves = groups[g, 0] == Q6_K or groups[h, 0] == Q6_K
            start = task // n_pair * rows
            for t in range(start, min(start + rows, n_tok), n_row):
                multiply(halves, x + t * next_x, next_x, panels, panels + panel_bytes, n_block, area)
                n = min(n_row, n_tok - t)
                if gated:
                    _put_gated(groups, g, h, act, t, n, area, out)
                else:
                    _put_rows(groups, g, act, t, n, area, residual, out)
                    if h > g:
                        _put_rows(groups, h, act, t, n, area + 64, residual, out)

    return many


_many_amx = _many(panel_bf16, _times_amx, 32)
_many_bf16 = _many(panel_bf16, _times_bf16, 8)
_many_int8 = _many(panel_int8, _times_int8, 4)
_many_f32 = _many(panel_f32, _times_f32, 8)


@inline
def _convert_bf16(x, weight, bias, eps, center, to, step, row, first, last):  # type: ignore[no-untyped-def]
    """Rows first..last of x, bfloat16; tiled 16 rows together where `step` is TILE_BYTES."""
    n_in = x.shape[1]
    n_block = (n_in + 31) // 32
    w, b = at(weight, 0) if weight.size else 0, at(bias, 0) if bias.size else 0
    for t in range(first, last):
        norm_row(at(x, t * n_in), n_in, w, b, eps, center, row)
        if step == TILE_BYTES:
            bf16_row(row, n_block, to + t // 16 * n_block * TILE_BYTES + t % 16 * 64, step)
        else:
            bf16_row(row, n_block, to + t * n_block * 64, step)


@parallel_kernel
def many_rows_amx(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """bfloat16 on the matrix unit; formats but float32."""
    n_block = (x.shape[1] + 31) // 32
    rows, panel, n = work + HEAD_BYTES, n_block * TILE_BYTES, len(x)
    areas, area = rows + (n + 31) // 32 * 32 * n_block * 64, OUT_BYTES + 2 * panel
    poke_i64(work, 0)
    for i in prange(n_thread):
        first, last = i * n // n_thread, (i + 1) * n // n_thread
        _convert_bf16(x, weight, bias, eps, center, rows, TILE_BYTES, areas + i * area, first, last)
    for i in prange(n_thread):
        start_tiles(work + 64)
        _many_amx( rows, n_block * 64, panel, n_block,
            groups, act, gated, residual, out, work, areas + i * area, n_thread,
        )  # fmt: skip
        stop_tiles()


@parallel_kernel
def many_rows_bf16(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """bfloat16 dot products; formats but float32."""
    n_block = (x.shape[1] + 31) // 32
    rows, panel, n = work + HEAD_BYTES, n_block * TILE_BYTES, len(x)
    areas, area = rows + (n + 31) // 32 * 32 * n_block * 64, OUT_BYTES + 2 * panel
    poke_i64(work, 0)
    for i in prange(n_thread):
        first, last = i * n // n_thread, (i + 1) * n // n_thread
        _convert_bf16(x, weight, bias, eps, center, rows, 64, areas + i * area, first, last)
    for i in prange(n_thread):
        _many_bf16( rows, n_block * 64, panel, n_block,
            groups, act, gated, residual, out, work, areas + i * area, n_thread,
        )  # fmt: skip


@parallel_kernel
def many_rows_int8(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """int8 dot products; block formats alone."""
    n_block = (x.shape[1] + 31) // 32
    rows, next_x, panel, n = work + HEAD_BYTES, n_block * INT8_BYTES, n_block * PANEL_INT8_BYTES, len(x)
    areas, area = rows + (n + 31) // 32 * 32 * next_x, OUT_BYTES + 2 * panel
    poke_i64(work, 0)
    for i in prange(n_thread):
        _convert_int8(x, weight, bias, eps, center, rows, areas + i * area, i, n_thread)
    for i in prange(n_thread):
        _many_int8( rows, next_x, panel, n_block,
            groups, act, gated, residual, out, work, areas + i * area, n_thread,
        )  # fmt: skip


@inline
def _convert_int8(x, weight, bias, eps, center, to, row, i, n_thread):  # type: ignore[no-untyped-def]
    n, n_in = x.shape
    n_block = (n_in + 31) // 32
    w, b = at(weight, 0) if weight.size else 0, at(bias, 0) if bias.size else 0
    for t in range(i * n // n_thread, (i + 1) * n // n_thread):
        norm_row(at(x, t * n_in), n_in, w, b, eps, center, row)
        int8_row(row, n_block, to + t * n_block * INT8_BYTES)


@parallel_kernel
def many_rows_f32(x, weight, bias, eps, center, groups, act, gated, residual, out, work, n_thread):  # type: ignore[no-untyped-def]
    """float32; all formats."""
    n_block = (x.shape[1] + 31) // 32
    rows, next_x, panel, n = work + HEAD_BYTES, n_block * 128, n_block * 2048, len(x)
    areas, area = rows + (n + 31) // 32 * 32 * next_x, OUT_BYTES + 2 * panel
    poke_i64(work, 0)
    for i in prange(n_thread):
        _convert_f32(x, weight, bias, eps, center, rows, i, n_thread)
    for i in prange(n_thread):
        _many_f32( rows, next_x, panel, n_block,
            groups, act, gated, residual, out, work, areas + i * area, n_thread,
        )  # fmt: skip


@inline
def _convert_f32(x, weight, bias, eps, center, to, i, n_thread):  # type: ignore[no-untyped-def]
    n, n_in = x.shape
    next_x = (n_in + 31) // 32 * 128
    w, b = at(weight, 0) if weight.size else 0, at(bias, 0) if bias.size else 0
    for t in range(i * n // n_thread, (i + 1) * n // n_thread):
        norm_row(at(x, t * n_in), n_in, w, b, eps, center, to + t * next_x)


def work_bytes(n_tok: int, n_in: int, n_thread: int) -> int:
    """Scratch memory that any of the kernels is content with."""
    n_block = (n_in + 31) // 32
    return HEAD_BYTES + (n_tok + 31) // 32 * 32 * n_block * 176 + n_thread * (OUT_BYTES + n_block * 4096)


@parallel_kernel
def pack_rows(fmt, rows, n_in, groups, group_bytes):  # type: ignore[no-untyped-def]
    """Rows of a file, int64 [n_out] addresses, into groups at `groups`, zeros so far."""
    for g in prange((len(rows) + ROWS - 1) // ROWS):
        for r in range(min(ROWS, len(rows) - g * ROWS)):
            pack_row(fmt, rows[g * ROWS + r], groups + g * group_bytes, r, n_in)


@parallel_kernel
def unpack_rows(fmt, groups, group_bytes, scale, panels, out):  # type: ignore[no-untyped-def]
    """Groups at `groups`, times scale -> out float32 [n, n_in]; panels float32 [n_group, >= n_in, 16]."""
    n, n_in = out.shape
    for g in prange(len(panels)):
        panel_f32(
            fmt, groups + g * group_bytes, panels.shape[1] // 32, at(panels, g * panels.shape[1] * ROWS)
        )
        for r in range(min(ROWS, n - g * ROWS)):
            for k in range(n_in):
                out[g * ROWS + r, k] = panels[g, k, r] * scale


@parallel_kernel
def gate_rows(x, act, out):  # type: ignore[no-untyped-def]
    """act(gate) * up of rows gate | up, where `gated` cannot pair their groups."""
    n_tok, n = out.shape
    for t in prange(n_tok):
        for k in range(0, n, 16):
            left = min(n - k, 16)
            v = activate(act, load_f32_part(at(x, t * 2 * n + k), left))
            put(v * load_f32_part(at(x, t * 2 * n + n + k), left), left, 0, at(out, t * n + k))
