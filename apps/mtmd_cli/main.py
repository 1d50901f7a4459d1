"""The program: options, request, pipeline, answer; and every way in which it can end."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from llm.errors import LlmError, UsageError
from mtmd_cli.args import Options, parse
from mtmd_cli.console import Console, Notes
from mtmd_cli.output import Output, abandon
from mtmd_cli.status import FAILED, INTERRUPTED, OK, status_of

if TYPE_CHECKING:
    from mtmd.pipeline import Pipeline


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; gives its exit status. Only --help leaves by SystemExit."""
    _speak_utf8()
    before = signal.getsignal(signal.SIGINT)
    try:
        options = parse(sys.argv[1:] if argv is None else argv, os.environ)
    except UsageError as error:
        Console().error(error)
        return status_of(error)
    console = Console(options.quiet)
    notes = Notes(console)
    logging.getLogger().addHandler(notes)
    try:
        _run(options, console)
        return OK
    except KeyboardInterrupt:
        console.clear()
        return INTERRUPTED
    except BrokenPipeError:  # the reader has left, as head does: there is nobody to tell
        abandon()
        return FAILED
    except Exception as error:
        if options.verbose:
            traceback.print_exc()
        if isinstance(error, LlmError):
            console.error(error)
        elif isinstance(error, MemoryError):
            console.error("out of memory; a smaller context (-c) or model needs less")
        else:
            first = str(error).partition("\n")[0]
            console.error(f"{type(error).__name__}: {first} (this is a bug; --verbose shows where)")
        abandon()
        return status_of(error)
    finally:
        logging.getLogger().removeHandler(notes)
        signal.signal(signal.SIGINT, before)


def _run(options: Options, console: Console) -> None:
    output = Output()
    if options.version:
        from importlib.metadata import version

        output.line(f"mtmd-cli {version('mtmd')}")
        return
    signal.signal(signal.SIGINT, _leave)  # imports and compilers may swallow KeyboardInterrupt
    if options.ignored and options.verbose:
        console.note(f"without effect here: {' '.join(options.ignored)}")
    console.progress("reading the input")

    # Here numpy comes in, which --help and --version do without.
    from mtmd_cli.request import gather
    from mtmd_cli.turn import Turn
    from mtmd_flags.sampling import sampling_of

    if options.logprobs >= 0 and not options.json:
        raise UsageError("--logprobs needs --json, which has the room for them")
    if options.prompt_cache_ro and not options.prompt_cache:
        raise UsageError("--prompt-cache-ro needs --prompt-cache, which names the file")
    sampling = sampling_of(options, options.logprobs)
    request = gather(options, console)
    pipeline = _load(options, console)
    turn = Turn(pipeline, sampling, options, console, output)
    if request.content is not None:
        turn.run([*request.opening(), {"role": "user", "content": request.content}])
    else:
        from mtmd_cli.chat import Chat

        signal.signal(signal.SIGINT, signal.default_int_handler)
        Chat(request, turn, console).run()
    if options.prompt_cache and not options.prompt_cache_ro:
        pipeline.save_session(options.prompt_cache)


def _load(options: Options, console: Console) -> Pipeline:
    from mtmd_flags.load import kernels_are_cold, load

    console.clear()
    if kernels_are_cold():
        console.note("compiling kernels (once, it takes less than a minute)")
    console.progress("loading the model")
    pipeline = load(options, progress=not options.quiet)
    if options.prompt_cache and os.path.exists(options.prompt_cache):
        pipeline.load_session(options.prompt_cache)
    return pipeline


def _leave(*_: object) -> NoReturn:
    """Ctrl-C while one question is answered: nothing is worth saving, so go at once and without a word."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\n")
    os._exit(INTERRUPTED)


def _speak_utf8() -> None:
    """Text is UTF-8 whatever the locale says; bytes of file names that are not come out as they went in."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
