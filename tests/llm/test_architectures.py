"""Every architecture: logits against the peer's, every way of cutting a sequence gives the same."""

from pathlib import Path

import numpy as np
import pytest

from llm import models
from llm.context import Context
from llm.errors import ModelError
from llm.gguf import GGUF
from llm.kernels import Kernels, reference
from llm.span import tokens
from tests import tiny_dense, tiny_mixed
from tests.peer.architectures import GOLDEN, IDS, N_KEPT
from tests.tiny_architectures import CASES


def context(path: Path, k: Kernels = reference, n_ubatch: int = 512) -> Context:
    return Context(models.build(GGUF(path), k), n_ubatch=n_ubatch, kv_type="f32")


@pytest.fixture(scope="module", params=CASES)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CASES[request.param](tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf")


def test_logits_equal_the_peers(tiny: Path, kernels: Kernels) -> None:
    golden = np.load(GOLDEN)[tiny.stem]
    logits = context(tiny, kernels).decode(tokens(IDS), "all")[-N_KEPT:]
    assert np.abs(logits - golden).max() < 1e-3 * np.abs(golden).max()


def test_token_by_token_equals_prefill(tiny: Path, kernels: Kernels) -> None:
    whole = context(tiny, kernels).decode(tokens(IDS), "all")
    c = context(tiny, kernels)
    single = np.concatenate([c.decode(tokens([tok])) for tok in IDS])
    assert np.abs(single - whole).max() < 1e-4 * np.abs(whole).max()


def test_any_chunking_gives_the_same_logits_b079(tiny: Path) -> None:
    whole = context(tiny).decode(tokens(IDS), "all")
    cut = context(tiny, n_ubatch=7).decode(tokens(IDS), "all")
    assert np.abs(cut - whole).max() < 1e-4 * np.abs(whole).max()


def test_the_last_row_alone_is_the_last_of_all(tiny: Path) -> None:
    whole = context(tiny).decode(tokens(IDS), "all")
    last = context(tiny).decode(tokens(IDS), "last")
    assert last.shape == (1, whole.shape[1])
    assert np.abs(last[0] - whole[-1]).max() < 1e-4 * np.abs(whole).max()


def test_half_precision_cache_is_close(tiny: Path) -> None:
    """Within what a router's close call may change."""
    whole = context(tiny).decode(tokens(IDS), "all")
    half = Context(models.build(GGUF(tiny), reference), kv_type="f16").decode(tokens(IDS), "all")
    assert 0 < np.median(np.abs(half - whole)) < 3e-3 * np.abs(whole).max()


def test_rolling_back_leaves_no_trace(tiny: Path) -> None:
    c = context(tiny)
    whole = c.decode(tokens(IDS), "all")
    c.truncate(10)
    c.decode(tokens([9, 9, 9]))
    c.truncate(10)
    again = c.decode(tokens(IDS[10:]), "all")
    assert np.abs(again - whole[10:]).max() < 1e-4 * np.abs(whole).max()


def test_the_same_twice(tiny: Path, kernels: Kernels) -> None:
    a, b = (context(tiny, kernels).decode(tokens(IDS), "all") for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_every_architecture_is_here(tmp_path: Path) -> None:
    here = {GGUF(make(tmp_path / "m.gguf")).architecture for make in CASES.values()}
    assert here | {"llama", "gemma3"} == set(models.supported())


def test_phi3_sees_a_window_where_the_file_has_one(tmp_path: Path) -> None:
    """As its authors have it; the peer looks at all rows."""
    far = [9, *IDS[1:12]]
    for window, same in ((6, True), (0, False)):
        path = tiny_dense.phi3(tmp_path / f"{window}.gguf", window=window, n_layer=1)
        a, b = (context(path).decode(tokens(ids)) for ids in (IDS[:12], far))
        assert np.array_equal(a, b) == same


def test_experts_without_a_number_to_use(tmp_path: Path) -> None:
    path = tiny_mixed.qwen3moe(tmp_path / "m.gguf", n_used=9)
    with pytest.raises(ModelError, match=r"expert_used_count is 9, expected 1 to 5"):
        context(path)
