"""A sampler: the chain that a `Sampling` describes, with its dice and all that it remembers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from llm.errors import NonFiniteError, UsageError
from llm.kernels.operands import F32
from llm.sampling import cuts, dice
from llm.sampling.candidates import Candidates, Step, largest
from llm.sampling.penalties import Dry, penalties
from llm.sampling.settings import Sampling
from llm.tokenizer import Tokenizer

KEEP_LIKELIEST = ("top_n_sigma", "top_k", "top_p", "min_p")


@dataclass(frozen=True)
class Logprob:
    """Natural logarithm of a token's probability as the model gave it; `top`: of the likeliest, in order."""

    tok: int
    piece: bytes
    logprob: float
    top: tuple["Logprob", ...] = ()


class Sampler:
    """Chooses the tokens of one answer. `logprobs` has one entry for each, if they are asked for.

    Without a tokenizer there are no DRY, biases, grammar or log probabilities. Raises UsageError for a
    grammar or a biased token that cannot be.
    """

    def __init__(self, sampling: Sampling, tokenizer: Tokenizer | None = None) -> None:
        self.sampling = s = sampling
        self.logprobs: list[Logprob] = []
        self._tokenizer = tokenizer
        self._random = np.random.default_rng(s.seed)
        steps = _steps(s, self._random, tokenizer)
        self._steps = [step for _, step in steps]
        self._n_head = _n_head(s, steps[0][0] if steps else "")
        self._dice = _dice(s)
        self._bias = _bias(s, tokenizer)
        self._matcher = None
        if s.grammar:
            assert tokenizer, "a grammar is about texts"
            self._matcher = s.grammar.matcher(tokenizer)

    def sample(self, logits: F32, history: Sequence[int]) -> int:
        """The next token after `history`, from logits [n_vocab]. Raises NonFiniteError when one is NaN."""
        left = self.left(logits, history)
        p = left.p()
        at = dice.draw(p, self._random)
        self._dice.learn(at, float(p[at]))
        tok = left.token(at)
        if self._matcher:
            self._matcher.accept(tok)
        if self.sampling.logprobs >= 0:
            self.logprobs.append(self._logprob(logits, tok))
        return tok

    def left(self, logits: F32, history: Sequence[int]) -> Candidates:
        """The candidates that the next token is drawn from."""
        likeliest = int(logits.argmax())  # the first NaN when there is one
        if not np.isfinite(logits[likeliest]):
            raise NonFiniteError(f"cannot choose a token: logit {likeliest} is {logits[likeliest]}")
        c = self._possible(logits, history)
        for step in self._steps:
            c = step(c)
        return self._dice.shape(c)

    def _possible(self, logits: F32, history: Sequence[int]) -> Candidates:
        """All tokens, with their biases, but those that a ban or the grammar excludes."""
        if self._bias:
            logits = logits.copy()
            logits[list(self._bias)] += np.array(list(self._bias.values()), np.float32)
        possible = logits > -np.inf
        if self._matcher:
            # To ask for a few tokens is quicker than to go through all; and here the likeliest few will do.
            if self._n_head:
                head = largest(logits, 2 * self._n_head)
                head = self._matcher.first(head[possible[head]], self._n_head)
                if len(head) == self._n_head:
                    return Candidates(logits[head], head, history)
            possible &= self._matcher.allowed(len(logits))
        if possible.all():
            return Candidates(logits, None, history)
        ids = np.flatnonzero(possible)
        if not ids.size:
            raise UsageError("no token is left to choose: the logit biases and the grammar exclude all")
        return Candidates(logits[ids], ids, history)

    def _logprob(self, logits: F32, tok: int) -> Logprob:
        assert self._tokenizer, "what is reported are texts"
        piece, n = self._tokenizer.piece, self.sampling.logprobs
        top = logits.max()
        log_sum = float(top) + math.log(np.exp(logits - top).sum(dtype=np.float64))
        likeliest = largest(logits, n).tolist() if n else []
        entries = [Logprob(i, piece(i, special=True), float(logits[i]) - log_sum) for i in (tok, *likeliest)]
        return replace(entries[0], top=tuple(entries[1:]))


def _steps(s: Sampling, random: np.random.Generator, tokenizer: Tokenizer | None) -> list[tuple[str, Step]]:
    """The steps that change anything, with their names."""
    if s.mirostat:
        return [("temperature", partial(cuts.temperature, t=s.temperature))]
    steps: list[tuple[str, Step]] = []
    for name in s.samplers:
        if name == "temperature" and s.greedy:
            while steps and steps[-1][0] in KEEP_LIKELIEST:  # they would only take time
                steps.pop()
        if step := _step(name, s, random, tokenizer):
            steps.append((name, step))
    return steps


def _n_head(s: Sampling, first: str) -> int:
    """How many of the likeliest are all that a chain which begins with `first` looks at; 0: no limit."""
    if first == "temperature" and s.greedy:
        return 1
    return s.top_k if first == "top_k" else 0


def _step(name: str, s: Sampling, random: np.random.Generator, tokenizer: Tokenizer | None) -> Step | None:
    """A step of the chain, None where its setting means off."""
    step: Step | None = None
    match name:
        case "penalties" if s.penalises:
            step = partial(penalties, s=s)
        case "dry" if s.dries:
            assert tokenizer, "breakers are texts"
            step = Dry(s, tokenizer)
        case "top_n_sigma" if s.top_n_sigma > 0:
            step = partial(cuts.top_n_sigma, n=s.top_n_sigma)
        case "top_k" if s.top_k:
            step = partial(cuts.top_k, k=s.top_k)
        case "typ_p" if s.typical_p < 1:
            step = partial(cuts.typical_p, p=s.typical_p)
        case "top_p" if s.top_p < 1:
            step = partial(cuts.top_p, p=s.top_p)
        case "min_p" if s.min_p > 0:
            step = partial(cuts.min_p, p=s.min_p)
        case "xtc" if s.xtc_probability > 0 and s.xtc_threshold <= 0.5:
            step = partial(cuts.xtc, chance=s.xtc_probability, threshold=s.xtc_threshold, random=random)
        case "temperature" if s.dynatemp_range:
            low, high = max(s.temperature - s.dynatemp_range, 0), s.temperature + s.dynatemp_range
            step = partial(cuts.dynamic_temperature, low=low, high=high, exponent=s.dynatemp_exponent)
        case "temperature" if s.temperature != 1:
            step = partial(cuts.temperature, t=s.temperature)
    return step


def _dice(s: Sampling) -> dice.Dice:
    if s.mirostat:
        return (dice.Mirostat if s.mirostat == 1 else dice.MirostatV2)(s.mirostat_tau, s.mirostat_eta)
    if "adaptive_p" in s.samplers and s.adaptive_target >= 0:
        return dice.AdaptiveP(s.adaptive_target, s.adaptive_decay)
    return dice.Plain()


def _bias(s: Sampling, tokenizer: Tokenizer | None) -> dict[int, float]:
    """token -> what is added to its logit."""
    if not tokenizer:
        assert not s.logit_bias and not s.ignore_eos, "tokens are biased by their number in a vocabulary"
        return {}
    bias: dict[int, float] = {}
    for tok, value in s.logit_bias:
        if not 0 <= tok < tokenizer.n_vocab:
            raise UsageError(f"logit_bias of token {tok}: the model has 0 to {tokenizer.n_vocab - 1}")
        bias[tok] = bias.get(tok, 0.0) + value
    banned = [*tokenizer.suppressed, *(tokenizer.eog if s.ignore_eos else ())]
    return bias | dict.fromkeys(banned, -math.inf)
