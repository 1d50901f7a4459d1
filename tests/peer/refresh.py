"""All goldens of the peer anew: `python -m tests.peer.refresh PEER_PYTHON`, under our own interpreter."""

import subprocess
import sys

MODULES = ("text", "architectures", "projectors", "grids", "tokenizer")


def main() -> None:
    for name in MODULES:
        subprocess.run([sys.executable, "-m", f"tests.peer.{name}", *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
