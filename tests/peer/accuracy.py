"""How near quantised arithmetic comes to float32 on a real model, and its perplexity beside the peer's.

    python -m tests.peer.accuracy MODEL [PEER_PYTHON]

How often the likeliest token is that of exact float32, the mean KL divergence from it
(nats), and the perplexity, over windows of a text that comes with Python, each a sequence of its own.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

from llm.model import Model, load

F32 = NDArray[np.float32]
TEXT = topics["specialnames"]
WINDOW, N_WINDOW = 512, 4
PEER = """
import json, sys
import driver
import numpy as np
model, windows = json.load(sys.stdin)
driver.EXTRA_BUFFERS = False  # its code for the matrix unit does not run everywhere
peer, losses = driver.Peer(model, n_ctx=512), []
for ids in windows:
    x = peer.logits(ids)[:-1].astype(np.float64)
    top = x.max(axis=1)
    losses += (np.log(np.exp(x - top[:, None]).sum(axis=1)) + top - x[np.arange(len(x)), ids[1:]]).tolist()
print(np.exp(np.mean(losses)))
"""


@dataclass(frozen=True)
class Accuracy:
    top1: float
    kl: float
    perplexity: float
    exact_perplexity: float


def windows(model: Model) -> list[list[int]]:
    """Each as a prompt begins: with what the model expects before a text, if anything."""
    start = model.tokenizer.encode("", add_special=True)
    ids, n = model.tokenizer.encode(TEXT), WINDOW - len(start)
    assert len(ids) >= n * N_WINDOW, len(ids)
    return [start + ids[i * n : (i + 1) * n] for i in range(N_WINDOW)]


def accuracy(model: Model, exact: Model) -> Accuracy:
    same, kl, loss, exact_loss = (np.concatenate(c) for c in zip(*_compared(model, exact)))
    perplexities = (float(np.exp(x.mean())) for x in (loss, exact_loss))
    return Accuracy(float(same.mean()), float(kl.mean()), *perplexities)


def _compared(model: Model, exact: Model) -> Iterator[tuple[F32, F32, F32, F32]]:
    """For each window what is said of each token: agreement, divergence, both losses."""
    for ids in windows(model):
        got, want = (_log_softmax(m.logits(ids)[:-1]) for m in (model, exact))
        following = np.arange(len(got)), ids[1:]
        kl = (np.exp(want) * (want - got)).sum(axis=1)
        yield (got.argmax(axis=1) == want.argmax(axis=1)), kl, -got[following], -want[following]


def _log_softmax(x: F32) -> F32:
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def peer_perplexity(python: str, path: str, model: Model) -> float:
    run = subprocess.run(
        [python, "-c", PEER],
        input=json.dumps([path, windows(model)]),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    return float(run.stdout)


if __name__ == "__main__":
    path = sys.argv[1]
    exact = load(path, n_ctx=WINDOW, precision="exact")
    model = load(path, n_ctx=WINDOW)
    print(accuracy(model, exact))
    if len(sys.argv) > 2:
        print(f"perplexity of the peer {peer_perplexity(sys.argv[2], path, model):.4f}")
