"""Fixtures of the mtmd tests."""

import pytest

from llm import kernels
from llm.kernels import Kernels


@pytest.fixture
def reference() -> Kernels:
    """Plain numpy, for tests that are not about kernels."""
    return kernels.load("reference")
