"""Synthetic judgements on drawn scenes, whose right labels are known."""

import numpy as np
import pytest

from candlelight.evaluation.views.synthetic_judgements import PAIRS, synthetic_comparisons, synthetic_labels
from candlelight.loaders.mixed_edges import mixed_edges

HEIGHT, WIDTH = 60, 80


@pytest.fixture
def scene():
    """A plane that faces the camera, half in shadow, with a box whose albedo is higher in front of it."""
    columns = np.arange(WIDTH) * np.ones((HEIGHT, 1))
    box = np.zeros((HEIGHT, WIDTH), bool)
    box[20:40, 50:70] = True
    shading = np.where(columns < 25, 0.1, 1.0)
    shading[box] = 0.5
    normal = np.zeros((3, HEIGHT, WIDTH), np.float16)
    normal[2] = -1
    albedo = np.full((3, HEIGHT, WIDTH), 0.3, np.float16)
    albedo[:, box] = 0.6
    return {
        "albedo": albedo,
        "shading": (shading * np.ones((3, 1, 1))).astype(np.float16),
        "depth": np.where(box, 2.0, 3.0).astype(np.float32),
        "normal": normal,
        "objects": np.where(box, 2, 1).astype(np.uint8),
    }


def test_labels_of_shadow_edge_and_plane(scene):
    labels = synthetic_labels(**scene)
    assert (labels[:10, 24:26] == 1).all()  # the edge of the shadow, two pixels wide
    assert set(labels[:10, 15:35].ravel()) == {1, 2, 100}
    assert (labels[25, [49, 50]] == 0).all()  # the outline of the box
    assert (labels[30, 60], labels[5, 5], labels[5, 60]) == (2, 2, 2)
    assert not (labels[20:40, 50:70] == 1).any()
    assert not (labels[mixed_edges(scene["objects"])] == 2).any()


@pytest.mark.parametrize(("share", "label"), [(0.8, 2), (1.2, 100)])
def test_slow_change_is_smooth_at_any_size(scene, share, label):
    """Shading that changes by a factor of exp(5) over the longer side is the limit."""
    for repeats in (2, 4):  # 160 and 320 pixels; below 100 the limit is 5 % per pixel
        large = {name: layer.repeat(repeats, -1).repeat(repeats, -2) for name, layer in scene.items()}
        for name in ("depth", "objects"):
            large[name][:] = 1
        fall = np.exp(share * 5 * np.arange(WIDTH * repeats) / (WIDTH * repeats))
        large["shading"] = fall * np.ones((3, HEIGHT * repeats, 1))
        assert (synthetic_labels(**large)[:, 10:-10] == label).all()


def test_steep_fall_of_light_is_no_boundary(scene):
    scene["objects"][:], scene["depth"][:] = 1, 1
    scene["shading"] = np.exp(0.15 * np.arange(WIDTH)) * np.ones((3, HEIGHT, 1))  # everywhere 16 % per pixel
    labels = synthetic_labels(**scene)
    assert not (labels[:, 40:70] != 100).any()


def test_smooth_pixels_have_no_slope_in_the_window_of_the_scores(scene):
    labels = synthetic_labels(**scene)
    shading = scene["shading"][0].astype(float)
    for row, column in np.argwhere(labels == 2):
        around = shading[max(0, row - 5) : row + 6, max(0, column - 5) : column + 6]
        assert around.max() == around.min()


def test_texture_of_the_albedo_gives_no_label(scene):
    plain = synthetic_labels(**scene)
    scene["albedo"] *= np.random.default_rng(0).uniform(0.5, 1, scene["albedo"].shape).astype(np.float16)
    np.testing.assert_array_equal(synthetic_labels(**scene), plain)


def test_jump_of_geometry_without_a_jump_of_shading_is_left_out(scene):
    scene["shading"][:] = 1
    assert set(np.unique(synthetic_labels(**scene))) == {2}


@pytest.mark.parametrize("layer", ["depth", "normal", "objects"])
def test_each_layer_of_geometry_turns_an_edge_of_light_into_a_discontinuity(scene, layer):
    alone = {**scene, "depth": np.ones_like(scene["depth"]), "objects": np.ones_like(scene["objects"])}
    labels = synthetic_labels(**alone)
    assert (labels[25, [49, 50]] == 1).all()
    if layer == "normal":
        alone["normal"] = scene["normal"].copy()
        alone["normal"][:, 20:40, 50:70] = np.array([-1, 0, 0])[:, None, None]
    else:
        alone[layer] = scene[layer]
    assert (synthetic_labels(**alone)[25, [49, 50]] == 0).all()


