import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.mixed_edges import mixed_edges
from candlelight.loaders.regions import constant_regions, scale_regions


def slow_regions(objects, albedo, least):
    """Flood each region from its first pixel, one neighbour after the other."""
    height, width = objects.shape
    usable = (objects > 0) & ~mixed_edges(objects) & (albedo > 0).any(2)
    regions, colours, seen = np.zeros((height, width), np.int64), [], np.zeros((height, width), bool)
    for start in np.argwhere(usable).tolist():
        if seen[tuple(start)]:
            continue
        pixels, queue = [], [start]
        seen[tuple(start)] = True
        while queue:
            row, column = queue.pop()
            pixels.append((row, column))
            for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if not (0 <= r < height and 0 <= c < width) or seen[r, c] or not usable[r, c]:
                    continue
                if objects[r, c] == objects[row, column] and (albedo[r, c] == albedo[row, column]).all():
                    seen[r, c] = True
                    queue.append([r, c])
        if len(pixels) >= least:
            colours.append(albedo[pixels[0]])
            for pixel in pixels:
                regions[pixel] = len(colours)
    return regions, np.array(colours).reshape(-1, 3)


@pytest.mark.parametrize("seed", range(4))
def test_regions_match_a_flood_of_single_pixels(seed):
    rng = np.random.default_rng(seed)
    objects = rng.integers(0, 3, (4, 5)).repeat(9, 0).repeat(8, 1).astype(np.uint8)
    palette = np.array([[0.5, 0.25, 0.125], [0.5, 0.25, 0.25], [0, 0, 0], [0.75, 0.5, 0.5]])
    albedo = palette[rng.integers(0, 4, (12, 10)).repeat(3, 0).repeat(4, 1)].astype(np.float16)
    found = constant_regions(objects, albedo, least=7)
    regions, colours = slow_regions(objects, albedo, 7)
    assert regions.max() > 2
    np.testing.assert_array_equal(found.regions, regions)
    np.testing.assert_array_equal(found.colours, colours)
    assert (found.regions.dtype, found.colours.dtype) == (np.int64, np.float32)


def test_two_objects_of_one_albedo_are_two_regions_without_their_edges():
    objects = np.repeat(np.array([[1] * 9 + [2] * 9], np.uint8), 9, axis=0)
    regions = constant_regions(objects, np.full((9, 18, 3), 0.5, np.float16)).regions
    np.testing.assert_array_equal(regions[4], [1] * 7 + [0] * 4 + [2] * 7)


def test_rounding_joins_and_gradients_do_not():
    objects = np.ones((8, 16), np.uint8)
    level = np.float16(0.3)
    rounded = np.full((8, 16, 3), level, np.float16)
    rounded[::2, ::2] = np.nextafter(level, np.float16(1))
    assert (constant_regions(objects, rounded).regions == 1).all()
    step = float(np.nextafter(level, np.float16(1)) - level)
    gradient = (float(level) + step * np.arange(16))[None, :, None] + np.zeros((8, 1, 3))
    assert not constant_regions(objects, gradient.astype(np.float16)).regions.any()


def test_small_regions_and_the_background_are_left_out():
    objects = np.zeros((30, 30), np.uint8)
    objects[2:12, 2:12], objects[20:28, 20:28] = 1, 2  # 36 and 16 pixels without their edges
    albedo = np.full((30, 30, 3), 0.5, np.float16)
    assert np.unique(constant_regions(objects, albedo).regions).tolist() == [0, 1]
    assert constant_regions(objects, albedo, least=16).regions.max() == 2
    assert constant_regions(objects, 0 * albedo).regions.max() == 0


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1)])
def test_frames_of_a_line_and_without_objects(size):
    ones = np.ones(size, np.uint8)
    albedo = np.ones((*size, 3), np.float16)
    assert (constant_regions(ones, albedo, least=1).regions == 1).all()
    found = constant_regions(0 * ones, albedo)
    assert not found.regions.any()
    assert found.colours.shape == (0, 3)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (213, 341), (240, 320)])
def test_scaled_maps_equal_those_of_pillow(size):
    regions = np.random.default_rng(0).integers(0, 9, (213, 341))
    image = Image.fromarray(regions.astype(np.uint8)).resize(size[::-1], Image.Resampling.NEAREST)
    np.testing.assert_array_equal(scale_regions(regions, size), np.asarray(image))
