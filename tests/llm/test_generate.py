import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from llm import models
from llm.context import Context
from llm.generate import StopStrings, TextStream, generate
from llm.gguf import GGUF
from llm.kernels import reference
from llm.sampling import Sampler, Sampling
from llm.span import tokens
from llm.tokenizer import Tokenizer

GREEDY = Sampling(temperature=0)


@pytest.fixture
def context(tiny_llama: Path) -> Context:
    return Context(models.build(GGUF(tiny_llama), reference), n_ctx=32)


@pytest.fixture(scope="module")
def tokenizer(tiny_llama: Path) -> Tokenizer:
    return Tokenizer.from_gguf(tiny_llama)


def shown(pieces: Iterable[str], stops: list[str]) -> list[str]:
    """What a reader gets to see, delta by delta."""
    stream, out = StopStrings(stops), []
    for piece in pieces:
        out.append(stream.push(piece))
        if stream.stopped:
            return out
    return [*out, stream.flush()]


def cuts(text: str, rng: random.Random) -> list[str]:
    at = sorted(rng.sample(range(len(text) + 1), rng.randint(0, len(text))))
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)])]


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (["\n"], "foo?"),
        (["bar"], "foo?\n"),
        (["?\nb"], "foo"),
        (["\n", "?\nb", "bar"], "foo?"),
        (["nope", "bars"], "foo?\nbar"),
        ([], "foo?\nbar"),
    ],
)
def test_streamed_equals_whole_for_any_cut_b113(stops: list[str], expected: str) -> None:
    rng = random.Random(0)
    for _ in range(200):
        assert "".join(shown(cuts("foo?\nbar", rng), stops)) == expected


def test_held_text_comes_out_at_the_end_b113() -> None:
    assert shown(["foo?", "\n"], ["\nbar"]) == ["foo?", "", "\n"]


@pytest.mark.parametrize("stop", ["beta gamma", "DEFGHIJ", "ééß", "aab"])
def test_every_split_of_a_stop_string_b114(stop: str) -> None:
    text = f"x{stop[:2]}{stop}y"
    for n in range(len(text)):
        for m in range(n, len(text)):
            deltas = shown([text[:n], text[n:m], text[m:]], [stop])
            assert "".join(deltas) == text[: text.index(stop)]


def test_overlapping_stops_cut_the_same_way_however_the_text_comes_b114() -> None:
    """ "bc" is complete before "abcd" is."""
    rng = random.Random(1)
    assert {"".join(shown(cuts("xabcdx", rng), ["abcd", "bc"])) for _ in range(100)} == {"xa"}
    assert {"".join(shown(cuts("xabcdx", rng), ["abcd", "cd"])) for _ in range(100)} == {"x"}


def stream(tokenizer: Tokenizer, ids: list[int], stops: list[str]) -> tuple[str, str]:
    out = TextStream(iter(ids), tokenizer, stops)
    text = "".join(out)
    return text, out.finish


def test_a_control_token_as_stop_string_b115(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("hello<|im_start|>user", parse_special=True)
    assert stream(tokenizer, ids, ["<|im_start|>"]) == ("hello", "stop")
    assert stream(tokenizer, ids, []) == ("hellouser", "length")


def test_every_end_of_generation_id_ends_it_b115(tokenizer: Tokenizer) -> None:
    for end in tokenizer.eog:
        assert stream(tokenizer, [*tokenizer.encode("hello"), end, *tokenizer.encode("the")], []) == (
            "hello",
            "stop",
        )


def test_a_stop_string_spelt_like_a_byte_of_the_vocabulary(tokenizer: Tokenizer) -> None:
    """ "é" is also how a byte-level vocabulary spells the byte 0xE9, the first of 驴 and many others."""
    assert tokenizer.token_id("é") is not None
    assert stream(tokenizer, tokenizer.encode("a驴é!"), ["é"]) == ("a驴", "stop")


def test_characters_are_never_split_b114(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("aé驴🙂z")
    deltas = list(TextStream(iter(ids), tokenizer))
    assert deltas == ["a", "é", "驴", "🙂", "z"]
    assert list(TextStream(iter(ids[:-2]), tokenizer)) == ["a", "é", "驴", "�"]


def test_stop_in_the_last_unfinished_character(tokenizer: Tokenizer) -> None:
    half = tokenizer.encode("a🙂")[:-1]
    assert stream(tokenizer, half, ["�"]) == ("a", "stop")


def test_an_answer_that_goes_in_circles_is_ended_b089(tokenizer: Tokenizer) -> None:
    for span in (" a", "ab", "the cat sat. "):
        ids = tokenizer.encode("hello" + span * 400)
        ended = TextStream(iter(ids), tokenizer, loop_guard=100)
        text = "".join(ended)
        assert ended.finish == "loop" and 100 < len(ended.ids) < 200
        assert tokenizer.decode(ids).startswith(text)
        on = TextStream(iter(ids), tokenizer)
        assert "".join(on) == tokenizer.decode(ids) and on.finish == "length"


def test_rows_of_a_table_that_are_alike_are_no_loop_b089(tokenizer: Tokenizer) -> None:
    rows = TextStream(iter(tokenizer.encode("| 0 | 0.00 | n/a |\n" * 20)), tokenizer, loop_guard=1000)
    assert "".join(rows).count("n/a") == 20 and rows.finish == "length"
    numbers = "".join(f"| {i} | 0.00 | n/a |\n" for i in range(100, 400))
    differing = TextStream(iter(tokenizer.encode(numbers)), tokenizer, loop_guard=100)
    assert "".join(differing) == numbers


def test_context_full_is_length_b087(context: Context, tokenizer: Tokenizer) -> None:
    prompt = [1, 2, 3]
    logits = context.prefill([tokens(prompt)])
    ids = list(generate(context, logits, Sampler(GREEDY), prompt, 100))
    assert len(ids) == 32 - 3 + 1 and context.n_rows == 32
    assert context.prefill([tokens(prompt)]).shape == logits.shape


@pytest.mark.parametrize("n", [0, 1, 5])
def test_n_predict(context: Context, n: int) -> None:
    logits = context.prefill([tokens([1, 2, 3])])
    ids = list(generate(context, logits, Sampler(GREEDY), [], n))
    assert len(ids) == n
    assert context.n_rows == 3 + max(n - 1, 0)


def test_each_token_follows_from_all_before(context: Context) -> None:
    ids = [1, 2, 3]
    logits = context.prefill([tokens(ids)])
    for tok in generate(context, logits, Sampler(GREEDY), [], 6):
        again = Context(context.arch, n_ctx=32).prefill([tokens(ids)])
        assert tok == int(again[0].argmax())
        ids.append(tok)


def test_penalties_see_prompt_and_answer(context: Context) -> None:
    logits = context.prefill([tokens([1, 2, 3])])
    sampling = Sampling(temperature=0, presence_penalty=1000, repeat_last_n=-1)
    first = int(np.argmax(logits[0]))
    ids = list(generate(context, logits, Sampler(sampling), [first], 12))
    assert len({first, *ids}) == 13
