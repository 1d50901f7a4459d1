"""The command line: llama-mtmd-cli's flags, read into one frozen `Options`. Imports nothing heavy.

Each field of `Options` carries its flags and its help line; the parser is made from the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mtmd_flags.options import ModelOptions, SamplingOptions
from mtmd_flags.parser import Parser, flag, gathered, read, switch

SECTIONS = ("model", "input", "answer", "sampling", "structure", "machine", "output")

USAGE = """\
mtmd-cli --image PICTURE [-p PROMPT]        describe a picture with the embedded model
       mtmd-cli --audio CLIP                       transcribe a recording with the embedded model
       mtmd-cli -m MODEL --mmproj PROJECTOR [--image PICTURE] [--audio CLIP] [-p PROMPT] [flags]
       mtmd-cli -hf USER/REPO[:QUANT] ...          the same with a model from the hub"""

EPILOG = """\
Without a prompt the program chats. Flags may also come from llama.cpp's environment variables
(LLAMA_ARG_MODEL, LLAMA_ARG_MMPROJ, LLAMA_ARG_THREADS ...). Flags of llama.cpp that change nothing about
the answer (-ngl, -fa, --jinja, --no-warmup ...) are accepted; -v says that they had no effect.

exit status: 0 ok, 1 failed, 2 usage, 3 model or mmproj cannot be used, 4 input unreadable,
             5 does not fit the context, 130 interrupted"""


MEDIA_HELP = "{}, '-' is stdin; may be repeated, or a,b,c (default: none)"


@dataclass(frozen=True)
class MediaArg:
    """One --image or --audio as typed."""

    kind: str
    value: str


@dataclass(frozen=True)
class Options(ModelOptions, SamplingOptions):
    """Every flag, checked for its type; values are checked by those who use them."""

    media: tuple[MediaArg, ...] = gathered(
        "input",
        "FILE",
        ("--image", partial(MediaArg, "image"), MEDIA_HELP.format("picture")),
        ("--audio", partial(MediaArg, "audio"), MEDIA_HELP.format("recording")),
    )
    prompt: str | None = flag("input", "-p --prompt", None, "TEXT", "question, '-' is stdin (default: chat)")
    file: str | None = flag(
        "input", "-f --file", None, "FILE", "question from a file, '-' is stdin (default: none)"
    )
    escape: bool = switch("input", "-e --escape", "--no-escape", True, r"leave \n, \t, \\ in -p as they are")
    system: str | None = flag(
        "input", "-sys --system --system-prompt", None, "TEXT", "system message (default: none)"
    )
    system_file: str | None = flag(
        "input",
        "-sysf --system-file --system-prompt-file",
        None,
        "FILE",
        "the same from a file (default: none)",
    )
    conversation: bool = switch(
        "input", "-cnv --conversation", "", False, "chat, also when stdin is no terminal"
    )
    n_predict: int = flag(
        "answer", "-n --n-predict --max-tokens --predict", -1, "N", "tokens at most, -1 = no limit"
    )
    loop_guard: int = flag(
        "answer", "--loop-guard", 1000, "N", "end it when it goes in circles for N tokens, 0 = never"
    )
    logprobs: int = flag(
        "answer", "--logprobs", -1, "N", "with --json: log probabilities, also of the N likeliest, -1 = none"
    )
    reasoning_format: Literal["none", "deepseek", "auto"] = flag(
        "answer",
        "--reasoning-format",
        "none",
        "FORM",
        "thoughts: none leaves them in the text, deepseek or auto not",
        "none",
        "deepseek",
        "auto",
    )
    reasoning_budget: Literal["-1", "0"] = flag(
        "answer", "--reasoning-budget", "-1", "N", "0 = ask for no thoughts, -1 = no limit", "-1", "0"
    )
    prompt_cache: str | None = flag(
        "machine",
        "--prompt-cache",
        None,
        "FILE",
        "keep what was read here, and go on from it (default: none)",
    )
    prompt_cache_ro: bool = switch(
        "machine", "--prompt-cache-ro", "", False, "leave the file of --prompt-cache as it is"
    )
    json: bool = switch("output", "--json", "", False, "print one JSON object instead of the text")
    verbose: bool = switch(
        "output", "-v --verbose --log-verbose", "", False, "receipts, timings, tracebacks on stderr"
    )
    perf: bool = switch("output", "--perf", "--no-perf", False, "timings on stderr")
    quiet: bool = switch("output", "-q --quiet", "", False, "nothing on stderr but errors")
    version: bool = switch("output", "--version", "", False, "show the version and exit")
    ignored: tuple[str, ...] = ()  # flags of llama.cpp that were given and have no effect here


def parse(argv: Sequence[str], env: Mapping[str, str]) -> Options:
    """Options from the command line, over llama.cpp's environment variables.

    Raises UsageError for what is unknown, malformed or not supported; SystemExit(0) after --help.
    """
    parser = Parser("mtmd-cli", Options, SECTIONS, USAGE, EPILOG)
    return Options(**read(parser, argv, env))
