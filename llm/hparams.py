"""Hyperparameters: frozen dataclasses whose fields name the GGUF key that they are read from.

    @dataclass(frozen=True)
    class Hparams:
        n_layer: int = key("block_count")
        n_head: int = key("attention.head_count")
        n_head_kv: int = key("attention.head_count_kv", default=lambda hp: hp.n_head)

`read(Hparams, meta, "llama", path)` looks up "llama.block_count" and so on, and refuses what cannot be: a
hostile file is to end in one message, not in a division by zero or an array that fills the memory.
"""

import math
from collections.abc import Mapping
from dataclasses import field, fields
from types import SimpleNamespace
from typing import Any, TypeVar, get_type_hints

import numpy as np

from llm.errors import ModelError

H = TypeVar("H")
_REQUIRED = object()

_COUNT = 0, 2**31 - 1
_SIZE = 1, 2**24
_POSITIVE = 1e-30, 1e30
_ANY = {int: (-1, 2**31 - 1), float: (-1e30, 1e30)}  # -1 stands for "none" in lists
_RANGES: dict[str, tuple[float, float]] = {  # least and greatest, by the key's name in any architecture
    "block_count": (1, 10_000),
    "context_length": (1, 2**31 - 1),
    "embedding_length": _SIZE,
    "embedding_length_per_layer_input": (0, 2**24),
    "feed_forward_length": _SIZE,
    "expert_feed_forward_length": (0, 2**24),
    "attention.head_count": _SIZE,
    "attention.head_count_kv": _SIZE,
    "attention.key_length": _SIZE,
    "attention.key_length_swa": _SIZE,
    "attention.layer_norm_epsilon": (0, 1),
    "attention.layer_norm_rms_epsilon": (0, 1),
    "attention.scale": _POSITIVE,
    "attention.shared_kv_layers": (0, 10_000),
    "attention.sliding_window": _COUNT,
    "attention.sliding_window_pattern": _SIZE,
    "attn_logit_softcapping": (0, 1e30),
    "final_logit_softcapping": (0, 1e30),
    "embedding_scale": _POSITIVE,
    "residual_scale": _POSITIVE,
    "expert_count": (0, 2**16),
    "expert_used_count": (0, 2**16),
    "logit_scale": _POSITIVE,
    "n_deepstack_layers": (0, 10_000),
    "nextn_predict_layers": (0, 10_000),
    "rope.dimension_count": (2, 2**24),
    "rope.dimension_count_swa": (2, 2**24),
    "rope.dimension_sections": (0, 2**24),
    "rope.freq_base": (1.001, 1e30),
    "rope.freq_base_swa": (1.001, 1e30),
    "rope.scaling.factor": _POSITIVE,
    "rope.scaling.original_context_length": (1, 2**31 - 1),
    "rope.scaling.yarn_beta_fast": _POSITIVE,
    "rope.scaling.yarn_beta_slow": _POSITIVE,
    "shortconv.l_cache": (1, 2**16),
    "image_size": (1, 2**16),
    "image_std": _POSITIVE,
    "num_mel_bins": (1, 2**12),
    "patch_size": (1, 2**16),
    "preproc_image_size": (1, 2**13),
    "projector.scale_factor": (1, 2**16),
    "projector.stack_factor": (1, 2**16),
}


def key(name: str, *, default: object = _REQUIRED, per: str | None = None, least: float | None = None) -> Any:
    """A field read from `<prefix>.<name>`, or from `name` itself when it starts with a dot (".general.name").

    `default` is a value, or a function of the fields before this one. `per` names an earlier field n: one
    number in the file then stands for n of them, and a list must have n. `least` is allowed where
    the key's range begins higher.
    """
    return field(metadata={"key": name, "default": default, "per": per, "least": least})


def read(cls: type[H], meta: Mapping[str, object], prefix: str, path: str) -> H:
    """Fill `cls` from the metadata of the file `path`. ModelError: a key is missing or cannot be."""
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
        where = f"{path}: {name}"
        values[f.name] = _convert(value, kinds[f.name], values[per] if per else None, where)
        _check_range(values[f.name], f.metadata["key"], f.metadata["least"], where)
    try:
        _check_together(values)
        return cls(**values)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _check_range(value: object, name: str, lower: float | None, where: str) -> None:
    """Of a number, or of each in a tuple. ModelError: out of range, or no number at all (NaN)."""
    for number in value if isinstance(value, tuple) else (value,):
        if type(number) in _ANY:
            least, greatest = _RANGES.get(name, _ANY[type(number)])
            least = least if lower is None else lower
            if not least <= number <= greatest:
                raise ModelError(f"{where} is {number}, expected {least:g} to {greatest:g}")


def _check_together(values: Mapping[str, Any]) -> None:
    """What holds between the numbers of any architecture."""
    n_layer = values.get("n_layer", math.inf)
    for name in ("n_further", "n_kvless"):
        if values.get(name, 0) >= n_layer:
            raise ModelError(f"{values[name]} special layers are too many for block_count {n_layer}")
    n_head, n_kv, d_head = (values.get(name) for name in ("n_head", "n_head_kv", "d_head"))
    for n in n_kv if isinstance(n_kv, tuple) else (n_kv,):
        if n_head and n and n_head % n:
            raise ModelError(f"attention.head_count {n_head} is no multiple of attention.head_count_kv {n}")
    if n_head and d_head is None and values.get("n_embd", 0) % n_head:
        raise ModelError(
            f"embedding_length {values['n_embd']} is no multiple of attention.head_count {n_head}"
        )
    for name, width in (("n_rot", d_head), ("n_rot_local", values.get("d_head_local"))):
        n_rot = values.get(name, 2)
        if n_rot % 2 or (width and n_rot > width):
            raise ModelError(f"rope.dimension_count is {n_rot}, expected an even number up to {width}")


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
