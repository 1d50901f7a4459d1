"""The kernels for use (numba); see `llm.kernels.Kernels` for what each takes and gives."""

from llm.kernels.attention import attention
from llm.kernels.conv import conv1d, conv2d
from llm.kernels.elementwise import add, mul, scale, softcap
from llm.kernels.experts import experts
from llm.kernels.jit import cache_is_cold
from llm.kernels.matmul import embed, gated, linear, load_embedding, load_linear
from llm.kernels.norm import norm
from llm.kernels.reference import patches, pixel_shuffle  # numpy is fast enough
from llm.kernels.rope import qkv_to_rows
from llm.kernels.short_conv import short_conv
from llm.kernels.tasks import record
from llm.kernels.threads import set_threads

__all__ = [
    "add",
    "attention",
    "cache_is_cold",
    "conv1d",
    "conv2d",
    "embed",
    "experts",
    "gated",
    "linear",
    "load_embedding",
    "load_linear",
    "mul",
    "norm",
    "patches",
    "pixel_shuffle",
    "qkv_to_rows",
    "record",
    "scale",
    "set_threads",
    "short_conv",
    "softcap",
]
