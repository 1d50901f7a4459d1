"""A random idefics3 projector as large as SigLIP-base, for timing: python benchmarks/siglip_base.py OUT.gguf

12 layers of width 768 over 1,024 patches of a 512-pixel tile, as in SmolVLM-256M; rows fit SmolLM2-135M.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.mmproj import idefics3


def write_siglip_base(path: Path, kind: str = "F16") -> Path:
    """Matrices in `kind`; a picture of any size gives one tile and the overview."""
    return idefics3.make(
        path,
        {"v.position_embd*": "F32", "v.patch_embd*": "F16" if kind != "F32" else "F32", "*": kind},
        n_embd=768,
        n_ff=3072,
        n_layer=12,
        n_head=12,
        image_size=512,
        longest_edge=512,
        patch_size=16,
        n_merge=4,
        n_out=576,
    )


if __name__ == "__main__":
    write_siglip_base(Path(sys.argv[1]), *sys.argv[2:])
