"""A tiny random model of each dense architecture beyond llama and gemma3, in each form its files come in."""

from collections.abc import Callable
from pathlib import Path

from tests.tiny import make_text_gguf
from tests.tiny_tensors import (
    D_HEAD,
    N_EMBD,
    N_FF,
    N_KV,
    N_LAYER,
    N_Q,
    Tensors,
    biases,
    blocks,
    further,
    head_norms,
    prefixed,
)


def qwen2(path: Path) -> Path:
    return make_text_gguf(path, "qwen2", tensors=biases(10), seed=10)


def qwen2_untied(path: Path) -> Path:
    """The long-context form: stretched by YaRN."""
    t = biases(11)
    meta: dict[str, object] = {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0}
    meta |= {"qwen2.rope.scaling.original_context_length": 64, "qwen2.rope.freq_base": 1e6}
    return make_text_gguf(path, "qwen2", tensors=t, meta=meta, tied=False, seed=11)


def internlm2(path: Path) -> Path:
    return make_text_gguf(path, "internlm2", tied=False, seed=12)


def qwen3(path: Path) -> Path:
    """Heads are wider than n_embd / n_head."""
    return make_text_gguf(path, "qwen3", tensors=head_norms(13, 32), d_head=32, seed=13)


def qwen2vl(path: Path) -> Path:
    meta: dict[str, object] = {"qwen2vl.rope.dimension_sections": [2, 3, 3, 0]}
    meta["qwen2vl.attention.layer_norm_rms_epsilon"] = 1e-6  # the peer takes it for 0, whatever the file says
    return make_text_gguf(path, "qwen2vl", tensors=biases(14), meta=meta, seed=14)


def qwen3vl(path: Path) -> Path:
    """Rows of pictures have three levels."""
    meta: dict[str, object] = {
        "qwen3vl.rope.dimension_sections": [3, 3, 2, 0],
        "qwen3vl.n_deepstack_layers": 2,
    }
    return make_text_gguf(path, "qwen3vl", tensors=head_norms(15, 16, 3), meta=meta, n_layer=3, seed=15)


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
    return make_text_gguf(path, "granite", meta=prefixed("granite", meta), seed=17)


def granite_plain(path: Path) -> Path:
    """Only the scale that must be there, and no rotation."""
    meta: dict[str, object] = {"logit_scale": 0.5, "rope.scaling.finetuned": False}
    return make_text_gguf(path, "granite", meta=prefixed("granite", meta), seed=18)


def granite_deep(path: Path) -> Path:
    """As in Granite 4 Vision: the second and third level of a picture's rows go in before layers 2 and 1."""
    meta: dict[str, object] = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}
    meta |= {"deepstack_mapping": [-1, 2, 1]}
    return make_text_gguf(path, "granite", meta=prefixed("granite", meta), n_layer=3, seed=19)


def mistral3(path: Path) -> Path:
    """Queries have grown twice by position 23."""
    meta: dict[str, object] = {
        "attention.temperature_scale": 0.4,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
    }
    meta |= {"rope.scaling.original_context_length": 10, "rope.scaling.yarn_log_multiplier": 1.0}
    meta |= {"rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 0.5}
    return make_text_gguf(path, "mistral3", meta=prefixed("mistral3", meta), tied=False, seed=20)


def mistral3_plain(path: Path) -> Path:
    return make_text_gguf(path, "mistral3", seed=21)


def gemma2(path: Path) -> Path:
    t = Tensors(22)
    for name in blocks("post_attention_norm.weight", "post_ffw_norm.weight", n_layer=3):
        t.vector(name, N_EMBD)
    meta: dict[str, object] = {
        "attention.sliding_window": 8,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 10.0,
    }
    return make_text_gguf(path, "gemma2", tensors=t, meta=prefixed("gemma2", meta), n_layer=3, seed=22)


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
    meta = prefixed("phi3", meta)
    return make_text_gguf(
        path, "phi3", tensors=t, meta=meta, without=without, n_layer=n_layer, tied=False, seed=seed
    )


def phi2(path: Path) -> Path:
    t = biases(25)
    for name in ("output_norm.bias", *blocks("attn_norm.bias", "attn_output.bias", "ffn_down.bias")):
        t.vector(name, N_EMBD, 0)
    for name in blocks("ffn_up.bias"):
        t.vector(name, N_FF, 0)
    t.vector("output.bias", 274, 0)
    meta: dict[str, object] = {"attention.layer_norm_epsilon": 1e-5, "rope.dimension_count": 8}
    without = [*blocks("ffn_gate.weight", "ffn_norm.weight"), "phi2.attention.layer_norm_rms_epsilon"]
    return make_text_gguf(
        path, "phi2", tensors=t, meta=prefixed("phi2", meta), without=without, tied=False, seed=25
    )


def glm4(path: Path) -> Path:
    return _glm4(path, 26, {"rope.dimension_count": 8})


def glm4_vision(path: Path) -> Path:
    """Positions have axes, and the last layer predicts further tokens."""
    meta = {"rope.dimension_count": 16, "rope.dimension_sections": [2, 3, 3, 0], "nextn_predict_layers": 1}
    return _glm4(path, 27, meta, 3)


def _glm4(path: Path, seed: int, meta: dict[str, object], n_layer: int = N_LAYER) -> Path:
    t = biases(seed, n_layer)
    for name in blocks("post_attention_norm", "post_ffw_norm", n_layer=n_layer):
        t.vector(f"{name}.weight", N_EMBD)
    for name in blocks("ffn_up", n_layer=n_layer):
        t.matrix(name, 2 * N_FF, N_EMBD)
    if "nextn_predict_layers" in meta:
        further(t, n_layer - 1)
    without = blocks("ffn_gate.weight", n_layer=n_layer)
    return make_text_gguf(
        path, "glm4", tensors=t, meta=prefixed("glm4", meta), without=without, n_layer=n_layer, seed=seed
    )


def ernie4_5(path: Path) -> Path:
    return make_text_gguf(path, "ernie4_5", seed=40)


def hunyuan_dense(path: Path) -> Path:
    """Rotation with a base that is stretched for long contexts."""
    meta = {"hunyuan-dense.rope.scaling.alpha": 50.0}
    return make_text_gguf(path, "hunyuan-dense", tensors=head_norms(42, D_HEAD), meta=meta, seed=42)


def hunyuan_vl(path: Path) -> Path:
    """No pair turns by the fourth axis, on which text stands still in the peer."""
    meta = {"hunyuan_vl.rope.dimension_sections": [3, 2, 3, 0]}
    return make_text_gguf(path, "hunyuan_vl", tensors=head_norms(43, D_HEAD), meta=meta, seed=43)


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
    t = head_norms(seed, D_HEAD, n_layer)
    for name in blocks("post_attention_norm.weight", "post_ffw_norm.weight", n_layer=n_layer):
        t.vector(name, N_EMBD)
    t.vector("rope_freqs.weight", D_HEAD // 2, 3.0)
    meta, without = prefixed("exaone4", more), blocks("attn_norm.weight", "ffn_norm.weight", n_layer=n_layer)
    return make_text_gguf(path, "exaone4", tensors=t, meta=meta, without=without, n_layer=n_layer, seed=seed)


def minicpm(path: Path) -> Path:
    return make_text_gguf(path, "minicpm", seed=35)


def minicpm_long(path: Path) -> Path:
    """As MiniCPM 4: a context longer than the first one."""
    t = Tensors(46)
    t.vector("rope_factors_long.weight", 8, 8.0)
    t.vector("rope_factors_short.weight", 8)
    meta = prefixed("minicpm", {"rope.scaling.type": "longrope", "rope.scaling.original_context_length": 64})
    return make_text_gguf(path, "minicpm", tensors=t, meta=meta, seed=46)


def paddleocr(path: Path) -> Path:
    return make_text_gguf(
        path, "paddleocr", meta={"paddleocr.rope.dimension_sections": [2, 3, 3, 0]}, seed=36
    )


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
        minicpm,
        exaone4,
        exaone4_hybrid,
        minicpm_long,
        chatglm,
        hunyuan_dense,
        hunyuan_vl,
        ernie4_5,
        paddleocr,
    )
}
