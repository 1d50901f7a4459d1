"""Files whose numbers are lies end in one message that names the file, in no traceback or full memory."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from llm import models
from llm.context import Context
from llm.errors import LlmError, ModelError, NonFiniteError
from llm.gguf import GGUF
from llm.kernels import reference
from llm.span import tokens
from mtmd import projector
from tests import tiny_architectures
from tests.mmproj import CASES, base
from tests.tiny import make_text_gguf

INTEGERS = (0, 1, 3, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**63, -1, -(2**31))
FLOATS = (0.0, -1.0, 1e-45, 1e38, math.inf, math.nan)
TEXT = {
    "llama": make_text_gguf,
    "gemma3": lambda path: make_text_gguf(path, "gemma3"),
} | tiny_architectures.CASES
MEDIA = {
    "image": base.medium("100x60"),
    "audio": base.medium("0.5"),
}


def mutations(value: object) -> tuple[object, ...]:
    """Hostile values of the same kind; one list element at a time would find nothing more."""
    match value:
        case bool():
            return (not value,)
        case int():
            return tuple(v for v in INTEGERS if v != value)
        case float():
            return FLOATS
        case str():
            return ("", "\0", "x" * 40)
    return ()


def survives(gguf: GGUF, use: Callable[[GGUF], object]) -> None:
    """Each scalar key in turn takes each hostile value; all faults found are told at once."""
    faults = []
    for key, value in list(gguf.meta.items()):
        if key.startswith(("general.", "tokenizer.")):
            continue
        for hostile in mutations(value):
            gguf.meta[key] = hostile
            try:
                use(gguf)
            except LlmError as error:
                named = gguf.path in str(error) or isinstance(error, NonFiniteError)
                if "\n" in str(error) or not named:
                    faults.append(f"{key} = {hostile!r}: message {error}")
            except Exception as error:
                faults.append(f"{key} = {hostile!r}: {type(error).__name__} {error}")
        gguf.meta[key] = value
    assert not faults, "\n".join(faults)


def run_text(gguf: GGUF) -> None:
    Context(models.build(gguf, reference), n_ctx=8).decode(tokens([1, 2, 3]))


def run_mmproj(gguf: GGUF) -> None:
    for kind, p in projector.load(gguf, reference).items():
        for tile in p.preprocess(MEDIA[kind])[:1]:
            p.encode(tile)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", TEXT)
def test_text_model(case: str, tmp_path: Path) -> None:
    survives(GGUF(TEXT[case](tmp_path / "m.gguf")), run_text)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", CASES)
def test_mmproj(case: str, tmp_path: Path) -> None:
    survives(GGUF(CASES[case].make(tmp_path / "m.gguf")), run_mmproj)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("block_count", 2**31, r"m\.gguf: llama\.block_count is 2147483648, expected 1 to 10000"),
        ("attention.head_count", 0, r"m\.gguf: llama\.attention\.head_count is 0, expected 1 to"),
        (
            "attention.head_count_kv",
            8,
            r"m\.gguf: attention\.head_count 4 is no multiple of .*head_count_kv 8",
        ),
        (
            "rope.dimension_count",
            15,
            r"m\.gguf: rope\.dimension_count is 15, expected an even number up to 16",
        ),
        (
            "attention.layer_norm_rms_epsilon",
            math.nan,
            r"m\.gguf: llama\.attention\.\w+ is nan, expected 0 to 1",
        ),
    ],
)
def test_message(key: str, value: object, message: str, tmp_path: Path) -> None:
    path = make_text_gguf(tmp_path / "m.gguf")
    gguf = GGUF(path)
    gguf.meta[f"llama.{key}"] = value
    with pytest.raises(ModelError, match=message):
        models.build(gguf, reference)
