"""Golden logits of tiny text models and greedy answers of real ones, as the peer gives them.

    python -m tests.peer.text PEER_PYTHON [MODELS]    writes tests/golden/text.npz (and greedy.json)

PEER_PYTHON is the interpreter of a venv with llama-cpp-python; MODELS is the folder of real weights.
text.npz has, for each case of `make`, float32 logits [N_KEPT, n_vocab] after the last tokens of IDS, and
"gemma3-block" those behind a picture.
greedy.json has, by file name, a list of {"prompt": token ids, "answer": the next N_GREEDY token ids}.
"""

import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden"
IDS = [(37 * i * i + 11 * i + 5) % 273 for i in range(24)]
N_KEPT, N_GREEDY = 10, 32
CASES = (
    "llama",
    "llama-biases",
    "llama-factors",
    "llama-linear",
    "llama-fused",
    "llama-yarn",
    "gemma3",
    "gemma3-stretched",
)
PROMPTS = (  # texts that go on in one way, so that rounding does not decide
    "Monday, Tuesday, Wednesday,",
    "January, February, March,",
    "1, 2, 3, 4, 5, 6, 7,",
    "A, B, C, D, E, F,",
    "2, 4, 6, 8, 10, 12,",
    "We hold these truths to be self-evident, that all men are created equal,",
    "Our Father, who art in heaven, hallowed be thy name;",
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Germany is",
    "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return",
    "one two three four five six seven",
)


def make(case: str, folder: Path) -> Path:
    """The tiny model of one case."""
    from tests.tiny import make_text_gguf

    path = folder / f"{case}.gguf"
    rng = np.random.default_rng(1)

    def matrix(n_out: int) -> np.ndarray:
        return (rng.standard_normal((n_out, 64)) / 8).astype(np.float32)

    match case:
        case "llama":
            return make_text_gguf(path)
        case "llama-biases":
            return make_text_gguf(path, bias=True, tied=False, n_head_kv=1, seed=1)
        case "llama-factors":
            factors = rng.uniform(1, 8, 8).astype(np.float32)
            return make_text_gguf(path, tensors={"rope_freqs.weight": factors}, seed=2)
        case "llama-linear":
            return make_text_gguf(path, meta={"llama.rope.scaling.factor": 4.0}, seed=3)
        case "llama-fused":
            q, k, v = (matrix(64), matrix(32), matrix(32))
            fused = {f"blk.{il}.attn_qkv.weight": np.concatenate([q, k, v]) for il in range(2)}
            separate = [f"blk.{il}.attn_{x}.weight" for il in range(2) for x in "qkv"]
            return make_text_gguf(path, tensors=fused, without=separate, seed=4)
        case "llama-yarn":
            more = {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0}
            more |= {"llama.rope.scaling.original_context_length": 64}
            return make_text_gguf(path, meta=more, seed=6)
        case "gemma3":
            return make_text_gguf(path, "gemma3", n_layer=7, n_head_kv=1)
        case "gemma3-stretched":
            more = {"gemma3.rope.scaling.factor": 8.0, "gemma3.rope.scaling.type": "linear"}
            more |= {"gemma3.attention.sliding_window_pattern": 2, "gemma3.final_logit_softcapping": 20.0}
            return make_text_gguf(path, "gemma3", meta=more, seed=5)
    raise ValueError(case)


def answer(folder: Path, models: Path | None) -> None:
    """The peer's part; runs in its interpreter."""
    import driver
    from driver import Peer

    driver.EXACT = True
    logits = {case: Peer(str(folder / f"{case}.gguf")).logits(IDS)[-N_KEPT:] for case in CASES}
    logits["gemma3-block"] = _around_block(Peer(str(folder / "gemma3.gguf")))
    np.savez_compressed(GOLDEN / "text.npz", **logits)
    if models:
        driver.EXACT = driver.EXTRA_BUFFERS = False
        greedy = {path.name: _answers(Peer(str(path))) for path in sorted(models.glob("*.gguf"))}
        (GOLDEN / "greedy.json").write_text(json.dumps(greedy) + "\n")


def block_rows() -> np.ndarray:
    """Rows of a picture [12, 64], more than gemma3's window of 8."""
    return np.random.default_rng(2).standard_normal((12, 64)).astype(np.float32)


def _around_block(peer) -> np.ndarray:
    """Logits after IDS[:N_KEPT], which follow on IDS and on rows that all see each other."""
    import llama_cpp.llama_cpp as llama

    rows = block_rows()
    peer.decode(IDS, 0)
    batch = llama.llama_batch_init(len(rows), rows.shape[1], 1)
    ctypes.memmove(batch.embd, rows.ctypes.data, rows.nbytes)
    for i in range(len(rows)):
        batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = len(IDS) + i, 1, 0, False
    batch.n_tokens = len(rows)
    llama.llama_set_causal_attn(peer.ctx, False)
    assert llama.llama_decode(peer.ctx, batch) == 0
    llama.llama_set_causal_attn(peer.ctx, True)
    llama.llama_batch_free(batch)
    peer.decode(IDS[:N_KEPT], len(IDS) + len(rows), all_logits=True)
    return np.stack([peer.row(i).copy() for i in range(N_KEPT)])


def _answers(peer) -> list[dict[str, list[int]]]:
    prompts = [peer.tokenize(text, special=True, bos=True) for text in PROMPTS]
    return [{"prompt": ids, "answer": peer.generate([text], N_GREEDY)} for text, ids in zip(PROMPTS, prompts)]


def main(python: str, *models: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        for case in CASES:
            make(case, Path(name))
        subprocess.run([python, __file__, "answer", name, *models], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    else:
        main(*sys.argv[1:])
