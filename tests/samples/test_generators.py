"""The generators behind the sample model: pictures, labels, questions and clips follow from their seeds."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

SAMPLES = Path(__file__).parents[2] / "samples"
MODULES = ["words", "scenes", "labels", "prompts", "preprocess", "speech", "make_samples"]


@pytest.fixture(scope="module")
def gen():
    """The modules of samples/train, which is a folder of scripts and no package."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(SAMPLES / "train"))
    loaded = {name: __import__(name) for name in MODULES}
    yield type("Generators", (), loaded)
    sys.path.remove(str(SAMPLES / "train"))
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module


def make(gen, seed, kind=None):
    """(scene, picture as array, random generator after both)."""
    rng = np.random.default_rng(seed)
    scene = gen.scenes.make_scene(rng, kind)
    return scene, np.asarray(gen.scenes.render(scene, rng)), rng


@pytest.mark.parametrize("kind", ["shapes", "text", "both"])
def test_same_seed_same_picture(gen, kind):
    (a, pixels_a, rng_a), (b, pixels_b, rng_b) = make(gen, 11, kind), make(gen, 11, kind)
    assert a == b
    assert np.array_equal(pixels_a, pixels_b)
    assert [gen.prompts.image_qa(a, rng_a) for _ in range(20)] == [
        gen.prompts.image_qa(b, rng_b) for _ in range(20)
    ]
    assert a != make(gen, 12, kind)[0]


def test_shapes_have_their_colors(gen):
    """The pixels around a shape's centre are nearest to the colour that the scene names."""
    palette = np.array(list(gen.scenes.COLORS.values()))
    wrong = seen = 0
    for seed in range(60):
        scene, pixels, _ = make(gen, [1, seed], "shapes")
        for o in scene["objects"]:
            x, y = int(o["x"] * scene["w"]), int(o["y"] * scene["h"])
            middle = np.median(pixels[y - 2 : y + 3, x - 2 : x + 3].reshape(-1, 3), axis=0)
            nearest = int(np.abs(palette - middle).sum(1).argmin())
            wrong += gen.scenes.COLOR_NAMES[nearest] != o["color"]
            seen += 1
    assert seen > 100
    assert wrong == 0


def test_patch_labels_match_the_drawing(gen):
    """Patches of a shape are covered by it, empty ones are not; its centre carries the facts."""
    labels = gen.labels
    covered, empty = [], []
    for seed in range(20):
        scene, _, _ = make(gen, [2, seed], "shapes")
        cls, col, size, where, order = labels.patch_labels(scene)
        assert not order.any()
        for o in scene["objects"]:
            at = int(o["y"] * labels.GRID), int(o["x"] * labels.GRID)
            assert cls[at] == labels.CLASSES.index(o["shape"])
            assert col[at] == 1 + gen.scenes.COLOR_NAMES.index(o["color"])
            assert size[at] == 1 + list(gen.scenes.SIZES).index(o["size"])
            column, row = gen.scenes.cell(o["x"], o["y"])
            assert where[at] == 1 + 3 * row + column
        plain = dict(scene, bg="gray")
        with_shapes, without = (
            gen.preprocess.tile_u8(gen.scenes.render(s, np.random.default_rng(5), jpeg=0)).astype(int)
            for s in (plain, dict(plain, objects=[]))
        )
        p = gen.preprocess.TILE // labels.GRID
        drawn = np.abs(with_shapes - np.median(without)).max(-1) > 60
        share = drawn.reshape(labels.GRID, p, labels.GRID, p).mean(axis=(1, 3))
        covered += list(share[(cls >= 1) & (cls <= 6)])
        empty += list(share[cls == 0])
    assert np.mean(covered) > 0.5  # small shapes have edges only
    assert np.mean(empty) < 0.005


def test_slot_labels_spell_the_text(gen):
    labels = gen.labels
    for seed in range(40):
        scene, _, _ = make(gen, [3, seed], "text")
        slots = labels.slot_labels(scene)
        assert (np.count_nonzero(slots, axis=0) <= 1).all(), "a character lies in one token"
        spelled = "".join(labels.SLOT_CHARS[i] for i in slots.max(axis=0))
        assert spelled == gen.prompts.text_of(scene)["text"]


