"""Grammars, log probabilities and penalties through the front door, on the embedded model and a picture."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mtmd
from llm.errors import UsageError
from llm.grammar import Grammar
from llm.sampling import Sampling
from mtmd.pipeline import GREEDY, Pipeline

QUESTION = "Describe this image."


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return mtmd.load(n_ctx=512)


def ask(samples: Path | None, text: str = QUESTION) -> dict[str, Any]:
    picture = [{"type": "image", "image": samples / "circle-and-square.png"}] if samples else []
    return {"role": "user", "content": [*picture, {"type": "text", "text": text}]}


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_a_schema_is_kept_with_a_picture_and_without(
    pipeline: Pipeline, samples: Path, seen: bool, temperature: float
) -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    sampling = Sampling(temperature, seed=1, grammar=Grammar("json_schema", json.dumps(schema)))
    answer = pipeline.chat([ask(samples if seen else None)], stream=False, sampling=sampling)
    assert answer.finish == "stop" and json.loads(answer.text)["colour"] in ("red", "blue")


def test_what_the_model_sees_decides_within_the_grammar(pipeline: Pipeline, samples: Path) -> None:
    grammar = Grammar("regex", "A (large|small) (red|purple) (star|square|triangle|circle)")
    answer = pipeline.chat([ask(samples)], stream=False, sampling=Sampling(0.0, grammar=grammar))
    assert answer.text == "A large red circle"


def test_a_bad_grammar_leaves_the_answer_before_it_alone(pipeline: Pipeline, samples: Path) -> None:
    running = pipeline.chat([ask(samples)], sampling=GREEDY)
    next(running)
    with pytest.raises(UsageError, match="regular expression"):
        pipeline.chat([ask(samples)], sampling=Sampling(grammar=Grammar("regex", "(")))
    assert len("".join(running)) > 10 and running.finish == "stop"


def test_logprobs_of_each_token(pipeline: Pipeline, samples: Path) -> None:
    plain = pipeline.chat([ask(samples)], stream=False, sampling=GREEDY)
    answer = pipeline.chat([ask(samples)], sampling=Sampling(0.0, logprobs=3))
    assert not plain.logprobs and not answer.logprobs
    text = "".join(answer)
    assert text == plain.text and len(answer.logprobs) == answer.usage.completion_tokens
    assert b"".join(entry.piece for entry in answer.logprobs[:-1]).decode() == text
    assert answer.logprobs[-1].tok in pipeline.model.tokenizer.eog
    for entry in answer.logprobs:
        chances = [e.logprob for e in entry.top]
        assert entry.tok == entry.top[0].tok and entry.logprob == chances[0] <= 0
        assert chances == sorted(chances, reverse=True) and len(chances) == 3
        assert sum(np.exp(chances)) <= 1 + 1e-6


def test_logprobs_are_the_models_own(pipeline: Pipeline) -> None:
    """Not those after penalties, cuts and temperature."""
    model = pipeline.model
    sampling = Sampling(1.5, top_k=2, repeat_penalty=1.5, seed=3, logprobs=0)
    answer = pipeline.chat([ask(None, "hello")], stream=False, n_predict=5, sampling=sampling)
    prompt = [tok for part in pipeline.template.encode([ask(None, "hello")]) for tok in part]
    ids = [entry.tok for entry in answer.logprobs]
    logits = model.logits([*prompt, *ids]).astype(np.float64)[len(prompt) - 1 : -1]
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    found = [entry.logprob for entry in answer.logprobs]
    np.testing.assert_allclose(found, expected[range(len(ids)), ids], atol=0.02)
    assert all(entry.top == () for entry in answer.logprobs)


def test_ignore_eos_and_bans(pipeline: Pipeline, samples: Path) -> None:
    answer = pipeline.chat(
        [ask(samples)], stream=False, n_predict=60, sampling=Sampling(0.0, ignore_eos=True)
    )
    assert (answer.finish, answer.usage.completion_tokens) == ("length", 60)
    first = pipeline.model.tokenizer.encode_plain(answer.text)[0]
    banned = Sampling(0.0, logit_bias=((first, float("-inf")),))
    other = pipeline.chat([ask(samples)], stream=False, n_predict=1, sampling=banned)
    assert other.text and not answer.text.startswith(other.text)


def test_penalties_see_earlier_answers_but_no_questions(pipeline: Pipeline, samples: Path) -> None:
    """As in llama-mtmd-cli: a word of the question may be the answer."""
    once = Sampling(0.0, presence_penalty=1e6, repeat_last_n=-1)
    plain = pipeline.chat([ask(samples)], stream=False, n_predict=1, sampling=GREEDY).text
    question = ask(samples, f"{QUESTION} {plain}")
    assert pipeline.chat([question], stream=False, n_predict=1, sampling=once).text == plain
    for content in (plain, [{"type": "text", "text": plain}]):
        chat = [ask(samples), {"role": "assistant", "content": content}, ask(None)]
        again = pipeline.chat(chat, stream=False, n_predict=1, sampling=once)
        assert again.text != plain
