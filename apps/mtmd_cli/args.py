"""The command line: llama-mtmd-cli's flags, read into one frozen `Options`. Imports nothing heavy.

Each field of `Options` carries its flags and its help line; the parser is made from the fields.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NoReturn

from llm.errors import UsageError
from mtmd_cli.llama_flags import ENVIRONMENT, OPTIONAL_VALUES, REFUSED, SWITCHES, WITHOUT_EFFECT

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


@dataclass(frozen=True)
class MediaArg:
    """One --image or --audio as typed."""

    kind: str
    value: str


def flag(section: str, flags: str, default: object, metavar: str, text: str, *choices: str) -> Any:
    """A field set by a flag with a value."""
    shown = text if default is None else f"{text} (default: {default})"
    how = {"metavar": metavar, "help": shown, "choices": choices or None}
    return field(default=default, metadata={"section": section, "flags": flags.split(), "how": how})


def repeated(section: str, flags: str, metavar: str, text: str) -> Any:
    """A field that collects the values of a flag that may be repeated."""
    how = {"metavar": metavar, "help": text, "action": "append"}
    return field(default=(), metadata={"section": section, "flags": flags.split(), "how": how})


def switch(section: str, on: str, off: str, default: bool, text: str) -> Any:
    """A field set by flags without a value; `text` describes the flag that changes the default."""
    return field(
        default=default, metadata={"section": section, "on": on.split(), "off": off.split(), "text": text}
    )


@dataclass(frozen=True)
class Options:
    """Every flag, checked for its type; values are checked by those who use them."""

    model: str | None = flag("model", "-m --model", None, "FILE", "text model (default: the embedded one)")
    mmproj: str | None = flag(
        "model", "-mm --mmproj", None, "FILE", "projector (default: the one beside -hf)"
    )
    hf_repo: str | None = flag(
        "model", "-hf -hfr --hf-repo", None, "REPO", "USER/REPO[:QUANT] from the hub (default quant: Q4_K_M)"
    )
    hf_file: str | None = flag(
        "model", "-hff --hf-file", None, "FILE", "file of REPO (default: by its quant)"
    )
    hf_token: str | None = flag(
        "model", "-hft --hf-token", None, "TOKEN", "access token (default: $HF_TOKEN)"
    )
    offline: bool = switch("model", "--offline", "", False, "no network, only what is downloaded already")
    mmproj_auto: bool = switch(
        "model", "--mmproj-auto", "--no-mmproj --no-mmproj-auto", True, "with -hf: fetch no projector"
    )

    media: tuple[MediaArg, ...] = ()  # --image and --audio, in the order typed
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
    temperature: float = flag("answer", "--temperature --temp", 0.2, "T", "0 = always the likeliest token")
    top_k: int = flag("answer", "--top-k", 40, "N", "choose among the N likeliest, 0 = off")
    top_p: float = flag("answer", "--top-p", 0.95, "P", "choose among the likeliest that sum to P, 1 = off")
    min_p: float = flag("answer", "--min-p", 0.05, "P", "at least P times the likeliest, 0 = off")
    repeat_penalty: float = flag(
        "answer", "--repeat-penalty", 1.0, "X", "divide what was said already by X, 1 = off"
    )
    repeat_last_n: int = flag(
        "answer", "--repeat-last-n", 64, "N", "tokens that penalties look back, -1 = all"
    )
    presence_penalty: float = flag(
        "answer", "--presence-penalty", 0.0, "X", "subtract X if said already, 0 = off"
    )
    frequency_penalty: float = flag(
        "answer", "--frequency-penalty", 0.0, "X", "subtract X each time, 0 = off"
    )
    seed: int = flag("answer", "-s --seed", -1, "N", "of the random choice, -1 = another each time")
    loop_guard: int = flag(
        "answer", "--loop-guard", 1000, "N", "end it when it goes in circles for N tokens, 0 = never"
    )
    ignore_eos: bool = switch("answer", "--ignore-eos", "", False, "never end the answer")
    logprobs: int = flag(
        "answer", "--logprobs", -1, "N", "with --json: log probabilities, also of the N likeliest, -1 = none"
    )
    chat_template: str | None = flag(
        "answer", "--chat-template", None, "NAME", "built-in name or Jinja text (default: the model's)"
    )
    chat_template_file: str | None = flag(
        "answer", "--chat-template-file", None, "FILE", "Jinja file (default: the model's)"
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

    samplers: str | None = flag(
        "sampling", "--samplers", None, "A;B;C", "which samplers, in which order (default: as listed here)"
    )
    sampler_seq: str | None = flag(
        "sampling",
        "--sampling-seq --sampler-seq",
        None,
        "SEQ",
        "the same in letters (default: edskypmxt)",
    )
    dry_multiplier: float = flag("sampling", "--dry-multiplier", 0.0, "X", "against repetitions, 0 = off")
    dry_base: float = flag("sampling", "--dry-base", 1.75, "X", "raised to the power of the length")
    dry_allowed_length: int = flag("sampling", "--dry-allowed-length", 2, "N", "of a repetition")
    dry_last_n: int = flag("sampling", "--dry-penalty-last-n", 64, "N", "tokens searched, -1 = all")
    dry_breakers: tuple[str, ...] = repeated(
        "sampling",
        "--dry-sequence-breaker",
        "TEXT",
        r"""ends a repetition, "none" = none; may be repeated (default: \n : " *)""",
    )
    top_n_sigma: float = flag(
        "sampling", "--top-nsigma --top-n-sigma", -1.0, "X", "within X sigma of the likeliest, -1 = off"
    )
    typical_p: float = flag("sampling", "--typical --typical-p", 1.0, "P", "locally typical, 1 = off")
    xtc_probability: float = flag(
        "sampling", "--xtc-probability", 0.0, "P", "leave out the likeliest so often, 0 = off"
    )
    xtc_threshold: float = flag("sampling", "--xtc-threshold", 0.1, "P", "but one of all above P")
    dynatemp_range: float = flag(
        "sampling", "--dynatemp-range", 0.0, "X", "let --temp vary by X with the entropy, 0 = off"
    )
    dynatemp_exponent: float = flag("sampling", "--dynatemp-exp", 1.0, "X", "entropy to the power of X")
    mirostat: int = flag("sampling", "--mirostat", 0, "N", "version 1 or 2 instead of the others, 0 = off")
    mirostat_tau: float = flag("sampling", "--mirostat-ent", 5.0, "X", "surprise to keep, in bits")
    mirostat_eta: float = flag("sampling", "--mirostat-lr", 0.1, "X", "how fast it is corrected")
    adaptive_target: float = flag(
        "sampling", "--adaptive-target", -1.0, "P", "with sampler adaptive_p: prefer P, -1 = off"
    )
    adaptive_decay: float = flag("sampling", "--adaptive-decay", 0.9, "X", "weight of what was chosen before")
    logit_bias: tuple[str, ...] = repeated(
        "sampling",
        "-l --logit-bias",
        "ID+X",
        "add to a token's logit, as 15043-inf; may be repeated (default: none)",
    )

    json_schema: str | None = flag(
        "structure", "-j --json-schema", None, "JSON", "the answer matches this schema (default: none)"
    )
    json_schema_file: str | None = flag(
        "structure", "-jf --json-schema-file", None, "FILE", "the same from a file (default: none)"
    )
    regex: str | None = flag(
        "structure", "--regex", None, "REGEX", "it matches this regular expression (default: none)"
    )
    grammar: str | None = flag(
        "structure", "--grammar", None, "GBNF", "it matches this grammar (default: none)"
    )
    grammar_file: str | None = flag(
        "structure", "--grammar-file", None, "FILE", "the same from a file (default: none)"
    )
    lark: str | None = flag("structure", "--lark", None, "LARK", "it matches this grammar (default: none)")
    lark_file: str | None = flag(
        "structure", "--lark-file", None, "FILE", "the same from a file (default: none)"
    )

    n_ctx: int = flag("machine", "-c --ctx-size", 0, "N", "tokens of context, 0 = as the model was trained")
    n_batch: int = flag("machine", "-b --batch-size", 2048, "N", "tokens decoded in one call")
    n_ubatch: int = flag("machine", "-ub --ubatch-size", 512, "N", "tokens computed at once")
    threads: int = flag("machine", "-t --threads", 0, "N", "0 = one for each core")
    cache_type_k: Literal["f16", "f32"] = flag(
        "machine", "-ctk --cache-type-k", "f16", "TYPE", "keys of the context, f16 or f32", "f16", "f32"
    )
    cache_type_v: Literal["f16", "f32"] = flag(
        "machine", "-ctv --cache-type-v", "f16", "TYPE", "values, of the same type as the keys", "f16", "f32"
    )
    precision: Literal["auto", "exact"] = flag(
        "machine", "--precision", "auto", "auto|exact", "exact: all in float32", "auto", "exact"
    )
    compat: Literal["authors", "peer"] = flag(
        "machine", "--compat", "authors", "authors|peer", "prepare media as they do", "authors", "peer"
    )

    json: bool = switch("output", "--json", "", False, "print one JSON object instead of the text")
    verbose: bool = switch(
        "output", "-v --verbose --log-verbose", "", False, "receipts, timings, tracebacks on stderr"
    )
    perf: bool = switch("output", "--perf", "--no-perf", False, "timings on stderr")
    quiet: bool = switch("output", "-q --quiet", "", False, "nothing on stderr but errors")
    version: bool = switch("output", "--version", "", False, "show the version and exit")

    ignored: tuple[str, ...] = ()  # flags of llama.cpp that were given and have no effect here


