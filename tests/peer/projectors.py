"""Golden embeddings, layouts and answers of the tiny projectors, as the peer gives them.

    python -m tests.peer.projectors PEER_PYTHON    writes tests/golden/projectors.npz

PEER_PYTHON is the interpreter of a venv with llama-cpp-python; it needs nothing of ours but driver.py.
For each case NAME (projector/medium) the file has
    NAME/layout   int32, token ids in order, and -n where n rows of a medium stand
    NAME/rows     float16 [n, n_embd], the rows of all media, in order
    NAME/greedy   int32, the answer to "hi " + medium + "what" at temperature 0
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "projectors.npz"
N_GREEDY = 24


def prepare(folder: Path) -> None:
    """Write the tiny models, media and the list of cases."""
    import soundfile
    from PIL import Image

    from tests import tiny_mmproj as tiny

    tiny.text(folder / "text.gguf")
    tiny.idefics3(folder / "idefics3.gguf")
    tiny.qwen3a(folder / "qwen3a.gguf")
    tiny.ultravox(folder / "ultravox.gguf")
    cases = []
    for w, h in tiny.PICTURES:
        Image.fromarray(tiny.picture(w, h)).save(folder / f"{w}x{h}.png")
        cases.append(("idefics3", f"{w}x{h}", ".png"))
    for seconds in tiny.CLIPS:
        soundfile.write(folder / f"{seconds}.wav", tiny.sound(seconds), 16000)
        cases += [("qwen3a", str(seconds), ".wav"), ("ultravox", str(seconds), ".wav")]
    (folder / "cases.json").write_text(json.dumps(cases))


def answer(folder: Path) -> None:
    """The peer's part; runs in its interpreter."""
    from driver import Peer

    out = {}
    for projector, medium, suffix in json.loads((folder / "cases.json").read_text()):
        peer = Peer(str(folder / "text.gguf"), str(folder / f"{projector}.gguf"))
        part = {"media": str(folder / f"{medium}{suffix}")}
        layout: list[int] = []
        rows = []
        for kind, chunk in peer.chunks([part], bos=False):
            if kind == "text":
                layout += peer.text_ids(chunk)
            else:
                rows.append(peer.encode(chunk))
                layout.append(-len(rows[-1]))
        name = f"{projector}/{medium}"
        out[f"{name}/layout"] = np.array(layout, np.int32)
        out[f"{name}/rows"] = np.concatenate(rows).astype(np.float16)
        out[f"{name}/greedy"] = np.array(peer.generate(["hi ", part, "what"], N_GREEDY), np.int32)
    np.savez_compressed(folder / "golden.npz", **out)


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
