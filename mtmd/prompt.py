"""From chat messages to the spans that the decoder takes: token ids, and rows encoded on demand."""

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from llm import span
from llm.chat import MediaSlot
from llm.errors import MediaError, NonFiniteError, UsageError
from llm.kernels.operands import F32
from llm.span import Span
from llm.tokenizer import Tokenizer
from mtmd.media import Audio, Image, Kind, load_media, load_url
from mtmd.projector import Projector, Tile

Message = Mapping[str, Any]
Media = Image | Audio


@dataclass(frozen=True)
class Receipt:
    """What became of one medium. Sizes are (width, height) of a picture or seconds of a recording."""

    kind: Kind
    source: str
    original: tuple[int, int] | float
    processed: tuple[int, int] | float
    n_tile: int
    n_tok: int
    cached: bool  # its rows were there already, from an earlier prompt
    seconds: float  # spent on encoding
    notes: tuple[str, ...]


class RowCache:
    """Rows of encoded tiles, at most `max_bytes` of them; those not asked for the longest go first."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self.max_bytes, self.n_bytes = max_bytes, 0
        self._rows: OrderedDict[bytes, F32] = OrderedDict()

    def get(self, key: bytes) -> F32 | None:
        if key in self._rows:
            self._rows.move_to_end(key)
        return self._rows.get(key)

    def put(self, key: bytes, rows: F32) -> None:
        """Keep `rows` unless they alone exceed the limit."""
        if rows.nbytes > self.max_bytes or key in self._rows:
            return
        while self.n_bytes + rows.nbytes > self.max_bytes:
            self.n_bytes -= self._rows.popitem(last=False)[1].nbytes
        self._rows[key] = rows
        self.n_bytes += rows.nbytes


class Medium:
    """A picture or recording of a prompt: cut into tiles at once, encoded when its rows are wanted."""

    def __init__(self, media: Media, projector: Projector[Any], cache: RowCache) -> None:
        self.media, self.projector, self._cache = media, projector, cache
        self.tiles: list[Tile] = projector.preprocess(media)
        self._seconds = 0.0

    def spans(self, tokenizer: Tokenizer) -> Iterator[Span]:
        """The layout's texts, each tokenised by itself, and the tiles."""
        for part in self.projector.layout(self.tiles):
            if isinstance(part, str):
                yield span.tokens(tokenizer.encode(part, parse_special=True))
            else:
                yield span.media(
                    part.n_tok,
                    partial(self.rows, part),
                    part.key,
                    causal=self.projector.causal,
                    pos=self.projector.positions(part),
                )

    def rows(self, tile: Tile) -> F32:
        """Rows of one tile [n_tok, n_embd], kept for the next time. Raises NonFiniteError."""
        rows = self._cache.get(tile.key)
        if rows is None:
            start = time.perf_counter()
            rows = self.projector.encode(tile)
            self._seconds += time.perf_counter() - start
            assert rows.shape == (tile.n_tok, self.projector.n_embd), (rows.shape, tile.n_tok)
            if not np.isfinite(rows).all():
                where = f"tile {tile.row},{tile.col}" if tile.row else "it"
                raise NonFiniteError(
                    f"{self.media.source}: {where} encodes to NaN or infinity: broken mmproj?"
                )
            self._cache.put(tile.key, rows)
        return rows

    def receipt(self) -> Receipt:
        media = self.media
        size = media.original if isinstance(media, Image) else media.seconds
        return Receipt(
            self.projector.kind,
            media.source,
            size,
            _processed_size(self.tiles) if isinstance(media, Image) else size,
            len(self.tiles),
            sum(t.n_tok for t in self.tiles),
            self._seconds == 0,
            self._seconds,
            media.notes,
        )


@dataclass(frozen=True)
class Prompt:
    """The spans in order, adjacent texts joined, and the media among them."""

    spans: list[Span]
    media: list[Medium]

    @property
    def n_tok(self) -> int:
        return sum(s.n_tok for s in self.spans)


def build(
    pieces: Sequence[list[int] | MediaSlot],
    media: Sequence[Media],
    projectors: Mapping[Kind, Projector[Any]],
    tokenizer: Tokenizer,
    cache: RowCache,
) -> Prompt:
    """The prompt of a rendered chat, whose slots stand for `media`.

    Raises MediaError for a kind of media that the model has no projector for.
    """
    entered = [Medium(m, _projector_for(m, projectors), cache) for m in media]
    spans: list[Span] = []
    for piece in pieces:
        if isinstance(piece, MediaSlot):
            spans += entered[piece.index].spans(tokenizer)
        else:
            spans.append(span.tokens(piece))
    return Prompt(_joined(spans), entered)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Texts that are neighbours as one span, empty ones left out."""
    joined: list[Span] = []
    for is_text, run in groupby(spans, key=lambda s: s.ids is not None):
        if not is_text:
            joined += run
        elif ids := [tok for s in run if s.ids is not None for tok in s.ids.tolist()]:
            joined.append(span.tokens(ids))
    return joined


def take_media(messages: Sequence[Message]) -> tuple[list[Message], list[Media]]:
    """Messages with every medium replaced by {"type": "media"}, and the media in document order.

    Raises UsageError for a part that is no text and no medium, MediaError for one that cannot be read.
    """
    media: list[Media] = []
    texts: list[Message] = []
    for message in messages:
        content = message.get("content")
        if content is None or isinstance(content, str):
            texts.append(message)
            continue
        parts: list[dict[str, Any]] = []
        for part in content:
            medium = _load_part(part)
            if medium is None:
                parts.append(dict(part))
            else:
                parts.append({"type": "media"})
                media.append(medium)
        texts.append({**message, "content": parts})
    return texts, media


def _load_part(part: Message) -> Media | None:
    """The medium in a part of a message; None for text."""
    match part:
        case {"type": "text", "text": str()}:
            return None
        case {"type": "image", "image": source}:
            return load_media(source, "image")
        case {"type": "audio", "audio": source}:
            return load_media(source, "audio")
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return load_url(url, "image")
        case {"type": "input_audio", "input_audio": {"data": str(data)}}:
            return load_url(data, "audio")
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise UsageError(
        f"a message part of type {kind!r} with {_fields(part)} cannot be used: expected text, image, audio, "
        "image_url or input_audio with the field of that name"
    )


def _fields(part: object) -> str:
    return ", ".join(map(str, part)) if isinstance(part, Mapping) else "no fields"


def _projector_for(media: Media, projectors: Mapping[Kind, Projector[Any]]) -> Projector[Any]:
    kind: Kind = "image" if isinstance(media, Image) else "audio"
    if kind not in projectors:
        remedy = f"its mmproj takes only {', '.join(projectors)}" if projectors else "start it with --mmproj"
        raise MediaError(f"{media.source}: this model has no {kind} input; {remedy}")
    return projectors[kind]


def _processed_size(tiles: Sequence[Tile]) -> tuple[int, int]:
    """(width, height) of the picture that the tiles show, an overview aside."""
    h, w = tiles[0].x.shape[-2:]
    return w * max(1, *(t.col for t in tiles)), h * max(1, *(t.row for t in tiles))