class Parser(argparse.ArgumentParser):
    """argparse made from the fields of `Options`; its complaints are UsageErrors."""

    def __init__(self) -> None:
        super().__init__(
            prog="mtmd-cli",
            usage=USAGE,
            epilog=EPILOG,
            allow_abbrev=False,
            add_help=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=_Help,
        )
        self.known: dict[
            str, tuple[str, bool]
        ] = {}  # flag -> (its canonical spelling, whether a value follows)
        self._sections: dict[str, argparse._ArgumentGroup] = {}
        for f in fields(Options):
            meta = f.metadata
            if "how" in meta:
                kind = {"int": int, "float": float}.get(str(f.type), str)
                self._add(f.name, meta["section"], meta["flags"], type=kind, **meta["how"])
            elif "on" in meta:
                self._add_switch(f.name, f.default is True, **meta)
            elif f.name == "media":
                for kind_name, what in (("image", "picture"), ("audio", "recording")):
                    self._add(
                        "media", "input", [f"--{kind_name}"], action="append", metavar="FILE",
                        type=lambda value, kind=kind_name: MediaArg(kind, value),
                        help=f"{what}, '-' is stdin; may be repeated, or a,b,c (default: none)",
                    )  # fmt: skip
        self._add(
            "help", "output", ["-h", "--usage", "--help"], action="help", help="show this text and exit"
        )

    def _add_switch(
        self, dest: str, default: bool, section: str, on: list[str], off: list[str], text: str
    ) -> None:
        """Both ways to set it; --help shows the one that changes the default."""
        for flags, action, is_default in ((on, "store_true", default), (off, "store_false", not default)):
            if flags:
                shown = argparse.SUPPRESS if is_default else f"{text} (default: no)"
                self._add(dest, section, flags, action=action, help=shown)

    def _add(self, dest: str, section: str, flags: list[str], **how: Any) -> None:
        if section not in self._sections:
            self._sections[section] = self.add_argument_group(section)
        action = self._sections[section].add_argument(*flags, dest=dest, **how)
        self.known |= dict.fromkeys(flags, (flags[-1], action.nargs != 0))

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help lines that show the shortest and the full spelling of a flag, not every alias."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=118)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        spellings = ", ".join(dict.fromkeys((action.option_strings[0], action.option_strings[-1])))
        return spellings + (f" {action.metavar}" if action.nargs != 0 else "")


