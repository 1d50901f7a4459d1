"""Golden grids of the idefics3 tiling for pictures of many sizes, as the peer cuts them.

    python -m tests.peer.grids PEER_PYTHON    writes tests/golden/grids.json

PEER_PYTHON is the interpreter of a venv with llama-cpp-python. The file has lists of [w, h, n_col, n_row] by
"longest edge/tile side". The peer cuts and encodes nothing, so the sizes may be those of published models.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden" / "grids.json"
TILINGS = ((2048, 512), (1820, 364), (192, 192))
SIZES = (
    *((386, 386), (2048, 512), (512, 512), (1224, 1584), (1466, 1792), (1920, 1080), (640, 480), (100, 50)),
    *((3000, 200), (200, 3000), (1, 50), (50, 3), (257, 27), (27, 257), (400, 300), (1000, 999), (999, 1000)),
    *((513, 2049), (2050, 1025), (777, 333), (4, 3), (1600, 1200), (769, 1024), (1365, 2048), (1025, 683)),
)


def prepare(folder: Path) -> None:
    from PIL import Image

    from tests.mmproj import idefics3

    idefics3.text(folder / "text.gguf")
    for longest, side in TILINGS:
        options = {"n_layer": 1, "patch_size": side // 4, "longest_edge": longest, "image_size": side}
        idefics3.make(folder / f"{longest}-{side}.gguf", **options)
    for w, h in SIZES:
        Image.new("RGB", (w, h)).save(folder / f"{w}x{h}.png")


def answer(folder: Path) -> None:
    """The peer's part; runs in its interpreter."""
    from driver import Peer

    found = {}
    for longest, side in TILINGS:
        peer = Peer(str(folder / "text.gguf"), str(folder / f"{longest}-{side}.gguf"))
        found[f"{longest}/{side}"] = [[w, h, *grid(peer, str(folder / f"{w}x{h}.png"))] for w, h in SIZES]
    (folder / "grids.json").write_text(json.dumps(found))


def grid(peer, path: str) -> tuple[int, int]:
    """Columns and rows: the text before each further row begins with a newline, two before the overview."""
    chunks = peer.chunks([{"media": path}], bos=False)
    n_tile = sum(kind != "text" for kind, _ in chunks) - 1
    (line,) = peer.tokenize("\n")
    n_row = 1 + sum(kind == "text" and peer.text_ids(chunk)[0] == line for kind, chunk in chunks)
    assert n_tile % n_row == 0, (n_tile, n_row)
    return n_tile // n_row, n_row


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        subprocess.run([sys.argv[1], __file__, "answer", name], check=True)
        found = json.loads((folder / "grids.json").read_text())
        lines = ",\n".join(f'"{key}": {json.dumps(rows)}' for key, rows in found.items())
        GOLDEN.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(Path(sys.argv[2]))
    else:
        main()
