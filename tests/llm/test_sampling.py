import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.errors import NonFiniteError, UsageError
from llm.kernels.operands import F32
from llm.sampling import Sampler, Sampling


def logits_of(*p: float) -> F32:
    """Logits of probabilities."""
    return np.log(np.array(p, np.float32))


def drawn(logits: F32, n: int = 200, history: tuple[int, ...] = (), **options: float) -> set[int]:
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
