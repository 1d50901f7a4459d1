"""A tiny random model of each architecture beyond llama and gemma3, in each form that its files come in."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.tiny import make_text_gguf

F32 = NDArray[np.float32]
N_LAYER, N_EMBD, N_HEAD, N_HEAD_KV, D_HEAD, N_FF = 2, 64, 4, 2, 16, 96  # as make_text_gguf has them
N_Q, N_KV = N_HEAD * D_HEAD, N_HEAD_KV * D_HEAD


class Tensors(dict[str, F32]):
    """Random tensors by name."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def matrix(self, name: str, *shape: int) -> None:
        numbers = self._rng.standard_normal(shape) / np.sqrt(shape[-1])
        self[f"{name}.weight"] = numbers.astype(np.float32)

    def vector(self, name: str, n: int, mean: float = 1.0) -> None:
        self[name] = (mean + 0.2 * self._rng.standard_normal(n)).astype(np.float32)


def blocks(*names: str, n_layer: int = N_LAYER) -> list[str]:
    """Each of `names` in each block."""
    return [f"blk.{il}.{name}" for il in range(n_layer) for name in names]


def qwen2(path: Path) -> Path:
    return make_text_gguf(path, "qwen2", tensors=_biases(10), seed=10)


def qwen2_untied(path: Path) -> Path:
    """The long-context form: stretched by YaRN."""
    t = _biases(11)
    meta: dict[str, object] = {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0}
    meta |= {"qwen2.rope.scaling.original_context_length": 64, "qwen2.rope.freq_base": 1e6}
    return make_text_gguf(path, "qwen2", tensors=t, meta=meta, tied=False, seed=11)


def internlm2(path: Path) -> Path:
    return make_text_gguf(path, "internlm2", tied=False, seed=12)


def qwen3(path: Path) -> Path:
    """Heads are wider than n_embd / n_head."""
    return make_text_gguf(path, "qwen3", tensors=_head_norms(13, 32), d_head=32, seed=13)


def qwen2vl(path: Path) -> Path:
    meta: dict[str, object] = {"qwen2vl.rope.dimension_sections": [2, 3, 3, 0]}
    meta["qwen2vl.attention.layer_norm_rms_epsilon"] = 1e-6  # the peer takes it for 0, whatever the file says
    return make_text_gguf(path, "qwen2vl", tensors=_biases(14), meta=meta, seed=14)


def qwen3vl(path: Path) -> Path:
    """Rows of pictures have three levels."""
    meta: dict[str, object] = {
        "qwen3vl.rope.dimension_sections": [3, 3, 2, 0],
        "qwen3vl.n_deepstack_layers": 2,
    }
    return make_text_gguf(path, "qwen3vl", tensors=_head_norms(15, 16, 3), meta=meta, n_layer=3, seed=15)


def smollm3(path: Path) -> Path:
    """Five layers, so that the fourth and the one behind it differ."""
    return make_text_gguf(path, "smollm3", n_layer=5, seed=16)


def granite(path: Path) -> Path:
    meta: dict[str, object] = {
        "embedding_scale": 12.0,
        "residual_scale": 0.22,
        "logit_scale": 8.0,
        "attention.scale": 0.1,
    }
    return make_text_gguf(path, "granite", meta=_prefixed("granite", meta), seed=17)


def granite_plain(path: Path) -> Path:
    """Only the scale that must be there, and no rotation."""
    meta: dict[str, object] = {"logit_scale": 0.5, "rope.scaling.finetuned": False}
    return make_text_gguf(path, "granite", meta=_prefixed("granite", meta), seed=18)


def granite_deep(path: Path) -> Path:
    """As in Granite 4 Vision: the second and third level of a picture's rows go in before layers 2 and 1."""
    meta: dict[str, object] = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}
    meta |= {"deepstack_mapping": [-1, 2, 1]}
    return make_text_gguf(path, "granite", meta=_prefixed("granite", meta), n_layer=3, seed=19)


