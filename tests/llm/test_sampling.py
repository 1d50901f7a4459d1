from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.errors import NonFiniteError, UsageError
from llm.grammar import Grammar
from llm.kernels.operands import F32
from llm.sampling import Sampler, Sampling, cuts
from llm.sampling.candidates import Candidates
from llm.sampling.settings import RANGES, SAMPLERS
from llm.tokenizer import Tokenizer


def logits_of(*p: float) -> F32:
    """Logits of probabilities."""
    return np.log(np.array(p, np.float32))


def drawn(logits: F32, n: int = 200, history: tuple[int, ...] = (), **options: Any) -> set[int]:
    """Which tokens come up at all."""
    sampler = Sampler(
        Sampling(**{"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 7, **options})
    )
    return {sampler.sample(logits, history) for _ in range(n)}


FIVE = logits_of(0.1, 0.4, 0.05, 0.25, 0.2)


def test_greedy_takes_the_first_maximum() -> None:
    assert Sampler(Sampling(temperature=0)).sample(np.array([1, 3, 3], np.float32), []) == 1
    assert Sampler(Sampling(temperature=-1)).sample(np.array([4, 3, 3], np.float32), []) == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {0, 1, 2, 3, 4}),
        ({"top_k": 1}, {1}),
        ({"top_k": 3}, {1, 3, 4}),
        ({"top_k": 99}, {0, 1, 2, 3, 4}),
        ({"top_p": 0.0}, {1}),
        ({"top_p": 0.4}, {1}),
        ({"top_p": 0.41}, {1, 3}),
        ({"top_p": 0.9}, {0, 1, 3, 4}),
        ({"min_p": 0.2}, {0, 1, 3, 4}),
        ({"min_p": 0.6}, {1, 3}),
        ({"min_p": 1.0}, {1}),
        ({"top_k": 2, "top_p": 0.6}, {1}),  # of the two left, the first has 0.62
        ({"top_p": 0.8, "min_p": 0.2}, {1, 3, 4}),
        ({"temperature": 1e-3}, {1}),
        ({"temperature": 1e-40}, {1}),
    ],
)
def test_what_is_left(options: dict[str, float], expected: set[int]) -> None:
    assert drawn(FIVE, **options) == expected


def test_frequencies_follow_probabilities_and_temperature() -> None:
    for temperature, p in (
        (1.0, [0.1, 0.4, 0.05, 0.25, 0.2]),
        (0.5, [0.0357, 0.5714, 0.0089, 0.2232, 0.1429]),
    ):
        sampler = Sampler(Sampling(temperature=temperature, top_k=0, top_p=1, min_p=0, seed=3))
        n = np.bincount([sampler.sample(FIVE, []) for _ in range(4000)], minlength=5)
        np.testing.assert_allclose(n / 4000, p, atol=0.03)


def test_temperature_comes_last() -> None:
    """A cut before the temperature: a very high one cannot bring back what top-p removed."""
    assert drawn(FIVE, temperature=100.0, top_p=0.41) == {1, 3}


def test_seed() -> None:
    def run(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.5, seed=seed))
        return [sampler.sample(FIVE, []) for _ in range(50)]

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert run(None) != run(None)


def test_repeat_penalty_divides_positive_and_multiplies_negative_logits() -> None:
    logits = np.array([2.0, 1.5, -0.5, -0.8], np.float32)
    greedy = {"temperature": 0.0, "repeat_penalty": 2.0}
    assert drawn(logits, 1, (0,), **greedy) == {1}
    assert drawn(np.array([-0.5, -0.8], np.float32), 1, (0,), **greedy) == {1}


