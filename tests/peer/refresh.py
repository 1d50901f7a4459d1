"""All goldens of the peer anew, under our own interpreter.

    python -m tests.peer.refresh PEER_PYTHON MODELS

PEER_PYTHON is the interpreter of a venv with llama-cpp-python; MODELS is the folder of real weights.
"""

import subprocess
import sys


def main() -> None:
    peer, models = sys.argv[1:]
    ours = [sys.executable, "-m"]
    for command in (
        [*ours, "tests.peer.text", peer, models],
        [*ours, "tests.peer.architectures", peer],
        [*ours, "tests.peer.projectors", peer],
        [*ours, "tests.peer.grids", peer],
        [peer, "tests/peer/tokenizer.py", models],
        [*ours, "tests.peer.unigram", peer],
        [peer, "tests/peer/sampling.py"],
    ):
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