def test_a_plane_seen_at_a_grazing_angle_has_no_jump_of_depth(scene):
    # The inverse depth of a plane is linear in the image; its depth alone would jump here.
    rows = np.arange(HEIGHT)[:, None] * np.ones((1, WIDTH))
    scene["depth"] = (1 / (0.001 + 0.01 * rows)).astype(np.float32)
    scene["objects"][:] = 1
    labels = synthetic_labels(**scene)
    assert (labels[:, 24:26] == 1).all()
    assert not (labels == 0).any()


def test_pixels_without_albedo_and_their_neighbours_are_ignored(scene):
    scene["albedo"][0, 50:, 30:] = 0  # in one channel
    labels = synthetic_labels(**scene)
    assert (labels[48:, 28:] == 100).all()
    assert (labels[43:, 60:] == 100).all()  # a window of 11x11 holds an unknown pixel
    assert (labels[42, 35], labels[43, 35]) == (2, 100)
    scene["albedo"][:] = 0
    assert (synthetic_labels(**scene) == 100).all()


def test_labels_do_not_depend_on_the_exposure(scene):
    plain = synthetic_labels(**scene)
    np.testing.assert_array_equal(synthetic_labels(**{**scene, "shading": scene["shading"] / 16}), plain)


def test_noise_in_the_dark_is_no_boundary(scene):
    rng = np.random.default_rng(0)
    scene["shading"][:, :, :20] = rng.uniform(1e-4, 1e-3, (3, HEIGHT, 20))
    assert (synthetic_labels(**scene)[:, :13] == 2).all()


def test_comparisons_follow_the_albedo(scene):
    made = synthetic_comparisons("a", scene["albedo"], scene["objects"])
    count = len(made.darker)
    assert PAIRS - 5 < count <= PAIRS  # pairs of a pixel with itself are left out
    assert (made.points.shape, made.score.tolist()) == ((count, 2, 2), [1.0] * count)
    columns, rows = (made.points * (WIDTH, HEIGHT)).astype(int).transpose(2, 0, 1)
    assert not mixed_edges(scene["objects"])[rows, columns].any()
    assert ((rows[:, 0] != rows[:, 1]) | (columns[:, 0] != columns[:, 1])).all()
    one, two = scene["albedo"][0][rows, columns].T
    np.testing.assert_array_equal(made.darker, np.select([one < two, one > two], [1, 2], 0))
    # Half of the points are on the small box, so half of the pairs are across its outline.
    np.testing.assert_allclose(np.bincount(made.darker) / count, [0.5, 0.25, 0.25], atol=0.1)


@pytest.mark.parametrize(("ratio", "answer"), [(1.09, 0), (1.11, 1)])
def test_darker_is_ten_percent(ratio, answer):
    albedo = np.full((3, 20, 40), 0.5)
    albedo[:, :, 20:] *= ratio
    made = synthetic_comparisons(
        "a", albedo, np.repeat([[0, 1]], 20, axis=1).repeat(20, axis=0).astype(np.uint8)
    )
    across = (made.points[:, 0, 0] < 0.5) & (made.points[:, 1, 0] > 0.5)
    assert across.any()
    assert (made.darker[across] == answer).all()


def test_pairs_depend_on_the_id_alone(scene):
    layers = scene["albedo"], scene["objects"]
    one, again, other = (synthetic_comparisons(name, *layers) for name in ("a", "a", "b"))
    np.testing.assert_array_equal(one.points, again.points)
    assert (one.points != other.points).any()


def test_points_avoid_texture_and_pixels_without_albedo(scene):
    scene["objects"][:] = 1
    scene["albedo"][:, :, :40] *= np.random.default_rng(0).uniform(0.5, 1, (1, HEIGHT, 40)).astype(np.float16)
    scene["albedo"][:, 45:] = 0
    made = synthetic_comparisons("a", scene["albedo"], scene["objects"])
    assert len(made.darker) > PAIRS - 5
    assert made.points[..., 0].min() > 40 / WIDTH
    assert made.points[..., 1].max() < 45 / HEIGHT


def test_frame_without_even_places_has_no_comparisons(scene):
    noise = np.random.default_rng(0).random((3, HEIGHT, WIDTH))
    made = synthetic_comparisons("a", noise, scene["objects"])
    assert (made.points.shape, made.darker.shape, made.score.shape) == ((0, 2, 2), (0,), (0,))
    one_pixel = synthetic_comparisons("a", np.ones((3, 1, 1)), np.ones((1, 1), np.uint8))
    assert len(one_pixel.darker) == 0
