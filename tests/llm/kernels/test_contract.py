"""The kernels' table of contents against the two modules that promise it, and who imports numba."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import llm.kernels
from llm.errors import UsageError
from llm.kernels import Kernels, fast, jit, reference

ROOT = Path(__file__).parents[3]
KERNELS = ROOT / "llm/kernels"
NAMES = [name for name in vars(Kernels) if not name.startswith("_")]


def imported(source: Path) -> set[str]:
    """Names of all modules that a file imports, as "a.b" for both import a.b and from a import b."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("module", [fast, reference])
def test_every_kernel_is_there_with_the_parameters_promised(module: object, name: str) -> None:
    promised = list(inspect.signature(vars(Kernels)[name]).parameters.values())[1:]  # without self
    given = list(inspect.signature(vars(module)[name]).parameters.values())
    assert [(p.name, p.kind, p.default) for p in given] == [(p.name, p.kind, p.default) for p in promised]


def test_load_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert llm.kernels.load("reference") is reference
    monkeypatch.setenv("MTMD_KERNELS", "reference")
    assert llm.kernels.load() is reference
    monkeypatch.delenv("MTMD_KERNELS")
    assert llm.kernels.load() is fast
    with pytest.raises(UsageError, match="'fast' or 'reference'"):
        llm.kernels.load("gpu")


def test_the_table_of_contents_and_the_reference_do_without_numba() -> None:
    program = "import sys, llm, llm.kernels.reference; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_numba_is_imported_by_kernels_alone() -> None:
    sources = [
        p for top in ("llm", "mtmd", "apps") for p in (ROOT / top).rglob("*.py") if KERNELS not in p.parents
    ]
    assert len(sources) > 20
    guilty = [p for p in sources if any(n.split(".")[0] in ("numba", "llvmlite") for n in imported(p))]
    assert not guilty


def test_files_compiled_into_others_are_part_of_the_cache_key() -> None:
    """numba sees changes of a kernel's own file only; jit.SHARED names the files it must be told of."""
    sources = {p.name: p.read_text() for p in KERNELS.glob("*.py")}
    parts = {n for n, text in sources.items() if "@inline" in text or "@intrinsic" in text}
    marks = "@kernel", "@parallel_kernel", "@Task"
    kernels = {n for n, text in sources.items() if any(mark in text for mark in marks)}
    for name in kernels | parts:
        taken = {f"{n.split('.')[2]}.py" for n in imported(KERNELS / name) if n.startswith("llm.kernels.")}
        missing = (taken & parts) - set(jit.SHARED)
        assert not missing, f"{name} takes code from {missing}"