def test_recent_tokens_are_the_last_n() -> None:
    logits = np.array([2.0, 1.5, 1.2], np.float32)
    history = (0, *[2] * 64)
    greedy = {"temperature": 0.0, "repeat_penalty": 1.9}
    assert drawn(logits, 1, history, **greedy) == {0}
    assert drawn(logits, 1, history, repeat_last_n=-1, **greedy) == {1}
    assert drawn(logits, 1, (0, 2), repeat_last_n=2, **greedy) == {1}
    assert drawn(logits, 1, (0,), repeat_last_n=0, **greedy) == {0}


def test_frequency_counts_and_presence_does_not() -> None:
    logits = np.array([2.0, 1.0], np.float32)
    assert drawn(logits, 1, (0,), temperature=0.0, frequency_penalty=0.6) == {0}
    assert drawn(logits, 1, (0, 0), temperature=0.0, frequency_penalty=0.6) == {1}
    assert drawn(logits, 1, (0, 0), temperature=0.0, presence_penalty=0.6) == {0}
    assert drawn(logits, 1, (0,), temperature=0.0, presence_penalty=1.1) == {1}


def test_penalties_leave_the_logits_alone() -> None:
    logits = FIVE.copy()
    drawn(logits, 1, (1, 2), repeat_penalty=1.3)
    np.testing.assert_array_equal(logits, FIVE)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_never_a_token_from_what_is_no_number_b082(bad: float) -> None:
    for temperature in (0.0, 0.8):
        logits = np.array([0.5, bad, 1.0], np.float32)
        with pytest.raises(NonFiniteError, match="logit 1"):
            Sampler(Sampling(temperature=temperature)).sample(logits, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 1.5),
        ("min_p", -0.1),
        ("repeat_penalty", 0.0),
        ("repeat_last_n", -2),
        ("frequency_penalty", float("inf")),
        ("seed", -1),
    ],
)
def test_values_out_of_range(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is {value}"):
        Sampling(**{name: value})  # type: ignore[arg-type]


@given(st.integers(0, 2**32), st.sampled_from([60, 999, 4000]), st.integers(1, 50))
def test_top_k_by_groups_equals_sorting(seed: int, n_vocab: int, k: int) -> None:
    logits = np.random.default_rng(seed).standard_normal(n_vocab).astype(np.float32)
    expected = set(np.argsort(-logits)[:k].tolist())
    assert drawn(logits, 30, top_k=k) <= expected
    assert drawn(logits, 300, top_k=min(k, 3), temperature=50.0) == set(
        np.argsort(-logits)[: min(k, 3)].tolist()
    )


@pytest.mark.parametrize("min_p", [0.0, 0.02])
def test_without_top_k_it_is_as_with_all(min_p: float) -> None:
    """Leaving out what min-p drops before sorting changes nothing about top-p."""
    logits = np.random.default_rng(1).standard_normal(3000).astype(np.float32) * 3
    options = {"top_p": 0.7, "min_p": min_p, "seed": 5, "temperature": 1.3}
    a = Sampler(Sampling(top_k=0, **options))  # type: ignore[arg-type]
    b = Sampler(Sampling(top_k=2999, **options))  # type: ignore[arg-type]
    assert [a.sample(logits, []) for _ in range(100)] == [b.sample(logits, []) for _ in range(100)]


def random_logits(seed: int, n_vocab: int, spread: float) -> F32:
    return (np.random.default_rng(seed).standard_normal(n_vocab) * spread).astype(np.float32)


settings_of_all = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
        "top_k": st.integers(0, 60),
        "top_p": st.floats(0, 1),
        "min_p": st.floats(0, 1),
        "typical_p": st.floats(0, 1),
        "top_n_sigma": st.floats(-1, 4),
        "xtc_probability": st.floats(0, 1),
        "xtc_threshold": st.floats(0, 1),
        "dynatemp_range": st.floats(0, 2),
        "dynatemp_exponent": st.floats(0, 3),
        "repeat_penalty": st.floats(0.5, 2),
        "frequency_penalty": st.floats(-2, 2),
        "presence_penalty": st.floats(-2, 2),
        "repeat_last_n": st.integers(-1, 9),
        "mirostat": st.integers(0, 2),
        "mirostat_tau": st.floats(0, 9),
        "mirostat_eta": st.floats(0, 5),
        "samplers": st.permutations(SAMPLERS).map(tuple),
    },
)


