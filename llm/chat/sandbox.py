"""Jinja as chat templates need it, closed off and bounded: a template comes with a model file from anywhere.

The sandbox of Jinja keeps a template away from Python; what is added here keeps it from running or growing
without end. Loops and calls look at the clock, and whatever builds longer values looks at their size first.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from jinja2 import TemplateSyntaxError, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_indent
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from llm.errors import TemplateError

MAX_SOURCE = 1 << 18  # characters
MAX_LENGTH = 1 << 24  # characters of the result, entries of a list
MAX_SECONDS = 3.0
_DEADLINE = " deadline"  # a name that no template can spell
_GROWS_BY_NUMBER = ("batch", "center", "format", "slice", "wordwrap")


class RefusedError(TemplateError):
    """The template's own word (`raise_exception`) that it does not take these messages."""


class ExhaustedError(TemplateError):
    """The template ran too long or made too much."""


class Compiled:
    """A compiled template."""

    def __init__(self, source: str) -> None:
        """Raises TemplateError for a source that is too long or does not compile."""
        if len(source) > MAX_SOURCE:
            raise TemplateError(
                f"the chat template has {len(source)} characters, at most {MAX_SOURCE} are accepted"
            )
        environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        try:
            tree = _Watch().visit(environment.parse(source))
            self._template = environment.from_string(tree)
        except TemplateSyntaxError as e:
            raise TemplateError(f"the chat template does not compile: line {e.lineno}: {e.message}") from e
        except Exception as e:  # what Python's own compiler makes of a strange template
            raise TemplateError(f"the chat template does not compile: {e}") from e

    def render(self, variables: Mapping[str, object], deadline: float) -> str:
        """The template's text, made before the monotonic clock says `deadline`.

        Raises RefusedError, ExhaustedError or another TemplateError.
        """
        chunks, n = [], 0
        try:
            for chunk in self._template.generate({**variables, _DEADLINE: deadline}):
                chunks.append(chunk)
                n += len(chunk)
                _check(deadline, n)
        except TemplateError:
            raise
        except Exception as e:  # a template can fail in every way that Python can
            raise TemplateError(f"the chat template failed: {type(e).__name__}: {e}") from e
        return "".join(chunks)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name in _GROWS_BY_NUMBER:
            del self.filters[name]
        del self.globals["lipsum"]
        self.filters.update(tojson=_tojson, indent=_indent)
        self.filters.update(bounded=_bounded, watched=_watched, joined=_joined)
        self.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        for value in (*args, *kwargs.values()):
            if isinstance(value, int):
                _check(__context[_DEADLINE], value)
        return _check_value(__context[_DEADLINE], super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        deadline = context[_DEADLINE]
        if operator == "+" and isinstance(left, str | list) and isinstance(right, str | list):
            _check(deadline, len(left) + len(right))
        elif operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, str | list | tuple) and isinstance(times, int):
                    _check(deadline, len(many) * times)
        elif operator == "**":
            _check(deadline, abs(right) << 16)
        elif operator == "%" and isinstance(left, str) and re.search(r"%[^a-zA-Z%]*(\d{4}|\*)", left):
            raise ExhaustedError("the chat template formats a field that is too wide")
        return super().call_binop(context, operator, left, right)


class _Watch(NodeTransformer):
    """Sends every loop, assignment and concatenation of a template through a filter that looks on."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = _through("watched", node.iter)
        return node

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.target, nodes.Tuple):
            node.node = _through("bounded", node.node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _through("joined", nodes.List(node.nodes, lineno=node.lineno))


def _through(name: str, node: nodes.Node) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """`{% generation %}` marks an assistant's words for training; its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@pass_context
def _watched(context: Context, items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _check(context[_DEADLINE])
        yield item


@pass_context
def _bounded(context: Context, value: Any) -> Any:
    return _check_value(context[_DEADLINE], value)


@pass_context
def _joined(context: Context, values: list[Any]) -> str:
    texts = [str(value) for value in values]
    _check(context[_DEADLINE], sum(map(len, texts)))
    return "".join(texts)


def _check_value(deadline: float, value: Any) -> Any:
    _check(deadline, len(value) if isinstance(value, str | list | tuple | dict) else 0)
    return value


def _check(deadline: float, n: int = 0) -> None:
    if n > MAX_LENGTH:
        raise ExhaustedError(f"the chat template makes more than {MAX_LENGTH} characters or entries")
    if time.monotonic() > deadline:
        raise ExhaustedError("the chat template runs too long")


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """JSON as transformers writes it: Jinja's own filter escapes <, > and &."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent and min(indent, 8), **options)


def _indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
    return do_indent(text, min(width, 80), first, blank)


def _raise_exception(message: object) -> None:
    raise RefusedError(f"the chat template refuses these messages: {message}")


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form[:100])
