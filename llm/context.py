"""The context: one sequence in the cache, and the one way in, `prefill` and `decode`.

Rows of several spans share a pass through the layers, `n_ubatch` at a time. The context remembers what its
rows hold, token by token and medium by medium, so that the next prompt computes only what differs.
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from llm import session
from llm.cache import KvType
from llm.decoder import Decoder, Part
from llm.kernels.operands import F32
from llm.models import Arch
from llm.slot import Intake, without_items
from llm.span import Span

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]  # rows done, rows to do
Want = Literal["last", "all", "none"]


class Context:
    """A sequence of at most `n_ctx` rows for the model `arch`.

    `n_ctx` 0 means as many as the model was trained for, but at most 32,768: a long answer would otherwise
    fill the memory before it ends. Rows that were never used take no memory.
    """

    def __init__(
        self, arch: Arch, n_ctx: int = 0, n_batch: int = 2048, n_ubatch: int = 512, kv_type: KvType = "f16"
    ) -> None:
        self.arch = arch
        self.n_ctx = n_ctx or min(arch.n_ctx_train, 32768)
        self.n_ubatch = min(n_batch, n_ubatch)
        if self.n_ctx > arch.n_ctx_train:
            log.warning("context of %d rows, but the model was trained for %d", n_ctx, arch.n_ctx_train)
        self._decoder = Decoder(arch, self.n_ctx, kv_type=kv_type)
        (self._slot,) = self._decoder.slots

    @property
    def n_rows(self) -> int:
        """Rows in the cache."""
        return self._slot.n_rows

    def clear(self) -> None:
        self.truncate(0)

    def truncate(self, n_rows: int) -> None:
        """Forget all rows from `n_rows` on; a medium that this would cut goes as a whole."""
        self._slot.truncate(n_rows)

    def drop(self, start: int, stop: int) -> None:
        """Make room: forget the tokens and media that lie whole in rows start..stop, as in a context shift.

        What follows stays as it was computed, and where it was: positions keep the gap. Layers with a window
        see as many rows as before, older ones among them. `prefill` keeps nothing behind the gap.
        """
        self._decoder.drop(self._slot, start, stop)

    def reusable(self, spans: Sequence[Span]) -> int:
        """How many rows of the cache `prefill(spans)` would keep."""
        return self._slot.rows_of(self._slot.common(spans))

    def save(self, path: str | os.PathLike[str], model: str) -> None:
        """Keep the sequence in a file, under `session.fingerprint` of the model. Raises SessionError."""
        session.save(path, self._decoder, self._slot, model)

    def load(self, path: str | os.PathLike[str], model: str) -> None:
        """Have the sequence of a file. Raises SessionError: damaged, too long, of another model."""
        session.load(path, self._decoder, self._slot, model)

    def prefill(self, spans: Sequence[Span], progress: Progress | None = None) -> F32:
        """Make the cache hold exactly `spans`; gives the logits after their last row, [1, n_vocab].

        What the cache holds already is kept, up to the first token or medium that differs. Raises
        ContextError, before any medium is encoded, when the spans do not fit.
        """
        self._slot.check_room(sum(s.n_tok for s in spans))
        same = self._slot.common(spans)
        self._slot.keep(same)
        return self._run(list(without_items(spans, same)), "last", progress)

    def decode(self, span: Span, want: Want = "last") -> F32:
        """Append `span`; gives the logits after the rows wanted, [n_want, n_vocab]. Raises ContextError."""
        self._slot.check_room(self.n_rows + span.n_tok)
        if span.n_tok == 1 and span.ids is not None and want != "none":
            return self._next(span)
        return self._run([span], want, None)

    def _next(self, span: Span) -> F32:
        """Append one token, as most passes do."""
        pieces = [self._slot.next_piece(span)]
        logits = self._decoder.next(pieces)
        self._decoder.check(logits, pieces)
        self._slot.remember(pieces)
        return logits

    def _run(self, spans: Sequence[Span], want: Want, progress: Progress | None) -> F32:
        """Decode `spans` in passes; a pass that fails leaves the cache as it was before."""
        intake, decoder = Intake(self._slot, spans), self._decoder
        n_total = intake.n_left
        out = np.empty((n_total if want == "all" else 0, self.arch.n_vocab), np.float32)
        while intake.n_left:
            taken = intake.take(self.n_ubatch)
            pieces = [p for p, _ in taken]
            n_last = 1 if want == "last" and not intake.n_left else 0
            parts = [Part(p, rows, p.n_tok if want == "all" else 0) for p, rows in taken]
            parts[-1] = Part(*taken[-1], parts[-1].n_want or n_last)
            logits = decoder.run(parts)
            if len(logits):
                decoder.check(logits, pieces)
            done = n_total - intake.n_left
            if want == "all":
                out[done - len(logits) : done] = logits
            elif n_last:
                out = logits
            self._slot.remember(pieces)
            if progress:
                progress(done, n_total)
        return out
