"""The embedded model, end to end: every prompt of samples/expected.json at temperature 0."""

import json
from pathlib import Path
from typing import Any

import pytest

import mtmd
from mtmd.pipeline import GREEDY, Pipeline
from tests.conftest import ROOT

SOUNDS = {".wav", ".flac", ".ogg", ".mp3"}
ENTRIES: list[dict[str, Any]] = json.loads((ROOT / "samples" / "expected.json").read_text())


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return mtmd.load()


def answer(p: Pipeline, entry: dict[str, Any], samples: Path) -> str:
    kinds = ["audio" if Path(name).suffix in SOUNDS else "image" for name in entry["files"]]
    parts = [{"type": kind, kind: samples / name} for kind, name in zip(kinds, entry["files"])]
    message = {"role": "user", "content": [*parts, {"type": "text", "text": entry["prompt"]}]}
    return p.chat([message], stream=False, sampling=GREEDY).text


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{'+'.join(e['files'])}: {e['prompt']}")
def test_answer_is_the_expected(entry: dict[str, Any], pipeline: Pipeline, samples: Path) -> None:
    assert answer(pipeline, entry, samples) == entry["answer"]


def test_answers_are_mostly_true() -> None:
    """The model's own merit: nine of ten expected answers say what is there to see or hear."""
    n_true = sum(e["answer"] == e["truth"] for e in ENTRIES)
    assert n_true >= 0.9 * len(ENTRIES)


def test_describe_and_transcribe(pipeline: Pipeline, samples: Path) -> None:
    assert pipeline.describe(samples / "star.jpg") == "A large purple star on a light blue background."
    assert pipeline.transcribe(samples / "digits-47.wav") == "4 7"
