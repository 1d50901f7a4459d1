"""The chat loop over a pipeline that answers at once."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import mtmd
from llm.errors import ContextError
from mtmd_cli.main import main
from tests.apps.fake_pipeline import FakePipeline

PICTURE, CLIP = "circle-and-square.png", "digits-47.wav"
Chat = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    fake = FakePipeline("A red", " circle.\n", "\n")
    monkeypatch.setitem(vars(mtmd), "load", lambda *_, **__: fake)  # without importing the real one
    return fake


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Chat:
    """chat(lines, *flags) types the lines; gives exit status, stdout and stderr."""

    def run(lines: Sequence[str | BaseException], *flags: str) -> tuple[int, str, str]:
        waiting = list(lines)

        def next_line(_: str = "") -> str:
            if not waiting:
                raise EOFError
            line = waiting.pop(0)
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr("builtins.input", next_line)
        status = main(["--conversation", *flags])
        return status, *capsys.readouterr()

    return run


def test_answers_go_to_stdout_and_become_part_of_the_conversation(pipeline: FakePipeline, chat: Chat) -> None:
    status, out, _ = chat(["Hello", "", "   ", "And now?"], "-sys", "Be brief.")
    assert (status, out) == (0, "A red circle.\nA red circle.\n")
    assert [m["role"] for m in pipeline.asked[1]] == ["system", "user", "assistant", "user"]
    assert pipeline.asked[1][0]["content"] == "Be brief."
    assert pipeline.asked[1][2]["content"] == "A red circle.\n\n"
    assert pipeline.asked[1][3]["content"] == [{"type": "text", "text": "And now?"}]


def test_media_go_with_the_next_line(pipeline: FakePipeline, chat: Chat, samples: Path) -> None:
    lines = [f"/image {samples / PICTURE}", f"/audio '{samples / CLIP}'", "Which?", "Sure?", "/quit", "never"]
    status, out, err = chat(lines)
    assert status == 0 and out.count("circle") == 2
    assert [p["type"] for p in pipeline.asked[0][0]["content"]] == ["image", "audio", "text"]
    assert [p["type"] for p in pipeline.asked[1][2]["content"]] == ["text"]
    assert f"{PICTURE} (image) goes with your next line" in err


def test_a_line_that_is_a_file_attaches_it_b099(
    pipeline: FakePipeline, chat: Chat, samples: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "My pic (1).png"
    odd.write_bytes((samples / PICTURE).read_bytes())
    text = tmp_path / "notes.txt"
    text.write_text("one two")
    _, out, err = chat([str(odd), f'"{odd}"', str(odd).replace(" ", r"\ "), str(text), "What?"])
    assert [p["type"] for p in pipeline.asked[0][0]["content"]] == ["image", "image", "image", "text"]
    assert len(pipeline.asked) == 1, "the text file's name was taken for a question"
    assert "this is a text file" in err and "/read takes texts" in err and out == "A red circle.\n"


def test_a_broken_picture_is_never_a_question(pipeline: FakePipeline, chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    _, out, err = chat([str(tmp_path / "broken.png"), f"/image {tmp_path}/broken.png"])
    assert out == "" and err.count("error: ") == 2 and pipeline.asked == []


def test_unicode_names_in_either_normal_form_b098(
    pipeline: FakePipeline, chat: Chat, samples: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "画像 тест u\u0308"
    folder.mkdir()
    (folder / "e\u0301.png").write_bytes((samples / PICTURE).read_bytes())
    chat([f"/image {folder}/\u00e9.png", f"/image {folder}/e\u0301.png", "What?"])
    assert [p["type"] for p in pipeline.asked[0][0]["content"]] == ["image", "image", "text"]


def test_read_puts_a_text_file_before_the_line(pipeline: FakePipeline, chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf/image x\r\n")
    chat([f"/read {tmp_path / 'a.txt'}", "Summarise."])
    assert [p["text"] for p in pipeline.asked[0][0]["content"]] == ["/image x", "Summarise."]


def test_clear_forgets_all_but_the_system_message(pipeline: FakePipeline, chat: Chat, samples: Path) -> None:
    chat(["Hello", f"/image {samples / PICTURE}", "/clear", "Again"], "-sys", "Be brief.")
    assert [m["role"] for m in pipeline.asked[1]] == ["system", "user"]
    assert [p["type"] for p in pipeline.asked[1][1]["content"]] == ["text"]


def test_regen_asks_again_with_the_picture(pipeline: FakePipeline, chat: Chat, samples: Path) -> None:
    _, out, err = chat(["/regen", f"/image {samples / PICTURE}", "What?", "/regen"])
    assert pipeline.asked[0] == pipeline.asked[1] and len(pipeline.asked) == 2
    assert "there is no answer yet" in err and out.count("circle") == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/image /no/such/file.png", "/no/such/file.png: no such file"),
        ("/image", "/image needs a path"),
        ("/audio {samples}/star.jpg", "is a picture, a recording was expected"),
        ("/read /no/such.txt", "/no/such.txt: cannot be read"),
        ("/frobnicate now", "/frobnicate is no command"),
        ("/read {samples}/star.jpg", "is not UTF-8 text"),
    ],
)
def test_a_mistake_is_told_and_the_chat_goes_on(
    pipeline: FakePipeline, chat: Chat, samples: Path, line: str, message: str
) -> None:
    status, out, err = chat([line.format(samples=samples), "Hello"])
    assert status == 0 and message in err and "error: " in err
    assert out == "A red circle.\n" and len(pipeline.asked[0]) == 1


def test_a_question_that_fails_is_taken_back(pipeline: FakePipeline, chat: Chat) -> None:
    pipeline.failure = ContextError("900 tokens do not fit 512", 900, 512)
    status, out, err = chat(["Too long", "Hello"])
    assert status == 0 and out == "" and err.count("do not fit") == 2
    assert [len(messages) for messages in pipeline.asked] == [1, 1]


def test_ctrl_c_stops_the_answer_and_keeps_it(pipeline: FakePipeline, chat: Chat) -> None:
    pipeline.on_delta = lambda: signal.raise_signal(signal.SIGINT) if len(pipeline.asked) == 1 else None
    status, out, _ = chat(["Hello", "Go on"])
    assert status == 0 and out == "A red circle.\nA red circle.\n"
    assert pipeline.asked[1][1] == {"role": "assistant", "content": "A red circle.\n"}


def test_ctrl_c_before_the_first_word_takes_the_question_back(pipeline: FakePipeline, chat: Chat) -> None:
    pipeline.on_progress = lambda: signal.raise_signal(signal.SIGINT) if len(pipeline.asked) == 1 else None
    status, out, err = chat(["Hello", "Once more"])
    assert status == 0 and out == "A red circle.\n" and "taken back" in err
    assert len(pipeline.asked[1]) == 1


def test_a_second_ctrl_c_leaves(pipeline: FakePipeline, chat: Chat) -> None:
    def press_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    pipeline.on_delta = press_twice
    assert chat(["Hello", "never"])[0] == 130
    pipeline.on_delta = lambda: None
    assert chat([KeyboardInterrupt(), "never"])[0] == 130
    assert len(pipeline.asked) == 1


def test_escape_sequences_are_kept_from_terminals_only(
    pipeline: FakePipeline, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.deltas = ("\x1b]0;title\x07 a\tb\nc\x9b",)
    assert chat(["Hello"])[1] == "\x1b]0;title\x07 a\tb\nc\x9b\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert chat(["Hello"])[1] == "\ufffd]0;title\ufffd a\tb\nc\ufffd\n"


def test_json_gives_one_object_for_each_answer(pipeline: FakePipeline, chat: Chat) -> None:
    _, out, _ = chat(["Hello", "Again"], "--json")
    assert out.count('"text": "A red circle.') == 2 and out.count("\n") == 2


def test_help_and_end_of_input(pipeline: FakePipeline, chat: Chat) -> None:
    status, out, err = chat(["/help"])
    assert status == 0 and out == "" and "/regen" in err


def test_thoughts_are_no_part_of_the_answer_b110(pipeline: FakePipeline, chat: Chat) -> None:
    pipeline.deltas = ("<think>", "Is it ", "red?</th", "ink>\n\n", "Red.")
    code, out, _ = chat(["What?", "Sure?"], "--reasoning-format", "deepseek", "--json")
    assert code == 0
    first, _ = map(json.loads, out.splitlines())
    assert (first["text"], first["reasoning"]) == ("Red.", "Is it red?")
    assert pipeline.asked[1][1]["content"] == "Red."
    _, out, _ = chat(["What?"])
    assert "<think>" in out


def test_no_budget_asks_the_template_for_no_thoughts_b110(pipeline: FakePipeline, chat: Chat) -> None:
    chat(["What?"], "--reasoning-budget", "0")
    assert pipeline.variables == {"enable_thinking": False}
    chat(["What?"])
    assert pipeline.variables is None
