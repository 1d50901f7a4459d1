"""Golden embeddings of the tiny projectors as the models' authors compute them (transformers, in float32).

    python -m tests.authors.projectors PYTHON    writes tests/golden/authors.npz

PYTHON is the interpreter of a venv with torch, transformers 5.24 and pillow 12; it gets weights as arrays.
NAME of projector/medium gives float16 [n, n_embd], the rows of all tiles in order. Ultravox is no part of
transformers: its front end, convolutions and layers are Whisper's there, what surrounds them is written here
after fixie-ai's ultravox_model.py.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "authors.npz"
LAYER = {  # GGUF name within a block: the authors' names
    "ln1": ("layer_norm1", "self_attn_layer_norm"),
    "ln2": ("layer_norm2", "final_layer_norm"),
    "attn_q": ("self_attn.q_proj", "self_attn.q_proj"),
    "attn_k": ("self_attn.k_proj", "self_attn.k_proj"),
    "attn_v": ("self_attn.v_proj", "self_attn.v_proj"),
    "attn_out": ("self_attn.out_proj", "self_attn.out_proj"),
    "ffn_up": ("mlp.fc1", "fc1"),
    "ffn_down": ("mlp.fc2", "fc2"),
}


def prepare(folder: Path) -> None:
    """Write weights and media as arrays."""
    from llm.gguf import GGUF
    from tests import tiny_mmproj as tiny

    for name, make in (("idefics3", tiny.idefics3), ("qwen3a", tiny.qwen3a), ("ultravox", tiny.ultravox)):
        tensors = GGUF(make(folder / f"{name}.gguf")).tensors
        np.savez(folder / f"{name}.npz", **{n: t.to_f32() for n, t in tensors.items()})
    pictures = {f"{w}x{h}": tiny.picture(w, h) for w, h in tiny.PICTURES}
    clips = {str(s): (tiny.sound(s) / np.float32(32768)).astype(np.float32) for s in tiny.CLIPS}
    np.savez(folder / "media.npz", **pictures, **clips)
    cases = [("idefics3", p) for p in pictures]
    cases += [(name, c) for name in ("qwen3a", "ultravox") for c in clips]
    (folder / "cases.json").write_text(json.dumps(cases))


def answer(folder: Path) -> None:
    """The authors' part; runs in their interpreter."""
    import torch

    media = np.load(folder / "media.npz")
    encoders = {"idefics3": idefics3, "qwen3a": qwen3a, "ultravox": ultravox}
    out = {}
    with torch.no_grad():
        for name, medium in json.loads((folder / "cases.json").read_text()):
            weights = {n: torch.from_numpy(a) for n, a in np.load(folder / f"{name}.npz").items()}
            rows = encoders[name](weights, media[medium])
            out[f"{name}/{medium}"] = rows.numpy().astype(np.float16)
    np.savez_compressed(folder / "golden.npz", **out)


def fill(module, weights, names) -> None:
    """Load a module's parameters: `names` maps theirs to ours; layer norms get the file's epsilon."""
    import torch

    state = {}
    for theirs, ours in names.items():
        for part in ("weight", "bias"):
            if f"{ours}.{part}" in weights:
                state[f"{theirs}.{part}"] = weights[f"{ours}.{part}"]
    for name, parameter in module.state_dict().items():
        state.setdefault(name, torch.zeros_like(parameter) if name.endswith("bias") else parameter)
    state = {name: value.reshape(module.state_dict()[name].shape) for name, value in state.items()}
    module.load_state_dict(state)
    for part in module.modules():
        if isinstance(part, torch.nn.LayerNorm):
            part.eps = 1e-6


def block_names(theirs: str, ours: str, n_layer: int, style: int) -> dict[str, str]:
    return {
        f"{theirs}.{i}.{names[style]}": f"{ours}.blk.{i}.{gguf}"
        for i in range(n_layer)
        for gguf, names in LAYER.items()
    }


def idefics3(w, picture):
    from transformers.models.idefics3 import configuration_idefics3 as c
    from transformers.models.idefics3 import modeling_idefics3 as m
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    vision = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3}
    vision |= {"image_size": 32, "patch_size": 8, "hidden_act": "gelu_pytorch_tanh"}
    text = {"model_type": "llama", "hidden_size": 64}
    cfg = c.Idefics3Config(vision_config=vision, text_config=text, scale_factor=2)
    cfg.vision_config._attn_implementation = "eager"
    tower = m.Idefics3VisionTransformer(cfg.vision_config).eval()
    names = {
        "embeddings.patch_embedding": "v.patch_embd",
        "embeddings.position_embedding": "v.position_embd",
        "post_layernorm": "v.post_ln",
        **block_names("encoder.layers", "v", 2, 0),
    }
    fill(tower, w, names)
    connector = m.Idefics3Connector(cfg)
    fill(connector, w, {"modality_projection.proj": "mm.model.fc"})
    processor = Idefics3ImageProcessorPil(size={"longest_edge": 128}, max_image_size={"longest_edge": 32})
    pixels = processor(picture, return_tensors="pt")["pixel_values"][0]  # [n_tile, 3, 32, 32]
    return connector(tower(pixel_values=pixels).last_hidden_state).reshape(-1, 64)


def qwen3a(w, clip):
    from transformers.models.qwen3_asr import configuration_qwen3_asr as c
    from transformers.models.qwen3_asr import modeling_qwen3_asr as m
    from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor

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
    return mlp(w, x)


def mlp(w, x):
    from torch.nn import functional

    x = functional.gelu(functional.linear(x, w["mm.a.mlp.1.weight"], w["mm.a.mlp.1.bias"]))
    return functional.linear(x, w["mm.a.mlp.2.weight"], w["mm.a.mlp.2.bias"])


def ultravox(w, clip):
    import torch
    from torch.nn import functional
    from transformers import WhisperConfig, WhisperFeatureExtractor
    from transformers.models.whisper.modeling_whisper import WhisperEncoderLayer

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
    return torch.cat(rows)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        subprocess.run([sys.argv[1], __file__, "answer", name], check=True)
        GOLDEN.write_bytes((folder / "golden.npz").read_bytes())


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(Path(sys.argv[2]))
    else:
        main()
