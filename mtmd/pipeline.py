"""The front door: a text model and its projectors, asked with messages that hold pictures and recordings."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

import llm
from llm import kernels
from llm.cache import KvType
from llm.chat import ChatTemplate, MediaSlot
from llm.chat.reasoning import ReasoningSplitter, opened
from llm.errors import ModelError, UsageError
from llm.generate import TextStream, generate
from llm.gguf import GGUF
from llm.kernels.operands import F32, I32, Precision
from llm.model import Model
from llm.sampling import Sampler, Sampling
from llm.session import fingerprint
from llm.span import Span
from mtmd import projector, prompt
from mtmd.answer import Answer, Timings, Usage
from mtmd.media import Kind, Source, load_media
from mtmd.projector import Compat, Projector
from mtmd.prompt import Media, Message, Prompt, RowCache

PathLike = str | os.PathLike[str]
Progress = Callable[[Literal["encode", "prefill"], int, int], None]  # tiles or tokens: done, to do
Reasoning = Literal["none", "deepseek", "auto"]
DEFAULT, GREEDY = Sampling(), Sampling(temperature=0.0)


@dataclass(frozen=True)
class SpanView:
    """One span of a prompt: token ids of text, or the rows of a medium; positions [n_axis, n_tok]."""

    kind: Literal["text", "image", "audio"]
    ids: I32 | None
    rows: F32 | None
    positions: I32


class Pipeline:
    """A loaded model. `kinds` are the media it takes; one answer at a time."""

    def __init__(
        self,
        model: Model,
        projectors: Mapping[Kind, Projector[Any]],
        template: ChatTemplate,
        load_seconds: float = 0.0,
        mmproj: GGUF | None = None,
    ) -> None:
        self.model, self.projectors, self.template = model, projectors, template
        self.kinds = tuple(projectors)
        self._load_seconds, self._mmproj = load_seconds, mmproj
        self._rows = RowCache()
        self._answer: Answer | None = None

    def chat(
        self,
        messages: Sequence[Message],
        stream: bool = True,
        n_predict: int = -1,
        sampling: Sampling = DEFAULT,
        stop: Sequence[str] = (),
        loop_guard: int = 0,
        progress: Progress | None = None,
        reasoning: Reasoning = "none",
        variables: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Answer OpenAI-style messages. With `stream` the text comes while iterating, else it is complete.

        The content of a message is a string or a list of parts:
            {"type": "text", "text": ...}
            {"type": "image", "image": path, bytes, data URI, PIL image or array}
            {"type": "audio", "audio": path, bytes, data URI or (samples, rate)}
            {"type": "image_url", "image_url": {"url": data URI}}
            {"type": "input_audio", "input_audio": {"data": base64}}
        With `loop_guard` an answer ends that repeats a span of up to 64 tokens for so many tokens on end.
        With `reasoning` "deepseek" or "auto" the model's thoughts go to the answer's `reasoning`, with "none"
        they stay in the text. `variables` are the template's own (tools, enable_thinking).

        The prompt is read before this returns; a new question ends an answer that is still streaming. Raises
        UsageError, MediaError, TemplateError, ContextError, NonFiniteError; iterating raises UsageError when
        a grammar cannot be followed any longer.
        """
        if reasoning not in get_args(Reasoning):
            raise UsageError(f"reasoning is {reasoning!r}, expected one of {', '.join(get_args(Reasoning))}")
        texts, media = prompt.take_media(messages)
        pieces = self.template.encode(texts, variables=variables)
        splitter = None if reasoning == "none" else self._splitter(pieces)
        said = self._said(texts) if sampling.looks_back else []
        answer = self._begin(
            self._prompt(pieces, media), said, splitter, n_predict, sampling, stop, loop_guard, progress
        )
        if not stream:
            for _ in answer:
                pass
        return answer

    def complete(
        self,
        parts: Sequence[str | list[int] | Message],
        n_predict: int = -1,
        sampling: Sampling = DEFAULT,
        stop: Sequence[str] = (),
        loop_guard: int = 0,
        progress: Progress | None = None,
    ) -> Answer:
        """Go on after `parts`: texts whose control tokens are recognised, token ids, and media as in `chat`.

        There is no chat template; the vocabulary's first token is put in front if it wants one. Everything
        else is as in `chat`.
        """
        pieces, media = self._raw(parts)
        built = self._prompt(pieces, media)
        return self._begin(built, [], None, n_predict, sampling, stop, loop_guard, progress)

    def count(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> int:
        """Tokens that the prompt of `chat` has; media are cut into tiles for it, not encoded."""
        texts, media = prompt.take_media(messages)
        return self._prompt(self.template.encode(texts, variables=variables), media).n_tok

    def _begin(
        self,
        built: Prompt,
        said: Sequence[int],
        splitter: ReasoningSplitter | None,
        n_predict: int,
        sampling: Sampling,
        stop: Sequence[str],
        loop_guard: int,
        progress: Progress | None,
    ) -> Answer:
        """Read the prompt; the answer is still to come."""
        if loop_guard < 0:
            raise UsageError(f"loop_guard is {loop_guard}, expected a number of tokens or 0 for none")
        if n_predict < -1:
            raise UsageError(f"n_predict is {n_predict}, expected a number of tokens or -1 for no limit")
        sampler = Sampler(sampling, self.model.tokenizer)
        if self._answer:
            self._answer.close()
        context = self.model.context
        n_cached = context.reusable(built.spans)
        start = time.perf_counter()
        logits = self._prefill(built, progress)
        seconds = time.perf_counter() - start
        ids = generate(context, logits, sampler, said, n_predict)
        receipts = [m.receipt() for m in built.media]
        encode = sum(r.seconds for r in receipts)
        self._answer = Answer(
            TextStream(ids, self.model.tokenizer, stop, loop_guard),
            receipts,
            Usage(built.n_tok, 0, n_cached),
            Timings(self._load_seconds, encode, seconds - encode, 0.0),
            sampler.logprobs,
            splitter,
        )
        return self._answer

    def save_session(self, path: PathLike) -> None:
        """Keep in a file what the context holds of questions, media and answers. Raises SessionError."""
        self.model.context.save(path, self._fingerprint())

    def load_session(self, path: PathLike) -> None:
        """Go on from a file: prompts that begin as it does need no reading again, nor their media encoding.

        Raises SessionError: it is damaged, does not fit the context, or belongs to another model or mmproj.
        """
        if self._answer:
            self._answer.close()
        self.model.context.load(path, self._fingerprint())

    def _fingerprint(self) -> str:
        return fingerprint(self.model.gguf, *([self._mmproj] if self._mmproj else []))

    def describe(self, image: Source, prompt: str = "Describe this image.") -> str:
        """The model's likeliest answer to `prompt` about a picture."""
        return self._ask({"type": "image", "image": image}, prompt)

    def transcribe(self, audio: Source, prompt: str = "Transcribe the audio.") -> str:
        """The likeliest words of a recording."""
        return self._ask({"type": "audio", "audio": audio}, prompt)

    def embed(self, media: "Source | list[Source]") -> list[F32]:
        """Rows [n_tok, n_embd] of each tile or window of one medium or several, in order; always encodes."""
        sources = media if isinstance(media, list) else [media]
        entered = [load_media(source) for source in sources]
        slots = [MediaSlot(i) for i in range(len(entered))]
        built = prompt.build(slots, entered, self.projectors, self.model.tokenizer, RowCache(max_bytes=0))
        return [s.rows() for s in built.spans if s.rows]

    def spans(self, parts: str | Sequence[str | Message]) -> list[SpanView]:
        """What the decoder gets for a prompt of texts and parts, for looking inside.

        There is no chat template, and control tokens in the texts are recognised.
        """
        listed: list[str | list[int] | Message] = [parts] if isinstance(parts, str) else list(parts)
        pieces, media = self._raw(listed, add_special=False)
        return _views(self._prompt(pieces, media))

    def _raw(
        self, parts: Sequence[str | list[int] | Message], add_special: bool = True
    ) -> tuple[list[list[int] | MediaSlot], list[Media]]:
        """The pieces of a prompt that is no chat, and its media."""
        content = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
        ([message], media) = prompt.take_media([{"content": [p for p in content if not isinstance(p, list)]}])
        others, slots, tokenizer = iter(message["content"]), iter(range(len(media))), self.model.tokenizer
        pieces: list[list[int] | MediaSlot] = []
        for p in content:
            if isinstance(p, list):
                pieces.append(self.model.checked(p).tolist())
            elif (other := next(others))["type"] == "text":
                pieces.append(tokenizer.encode(other["text"], parse_special=True))
            else:
                pieces.append(MediaSlot(next(slots)))
        if add_special and tokenizer.add_bos and tokenizer.bos is not None:
            first = pieces[0] if pieces else None
            if not isinstance(first, list) or first[:1] != [tokenizer.bos]:
                pieces.insert(0, [tokenizer.bos])
        return pieces, media

    def _ask(self, part: Message, text: str) -> str:
        content = [part, {"type": "text", "text": text}]
        return self.chat([{"role": "user", "content": content}], stream=False, sampling=GREEDY).text

    def _splitter(self, pieces: Sequence[list[int] | MediaSlot]) -> ReasoningSplitter:
        end = pieces[-1] if pieces else []
        shown = "" if isinstance(end, MediaSlot) else self.model.tokenizer.decode(end[-32:], special=True)
        return ReasoningSplitter(opened(shown))

    def _said(self, texts: Sequence[Message]) -> list[int]:
        """Token ids of the model's earlier answers: what penalties look at, as in llama-mtmd-cli.

        The question is none of it: its words are those that a good answer needs.
        """
        said: list[int] = []
        for message in texts:
            if message.get("role") == "assistant":
                content = message.get("content") or ""
                parts = [{"text": content}] if isinstance(content, str) else content
                for part in parts:
                    said += self.model.tokenizer.encode_plain(part.get("text", ""))
        return said

    def _prompt(self, pieces: Sequence[list[int] | MediaSlot], media: Sequence[Media]) -> Prompt:
        return prompt.build(pieces, media, self.projectors, self.model.tokenizer, self._rows)

    def _prefill(self, built: Prompt, progress: Progress | None) -> F32:
        if not progress:
            return self.model.context.prefill(built.spans)
        return self.model.context.prefill(_watched(built.spans, progress), partial(progress, "prefill"))


def load(
    model: PathLike | None = None,
    mmproj: PathLike | None = None,
    *,
    n_ctx: int = 0,
    n_batch: int = 2048,
    n_ubatch: int = 512,
    threads: int = 0,
    kv_type: KvType = "f16",
    compat: Compat = "authors",
    precision: Precision = "auto",
    chat_template: str | None = None,
) -> Pipeline:
    """Load a text model and, to see and hear, its mmproj; without arguments the embedded sample model.

    compat         whose recipe to follow where the model's authors and llama.cpp differ: "authors" or "peer"
    chat_template  a template's text or the name of a built-in one, instead of the model's own

    The other arguments are those of llm.load. Raises UsageError, TemplateError, and ModelError for files that
    cannot be used or do not fit each other.
    """
    start = time.perf_counter()
    if compat not in get_args(Compat):
        raise UsageError(f"compat is {compat!r}, expected one of {', '.join(get_args(Compat))}")
    if model is None:
        if mmproj is not None:
            raise UsageError(
                f"mmproj {os.fspath(mmproj)} was given without the text model that it belongs to"
            )
        model, mmproj = embedded()
    text = llm.load(model, n_ctx, threads, n_batch, n_ubatch, kv_type, precision)
    projectors: dict[Kind, Projector[Any]] = {}
    file = None if mmproj is None else GGUF(mmproj)
    if file:
        projectors = projector.load(file, kernels.load(), compat, precision)
    for p in projectors.values():
        n_embd = text.arch.n_embd * text.arch.n_level
        if p.n_embd != n_embd:
            found = f"{os.fspath(mmproj or '')} gives rows of {p.n_embd}"
            expected = f"{os.fspath(model)} takes {n_embd}"
            raise ModelError(f"{found}, {expected}: an mmproj must belong to its text model")
    template = ChatTemplate.from_gguf(text.gguf, text.tokenizer, chat_template)
    return Pipeline(text, projectors, template, time.perf_counter() - start, file)


def embedded() -> tuple[Path, Path]:
    """Text model and mmproj of the sample model: inside the package, or in a checkout's samples."""
    here = Path(__file__).parent
    for folder in (here / "embedded", here.parent / "samples"):
        text, mmproj = folder / "scenes-text.gguf", folder / "scenes-mmproj.gguf"
        if text.exists() and mmproj.exists():
            return text, mmproj
    raise ModelError(f"the embedded model is not in {here / 'embedded'}: reinstall, or name a model")


def _watched(spans: Sequence[Span], progress: Progress) -> list[Span]:
    """The spans, telling `progress` of each tile when its rows are wanted."""
    n_tile = sum(s.rows is not None for s in spans)
    watched: list[Span] = []
    for s in spans:
        if s.rows:
            n_before = sum(w.rows is not None for w in watched)
            s = replace(
                s, rows=partial(_announced, s.rows, partial(progress, "encode", n_before + 1, n_tile))
            )
        watched.append(s)
    return watched


def _announced(rows: Callable[[], F32], announce: Callable[[], None]) -> F32:
    announce()
    return rows()


def _views(built: Prompt) -> list[SpanView]:
    kind_of = {tile.key: m.projector.kind for m in built.media for tile in m.tiles}
    views, start = [], 0
    for s in built.spans:
        pos = np.arange(s.n_tok, dtype=np.int32)[None] if s.pos is None else s.pos
        kind = "text" if s.rows is None else kind_of[s.key]
        views.append(SpanView(kind, s.ids, s.rows() if s.rows else None, pos + np.int32(start)))
        start += s.n_pos
    return views
