"""Real models in the arithmetic of every day against exact float32."""

from pathlib import Path

import pytest

from llm.model import load
from tests.peer.accuracy import WINDOW, accuracy


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("name", ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"])
def test_the_likeliest_token_is_that_of_exact_arithmetic(models: Path, name: str) -> None:
    exact = load(models / name, n_ctx=WINDOW, precision="exact")
    a = accuracy(load(models / name, n_ctx=WINDOW), exact)
    assert a.top1 >= 0.98 and a.kl <= 0.01
    assert a.perplexity == pytest.approx(a.exact_perplexity, rel=5e-3)
