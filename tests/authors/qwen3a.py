"""Qwen3-ASR as transformers has it."""

from base import block_names, fill, mlp
from transformers.models.qwen3_asr import configuration_qwen3_asr as c
from transformers.models.qwen3_asr import modeling_qwen3_asr as m
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor


def answer(w, clip):
    cfg = c.Qwen3ASREncoderConfig(
        num_mel_bins=32,
        encoder_layers=2,
        encoder_attention_heads=3,
        encoder_ffn_dim=96,
        d_model=48,
        output_dim=64,
        downsample_hidden_size=8,
    )
    cfg._attn_implementation = "eager"
    tower = m.Qwen3ASREncoder(cfg).eval()
    names = {f"conv2d{i}": f"a.conv2d.{i}" for i in (1, 2, 3)}
    names |= {"conv_out": "a.conv_out", "ln_post": "a.post_ln", **block_names("layers", "a", 2, 1)}
    fill(tower, w, names)
    tower.positional_embedding.positional_embedding[:] = w["a.position_embd.weight"][:13]
    extract = Qwen3ASRFeatureExtractor(feature_size=32)
    how = {"sampling_rate": 16000, "padding": "longest", "return_tensors": "pt"}
    features = extract(clip, return_attention_mask=True, **how)
    x = tower(features["input_features"], features["attention_mask"]).last_hidden_state.reshape(-1, 48)
    return {"rows": mlp(w, x)}
