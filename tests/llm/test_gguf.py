"""The GGUF reader: what a writer of another house wrote comes back, and files that lie are refused."""

import struct
import time
from pathlib import Path

import gguf
import numpy as np
import pytest

from llm.errors import ModelError
from llm.gguf import BLOCK, GGUF, GgmlType, Tensor

MAGIC = b"GGUF"


def header(*, version: int = 3, n_tensors: int = 0, n_kv: int = 0) -> bytes:
    return MAGIC + struct.pack("<IQQ", version, n_tensors, n_kv)


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def tensor_info(name: bytes, ne: tuple[int, ...], kind: int, offset: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, kind, offset)


@pytest.fixture
def write(tmp_path: Path):
    def write(data: bytes, name: str = "m.gguf") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def test_reads_what_the_gguf_package_writes(tmp_path: Path) -> None:
    path = tmp_path / "画像 тест ü.gguf"  # B098
    w = gguf.GGUFWriter(path, "llama")
    w.add_string("a.text", "héllo")
    w.add_bool("a.flag", True)
    w.add_float32("a.float", 0.5)
    w.add_uint64("a.big", 2**60)
    w.add_array("a.ints", [1, -2, 3])
    w.add_array("a.texts", ["x", "", "ünï"])
    rng = np.random.default_rng(1)
    plain = rng.standard_normal((3, 64)).astype(np.float32)
    w.add_tensor("plain", plain)
    w.add_tensor("half", plain.astype(np.float16))
    for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_1):
        w.add_tensor(kind.name, gguf.quants.quantize(plain, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    g = GGUF(path)
    assert g.architecture == "llama"
    assert g.meta["a.text"] == "héllo" and g.meta["a.flag"] is True and g.meta["a.big"] == 2**60
    np.testing.assert_array_equal(g.meta["a.ints"], [1, -2, 3])
    assert g.meta["a.texts"] == ["x", "", "ünï"]
    assert g.tensors["plain"].shape == (3, 64)
    np.testing.assert_array_equal(g.tensors["plain"].to_f32(), plain)
    np.testing.assert_array_equal(g.tensors["half"].to_f32(), plain.astype(np.float16))
    np.testing.assert_allclose(g.tensors["Q8_0"].to_f32(), plain, atol=0.02)
    rows = g.tensors["Q4_1"].rows_f32(np.array([2, 0], np.int32))
    np.testing.assert_array_equal(rows, g.tensors["Q4_1"].to_f32()[[2, 0]])


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    for kind, size in BLOCK.items():
        # Q8_1 never stands in a file; the package gives it the size of an older layout
        if kind.name in gguf.GGMLQuantizationType.__members__ and kind != GgmlType.Q8_1:
            assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind.name]] == size, kind


def test_bf16_is_the_upper_half_of_f32() -> None:
    raw = np.array([0x3F80, 0xC000], np.uint16).view(np.uint8)
    np.testing.assert_array_equal(Tensor("t", GgmlType.BF16, (2,), raw).to_f32(), [1.0, -2.0])


def test_unknown_format_is_listed_and_only_then_refused(write) -> None:
    path = write(header(n_tensors=1) + tensor_info(b"odd", (32,), 99, 0) + bytes(64))
    t = GGUF(path).tensors["odd"]
    assert t.type == 99 and t.type_name == "type 99"
    with pytest.raises(ModelError, match=r"tensor odd has format type 99"):
        t.to_f32()


