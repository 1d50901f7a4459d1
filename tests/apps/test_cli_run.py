"""mtmd-cli in this process on the embedded model: answers, reports, and every kind of bad input."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mtmd
from llm.grammar import Grammar
from llm.sampling import Sampling
from mtmd_cli.main import main
from tests.apps.fake_pipeline import FakePipeline
from tests.tiny import make_text_gguf, write_gguf

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], samples: Path) -> Run:
    """run(*argv, stdin=...) gives exit status, stdout and stderr; {s} in argv is the samples folder."""
    monkeypatch.setenv("MTMD_KERNELS", "reference")

    def call(*argv: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        text = io.TextIOWrapper(io.BytesIO(stdin or b""), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", text)
        monkeypatch.setattr("mtmd_cli.request._is_piped", lambda _: stdin is not None)
        status = main([arg.replace("{s}", str(samples)) for arg in argv])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    """Stands for the embedded model where only the question matters."""
    fake = FakePipeline("ok")
    monkeypatch.setitem(vars(mtmd), "load", lambda *_, **__: fake)
    return fake


def expected(samples: Path, file: str, prompt: str) -> str:
    entries = json.loads((samples / "expected.json").read_text())
    return next(e["truth"] for e in entries if e["files"] == [file] and e["prompt"] == prompt)


def test_the_first_command_of_the_readme(run: Run, samples: Path) -> None:
    status, out, err = run(
        "--image", "{s}/circle-and-square.png", "-p", "Describe this image.", "--temp", "0"
    )
    assert (status, err) == (0, "")
    assert out == expected(samples, "circle-and-square.png", "Describe this image.") + "\n"


def test_a_picture_alone_is_described_and_a_clip_transcribed(run: Run, samples: Path) -> None:
    _, out, _ = run("--image", "{s}/star.jpg", "--temp", "0")
    assert out == expected(samples, "star.jpg", "Describe this image.") + "\n"
    _, out, _ = run("--audio", "{s}/digits-47.wav", "--temp", "0")
    assert out == "4 7\n"


def test_naming_the_model_files_gives_the_same(run: Run) -> None:
    picture = ("--image", "{s}/three-shapes.webp", "-p", "Where is the triangle?", "--temp", "0")
    files = ("-m", "{s}/scenes-text.gguf", "--mmproj", "{s}/scenes-mmproj.gguf")
    assert run(*picture) == run(*files, *picture)


def test_a_picture_may_come_from_stdin_a_list_or_twice(run: Run, fake: FakePipeline, samples: Path) -> None:
    star, hello = samples / "star.jpg", samples / "hello.png"
    run("--image", "-", "-p", "What is it?", stdin=star.read_bytes())
    run("--image", f"{star},{hello}", "-p", "What is it?")
    run("--image", str(star), "--image", str(hello), "-p", "What is it?")
    keys = [[p["image"].key for p in asked[0]["content"] if "image" in p] for asked in fake.asked]
    assert keys[1] == keys[2] and len(keys[1]) == 2 and keys[0] == keys[1][:1]


def test_json_is_one_object_that_says_what_happened(run: Run, samples: Path) -> None:
    status, out, err = run("--image", "{s}/exif-rotated.jpg", "--json", "--temp", "0", "-n", "5")
    assert (status, err, out.count("\n")) == (0, "", 1)
    said = json.loads(out)
    assert said["finish"] == "length" and said["model"] == "embedded" and said["warnings"] == []
    [medium] = said["media"]
    assert medium["path"].endswith("exif-rotated.jpg") and medium["kind"] == "image"
    assert medium["original"] == [300, 400] and medium["tokens"] > 0 and not medium["cached"]
    assert said["usage"]["completion_tokens"] == 5
    assert said["usage"]["prompt_tokens"] > medium["tokens"]
    assert set(said["timings"]) == {"load", "encode", "prefill", "decode"}


def test_verbose_shows_receipt_timings_and_what_was_ignored(run: Run) -> None:
    _, out, err = run("--image", "{s}/star.jpg", "--temp", "0", "-v", "-ngl", "99", "-n", "1")
    assert out.count("\n") == 1
    for said in (
        "without effect here: -ngl",
        "star.jpg: ",
        "tokens",
        "load ",
        "encode ",
        "prefill ",
        "decode ",
    ):
        assert said in err


def shape(message: dict[str, Any]) -> list[str]:
    """The texts of a message, and the kinds of its media."""
    return [part.get("text", part["type"]) for part in message["content"]]


def test_the_question_comes_from_flag_file_or_pipe(run: Run, fake: FakePipeline, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("Why?\n")
    picture = ("--image", "{s}/star.jpg")
    run(*picture, "-p", "Why?")
    run(*picture, "-f", str(tmp_path / "q.txt"))
    run(*picture, stdin=b"Why?")
    run(*picture, "-p", "-", stdin=b"Why?\r\n")
    run(*picture, "-f", "-", stdin=b"\xef\xbb\xbfWhy?\n")
    # a shell loop's list on standard input is not ours to eat when there is a question
    run(*picture, "-p", "Why?", stdin=b"other.jpg\n")
    assert [shape(asked[0]) for asked in fake.asked] == [["image", "Why?"]] * 6


def test_a_piped_text_comes_before_the_question(run: Run, fake: FakePipeline) -> None:
    run("-p", r"a\tb", stdin=b"context\n")
    run("-p", r"a\tb", "--no-escape")
    run("--image", "{s}/star.jpg", "-f", "-", "-p", "and <__media__>?", stdin=b"<__media__>")
    run("-p", " \n", "-f", "-", stdin=b"only this")
    assert [shape(asked[0]) for asked in fake.asked] == [
        ["context\n\na\tb"],
        [r"a\tb"],
        ["<__media__>\n\nand ", "image", "?"],  # what is piped in places no media
        ["only this"],
    ]


def test_media_come_before_the_question_unless_placed_b061_b147(run: Run, fake: FakePipeline) -> None:
    media = ("--image", "{s}/star.jpg", "--audio", "{s}/stop.wav")
    run(*media, "-p", "What is it?", "-sys", "Be brief.")
    run(*media, "-p", "See <__media__> and hear <__media__>")
    run("-p", "What is <__media__>?")
    assert fake.asked[0][0] == {"role": "system", "content": "Be brief."}
    assert shape(fake.asked[0][1]) == ["image", "audio", "What is it?"]
    assert shape(fake.asked[1][0]) == ["See ", "image", " and hear ", "audio"]
    assert shape(fake.asked[2][0]) == ["What is <__media__>?"]
    status, _, err = run(*media, "-p", "<__media__>")
    assert status == 2 and "1 <__media__>, and 2 media" in err


def test_an_answer_that_goes_in_circles_is_said_to_b089(run: Run, fake: FakePipeline) -> None:
    fake.finish = "loop"
    status, out, err = run("-p", "x", "--json", "--loop-guard", "500")
    assert status == 0 and json.loads(out)["finish"] == "loop"
    assert "in circles for 500 tokens" in err and "in circles" in json.loads(out)["warnings"][0]


def test_sampling_flags_reach_the_sampler(run: Run, fake: FakePipeline) -> None:
    flags = "--temp 0.7 --top-k 3 --top-p 0.5 --min-p 0.1 --repeat-penalty 1.1 --repeat-last-n 9 -s 42"
    run("-p", "x", *flags.split(), "--presence-penalty", "0.2", "--frequency-penalty", "0.3")
    assert fake.sampling == Sampling(0.7, 3, 0.5, 0.1, 1.1, 9, 0.3, 0.2, 42)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--samplers top-k;MINP;temp;nucleus", {"samplers": ("top_k", "min_p", "temperature", "top_p")}),
        ("--sampler-seq dkyat", {"samplers": ("dry", "top_k", "typ_p", "adaptive_p", "temperature")}),
        ("--top-nsigma 1.5 --typical 0.5", {"top_n_sigma": 1.5, "typical_p": 0.5}),
        ("--xtc-probability 0.5 --xtc-threshold 0.2", {"xtc_probability": 0.5, "xtc_threshold": 0.2}),
        (
            "--dry-multiplier 0.8 --dry-base 2 --dry-allowed-length 3 --dry-penalty-last-n -1",
            {"dry_multiplier": 0.8, "dry_base": 2.0, "dry_allowed_length": 3, "dry_last_n": -1},
        ),
        ("--dry-sequence-breaker x --dry-sequence-breaker y", {"dry_breakers": ("x", "y")}),
        ("--dry-sequence-breaker none", {"dry_breakers": ()}),
        ("--dynatemp-range 0.3 --dynatemp-exp 2", {"dynatemp_range": 0.3, "dynatemp_exponent": 2.0}),
        (
            "--mirostat 2 --mirostat-ent 4 --mirostat-lr 0.2",
            {"mirostat": 2, "mirostat_tau": 4.0, "mirostat_eta": 0.2},
        ),
        (
            "--sampler-seq a --adaptive-target 0.4 --adaptive-decay 0.5",
            {"samplers": ("adaptive_p",), "adaptive_target": 0.4, "adaptive_decay": 0.5},
        ),
        ("-l 7+1.5 --logit-bias 9-inf", {"logit_bias": ((7, 1.5), (9, float("-inf")))}),
        ("--ignore-eos", {"ignore_eos": True}),
        ("--json --logprobs 3", {"logprobs": 3}),
        ("-j {}", {"grammar": Grammar("json_schema", "{}")}),
        ("--regex [0-9]", {"grammar": Grammar("regex", "[0-9]")}),
        ("--lark start:x", {"grammar": Grammar("lark", "start:x")}),
        ("--grammar root", {"grammar": Grammar("gbnf", "root")}),
        ("--grammar %llguidance{}", {"grammar": Grammar("lark", "%llguidance{}")}),
        ("--grammar-file {s}/colours.txt", {"grammar": Grammar("gbnf", "from a file")}),
        ("-jf {s}/colours.txt", {"grammar": Grammar("json_schema", "from a file")}),
        ("--lark-file {s}/colours.txt", {"grammar": Grammar("lark", "from a file")}),
    ],
)
def test_the_other_sampling_flags(
    run: Run, fake: FakePipeline, tmp_path: Path, line: str, expected: dict[str, Any]
) -> None:
    (tmp_path / "colours.txt").write_text("from a file\n")
    words = [word.replace("{s}", str(tmp_path)) for word in line.split()]
    status, _, err = run("-p", "x", *words)
    assert (status, fake.sampling) == (0, Sampling(0.2, **expected)), err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--samplers top_k;frob", "sampler 'frob' is unknown"),
        ("--sampler-seq kq", "'q' stands for no sampler"),
        ("--samplers top_k --sampler-seq k", "use one"),
        ("--logit-bias 7", "expected a token's number and its bias"),
        ("--logit-bias x+1", "expected a token's number and its bias"),
        ("--logit-bias 7+inf", "logit_bias of token 7 is inf"),
        ("--typical nan", "typical_p is nan, expected 0 to 1"),
        ("--mirostat 3", "mirostat is 3, expected 0 to 2"),
        ("--logprobs 3", "needs --json"),
        ("--grammar x --regex y", "more than one grammar"),
        ("--ignore-eos --regex y", "at odds"),
        ("--adaptive-target 0.5", "unless samplers include adaptive_p"),
    ],
)
def test_sampling_flags_that_cannot_be(run: Run, line: str, said: str) -> None:
    status, out, err = run("-p", "x", *line.split())
    assert (status, out) == (2, "") and said in err and err.count("\n") == 1


def _gguf(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


@pytest.fixture
def bad(tmp_path: Path, samples: Path) -> SimpleNamespace:
    """Files that cannot be used, each in its own way."""
    text = (samples / "scenes-text.gguf").read_bytes()
    lying = bytearray(text)
    lying[16:24] = (1 << 60).to_bytes(8, "little")  # number of metadata entries
    keys = {"clip.has_vision_encoder": True, "clip.projector_type": "frobnitz"}
    return SimpleNamespace(
        magic=_gguf(tmp_path / "magic.gguf", b"no gguf at all" * 9),
        cut=_gguf(tmp_path / "cut.gguf", text[: len(text) // 2]),
        lying=_gguf(tmp_path / "lying.gguf", bytes(lying)),
        empty=_gguf(tmp_path / "empty.gguf", b""),
        architecture=str(write_gguf(tmp_path / "arch.gguf", "frobnitz", {}, {}, {})),
        projector=str(write_gguf(tmp_path / "proj.gguf", "clip", keys, {}, {})),
        tiny=str(make_text_gguf(tmp_path / "tiny.gguf")),
        folder=str(tmp_path),
        picture=_gguf(tmp_path / "no.png", b"<html>not found</html>"),
        cut_picture=_gguf(tmp_path / "cut.png", (samples / "star.jpg").read_bytes()[:900]),
        clip=_gguf(tmp_path / "empty.wav", b""),
        silent=_gguf(tmp_path / "short.wav", (samples / "stop.wav").read_bytes()[:44]),
        latin=_gguf(tmp_path / "latin.txt", b"caf\xe9"),
        template=_gguf(tmp_path / "t.jinja", b"{% for"),
    )


PICTURE = "--image {s}/star.jpg"


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("-m {bad.magic}", 3, "magic.gguf"),
        ("-m {bad.cut}", 3, "cut.gguf"),
        ("-m {bad.lying}", 3, "lying.gguf"),
        ("-m {bad.empty}", 3, "empty.gguf"),
        ("-m {bad.folder}", 3, ""),
        ("-m /no/such/model.gguf", 3, "/no/such/model.gguf"),
        ("-m {bad.architecture}", 3, "frobnitz"),
        ("-m {s}/scenes-text.gguf --mmproj {bad.projector}", 3, "frobnitz"),
        ("-m {s}/scenes-text.gguf --mmproj {bad.magic}", 3, "magic.gguf"),
        ("-m {s}/scenes-text.gguf --mmproj /no/such.gguf", 3, "/no/such.gguf"),
        ("-m {s}/scenes-mmproj.gguf", 3, "pass it with --mmproj"),  # B093
        ("-m {s}/scenes-text.gguf --mmproj {s}/scenes-text.gguf", 3, "pass it with -m"),  # B093
        ("-m {bad.tiny} --mmproj {s}/scenes-mmproj.gguf", 3, "64"),  # B090: both widths, both files
        ("--mmproj {s}/scenes-mmproj.gguf", 2, "scenes-mmproj.gguf"),
        ("-m x -hf a/b", 2, "-m and -hf"),
        ("-hf nonsense", 2, "USER/REPO"),
        ("--image /no/such.png", 4, "/no/such.png: no such file"),
        ("--image {bad.folder}", 4, "folder"),
        ("--image {bad.picture}", 4, "no.png"),
        ("--image {bad.cut_picture}", 4, "cut.png"),
        ("--image {s}/stop.wav", 4, "is a recording, a picture was expected"),
        ("--audio {bad.clip}", 4, "empty.wav: is empty"),
        ("--audio {bad.silent}", 4, "short.wav"),
        ("--audio {s}/star.jpg", 4, "is a picture, a recording was expected"),
        ("--image https://example.org/a.png", 4, "addresses are not fetched"),
        ("-m {s}/scenes-text.gguf " + PICTURE, 4, "no image input"),
        ("-f /no/such.txt", 4, "/no/such.txt"),
        ("-f {bad.latin}", 4, "not UTF-8"),
        ("-sysf /no/such.txt", 4, "/no/such.txt"),
        (PICTURE + " -c 16", 5, "16"),
        (PICTURE + " -n", 2, "needs a value"),
        (PICTURE + " --frobnicate", 2, "unknown flag --frobnicate"),
        (PICTURE + " --temp nan", 2, "temperature"),
        (PICTURE + " --top-p 2", 2, "top_p"),
        (PICTURE + " -ctk f16 -ctv f32", 2, "-ctk"),
        (PICTURE + " -sys a -sysf b", 2, "-sysf"),
        (PICTURE + " --chat-template-file {bad.template}", 3, ""),
        ("--image - --audio -", 2, "more than once"),
    ],
)
def test_bad_input_is_one_clear_line_and_the_right_status(
    run: Run, bad: SimpleNamespace, line: str, status: int, said: str
) -> None:
    argv = [word.replace("{s}", "\0").format(bad=bad).replace("\0", "{s}") for word in line.split()]
    found, out, err = run("-p", "What is it?", *argv)
    assert (found, out) == (status, ""), err
    assert err.startswith("mtmd-cli: error: ") and err.count("\n") == 1 and said in err, err
    assert "Traceback" not in err and "this is a bug" not in err


def test_a_mismatched_pair_names_widths_and_files_b090(run: Run, bad: SimpleNamespace) -> None:
    _, _, err = run(
        "-p", "x", "-m", bad.tiny, "--mmproj", "{s}/scenes-mmproj.gguf", "--image", "{s}/star.jpg"
    )
    assert "tiny.gguf takes 64" in err and "scenes-mmproj.gguf gives rows of " in err


def test_nothing_to_answer(run: Run) -> None:
    status, out, err = run()
    assert (status, out) == (2, "") and "-p" in err


def test_unicode_folder_with_model_mmproj_and_picture_b098(run: Run, samples: Path, tmp_path: Path) -> None:
    folder = tmp_path / "画像 тест ü"
    folder.mkdir()
    for name in ("scenes-text.gguf", "scenes-mmproj.gguf", "star.jpg"):
        (folder / name).symlink_to(samples / name)
    files = ("-m", f"{folder}/scenes-text.gguf", "--mmproj", f"{folder}/scenes-mmproj.gguf")
    status, out, err = run(
        *files, "--image", f"{folder}/star.jpg", "--temp", "0", "-v", "-p", "Describe this image."
    )
    assert status == 0 and "purple star" in out and "тест" in err


def test_quiet_says_nothing_even_with_verbose(run: Run, fake: FakePipeline) -> None:
    assert run("--image", "{s}/star.jpg", "-v", "-q", "-ngl", "9") == (0, "ok\n", "")


def test_a_full_context_is_said_and_the_answer_kept(run: Run) -> None:
    status, out, err = run(
        "-p", "Describe this image.", "--image", "{s}/four-shapes.png", "--temp", "0", "-c", "64"
    )
    assert status == 0 and out.strip() and "the context is full after" in err


def test_traceback_only_with_verbose(run: Run) -> None:
    assert "Traceback" not in run("-p", "x", "-m", "/no/such")[2]
    assert "Traceback" in run("-p", "x", "-m", "/no/such", "-v")[2]


def test_a_prompt_cache_goes_on_without_encoding_b065(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "session"
    ask = ("--image", "{s}/star.jpg", "--temp", "0", "--json", "--prompt-cache", str(file))
    first, second = (json.loads(run(*ask)[1]) for _ in range(2))
    assert first["text"] == second["text"]
    assert first["usage"]["cached"] == 0
    assert second["usage"]["cached"] == second["usage"]["prompt_tokens"] - 1


def test_a_prompt_cache_of_another_model_is_an_error(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "session"
    model = str(make_text_gguf(tmp_path / "m.gguf"))
    assert (
        run("-m", model, "-p", "a", "-n", "1", "--chat-template", "chatml", "--prompt-cache", str(file))[0]
        == 0
    )
    status, out, err = run("--image", "{s}/star.jpg", "--prompt-cache", str(file))
    assert (status, out) == (1, "") and "a session of another model or mmproj" in err
    status, _, err = run("--image", "{s}/star.jpg", "--prompt-cache-ro")
    assert status == 2 and "--prompt-cache-ro needs --prompt-cache" in err
