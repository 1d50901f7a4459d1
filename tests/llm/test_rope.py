import math

import numpy as np

from llm.rope import RopeTable, by_section, frequencies, interleaved, yarn


def test_frequencies() -> None:
    np.testing.assert_allclose(frequencies(8, 10000.0), [1, 0.1, 0.01, 0.001])
    np.testing.assert_allclose(frequencies(4, 100.0, stretch=4), [0.25, 0.025])
    np.testing.assert_allclose(frequencies(4, 100.0, factors=np.array([1, 5], np.float32)), [1, 0.02])


def test_yarn_keeps_the_high_frequencies_and_stretches_the_low() -> None:
    plain = frequencies(128, 10000.0)
    ratio = plain / yarn(plain, 8.0, 2048)
    turns = 2048 * plain / (2 * math.pi)
    np.testing.assert_allclose(ratio[turns > 40], 1)
    np.testing.assert_allclose(ratio[turns < 0.9], 8)
    assert (np.diff(ratio) >= -1e-12).all()


def test_angles_stay_exact_at_large_positions() -> None:
    table = RopeTable(frequencies(64, 1e6), "neox")
    cos, sin = table.at(np.array([[0, 131071]], np.int32))
    expected = [math.cos(131071 * 1e6 ** (-i / 32)) for i in range(32)]
    np.testing.assert_allclose(cos[1], expected, atol=1e-6)
    np.testing.assert_array_equal(cos[0], 1)
    assert cos.dtype == sin.dtype == np.float32


def test_sections_of_pairs_turn_by_an_axis_each() -> None:
    assert by_section([2, 3, 3, 0], 8).tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert by_section([1, 1, 0, 0], 4).tolist() == [0, 1, 0, 1]  # over again when pairs are left


def test_interleaved_pairs_take_turns_while_their_axis_has_some_left() -> None:
    assert interleaved([3, 3, 2, 0], 8).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    axes = interleaved([24, 20, 20, 0], 64)  # as in Qwen3-VL
    assert np.bincount(axes).tolist() == [24, 20, 20]
    assert axes[-4:].tolist() == [0, 0, 0, 0]


def test_each_pair_turns_by_its_axis() -> None:
    table = RopeTable(np.ones(3), "neox", axes=np.array([0, 2, 1], np.int32))
    cos, sin = table.at(np.array([[1], [2], [3], [0]], np.int32))
    np.testing.assert_allclose(cos, np.cos([[1, 3, 2]]), rtol=1e-6)
    assert cos.flags.c_contiguous and sin.flags.c_contiguous