def test_version_2_is_read(write) -> None:
    path = write(header(version=2, n_kv=1) + string(b"k") + struct.pack("<IB", 0, 7))
    assert GGUF(path).meta == {"k": 7}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "0 bytes"),
        (b"GG", "2 bytes"),
        (b"\x89PNG" + bytes(60), "starts with"),
        (b"ggml" + bytes(60), "starts with"),
        (MAGIC + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (header(version=1), "version 1"),
        (header(n_kv=2**60), "1152921504606846976 metadata keys do not fit"),
        (header(n_tensors=2**60), "1152921504606846976 tensors do not fit"),
        (header(n_kv=1) + struct.pack("<Q", 2**62) + bytes(32), "characters"),
        (header(n_kv=1) + string(b"k") + struct.pack("<IIQ", 9, 8, 2**60), "strings"),
        (header(n_kv=1) + string(b"k") + struct.pack("<IIQ", 9, 4, 2**60), "array items"),
        (header(n_kv=1) + string(b"k") + struct.pack("<IIQQ", 9, 8, 1, 2**40), "longer than the file"),
        (header(n_kv=1) + string(b"k") + struct.pack("<I", 77) + bytes(16), "unknown metadata type 77"),
        (header(n_kv=1) + string(b"key")[:-1], "incomplete download"),
        (header(n_kv=2) + (string(b"k") + struct.pack("<IB", 0, 7)) * 2, "stands twice"),
        (header(n_tensors=1) + tensor_info(b"t", (8,), 0, 0), "incomplete download"),
        (header(n_tensors=1) + tensor_info(b"t", (2**40, 2**20), 0, 0) + bytes(64), "ends at byte"),
        (header(n_tensors=1) + tensor_info(b"t", (0,), 0, 0) + bytes(64), "shape (0,)"),
        (header(n_tensors=1) + tensor_info(b"t", (33,), 8, 0) + bytes(64), "no multiple of 32"),
        (header(n_tensors=1) + tensor_info(b"t", (8,), 0, 4) + bytes(64), "offset 4"),
        (header(n_tensors=1) + string(b"t") + struct.pack("<I", 9) + bytes(99), "9 dimensions"),
        (header(n_tensors=2) + tensor_info(b"t", (8,), 0, 0) * 2 + bytes(64), "same name"),
    ],
)
def test_a_file_that_lies_is_refused_in_one_line_b097(write, data: bytes, says: str) -> None:
    path = write(data)
    began = time.perf_counter()
    with pytest.raises(ModelError) as e:
        GGUF(path)
    assert says in str(e.value) and str(path) in str(e.value) and "\n" not in str(e.value)
    assert time.perf_counter() - began < 0.5  # nothing is allocated for what a header claims


def test_every_cut_of_a_real_file_is_refused(samples: Path, tmp_path: Path) -> None:
    whole = (samples / "scenes-text.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    for n in [*range(0, 4000, 97), len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:n])
        with pytest.raises(ModelError):
            GGUF(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(ModelError, match="cannot open"):
            GGUF(path)


def test_split_files(tmp_path: Path) -> None:
    names = [f"big-{i:05}-of-00002.gguf" for i in (1, 2)]
    for i, name in enumerate(names):
        w = gguf.GGUFWriter(tmp_path / name, "llama")
        w.add_uint16("split.no", i)
        w.add_uint16("split.count", 2)
        w.add_tensor(f"t{i}", np.full(8, i, np.float32))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
    g = GGUF(tmp_path / names[0])
    assert {k: t.to_f32()[0] for k, t in g.tensors.items()} == {"t0": 0, "t1": 1}
    with pytest.raises(ModelError, match="give the first part"):
        GGUF(tmp_path / names[1])
    (tmp_path / names[1]).unlink()
    with pytest.raises(ModelError, match=r"part .*00002-of-00002\.gguf of the split model is missing"):
        GGUF(tmp_path / names[0])


@pytest.mark.model
def test_a_vocabulary_of_262k_opens_in_half_a_second(models: Path) -> None:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        g = GGUF(models / "gemma-3-270m-q4_k_m.gguf")
        times.append(time.perf_counter() - began)
    assert len(g.meta["tokenizer.ggml.tokens"]) == 262144
    assert min(times) < 0.5


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what is in memory")
def test_a_tensor_gives_its_memory_back_and_can_be_read_again(tmp_path: Path) -> None:
    w = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    w.add_tensor("before", np.full(5, 1, np.float32))
    w.add_tensor("t", np.arange(1 << 20, dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    t = GGUF(tmp_path / "m.gguf").tensors["t"]

    def in_memory() -> int:
        """KiB of the file."""
        lines = Path("/proc/self/smaps").read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if line.endswith("m.gguf"))
        return int(next(line for line in lines[at:] if line.startswith("Rss:")).split()[1])

    before = t.to_f32().sum()
    assert in_memory() > 4000
    t.forget()
    assert in_memory() < 200
    assert t.to_f32().sum() == before
    half = t.part(1, 2, (1 << 19,))
    assert half.to_f32()[0] == 1 << 19
    half.forget()
    assert in_memory() < 2300
