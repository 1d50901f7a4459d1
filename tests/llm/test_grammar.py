"""Answers kept to a grammar, by the embedded model drawing wildly (temperature 2)."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llm
from llm.errors import UsageError
from llm.grammar import Grammar, Kind
from llm.model import Model
from llm.sampling import Sampler, Sampling
from llm.tokenizer import Tokenizer

SHAPE = {
    "type": "object",
    "properties": {
        "shape": {"enum": ["circle", "square"]},
        "n": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
        "é": {"type": "string", "maxLength": 4},
    },
    "required": ["shape", "n", "é"],
}


@pytest.fixture(scope="module")
def model(samples: Path) -> Model:
    return llm.load(samples / "scenes-text.gguf", n_ctx=512)


@pytest.fixture(scope="module")
def tokenizer(model: Model) -> Tokenizer:
    return model.tokenizer


def answer(model: Model, grammar: Grammar, seed: int, n: int = 300) -> tuple[str, bool]:
    """A wild answer, and whether it came to its end."""
    sampling = Sampling(temperature=2.0, top_k=0, top_p=1.0, min_p=0.0, seed=seed, grammar=grammar)
    ids = list(model.generate(model.tokenizer.encode("hello"), n, sampling=sampling))
    return model.tokenizer.decode(ids), ids[-1] in model.tokenizer.eog


@pytest.mark.parametrize("seed", range(8))
def test_json_always_parses_and_has_what_the_schema_asks_for(model: Model, seed: int) -> None:
    text, ended = answer(model, Grammar("json_schema", json.dumps(SHAPE)), seed)
    found = json.loads(text)
    assert ended and {"shape", "n", "é"} <= set(found) <= {"shape", "n", "é", "tags"}
    assert found["shape"] in ("circle", "square") and 0 <= found["n"] <= 99
    assert len(found["é"]) <= 4 and all(isinstance(tag, bool) for tag in found.get("tags", []))


@pytest.mark.parametrize("seed", range(4))
def test_regular_expressions_and_lark(model: Model, seed: int) -> None:
    text, ended = answer(model, Grammar("regex", r"(red|blue)( [a-z]{2,5}){1,3}\."), seed)
    assert ended and re.fullmatch(r"(red|blue)( [a-z]{2,5}){1,3}\.", text)
    text, ended = answer(
        model, Grammar("lark", 'start: "<" word ("," word)~1..3 ">"\nword: /[a-z]{1,4}/'), seed
    )
    assert ended and re.fullmatch(r"<[a-z]{1,4}(,[a-z]{1,4}){1,3}>", text)


@pytest.mark.parametrize("seed", range(4))
def test_gbnf(model: Model, seed: int) -> None:
    sums = 'root ::= sum "." \nsum ::= num ([-+] num){1,3}\nnum ::= [1-9] [0-9]? | "(" num "+" num ")"'
    text, ended = answer(model, Grammar("gbnf", sums), seed)
    assert not ended or (text[-1] == "." and isinstance(eval(text[:-1], {"__builtins__": {}}), int))
    assert re.fullmatch(r"[-+().0-9]+", text)


def test_an_answer_ends_only_where_the_grammar_lets_it(tokenizer: Tokenizer) -> None:
    matcher = Grammar("gbnf", 'root ::= "a" "b"?').matcher(tokenizer)
    ends = []
    for text in ("a", "b"):
        allowed = matcher.allowed(tokenizer.n_vocab)
        ends.append(set(tokenizer.eog) & set(np.flatnonzero(allowed).tolist()))
        matcher.accept(tokenizer.encode_plain(text)[0])
    assert ends == [set(), set(tokenizer.eog)]
    assert set(np.flatnonzero(matcher.allowed(tokenizer.n_vocab)).tolist()) == set(tokenizer.eog)


def test_greedy_answers_are_kept_too(model: Model) -> None:
    sampling = Sampling(temperature=0, grammar=Grammar("gbnf", 'root ::= "qqqqqqqq"'))
    ids = list(model.generate(model.tokenizer.encode("hello"), 30, sampling=sampling))
    assert model.tokenizer.decode(ids) == "qqqqqqqq" and ids[-1] in model.tokenizer.eog


def test_control_tokens_are_no_text(tokenizer: Tokenizer) -> None:
    """A grammar that allows any text does not allow the token of <|im_start|>."""
    matcher = Grammar("gbnf", "root ::= .*").matcher(tokenizer)
    control = {tok for tok in range(tokenizer.n_vocab) if not tokenizer.piece(tok)} - tokenizer.eog
    assert not control & set(np.flatnonzero(matcher.allowed(tokenizer.n_vocab)).tolist())
    named = Grammar("gbnf", "root ::= <|im_start|>").matcher(tokenizer)
    assert np.flatnonzero(named.allowed(tokenizer.n_vocab)).tolist() == [tokenizer.token_id("<|im_start|>")]


@given(seed=st.integers(0, 999), top_k=st.sampled_from([1, 3, 40]), greedy=st.booleans())
def test_asking_for_the_likeliest_gives_what_a_mask_of_all_does(
    tokenizer: Tokenizer, seed: int, top_k: int, greedy: bool
) -> None:
    """A chain that begins with top-k, against the same behind a step that looks at all tokens."""
    logits = (np.random.default_rng(seed).standard_normal(tokenizer.n_vocab) * 3).astype(np.float32)
    options = {"temperature": 0.0 if greedy else 1.0, "top_k": top_k, "top_p": 1.0, "min_p": 0.0}
    grammar = Grammar("regex", "[a-z ]+|[0-9]{3}") if seed % 2 else Grammar("regex", r"[^\n]+")
    quick = Sampler(Sampling(**options, grammar=grammar), tokenizer).left(logits, [])  # type: ignore[arg-type]
    slow = Sampler(Sampling(**options, grammar=grammar, top_n_sigma=1e5), tokenizer)  # type: ignore[arg-type]
    whole = slow.left(logits, [])
    assert sorted(zip(quick.ids, quick.p())) == sorted(zip(whole.ids, whole.p()))


def test_more_logits_than_tokens(tokenizer: Tokenizer) -> None:
    """Embedding tables are padded; what lies beyond the vocabulary is never allowed."""
    logits = np.zeros(tokenizer.n_vocab + 50, np.float32)
    logits[-1] = 100
    sampler = Sampler(Sampling(temperature=0, grammar=Grammar("regex", "[a-c]")), tokenizer)
    assert tokenizer.piece(sampler.sample(logits, [])) in (b"a", b"b", b"c")


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("json_schema", "{", "the JSON schema cannot be used: Expecting"),
        ("json_schema", "[1]", "a schema is an object"),
        ("json_schema", '{"$ref": "#"}', "goes round in circles"),
        ("json_schema", '{"type": "obj"}', "Invalid type: obj"),
        ("json_schema", '{"$ref": "#/nowhere"}', "does not exist"),
        ("json_schema", '{"$ref": "http://example.com/x"}', "does not fetch"),
        ("json_schema", '{"items":' * 5000 + "{}" + "}" * 5000, "recursion"),
        ("json_schema", '{"type": "array", "minItems": 3, "maxItems": 1}', "Unsatisfiable"),
        ("regex", "(a", "the regular expression cannot be used: .*unclosed group"),
        ("regex", "a(?=b)", "look-ahead"),
        ("lark", "start: x", 'unknown name: "x"'),
        ("lark", "start: start", "no text can match it"),
        ("gbnf", "root ::= x", "the grammar cannot be used: line 1: rule x is not defined"),
        ("gbnf", "root ::= root", "no text can match it"),
    ],
)
def test_what_is_no_grammar_is_one_clear_error(
    tokenizer: Tokenizer, kind: Kind, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        Sampler(Sampling(grammar=Grammar(kind, text)), tokenizer)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_a_grammar_that_explodes_ends_in_an_error(tokenizer: Tokenizer) -> None:
    sampler = Sampler(Sampling(grammar=Grammar("gbnf", "root ::= " + '(("a"{2000}){2000}){2000}')), tokenizer)
    with pytest.raises(UsageError, match=r"cannot be kept to its grammar any longer: .*[Tt]oo many"):
        for _ in range(10):
            sampler.sample(np.zeros(tokenizer.n_vocab, np.float32), [])


def test_without_llguidance_it_says_what_to_install(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(UsageError, match=r"pip install 'mtmd\[grammar\]'"):
        Grammar("regex", "a").matcher(tokenizer)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.text(max_size=3)
    | st.sampled_from(["object", "string"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "required", "anyOf", "enum", "pattern", "minItems", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(deadline=None)
@given(schema=st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "items", "enum"]), values))
def test_any_schema_is_a_grammar_or_a_clear_error(tokenizer: Tokenizer, schema: dict[str, object]) -> None:
    try:
        matcher = Grammar("json_schema", json.dumps(schema)).matcher(tokenizer)
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert matcher.allowed(tokenizer.n_vocab).any()
