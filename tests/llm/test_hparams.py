from dataclasses import dataclass

import numpy as np
import pytest

from llm.errors import ModelError
from llm.hparams import key, read


@dataclass(frozen=True)
class Hp:
    n_layer: int = key("block_count")
    n_head: int = key("attention.head_count")
    n_head_kv: tuple[int, ...] = key("attention.head_count_kv", default=lambda hp: hp.n_head, per="n_layer")
    eps: float = key("eps", default=1e-5)
    name: str = key(".general.name", default="?")


META = {"x.block_count": 2, "x.attention.head_count": 4}


def test_defaults_follow_earlier_fields() -> None:
    assert read(Hp, META, "x", "f.gguf") == Hp(2, 4, (4, 4), 1e-5, "?")


def test_one_number_or_one_per_layer() -> None:
    assert read(Hp, META | {"x.attention.head_count_kv": 1}, "x", "f").n_head_kv == (1, 1)
    per_layer = np.array([1, 4], np.int32)
    assert read(Hp, META | {"x.attention.head_count_kv": per_layer}, "x", "f").n_head_kv == (1, 4)
    with pytest.raises(ModelError, match=r"f: x.attention.head_count_kv has 3 entries, expected 2"):
        read(Hp, META | {"x.attention.head_count_kv": [1, 2, 3]}, "x", "f")


def test_absolute_key_and_int_for_float() -> None:
    hp = read(Hp, META | {"general.name": "tiny", "x.eps": 1}, "x", "f")
    assert (hp.name, hp.eps, type(hp.eps)) == ("tiny", 1.0, float)


def test_missing_key_names_file_key_and_architecture() -> None:
    with pytest.raises(
        ModelError, match=r"dir/f\.gguf: metadata key x\.attention\.head_count is missing.*x needs"
    ):
        read(Hp, {"x.block_count": 2}, "x", "dir/f.gguf")


@pytest.mark.parametrize("value", ["2", 2.0, True, [2, 2]])
def test_wrong_kind(value: object) -> None:
    with pytest.raises(ModelError, match=r"x\.block_count is .*, expected int"):
        read(Hp, META | {"x.block_count": value}, "x", "f")
