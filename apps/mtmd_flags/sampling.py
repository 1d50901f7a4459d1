"""From flags to a `Sampling`: llama.cpp's names and letters of samplers, logit biases, the grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm.errors import UsageError
from llm.grammar import Grammar, Kind
from llm.sampling import Sampling
from mtmd_flags.options import SamplingOptions
from mtmd_flags.texts import read_text

LETTERS = {
    "e": "penalties", "d": "dry", "s": "top_n_sigma", "k": "top_k", "y": "typ_p", "p": "top_p", "m": "min_p",
    "x": "xtc", "t": "temperature", "a": "adaptive_p",
}  # fmt: skip
ALIASES = {"nucleus": "top_p", "temp": "temperature", "typ": "typ_p"}
SAME = (
    "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n", "presence_penalty",
    "frequency_penalty", "dynatemp_range", "dynatemp_exponent", "top_n_sigma", "typical_p", "xtc_probability",
    "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_last_n", "mirostat",
    "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay", "ignore_eos",
)  # fmt: skip


def sampling_of(options: SamplingOptions, logprobs: int = -1) -> Sampling:
    """How tokens are chosen; `logprobs` is that of `Sampling`.

    Raises UsageError for what cannot be, InputError for an unreadable file.
    """
    default = Sampling()
    same = {name: value for name, value in vars(options).items() if name in SAME}
    return Sampling(
        **same,
        logprobs=logprobs,
        seed=options.seed if options.seed >= 0 else None,
        samplers=_samplers(options) or default.samplers,
        dry_breakers=_breakers(options.dry_breakers) if options.dry_breakers else default.dry_breakers,
        logit_bias=tuple(_bias(value) for value in options.logit_bias),
        grammar=_grammar(options),
    )


def _samplers(options: SamplingOptions) -> tuple[str, ...]:
    if options.samplers is not None and options.sampler_seq is not None:
        raise UsageError("--samplers and --sampler-seq both give the order; use one")
    if options.samplers is not None:
        names = [name.strip().lower().replace("-", "_") for name in options.samplers.split(";")]
        full = {name.replace("_", ""): name for name in LETTERS.values()} | ALIASES
        return tuple(full.get(name.replace("_", ""), name) for name in names if name)
    letters = options.sampler_seq or ""
    for letter in letters:
        if letter not in LETTERS:
            known = ", ".join(f"{key} {name}" for key, name in LETTERS.items())
            raise UsageError(f"--sampler-seq: {letter!r} stands for no sampler; {known}")
    return tuple(LETTERS[letter] for letter in letters)


def _breakers(given: tuple[str, ...]) -> tuple[str, ...]:
    """Those after the last "none"."""
    kept: list[str] = []
    for text in given:
        kept = [] if text == "none" else [*kept, text]
    return tuple(kept)


def _bias(value: str) -> tuple[int, float]:
    """15043+1, 15043-0.5, 15043-inf."""
    m = re.fullmatch(r"(\d+)([+-](?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|inf))", value.strip())
    if not m:
        raise UsageError(
            f"--logit-bias {value}: expected a token's number and its bias, as 15043+1 or 15043-inf"
        )
    return int(m[1]), float(m[2])


def _grammar(options: SamplingOptions) -> Grammar | None:
    found = list(_grammars(options))
    if len(found) > 1:
        raise UsageError("more than one grammar or schema is given; use one")
    return found[0] if found else None


def _grammars(options: SamplingOptions) -> Iterator[Grammar]:
    texts: list[tuple[Kind, str | None]] = [
        ("gbnf", options.grammar),
        ("json_schema", options.json_schema),
        ("regex", options.regex),
        ("lark", options.lark),
    ]
    files: list[tuple[Kind, str | None]] = [
        ("gbnf", options.grammar_file),
        ("json_schema", options.json_schema_file),
        ("lark", options.lark_file),
    ]
    for kind, text in [*texts, *((kind, path if path is None else read_text(path)) for kind, path in files)]:
        if text is not None:  # the mark by which llama.cpp knows Lark inside --grammar
            yield Grammar("lark" if kind == "gbnf" and text.startswith("%llguidance") else kind, text)
