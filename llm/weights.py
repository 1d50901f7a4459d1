"""The tensors of a model file, asked for by name; every read is counted, so that none is left over.

`Weights` is a view under a prefix: `w["blk.0"].linear("attn_q")` reads blk.0.attn_q.weight, and its bias
blk.0.attn_q.bias where the file has one. Raises ModelError for a tensor that is missing or has another shape
than the model expects.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from llm.errors import ModelError
from llm.gguf import GGUF, Tensor
from llm.kernels import Kernels
from llm.kernels.operands import F32, Embedding, Linear, Norm, Precision


class Weights:
    """The tensors of `gguf` whose names start with `prefix`, in the form that the kernels `k` want."""

    def __init__(self, gguf: GGUF, k: Kernels, precision: Precision = "auto") -> None:
        self._gguf, self._k, self._precision = gguf, k, precision
        self.path = gguf.path
        self._prefix = ""
        self._read: set[str] = set()

    def __getitem__(self, prefix: str) -> "Weights":
        view = Weights(self._gguf, self._k, self._precision)
        view._prefix, view._read = f"{self._prefix}{prefix}.", self._read
        return view

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor `name` or `name`.weight."""
        full = self._prefix + name
        return full in self._gguf.tensors or f"{full}.weight" in self._gguf.tensors

    def linear(self, *names: str, shape: tuple[int, int] | None = None) -> Linear:
        """The matrices `names`, one below the other, as one [n_out, n_in] (`shape`); zeros for absent biases.

        Dimensions after the first count as one: a convolution's kernel is a matrix too.
        """
        tensors = [self._tensor(f"{name}.weight", shape) for name in names]
        n_in = {_n_in(t) for t in tensors}
        if len(n_in) > 1 or (shape and (sum(t.shape[0] for t in tensors), *n_in) != shape):
            found = " + ".join(str(list(t.shape)) for t in tensors)
            raise self._wrong("|".join(names) + ".weight", found, shape)
        return self._load(tensors, self._biases(names, tensors))

    def qkv(self, shape: tuple[int, int] | None = None) -> Linear:
        """attn_q, attn_k and attn_v below each other, which some files hold as one: attn_qkv."""
        return self.linear(
            *(("attn_qkv",) if "attn_qkv" in self else ("attn_q", "attn_k", "attn_v")), shape=shape
        )

    def experts(self, *names: str, shape: tuple[int, int, int]) -> list[Linear]:
        """A matrix for each expert: its parts of the stacks `names`, one below the other; `shape` of all."""
        stacks = [self._tensor(f"{name}.weight", shape) for name in names]
        n_expert, n_out, n_in = shape
        if any(t.shape[::2] != (n_expert, n_in) for t in stacks) or sum(t.shape[1] for t in stacks) != n_out:
            found = " + ".join(str(list(t.shape)) for t in stacks)
            raise self._wrong("|".join(names) + ".weight", found, shape)
        return [self._load([t.part(e, n_expert, t.shape[1:]) for t in stacks]) for e in range(n_expert)]

    def up_gate(self, name: str) -> Linear:
        """The matrix `name`, whose rows are up | gate, as gate | up: the order of the kernel `gated`."""
        up_gate = self._tensor(f"{name}.weight", None)
        shape = (up_gate.shape[0] // 2, *up_gate.shape[1:])
        up, gate = (up_gate.part(i, 2, shape) for i in range(2))
        return self._load([gate, up])

    def norm(self, name: str, eps: float, *, n: int | None = None, center: bool = False) -> Norm:
        """RMS norm, or layer norm with `center`, of width `n`."""
        shape = (n,) if n else None
        bias = self.array(f"{name}.bias", shape) if f"{name}.bias" in self else None
        return Norm(self.array(f"{name}.weight", shape), eps, bias, center)

    def array(self, name: str, shape: tuple[int, ...] | None = None) -> F32:
        """The tensor of exactly this name, in float32."""
        return self._shaped(name, shape).to_f32()

    def embedding(self, name: str, shape: tuple[int, int] | None = None) -> Embedding:
        """The table [n_vocab, n_embd] (`shape`)."""
        return self._k.load_embedding(self._shaped(f"{name}.weight", shape))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the tensor of exactly this name."""
        return self._tensor(name, None).shape

    def skip(self) -> None:
        """Count all tensors of this view as read: the model does without them."""
        self._read |= {name for name in self._gguf.tensors if name.startswith(self._prefix)}

    def check_all_read(self, apart_from: Iterable[str] = ()) -> None:
        """ModelError when a tensor was never asked for, save those with one of the prefixes `apart_from`."""
        known = tuple(apart_from)
        left = [t for t in self._gguf.tensors if t not in self._read and not t.startswith(known)]
        if left:
            names = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
            arch = self._gguf.architecture
            raise ModelError(
                f"{self._gguf.path}: {len(left)} tensors have no place in architecture {arch}: {names}; "
                "this variant of it is not supported"
            )

    def _load(self, tensors: Sequence[Tensor], bias: F32 | None = None) -> Linear:
        loaded = self._k.load_linear(tensors, bias, self._precision)
        for t in tensors:
            t.forget()  # or the file would stand in memory twice
        return loaded

    def _biases(self, names: Sequence[str], tensors: Sequence[Tensor]) -> F32 | None:
        """The biases of several matrices as one vector; None where no matrix has one."""
        if not any(f"{name}.bias" in self for name in names):
            return None
        return np.concatenate([self._bias(f"{name}.bias", t.shape[0]) for name, t in zip(names, tensors)])

    def _bias(self, name: str, n: int) -> F32:
        """[n]; zeros where there is none. A convolution's may be stored as [n, 1]."""
        if name not in self:
            return np.zeros(n, np.float32)
        bias = self.array(name)
        if bias.size != n:
            raise self._wrong(name, str(list(bias.shape)), (n,))
        return bias.reshape(n)

    def _shaped(self, name: str, shape: tuple[int, ...] | None) -> Tensor:
        tensor = self._tensor(name, shape)
        if shape and tensor.shape != shape:
            raise self._wrong(name, str(list(tensor.shape)), shape)
        return tensor

    def _tensor(self, name: str, shape: tuple[int, ...] | None) -> Tensor:
        """The tensor, marked as read; `shape` is only for the message when it is missing."""
        full = self._prefix + name
        if full not in self._gguf.tensors:
            expected = f", expected with shape {list(shape)}" if shape else ""
            raise ModelError(f"{self._gguf.path}: tensor {full} is missing{expected}")
        self._read.add(full)
        return self._gguf.tensors[full]

    def _wrong(self, name: str, found: str, shape: tuple[int, ...] | None) -> ModelError:
        expected = list(shape) if shape else "rows of one length"
        return ModelError(
            f"{self._gguf.path}: tensor {self._prefix}{name} has shape {found}, expected {expected}"
        )


def _n_in(t: Tensor) -> int:
    """Numbers in a row when all dimensions but the first count as one."""
    n = 1
    for side in t.shape[1:]:
        n *= side
    return n
