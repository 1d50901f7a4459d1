"""Golden token ids of the tiny unigram vocabulary, as the peer gives them.

    python -m tests.peer.unigram PEER_PYTHON    writes tests/golden/tokenizer_t5.json

It has, for each of the eight settings ("prefix merge rules" as three bits), the ids of each of TEXTS.
"""

import json
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

from tests.tiny_t5 import TEXTS, write

HERE = Path(__file__).parent
SCRIPT = """
import json, sys, tokenizer
vocab = tokenizer.load(sys.argv[1])
print(json.dumps([tokenizer.tokenize(vocab, text, True) for text in json.load(sys.stdin)]))
"""


def main(peer: str) -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for flags in product((False, True), repeat=3):
            path = write(Path(folder) / "t5.gguf", *flags)
            command = [peer, "-c", SCRIPT, str(path)]
            made = subprocess.run(
                command, input=json.dumps(TEXTS), capture_output=True, text=True, check=True, cwd=HERE
            )
            lines.append(f'"{"".join(str(int(flag)) for flag in flags)}": {made.stdout.strip()}')
    (HERE.parent / "golden" / "tokenizer_t5.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
