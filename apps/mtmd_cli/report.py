"""What an answer took: as lines for a person, as one JSON object for a program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from llm.sampling import Logprob
from mtmd.answer import Answer
from mtmd.prompt import Receipt
from mtmd_cli.args import Options


def warnings(answer: Answer, options: Options) -> list[str]:
    """What the reader of the answer should know."""
    found = [f"{receipt.source}: {note}" for receipt in answer.media for note in receipt.notes]
    n = answer.usage.completion_tokens
    if answer.finish == "length" and n != options.n_predict:
        found.append(f"the context is full after {n} tokens, the answer may be cut; -c gives more room")
    if answer.finish == "loop":
        n = options.loop_guard
        found.append(f"the answer went in circles for {n} tokens and was ended; --loop-guard 0 lets it go on")
    return found


def receipt_line(r: Receipt) -> str:
    """photo.jpg: 4032 x 3024 -> 1536 x 2048, 13 tiles, 832 tokens, 3.10 s"""
    sizes = f"{_size(r.original)} -> {_size(r.processed)}"
    seconds = "from the cache" if r.cached else f"{r.seconds:.2f} s"
    return f"{r.source}: {sizes}, {r.n_tile} tile{'s' * (r.n_tile != 1)}, {r.n_tok} tokens, {seconds}"


def timing_lines(answer: Answer) -> Iterator[str]:
    """llama.cpp's four: load, encode, prefill and decode."""
    t, usage = answer.timings, answer.usage
    yield f"load    {1000 * t.load:9.1f} ms"
    if answer.media:
        n_tile = sum(r.n_tile for r in answer.media if not r.cached)
        yield f"encode  {1000 * t.encode:9.1f} ms {n_tile:6d} tile{'s' * (n_tile != 1)}"
    yield f"prefill {1000 * t.prefill:9.1f} ms {_rate(usage.prompt_tokens - usage.cached, t.prefill)}"
    yield f"decode  {1000 * t.decode:9.1f} ms {_rate(usage.completion_tokens, t.decode)}"


def as_json(answer: Answer, options: Options, warnings: Sequence[str]) -> dict[str, Any]:
    """The object that --json prints."""
    shown: dict[str, Any] = {
        "text": answer.text,
        "finish": answer.finish,
        "model": os.path.basename(options.model or options.hf_repo or "embedded"),
        "media": [
            {
                "path": r.source,
                "kind": r.kind,
                "original": r.original,
                "processed": r.processed,
                "tiles": r.n_tile,
                "tokens": r.n_tok,
                "cached": r.cached,
                "seconds": round(r.seconds, 4),
            }
            for r in answer.media
        ],
        "usage": asdict(answer.usage),
        "timings": {name: round(value, 4) for name, value in asdict(answer.timings).items()},
        "warnings": list(warnings),
    }
    if answer.reasoning:
        shown["reasoning"] = answer.reasoning
    if options.logprobs >= 0:
        shown["logprobs"] = [_logprob(entry) for entry in answer.logprobs]
    return shown


def _logprob(entry: Logprob) -> dict[str, Any]:
    """OpenAI's fields; a token may be part of a character, so the text comes with its bytes."""
    token = {
        "id": entry.tok,
        "token": entry.piece.decode("utf-8", "replace"),
        "bytes": list(entry.piece),
        "logprob": round(entry.logprob, 5),
    }
    return token | {"top_logprobs": [_logprob(e) for e in entry.top]} if entry.top else token


def _rate(n: int, seconds: float) -> str:
    return f"{n:6d} tokens" + (f" {n / seconds:9.2f} t/s" if seconds > 0 else "")


def _size(size: tuple[int, int] | float) -> str:
    return f"{size[0]} x {size[1]}" if isinstance(size, tuple) else f"{size:.2f} s"