def mistral3(path: Path) -> Path:
    """Queries have grown twice by position 23."""
    meta: dict[str, object] = {
        "attention.temperature_scale": 0.4,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
    }
    meta |= {"rope.scaling.original_context_length": 10, "rope.scaling.yarn_log_multiplier": 1.0}
    meta |= {"rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 0.5}
    return make_text_gguf(path, "mistral3", meta=_prefixed("mistral3", meta), tied=False, seed=20)


def mistral3_plain(path: Path) -> Path:
    return make_text_gguf(path, "mistral3", seed=21)


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
    meta = _prefixed("gemma4", {"embedding_length_per_layer_input": 0, **meta, **more})
    return make_text_gguf(
        path, "gemma4", tensors=t, meta=meta, without=without, n_layer=len(local), seed=seed
    )


def gemma2(path: Path) -> Path:
    t = Tensors(22)
    for name in blocks("post_attention_norm.weight", "post_ffw_norm.weight", n_layer=3):
        t.vector(name, N_EMBD)
    meta: dict[str, object] = {
        "attention.sliding_window": 8,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 10.0,
    }
    return make_text_gguf(path, "gemma2", tensors=t, meta=_prefixed("gemma2", meta), n_layer=3, seed=22)


def phi3(path: Path, window: int = 0, n_layer: int = N_LAYER) -> Path:
    """A context longer than the first one, part of a head rotates."""
    return _phi3(path, 23, 64, window, n_layer)


def phi3_short(path: Path) -> Path:
    """A context as long as the first one."""
    return _phi3(path, 24, 8192)


def _phi3(path: Path, seed: int, n_ctx_orig: int, window: int = 0, n_layer: int = N_LAYER) -> Path:
    t = Tensors(seed)
    for il in range(n_layer):
        t.matrix(f"blk.{il}.attn_qkv", N_Q + 2 * N_KV, N_EMBD)
        t.matrix(f"blk.{il}.ffn_up", 2 * N_FF, N_EMBD)
    t.vector("rope_factors_long.weight", 4, 8.0)
    t.vector("rope_factors_short.weight", 4)
    meta: dict[str, object] = {"rope.dimension_count": 8, "rope.scaling.attn_factor": 1.2}
    meta |= {"rope.scaling.original_context_length": n_ctx_orig, "attention.sliding_window": window}
    without = blocks(*(f"attn_{x}.weight" for x in "qkv"), "ffn_gate.weight", n_layer=n_layer)
    meta = _prefixed("phi3", meta)
    return make_text_gguf(
        path, "phi3", tensors=t, meta=meta, without=without, n_layer=n_layer, tied=False, seed=seed
    )


def phi2(path: Path) -> Path:
    t = _biases(25)
    for name in ("output_norm.bias", *blocks("attn_norm.bias", "attn_output.bias", "ffn_down.bias")):
        t.vector(name, N_EMBD, 0)
    for name in blocks("ffn_up.bias"):
        t.vector(name, N_FF, 0)
    t.vector("output.bias", 274, 0)
    meta: dict[str, object] = {"attention.layer_norm_epsilon": 1e-5, "rope.dimension_count": 8}
    without = [*blocks("ffn_gate.weight", "ffn_norm.weight"), "phi2.attention.layer_norm_rms_epsilon"]
    return make_text_gguf(
        path, "phi2", tensors=t, meta=_prefixed("phi2", meta), without=without, tied=False, seed=25
    )


def glm4(path: Path) -> Path:
    return _glm4(path, 26, {"rope.dimension_count": 8})


def glm4_vision(path: Path) -> Path:
    """Positions have axes, and the last layer predicts further tokens."""
    meta = {"rope.dimension_count": 16, "rope.dimension_sections": [2, 3, 3, 0], "nextn_predict_layers": 1}
    return _glm4(path, 27, meta, 3)


def _glm4(path: Path, seed: int, meta: dict[str, object], n_layer: int = N_LAYER) -> Path:
    t = _biases(seed, n_layer)
    for name in blocks("post_attention_norm", "post_ffw_norm", n_layer=n_layer):
        t.vector(f"{name}.weight", N_EMBD)
    for name in blocks("ffn_up", n_layer=n_layer):
        t.matrix(name, 2 * N_FF, N_EMBD)
    if "nextn_predict_layers" in meta:
        _further(t, n_layer - 1)
    without = blocks("ffn_gate.weight", n_layer=n_layer)
    return make_text_gguf(
        path, "glm4", tensors=t, meta=_prefixed("glm4", meta), without=without, n_layer=n_layer, seed=seed
    )


def _further(t: Tensors, il: int) -> None:
    """What layer `il` has in order to predict further tokens."""
    t.matrix(f"blk.{il}.nextn.eh_proj", N_EMBD, 2 * N_EMBD)
    t.vector(f"blk.{il}.nextn.enorm.weight", N_EMBD)
    t.vector(f"blk.{il}.nextn.hnorm.weight", N_EMBD)


def llama_experts(path: Path) -> Path:
    """As Mixtral has them: each as large as a dense network."""
    return _experts(path, "llama", Tensors(28), 28, n_ff=N_FF)


def qwen3moe(path: Path, n_used: int = 2) -> Path:
    return _experts(path, "qwen3moe", _head_norms(29, D_HEAD), 29, more={"expert_used_count": n_used})


def qwen3vlmoe(path: Path) -> Path:
    more: dict[str, object] = {"rope.dimension_sections": [3, 3, 2, 0], "n_deepstack_layers": 1}
    return _experts(path, "qwen3vlmoe", _head_norms(30, D_HEAD), 30, more=more)


def _experts(
    path: Path, arch: str, t: Tensors, seed: int, n_ff: int = 32, more: dict[str, object] | None = None
) -> Path:
    """Two of five experts, of `n_ff` each, in every layer."""
    for name in blocks("ffn"):
        _expert_tensors(t, name, 5, n_ff)
    meta = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": n_ff, **(more or {})}
    without = blocks("ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")
    return make_text_gguf(path, arch, tensors=t, meta=_prefixed(arch, meta), without=without, seed=seed)


def _expert_tensors(t: Tensors, ffn: str, n_expert: int, n_ff: int) -> None:
    t.matrix(f"{ffn}_gate_inp", n_expert, N_EMBD)
    t.matrix(f"{ffn}_gate_exps", n_expert, n_ff, N_EMBD)
    t.matrix(f"{ffn}_up_exps", n_expert, n_ff, N_EMBD)
    t.matrix(f"{ffn}_down_exps", n_expert, N_EMBD, n_ff)


def glm4moe(path: Path) -> Path:
    """The first layer is dense, the others have a network for all rows; the last predicts further tokens."""
    return _glm4moe(path, 33, {"rope.dimension_count": 8})


def glm4moe_vision(path: Path) -> Path:
    """Positions have axes; weights of experts are not made to sum to 1."""
    more: dict[str, object] = {"rope.dimension_count": 16, "rope.dimension_sections": [2, 3, 3, 0]}
    return _glm4moe(path, 34, {**more, "expert_weights_norm": False})


def _glm4moe(path: Path, seed: int, more: dict[str, object]) -> Path:
    t = _biases(seed, 4)
    for name in blocks("post_attention_norm.weight", n_layer=4):
        t.vector(name, N_EMBD)
    for il in (1, 2, 3):
        _expert_tensors(t, f"blk.{il}.ffn", 5, 32)
        t.vector(f"blk.{il}.exp_probs_b.bias", 5)
        t.matrix(f"blk.{il}.ffn_gate_shexp", 32, N_EMBD)
        t.matrix(f"blk.{il}.ffn_up_shexp", 32, N_EMBD)
        t.matrix(f"blk.{il}.ffn_down_shexp", N_EMBD, 32)
    _further(t, 3)
    meta: dict[str, object] = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32}
    meta |= {"expert_shared_count": 1, "leading_dense_block_count": 1, "nextn_predict_layers": 1}
    meta |= {"expert_weights_norm": True, "expert_weights_scale": 1.5, **more}
    without = [f"blk.{il}.ffn_{x}.weight" for il in (1, 2, 3) for x in ("gate", "up", "down")]
    without += blocks("ffn_norm.weight", n_layer=4)
    meta = _prefixed("glm4moe", meta)
    return make_text_gguf(
        path, "glm4moe", tensors=t, meta=meta, without=without, n_layer=4, tied=False, seed=seed
    )


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
    meta = _prefixed("deepseek2-ocr", more)
    without = [f"blk.{il}.ffn_{x}.weight" for il in (1, 2) for x in ("gate", "up", "down")]
    name = "deepseek2-ocr"
    return make_text_gguf(path, name, tensors=t, meta=meta, without=without, n_head_kv=4, n_layer=3, seed=39)


def ernie4_5(path: Path) -> Path:
    return make_text_gguf(path, "ernie4_5", seed=40)


def hunyuan_dense(path: Path) -> Path:
    """Rotation with a base that is stretched for long contexts."""
    meta = {"hunyuan-dense.rope.scaling.alpha": 50.0}
    return make_text_gguf(path, "hunyuan-dense", tensors=_head_norms(42, D_HEAD), meta=meta, seed=42)


def hunyuan_vl(path: Path) -> Path:
    """No pair turns by the fourth axis, on which text stands still in the peer."""
    meta = {"hunyuan_vl.rope.dimension_sections": [3, 2, 3, 0]}
    return make_text_gguf(path, "hunyuan_vl", tensors=_head_norms(43, D_HEAD), meta=meta, seed=43)


def granitemoe(path: Path) -> Path:
    """Beside the experts there is a network for all rows."""
    t = Tensors(44)
    for il in range(N_LAYER):
        t.matrix(f"blk.{il}.ffn_gate_shexp", 48, N_EMBD)
        t.matrix(f"blk.{il}.ffn_up_shexp", 48, N_EMBD)
        t.matrix(f"blk.{il}.ffn_down_shexp", N_EMBD, 48)
    more: dict[str, object] = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}
    return _experts(path, "granitemoe", t, 44, N_FF, {**more, "expert_shared_feed_forward_length": 48})


