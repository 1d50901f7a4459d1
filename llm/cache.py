"""The key-value cache, and the step: one pass of new rows through the layers on top of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llm.errors import UsageError
from llm.kernels.operands import F32, I32, KvRows, Rope, Visible
from llm.rope import RopeTable

KvType = Literal["f32", "f16", "bf16", "q8_0"]
PACKED = {"bf16": 16, "q8_0": 32}  # numbers that are kept together


Arrays = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Step:
    """New rows are entering the cache; the last `n_want` of them want an output (at least one).

    ids   int32 [n_tok], their tokens; 0 for rows of media
    pos   int32 [n_axis, n_tok], their positions
    at    int32 [n_tok], the cache rows that they enter
    lo    int32 [n_tok], the first cache row of the sequence that each belongs to
    hi    int32 [n_tok], each sees the cache rows before hi
    kv    the cache, layer by layer
    n_ctx the most rows that a sequence can have
    deep  float32 [n_tok, n_embd] each, to add after the first layers: what rows of media bring for these

    What a model derives from these it gets from here. When the step moves on to other rows, these arrays and
    those derived stay the same ones with other numbers in them, so that a recorded pass can be played again.
    """

    ids: I32
    pos: I32
    at: I32
    lo: I32
    hi: I32
    n_want: int
    kv: Sequence[KvRows]
    n_ctx: int
    deep: Sequence[F32] = ()
    _derived: dict[object, tuple[Callable[["Step"], Arrays], Arrays]] = field(default_factory=dict)

    def visible(self, window: int = 0) -> Visible:
        """The rows that each new row sees; with `window`, only that many up to and including itself."""
        if not window:
            return Visible(self.lo, self.hi)
        (lo,) = self.derived(window, lambda s: (np.maximum(s.at - np.int32(window - 1), s.lo),))
        return Visible(lo, self.hi)

    def earlier(self) -> Visible:
        """The rows up to and including each new row itself, even where the rows of a block see each other."""
        (hi,) = self.derived("earlier", lambda s: (s.at + np.int32(1),))
        return Visible(self.lo, hi)

    def rope(self, table: RopeTable) -> Rope:
        """The rotation at the positions of the rows."""
        cos, sin = self.derived(id(table), lambda s: table.at(s.pos))
        return Rope(cos, sin, table.kind)

    def derived(self, name: object, make: Callable[["Step"], Arrays]) -> Arrays:
        """What `make` gives for this step, computed once; the same `name` stands for the same arrays."""
        if name not in self._derived:
            self._derived[name] = make, make(self)
        return self._derived[name][1]

    def move(self, ids: ArrayLike, pos: ArrayLike, at: ArrayLike, lo: ArrayLike, hi: ArrayLike) -> None:
        """On to other rows, as many as these."""
        self.ids[...], self.pos[...], self.at[...], self.lo[...], self.hi[...] = ids, pos, at, lo, hi
        for make, arrays in self._derived.values():
            for old, new in zip(arrays, make(self)):
                old[...] = new

    def wanted(self, x: F32, q: F32, visible: Visible) -> tuple[F32, F32, Visible]:
        """Cut down to the rows that want an output; in the last layer nothing needs the others any more."""
        n = self.n_want
        return x[-n:], q[-n:], Visible(visible.lo[-n:], visible.hi[-n:])


Shape = tuple[int, int] | int  # of a layer's rows: n_head_kv and d_head, or the numbers of a state


def new_cache(shapes: Sequence[Shape], n_ctx: int, kind: KvType) -> list[KvRows]:
    """Room for `n_ctx` rows in layers of these shapes. Untouched rows take no memory.

    A state is kept as keys [1, n_ctx, n], in float16 at least. Raises UsageError where heads do not fit the
    kind.
    """

    def room(n_head_kv: int, d_head: int) -> NDArray[Any]:
        unit = PACKED.get(kind, 1)
        if d_head % unit:
            found = f"heads of this model have {d_head} numbers"
            raise UsageError(f"cache type {kind} takes multiples of {unit}, {found}: use -ctk f16 -ctv f16")
        match kind:
            case "f16" | "f32":
                return np.zeros((n_head_kv, n_ctx, d_head), np.float16 if kind == "f16" else np.float32)
            case "bf16":
                return np.zeros((n_head_kv, n_ctx, d_head), np.uint16)
            case "q8_0":
                return np.zeros((n_head_kv, n_ctx, d_head // 32 * 34), np.uint8)

    def state(d: int) -> KvRows:
        rows = np.zeros((1, n_ctx, d), np.float32 if kind == "f32" else np.float16)
        return KvRows(rows, rows[:, :, :0])

    return [state(s) if isinstance(s, int) else KvRows(room(*s), room(*s)) for s in shapes]
