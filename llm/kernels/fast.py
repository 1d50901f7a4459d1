"""The kernels for use (numba); see `llm.kernels.Kernels` for what each takes and gives."""

from llm.kernels.reference import (
    add,
    attention,
    conv1d,
    conv2d,
    embed,
    gated,
    linear,
    load_embedding,
    load_linear,
    norm,
    patches,
    pixel_shuffle,
    qkv_to_rows,
    set_threads,
    softcap,
)

__all__ = [
    "add",
    "attention",
    "conv1d",
    "conv2d",
    "embed",
    "gated",
    "linear",
    "load_embedding",
    "load_linear",
    "norm",
    "patches",
    "pixel_shuffle",
    "qkv_to_rows",
    "set_threads",
    "softcap",
]
