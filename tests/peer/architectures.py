"""Golden logits of tiny models of many architectures, as the peer gives them.

    python -m tests.peer.architectures PEER_PYTHON [CASE ...]    writes tests/golden/architectures.npz

PEER_PYTHON is the interpreter of a venv with llama-cpp-python; without names, all cases are made anew.
architectures.npz has, for each case of tests/tiny_architectures.py, float32 logits [N_KEPT, n_vocab] after
the last tokens of IDS.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "architectures.npz"
IDS = [(37 * i * i + 11 * i + 5) % 273 for i in range(24)]
N_KEPT = 6


def answer(folder: Path) -> None:
    """The peer's part; runs in its interpreter."""
    import driver
    from driver import Peer

    driver.EXACT = True
    logits = dict(np.load(GOLDEN)) if GOLDEN.exists() else {}
    for path in sorted(folder.glob("*.gguf")):
        logits[path.stem] = Peer(str(path)).logits(IDS)[-N_KEPT:]
    np.savez_compressed(GOLDEN, **logits)


def main(python: str, *names: str) -> None:
    from tests.tiny_architectures import CASES

    with tempfile.TemporaryDirectory() as folder:
        for name in names or CASES:
            CASES[name](Path(folder) / f"{name}.gguf")
        subprocess.run([python, __file__, "answer", folder], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(Path(sys.argv[2]))
    else:
        main(*sys.argv[1:])
