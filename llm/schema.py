"""JSON schemas before they become grammars: objects are closed, and what nothing finite matches is found.

What is malformed passes through: llguidance has better messages for that.
"""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

MAPS = ("properties", "patternProperties", "$defs", "definitions")
PARTS = (
    "items",
    "prefixItems",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
)
# Where these stand beside properties, several parts describe one object, and none may close it.
MERGING = ("$ref", "anyOf", "oneOf", "not", "if", "patternProperties", "unevaluatedProperties")


def close_objects(schema: Any) -> None:
    """Say, in place, that objects have no properties but those listed, where nothing else is said.

    llama.cpp reads schemas so, and a small model would go on inventing others. What comes out still matches
    the schema as it was.
    """
    found = list(_nodes(schema))
    if any("allOf" in s or ("properties" in s and any(key in s for key in MERGING)) for s in found):
        return
    for s in found:
        if "properties" in s:
            s.setdefault("additionalProperties", False)


def is_endless(schema: Any) -> bool:
    """Whether each thing that matches would have to hold another such thing."""
    targets = {
        s["$ref"]: _target(schema, s["$ref"]) for s in _nodes(schema) if isinstance(s.get("$ref"), str)
    }
    ending: set[str] = set()
    while found := {ref for ref, s in targets.items() if ref not in ending and _ends(s, ending.__contains__)}:
        ending |= found
    return not _ends(schema, ending.__contains__)


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and all schemas in it."""
    if isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            if key in MAPS and isinstance(value, dict):
                value = list(value.values())
            elif key not in PARTS:
                continue
            for part in value if isinstance(value, list) else [value]:
                yield from _nodes(part)


def _target(schema: Any, ref: str) -> Any:
    """What a reference into the same schema points at; True where it points elsewhere or nowhere."""
    if not ref.startswith("#/"):
        return schema if ref == "#" else True
    for name in unquote(ref[2:]).split("/"):
        name = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(schema, dict) or name not in schema:
            return True
        schema = schema[name]
    return schema


def _ends(schema: Any, known: Callable[[str], bool]) -> bool:
    """Whether something finite matches, given which references are `known` to end."""
    if not isinstance(schema, dict) or "const" in schema or "enum" in schema:
        return True
    if isinstance(ref := schema.get("$ref"), str) and not known(ref):
        return False
    if not all(_ends(s, known) for s in _list(schema, "allOf")):
        return False
    for key in ("anyOf", "oneOf"):
        if _list(schema, key) and not any(_ends(s, known) for s in _list(schema, key)):
            return False
    match schema.get("type"):
        case "object":
            return all(_ends(s, known) for s in _required(schema))
        case "array":
            return all(_ends(s, known) for s in _first_items(schema))
    return True


def _required(schema: dict[str, Any]) -> list[Any]:
    """The schemas of the properties that must be there."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    return [properties.get(name) for name in _list(schema, "required") if isinstance(name, str)]


def _first_items(schema: dict[str, Any]) -> list[Any]:
    """The schemas of the items that must be there, each once."""
    n = schema.get("minItems", 0)
    first = _list(schema, "prefixItems")
    more = [schema.get("items")] if isinstance(n, int) and n > len(first) else []
    return [*first[: n if isinstance(n, int) else 0], *more]


def _list(schema: dict[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []
