"""Ultravox, which is no part of transformers.

Front end, convolutions and layers are Whisper's there; what surrounds them is written here after fixie-ai's
ultravox_model.py.
"""

import torch
from base import block_names, fill
from torch.nn import functional
from transformers import WhisperConfig, WhisperFeatureExtractor
from transformers.models.whisper.modeling_whisper import WhisperEncoderLayer


def answer(w, clip):
    cfg = WhisperConfig(d_model=40, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=64)
    cfg._attn_implementation = "eager"
    layers = torch.nn.ModuleList(WhisperEncoderLayer(cfg) for _ in range(2)).eval()
    fill(layers, w, {k.removeprefix("."): v for k, v in block_names("", "a", 2, 1).items()})
    extract = WhisperFeatureExtractor(feature_size=20)
    how = {"sampling_rate": 16000, "padding": "longest", "return_tensors": "pt"}
    mel = extract(clip, pad_to_multiple_of=160, truncation=False, **how)["input_features"]  # [1, 20, n_frame]
    rows = []
    for chunk in mel.split(3000, dim=2):
        x = functional.gelu(
            functional.conv1d(chunk, w["a.conv1d.1.weight"], w["a.conv1d.1.bias"].flatten(), padding=1)
        )
        x = functional.gelu(
            functional.conv1d(x, w["a.conv1d.2.weight"], w["a.conv1d.2.bias"].flatten(), stride=2, padding=1)
        )
        x = x.transpose(1, 2) + w["a.position_embd.weight"][: x.shape[2]]
        for layer in layers:
            x = layer(x, None)
        x = functional.layer_norm(x, (40,), w["a.post_ln.weight"], w["a.post_ln.bias"], 1e-6)
        x = functional.pad(x, (0, 0, 0, -x.shape[1] % 8)).reshape(-1, 320)
        x = functional.rms_norm(x, (320,), w["mm.a.norm_pre.weight"], 1e-6)
        up, gate = functional.linear(x, w["mm.a.mlp.1.weight"]).chunk(2, dim=1)
        x = functional.rms_norm(functional.silu(gate) * up, (64,), w["mm.a.norm_mid.weight"], 1e-6)
        rows.append(functional.linear(x, w["mm.a.mlp.2.weight"]))
    return {"rows": torch.cat(rows)}
