"""-hf from the command line, against a hub on loopback that holds the sample model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hub_server import Hub, settings

CLI = [sys.executable, "-c", "import sys; from mtmd_cli.main import main; sys.exit(main())"]


def run(home: Path, hub: Hub | None, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**settings(home, hub), "MTMD_KERNELS": "reference"}
    return subprocess.run(
        [*CLI, *argv], capture_output=True, text=True, env=env, timeout=120, stdin=subprocess.DEVNULL
    )


def test_hf_brings_model_and_mmproj_and_then_works_offline(samples: Path, tmp_path: Path) -> None:
    files = {
        "scenes-Q8_0.gguf": (samples / "scenes-text.gguf").read_bytes(),
        "mmproj-scenes-Q8_0.gguf": (samples / "scenes-mmproj.gguf").read_bytes(),
    }
    question = ("--image", str(samples / "star.jpg"), "-p", "Describe this image.", "--temp", "0")
    with Hub(files) as hub:
        online = run(tmp_path, hub, "-hf", "u/m:q8_0", *question)
        assert online.returncode == 0, online.stderr
        assert online.stdout == "A large purple star on a light blue background.\n"
        blind = run(tmp_path, hub, "-hf", "u/m", "--no-mmproj", *question)
        assert blind.returncode == 4 and "no image input" in blind.stderr
        wrong = run(tmp_path, hub, "-hf", "u/m:Q2_K", *question)
        assert wrong.returncode == 3 and wrong.stderr == "mtmd-cli: error: u/m has no Q2_K; it has Q8_0\n"
    offline = run(tmp_path, None, "-hf", "u/m:Q8_0", "--offline", *question)
    assert offline.stdout == online.stdout, offline.stderr
    missing = run(tmp_path, None, "-hf", "u/other", "--offline", *question)
    assert missing.returncode == 3 and "this run is offline" in missing.stderr
