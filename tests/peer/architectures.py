"""Golden logits of tiny models of many architectures, as the peer gives them.

    python -m tests.peer.architectures PEER_PYTHON [CASE ...]    writes tests/golden/architectures.npz

PEER_PYTHON is the interpreter of a venv with llama-cpp-python; without names, all cases are made anew.
architectures.npz has, for each case of tests/tiny_architectures.py, float32 logits [N_KEPT, n_vocab] after
the last tokens of IDS; and as "NAME-pictures", those after the last tokens of PROMPT, which has pictures.
"""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "architectures.npz"
IDS = [(37 * i * i + 11 * i + 5) % 273 for i in range(24)]
N_KEPT = 3
PROMPT: tuple[list[int] | tuple[int, int], ...] = (
    IDS[:5],
    (2, 3),
    IDS[5:8],
    (4, 2),
    IDS[8:14],
)  # tokens, grids
GRIDS = (
    "qwen2vl",
    "qwen3vl",
    "qwen3vlmoe",
    "glm4_vision",
    "glm4moe_vision",
    "hunyuan_vl",
)  # positions of pictures have axes
LINES = ("granite", "granite_deep", "lfm2", "gemma4_small")  # they go on one by one
BLOCKS = ("gemma4",)  # and rows of a picture see each other


def picture(grid: tuple[int, int], width: int) -> np.ndarray:
    """Rows of a picture [ny nx, width]."""
    return np.random.default_rng(grid).standard_normal((grid[0] * grid[1], width)).astype(np.float32)


def positions(name: str, grid: tuple[int, int]) -> np.ndarray:
    """Of a picture's rows: time, height, width and a spare axis [4, ny nx], or one axis [1, ny nx]."""
    if name not in GRIDS:
        return np.arange(grid[0] * grid[1], dtype=np.int32)[None]
    y, x = np.indices(grid).reshape(2, -1)
    return np.stack([0 * y, y, x, 0 * y]).astype(np.int32)


def answer(folder: Path) -> None:
    """The peer's part; runs in its interpreter."""
    import driver
    from driver import Peer

    driver.EXACT = True
    logits = dict(np.load(GOLDEN)) if GOLDEN.exists() else {}
    for path in sorted(folder.glob("*.gguf")):
        peer = Peer(str(path))
        logits[path.stem] = peer.logits(IDS)[-N_KEPT:]
        if path.stem in GRIDS + LINES + BLOCKS:
            logits[f"{path.stem}-pictures"] = _among_pictures(peer, path.stem)
    np.savez_compressed(GOLDEN, **logits)


def _among_pictures(peer, name: str) -> np.ndarray:
    """Logits [N_KEPT, n_vocab] after the last tokens of PROMPT."""
    import llama_cpp.llama_cpp as llama

    peer.clear()
    width, pos = llama.llama_model_n_embd_inp(peer.model), 0
    for part in PROMPT:
        if isinstance(part, list):
            peer.decode(part, pos, all_logits=True)
            pos += len(part)
        else:
            own = positions(name, part)
            llama.llama_set_causal_attn(peer.ctx, name not in BLOCKS)
            _decode_rows(peer.ctx, picture(part, width), own + np.int32(pos))
            llama.llama_set_causal_attn(peer.ctx, True)
            pos += int(own.max()) + 1
    return np.stack([peer.row(i).copy() for i in range(len(PROMPT[-1]) - N_KEPT, len(PROMPT[-1]))])


def _decode_rows(ctx, rows: np.ndarray, pos: np.ndarray) -> None:
    import llama_cpp.llama_cpp as llama

    batch = llama.llama_batch_init(*rows.shape, 1)
    ctypes.memmove(batch.embd, rows.ctypes.data, rows.nbytes)
    for i in range(len(rows)):
        batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, False
    batch.n_tokens = len(rows)
    own, pos = ctypes.cast(batch.pos, ctypes.c_void_p), np.ascontiguousarray(pos, np.int32)
    batch.pos = pos.ctypes.data_as(type(batch.pos))  # the batch itself has room for one axis only
    assert llama.llama_decode(ctx, batch) == 0
    batch.pos = ctypes.cast(own, type(batch.pos))
    llama.llama_batch_free(batch)


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