def test_texts_of_a_chosen_kind(gen):
    """A scene prints what it is told to; no word is both trained on and held out."""
    words, rng = gen.words, np.random.default_rng(6)
    said = {
        gen.prompts.text_of(gen.scenes.make_scene(rng, kind, words.held_out_word))["text"]
        for kind in ["text", "both"] * 20
    }
    assert said <= set(words.HELD_OUT_WORDS)
    assert len(said) > 5
    assert set(words.HELD_OUT_WORDS).isdisjoint(words.WORDS)


def test_mirrored_scene_mirrors_its_labels(gen):
    for seed in range(10):
        scene, _, _ = make(gen, [4, seed], "shapes")
        straight, mirrored = gen.labels.patch_labels(scene), gen.labels.patch_labels(gen.scenes.flip(scene))
        inside = (straight[0][:, ::-1] != 255) & (mirrored[0] != 255)
        assert (straight[0][:, ::-1] == mirrored[0])[inside].mean() > 0.97
        assert gen.scenes.flip(gen.scenes.flip(scene))["objects"][0]["y"] == scene["objects"][0]["y"]


def test_answers_follow_from_the_scene(gen):
    sample = gen.make_samples
    scene = sample.scene(
        400,
        300,
        "cream",
        sample.shape("heart", "red", "medium", 0.17, 0.2),
        sample.shape("triangle", "green", "medium", 0.5, 0.52),
        sample.shape("cross", "blue", "small", 0.84, 0.83),
    )
    assert gen.prompts.describe(scene) == (
        "A medium red heart at the top left, a medium green triangle in the center and "
        "a small blue cross at the bottom right on a cream background."
    )
    rng = np.random.default_rng(0)
    expected = {
        "count": {"There are three shapes."},
        "color": {"The heart is red.", "The triangle is green.", "The cross is blue."},
        "where": {
            "The heart is at the top left.",
            "The triangle is in the center.",
            "The cross is at the bottom right.",
        },
        "background": {"The background is cream."},
        "read": {"There is no text in this image."},
    }
    for topic, answers in expected.items():
        for _ in range(20):
            _, question, answer = gen.prompts.image_qa(scene, rng, topic)
            missing = [s for s in gen.scenes.SHAPES if f"no {s}" in answer]
            assert answer in answers or (missing and missing[0] in question)


def test_sample_pictures_are_those_of_expected_json(gen, tmp_path):
    cases = json.loads((SAMPLES / "expected.json").read_text())
    described = {c["files"][0]: c["truth"] for c in cases if c["prompt"] == "Describe this image."}
    made = gen.make_samples.pictures(str(tmp_path))
    assert {name: gen.prompts.describe(scene) for name, scene in made.items()} == described
    assert all((SAMPLES / name).exists() for c in cases for name in c["files"])


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="needs espeak-ng")
def test_same_seed_same_clips(gen):
    (texts, clips), (again, same) = gen.speech.make_set(3, 21), gen.speech.make_set(3, 21)
    assert texts == again
    assert all(np.array_equal(a, b) for a, b in zip(clips, same))
    assert all(len(c) > 1600 and c.dtype == np.int16 for c in clips)
    known = {*"0123456789", *gen.speech.COMMANDS}
    assert all(set(t.split()) <= known for t in texts)


def test_plans_need_no_synthesiser(gen):
    plans = [gen.speech.plan(np.random.default_rng(s)) for s in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


def test_mel_windows_are_whole_chunks(gen):
    x = np.random.default_rng(0).normal(0, 0.1, 16000 * 3 + 500).astype(np.float32)
    mel = gen.preprocess.log_mel(gen.speech.augment(x, np.random.default_rng(1)))
    (window,) = gen.preprocess.mel_windows(mel)
    assert window.shape[0] == gen.preprocess.N_MEL
    assert window.shape[1] % gen.preprocess.CHUNK == 0
    assert window.dtype == np.float32
