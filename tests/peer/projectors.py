"""Golden embeddings, layouts and answers of the tiny projectors, as the peer gives them.

    python -m tests.peer.projectors PEER_PYTHON [NAME...]    writes tests/golden/peer/NAME.npz

PEER_PYTHON is the interpreter of a venv with llama-cpp-python; it needs nothing of ours but driver.py.
For each MEDIUM that tests/mmproj/NAME.py shows its projector the file has
    MEDIUM/layout      int32, token ids in order, and -n where n rows of a medium stand
    MEDIUM/rows, sums  the rows of all tiles in order, thinned by tests/rows.py
    MEDIUM/greedy      int32, the answer to "hi " + medium + "what" at temperature 0
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "peer"
N_GREEDY = 32


def prepare(folder: Path, name: str) -> None:
    """Write the tiny models and the media."""
    import soundfile
    from PIL import Image

    from tests.mmproj import CASES, base

    case = CASES[name]
    case.text(folder / "text.gguf")
    case.make(folder / "mmproj.gguf")
    for medium in case.MEDIA:
        if base.is_picture(medium):
            w, h = map(int, medium.split("x"))
            Image.fromarray(base.picture(w, h)).save(folder / f"{medium}.png")
        else:
            soundfile.write(folder / f"{medium}.wav", base.sound(float(medium)), 16000)


def answer(folder: Path) -> None:
    """The peer's part; runs in its interpreter."""
    import driver

    driver.EXACT = True  # its keys and values would be float16 otherwise
    peer = driver.Peer(str(folder / "text.gguf"), str(folder / "mmproj.gguf"))
    out = {}
    for path in [*folder.glob("*.png"), *folder.glob("*.wav")]:
        part = {"media": str(path)}
        layout: list[int] = []
        rows = []
        for kind, chunk in peer.chunks([part], bos=False):
            if kind == "text":
                layout += peer.text_ids(chunk)
            else:
                rows.append(peer.encode(chunk))
                layout.append(-len(rows[-1]))
        out[f"{path.stem}/layout"] = np.array(layout, np.int32)
        out[f"{path.stem}/rows"] = np.concatenate(rows)
        out[f"{path.stem}/greedy"] = np.array(peer.generate(["hi ", part, "what"], N_GREEDY), np.int32)
    np.savez(folder / "answer.npz", **out)


def thinned(answer: Path) -> dict[str, np.ndarray]:
    """The arrays of a file, rows thinned."""
    from tests.rows import thin

    out = {}
    for key, value in sorted(np.load(answer).items()):
        what, part = key.split("/")
        out |= {f"{what}/{n}": a for n, a in (thin(value) if part == "rows" else {part: value}).items()}
    return out


def main() -> None:
    from tests.mmproj import NAMES

    for name in sys.argv[2:] or NAMES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            prepare(folder, name)
            subprocess.run([sys.argv[1], __file__, "answer", temporary], check=True)
            np.savez_compressed(GOLDEN / f"{name}.npz", **thinned(folder / "answer.npz"))


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(Path(sys.argv[2]))
    else:
        main()
