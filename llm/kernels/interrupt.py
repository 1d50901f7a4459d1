"""Where long work can be interrupted: products of many rows look whether they are still wanted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_checks: list[Callable[[], None]] = []


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Within, kernels of many rows call `check` before they begin; what it raises ends the work there.

    Layers of encoders and models are made of such kernels, each of which takes a tenth of a second at most.
    """
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


def checkpoint() -> None:
    """Raises what a check raises."""
    for check in _checks:
        check()
