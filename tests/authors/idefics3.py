"""Idefics3 as transformers has it."""

from base import block_names, fill
from transformers.models.idefics3 import configuration_idefics3 as c
from transformers.models.idefics3 import modeling_idefics3 as m
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil


def answer(w, picture):
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
    rows = connector(tower(pixel_values=pixels).last_hidden_state).reshape(-1, 64)
    return {"rows": rows, "pixels": pixels}
