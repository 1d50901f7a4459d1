"""Threads of the fast kernels: how many, and on which of numba's layers.

One thread of the program calls kernels, the one that called `set_threads`: numba keeps the number per calling
thread, and its `workqueue` layer (the fallback without OpenMP and TBB) aborts the process on
calls from two threads at once. Others reach that thread by a queue.
"""

import logging
import os
from pathlib import Path

from threadpoolctl import threadpool_limits

from llm.kernels.jit import numba

log = logging.getLogger(__name__)


def set_threads(n: int) -> None:
    """Use `n` threads from now on (0: as many as there are physical cores); BLAS gets as many."""
    most = numba.config.NUMBA_NUM_THREADS
    wanted = n or usable_cores()
    used = min(wanted, most)
    numba.set_num_threads(used)  # starts the layer
    threadpool_limits(used, user_api="blas")
    if n > most:
        log.warning("%d threads asked for, %d used: numba has no more (NUMBA_NUM_THREADS)", n, used)
    log.info("%d threads on numba's %s layer", used, numba.threading_layer())


def usable_cores() -> int:
    """Physical cores that this process may use: by its CPU affinity and its control group's quota."""
    return max(1, min(_physical_cores(_affinity()), _quota(Path("/sys/fs/cgroup"))))


def _affinity() -> set[int]:
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # not on macOS and Windows
        return set(range(os.cpu_count() or 1))


def _physical_cores(cpus: set[int], system: Path = Path("/sys/devices/system/cpu")) -> int:
    """How many cores `cpus` belong to; where the system does not tell, each counts as one."""
    siblings = set()
    for cpu in cpus:
        try:
            siblings.add((system / f"cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            siblings.add(str(cpu))
    return len(siblings)


def _quota(group: Path) -> int:
    """CPUs' worth of time that a control group (version 2 or 1) allows, rounded up; many without a limit."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((group / f"cpu/cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return 1 << 20
    if quota == "max" or int(quota) <= 0:
        return 1 << 20
    return -(-int(quota) // int(period))
