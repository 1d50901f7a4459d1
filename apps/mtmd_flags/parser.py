"""Flags as the fields of a frozen dataclass: each carries its spellings and its help line.

    @dataclass(frozen=True)
    class Options:
        n_ctx: int = flag("machine", "-c --ctx-size", 0, "N", "tokens of context")
        verbose: bool = switch("output", "-v --verbose", "", False, "say more")
        ignored: tuple[str, ...] = ()  # flags of llama.cpp that were given and have no effect here

    options = Options(**read(Parser("program", Options, ["machine", "output"]), argv, os.environ))

Imports nothing heavy.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, NoReturn

from llm.errors import UsageError
from mtmd_flags.llama import ENVIRONMENT, OPTIONAL_VALUES, REFUSED, SWITCHES, WITHOUT_EFFECT

ON, OFF = ("1", "true", "on", "enabled"), ("0", "false", "off", "disabled")


def flag(section: str, flags: str, default: object, metavar: str, text: str, *choices: str) -> Any:
    """A field set by a flag with a value."""
    shown = text if default is None else f"{text} (default: {default})"
    how = {"metavar": metavar, "help": shown, "choices": choices or None}
    return field(default=default, metadata={"section": section, "flags": {flags: how}})


def repeated(section: str, flags: str, metavar: str, text: str) -> Any:
    """A field that collects the values of a flag that may be repeated."""
    how = {"metavar": metavar, "help": text, "action": "append"}
    return field(default=(), metadata={"section": section, "flags": {flags: how}})


def gathered(section: str, metavar: str, *kinds: tuple[str, Callable[[str], object], str]) -> Any:
    """A field that collects what several flags give, in order: (flags, what a value becomes, text)."""
    flags = {
        spellings: {"metavar": metavar, "help": text, "action": "append", "type": become}
        for spellings, become, text in kinds
    }
    return field(default=(), metadata={"section": section, "flags": flags})


def switch(section: str, on: str, off: str, default: bool, text: str) -> Any:
    """A field set by flags without a value; `text` describes the flag that changes the default."""
    return field(
        default=default, metadata={"section": section, "on": on.split(), "off": off.split(), "text": text}
    )


class Parser(argparse.ArgumentParser):
    """argparse made from the fields of `options`; its complaints are UsageErrors.

    `sections` are in the order in which --help shows them.
    """

    def __init__(
        self, prog: str, options: type, sections: Sequence[str], usage: str | None = None, epilog: str = ""
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            epilog=epilog,
            allow_abbrev=False,
            add_help=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=_Help,
        )
        # flag -> (its canonical spelling, whether a value follows)
        self.known: dict[str, tuple[str, bool]] = {}
        self._sections = {name: self.add_argument_group(name) for name in sections}
        for f in fields(options):
            meta = f.metadata
            for flags, how in meta.get("flags", {}).items():
                kind = {"int": int, "float": float}.get(str(f.type), str)
                self._add(f.name, meta["section"], flags.split(), **{"type": kind, **how})
            if "on" in meta:
                self._add_switch(f.name, f.default is True, **meta)
        last = sections[-1]
        self._add("help", last, ["-h", "--usage", "--help"], action="help", help="show this text and exit")

    def _add_switch(
        self, dest: str, default: bool, section: str, on: list[str], off: list[str], text: str
    ) -> None:
        """Both ways to set it; --help shows the one that changes the default."""
        for flags, action, is_default in ((on, "store_true", default), (off, "store_false", not default)):
            if flags:
                shown = argparse.SUPPRESS if is_default else f"{text} (default: no)"
                self._add(dest, section, flags, action=action, help=shown)

    def _add(self, dest: str, section: str, flags: list[str], **how: Any) -> None:
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


def read(parser: Parser, argv: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """The fields that the command line sets, over those that llama.cpp's environment variables set.

    Raises UsageError for what is unknown, malformed or not supported; SystemExit(0) after --help.
    """
    typed, ignored = _canonical(argv, parser.known)
    standing = _from_environment(env, typed, parser.known)
    found = vars(parser.parse_args([*standing, *typed]))
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return {**found, "ignored": tuple(ignored)}


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
        elif flag in REFUSED:
            raise UsageError(
                f"{flag} of llama.cpp is not supported yet, and without it the answer would differ"
            )
        elif flag in WITHOUT_EFFECT:
            ignored.append(flag)
            n_values = WITHOUT_EFFECT[flag]
            if words and not equals and (n_values == 1 or (n_values == "?" and words[-1] in OPTIONAL_VALUES)):
                words.pop()
        else:
            raise UsageError(_unknown(word, [*known, *WITHOUT_EFFECT]))
    return given, ignored


def _unknown(word: str, flags: Sequence[str]) -> str:
    if not word.startswith("-"):
        hint = " --image gives a picture, --audio a recording, -p a question" if "--image" in flags else ""
        return f"what is {word!r} for?{hint}"
    close = difflib.get_close_matches(word.partition("=")[0], flags, n=1)
    return f"unknown flag {word}" + (f"; did you mean {close[0]}?" if close else "; --help lists them")


def _from_environment(env: Mapping[str, str], typed: Sequence[str], known: Collection[str]) -> Iterator[str]:
    """The flags that the environment stands for; they come before what was typed, and so yield to it."""
    model_typed = any(word.startswith(("--model=", "--hf-repo=")) for word in typed)
    for name, flag in ENVIRONMENT.items():
        if (
            flag in known
            and env.get(name)
            and not (model_typed and flag in ("--model", "--hf-repo", "--hf-file"))
        ):
            yield f"{flag}={env[name]}"
    for name, (on, off) in SWITCHES.items():
        value = env.get(name, "").lower()
        if on not in known:
            continue
        if value in ON:
            yield on
        elif off and value in OFF:
            yield off
