"""The token loop, and the text that streams out of it."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from llm.context import Context
from llm.kernels.operands import F32
from llm.sampling import Sampler
from llm.span import tokens
from llm.tokenizer import Tokenizer

Finish = Literal["stop", "length", "loop"]


def generate(
    context: Context, logits: F32, sampler: Sampler, history: Sequence[int], n_predict: int = -1
) -> Iterator[int]:
    """Token ids after `logits` [1, n_vocab], those of the context's last row.

    Ends after `n_predict` (-1: any number) or when the context is full. `history` is what penalties look at
    besides the new tokens. The last token given is not in the cache yet.
    """
    history = list(history)
    n = 0
    while n != n_predict:
        tok = sampler.sample(logits[-1], history)
        n += 1
        history.append(tok)
        yield tok
        if context.n_rows == context.n_ctx:
            return
        if n != n_predict:
            logits = context.decode(tokens([tok]))


class StopStrings:
    """Text on its way to the reader, less what may yet turn out to be the start of a stop string.

    The first stop string to be complete ends the text where it starts (of two complete at once, the longer),
    so that the result is the same however the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = sorted({s for s in stops if s}, key=len, reverse=True)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """What may be shown now that `text` has come; nothing more once `stopped`."""
        held = self._held + text
        found = [(held.find(s) + len(s), -len(s)) for s in self._stops if s in held]
        if found:
            end, minus_length = min(found)
            self.stopped, self._held = True, ""
            return held[: end + minus_length]
        n = self._n_held(held)
        self._held = held[len(held) - n :]
        return held[: len(held) - n]

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        text, self._held = self._held, ""
        return text

    def _n_held(self, text: str) -> int:
        """Length of the longest end of `text` with which a stop string starts."""
        longest = len(self._stops[0]) - 1 if self._stops else 0
        for n in range(min(longest, len(text)), 0, -1):
            if any(s.startswith(text[-n:]) for s in self._stops):
                return n
        return 0


class LoopGuard:
    """Notices an answer that goes in circles: `n_tok` tokens in a row, each that of the same distance before.

    Some rows of a table that are alike are no such thing: `n_tok` should be several hundred.
    """

    LONGEST = 64  # of the spans that are repeated

    def __init__(self, n_tok: int) -> None:
        self._n_tok = n_tok
        self._last = np.full(self.LONGEST, -1)  # the last tokens, newest first
        self._run = np.zeros(self.LONGEST, np.intp)  # [p - 1]: tokens in a row that repeat the p-th before

    def push(self, tok: int) -> bool:
        """Whether it is a loop now that `tok` has come."""
        self._run = np.where(self._last == tok, self._run + 1, 0)
        self._last = np.concatenate(([tok], self._last[:-1]))
        return 0 < self._n_tok <= int(self._run.max())


class TextStream:
    """Iterates over an answer's text as it grows; `finish` says why it ended, once it has.

    The model's end-of-generation ids end it without being shown, and so do stop strings that are control
    tokens (as text they would be empty). So does a loop of `loop_guard` tokens, unless that is 0. `ids`
    collects all ids, the last one included.
    """

    def __init__(
        self, ids: Iterator[int], tokenizer: Tokenizer, stops: Sequence[str] = (), loop_guard: int = 0
    ) -> None:
        controls = {
            tok for s in stops if (tok := tokenizer.token_id(s)) is not None and not tokenizer.piece(tok)
        }
        self._stop_ids = tokenizer.eog | controls
        self._ids, self._text, self._stops = ids, tokenizer.stream(), StopStrings(stops)
        self._guard = LoopGuard(loop_guard)
        self.ids: list[int] = []
        self.finish: Finish = "length"

    def __iter__(self) -> Iterator[str]:
        for tok in self._ids:
            self.ids.append(tok)
            if tok in self._stop_ids:
                self.finish = "stop"
                break
            if text := self._stops.push(self._text.push(tok)):
                yield text
            if self._stops.stopped:
                self.finish = "stop"
                return
            if self._guard.push(tok):
                self.finish = "loop"
                break
        rest = self._stops.push(self._text.flush())
        if self._stops.stopped:
            self.finish = "stop"
        if rest := rest + self._stops.flush():
            yield rest
