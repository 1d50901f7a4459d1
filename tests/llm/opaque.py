"""Activations that refuse arithmetic: proof that models only move them about and call kernels.

`OpaqueKernels(k)` is a kernels object like `k` whose results are `Opaque` arrays. An `Opaque` knows its shape
and length and can be reshaped, transposed and sliced; anything else that numpy or an operator would do with
it raises. Kernels get the arrays inside. Run a tiny model on it, and look inside the results with `bare`.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from llm.kernels import Kernels


class Opaque:
    """An array whose numbers can be moved about, and nothing else."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    def __len__(self) -> int:
        return len(self._array)

    def reshape(self, *shape: int) -> "Opaque":
        return Opaque(self._array.reshape(*shape))

    def transpose(self, *axes: int) -> "Opaque":
        return Opaque(self._array.transpose(*axes))

    def __getitem__(self, index: Any) -> "Opaque":
        for i in index if isinstance(index, tuple) else (index,):
            assert i is None or i is ... or isinstance(i, int | slice), f"not a slice: {i!r}"
        return Opaque(self._array[index])

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("models leave arithmetic to kernels")

    # numpy asks for these before it does anything with a foreign object
    __array__ = __array_ufunc__ = __array_function__ = _refuse
    __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __imul__ = _refuse
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __neg__ = __setitem__ = __iter__ = (
        _refuse
    )


def bare(x: Any) -> Any:
    """The array inside; what is no `Opaque` as it is."""
    return x._array if isinstance(x, Opaque) else x


class OpaqueKernels:
    """Kernels `k` whose results are opaque."""

    def __init__(self, k: Kernels) -> None:
        self._k = k

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kernel = getattr(self._k, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = kernel(*map(bare, args), **{key: bare(value) for key, value in kwargs.items()})
            return Opaque(result) if isinstance(result, np.ndarray) else result

        return call
