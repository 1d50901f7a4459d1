"""Random matrices of every block format; where gguf cannot make one, any bytes with sensible scales."""

import numpy as np
from gguf import GGMLQuantizationType, quants

from llm.gguf import BLOCK, GgmlType, Tensor

FLOATS = ["F32", "F16", "BF16"]
BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "IQ4_NL"]
WIDE_BLOCKS = ["NVFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "TQ1_0", "TQ2_0"]
GRIDS = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
ALL_BLOCKS = BLOCKS + WIDE_BLOCKS + GRIDS  # that the gguf package can unpack
# Where float16 factors stand in formats that the package cannot make, and how many.
_FACTORS = {
    "Q2_K": (80, 2),
    "Q3_K": (108, 1),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208, 1),
    "IQ1_M": (0, 0),
    "NVFP4": (0, 0),
}


def tensor(kind: str, n_out: int, n_in: int, seed: int = 0) -> Tensor:
    rng, type_ = np.random.default_rng(seed), GgmlType[kind]
    if kind in [*FLOATS, "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "TQ1_0", "TQ2_0"]:
        weight = rng.standard_normal((n_out, n_in), dtype=np.float32)
        data = quants.quantize(weight, GGMLQuantizationType[kind])
    else:
        per_block, n_bytes = BLOCK[type_]
        data = rng.integers(0, 256, (n_out, n_in // per_block, n_bytes), dtype=np.uint8)
        at, n = _FACTORS.get(kind, (0, 1))
        factors = rng.uniform(0.001, 0.01, (*data.shape[:2], max(n, 1))).astype(np.float16)
        data[..., at : at + 2 * n] = factors.view(np.uint8)[..., : 2 * n]
        if kind == "NVFP4":  # its factors are float8, of which 127 stands for 0
            data[..., :4] &= 0x7F
        if kind == "IQ1_M":  # the factor is spread over the highest bits of four words
            words, bits = data[..., 48:].copy().view(np.uint16), factors.view(np.uint16)
            data[..., 48:] = (words & 0xFFF | bits << [12, 8, 4, 0] & 0xF000).astype(np.uint16).view(np.uint8)
    return Tensor("w", type_, (n_out, n_in), np.ascontiguousarray(data).view(np.uint8).reshape(-1))
