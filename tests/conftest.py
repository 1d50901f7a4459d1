"""Fixtures of the whole suite: tiny models, sample files, real weights where they are, kernels modules."""

import os
from pathlib import Path

import pytest

from llm import kernels as kernels_package
from llm.kernels import Kernels
from tests.tiny import make_text_gguf

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of the embedded model, its pictures and clips."""
    return ROOT / "samples"


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of real weights that MTMD_MODELS names; the test is skipped when there is none."""
    folder = os.environ.get("MTMD_MODELS")
    if not folder or not Path(folder).is_dir():
        pytest.skip("MTMD_MODELS names no folder of real weights")
    return Path(folder)


@pytest.fixture(params=["reference", "fast"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """Each kernels module in turn."""
    return kernels_package.load(request.param)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_gguf(tmp_path_factory.mktemp("tiny") / "llama.gguf", "llama")


@pytest.fixture(scope="session")
def tiny_gemma3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven layers, so that the sixth is a global one and the window of 8 rows matters."""
    return make_text_gguf(tmp_path_factory.mktemp("tiny") / "gemma3.gguf", "gemma3", n_layer=7, n_head_kv=1)
