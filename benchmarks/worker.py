"""One side of a comparison: a process that loads a model and times what it is told to, line by line.

    python benchmarks/worker.py ours|peer THREADS      commands on standard input, seconds on standard output

{"do": "load", "model": path, "mmproj": path or null}   {"do": "prefill", "n": 512}
{"do": "decode", "n": 64, "depth": 1}                   {"do": "encode", "media": path}
"""

import json
import sys
import time
from pathlib import Path
from typing import Protocol

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))


def token_ids(n: int) -> list[int]:
    """Ids of ordinary tokens, not all alike; every vocabulary of more than 1,020 has them."""
    return [(7 * i + 11) % 1000 + 20 for i in range(n)]


class Side(Protocol):
    def prefill(self, n: int) -> float: ...
    def decode(self, n: int, depth: int) -> float: ...
    def encode(self, media: str) -> tuple[float, np.ndarray]: ...


class Ours:
    def __init__(self, model: str, mmproj: str | None, threads: int) -> None:
        import llm
        import mtmd

        if mmproj:
            self.pipeline = mtmd.load(model, mmproj, n_ctx=4096, threads=threads)
        else:
            self.model = llm.load(model, n_ctx=4096, threads=threads)

    def prefill(self, n: int) -> float:
        from llm.span import tokens

        self.model.context.clear()
        began = time.perf_counter()
        self.model.context.decode(tokens(token_ids(n)))
        return time.perf_counter() - began

    def decode(self, n: int, depth: int) -> float:
        from llm.span import tokens

        context = self.model.context
        context.clear()
        context.decode(tokens(token_ids(1) * depth))
        began = time.perf_counter()
        for tok in token_ids(n):
            context.decode(tokens([tok]))
        return time.perf_counter() - began

    def encode(self, media: str) -> tuple[float, np.ndarray]:
        """Seconds a tile, and all rows; a fresh projector cache each time."""
        began = time.perf_counter()
        rows = self.pipeline.embed(media)
        return (time.perf_counter() - began) / len(rows), np.concatenate(rows)


class Theirs:
    def __init__(self, model: str, mmproj: str | None, threads: int) -> None:
        from tests.peer.driver import Peer

        self.peer = Peer(model, mmproj, threads=threads)

    def prefill(self, n: int) -> float:
        return self.peer.prefill_seconds(token_ids(n))

    def decode(self, n: int, depth: int) -> float:
        return self.peer.decode_seconds(token_ids(n), depth)

    def encode(self, media: str) -> tuple[float, np.ndarray]:
        chunks = [c for kind, c in self.peer.chunks([{"media": media}], bos=False) if kind != "text"]
        began = time.perf_counter()
        rows = [self.peer.encode(c) for c in chunks]
        return (time.perf_counter() - began) / len(rows), np.concatenate(rows)


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    side: Side | None = None
    for line in sys.stdin:
        command = json.loads(line)
        match command.pop("do"):
            case "load":
                side = {"ours": Ours, "peer": Theirs}[name](command["model"], command["mmproj"], threads)
                answer = {}
            case "prefill":
                answer = {"seconds": side.prefill(**command)}
            case "decode":
                answer = {"seconds": side.decode(**command)}
            case "encode":
                seconds, rows = side.encode(command["media"])
                np.save(command["rows"], rows)
                answer = {"seconds": seconds}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
