"""What the authors' scripts share: our weights into their modules, float32 throughout.

These files run under an interpreter with torch, transformers 5.24 or later and pillow 12, and none of ours.
"""

import torch
from torch.nn import functional

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


def fill(module, weights, names) -> None:
    """Load a module's parameters: `names` maps theirs to ours; layer norms get the file's epsilon."""
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


def mlp(w, x, first="mm.a.mlp.1", second="mm.a.mlp.2"):
    """Two linear layers, the exact GELU between them."""
    return linear(w, functional.gelu(linear(w, x, first)), second)


def linear(w, x, name):
    return functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))
