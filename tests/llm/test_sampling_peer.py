"""The chain against what the peer's samplers leave of the same logits (tests/peer/sampling.py)."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm.grammar import Grammar
from llm.sampling import Sampler, Sampling
from llm.sampling.candidates import Candidates
from llm.tokenizer import Tokenizer

ROOT = Path(__file__).parent.parent
GOLDEN = json.loads((ROOT / "golden" / "sampling.json").read_text())
LOGITS = np.array(GOLDEN["logits"], np.float32)


@pytest.fixture(scope="module")
def tokenizer(samples: Path) -> Tokenizer:
    return Tokenizer.from_gguf(samples / "scenes-text.gguf")


def settings(case: dict[str, Any]) -> Sampling:
    merged = GOLDEN["off"] | case["settings"]
    bias = tuple((tok, x) for tok, x in merged["logit_bias"])
    lists = {name: tuple(merged[name]) for name in ("samplers", "dry_breakers")}
    return Sampling(**{**merged, **lists, "logit_bias": bias, "seed": 1})


def name(case: dict[str, Any]) -> str:
    return ",".join(f"{k}={v}" for k, v in case["settings"].items())


def found(c: Candidates) -> list[list[float]]:
    return sorted([c.token(i), float(p)] for i, p in enumerate(c.p()))


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=name)
def test_the_chain_leaves_what_the_peers_leaves(case: dict[str, Any], tokenizer: Tokenizer) -> None:
    left = found(Sampler(settings(case), tokenizer).left(LOGITS, case["history"]))
    assert [tok for tok, _ in left] == [tok for tok, _ in case["left"]]
    np.testing.assert_allclose([p for _, p in left], [p for _, p in case["left"]], atol=2e-6)


@pytest.mark.parametrize("case", GOLDEN["grammars"], ids=lambda case: case["text"].split("\n")[0])
def test_a_grammar_allows_what_the_peers_allows(case: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Where the text is forced, only the tokens that it is usually cut into are allowed, unlike there."""
    matcher = Grammar("gbnf", case["text"]).matcher(tokenizer)
    for tok, (n, checksum) in zip([*case["answer"], None], case["allowed"]):
        ids = np.flatnonzero(matcher.allowed(tokenizer.n_vocab)).astype(np.int32)
        ids = ids[[tokenizer.piece(i) != b"\0" for i in ids.tolist()]]  # which the peer never allows
        assert (len(ids), zlib.crc32(ids.tobytes())) == (n, checksum) or (len(ids) == 1 and n <= 3)
        if tok is not None:
            matcher.accept(tok)
