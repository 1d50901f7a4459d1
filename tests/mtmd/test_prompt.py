"""From messages to spans: order, joining, laziness, the cache of rows, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from llm.chat import MediaSlot
from llm.errors import MediaError, NonFiniteError, UsageError
from llm.kernels.operands import F32
from llm.tokenizer import Tokenizer
from mtmd.media import Audio, Image
from mtmd.projector import Projector, Tile
from mtmd.prompt import Prompt, RowCache, build, take_media
from tests.mmproj import idefics3


class MeanColour(Projector[Image]):
    """A row for each 8 pixels of width, all of the picture's mean; counts how often it encodes."""

    kind = "image"
    begin, end = "<global-img>", "\n"

    def __init__(self) -> None:
        self.n_embd, self.n_encoded = 4, 0

    def preprocess(self, media: Image) -> list[Tile]:
        return [Tile(media.pixels.astype(np.float32).transpose(2, 0, 1), media.original[0] // 8)]

    def encode(self, tile: Tile) -> F32:
        self.n_encoded += 1
        return np.full((tile.n_tok, 4), tile.x.mean(), np.float32)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_gguf(idefics3.text(tmp_path_factory.mktemp("text") / "text.gguf"))


def grey(level: int, width: int = 64) -> Image:
    return Image(np.full((64, width, 3), level, np.uint8), f"grey {level}")


def prompt(tokenizer: Tokenizer, *pieces: list[int] | Image, cache: RowCache | None = None) -> Prompt:
    media = [p for p in pieces if isinstance(p, Image)]
    index = iter(range(len(media)))
    slots = [MediaSlot(next(index)) if isinstance(p, Image) else p for p in pieces]
    return build(slots, media, {"image": MeanColour()}, tokenizer, cache or RowCache())


def rows_of(built: Prompt) -> list[F32]:
    return [s.rows() for s in built.spans if s.rows]


def test_texts_are_joined_and_layout_is_tokenised_by_itself(tokenizer: Tokenizer) -> None:
    built = prompt(tokenizer, [5, 6], grey(0), [10, 7], [8])
    begin = tokenizer.token_id("<global-img>")
    assert [s.ids.tolist() if s.ids is not None else -s.n_tok for s in built.spans] == [
        [5, 6, begin],
        -8,
        [10, 10, 7, 8],  # the layout's newline and the text's stay two, although both are one token
    ]
    assert built.n_tok == 15


def test_order_is_that_of_the_parts_b059(tokenizer: Tokenizer) -> None:
    widths = [40, 8, 64, 16, 24]
    built = prompt(tokenizer, *(grey(w, w) for w in widths))
    assert [s.n_tok for s in built.spans if s.rows] == [w // 8 for w in widths]
    assert [float(r[0, 0]) for r in rows_of(built)] == widths


def test_equal_pictures_side_by_side_stay_two_b057_b058(tokenizer: Tokenizer) -> None:
    for levels in ([9, 200], [9, 9]):
        rows = rows_of(prompt(tokenizer, *(grey(level) for level in levels)))
        assert [float(r[0, 0]) for r in rows] == levels
        assert [r.shape for r in rows] == [(8, 4)] * 2


def test_answers_follow_the_picture_at_hand_b063(tokenizer: Tokenizer) -> None:
    cache = RowCache()
    for level in (1, 2, 3, 4):
        assert float(rows_of(prompt(tokenizer, [1], grey(level), cache=cache))[0][0, 0]) == level


def test_rows_are_encoded_when_wanted_and_once_b065(tokenizer: Tokenizer) -> None:
    cache, projector = RowCache(), MeanColour()

    def ask() -> Prompt:
        return build([[1], MediaSlot(0)], [grey(7)], {"image": projector}, tokenizer, cache)

    first = ask()
    assert projector.n_encoded == 0 and first.n_tok == 1 + 1 + 8 + 1  # counted before anything is encoded
    rows_of(first)
    again = ask()
    rows_of(again)
    assert projector.n_encoded == 1
    assert [p.media[0].receipt().cached for p in (first, again)] == [False, True]


def test_tiles_alike_are_encoded_once(tokenizer: Tokenizer) -> None:
    projector = MeanColour()
    media = [grey(7), grey(8), Image(grey(7).pixels, "a copy")]
    built = build([MediaSlot(i) for i in range(3)], media, {"image": projector}, tokenizer, RowCache())
    assert [float(r[0, 0]) for r in rows_of(built)] == [7, 8, 7]
    assert projector.n_encoded == 2


def test_cache_stays_within_its_limit_b067() -> None:
    cache, rows = RowCache(max_bytes=1000), np.zeros((5, 10), np.float32)
    for i in range(300):
        cache.put(i.to_bytes(2, "big"), rows)
        assert cache.n_bytes <= 1000
        assert cache.get(b"\0\0") is not None  # asked for again and again, so it stays
    kept = [i for i in range(300) if cache.get(i.to_bytes(2, "big")) is not None]
    assert kept == [0, 296, 297, 298, 299]
    cache.put(b"large", np.zeros(251, np.float32))
    assert cache.get(b"large") is None and cache.n_bytes == 1000


def test_receipt_tells_the_sizes_b054(tokenizer: Tokenizer) -> None:
    built = prompt(tokenizer, grey(0, 80))
    receipt = built.media[0].receipt()
    assert (receipt.kind, receipt.source, receipt.original) == ("image", "grey 0", (80, 64))
    assert (receipt.processed, receipt.n_tile, receipt.n_tok) == ((80, 64), 1, 10)


def test_rows_that_are_not_finite_are_an_error_b082(tokenizer: Tokenizer) -> None:
    class Broken(MeanColour):
        def encode(self, tile: Tile) -> F32:
            return np.full((tile.n_tok, 4), np.nan, np.float32)

    cache = RowCache()
    built = build([MediaSlot(0)], [grey(0)], {"image": Broken()}, tokenizer, cache)
    with pytest.raises(NonFiniteError, match="grey 0: it encodes to NaN or infinity"):
        rows_of(built)
    assert cache.n_bytes == 0


@pytest.mark.parametrize("kinds, remedy", [((), "start it with --mmproj"), (("audio",), "takes only audio")])
def test_kind_without_projector_is_refused_b121(
    kinds: tuple[str, ...], remedy: str, tokenizer: Tokenizer
) -> None:
    projectors: Any = {kind: MeanColour() for kind in kinds}
    with pytest.raises(MediaError, match=f"grey 0: this model has no image input; .*{remedy}"):
        build([MediaSlot(0)], [grey(0)], projectors, tokenizer, RowCache())


def test_parts_of_every_kind_are_read_in_order(tmp_path: Path) -> None:
    pixels = np.full((2, 3, 3), 9, np.uint8)
    Pil.fromarray(pixels).save(tmp_path / "a.png")
    uri = (
        "data:image/png;base64," + __import__("base64").b64encode((tmp_path / "a.png").read_bytes()).decode()
    )
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "image": tmp_path / "a.png"},
        {"type": "image_url", "image_url": {"url": uri}},
        {"type": "audio", "audio": (np.zeros(160, np.float32), 16000)},
        {"type": "image", "image": Pil.fromarray(pixels)},
    ]
    texts, media = take_media([{"role": "system", "content": "be brief"}, {"role": "user", "content": parts}])
    assert [m["role"] for m in texts] == ["system", "user"]
    assert [p["type"] for p in texts[1]["content"]] == ["text", "media", "media", "media", "media"]
    assert [type(m) for m in media] == [Image, Image, Audio, Image]
    assert len({m.key for m in media}) == 2  # the three pictures are the same


@pytest.mark.parametrize(
    "part, message",
    [
        ({"type": "video", "video": "a.mp4"}, "type 'video' with type, video"),
        ({"type": "image"}, "type 'image' with type cannot"),
        ({"type": "text", "text": 3}, "type 'text'"),
        ("just a string", "type 'str'"),
    ],
)
def test_part_that_cannot_be_used_is_refused(part: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        take_media([{"role": "user", "content": [part]}])


def test_url_never_opens_a_file(tmp_path: Path) -> None:
    Pil.new("RGB", (2, 2)).save(tmp_path / "a.png")
    part = {"type": "image_url", "image_url": {"url": str(tmp_path / "a.png")}}
    with pytest.raises(MediaError):
        take_media([{"role": "user", "content": [part]}])
