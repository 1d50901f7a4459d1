"""Convolutions as products: the windows of the input, side by side in a matrix, times the weights.

numpy cuts the windows: a kernel was 2.5 times as fast, 1 % of an encoder, for a second of compiling.
"""

from llm.kernels.matmul import linear
from llm.kernels.operands import F32, Act, Linear
from llm.kernels.reference import windows_1d, windows_2d


def conv1d(x: F32, w: Linear, kernel: int, stride: int, pad: int, *, act: Act | None = None) -> F32:
    return linear(windows_1d(x, kernel, stride, pad), w, act=act)


def conv2d(x: F32, w: Linear, kernel: int, stride: int, pad: int, *, act: Act | None = None) -> F32:
    windows = windows_2d(x, kernel, stride, pad)  # [h', w', c_in k k]
    y = linear(windows.reshape(-1, windows.shape[2]), w, act=act)
    return y.reshape(*windows.shape[:2], w.n_out)