def chatglm(path: Path) -> Path:
    t = Tensors(45)
    for il in range(N_LAYER):
        t.matrix(f"blk.{il}.attn_qkv", N_Q + 2 * N_KV, N_EMBD)
        t.vector(f"blk.{il}.attn_qkv.bias", N_Q + 2 * N_KV, 0)
        t.matrix(f"blk.{il}.ffn_up", 2 * N_FF, N_EMBD)
    meta: dict[str, object] = {"chatglm.rope.dimension_count": 8}
    without = blocks(*(f"attn_{x}.weight" for x in "qkv"), "ffn_gate.weight")
    return make_text_gguf(path, "chatglm", tensors=t, meta=meta, without=without, tied=False, seed=45)


def exaone4(path: Path) -> Path:
    """As 1.2B: no window."""
    return _exaone4(path, 47, N_LAYER, {})


def exaone4_hybrid(path: Path) -> Path:
    """As 32B, of which the peer knows by its 64 layers that some have a window."""
    return _exaone4(path, 48, 64, {"attention.sliding_window": 8})


def _exaone4(path: Path, seed: int, n_layer: int, more: dict[str, object]) -> Path:
    t = _head_norms(seed, D_HEAD, n_layer)
    for name in blocks("post_attention_norm.weight", "post_ffw_norm.weight", n_layer=n_layer):
        t.vector(name, N_EMBD)
    t.vector("rope_freqs.weight", D_HEAD // 2, 3.0)
    meta, without = _prefixed("exaone4", more), blocks("attn_norm.weight", "ffn_norm.weight", n_layer=n_layer)
    return make_text_gguf(path, "exaone4", tensors=t, meta=meta, without=without, n_layer=n_layer, seed=seed)


def minicpm(path: Path) -> Path:
    return make_text_gguf(path, "minicpm", seed=35)


def minicpm_long(path: Path) -> Path:
    """As MiniCPM 4: a context longer than the first one."""
    t = Tensors(46)
    t.vector("rope_factors_long.weight", 8, 8.0)
    t.vector("rope_factors_short.weight", 8)
    meta = _prefixed("minicpm", {"rope.scaling.type": "longrope", "rope.scaling.original_context_length": 64})
    return make_text_gguf(path, "minicpm", tensors=t, meta=meta, seed=46)


def paddleocr(path: Path) -> Path:
    return make_text_gguf(
        path, "paddleocr", meta={"paddleocr.rope.dimension_sections": [2, 3, 3, 0]}, seed=36
    )


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
        path, arch, tensors=t, meta=_prefixed(arch, meta), without=without, n_layer=4, seed=seed
    )


def _prefixed(arch: str, meta: dict[str, object]) -> dict[str, object]:
    return {f"{arch}.{name}": value for name, value in meta.items()}


def _biases(seed: int, n_layer: int = N_LAYER) -> Tensors:
    t = Tensors(seed)
    for il in range(n_layer):
        for x, n in (("q", N_Q), ("k", N_KV), ("v", N_KV)):
            t.vector(f"blk.{il}.attn_{x}.bias", n, 0)
    return t


def _head_norms(seed: int, d_head: int, n_layer: int = N_LAYER) -> Tensors:
    t = Tensors(seed)
    for name in blocks("attn_q_norm.weight", "attn_k_norm.weight", n_layer=n_layer):
        t.vector(name, d_head)
    return t


CASES: dict[str, Callable[..., Path]] = {
    make.__name__: make
    for make in (
        qwen2,
        qwen2_untied,
        internlm2,
        qwen3,
        qwen2vl,
        qwen3vl,
        smollm3,
        granite,
        granite_plain,
        granite_deep,
        mistral3,
        mistral3_plain,
        gemma2,
        phi3,
        phi3_short,
        phi2,
        glm4,
        glm4_vision,
        llama_experts,
        qwen3moe,
        qwen3vlmoe,
        lfm2,
        lfm2moe,
        glm4moe,
        glm4moe_vision,
        minicpm,
        exaone4,
        exaone4_hybrid,
        minicpm_long,
        chatglm,
        hunyuan_dense,
        hunyuan_vl,
        granitemoe,
        deepseek2ocr,
        ernie4_5,
        paddleocr,
        gemma4,
        gemma4_small,
        gemma4_experts,
    )
}