@given(
    settings_of_all, st.integers(0, 99), st.sampled_from([1, 2, 40, 3000]), st.sampled_from([0, 0.1, 3, 50])
)
def test_whatever_is_set_a_token_comes_and_the_seed_decides_which(
    options: dict[str, Any], seed: int, n_vocab: int, spread: float
) -> None:
    logits = random_logits(seed, n_vocab, spread)
    logits[n_vocab // 2 + 1 :] = -np.inf
    history = [i % n_vocab for i in range(12)]
    runs = []
    for _ in range(2):
        sampler = Sampler(Sampling(**options, seed=seed))
        runs.append([sampler.sample(logits, history) for _ in range(4)])
    assert runs[0] == runs[1] and all(np.isfinite(logits[tok]) for tok in runs[0])


@given(st.integers(0, 99), st.sampled_from([30, 5000]), st.sampled_from([0.1, 1, 6]), st.floats(0, 1))
def test_cuts_are_what_sorting_all_gives(seed: int, n_vocab: int, spread: float, target: float) -> None:
    c = Candidates(random_logits(seed, n_vocab, spread), None, [])
    p = c.p().astype(np.float64)
    order = np.argsort(-p)
    n = int((np.cumsum(p[order]) < target).sum()) + 1
    assert abs(len(cuts.top_p(c, target)) - n) <= 1  # the sums are rounded
    assert set(cuts.top_p(c, target).ids) <= set(order[: n + 1])
    surprise = np.abs(-np.log(p) + (p * np.log(p)).sum())
    order = np.argsort(surprise)
    n = int((np.cumsum(p[order]) < target).sum()) + 1
    assert abs(len(cuts.typical_p(c, target)) - n) <= 2


@pytest.mark.parametrize(
    ("samplers", "expected"),
    [
        (("top_p", "temperature"), {1, 3, 4}),
        (("temperature", "top_p"), {0, 1, 2, 3, 4}),
        ((), {0, 1, 2, 3, 4}),
    ],
)
def test_the_order_is_the_users(samplers: tuple[str, ...], expected: set[int]) -> None:
    assert drawn(FIVE, 400, temperature=50.0, top_p=0.81, samplers=samplers) == expected


def test_greedy_after_xtc_is_the_likeliest_that_xtc_leaves() -> None:
    """As in llama.cpp, where the temperature has its place in the chain."""
    assert drawn(FIVE, 1, temperature=0.0, xtc_probability=1.0, xtc_threshold=0.15) == {4}
    without = {"samplers": ("top_k",), "temperature": 0.0}
    assert len(drawn(FIVE, **without)) == 5  # type: ignore[arg-type]


def test_mirostat_keeps_the_surprise() -> None:
    logits = random_logits(5, 4000, 2.0)
    p = Candidates(logits, None, []).p()
    for version in (1, 2):
        for tau in (2.0, 6.0):
            sampler = Sampler(Sampling(1.0, mirostat=version, mirostat_tau=tau, mirostat_eta=0.2, seed=1))
            toks = [sampler.sample(logits, []) for _ in range(600)]
            left = sampler.left(logits, []).p()
            surprise = -(left * np.log2(left)).sum()
            assert abs(surprise - tau) < 0.8, (version, tau)
            assert np.isfinite(np.log(p[toks])).all()


def test_adaptive_p_moves_towards_its_target() -> None:
    logits = logits_of(0.5, *[0.05] * 8, 0.1)
    p = Candidates(logits, None, []).p()
    mean = {}
    for target in (0.05, 0.45):
        settings = Sampling(1.0, 0, 1.0, 0.0, adaptive_target=target, samplers=("adaptive_p",), seed=2)
        sampler = Sampler(settings)
        mean[target] = float(np.mean([p[sampler.sample(logits, [])] for _ in range(500)]))
    assert mean[0.05] < 0.15 and mean[0.45] > 0.35


def test_what_dry_calls_a_repetition_b089(samples: Path) -> None:
    """Endless "ab" is stopped; equal rows of a table are not, for a line break ends a repetition."""
    tokenizer = Tokenizer.from_gguf(samples / "scenes-text.gguf")
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    a, b = 40, 41
    dry = Sampler(Sampling(0.0, dry_multiplier=0.8), tokenizer)
    for n in range(1, 9):
        logits[[a, b]] = 3, 2.9
        if dry.sample(logits, [a, b] * n) != a:
            break
    assert 1 < n < 8
    row = tokenizer.encode_plain("|1|\n")
    assert tokenizer.piece(row[-1]) == b"\n"
    logits[:] = 0
    logits[row[0]] = 3
    assert dry.sample(logits, []) == dry.sample(logits, row[:1]) == row[0]
    assert dry.sample(logits, row * 20) == row[0]


def test_a_repetition_that_is_all_there_is_goes_on(samples: Path) -> None:
    """However large the penalty, logits stay numbers."""
    tokenizer = Tokenizer.from_gguf(samples / "scenes-text.gguf")
    settings = Sampling(1.0, 2, dry_multiplier=1e6, dry_base=9.0, samplers=("top_k", "dry"), seed=1)
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    logits[[40, 41]] = 5
    sampler = Sampler(settings, tokenizer)
    assert {sampler.sample(logits, [40, 41] * 500 + [40] * 500) for _ in range(20)} <= {40, 41}
    assert np.isfinite(sampler.left(logits, [41] + [40] * 500).p()).all()


def test_biases_need_tokens_that_exist(samples: Path) -> None:
    tokenizer = Tokenizer.from_gguf(samples / "scenes-text.gguf")
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    biased = Sampler(Sampling(0.0, logit_bias=((7, 1.0), (9, 3.0), (9, -2.5))), tokenizer)
    assert biased.sample(logits, []) == 7
    with pytest.raises(UsageError, match="token 791: the model has 0 to 790"):
        Sampler(Sampling(logit_bias=((791, 1.0),)), tokenizer)
    everything = tuple((tok, float("-inf")) for tok in range(tokenizer.n_vocab))
    with pytest.raises(UsageError, match="no token is left"):
        Sampler(Sampling(logit_bias=everything), tokenizer).sample(logits, [])


def test_tokens_that_the_model_suppresses_never_come(samples: Path) -> None:
    tokenizer = Tokenizer.from_gguf(samples / "scenes-text.gguf")
    tokenizer.suppressed = (7,)
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    logits[[7, 8]] = 5, 4
    assert Sampler(Sampling(0.0), tokenizer).sample(logits, []) == 8


@pytest.mark.parametrize("name", sorted(RANGES))
def test_no_value_is_nan(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is nan, expected"):
        Sampling(**{name: float("nan")})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mirostat": 3}, "mirostat is 3, expected 0 to 2"),
        ({"dry_base": 0.5}, "dry_base is 0.5, expected 1 to"),
        ({"adaptive_decay": 1.0}, "adaptive_decay is 1.0, expected 0 to 0.99"),
        ({"logit_bias": ((3, float("inf")),)}, "logit_bias of token 3 is inf"),
        ({"samplers": ("top_k", "infill")}, "sampler 'infill' is unknown, expected some of penalties, dry"),
        ({"adaptive_target": 0.3}, "unless samplers include adaptive_p"),
        ({"ignore_eos": True, "grammar": Grammar("regex", "a")}, "at odds"),
        ({"logprobs": 10**6}, "logprobs is 1000000, expected -1 to 1000"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sampling(**options)
