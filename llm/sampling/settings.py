"""What can be set about sampling, and which values make sense."""

import math
from dataclasses import dataclass

from llm.errors import UsageError
from llm.grammar import Grammar

INF = math.inf
SAMPLERS = (
    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
)  # fmt: skip
KNOWN = (*SAMPLERS, "adaptive_p")

RANGES: dict[str, tuple[float, float]] = {
    "temperature": (-INF, 1e6),
    "top_k": (0, INF),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (1e-6, 1e6),
    "repeat_last_n": (-1, INF),
    "frequency_penalty": (-1e6, 1e6),
    "presence_penalty": (-1e6, 1e6),
    "dynatemp_range": (0, 1e6),
    "dynatemp_exponent": (0, 1e6),
    "top_n_sigma": (-INF, 1e6),
    "typical_p": (0, 1),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "dry_multiplier": (0, 1e6),
    "dry_base": (1, 1e6),
    "dry_allowed_length": (0, INF),
    "dry_last_n": (-1, INF),
    "mirostat": (0, 2),
    "mirostat_tau": (0, 1e3),
    "mirostat_eta": (0, 1e3),
    "adaptive_target": (-INF, 1),
    "adaptive_decay": (0, 0.99),
    "logprobs": (-1, 1000),
}


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Raises UsageError for a value out of range.

    temperature        0 (or less): always the likeliest token
    top_k              only the k likeliest (0: all)
    top_p              only the likeliest that together have this probability (1: all)
    min_p              only those at least this fraction as likely as the likeliest (0: all)
    repeat_penalty     divides the logits of recent tokens (1: off)
    repeat_last_n      how many tokens are recent (0: none, -1: all)
    frequency_penalty  taken from a recent token's logit for each time it occurred (0: off)
    presence_penalty   taken once (0: off)
    seed               the same seed gives the same tokens; None: another one each time
    dynatemp_range     the temperature moves by as much around `temperature`, up where the model is unsure
    dynatemp_exponent  how: it goes with the entropy (as a share of the largest) to this power
    top_n_sigma        only logits within so many standard deviations of the largest (0 or less: all)
    typical_p          only tokens about as surprising as expected, that have this probability (1: all)
    xtc_probability    how often the likeliest are left out, all but the last of those that
    xtc_threshold      have this probability
    dry_multiplier     taken from the logit of a token that would make a repetition longer (0: off), times
    dry_base           this to the power of the repetition's length beyond
    dry_allowed_length this
    dry_last_n         how many tokens are searched for repetitions (0: none, -1: all)
    dry_breakers       texts at which a repetition ends
    mirostat           1 or 2: versions of mirostat, which keeps the surprise near `mirostat_tau` bits and
                       corrects by `mirostat_eta`; only the temperature comes before it (0: off)
    adaptive_target    prefer tokens near this probability (below 0: off); wants "adaptive_p" in `samplers`
    adaptive_decay     how much of what was chosen before counts for it
    samplers           what is applied, in this order
    logit_bias         (token, what is added to its logit), -inf bans it
    ignore_eos         never end the answer
    logprobs           report log probabilities of each token and so many of the likeliest (-1: none)
    grammar            what the answer has to match
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_n_sigma: float = -1.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_last_n: int = 64
    dry_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    samplers: tuple[str, ...] = SAMPLERS
    logit_bias: tuple[tuple[int, float], ...] = ()
    ignore_eos: bool = False
    logprobs: int = -1
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        values = vars(self)
        for name, (low, high) in RANGES.items():
            check(name, values[name], low, high)
        if self.seed is not None:
            check("seed", self.seed, 0, 2**64 - 1)
        for tok, bias in self.logit_bias:
            check(f"logit_bias of token {tok}", bias, -INF, 1e6)
        for name in self.samplers:
            if name not in KNOWN:
                raise UsageError(f"sampler {name!r} is unknown, expected some of {', '.join(KNOWN)}")
        if self.adaptive_target >= 0 and "adaptive_p" not in self.samplers:
            raise UsageError("adaptive_target does nothing unless samplers include adaptive_p")
        if self.ignore_eos and self.grammar:
            raise UsageError("ignore_eos and a grammar are at odds: its answers have to end")

    @property
    def penalises(self) -> bool:
        off = self.repeat_penalty == 1 and not self.frequency_penalty and not self.presence_penalty
        return self.repeat_last_n != 0 and not off

    @property
    def dries(self) -> bool:
        return bool(self.dry_multiplier and self.dry_last_n)

    @property
    def looks_back(self) -> bool:
        """Whether what was said before has a say in what comes next."""
        return self.penalises or self.dries

    @property
    def greedy(self) -> bool:
        return self.temperature <= 0 and not self.dynatemp_range


def check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # false for NaN too
        raise UsageError(f"{name} is {value}, expected {low:g} to {high:g}")
