"""Hyperparameters: frozen dataclasses whose fields name the GGUF key that they are read from.

    @dataclass(frozen=True)
    class Hparams:
        n_layer: int = key("block_count")
        n_head: int = key("attention.head_count")
        n_head_kv: int = key("attention.head_count_kv", default=lambda hp: hp.n_head)

`read(Hparams, meta, "llama", path)` looks up "llama.block_count" and so on.
"""

from collections.abc import Mapping
from dataclasses import field, fields
from types import SimpleNamespace
from typing import Any, TypeVar, get_type_hints

import numpy as np

from llm.errors import ModelError

H = TypeVar("H")
_REQUIRED = object()


def key(name: str, *, default: object = _REQUIRED, per: str | None = None) -> Any:
    """A field read from `<prefix>.<name>`, or from `name` itself when it starts with a dot (".general.name").

    `default` is a value, or a function of the fields before this one. `per` names an earlier field n: one
    number in the file then stands for n of them, and a list must have n.
    """
    return field(metadata={"key": name, "default": default, "per": per})


def read(cls: type[H], meta: Mapping[str, object], prefix: str, path: str) -> H:
    """Fill `cls` from the metadata of the file `path`. ModelError: a key is missing or of the wrong kind."""
    kinds = get_type_hints(cls)
    values: dict[str, Any] = {}
    for f in fields(cls):  # type: ignore[arg-type]
        name = f.metadata["key"]
        name = name[1:] if name.startswith(".") else f"{prefix}.{name}"
        value = meta.get(name, _REQUIRED)
        if value is _REQUIRED:
            value = f.metadata["default"]
            if value is _REQUIRED:
                raise ModelError(f"{path}: metadata key {name} is missing, which architecture {prefix} needs")
            if callable(value):
                value = value(SimpleNamespace(**values))
        per = f.metadata["per"]
        values[f.name] = _convert(value, kinds[f.name], values[per] if per else None, f"{path}: {name}")
    return cls(**values)


def _convert(value: object, kind: object, n: int | None, where: str) -> object:
    """`value` as the field's type: int, float, bool, str, a tuple of them, or what the default gave."""
    if isinstance(value, np.ndarray):
        value = tuple(value.tolist())
    if n is not None:
        value = tuple(value) if isinstance(value, (list, tuple)) else (value,) * n
        if len(value) != n:
            raise ModelError(f"{where} has {len(value)} entries, expected {n}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (int, float, bool, str) and type(value) is not kind:
        raise ModelError(f"{where} is {value!r}, expected {kind.__name__}")
    return tuple(value) if isinstance(value, list) else value
