"""Golden embeddings of the tiny projectors as the models' authors compute them (transformers, in float32).

    python -m tests.authors.projectors PYTHON [NAME...]    writes tests/golden/authors/NAME.npz

PYTHON is the interpreter of a venv with torch, transformers 5.24 or later and pillow 12; it gets weights and
media as arrays. NAME.py beside this file has `answer(w, medium)`, w the tensors by their GGUF names, medium
[h, w, 3] or [n_sample]. It gives some of these, which the golden then has for each MEDIUM of the projector:
    rows      [n, n_embd], those of all tiles in order
    pixels    what went into the tower, [n_tile, ...]
    layout    a list of strings, and of -n where n rows stand
"""

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "authors"
NAMES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in ("base", "projectors"))


def prepare(folder: Path, name: str) -> None:
    """Write weights and media as arrays."""
    from llm.gguf import GGUF
    from tests.mmproj import CASES, base

    tensors = GGUF(CASES[name].make(folder / "mmproj.gguf")).tensors
    np.savez(folder / "weights.npz", **{n: t.to_f32() for n, t in tensors.items()})
    media = {}
    for what in CASES[name].MEDIA:
        media[what] = base.medium(what).pixels if base.is_picture(what) else base.medium(what).samples
    np.savez(folder / "media.npz", **media)


def answer(folder: Path, name: str) -> None:
    """The authors' part; runs in their interpreter."""
    import torch

    script = importlib.import_module(name)
    weights = {n: torch.from_numpy(a) for n, a in np.load(folder / "weights.npz").items()}
    out = {}
    with torch.no_grad():
        for medium, array in np.load(folder / "media.npz").items():
            for part, value in script.answer(weights, array).items():
                out[f"{medium}/{part}"] = json.dumps(value) if part == "layout" else np.asarray(value)
    np.savez(folder / "answer.npz", **out)


def thinned(answer: Path) -> dict[str, np.ndarray]:
    from tests.rows import sample, thin

    out: dict[str, np.ndarray] = {}
    for key, value in np.load(answer).items():
        medium, part = key.split("/")
        match part:
            case "rows":
                out |= {f"{medium}/{n}": a for n, a in thin(value).items()}
            case "pixels":
                out[key] = sample(value)
            case _:
                out[key] = value
    return out


def main() -> None:
    for name in sys.argv[2:] or NAMES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            prepare(folder, name)
            subprocess.run([sys.argv[1], __file__, "answer", temporary, name], check=True)
            np.savez_compressed(GOLDEN / f"{name}.npz", **thinned(folder / "answer.npz"))


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(Path(sys.argv[2]), sys.argv[3])
    else:
        main()
