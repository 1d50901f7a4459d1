"""What a medium may be handed over as, and what is said of things that are none."""

import base64
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from llm.errors import MediaError
from mtmd.media import Audio, Image, Limits, load_audio, load_image, load_media, load_url
from mtmd.sniff import sniff
from tests.pictures import RED, encode, random_rgb

PNG = encode(Pil.new("RGB", (3, 2), RED), "PNG")
B64 = base64.b64encode(PNG).decode()
TONE = (np.sin(np.arange(1600) * 0.2).astype(np.float32) * 0.5, 16000)


# Paths


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_that_are_not_ascii(tmp_path: Path, form: str) -> None:
    (tmp_path / unicodedata.normalize(form, "Sümpfe – 写真 🙂 é.png")).write_bytes(PNG)
    for asked in ("NFC", "NFD"):
        path = str(tmp_path / unicodedata.normalize(asked, "Sümpfe – 写真 🙂 é.png"))
        assert load_image(path).original == load_image(Path(path)).original == (3, 2)
        assert load_image(path).source == path


def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png")
    Path(path).write_bytes(PNG)
    assert "caf" in load_image(path).source.encode().decode()  # fit for a terminal


@pytest.mark.parametrize("as_type", [str, Path])
def test_paths_that_cannot_be_read_b013(tmp_path: Path, as_type: type) -> None:
    with pytest.raises(MediaError, match=r"missing\.png: no such file"):
        load_media(as_type(tmp_path / "missing.png"))
    with pytest.raises(MediaError, match="is a folder"):
        load_media(as_type(tmp_path))
    (tmp_path / "empty.png").touch()
    with pytest.raises(MediaError, match=r"empty\.png: is empty"):
        load_media(as_type(tmp_path / "empty.png"))
    (tmp_path / "notes.png").write_text("Dear all,\nplease find enclosed\n")
    with pytest.raises(MediaError, match=r"notes\.png: this is a text file"):
        load_media(as_type(tmp_path / "notes.png"))
    (tmp_path / "noise.png").write_bytes(bytes(range(1, 200)))
    with pytest.raises(MediaError, match=r"noise\.png: neither a picture nor a recording.*01 02 03"):
        load_media(as_type(tmp_path / "noise.png"))


@pytest.mark.parametrize("path", ["", "a\0b.png", "x" * 5000, "missing\n.png", "notes", "\udcff.png"])
def test_odd_paths_are_plain_errors(path: str) -> None:
    with pytest.raises(MediaError) as caught:
        load_media(path)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


def test_empty_path() -> None:
    with pytest.raises(MediaError, match=r"path .* is empty"):
        load_media("")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.png"
    path.write_bytes(PNG)
    path.chmod(0)
    with pytest.raises(MediaError, match="Permission denied"):
        load_media(path)


def test_endless_file_is_cut_off() -> None:
    with pytest.raises(MediaError, match="larger than the limit of 1,000 bytes"):
        load_media("/dev/zero", limits=Limits(max_bytes=1000))


def test_extension_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "picture.wav").write_bytes(PNG)
    assert isinstance(load_media(tmp_path / "picture.wav"), Image)
    with pytest.raises(MediaError, match=r"picture\.wav: is a picture, a recording was expected"):
        load_audio(tmp_path / "picture.wav")


# Data URIs and base64


@pytest.mark.parametrize("head", ["data:image/png;base64,", "DATA:IMAGE/PNG;BASE64,", "data:;base64,"])
def test_scheme_and_marker_in_any_case_b025(head: str) -> None:
    for load in (load_image, load_url):
        assert load(head + B64).original == (3, 2)


@pytest.mark.parametrize(
    "label", ["image/jpeg", "image/jpg", "application/octet-stream", "audio/x-wav", "", "nonsense"]
)
def test_label_is_a_hint_only_b026_b135(label: str) -> None:
    assert load_image(f"data:{label};base64,{B64}").original == (3, 2)
    assert load_url(f"data:{label};charset=utf-8;base64,{B64}").original == (3, 2)


