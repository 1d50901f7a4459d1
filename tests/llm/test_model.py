"""llm.load: settings, errors, and what real weights answer."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import llm
from llm.errors import ModelError, UsageError
from tests.peer.text import GOLDEN
from tests.tiny import make_text_gguf, vocabulary

TEXT = (Path(__file__).parent.parent.parent / "LICENSE").read_text()


def test_logits_are_of_a_fresh_sequence(tiny_llama: Path) -> None:
    model = llm.load(tiny_llama)
    first = model.logits([1, 2, 3])
    assert first.shape == (3, model.tokenizer.n_vocab) and first.dtype == np.float32
    np.testing.assert_array_equal(model.logits([1, 2, 3]), first)


def test_generate_twice_gives_the_same(tiny_llama: Path) -> None:
    model = llm.load(tiny_llama)
    prompt = model.tokenizer.encode("hello the user")
    first = list(model.generate(prompt, 12))
    assert list(model.generate(prompt, 12)) == first
    assert first[0] == int(model.logits(prompt)[-1].argmax())
    seeded = llm.Sampling(temperature=1.5, seed=3)
    assert list(model.generate(prompt, 12, sampling=seeded)) == list(
        model.generate(prompt, 12, sampling=seeded)
    )


def test_an_end_of_generation_id_is_the_last(tmp_path: Path) -> None:
    head = np.zeros((len(vocabulary()["tokenizer.ggml.tokens"]), 64), np.float32)  # type: ignore[arg-type]
    end = {"tokenizer.ggml.eos_token_id": 0}
    model = llm.load(make_text_gguf(tmp_path / "m.gguf", tensors={"output.weight": head}, meta=end))
    assert list(model.generate([5], 9)) == [0]  # the first of equals


@pytest.mark.parametrize("ids", [[], [-1], [9999], [[1, 2]]])
def test_ids_that_cannot_be(tiny_llama: Path, ids: list[int]) -> None:
    model = llm.load(tiny_llama)
    with pytest.raises(UsageError, match="token ids"):
        model.logits(ids)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_ctx": -1},
        {"threads": -2},
        {"n_batch": 0},
        {"n_ubatch": 0},
        {"kv_type": "q4_0"},
        {"precision": "f16"},
    ],
)
def test_settings_that_cannot_be(tiny_llama: Path, settings: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="expected"):
        llm.load(tiny_llama, **settings)  # type: ignore[arg-type]


def test_more_tokens_than_rows(tmp_path: Path) -> None:
    table = np.zeros((100, 64), np.float32)
    with pytest.raises(ModelError, match="tokens in the vocabulary, 100 rows in token_embd"):
        llm.load(make_text_gguf(tmp_path / "m.gguf", tensors={"token_embd.weight": table}))


def test_no_slow_imports_before_they_are_needed() -> None:
    program = "import llm, sys; llm.load, llm.Sampling; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"scipy", "jinja2", "gguf", "huggingface_hub", "numba", "PIL"} & set(run.stdout.split())


def test_embedded_model_answers(samples: Path) -> None:
    model = llm.load(samples / "scenes-text.gguf")
    prompt = model.tokenizer.encode(
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", parse_special=True
    )
    answer = model.tokenizer.decode(model.generate(prompt, 40))
    assert answer.endswith(".") and len(answer) > 10


REAL = ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]


@pytest.mark.model
@pytest.mark.parametrize("name", REAL)
def test_greedy_answers_equal_the_peers(models: Path, name: str) -> None:
    """Most of ten. Where they part, the tokens were close: the peer's own logits are 0.1 off on average."""
    golden = json.loads((GOLDEN / "greedy.json").read_text())[name]
    model = llm.load(models / name, n_ctx=512)
    n_equal = 0
    for case in golden:
        ours = list(model.generate(case["prompt"], len(case["answer"])))
        n_equal += ours == case["answer"]
        for i, (a, b) in enumerate(zip(ours, case["answer"])):
            if a != b:
                logits = model.logits([*case["prompt"], *ours[:i]])[-1]
                assert logits[a] - logits[b] < 1.0, (case["prompt"], i)
                break
    assert n_equal >= 6


@pytest.mark.model
@pytest.mark.parametrize("name", REAL)
def test_fast_arithmetic_agrees_with_exact(models: Path, name: str) -> None:
    fast = llm.load(models / name, n_ctx=512)
    ids = fast.tokenizer.encode((TEXT * 3)[:2400])[:500]
    a = fast.logits(ids).astype(np.float64)
    del fast
    b = llm.load(models / name, n_ctx=512, precision="exact", kv_type="f32").logits(ids).astype(np.float64)
    assert (a.argmax(1) == b.argmax(1)).mean() >= 0.98
    for logits in (a, b):
        logits -= logits.max(1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    assert (np.exp(b) * (b - a)).sum(1).mean() <= 0.01
