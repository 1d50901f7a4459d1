import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.schema import close_objects, is_endless

INT = {"type": "integer"}
NEXT = {"type": "object", "properties": {"next": {"$ref": "#"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"allOf": [INT, {"$ref": "#"}]},
        {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {**NEXT, "required": ["next"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        {"type": "array", "prefixItems": [INT, {"$ref": "#"}], "minItems": 2},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {**NEXT, "required": ["next"]}}},
    ],
)
def test_endless(schema: object) -> None:
    assert is_endless(schema)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        INT,
        NEXT,
        {"anyOf": [{"$ref": "#"}, INT]},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "prefixItems": [INT, {"$ref": "#"}], "minItems": 1},
        {"type": ["object", "null"], "properties": {"next": {"$ref": "#"}}, "required": ["next"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
        {"const": 3, "$ref": "#"},
        {"$ref": "#/nowhere"},
    ],
)
def test_not_endless(schema: object) -> None:
    assert not is_endless(schema)


def test_objects_are_closed_where_nothing_else_is_said() -> None:
    schema = {"properties": {"properties": {"properties": {"x": INT}}, "open": {"type": "object"}}}
    close_objects(schema)
    inner = {"properties": {"x": INT}, "additionalProperties": False}
    assert schema == {
        "properties": {"properties": inner, "open": {"type": "object"}},
        "additionalProperties": False,
    }
    said = {"properties": {"x": INT}, "additionalProperties": INT}
    close_objects(said)
    assert said == {"properties": {"x": INT}, "additionalProperties": INT}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": INT}}, {"properties": {"b": INT}}]},
        {"properties": {"a": INT}, "anyOf": [{"properties": {"b": INT}}, {"required": ["a"]}]},
        {"properties": {"a": INT}, "$ref": "#/$defs/b", "$defs": {"b": {"properties": {"c": INT}}}},
    ],
)
def test_objects_of_several_parts_stay_open(schema: dict[str, object]) -> None:
    before = repr(schema)
    close_objects(schema)
    assert repr(schema) == before


words = st.sampled_from(
    ["$ref", "properties", "items", "required", "allOf", "anyOf", "type", "minItems", "$defs"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["#", "#/$defs", "object", "array", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_whatever_is_no_schema_passes_through(value: object) -> None:
    is_endless(value)
    close_objects(value)
