"""Architectures: logits against the peer's, every way of cutting a sequence gives the same, errors."""

from pathlib import Path

import numpy as np
import pytest

from llm import models
from llm.cache import KvType
from llm.context import Context
from llm.errors import ModelError
from llm.gguf import GGUF
from llm.kernels import Kernels, reference
from llm.span import media, tokens
from tests.peer.text import CASES, GOLDEN, IDS, N_KEPT, block_rows, make
from tests.tiny import make_text_gguf, write_gguf

TINY = ["tiny_llama", "tiny_gemma3"]


def context(path: Path, k: Kernels = reference, n_ubatch: int = 512, kv_type: KvType = "f32") -> Context:
    return Context(models.build(GGUF(path), k), n_ubatch=n_ubatch, kv_type=kv_type)


@pytest.fixture(params=TINY)
def tiny(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_the_peers(case: str, tmp_path: Path, kernels: Kernels) -> None:
    golden = np.load(GOLDEN / "text.npz")[case]
    logits = context(make(case, tmp_path), kernels).decode(tokens(IDS), "all")[-N_KEPT:]
    assert np.abs(logits - golden).max() < 1e-3 * np.abs(golden).max()


def test_a_block_of_rows_as_in_the_peer_b073(tiny_gemma3: Path, kernels: Kernels) -> None:
    """Its rows see each other and what is before them, but never further back than the window."""
    golden = np.load(GOLDEN / "text.npz")["gemma3-block"]
    rows = block_rows()
    c = context(tiny_gemma3, kernels)
    c.prefill([tokens(IDS), media(len(rows), lambda: rows, b"x", causal=False)])
    logits = c.decode(tokens(IDS[:N_KEPT]), "all")
    assert np.abs(logits - golden).max() < 1e-3 * np.abs(golden).max()


def test_token_by_token_equals_prefill(tiny: Path, kernels: Kernels) -> None:
    whole = context(tiny, kernels).decode(tokens(IDS), "all")
    c = context(tiny, kernels)
    single = np.concatenate([c.decode(tokens([tok])) for tok in IDS])
    assert np.abs(single - whole).max() < 1e-4 * np.abs(whole).max()


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "BF16"])
def test_token_by_token_equals_prefill_in_any_format(kind: str, tmp_path: Path, kernels: Kernels) -> None:
    """Nearly: one row is multiplied by int8 products, many by bfloat16 ones, both within tolerance."""
    path = make_text_gguf(tmp_path / "m.gguf", types={"blk.*": kind, "token_embd.*": "Q8_0"})
    whole = context(path, kernels).decode(tokens(IDS), "all")
    c = context(path, kernels)
    single = np.concatenate([c.decode(tokens([tok])) for tok in IDS])
    assert np.abs(single - whole).max() < 5e-2 * np.abs(whole).max()


@pytest.mark.parametrize("n_ubatch", [1, 5, 7, 23])
def test_any_chunking_gives_the_same_logits_b079(tiny: Path, kernels: Kernels, n_ubatch: int) -> None:
    whole = context(tiny, kernels).decode(tokens(IDS), "all")
    cut = context(tiny, kernels, n_ubatch=n_ubatch)
    assert np.abs(cut.decode(tokens(IDS), "all") - whole).max() < 1e-4 * np.abs(whole).max()


def test_the_last_row_alone_is_the_last_of_all(tiny: Path) -> None:
    whole = context(tiny).decode(tokens(IDS), "all")
    last = context(tiny).decode(tokens(IDS), "last")
    assert last.shape == (1, whole.shape[1])
    np.testing.assert_allclose(last[0], whole[-1], rtol=1e-4, atol=1e-4)


def test_half_precision_cache_is_close(tiny: Path) -> None:
    whole = context(tiny).decode(tokens(IDS), "all")
    half = context(tiny, kv_type="f16").decode(tokens(IDS), "all")
    assert 0 < np.abs(half - whole).max() < 5e-3 * np.abs(whole).max()


def test_gemma3_sees_a_window_on_local_layers_only(tmp_path: Path) -> None:
    """With one local layer, a token 8 rows back is out of sight; with one global layer it is not."""
    far = [9, *IDS[1:12]]
    for pattern, same in ((6, True), (1, False)):
        meta = {"gemma3.attention.sliding_window_pattern": pattern}
        path = make_text_gguf(tmp_path / f"{pattern}.gguf", "gemma3", n_layer=1, meta=meta)
        a, b = (context(path).decode(tokens(ids)) for ids in (IDS[:12], far))
        assert np.array_equal(a, b) == same


def test_heads_may_differ_by_layer(tmp_path: Path) -> None:
    kv = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    path = make_text_gguf(
        tmp_path / "m.gguf",
        meta={"llama.attention.head_count_kv": [2, 4]},
        tensors={"blk.1.attn_k.weight": kv, "blk.1.attn_v.weight": kv},
    )
    c = context(path)
    assert c.arch.kv_shapes == [(2, 16), (4, 16)]
    assert np.isfinite(c.decode(tokens(IDS))).all()


def test_unknown_architecture_names_it_and_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"m\.gguf: architecture 'mamba' is not supported; .* gemma3, .*llama"
    ):
        context(write_gguf(tmp_path / "m.gguf", "mamba", {}, {}, {}))


def test_a_projector_is_no_model_b093(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"this is a projector; pass it with --mmproj"):
        context(write_gguf(tmp_path / "m.gguf", "clip", {}, {}, {}))


def test_missing_key(tmp_path: Path) -> None:
    path = make_text_gguf(tmp_path / "m.gguf", without=["llama.block_count"])
    with pytest.raises(ModelError, match=r"m\.gguf: metadata key llama\.block_count is missing"):
        context(path)


def test_missing_tensor(tmp_path: Path) -> None:
    path = make_text_gguf(tmp_path / "m.gguf", without=["blk.1.ffn_up.weight"])
    with pytest.raises(ModelError, match=r"tensor blk\.1\.ffn_up\.weight is missing"):
        context(path)


def test_tensor_of_another_shape(tmp_path: Path) -> None:
    path = make_text_gguf(
        tmp_path / "m.gguf", tensors={"blk.0.ffn_down.weight": np.zeros((64, 32), np.float32)}
    )
    with pytest.raises(
        ModelError, match=r"blk\.0\.ffn_down\.weight has shape \[64, 32\], expected \[64, 96\]"
    ):
        context(path)


def test_tensor_without_a_place(tmp_path: Path) -> None:
    path = make_text_gguf(tmp_path / "m.gguf", tensors={"blk.0.attn_sinks.weight": np.ones(4, np.float32)})
    with pytest.raises(ModelError, match=r"1 tensors have no place .*: blk\.0\.attn_sinks\.weight"):
        context(path)


def test_unknown_stretching(tmp_path: Path) -> None:
    path = make_text_gguf(tmp_path / "m.gguf", meta={"llama.rope.scaling.type": "ntk"})
    with pytest.raises(ModelError, match=r"'ntk', expected none, linear, yarn or longrope"):
        context(path)