def test_mislabelled_pdf_says_so_b026() -> None:
    with pytest.raises(MediaError, match="this is a PDF"):
        load_url("data:image/png;base64," + base64.b64encode(b"%PDF-1.7\n").decode())


def test_spellings_of_base64_b027() -> None:
    data = encode(Pil.fromarray(random_rgb(16, 16)), "PNG")
    standard = base64.b64encode(data).decode()
    assert "+" in standard and "/" in standard
    lines = "\r\n".join(standard[i : i + 76] for i in range(0, len(standard), 76)) + "\n"
    urlsafe = base64.urlsafe_b64encode(data).decode()
    for text in (
        standard,
        lines,
        urlsafe,
        urlsafe.rstrip("="),
        standard.rstrip("="),
        standard.replace("+", "%2B"),
    ):
        for prefix in ("data:image/png;base64,", " data:image/png;base64, ", ""):
            assert load_url(prefix + text).key == load_image(data).key
    assert load_media(standard).key == load_image(data).key  # no file has this name


def test_bare_base64_jpeg_is_no_path_b027() -> None:
    text = base64.b64encode(encode(Pil.new("RGB", (16, 16), RED), "JPEG")).decode()
    assert text.startswith("/9j/")
    assert load_media(text).source == "base64"
    assert load_url(text).original == (16, 16)


def test_percent_encoded_data_uri() -> None:
    assert load_url("data:image/png," + "".join(f"%{b:02x}" for b in PNG)).original == (3, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@@@", "taken for base64, has '@' at position 0"),
        ("", "holds no data"),
        ("data:image/png;base64,", "the data URI holds no data"),
        ("data:image/png,", "the data URI holds no data"),
        ("data:image/png;base64", "no comma"),
        ("data:image/png;base64,AAAA*AAA", r"the data URI has '\*' at position 4"),
        ("data:image/png;base64,AAAAÄ", "the data URI has 'Ä' at position 4"),
        ("data:image/png;base64,AAAAA", "is cut: 5 base64 digits"),
        ("https://example.org/x.png", "addresses are not fetched"),
        ("HTTP://example.org/x.png", "addresses are not fetched"),
        ("file:///etc/passwd", "file: addresses are not opened"),
        ("C:\\x.jpg", "addresses are not opened"),
        ("../../x.png", r"has '\.' at position 0"),
        ("/etc/passwd", "neither a picture|is cut|not base64"),
        (base64.b64encode(bytes([255] * 48)).decode(), "neither a picture nor a recording"),
    ],
)
def test_what_a_stranger_sent_is_told_apart_b027_b031(text: str, words: str) -> None:
    with pytest.raises(MediaError, match=words):
        load_url(text)


def test_address_as_a_path() -> None:
    with pytest.raises(MediaError, match="not fetched here"):
        load_media("https://example.org/x.png")


def test_raw_pixels_in_base64_b027() -> None:
    with pytest.raises(MediaError, match="neither a picture nor a recording"):
        load_url("data:image/png;base64," + base64.b64encode(random_rgb(8, 8).tobytes()).decode())


# Other objects


@pytest.mark.parametrize("as_type", [bytes, bytearray, memoryview])
def test_bytes(as_type: type) -> None:
    assert load_media(as_type(PNG)).original == (3, 2)


def test_loaded_media_pass_through() -> None:
    image, audio = load_image(PNG), load_audio(TONE)
    assert load_media(image) is image and load_audio(audio) is audio
    with pytest.raises(MediaError, match="a picture was expected"):
        load_image(audio)


def test_arrays_and_pairs() -> None:
    assert isinstance(load_media(random_rgb(4, 4)), Image)
    assert isinstance(load_media(TONE), Audio)
    assert load_audio(TONE[::-1]).key == load_audio(TONE).key  # (rate, samples)
    with pytest.raises(MediaError, match=r"\(samples, rate\)"):
        load_media(TONE[0])
    with pytest.raises(MediaError, match=r"found \(str, int\)"):
        load_media(("a", 1))
    with pytest.raises(MediaError, match="dict is no medium"):
        load_media({})


