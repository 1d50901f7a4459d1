"""Threads: how many, the layer's settings, and what happens where a folder or a library is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm.kernels import threads
from llm.kernels.jit import numba

PROGRAM = """
import os, sys
from llm.kernels import jit, threads
threads.set_threads({n})
print(os.environ.get("GOMP_SPINCOUNT"), jit.numba.threading_layer(), jit.numba.get_num_threads(), jit.CACHE)
"""


def run(n: int = 0, **env: str) -> list[str]:
    """Spin count, layer, number of threads and cache folder of a fresh process."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_", "NUMBA_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(n=n)],
        env=kept | env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_an_idle_thread_spins_shortly_unless_the_user_says_otherwise() -> None:
    spin, layer, *_ = run()
    assert spin == "1000"
    assert layer in ("omp", "tbb", "workqueue")
    assert run(GOMP_SPINCOUNT="77")[0] == "77"
    assert run(OMP_WAIT_POLICY="active")[0] == "None"


def test_without_openmp_and_tbb_the_work_queue_runs_the_threads() -> None:
    _, layer, n, _ = run(1, NUMBA_THREADING_LAYER="workqueue")
    assert (layer, n) == ("workqueue", "1")


def test_the_cache_folder_is_the_users_own_when_named(tmp_path: Path) -> None:
    folder = Path(run(NUMBA_CACHE_DIR=str(tmp_path))[3])
    assert folder.parent == tmp_path and folder.name.startswith("kernels-")


@pytest.mark.skipif(os.name != "posix", reason="a folder that cannot be made, by way of a file")
def test_a_cache_folder_that_cannot_be_made_costs_speed_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = Path(run(NUMBA_CACHE_DIR=str(tmp_path / "file"))[3])
    assert folder.is_dir() and tmp_path not in folder.parents


def test_set_threads() -> None:
    before = numba.get_num_threads()
    try:
        threads.set_threads(1)
        assert numba.get_num_threads() == 1
        threads.set_threads(10_000)
        assert numba.get_num_threads() == numba.config.NUMBA_NUM_THREADS
        threads.set_threads(0)
        assert 1 <= numba.get_num_threads() <= threads.usable_cores()
    finally:
        numba.set_num_threads(before)


def test_two_threads_of_one_core_count_once(tmp_path: Path) -> None:
    for cpu in range(4):
        topology = tmp_path / f"cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
    assert threads._physical_cores({0, 1, 2, 3}, tmp_path) == 2
    assert threads._physical_cores({0, 2}, tmp_path) == 1
    assert threads._physical_cores({0, 1, 2}, tmp_path / "nowhere") == 3


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 1 << 20),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1 << 20),
        ({}, 1 << 20),
    ],
)
def test_quota_of_a_control_group(tmp_path: Path, files: dict[str, str], cpus: int) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads._quota(tmp_path) == cpus
