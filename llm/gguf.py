"""GGUF files, read in place through mmap: metadata at once, tensors as views.

Shapes here are row-major, outermost first; the file stores them reversed (`ne`). Source: ggml/docs/gguf.md.
Every length in the file is checked against the bytes that are there before anything is allocated for it.
"""

import mmap
import os
import re
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm.errors import ModelError

U8 = NDArray[np.uint8]


class GgmlType(IntEnum):
    """Tensor formats by their number in the file."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42


# (numbers in a block, bytes of a block)
BLOCK: dict[GgmlType, tuple[int, int]] = {
    GgmlType.F32: (1, 4),
    GgmlType.F16: (1, 2),
    GgmlType.Q4_0: (32, 18),
    GgmlType.Q4_1: (32, 20),
    GgmlType.Q5_0: (32, 22),
    GgmlType.Q5_1: (32, 24),
    GgmlType.Q8_0: (32, 34),
    GgmlType.Q8_1: (32, 36),
    GgmlType.Q2_K: (256, 84),
    GgmlType.Q3_K: (256, 110),
    GgmlType.Q4_K: (256, 144),
    GgmlType.Q5_K: (256, 176),
    GgmlType.Q6_K: (256, 210),
    GgmlType.Q8_K: (256, 292),
    GgmlType.IQ2_XXS: (256, 66),
    GgmlType.IQ2_XS: (256, 74),
    GgmlType.IQ3_XXS: (256, 98),
    GgmlType.IQ1_S: (256, 50),
    GgmlType.IQ4_NL: (32, 18),
    GgmlType.IQ3_S: (256, 110),
    GgmlType.IQ2_S: (256, 82),
    GgmlType.IQ4_XS: (256, 136),
    GgmlType.I8: (1, 1),
    GgmlType.I16: (1, 2),
    GgmlType.I32: (1, 4),
    GgmlType.I64: (1, 8),
    GgmlType.F64: (1, 8),
    GgmlType.IQ1_M: (256, 56),
    GgmlType.BF16: (1, 2),
    GgmlType.TQ1_0: (256, 54),
    GgmlType.TQ2_0: (256, 66),
    GgmlType.MXFP4: (32, 17),
    GgmlType.NVFP4: (64, 36),
    GgmlType.Q1_0: (128, 18),
    GgmlType.Q2_0: (64, 18),
}
_PLAIN = {
    GgmlType.F32: np.float32,
    GgmlType.F16: np.float16,
    GgmlType.F64: np.float64,
    GgmlType.I8: np.int8,
    GgmlType.I16: np.int16,
    GgmlType.I32: np.int32,
    GgmlType.I64: np.int64,
}


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file: `shape` row-major, `data` its raw bytes (a view of the file).

    `type` is a plain int where this version does not know the format; such a tensor can be listed, not read.
    """

    name: str
    type: GgmlType | int
    shape: tuple[int, ...]
    data: U8
    path: str = ""
    file: mmap.mmap | None = None
    begin: int = 0  # of `data` in `file`

    def part(self, i: int, n: int, shape: tuple[int, ...]) -> "Tensor":
        """Number i of `n` equal parts, each of this shape."""
        size = self.data.nbytes // n
        data = self.data[i * size : (i + 1) * size]
        return Tensor(self.name, self.type, shape, data, self.path, self.file, self.begin + i * size)

    def forget(self) -> None:
        """Give back the memory that reading `data` took: the whole pages of the file, which come again."""
        first = -(-self.begin // mmap.PAGESIZE) * mmap.PAGESIZE
        n_bytes = (self.begin + self.data.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
        if self.file and n_bytes > 0 and sys.platform != "win32":
            self.file.madvise(mmap.MADV_DONTNEED, first, n_bytes)

    @property
    def type_name(self) -> str:
        return self.type.name if isinstance(self.type, GgmlType) else f"type {self.type}"

    def to_f32(self) -> NDArray[np.float32]:
        """The whole tensor in float32, shaped. Raises ModelError for a format that cannot be computed."""
        return self._dequantise(self.data).reshape(self.shape)

    def rows_f32(self, ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Rows `ids` of the first axis in float32, [len(ids), n]."""
        rows = self.data.reshape(self.shape[0], -1)[ids]
        return self._dequantise(rows.reshape(-1)).reshape(len(ids), -1)

    def _dequantise(self, raw: U8) -> NDArray[np.float32]:
        kind = self.type
        if kind == GgmlType.BF16:
            return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        if isinstance(kind, GgmlType) and kind in _PLAIN:
            return raw.view(_PLAIN[kind]).astype(np.float32)
        from gguf import GGMLQuantizationType, quants  # slow to import, and most files never need it

        try:
            block = BLOCK[GgmlType(kind)][1]
            rows = quants.dequantize(raw.reshape(-1, block), GGMLQuantizationType(int(kind)))
        except (ValueError, KeyError, NotImplementedError) as e:
            what = f"tensor {self.name} has format {self.type_name}"
            raise ModelError(f"{self.path}: {what}, which cannot be computed") from e
        return np.asarray(rows, np.float32).reshape(-1)


class GGUF:
    """An open file (or set of split files): `meta` key -> value, `tensors` name -> Tensor, in file order.

    Numeric arrays in `meta` are numpy arrays, string arrays lists of str (bytes that are no UTF-8 survive as
    surrogates). Raises ModelError when the file cannot be opened or does not hold what its header says.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.meta: dict[str, object] = {}
        self.tensors: dict[str, Tensor] = {}
        for i, part in enumerate(_parts(self.path)):
            meta, tensors = _Cursor(part).read_file()
            if i == 0:
                self.meta = meta
            twice = self.tensors.keys() & {t.name for t in tensors}
            if twice:
                raise ModelError(f"{part}: tensor {sorted(twice)[0]} stands in two parts of the split file")
            self.tensors.update((t.name, t) for t in tensors)

    @property
    def architecture(self) -> str:
        return str(self.meta.get("general.architecture", ""))

    @cached_property
    def n_bytes(self) -> int:
        return sum(t.data.nbytes for t in self.tensors.values())


def _parts(path: str) -> Sequence[str]:
    """All files of a split model whose first part is `path`; just `path` when it is not split."""
    m = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.gguf", path, re.DOTALL)
    if not m:
        return [path]
    stem, no, count = m[1], int(m[2]), int(m[3])
    names = [f"{stem}-{i:05}-of-{count:05}.gguf" for i in range(1, count + 1)]
    if no != 1 and Path(names[0]).exists():
        raise ModelError(f"{path} is part {no} of {count}: give the first part, {names[0]}")
    missing = [n for n in names if not Path(n).exists()]
    if missing and Path(path).exists():
        raise ModelError(f"{path}: part {missing[0]} of the split model is missing")
    return names


_SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_U64 = struct.Struct("<Q")


class _Cursor:
    """Reads a GGUF header front to back; every step is checked against the end of the file."""

    def __init__(self, path: str) -> None:
        self.path, self.pos = path, 0
        try:
            with open(path, "rb") as f:
                self.size = os.fstat(f.fileno()).st_size
                if self.size < 24:
                    raise ModelError(f"{path} is no GGUF file: it has only {self.size} bytes")
                self.buf = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as e:
            raise ModelError(f"cannot open model file {path}: {e.strerror}") from e

    def read_file(self) -> tuple[dict[str, object], list[Tensor]]:
        magic = self.buf[:4]
        if magic != b"GGUF":
            raise ModelError(f"{self.path} is no GGUF file: it starts with {magic!r}, expected b'GGUF'")
        self.pos = 4
        version = self.scalar("I")
        if version not in (2, 3):
            swapped = struct.unpack(">I", struct.pack("<I", version))[0]
            kind = "big-endian" if swapped in (2, 3) else f"version {version}"
            raise ModelError(f"{self.path}: {kind} GGUF is not supported, only little-endian version 2 and 3")
        n_tensors, n_kv = self.count(24, "tensors"), self.count(13, "metadata keys")
        meta: dict[str, object] = {}
        for _ in range(n_kv):
            key = self.string()
            if key in meta:
                raise self.broken(f"metadata key {key!r} stands twice")
            meta[key] = self.value(self.scalar("I"))
        infos = [self.tensor_info() for _ in range(n_tensors)]
        alignment = meta.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
            raise self.broken(f"general.alignment is {alignment!r}, expected a multiple of 8")
        start = -(-self.pos // alignment) * alignment
        raw = np.frombuffer(self.buf, np.uint8)
        tensors = [self.tensor(raw, start, alignment, *info) for info in infos]
        names = {t.name for t in tensors}
        if len(names) < len(tensors):
            raise self.broken("two tensors have the same name")
        return meta, tensors

    def tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.string()
        n_dims = self.scalar("I")
        if not 0 <= n_dims <= 4:
            raise self.broken(f"tensor {name!r} has {n_dims} dimensions, at most 4 are possible")
        ne = tuple(self.scalar("Q") for _ in range(n_dims))
        return name, ne[::-1], self.scalar("I"), self.scalar("Q")

    def tensor(
        self, raw: U8, start: int, alignment: int, name: str, shape: tuple[int, ...], kind: int, offset: int
    ) -> Tensor:
        if any(n == 0 for n in shape) or offset % alignment:
            raise self.broken(f"tensor {name!r} has shape {shape} at offset {offset}")
        try:
            kind = GgmlType(kind)
        except ValueError:
            return Tensor(name, kind, shape, raw[:0], self.path)
        per_block, block_bytes = BLOCK[kind]
        n = 1
        for side in shape:
            n *= side
        if shape and shape[-1] % per_block:
            raise self.broken(f"tensor {name!r}: rows of {shape[-1]} are no multiple of {per_block}")
        n_bytes = n // per_block * block_bytes
        begin = start + offset
        if begin + n_bytes > self.size:
            end = f"tensor {name!r} ends at byte {begin + n_bytes}, the file has {self.size}"
            raise self.broken(f"{end}: incomplete download?")
        return Tensor(name, kind, shape, raw[begin : begin + n_bytes], self.path, self.buf, begin)

    def value(self, kind: int) -> object:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            item = self.scalar("I")
            if item == _STRING:
                return self.strings(self.count(8, "strings"))
            if item == _ARRAY:
                n = self.count(12, "arrays")
                return [self.value(_ARRAY) for _ in range(n)]
            dtype = np.dtype("<" + self.format(item))
            data = self.take(self.count(dtype.itemsize, "array items") * dtype.itemsize)
            return np.frombuffer(data, dtype)
        return self.scalar(self.format(kind))

    def format(self, kind: int) -> str:
        if kind not in _SCALAR:
            raise self.broken(f"unknown metadata type {kind}")
        return _SCALAR[kind]

    def scalar(self, fmt: str) -> int:
        n = struct.calcsize("<" + fmt)
        value: int = struct.unpack("<" + fmt, self.take(n))[0]
        return value

    def count(self, least: int, what: str) -> int:
        """A 64-bit count of things that take at least `least` bytes each."""
        n = self.scalar("Q")
        if n * least > self.size - self.pos:
            raise self.broken(f"{n} {what} do not fit its {self.size} bytes: incomplete download?")
        return n

    def string(self) -> str:
        return self.take(self.count(1, "characters")).decode("utf-8", "surrogateescape")

    def strings(self, n: int) -> list[str]:
        """`n` strings; the loop that decides how long a vocabulary of 262 k takes to open."""
        buf, pos, size, length = self.buf, self.pos, self.size, _U64.unpack_from
        out = []
        for _ in range(n):
            if pos + 8 > size:
                raise self.broken("it ends within an array of strings")
            end = pos + 8 + length(buf, pos)[0]
            if end > size:
                raise self.broken("a string is longer than the file")
            out.append(buf[pos + 8 : end].decode("utf-8", "surrogateescape"))
            pos = end
        self.pos = pos
        return out

    def take(self, n: int) -> bytes:
        if n > self.size - self.pos:
            raise self.broken("it ends within its header: incomplete download?")
        data = self.buf[self.pos : self.pos + n]
        self.pos += n
        return data

    def broken(self, why: str) -> ModelError:
        return ModelError(f"{self.path} is a broken GGUF file: {why}")
