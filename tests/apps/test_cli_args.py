"""The command line: flags as llama.cpp's users type them, refusals, environment, help."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from llm.errors import UsageError
from mtmd_cli.args import MediaArg, Options, parse
from mtmd_cli.main import main


def test_defaults_are_those_of_llama_mtmd_cli() -> None:
    options = parse([], {})
    assert options == Options()
    assert (options.temperature, options.top_k, options.top_p, options.min_p) == (0.2, 40, 0.95, 0.05)
    assert (options.n_predict, options.n_ctx, options.n_batch, options.n_ubatch) == (-1, 0, 2048, 512)


def test_a_typical_command_line() -> None:
    line = "-m m.gguf --mmproj p.gguf --image a.jpg --audio b.wav --image c.png -n 200 --temp 0 -c 8192 -t 8"
    options = parse([*line.split(), "-p", "What is it?", "-sys", "Be brief."], {})
    assert (options.model, options.mmproj) == ("m.gguf", "p.gguf")
    assert options.media == (
        MediaArg("image", "a.jpg"),
        MediaArg("audio", "b.wav"),
        MediaArg("image", "c.png"),
    )
    assert (options.n_predict, options.temperature, options.n_ctx, options.threads) == (200, 0.0, 8192, 8)
    assert (options.prompt, options.system) == ("What is it?", "Be brief.")


@pytest.mark.parametrize(
    ("spelling", "field", "value"),
    [
        ("-mm x", "mmproj", "x"),
        ("-hfr a/b", "hf_repo", "a/b"),
        ("-hff f", "hf_file", "f"),
        ("--no-mmproj", "mmproj_auto", False),
        ("--max-tokens 7", "n_predict", 7),
        ("--n-predict 7", "n_predict", 7),
        ("--temperature 1.5", "temperature", 1.5),
        ("--temp=1.5", "temperature", 1.5),
        ("--ctx_size 64", "n_ctx", 64),
        ("-ub 16", "n_ubatch", 16),
        ("--seed -1", "seed", -1),
        ("-ctk f32", "cache_type_k", "f32"),
        ("--compat peer", "compat", "peer"),
        ("--system-prompt x", "system", "x"),
        ("--no-escape", "escape", False),
    ],
)
def test_spellings(spelling: str, field: str, value: object) -> None:
    assert parse(spelling.split(), {}) == Options(**{field: value})


@pytest.mark.parametrize("text", ["-5 degrees?", "--help", "- a list", "-p", ""])
def test_a_question_may_look_like_a_flag(text: str) -> None:
    assert parse(["-p", text], {}).prompt == text


def test_llama_cpp_flags_without_effect_are_accepted_and_remembered() -> None:
    line = "-ngl 99 -fa --no-warmup --mmproj-offload -fa on --log-file x --jinja -mg 0 --color auto"
    assert parse(line.split(), {}) == Options(
        ignored=(
            "-ngl",
            "-fa",
            "--no-warmup",
            "--mmproj-offload",
            "-fa",
            "--log-file",
            "--jinja",
            "-mg",
            "--color",
        )
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--imgae a.png", "unknown flag --imgae; did you mean --image?"),
        ("--tmep=0", "unknown flag --tmep=0; did you mean --temp?"),
        ("-x", "unknown flag -x"),
        ("a.png", "what is 'a.png' for? --image"),
        ("--image", "--image needs a value"),
        ("-t four", "invalid int value: 'four'"),
        ("--precision half", "invalid choice: 'half'"),
        ("--json=1", "takes no value|ignored explicit argument"),
        ("--lora x", "--lora of llama.cpp is not supported yet"),
        ("--video a.mp4", "--video of llama.cpp is not supported yet"),
        ("-ctk q4_0", "invalid choice: 'q4_0'"),
    ],
)
def test_refusals(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?").replace("(", r"\(")):
        parse(line.split(), {})
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("mtmd-cli: error: ") and err.count("\n") == 1


def test_environment_yields_to_the_command_line() -> None:
    env = {
        "LLAMA_ARG_MODEL": "e.gguf",
        "LLAMA_ARG_THREADS": "3",
        "LLAMA_ARG_CTX_SIZE": "99",
        "LLAMA_ARG_OFFLINE": "1",
    }
    assert parse([], env) == Options(model="e.gguf", threads=3, n_ctx=99, offline=True)
    assert parse(["-t", "5", "-m", "x"], env) == Options(model="x", threads=5, n_ctx=99, offline=True)
    # a typed -hf is not paired with the environment's -m
    assert parse(["-hf", "a/b"], env).model is None
    assert parse([], {"LLAMA_ARG_MMPROJ_AUTO": "false"}) == Options(mmproj_auto=False)


def test_help_has_a_line_and_a_default_for_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(["--help"], {})
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert all(len(line) <= 120 for line in shown.splitlines())
    flags = [line for line in shown.splitlines() if line.startswith("  -")]
    assert len(flags) > 40
    without_default = [line for line in flags if "default" not in line]  # long flags have it on the next
    assert all("--help" in line or line.endswith(("FILE", "SEQ")) for line in without_default)


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_are_quick_because_they_import_nothing(flag: str) -> None:
    code = (
        "import sys\nfrom mtmd_cli.main import main\n"
        f"try:\n    main(['{flag}'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'numba', 'PIL', 'scipy') if m in sys.modules])"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_ARG_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr
