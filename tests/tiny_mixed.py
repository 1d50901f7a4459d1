"""A tiny random model of each architecture with experts, or with layers of several kinds."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tests.tiny import make_text_gguf
from tests.tiny_tensors import (
    D_HEAD,
    N_EMBD,
    N_FF,
    N_HEAD,
    N_HEAD_KV,
    N_LAYER,
    Tensors,
    biases,
    blocks,
    further,
    head_norms,
    prefixed,
)


def _expert_tensors(t: Tensors, ffn: str, n_expert: int, n_ff: int) -> None:
    t.matrix(f"{ffn}_gate_inp", n_expert, N_EMBD)
    t.matrix(f"{ffn}_gate_exps", n_expert, n_ff, N_EMBD)
    t.matrix(f"{ffn}_up_exps", n_expert, n_ff, N_EMBD)
    t.matrix(f"{ffn}_down_exps", n_expert, N_EMBD, n_ff)


def llama_experts(path: Path) -> Path:
    """As Mixtral has them: each as large as a dense network."""
    return _experts(path, "llama", Tensors(28), 28, n_ff=N_FF)


def qwen3moe(path: Path, n_used: int = 2) -> Path:
    return _experts(path, "qwen3moe", head_norms(29, D_HEAD), 29, more={"expert_used_count": n_used})


def qwen3vlmoe(path: Path) -> Path:
    more: dict[str, object] = {"rope.dimension_sections": [3, 3, 2, 0], "n_deepstack_layers": 1}
    return _experts(path, "qwen3vlmoe", head_norms(30, D_HEAD), 30, more=more)


def _experts(
    path: Path, arch: str, t: Tensors, seed: int, n_ff: int = 32, more: dict[str, object] | None = None
) -> Path:
    """Two of five experts, of `n_ff` each, in every layer."""
    for name in blocks("ffn"):
        _expert_tensors(t, name, 5, n_ff)
    meta = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": n_ff, **(more or {})}
    without = blocks("ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")
    return make_text_gguf(path, arch, tensors=t, meta=prefixed(arch, meta), without=without, seed=seed)


def lfm2(path: Path) -> Path:
    return _lfm2(path, "lfm2", Tensors(31), 31, {})


def lfm2moe(path: Path) -> Path:
    """The first layer is dense; a bias, not the scores, decides which experts are taken."""
    t = Tensors(32)
    for il in range(1, 4):
        _expert_tensors(t, f"blk.{il}.ffn", 5, 32)
        t.vector(f"blk.{il}.exp_probs_b.bias", 5)
    meta: dict[str, object] = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32}
    meta |= {"expert_gating_func": 2, "leading_dense_block_count": 1}
    dense = [f"blk.{il}.ffn_{x}.weight" for il in range(1, 4) for x in ("gate", "up", "down")]
    return _lfm2(path, "lfm2moe", t, 32, meta, dense)


def _lfm2(
    path: Path, arch: str, t: Tensors, seed: int, meta: dict[str, object], without: Sequence[str] = ()
) -> Path:
    """Layers 0, 1 and 3 convolve, layer 2 attends."""
    attn = [f"attn_{x}.weight" for x in ("q", "k", "v", "output")]
    for il in (0, 1, 3):
        t.matrix(f"blk.{il}.shortconv.in_proj", 3 * N_EMBD, N_EMBD)
        t.matrix(f"blk.{il}.shortconv.conv", N_EMBD, 3)
        t.matrix(f"blk.{il}.shortconv.out_proj", N_EMBD, N_EMBD)
    t.vector("blk.2.attn_q_norm.weight", D_HEAD)
    t.vector("blk.2.attn_k_norm.weight", D_HEAD)
    t.vector("token_embd_norm.weight", N_EMBD)
    without = [*without, "output_norm.weight", *(f"blk.{il}.{name}" for il in (0, 1, 3) for name in attn)]
    meta = {**meta, "attention.head_count_kv": [0, 0, N_HEAD_KV, 0], "shortconv.l_cache": 3}
    return make_text_gguf(
        path, arch, tensors=t, meta=prefixed(arch, meta), without=without, n_layer=4, seed=seed
    )


def glm4moe(path: Path) -> Path:
    """The first layer is dense, the others have a network for all rows; the last predicts further tokens."""
    return _glm4moe(path, 33, {"rope.dimension_count": 8})


def glm4moe_vision(path: Path) -> Path:
    """Positions have axes; weights of experts are not made to sum to 1."""
    more: dict[str, object] = {"rope.dimension_count": 16, "rope.dimension_sections": [2, 3, 3, 0]}
    return _glm4moe(path, 34, {**more, "expert_weights_norm": False})


def _glm4moe(path: Path, seed: int, more: dict[str, object]) -> Path:
    t = biases(seed, 4)
    for name in blocks("post_attention_norm.weight", n_layer=4):
        t.vector(name, N_EMBD)
    for il in (1, 2, 3):
        _expert_tensors(t, f"blk.{il}.ffn", 5, 32)
        t.vector(f"blk.{il}.exp_probs_b.bias", 5)
        t.matrix(f"blk.{il}.ffn_gate_shexp", 32, N_EMBD)
        t.matrix(f"blk.{il}.ffn_up_shexp", 32, N_EMBD)
        t.matrix(f"blk.{il}.ffn_down_shexp", N_EMBD, 32)
    further(t, 3)
    meta: dict[str, object] = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32}
    meta |= {"expert_shared_count": 1, "leading_dense_block_count": 1, "nextn_predict_layers": 1}
    meta |= {"expert_weights_norm": True, "expert_weights_scale": 1.5, **more}
    without = [f"blk.{il}.ffn_{x}.weight" for il in (1, 2, 3) for x in ("gate", "up", "down")]
    without += blocks("ffn_norm.weight", n_layer=4)
    meta = prefixed("glm4moe", meta)
    return make_text_gguf(
        path, "glm4moe", tensors=t, meta=meta, without=without, n_layer=4, tied=False, seed=seed
    )


def granitemoe(path: Path) -> Path:
    """Beside the experts there is a network for all rows."""
    t = Tensors(44)
    for il in range(N_LAYER):
        t.matrix(f"blk.{il}.ffn_gate_shexp", 48, N_EMBD)
        t.matrix(f"blk.{il}.ffn_up_shexp", 48, N_EMBD)
        t.matrix(f"blk.{il}.ffn_down_shexp", N_EMBD, 48)
    more: dict[str, object] = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}
    return _experts(path, "granitemoe", t, 44, N_FF, {**more, "expert_shared_feed_forward_length": 48})


def deepseek2ocr(path: Path) -> Path:
    """The first layer is dense; gates and ups of experts are one stack."""
    t = Tensors(39)
    for il in (1, 2):
        _expert_tensors(t, f"blk.{il}.ffn", 5, 32)
        gate, up = (t.pop(f"blk.{il}.ffn_{x}_exps.weight") for x in ("gate", "up"))
        t[f"blk.{il}.ffn_gate_up_exps.weight"] = np.concatenate([gate, up], axis=1)
        t.matrix(f"blk.{il}.ffn_gate_shexp", 64, N_EMBD)
        t.matrix(f"blk.{il}.ffn_up_shexp", 64, N_EMBD)
        t.matrix(f"blk.{il}.ffn_down_shexp", N_EMBD, 64)
    more: dict[str, object] = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32}
    more |= {"expert_shared_count": 2, "leading_dense_block_count": 1, "expert_weights_scale": 1.0}
    meta = prefixed("deepseek2-ocr", more)
    without = [f"blk.{il}.ffn_{x}.weight" for il in (1, 2) for x in ("gate", "up", "down")]
    name = "deepseek2-ocr"
    return make_text_gguf(path, name, tensors=t, meta=meta, without=without, n_head_kv=4, n_layer=3, seed=39)


def gemma4(path: Path, local: Sequence[bool] = (True, True, False)) -> Path:
    """As 31B: layer 2 of three sees everything, with wider heads, fewer of them for keys, and no values."""
    t = _gemma4_tensors(37, local, [2, 2, 1], [N_FF] * 3)
    return _gemma4(path, 37, t, local, {"attention.head_count_kv": [2, 2, 1]}, ["blk.2.attn_v.weight"])


def gemma4_small(path: Path) -> Path:
    """As E2B: the last three layers have no keys and values, but wider networks; tokens add to each layer."""
    local = [True, True, False, True, True, False]
    n_ff = [N_FF] * 3 + [2 * N_FF] * 3
    t = _gemma4_tensors(38, local, [2] * 6, n_ff)
    t.matrix("per_layer_token_embd", 274, 6 * 8)
    t.matrix("per_layer_model_proj", 6 * 8, N_EMBD)
    t.vector("per_layer_proj_norm.weight", 8)
    for name in blocks("", n_layer=6):
        t.matrix(f"{name}inp_gate", 8, N_EMBD)
        t.matrix(f"{name}proj", N_EMBD, 8)
        t.vector(f"{name}post_norm.weight", N_EMBD)
    meta: dict[str, object] = {"attention.shared_kv_layers": 3, "feed_forward_length": n_ff}
    without = [f"blk.{il}.attn_{x}.weight" for il in (3, 4, 5) for x in ("k", "v")]
    return _gemma4(path, 38, t, local, {**meta, "embedding_length_per_layer_input": 8}, without)


def gemma4_experts(path: Path) -> Path:
    """As 26B-A4B: two of five experts beside a network for all rows."""
    local = [True, True, False]
    t = _gemma4_tensors(41, local, [2] * 3, [N_FF] * 3)
    for il in range(3):
        _expert_tensors(t, f"blk.{il}.ffn", 5, 32)
        t.vector(f"blk.{il}.ffn_gate_inp.scale", N_EMBD, 8.0)
        t.vector(f"blk.{il}.ffn_down_exps.scale", 5)
        for name in ("post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"):
            t.vector(f"blk.{il}.{name}.weight", N_EMBD)
    meta: dict[str, object] = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32}
    return _gemma4(path, 41, t, local, meta, ())


def _gemma4_tensors(seed: int, local: Sequence[bool], n_head_kv: list[int], n_ff: list[int]) -> Tensors:
    t = Tensors(seed)
    for il, is_local in enumerate(local):
        d_head = D_HEAD if is_local else 2 * D_HEAD
        t.matrix(f"blk.{il}.attn_q", N_HEAD * d_head, N_EMBD)
        t.matrix(f"blk.{il}.attn_k", n_head_kv[il] * d_head, N_EMBD)
        t.matrix(f"blk.{il}.attn_v", n_head_kv[il] * d_head, N_EMBD)
        t.matrix(f"blk.{il}.attn_output", N_EMBD, N_HEAD * d_head)
        t.matrix(f"blk.{il}.ffn_gate", n_ff[il], N_EMBD)
        t.matrix(f"blk.{il}.ffn_up", n_ff[il], N_EMBD)
        t.matrix(f"blk.{il}.ffn_down", N_EMBD, n_ff[il])
        t.vector(f"blk.{il}.attn_q_norm.weight", d_head)
        t.vector(f"blk.{il}.attn_k_norm.weight", d_head)
        t.vector(f"blk.{il}.post_attention_norm.weight", N_EMBD)
        t.vector(f"blk.{il}.post_ffw_norm.weight", N_EMBD)
        t.vector(f"blk.{il}.layer_output_scale.weight", 1)
    t["rope_freqs.weight"] = np.array([1] * 4 + [1e30] * 12, np.float32)
    return t


def _gemma4(
    path: Path, seed: int, t: Tensors, local: Sequence[bool], more: dict[str, object], without: Sequence[str]
) -> Path:
    meta: dict[str, object] = {"attention.key_length": 2 * D_HEAD, "attention.value_length": 2 * D_HEAD}
    meta |= {"attention.key_length_swa": D_HEAD, "attention.value_length_swa": D_HEAD}
    meta |= {"attention.sliding_window": 8, "attention.sliding_window_pattern": local}
    meta |= {"rope.freq_base": 1e6, "rope.freq_base_swa": 1e4, "final_logit_softcapping": 30.0}
    meta |= {"rope.dimension_count": 2 * D_HEAD, "rope.dimension_count_swa": D_HEAD}
    meta = prefixed("gemma4", {"embedding_length_per_layer_input": 0, **meta, **more})
    return make_text_gguf(
        path, "gemma4", tensors=t, meta=meta, without=without, n_layer=len(local), seed=seed
    )


CASES: dict[str, Callable[..., Path]] = {
    make.__name__: make
    for make in (
        llama_experts,
        qwen3moe,
        qwen3vlmoe,
        lfm2,
        lfm2moe,
        glm4moe,
        glm4moe_vision,
        granitemoe,
        deepseek2ocr,
        gemma4,
        gemma4_small,
        gemma4_experts,
    )
}
