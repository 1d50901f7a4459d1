"""File names in a chat line, in all the ways in which people type, paste and drag them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtmd_cli.paths import named_files
from mtmd_cli.request import split_names, unescape


@pytest.mark.parametrize(
    "spelling",
    [
        "{dir}/My pic (1).png",
        '"{dir}/My pic (1).png"',
        "'{dir}/My pic (1).png'",
        "'{dir}/My pic (1).png' ",
        r"{dir}/My\ pic\ \(1\).png",
        "file://{dir}/My%20pic%20(1).png",
        "file://localhost{dir}/My%20pic%20(1).png",
        "{dir}/My%20pic%20(1).png",
        "~/My pic (1).png",
        r"~/My\ pic\ \(1\).png",
        "  {dir}/My pic (1).png\n",
        '"file://{dir}/My%20pic%20(1).png"',
    ],
)
def test_spellings_of_a_path_b099(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "My pic (1).png"
    file.write_bytes(b"x")
    assert named_files(spelling.format(dir=tmp_path)) == [str(file)]


def test_an_apostrophe_and_a_percent_sign_in_a_name_b099(tmp_path: Path) -> None:
    for name in ("it's.png", "100%25.png", 'a"b.png', "a\\b.png"):
        (tmp_path / name).write_bytes(b"x")
        assert named_files(f"{tmp_path}/{name}") == [f"{tmp_path}/{name}"]


def test_several_files_dropped_at_once(tmp_path: Path) -> None:
    for name in ("a.png", "b c.png"):
        (tmp_path / name).write_bytes(b"x")
    assert named_files(f"{tmp_path}/a.png '{tmp_path}/b c.png'") == [
        f"{tmp_path}/a.png",
        f"{tmp_path}/b c.png",
    ]


@pytest.mark.parametrize(
    "line", ["What is this?", "it's a test", "/clear", "", "   ", "a.png", "\0", "x" * 5000]
)
def test_prose_names_no_file(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert named_files(line) == []
    assert named_files(str(tmp_path)) == [], "a folder is not a file"


def test_comma_lists_unless_the_whole_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert split_names("a.png,b.png") == ["a.png", "b.png"]
    assert split_names('"a,b.png",c.png') == ["a,b.png", "c.png"]
    assert split_names("data:image/png;base64,AAAA") == ["data:image/png;base64,AAAA"]
    Path("a.png,b.png").write_bytes(b"x")
    assert split_names("a.png,b.png") == ["a.png,b.png"]


def test_escapes_are_those_of_llama_cpp() -> None:
    assert unescape(r"a\nb\tc\\n\"\'\x41\q\x4") == "a\nb\tc\\n\"'A\\q\\x4"
