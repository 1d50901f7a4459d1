"""What an answer has to match: a JSON schema, a regular expression, a Lark grammar or llama.cpp's GBNF.

llguidance (extra `grammar`) follows the answer and says which tokens may come next.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from llm import gbnf
from llm.errors import UsageError
from llm.schema import close_objects, is_endless
from llm.tokenizer import Tokenizer

Kind = Literal["json_schema", "regex", "lark", "gbnf"]
# Between the parts of JSON: as llama.cpp allows it. Without a limit a model may never stop to indent.
WHITE_SPACE = r"( |\n{1,2}[ \t]{0,20})"
NAMES: dict[Kind, str] = {
    "json_schema": "the JSON schema",
    "regex": "the regular expression",
    "lark": "the Lark grammar",
    "gbnf": "the grammar",
}


@dataclass(frozen=True)
class Grammar:
    """Text in one of the notations. Whether it is sound, `matcher` says."""

    kind: Kind
    text: str

    def matcher(self, tokenizer: Tokenizer) -> "Matcher":
        """The state of one answer, at its start. Raises UsageError for a text that is no grammar."""
        if not tokenizer.eog:
            raise UsageError("the model has no end-of-generation token, which a grammar's answers end with")
        guidance = _guidance()
        try:
            spec = self._spec(guidance, tokenizer)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{NAMES[self.kind]} cannot be used: {_line(str(error))}") from error
        matcher = guidance.LLMatcher(_vocabulary(tokenizer), spec, log_level=0)
        if not matcher.is_error():
            matcher.compute_bitmask()  # finds, among others, rules that go round in circles
        if matcher.is_error():
            raise UsageError(f"{NAMES[self.kind]} cannot be used: {_why(matcher)}")
        return Matcher(matcher, tokenizer.n_vocab)

    def _spec(self, guidance: Any, tokenizer: Tokenizer) -> str:
        """The text in llguidance's own notation. Raises ValueError."""
        spec: str
        match self.kind:
            case "json_schema":
                schema = json.loads(self.text)
                if not isinstance(schema, dict | bool):
                    raise ValueError("a schema is an object, true or false")
                close_objects(schema)
                if is_endless(schema):
                    raise ValueError("it goes round in circles: no answer that matches can end")
                options = {"whitespace_pattern": WHITE_SPACE}
                spec = guidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)
            case "regex":
                spec = guidance.LLMatcher.grammar_from_regex(self.text)
            case "lark":
                spec = guidance.LLMatcher.grammar_from_lark(self.text)
            case "gbnf":
                spec = guidance.LLMatcher.grammar_from_lark(gbnf.to_lark(self.text, tokenizer.token_id))
        return spec


class Matcher:
    """Follows one answer."""

    def __init__(self, matcher: Any, n_vocab: int) -> None:
        self._matcher, self._n_vocab = matcher, n_vocab

    def allowed(self, n_vocab: int) -> NDArray[np.bool_]:
        """Which tokens may come next, [n_vocab]; an end-of-generation token where the answer is complete.

        Raises UsageError when the grammar has become too complex to follow.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        mask = np.unpackbits(bits, count=min(n_vocab, 8 * len(bits)), bitorder="little").view(np.bool_)
        return mask if len(mask) == n_vocab else np.pad(mask, (0, n_vocab - len(mask)))

    def first(self, ids: NDArray[np.intp], n: int) -> NDArray[np.intp]:
        """The first n of `ids` that may come next, fewer where there are no more."""
        known = ids[ids < self._n_vocab].tolist()
        allowed = (i for i in known if self._matcher.validate_tokens([i]))
        return np.array(list(islice(allowed, n)), np.intp)

    def accept(self, tok: int) -> None:
        """`tok` has come."""
        self._matcher.consume_token(tok)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise UsageError(f"the answer cannot be kept to its grammar any longer: {_why(self._matcher)}")


def _why(matcher: Any) -> str:
    """llguidance's complaint without its inner state."""
    text, _, _ = matcher.get_error().partition("<state>")
    return "no text can match it" if text.strip().startswith("NoExtension") else _line(text)


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


def _guidance() -> Any:
    try:
        return import_module("llguidance")
    except ImportError as error:
        raise UsageError("a grammar needs llguidance: pip install 'mtmd[grammar]'") from error


@lru_cache(maxsize=2)
def _vocabulary(tokenizer: Tokenizer) -> Any:
    """The vocabulary as llguidance wants it, made once for each tokenizer."""
    guidance = _guidance()
    return guidance.LLTokenizer(
        guidance.TokenizerWrapper(_Pieces(tokenizer)), eos_token=sorted(tokenizer.eog)
    )


class _Pieces:
    """What llguidance asks of a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = min(tokenizer.eog)
        self.bos_token_id = tokenizer.bos
        texts = [tokenizer.piece(tok) for tok in range(tokenizer.n_vocab)]
        hidden = [tok for tok, text in enumerate(texts) if not text or tok in tokenizer.eog]
        for tok in hidden:  # the first byte says that no text is meant
            texts[tok] = b"\xff" + tokenizer.piece(tok, special=True)
        self.tokens, self.special_token_ids = texts, hidden

    def __call__(self, text: bytes | str) -> list[int]:
        return self._tokenizer.encode_plain(
            text if isinstance(text, str) else text.decode("utf-8", "replace")
        )
