"""Ours against the native peer, in turn in one run: prefill, decode, encode, cold start; medians and ratios.

    python benchmarks/compare.py --peer V/bin/python --models models [--threads 2] [--only decode]

V is a venv with llama-cpp-python built from its sdist for this machine. `models` holds the files of
tools/fetch_models.sh; every GGUF in it is measured. The picture tower is a random one of SigLIP-base size. A
ratio above 1 means that ours is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from siglip_base import write_siglip_base

HERE = Path(__file__).parent
PAUSE = 0.3  # seconds between turns, for the other side's threads to stop spinning


@dataclass(frozen=True)
class Row:
    """One line of the table: medians of both sides in `unit`, and how many times ours is better."""

    what: str
    ours: float
    peer: float
    unit: str
    ratio: float


class Worker:
    """benchmarks/worker.py under one interpreter; `ask` waits for its answer."""

    def __init__(self, python: str, side: str, threads: int) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        command = [python, str(HERE / "worker.py"), side, str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def ask(self, **command: object) -> dict[str, float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args} ended with {self.process.wait()} at {command}")
        answer: dict[str, float] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Match:
    """Two workers that take turns at the same command."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.repeat = args.repeat
        self.sides = {
            "ours": Worker(sys.executable, "ours", args.threads),
            "peer": Worker(args.peer, "peer", args.threads),
        }

    def __enter__(self) -> "Match":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.sides.values():
            worker.close()

    def load(self, model: Path, mmproj: Path | None = None) -> None:
        for worker in self.sides.values():
            worker.ask(do="load", model=str(model), mmproj=str(mmproj) if mmproj else None)

    def seconds(self, **command: object) -> dict[str, float]:
        """Medians of `repeat` turns after one to warm up. A value that is a dict is told apart by side."""
        times: dict[str, list[float]] = {side: [] for side in self.sides}
        for _ in range(self.repeat + 1):
            for side, worker in self.sides.items():
                mine = {k: v[side] if isinstance(v, dict) else v for k, v in command.items()}
                times[side].append(worker.ask(**mine)["seconds"])
                time.sleep(PAUSE)
        return {side: statistics.median(t[1:]) for side, t in times.items()}


TEXT_LINES = {
    "prefill 512": (512, {"do": "prefill", "n": 512}),
    "decode 64": (64, {"do": "decode", "n": 64, "depth": 1}),
    "decode 64 at depth 2048": (64, {"do": "decode", "n": 64, "depth": 2048}),
}


def text_rows(args: argparse.Namespace, model: Path, lines: list[str]) -> Iterator[Row]:
    with Match(args) as match:
        match.load(model)
        for line in lines:
            n, command = TEXT_LINES[line]
            s = match.seconds(**command)
            yield Row(f"{model.stem} {line}", n / s["ours"], n / s["peer"], "t/s", s["peer"] / s["ours"])


def encode_row(args: argparse.Namespace, folder: Path, text: Path) -> Row:
    """One tile of a SigLIP-base tower (12 layers, 1024 patches, F16), and how alike the rows are."""
    mmproj, picture = folder / "siglip-base.gguf", folder / "picture.png"
    write_siglip_base(mmproj)
    rng = np.random.default_rng(7)
    Image.fromarray(rng.integers(0, 256, (480, 480, 3), dtype=np.uint8)).save(picture)
    out = {side: str(folder / f"{side}.npy") for side in ("ours", "peer")}
    with Match(args) as match:
        match.load(text, mmproj)
        s = match.seconds(do="encode", media=str(picture), rows=out)
    a, b = (np.load(out[side]).astype(np.float64) for side in ("ours", "peer"))
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    what = f"encode a SigLIP-base tile (least cosine {cosine.min():.5f})"
    return Row(what, s["ours"], s["peer"], "s", s["peer"] / s["ours"])


def cold_start_row(args: argparse.Namespace, model: Path) -> Row:
    """A new process until its first token."""
    ours = [sys.executable, "-c", "from mtmd_cli.main import main; main()"]
    ours += ["-m", str(model), "-p", "Hi", "-n", "1", "--temp", "0", "-t", str(args.threads)]
    peer = (
        "import sys; sys.path.insert(0, sys.argv[1]); from tests.peer.driver import Peer;"
        "p = Peer(sys.argv[2], threads=int(sys.argv[3])); print(p.generate(['Hi'], 1))"
    )
    theirs = [args.peer, "-c", peer, str(HERE.parent), str(model), str(args.threads)]
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(args.repeat + 1):
        for side, command in (("ours", ours), ("peer", theirs)):
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times[side].append(time.perf_counter() - began)
    s = {side: statistics.median(t[1:]) for side, t in times.items()}
    return Row(f"{model.stem} cold start to first token", s["ours"], s["peer"], "s", s["peer"] / s["ours"])


def all_rows(args: argparse.Namespace, models: list[Path]) -> Iterator[Row]:
    lines = [line for line in TEXT_LINES if args.only in line]
    for model in models:
        if lines:
            yield from text_rows(args, model, lines)
        if args.only in "cold start":
            yield cold_start_row(args, model)
    if args.only in "encode":
        with tempfile.TemporaryDirectory() as folder:
            text = next((m for m in models if "SmolLM2" in m.name), models[0])
            yield encode_row(args, Path(folder), text)


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--peer", required=True, help="python of a venv with llama-cpp-python")
    ap.add_argument("--models", type=Path, required=True, help="folder of GGUF text models")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--repeat", type=int, default=5, help="turns a line; the median counts")
    ap.add_argument(
        "--only", default="", help="lines whose name holds this: prefill, decode, encode, cold start"
    )
    args = ap.parse_args()
    models = sorted(args.models.glob("*.gguf"))
    if not models:
        sys.exit(f"no GGUF file in {args.models}")
    print("| what | ours | peer | ratio |\n|---|---|---|---|", flush=True)
    for r in all_rows(args, models):
        print(f"| {r.what} | {r.ours:.3g} {r.unit} | {r.peer:.3g} {r.unit} | {r.ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
