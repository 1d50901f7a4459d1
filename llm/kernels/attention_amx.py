"""Attention of many queries on Intel's matrix unit, to float32's accuracy.

The unit multiplies bfloat16. A number is split in two of them, x = high + low, and a product is the sum of
high high, high low and low high, which leaves out 2^-18 of it. Keys and values are split once in a call; then
LANES queries at a time go through them in blocks of ROWS, as in `attention_blocks`.
"""

from llm.kernels import half
from llm.kernels.amx import TILE_BYTES, multiply_split_tiles, start_tiles, stop_tiles
from llm.kernels.attention_lanes import (
    cap,
    exp_below,
    hide,
    operands,
    outputs,
    queries,
    transpose,
    widen,
)
from llm.kernels.jit import inline, parallel_kernel, prange
from llm.kernels.simd import (
    as_f32,
    as_i32,
    fetch_add,
    fma,
    load_f32,
    max_f32,
    pack_bf16,
    poke_i64,
    splat_i32,
    store_bf16,
    store_bytes,
    store_f32,
    zeros_f32,
)

LANES = 32  # two tiles
ROWS = 64
SPLIT = 2 * TILE_BYTES  # a tile and that of what bfloat16 leaves


def work_bytes(n_head_kv: int, n_row: int, d: int, n_thread: int) -> int:
    """What `blocks_amx` works in, where n_row rows are seen: counters, keys and values, each thread's."""
    n_split = 2 * n_head_kv * -(-n_row // ROWS) * ROWS * -(-d // 32) * 32
    return 128 + 4 * n_split + n_thread * _thread_bytes.py_func(d)


@inline
def _thread_bytes(d):  # type: ignore[no-untyped-def]
    """Of one thread: queries, outputs, a product, weights, five numbers for each lane; scores or rows."""
    d_pad = (d + 31) // 32 * 32
    return LANES * (8 * d_pad + 4 * 32 + 4 * ROWS + 5 * 4) + 4 * max(ROWS, LANES) * max(LANES, d_pad)


@parallel_kernel
def blocks_amx(q, k, v, width, lo, hi, scale, softcap, out, memory, n_thread, first, stop):  # type: ignore[no-untyped-def]
    """`Kernels.attention`; key and value rows come as `KvRows.bits`.

    memory       an address, with `amx.TILES` 64 bytes on
    first, stop  queries see no rows but these; first is a multiple of ROWS
    """
    work, shape = operands(q, k, v, width, lo, hi, scale, softcap, out)
    n_tok, n_head, n_head_kv, d = shape[0], shape[1], shape[2], shape[4]
    d_pad = (d + 31) // 32 * 32
    n_row = (stop - first + ROWS - 1) // ROWS * ROWS
    poke_i64(memory, 0)
    poke_i64(memory + 8, 0)
    keys = memory + 128
    values = keys + 4 * n_head_kv * n_row * d_pad
    threads = values + 4 * n_head_kv * n_row * d_pad
    n_block = n_head_kv * n_row // ROWS
    for thread in prange(n_thread):
        mine = threads + _thread_bytes(d) * thread
        block = fetch_add(memory, 1)
        while block < n_block:
            _split_rows(work, shape, block, first, stop, keys, values, mine)
            block = fetch_add(memory, 1)
    n_item = (n_tok * (n_head // n_head_kv) + LANES - 1) // LANES * n_head_kv
    for thread in prange(n_thread):
        mine = threads + _thread_bytes(d) * thread
        start_tiles(memory + 64)
        item = fetch_add(memory + 8, 1)
        while item < n_item:
            _lanes(work, shape, n_item - 1 - item, first, n_row, keys, values, mine)  # see attention_blocks
            item = fetch_add(memory + 8, 1)
        stop_tiles()


@inline
def _split_rows(work, shape, block, first, stop, keys, values, rows):  # type: ignore[no-untyped-def]
    """ROWS keys and values as tiles; `rows` is room for them in float32.

    keys    for each head [n_row / 16, d_pad / 32] splits of tiles [16 rows, 32 of d]
    values  for each head [d_pad / 16, n_row / 32] splits of tiles [16 of d, 32 rows]
    """
    k, v, n_all, d, width = work[1], work[2], shape[3], shape[4], shape[5]
    d_pad = (d + 31) // 32 * 32
    n_row = (stop - first + ROWS - 1) // ROWS * ROWS
    h, row = block // (n_row // ROWS), block % (n_row // ROWS) * ROWS
    n = min(ROWS, stop - first - row)
    source = half.size(width, d * (h * n_all + first + row))
    widen(k + source, width, n, ROWS, d, d_pad, rows)
    to = keys + 4 * d_pad * (h * n_row + row)
    for r in range(ROWS):
        for i in range(0, d_pad, 16):
            x = load_f32(rows + 4 * (r * d_pad + i))
            high = _high(x)
            tile = to + SPLIT * (r // 16 * (d_pad // 32) + i // 32) + 64 * (r % 16) + 2 * (i % 32)
            store_bf16(tile, high)
            store_bf16(tile + TILE_BYTES, x - high)
    widen(v + source, width, n, ROWS, d, d_pad, rows)
    for i in range(0, d_pad, 16):
        for r in range(0, ROWS, 32):
            tile = values + 4 * d_pad * h * n_row + SPLIT * (i // 16 * (n_row // 32) + (row + r) // 32)
            for pair in range(16):
                x, to = rows + 4 * ((r + 2 * pair) * d_pad + i), tile + 64 * pair
                x, y = load_f32(x), load_f32(x + 4 * d_pad)
                _store_pairs(x, y, to)
            transpose(tile, 64, tile, 64)
            transpose(tile + TILE_BYTES, 64, tile + TILE_BYTES, 64)


@inline
def _lanes(work, shape, item, first, n_row, keys, values, scratch):  # type: ignore[no-untyped-def]
    """LANES queries of one key-value head through all rows that any of them sees."""
    n_head_kv, d = shape[2], shape[4]
    d_pad = (d + 31) // 32 * 32
    d_tiles = d_pad // 32  # of keys; values have twice as many, half as wide
    h, first_lane = item % n_head_kv, item // n_head_kv * LANES
    keys, values = keys + 4 * n_row * d_pad * h, values + 4 * n_row * d_pad * h
    q = scratch  # bfloat16 pairs, for each 16 lanes [d_tiles] splits
    p = q + 4 * LANES * d_pad  # the same of [ROWS / 32]
    o = p + 4 * LANES * ROWS  # [d_pad, LANES]
    product = o + 4 * LANES * d_pad  # [32, LANES]
    state = product + 4 * LANES * 32
    fade = state + 4 * 4 * LANES
    score = fade + 4 * LANES  # [ROWS, LANES]; before that the queries
    start, stop, all_from, all_to = queries(work, shape, h, first_lane, LANES, d_pad, p, score, state)
    for i in range(0, LANES * d_pad, 16):
        store_f32(o + 4 * i, zeros_f32())
    for i in range(0, d_pad, 2):
        for j in range(0, LANES, 16):
            x = score + 4 * (LANES * i + j)
            _store_query(load_f32(x), load_f32(x + 4 * LANES), q + 4 * d_pad * j, i)
    for row in range(start // ROWS * ROWS, stop, ROWS):
        for i in range(0, ROWS, 32):
            x = keys + SPLIT * d_tiles * ((row - first + i) // 16)
            multiply_split_tiles(x, SPLIT * d_tiles, q, q + 4 * 16 * d_pad, d_tiles, score + 4 * LANES * i)
        if work[6] > 0:
            cap(score, ROWS * LANES, work[6])
        if row < all_from or row + ROWS > all_to:
            hide(score, ROWS, row, LANES, state)
        _softmax(score, state, p, fade)
        for i in range(0, d_pad, 32):
            x = values + SPLIT * (i // 16 * (n_row // 32) + (row - first) // 32)
            multiply_split_tiles(x, SPLIT * (n_row // 32), p, p + 4 * 16 * ROWS, ROWS // 32, product)
            for j in range(0, 32 * LANES, 16):
                at_o = o + 4 * (LANES * i + j)
                faded = fma(load_f32(at_o), load_f32(fade + 4 * (j % LANES)), load_f32(product + 4 * j))
                store_f32(at_o, faded)
    outputs(work, shape, h, first_lane, LANES, d_pad, o, score, state)


@inline
def _softmax(score, state, p, fade):  # type: ignore[no-untyped-def]
    """Scores [ROWS, LANES] -> p = exp(score - maximum) as pairs; fade is what sums so far shrink by."""
    for j in range(0, LANES, 16):
        top, total = state + 4 * j, state + 4 * (LANES + j)
        old = new = load_f32(top)
        for r in range(ROWS):
            new = max_f32(new, load_f32(score + 4 * (LANES * r + j)))
        shrink = exp_below(old, new)
        sums = load_f32(total) * shrink
        for r in range(0, ROWS, 2):
            x = exp_below(load_f32(score + 4 * (LANES * r + j)), new)
            y = exp_below(load_f32(score + 4 * (LANES * (r + 1) + j)), new)
            sums = sums + x + y
            _store_query(x, y, p + 4 * ROWS * j, r)
        store_f32(top, new)
        store_f32(total, sums)
        store_f32(fade + 4 * j, shrink)


@inline
def _store_query(x, y, to, i):  # type: ignore[no-untyped-def]
    """Numbers i and i + 1 of 16 lanes."""
    to += SPLIT * (i // 32) + 64 * (i % 32 // 2)
    _store_pairs(x, y, to)


@inline
def _store_pairs(x, y, to):  # type: ignore[no-untyped-def]
    """Pairs (x, y) into a row of a tile and what bfloat16 leaves of them into the next tile."""
    x_high, y_high = _high(x), _high(y)
    store_bytes(to, pack_bf16(x_high, y_high))
    store_bytes(to + TILE_BYTES, pack_bf16(x - x_high, y - y_high))


@inline
def _high(x):  # type: ignore[no-untyped-def]
    """x rounded to bfloat16."""
    return as_f32((as_i32(x) + splat_i32(0x8000)) & splat_i32(-65536))
