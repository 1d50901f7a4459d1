"""The key-value cache, and the step: one pass of new rows through the layers on top of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from llm.kernels.operands import F32, I32, KvRows, Visible

KvType = Literal["f16", "f32"]


@dataclass(frozen=True)
class Step:
    """Rows row..row+n_tok are entering the cache; the last `n_want` of them want an output (at least one).

    ids  int32 [n_tok], their tokens; 0 for rows of media
    pos  int32 [n_axis, n_tok], their positions
    hi   int32 [n_tok], each sees the cache rows before hi
    kv   the cache, layer by layer
    deep float32 [n_tok, n_embd] each, to add after the first layers: what rows of media bring for these
    """

    ids: I32
    pos: I32
    hi: I32
    row: int
    n_want: int
    kv: Sequence[KvRows]
    deep: Sequence[F32] = ()

    @property
    def n_ctx(self) -> int:
        """Rows that the cache has room for."""
        return len(self.kv[0].k[0])

    def visible(self, window: int = 0) -> Visible:
        """The rows that each new row sees; with `window`, only that many up to and including itself."""
        if not window:
            return Visible(np.zeros_like(self.hi), self.hi)
        return Visible(np.maximum(self._own() - np.int32(window - 1), 0), self.hi)

    def earlier(self) -> Visible:
        """The rows up to and including each new row itself, even where the rows of a block see each other."""
        return Visible(np.zeros_like(self.hi), self._own() + np.int32(1))

    def _own(self) -> I32:
        return np.arange(self.row, self.row + len(self.hi), dtype=np.int32)

    def wanted(self, x: F32, q: F32, visible: Visible) -> tuple[F32, F32, Visible]:
        """Cut down to the rows that want an output; in the last layer nothing needs the others any more."""
        n = self.n_want
        return x[-n:], q[-n:], Visible(visible.lo[-n:], visible.hi[-n:])


def new_cache(shapes: Sequence[tuple[int, int]], n_ctx: int, kind: KvType) -> list[KvRows]:
    """Room for `n_ctx` rows in layers of (n_head_kv, d_head). Untouched rows take no memory."""

    def room(n_head_kv: int, d_head: int) -> NDArray[Any]:
        return np.zeros((n_head_kv, n_ctx, d_head), np.float16 if kind == "f16" else np.float32)

    return [KvRows(room(*shape), room(*shape)) for shape in shapes]