def test_one_picture_by_every_way_is_the_same(tmp_path: Path) -> None:
    pixels = random_rgb(5, 7)
    data = encode(Pil.fromarray(pixels), "PNG")
    (tmp_path / "x").write_bytes(data)
    ways = [str(tmp_path / "x"), tmp_path / "x", data, "data:;base64," + base64.b64encode(data).decode()]
    assert {load_image(w).key for w in [*ways, Pil.fromarray(pixels), pixels]} == {load_image(data).key}


# Sniffing


@pytest.mark.parametrize(
    ("head", "kind", "name"),
    [
        (b"RIFF\x24\0\0\0WEBP", "image", "WEBP"),
        (b"RIFF\x24\0\0\0WAVE", "audio", "WAV"),
        (b"RIFF\x24\0\0\0AVI ", "video", "AVI"),
        (b"RIFF", "other", None),
        (b"RIFF\x24\0\0\0", "other", None),
        (b"OggS\0\x02" + bytes(22) + b"OpusHead", "audio", "OGG"),
        (b"fLaC\0\0\0\x22", "audio", "FLAC"),
        (b"ID3\4\0\0\0\0\0\0", "audio", "MP3"),
        (b"\0\0\0\x20ftypM4A \0\0\0\0", "audio", "M4A"),
        (b"\0\0\0\x20ftypisom\0\0\2\0", "video", "MP4"),
        (b"\0\0\0\x14ftypqt  \0\0\0\0", "video", "MP4"),
        (b"\x1a\x45\xdf\xa3\x01\0\0\0", "video", "WebM"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "image", "HEIC"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "image", "AVIF"),
        (b"\0\0\1\0\1\0", "image", "ICO"),
        (b"%PDF-1.4", "other", "PDF"),
        (b"<svg xmlns=", "other", "SVG drawing"),
        (b"<!DOCTYPE html><html>", "other", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "other", "Git LFS pointer"),
        (b"BMW builds cars and motorcycles", "other", "text file"),
        ("Größe und Maß, 写真".encode()[:-1], "other", "text file"),
        (b"\xff\xf1\x50\x80", "audio", "AAC"),
        (b"", "other", "unknown"),
        (bytes(64), "other", "unknown"),
    ],
)
def test_sniff_b010_b134(head: bytes, kind: str, name: str | None) -> None:
    found = sniff(head)
    assert found.kind == kind and (name is None or found.name == name)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC.*heif-convert"),
        (b"\0\0\0\x20ftypM4A \0\0\0\0", "M4A.*ffmpeg"),
        (b"\x1a\x45\xdf\xa3\x01\0\0\0", "WebM.*ffmpeg"),
        (b"\0\0\0\x20ftypisom\0\0\2\0", "MP4.*ffmpeg"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"%PDF-1.4", "PDF.*pdftoppm"),
        (b"GGUF\3\0\0\0", "GGUF model.*--mmproj"),
    ],
)
def test_what_is_known_but_not_read_says_what_to_do_b134(head: bytes, words: str) -> None:
    with pytest.raises(MediaError, match=words):
        load_media(head)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("", ["PIL", "soundfile", "scipy"]),
        ("m.load_image(np.zeros((2, 2, 3), np.uint8))", ["soundfile", "scipy"]),
        ("m.load_audio((np.zeros(9, np.float32), 16000), 16000)", ["PIL", "soundfile", "scipy"]),
    ],
    ids=["text", "picture", "sound at the right rate"],
)
def test_nothing_is_imported_that_is_not_needed(code: str, absent: list[str]) -> None:
    program = f"import sys, numpy as np, mtmd.media as m, mtmd.image, mtmd.audio\n{code}\n"
    program += f"print([name for name in {absent} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
