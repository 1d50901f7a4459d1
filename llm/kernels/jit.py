"""How kernels are compiled: numba set up once, its decorators with our options, and where the code is kept.

Kernel modules take numba from here and nowhere else: libgomp and numba read their settings when they load.
"""

import ctypes
import hashlib
import importlib
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# A libgomp thread spins at each barrier, by default for milliseconds. On a busy machine that burns the time
# slice of the thread it waits for: an empty parallel call took 1,000-5,600 us, with this 57-64 (idle: 1.8).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import numba
from numba import prange
from numba.misc.appdirs import AppDirs

log = logging.getLogger(__name__)

# numba recompiles a kernel when its own file changes; these are compiled into kernels of other files as well.
SHARED = (
    "amx.py",
    "attention_lanes.py",
    "half.py",
    "jit.py",
    "matmul_ends.py",
    "matmul_few.py",
    "matmul_panels.py",
    "matmul_rows.py",
    "matmul_tiles.py",
    "quants.py",
    "quants_codes.py",
    "quants_files.py",
    "quants_grids.py",
    "simd.py",
    "simd_dot.py",
    "simd_ir.py",
    "simd_tables.py",
    "tasks.py",
)


def _cache_folder() -> Path:
    """In NUMBA_CACHE_DIR, or beside this file, or the user's caches: a folder for this state of SHARED."""
    here = Path(__file__).parent
    state = hashlib.sha256(b"".join((here / name).read_bytes() for name in SHARED)).hexdigest()[:12]
    if os.environ.get("NUMBA_CACHE_DIR"):
        bases = [Path(os.environ["NUMBA_CACHE_DIR"])]
    else:
        bases = [here / "__pycache__", Path(AppDirs("mtmd", appauthor=False).user_cache_dir)]
    for base in bases:
        folder = base / f"kernels-{state}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    log.warning(
        "no writable cache folder (set NUMBA_CACHE_DIR): kernels will be compiled again at every start"
    )
    return Path(tempfile.mkdtemp(prefix="mtmd-kernels-"))


CACHE = _cache_folder()
numba.config.CACHE_DIR = str(CACHE)


def cache_is_cold() -> bool:
    """Whether no kernel has been compiled and kept yet: the first use will take tens of seconds."""
    return next(CACHE.rglob("*.nbi"), None) is None


# An empty parallel call costs 2 us on omp, 70-110 us on workqueue. A layer that does not load is passed over.
numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]


def _load_without_blas() -> None:
    """Load numba's array functions, which look for scipy's BLAS: 0.15 s for what no kernel calls."""
    blas = "scipy.linalg.cython_blas"
    if blas not in sys.modules:
        sys.modules[blas] = None  # type: ignore[assignment]  # an import of it fails
        importlib.import_module("numba.np.arraymath")
        del sys.modules[blas]


_load_without_blas()


def _keep_freed_memory() -> None:
    """Let glibc keep up to 256 MiB of freed arrays, or it hands them back and takes them again page by page.

    A prompt of 512 tokens took 9,400 page faults, 15 ms of system time.
    """
    if platform.libc_ver()[0] == "glibc" and "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc = ctypes.CDLL(None)
        libc.mallopt(m_trim_threshold, 256 << 20)
        libc.mallopt(m_mmap_threshold, 32 << 20)  # the most that it takes


_keep_freed_memory()

# Sums may be reordered and fused, but NaN and infinity keep their meaning: they are how a broken file shows.
MATH = {"reassoc", "nsz", "arcp", "contract", "afn"}

inline = partial(numba.njit, error_model="numpy", fastmath=MATH)  # a part of kernels
kernel = partial(inline, cache=True)


def parallel_kernel(function: Callable[..., None]) -> Any:
    """A kernel with loops over threads. They are not fused: numba does not see what one writes through an
    address and the next one reads. (It takes options out of the dictionary that they come in.)"""
    return kernel(function, parallel={"fusion": False})


__all__ = ["MATH", "SHARED", "cache_is_cold", "inline", "kernel", "numba", "parallel_kernel", "prange"]
