"""GBNF, llama.cpp's notation for grammars, rewritten as a Lark grammar for llguidance.

The Lark grammar has terminals of one character only. Longer ones would be matched as far as they go, and
`word ::= [a-z]+` before an "x" would then never end; GBNF knows no such greed.
"""

import re
from collections.abc import Callable
from typing import NoReturn

_WORD = re.compile(
    r"""(?P<space>(?:[ \t]|\#[^\n]*)+)
      | (?P<newline>\r?\n)
      | (?P<define>::=)
      | (?P<name>[A-Za-z0-9_-]+)
      | (?P<text>"(?:[^"\\]|\\.)*")
      | (?P<set>\[(?:[^\]\\]|\\.)*\])
      | (?P<token>!?<[^<>\s]+>)
      | (?P<repeat>[*+?]|\{\d+(?:,\d*)?\})
      | (?P<sign>[.()|])""",
    re.VERBOSE | re.DOTALL,
)
_CHAR = re.compile(r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)|([^\\])", re.DOTALL)
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_MAX_REPEAT, _MAX_DEPTH = 2000, 100


def to_lark(text: str, token_id: Callable[[str], int | None]) -> str:
    """The Lark grammar of a GBNF text; token_id: the token spelt so. Raises ValueError with the line."""
    return _Reader(text, token_id).grammar()


class _Reader:
    """Reads the text word by word; `_kind` and `_word` are the word to come."""

    def __init__(self, text: str, token_id: Callable[[str], int | None]) -> None:
        self._text, self._token_id = text, token_id
        self._end = 0
        self._depth = 0
        self._defined: dict[str, str] = {}
        self._used: dict[str, int] = {}  # rule -> the line of its first use
        self._next()

    def grammar(self) -> str:
        self._skip("space", "newline")
        while self._kind != "end":
            name = self._expect("name", "the name of a rule")
            self._skip("space")
            self._expect("define", "::=")
            if name in self._defined:
                self._fail(f"rule {name} is defined twice")
            self._skip("space", "newline")
            self._defined[name] = self._alternatives()
            if self._kind not in ("newline", "end"):
                self._fail(f"{self._word!r} was not expected")
            self._skip("space", "newline")
        if "root" not in self._defined:
            raise ValueError("there is no rule root")
        for name, line in self._used.items():
            if name not in self._defined:
                raise ValueError(f"line {line}: rule {name} is not defined")
        numbers = {name: f"r{i}" for i, name in enumerate(self._defined)}
        rules = [f"{numbers[name]}: {body}" for name, body in self._defined.items()]
        lark = "\n".join([f"start: {numbers['root']}", *rules])
        return re.sub(r"\$\{([^}]+)\}", lambda m: numbers[m[1]], lark)

    def _alternatives(self) -> str:
        """Sequences with | between them; after | a line may break."""
        found = [self._sequence()]
        while self._word == "|" and self._kind == "sign":
            self._next()
            self._skip("space", "newline")
            found.append(self._sequence())
        return " | ".join(found)

    def _sequence(self) -> str:
        items: list[str] = []
        while (item := self._item()) is not None:
            self._blank()
            while self._kind == "repeat":
                item = f"({item}){self._repeat()}"
                self._blank()
            items.append(item)
        return " ".join(items) or '""'

    def _blank(self) -> None:
        """Between items; only in brackets may a line break."""
        self._skip("space", *(["newline"] if self._depth else []))

    def _item(self) -> str | None:
        """The next item, None at the end of a sequence."""
        kind, word = self._kind, self._word
        if kind == "name":
            self._used.setdefault(word, self._line())
            item = f"${{{word}}}"
        elif kind == "text":
            item = " ".join(f"/[{_escaped(c)}]/" for c in self._chars(word[1:-1])) or '""'
        elif kind == "set":
            item = f"/{self._set(word)}/"
        elif kind == "token":
            item = self._token(word)
        elif word == "." and kind == "sign":
            item = r"/[\u{0}-\u{10FFFF}]/"
        elif word == "(" and kind == "sign":
            return self._group()
        else:
            return None
        self._next()
        return item

    def _group(self) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"more than {_MAX_DEPTH} open brackets")
        self._next()
        self._skip("space", "newline")
        inner = self._alternatives()
        if self._word != ")":
            self._fail(f"{self._word!r} was not expected before the bracket is closed")
        self._depth -= 1
        self._next()
        return f"({inner})"

    def _repeat(self) -> str:
        word = self._word
        low, comma, high = word.strip("{}").partition(",")
        if word[0] == "{":
            if any(int(n) > _MAX_REPEAT for n in (low, high) if n):
                self._fail(f"{word}: at most {_MAX_REPEAT} times")
            if high and int(high) < int(low):
                self._fail(f"{word}: the second number is smaller than the first")
            word = word if comma else f"{{{low},{low}}}"
        self._next()
        return word

    def _set(self, word: str) -> str:
        """[...] as a set of a regular expression; a - between two characters makes a range."""
        negated = "^" if word[1] == "^" else ""
        chars = list(_CHAR.finditer(word[1 + len(negated) : -1]))
        if not chars:
            self._fail("an empty set of characters")
        parts, i = [], 0
        while i < len(chars):
            first = self._char(chars[i])
            if i + 2 < len(chars) and chars[i + 1][0] == "-":
                last = self._char(chars[i + 2])
                if last < first:
                    self._fail(f"the range {chars[i][0]}-{chars[i + 2][0]} is empty")
                parts.append(f"{_escaped(first)}-{_escaped(last)}")
                i += 3
            else:
                parts.append(_escaped(first))
                i += 1
        return f"[{negated}{''.join(parts)}]"

    def _token(self, word: str) -> str:
        """<think>, <[1000]>, and with ! any other token."""
        spelt = word.removeprefix("!")
        number = re.fullmatch(r"<\[(\d+)\]>", spelt)
        tok = int(number[1]) if number else self._token_id(spelt)
        if tok is None:
            self._fail(f"the model has no token {spelt}")
        return f"<[{'^' if word[0] == '!' else ''}{tok}]>"

    def _chars(self, text: str) -> list[str]:
        return [self._char(m) for m in _CHAR.finditer(text)]

    def _char(self, m: re.Match[str]) -> str:
        code = m[1] or m[2] or m[3]
        if m[4] and m[4] not in _ESCAPES:
            self._fail(f"{m[0]} is no escape")
        value = int(code, 16) if code else ord(m[5] or _ESCAPES[m[4]])
        if value > 0x10FFFF or 0xD800 <= value < 0xE000:
            self._fail(f"{m[0]} is no character")
        return chr(value)

    def _next(self) -> None:
        start = self._end
        if start == len(self._text):
            self._kind, self._word = "end", "the end"
            return
        m = _WORD.match(self._text, start)
        if not m:
            self._fail(f"{self._text[start : start + 20]!r} cannot be read")
        self._kind, self._word, self._end = str(m.lastgroup), m[0], m.end()

    def _skip(self, *kinds: str) -> None:
        while self._kind in kinds:
            self._next()

    def _expect(self, kind: str, what: str) -> str:
        word = self._word
        if self._kind != kind:
            self._fail(f"{word!r} where {what} was expected")
        self._next()
        return word

    def _line(self) -> int:
        return self._text.count("\n", 0, self._end) + 1

    def _fail(self, why: str) -> NoReturn:
        raise ValueError(f"line {self._line()}: {why}")


def _escaped(char: str) -> str:
    """A character inside a set."""
    return char if char.isascii() and char.isalnum() else f"\\u{{{ord(char):X}}}"
