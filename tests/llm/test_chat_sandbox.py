"""Templates that would run, grow or reach out without end; helpers that honest ones expect."""

import time

import pytest

from llm.chat.sandbox import Compiled, ExhaustedError, RefusedError
from llm.errors import TemplateError


def render(source: str, **variables: object) -> str:
    return Compiled(source).render(variables, time.monotonic() + 0.5)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% macro f(n) %}{{ f(n - 1) }}{{ f(n - 1) }}{% endmacro %}{{ f(500) }}",
        "{% for i in range(99999) %}{% set y = range(99999) | sum %}{% endfor %}",
        "{% set ns = namespace(x='xxxx') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='xxxx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1, 2]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
        "{% set ns.x = ns.x.replace('a', 'aaaaaaaa') %}{% endfor %}",
        "{{ 'x' * 10**12 }}",
        "{{ [0] * 10**12 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'x'.ljust(10**12) }}",
        "{{ 'x' | center(10**12) }}",
        "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    ],
)
def test_endless_templates_end(source: str) -> None:
    start = time.monotonic()
    with pytest.raises(TemplateError):
        render(source)
    assert time.monotonic() - start < 3


def test_running_out_of_time_says_so() -> None:
    with pytest.raises(ExhaustedError, match="too long"):
        render("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ raise_exception.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ messages.append(1) }}",
    ],
)
def test_no_way_out(source: str) -> None:
    try:
        text = render(source, messages=[])
    except TemplateError:
        return
    assert text == ""  # an attribute that is hidden is an undefined one


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ a", "{% endfor %}", "{{ x | nofilter }}", "(" * 9 + "{{" + "(" * 5000]
)
def test_templates_that_do_not_compile(source: str) -> None:
    with pytest.raises(TemplateError, match="does not compile"):
        Compiled(source)


def test_source_too_long() -> None:
    with pytest.raises(TemplateError, match="at most"):
        Compiled("x" * 300_000)


def test_failing_template_names_the_error() -> None:
    with pytest.raises(TemplateError, match="UndefinedError: 'x' is undefined"):
        render("{{ x.y.z }}")
    with pytest.raises(RefusedError, match="refuses these messages: no!"):
        render("{{ raise_exception('no!') }}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ {'a': '<é>&', 'b': [1, none]} | tojson }}", '{"a": "<é>&", "b": [1, null]}'),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=2) }}", '{\n  "b": 1,\n  "a": 2\n}'),
        (
            "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}"
            "{% if i == 2 %}{% break %}{% endif %}{% endfor %}",
            "02",
        ),
        ("{% generation %}a{{ 'b' }}{% endgeneration %}c", "abc"),
        (
            "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{{ loop.last }}{{ loop.length }}{% endfor %}",
            "a1True1",
        ),
        ("{% for x in [3, 4] %}{{ loop.index0 }}{{ loop.nextitem }}{% else %}none{% endfor %}", "041"),
        ("{% for x in [] %}{% else %}none{% endfor %}", "none"),
        ("{% for x in undefined_thing %}{% endfor %}ok", "ok"),
        ("{% set a, b = 1, 2 %}{{ a ~ b }}", "12"),
        ("{% set x %}in{% endset %}{{ x ~ 1 ~ none }}", "in1None"),
        ("  {% if true %}\n  x\n  {% endif %}\ny", "  x\ny"),
        ("{{ 'a b'.split(' ')[-1].upper().startswith('B') }}", "True"),
        ("{{ 7 % 3 }}{{ '%s-%d' % ('a', 2) }}{{ 2 ** 3 }}{{ 2 * 3 }}", "1a-286"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
    ],
)
def test_what_templates_expect(source: str, expected: str) -> None:
    assert render(source) == expected


def test_strftime_now() -> None:
    assert render("{{ strftime_now('%Y') }}") == time.strftime("%Y")
