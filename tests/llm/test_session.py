"""Sessions in files: what comes back is what was there, and nothing else is taken for it."""

from pathlib import Path

import numpy as np
import pytest

from llm import models
from llm.context import Context
from llm.gguf import GGUF
from llm.kernels import reference
from llm.session import SessionError, fingerprint
from llm.span import Span, media, tokens
from tests.tiny import make_text_gguf


def context(path: Path, n_ctx: int = 64) -> Context:
    return Context(models.build(GGUF(path), reference), n_ctx, kv_type="f32")


def picture(encoded: list[bytes], key: bytes = b"star") -> Span:
    def rows() -> np.ndarray:  # type: ignore[type-arg]
        encoded.append(key)
        return np.full((5, 64), key[0] / 100, np.float32)

    return media(5, rows, key, n_pos=2)


def prompt(encoded: list[bytes], *more: int) -> list[Span]:
    return [tokens([1, 2]), picture(encoded), tokens([3, 4, *more])]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_text_gguf(tmp_path / "m.gguf")


@pytest.fixture
def file(tmp_path: Path, model: Path) -> Path:
    """A session of `prompt`."""
    c = context(model)
    c.prefill(prompt([]))
    c.save(tmp_path / "a.session", "model a")
    return tmp_path / "a.session"


def test_a_session_goes_on_with_its_pictures_b065(model: Path, file: Path) -> None:
    encoded: list[bytes] = []
    c, fresh = context(model), context(model)
    c.load(file, "model a")
    assert c.n_rows == 9
    assert c.reusable(prompt(encoded, 7, 8)) == 9
    got, want = c.prefill(prompt(encoded, 7, 8)), fresh.prefill(prompt([], 7, 8))
    np.testing.assert_allclose(got, want, atol=1e-4)
    assert not encoded


def test_a_picture_of_another_key_is_not_taken_for_it_b063(model: Path, file: Path) -> None:
    c = context(model)
    c.load(file, "model a")
    assert c.reusable([tokens([1, 2]), picture([], b"moon"), tokens([3])]) == 2


def test_a_session_of_another_model_is_refused(model: Path, file: Path) -> None:
    c = context(model)
    c.prefill([tokens([5, 6])])
    with pytest.raises(SessionError, match="another model"):
        c.load(file, "model b")
    assert c.n_rows == 2


def test_models_differ_by_shapes_and_by_numbers(tmp_path: Path) -> None:
    a, again, b, c = (
        fingerprint(GGUF(make_text_gguf(tmp_path / f"{i}.gguf", seed=seed, n_layer=n_layer)))
        for i, (seed, n_layer) in enumerate([(0, 2), (0, 2), (1, 2), (0, 1)])
    )
    assert a == again and len({a, b, c}) == 3


@pytest.mark.parametrize("n", [0, 5, 20, 300, -1])
def test_a_session_cut_off_is_refused(model: Path, file: Path, n: int) -> None:
    file.write_bytes(file.read_bytes()[:n])
    with pytest.raises(SessionError, match=r"cut off|not a session"):
        context(model).load(file, "model a")


@pytest.mark.parametrize("at", [0, 16, 30, 600, -70, -1])
def test_a_damaged_session_is_refused(model: Path, file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(SessionError, match=r"damaged|not a session"):
        context(model).load(file, "model a")


def test_a_session_that_does_not_fit_is_refused(model: Path, file: Path) -> None:
    with pytest.raises(SessionError, match=r"9 rows, and the context holds 8: give more \(-c\)"):
        context(model, 8).load(file, "model a")
    half = Context(models.build(GGUF(model), reference), 64, kv_type="f16")
    with pytest.raises(SessionError, match="type f32, this context has f16"):
        half.load(file, "model a")


def test_a_session_that_is_not_there_or_cannot_be_written(model: Path, tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="cannot be read: No such file"):
        context(model).load(tmp_path / "none", "model a")
    with pytest.raises(SessionError, match="cannot be written: No such file"):
        context(model).save(tmp_path / "none" / "a", "model a")


def test_saving_replaces_and_leaves_nothing_behind(model: Path, file: Path) -> None:
    c = context(model)
    c.decode(tokens([1]))
    c.save(file, "model a")
    c.load(file, "model a")
    assert c.n_rows == 1
    assert sorted(p.name for p in file.parent.iterdir()) == ["a.session", "m.gguf"]
