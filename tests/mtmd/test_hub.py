"""Choosing files as llama.cpp does, and fetching them from a hub that answers on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm.errors import ModelError, UsageError
from mtmd.hub import Split, choose_mmproj, choose_model, parse_repo, parts
from tests.hub_server import Hub, settings

GEMMA = [
    "README.md",
    "gemma-3-4b-it-BF16.gguf",
    "gemma-3-4b-it-Q4_K_M.gguf",
    "gemma-3-4b-it-Q8_0.gguf",
    "gemma-3-4b-it-UD-IQ2_XXS.gguf",
    "imatrix_unsloth.gguf",
    "mmproj-BF16.gguf",
    "mmproj-F16.gguf",
    "mmproj-F32.gguf",
]


@pytest.mark.parametrize(
    ("quant", "expected"),
    [
        ("", "gemma-3-4b-it-Q4_K_M.gguf"),
        ("q8_0", "gemma-3-4b-it-Q8_0.gguf"),
        ("Q4_K_M", "gemma-3-4b-it-Q4_K_M.gguf"),
        ("bf16", "gemma-3-4b-it-BF16.gguf"),
        ("UD-IQ2_XXS", "gemma-3-4b-it-UD-IQ2_XXS.gguf"),
        ("Q4_K", None),
        ("F16", "gemma-3-4b-it-BF16.gguf"),  # llama.cpp's pattern is not anchored on the left
        (".*", None),
    ],
)
def test_quant_is_matched_like_llama_cpp(quant: str, expected: str | None) -> None:
    assert choose_model(GEMMA, quant) == expected


def test_without_q4_k_m_comes_q8_0_then_the_first_model() -> None:
    assert choose_model(["mmproj-F16.gguf", "m-F16.gguf", "m-Q8_0.gguf"], "") == "m-Q8_0.gguf"
    assert choose_model(["mmproj-F16.gguf", "m-F16.gguf", "m-Q5_K_S.gguf"], "") == "m-F16.gguf"
    assert choose_model(["mmproj-F16.gguf", "imatrix.gguf", "readme.md"], "") is None


@pytest.mark.parametrize(
    ("files", "model", "expected"),
    [
        (["mmproj-m-F16.gguf", "mmproj-m-Q8_0.gguf"], "m-Q4_K_M.gguf", "mmproj-m-Q8_0.gguf"),
        (["mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf"], "m-Q4_K_M.gguf", "mmproj-BF16.gguf"),
        (["mmproj-F32.gguf", "mmproj-F16.gguf"], "m-F32.gguf", "mmproj-F32.gguf"),
        (["mmproj.gguf"], "m-Q4_K_M.gguf", "mmproj.gguf"),
        (
            ["mmproj-Q8_0.gguf", "a/mmproj-F16.gguf", "b/mmproj-Q8_0.gguf"],
            "a/m-Q4_0.gguf",
            "a/mmproj-F16.gguf",
        ),
        (["other/mmproj-F16.gguf"], "big/m-Q4_0.gguf", None),
        (["m-Q8_0.gguf"], "m-Q8_0.gguf", None),
    ],
)
def test_mmproj_is_the_nearest_by_folder_then_by_bits(
    files: list[str], model: str, expected: str | None
) -> None:
    assert choose_mmproj(files, model) == expected


def test_split_models_are_fetched_whole_and_start_with_their_first_part() -> None:
    files = [f"m-Q4_K_M-{i:05}-of-00003.gguf" for i in (2, 1, 3)] + ["m-Q4_K_M-00001-of-00002.gguf"]
    head = choose_model(files, "")
    assert head == "m-Q4_K_M-00001-of-00003.gguf"
    assert parts(files, head) == sorted(files[:3])
    with pytest.raises(ModelError, match="2 parts are announced, the repository has 1"):
        parts(files, "m-Q4_K_M-00001-of-00002.gguf")


def test_names_tell_quant_and_bits() -> None:
    assert [Split.of(f).quant for f in GEMMA[1:5]] == ["BF16", "Q4_K_M", "Q8_0", "IQ2_XXS"]
    assert [Split.of(f).bits for f in GEMMA[1:5]] == [16, 4, 8, 2]
    assert Split.of("mmproj.gguf").bits == 0


@pytest.mark.parametrize("spec", ["model.gguf", "a/b/c", "", "user/repo:Q4:Q5", "https://host/a/b", "user/"])
def test_malformed_repo(spec: str) -> None:
    with pytest.raises(UsageError, match="USER/REPO"):
        parse_repo(spec)


FILES = {
    "m-Q4_K_M.gguf": b"GGUF four bits",
    "m-Q8_0.gguf": b"GGUF eight bits",
    "mmproj-m-F16.gguf": b"GGUF projector",
    "s-Q5_0-00001-of-00002.gguf": b"GGUF part one",
    "s-Q5_0-00002-of-00002.gguf": b"GGUF part two",
}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(FILES) as hub:
        yield hub


def fetch(calls: str | list[str], home: Path, hub: Hub | None, **env: str) -> list[str]:
    """What `mtmd.hub.fetch` gives for each call, in a process of its own: settings are read at import."""
    code = "from llm.errors import LlmError\nfrom mtmd.hub import fetch\n"
    for call in [calls] if isinstance(calls, str) else calls:
        code += (
            f"try:\n    found = fetch({call})\n"
            "    print(open(found.model).read(), '|', found.mmproj and open(found.mmproj).read())\n"
            "except LlmError as e:\n    print(type(e).__name__, e)\n"
        )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**settings(home, hub), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_fetches_model_and_mmproj_then_works_offline(hub: Hub, tmp_path: Path) -> None:
    found = ["GGUF four bits | GGUF projector"]
    assert fetch("'u/m'", tmp_path, hub) == found
    n_asked = len(hub.asked)
    offline = fetch(["'u/m', offline=True", "'u/m:Q8_0', offline=True"], tmp_path, hub)
    assert offline == [*found, "ModelError u/m has no Q8_0; it has Q4_K_M"]
    assert fetch("'u/m'", tmp_path, hub, HF_HUB_OFFLINE="1") == found
    assert len(hub.asked) == n_asked, "offline asked the hub"
    # a hub that is out of reach falls back to what was downloaded; without that it is an error
    first, second = fetch(["'u/m'", "'u/other'"], tmp_path, None)
    assert [first] == found
    assert second.startswith("ModelError cannot fetch u/other") and "no network?" in second


def test_quants_splits_tokens_and_refusals(hub: Hub, tmp_path: Path) -> None:
    expected = {
        "'u/m:Q4_K_M', offline=True": "ModelError u/m is not in the cache",
        "'u/m:q8_0', mmproj=False": "GGUF eight bits | None",
        "'u/m', 's-Q5_0-00001-of-00002.gguf'": "GGUF part one | GGUF projector",
        "'u/nothing'": "ModelError the hub has no u/nothing, or it is private",
        "'u/gated'": "ModelError u/gated is gated: accept its terms",
        "'u/gated', token='good'": "GGUF four bits | GGUF projector",
        "'u/empty'": "ModelError u/empty has no GGUF model; it has README.md",
        "'u/m:Q2_K'": "ModelError u/m has no Q2_K; it has Q4_K_M, Q5_0, Q8_0",
        "'u/m', 'x.gguf'": "ModelError u/m has no file x.gguf; it has m-Q4_K_M.gguf",
    }
    said = fetch(list(expected), tmp_path, hub)
    assert len(said) == len(expected)
    for line, start in zip(said, expected.values()):
        assert line.startswith(start)
    assert list(tmp_path.rglob("s-Q5_0-00002-of-00002.gguf")), "the second part was not fetched"
    assert fetch("'u/gated:Q8_0'", tmp_path, hub, HF_TOKEN="good") == ["GGUF eight bits | GGUF projector"]
