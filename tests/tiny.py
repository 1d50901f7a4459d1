"""Random models small enough to be written in milliseconds, in files that the peer opens too.

A tiny text model has a byte-level BPE vocabulary with a few merges, ChatML's special tokens (and any others a
test needs) and a chat template. `write_gguf` writes any other GGUF, a projector's for example.
"""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import quantize
from numpy.typing import NDArray

F32 = NDArray[np.float32]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = (
    "h e",
    "i n",
    "Ġ t",
    "Ġt he",
    "r e",
    "o n",
    "Ġ a",
    "e r",
    "in g",
    "u s",
    "us er",
    "l l",
    "he ll",
    "hell o",
    "Ċ Ċ",
)


def write_gguf(
    path: Path, arch: str, meta: Mapping[str, object], tensors: Mapping[str, F32], types: Mapping[str, str]
) -> Path:
    """Write a file. `types` maps name patterns to formats ("blk.*" -> "Q8_0"), first match; else F32.

    Matrices whose rows do not fill the format's blocks, and vectors, stay F32.
    """
    writer = gguf.GGUFWriter(path, arch)
    for name, value in meta.items():
        _add_value(writer, name, value)
    for name, data in tensors.items():
        wanted = next((t for pattern, t in types.items() if fnmatch(name, pattern)), "F32")
        kind = gguf.GGMLQuantizationType[wanted]
        if data.ndim < 2 or data.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
            kind = gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, quantize(np.ascontiguousarray(data, np.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def make_text_gguf(
    path: Path,
    arch: str = "llama",
    *,
    n_embd: int = 64,
    n_layer: int = 2,
    n_head: int = 4,
    n_head_kv: int = 2,
    d_head: int = 16,
    n_ff: int = 96,
    n_ctx: int = 256,
    seed: int = 0,
    types: Mapping[str, str] | None = None,
    specials: Iterable[str] = (),
    tied: bool = True,
    bias: bool = False,
    meta: Mapping[str, object] | None = None,
    tensors: Mapping[str, F32] | None = None,
    without: Iterable[str] = (),
) -> Path:
    """A text model of architecture `arch` with random weights: llama's tensors, and gemma3's if it is that.

    `specials` are control tokens after ChatML's; `meta` (full keys) and `tensors` come on top or replace what
    is there, `without` names keys and tensors to leave out. `tied`: no output.weight. `bias`: of q, k, v, o.
    """
    vocab = vocabulary(specials)
    rng = np.random.default_rng(seed)
    n_vocab = len(vocab["tokenizer.ggml.tokens"])  # type: ignore[arg-type]
    n_q, n_kv = n_head * d_head, n_head_kv * d_head

    def matrix(n_out: int, n_in: int) -> F32:
        return (rng.standard_normal((n_out, n_in)) / np.sqrt(n_in)).astype(np.float32)

    def vector(n: int, mean: float = 1.0) -> F32:
        return (mean + 0.2 * rng.standard_normal(n)).astype(np.float32)

    weights = {
        "token_embd.weight": matrix(n_vocab, n_embd) * np.float32(3),
        "output_norm.weight": vector(n_embd),
    }
    if not tied:
        weights["output.weight"] = matrix(n_vocab, n_embd)
    for il in range(n_layer):
        blk = {
            "attn_norm.weight": vector(n_embd),
            "attn_q.weight": matrix(n_q, n_embd),
            "attn_k.weight": matrix(n_kv, n_embd),
            "attn_v.weight": matrix(n_kv, n_embd),
            "attn_output.weight": matrix(n_embd, n_q),
            "ffn_norm.weight": vector(n_embd),
            "ffn_gate.weight": matrix(n_ff, n_embd),
            "ffn_up.weight": matrix(n_ff, n_embd),
            "ffn_down.weight": matrix(n_embd, n_ff),
        }
        if bias:
            blk |= {f"attn_{x}.bias": vector(n, 0) for x, n in (("q", n_q), ("k", n_kv), ("v", n_kv))}
            blk["attn_output.bias"] = vector(n_embd, 0)
        if arch in _EXTRA_TENSORS:
            blk |= _EXTRA_TENSORS[arch](vector, n_embd, d_head)
        weights |= {f"blk.{il}.{name}": data for name, data in blk.items()}
    keys: dict[str, object] = {
        f"{arch}.context_length": n_ctx,
        f"{arch}.embedding_length": n_embd,
        f"{arch}.block_count": n_layer,
        f"{arch}.feed_forward_length": n_ff,
        f"{arch}.attention.head_count": n_head,
        f"{arch}.attention.head_count_kv": n_head_kv,
        f"{arch}.attention.key_length": d_head,
        f"{arch}.attention.value_length": d_head,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 10000.0,
        **vocab,
    }
    keys |= _EXTRA_KEYS[arch](d_head) if arch in _EXTRA_KEYS else {}
    keys |= meta or {}
    weights |= tensors or {}
    for name in without:
        assert (keys.pop(name, None) is not None) | (weights.pop(name, None) is not None), name
    return write_gguf(path, arch, keys, weights, types or {})


def vocabulary(specials: Iterable[str] = ()) -> dict[str, object]:
    """Metadata of a byte-level BPE vocabulary: 256 bytes, MERGES, then the special tokens."""
    text = [*_byte_characters(), *(m.replace(" ", "") for m in MERGES)]
    control = [*SPECIALS, *specials]
    special_id = {name: len(text) + i for i, name in enumerate(control)}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": text + control,
        "tokenizer.ggml.token_type": [1] * len(text) + [3] * len(control),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": special_id["<|endoftext|>"],
        "tokenizer.ggml.eos_token_id": special_id["<|im_end|>"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHATML,
    }


def _byte_characters() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes, in byte order."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


Vector = Callable[..., F32]
_EXTRA_KEYS: dict[str, Callable[[int], dict[str, object]]] = {
    "llama": lambda d_head: {"llama.rope.dimension_count": d_head},
    "gemma3": lambda d_head: {"gemma3.attention.sliding_window": 8},
}
_EXTRA_TENSORS: dict[str, Callable[[Vector, int, int], dict[str, F32]]] = {
    "gemma3": lambda vector, n_embd, d_head: {
        "attn_q_norm.weight": vector(d_head),
        "attn_k_norm.weight": vector(d_head),
        "post_attention_norm.weight": vector(n_embd),
        "post_ffw_norm.weight": vector(n_embd),
    },
}


def _add_value(writer: gguf.GGUFWriter, name: str, value: object) -> None:
    match value:
        case bool():
            writer.add_bool(name, value)
        case int():
            writer.add_uint32(name, value)
        case float():
            writer.add_float32(name, value)
        case str():
            writer.add_string(name, value)
        case _:
            writer.add_array(name, list(value))  # type: ignore[call-overload]
