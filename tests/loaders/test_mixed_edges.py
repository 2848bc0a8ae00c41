import numpy as np
import pytest

from candlelight.loaders.mixed_edges import mixed_edges


def marked(text: str) -> str:
    layer = np.array([[int(sign) for sign in row] for row in text.split()], np.uint8)
    return "\n".join("".join(row) for row in np.where(mixed_edges(layer), "#", "."))


def test_both_sides_of_an_outline_are_marked_and_nothing_else():
    assert marked("000000000 011111000 011111000 011111000 011111000 011111000") == (
        "########.\n"
        "########.\n"
        "########.\n"
        "###.####.\n"
        "###.####.\n"
        "###.####."
    )  # fmt: skip


def neighbours_differ(layer, row, column):
    rows, columns = slice(max(row - 2, 0), row + 3), slice(max(column - 2, 0), column + 3)
    return any(index != layer[row, column] for index in layer[rows, columns].flat)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (13, 17)], ids=str)
def test_edges_match_a_loop_over_pixels(shape):
    rng = np.random.default_rng(5)
    for _ in range(20):
        layer = rng.choice(np.array([0, 1, 255], np.uint8), shape, p=[0.9, 0.05, 0.05])
        expected = [
            [neighbours_differ(layer, row, column) for column in range(shape[1])] for row in range(shape[0])
        ]
        found = mixed_edges(layer)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("reach", [0, 1, 3])
def test_the_reach_is_a_distance_in_rows_and_columns(reach):
    layer = np.zeros((11, 11), np.uint8)
    layer[5, 5] = 1
    found = mixed_edges(layer, reach)
    expected = np.zeros((11, 11), bool)
    if reach:
        expected[5 - reach : 6 + reach, 5 - reach : 6 + reach] = True
    np.testing.assert_array_equal(found, expected)


@pytest.mark.timeout(5)
def test_a_reach_beyond_the_image_costs_no_more_than_the_image():
    layer = np.zeros((40, 50), np.uint8)
    layer[3, 7] = 1
    assert mixed_edges(layer, 10**12).all()
    assert not mixed_edges(np.zeros((40, 50), np.uint8), 10**12).any()


def test_an_edge_in_any_channel_of_the_albedo_is_marked():
    albedo = np.full((1, 9, 3), 0.5, np.float16)
    albedo[0, 4:, 1] = 0.25
    assert mixed_edges(albedo, 1)[0].nonzero()[0].tolist() == [3, 4]