def parse(argv: Sequence[str], env: Mapping[str, str]) -> Options:
    """Options from the command line, over llama.cpp's environment variables.

    Raises UsageError for what is unknown, malformed or not supported; SystemExit(0) after --help.
    """
    parser = Parser()
    typed, ignored = _canonical(argv, parser.known)
    found = vars(parser.parse_args([*_from_environment(env, typed), *typed]))
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return Options(**found, ignored=tuple(ignored))


def _canonical(argv: Sequence[str], known: Mapping[str, tuple[str, bool]]) -> tuple[list[str], list[str]]:
    """argv with each flag in its canonical spelling and its value glued on; and the flags without effect.

    Glued, because argparse takes `-p "-5"` for a flag and `-mx` for `-m x`.
    """
    given: list[str] = []
    ignored: list[str] = []
    words = list(reversed(argv))
    while words:
        word = words.pop()
        flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag.startswith("--"):
            flag = flag.replace("_", "-")
        if flag in known:
            name, takes_value = known[flag]
            if takes_value and not equals:
                if not words:
                    raise UsageError(f"{flag} needs a value")
                value = words.pop()
            given.append(f"{name}={value}" if takes_value or equals else name)
        elif flag in WITHOUT_EFFECT:
            ignored.append(flag)
            n_values = WITHOUT_EFFECT[flag]
            if words and not equals and (n_values == 1 or (n_values == "?" and words[-1] in OPTIONAL_VALUES)):
                words.pop()
        elif flag in REFUSED:
            raise UsageError(
                f"{flag} of llama.cpp is not supported yet, and without it the answer would differ"
            )
        else:
            raise UsageError(_unknown(word, [*known, *WITHOUT_EFFECT]))
    return given, ignored


def _unknown(word: str, flags: Sequence[str]) -> str:
    if not word.startswith("-"):
        return f"what is {word!r} for? --image gives a picture, --audio a recording, -p a question"
    close = difflib.get_close_matches(word.partition("=")[0], flags, n=1)
    return f"unknown flag {word}" + (f"; did you mean {close[0]}?" if close else "; --help lists them")


def _from_environment(env: Mapping[str, str], typed: Sequence[str]) -> Iterator[str]:
    """The flags that the environment stands for; they come before what was typed, and so yield to it."""
    model_typed = any(word.startswith(("--model=", "--hf-repo=")) for word in typed)
    for name, flag in ENVIRONMENT.items():
        if env.get(name) and not (model_typed and flag in ("--model", "--hf-repo", "--hf-file")):
            yield f"{flag}={env[name]}"
    for name, (on, off) in SWITCHES.items():
        value = env.get(name, "").lower()
        if value in ("1", "true", "on", "enabled"):
            yield on
        elif off and value in ("0", "false", "off", "disabled"):
            yield off
