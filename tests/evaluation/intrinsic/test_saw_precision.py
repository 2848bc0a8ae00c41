"""Counts and curves of SAW against loops over pixels and thresholds."""

import math
from inspect import unwrap
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch
from scipy import ndimage

from candlelight.evaluation.intrinsic.judgements import (
    SAWVariant,
    _count,
    _count_on_device,
    count_smooth,
    saw_average_precision,
    saw_curve,
    saw_thresholds,
    texture_weights,
)
from candlelight.loaders.colour import linear_to_srgb
from candlelight.loaders.errors import InputError

VARIANTS = get_args(SAWVariant)
SOBEL = [(-1, -1, 1), (-1, 0, 2), (-1, 1, 1), (1, -1, -1), (1, 0, -2), (1, 1, -1)]


def literal_gradient(gray):
    """Compute the Sobel magnitude pixel by pixel; the border is repeated."""
    height, width = gray.shape
    found = np.zeros_like(gray)
    for y in range(height):
        for x in range(width):
            down = right = 0.0
            for one, other, weight in SOBEL:
                down += weight * gray[min(max(y + one, 0), height - 1), min(max(x + other, 0), width - 1)]
                right += weight * gray[min(max(y + other, 0), height - 1), min(max(x + one, 0), width - 1)]
            found[y, x] = math.hypot(down, right)
    return found


def literal_maximum(values):
    """Take the maximum over the ten rows and columns from 5 before a pixel to 4 after it."""
    found = np.zeros_like(values)
    for y, x in np.ndindex(values.shape):
        found[y, x] = values[max(0, y - 5) : y + 5, max(0, x - 5) : x + 5].max()
    return found


def literal_weights(image, labels):
    """Average the gradient of the encoded photograph over each region, found by flooding."""
    slope, weights = literal_gradient(linear_to_srgb(image).mean(0)), np.zeros(labels.shape)
    free = {tuple(place) for place in np.argwhere(labels == 2)}
    while free:
        region, border = [], [free.pop()]
        while border:
            y, x = border.pop()
            region.append((y, x))
            near = {(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)} & free
            free -= near
            border += near
        for place in region:
            weights[place] = np.mean([slope[one] for one in region])
    return weights


def literal_counts(shading, labels, image, variant):
    """Fill a 3x2 table at each threshold, pixel by pixel."""
    gray = shading.mean(0)
    if variant != "kovacs2017":
        gray = np.log(np.maximum(gray, 1e-4))
    plain = literal_gradient(gray)
    widest = literal_maximum(plain)
    weights = literal_weights(image, labels) if variant == "challenge2018" else np.ones(labels.shape)
    tables = []
    for threshold in saw_thresholds(variant):
        table = np.zeros((3, 2))
        for place in np.ndindex(labels.shape):
            label = labels[place]
            if label == 100:
                continue
            filtered = label != 2 or variant == "kovacs2017"
            smooth = (widest if filtered else plain)[place] < threshold
            table[label, int(smooth)] += weights[place] if label == 2 else 1
        tables.append(np.floor(table))
    return np.stack(tables)


def literal_score(counts, variant):
    """Balance the classes, and sum trapezoids."""
    added = 0 if variant == "kovacs2017" else 1e-5
    path = []
    for table in counts:
        rows = [w * row / (row.sum() + added) for w, row in zip((1, 1, 2), table, strict=True)]
        found = sum(row[1] for row in rows)
        precision = 1 if found + added == 0 else rows[2][1] / (found + added)
        path.append((rows[2][1] / (rows[2].sum() + added), precision))
    path = [(0, path[0][1]), *path] + ([] if variant == "kovacs2017" else [(1, 0.5)])
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(path))


def drawn(seed=0, height=17, width=23, labels=(0, 1, 2, 2, 100)):
    """Draw shading in patches of several contrasts, labels in patches, and a photograph."""
    rng = np.random.default_rng(seed)
    patches = np.kron(rng.uniform(0, 0.2, (height // 6 + 1, width // 6 + 1)), np.ones((6, 6)))
    shading = patches[:height, :width] * rng.uniform(0.8, 1.2, (3, 1, 1))
    shading += rng.normal(size=shading.shape) * 0.0002
    regions = np.kron(rng.choice(labels, (height // 4 + 1, width // 4 + 1)), np.ones((4, 4), int))
    return (
        torch.from_numpy(shading)[None],
        torch.from_numpy(regions[:height, :width].copy())[None],
        torch.from_numpy(rng.random((3, height, width)))[None],
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_counts_and_score_equal_the_loops(variant):
    total = 0
    for seed in range(2):
        shading, labels, image = drawn(seed)
        found = count_smooth(shading, labels, variant, image)
        arrays = shading[0].numpy(), labels[0].numpy(), image[0].numpy()
        wanted = literal_counts(*arrays, variant)
        np.testing.assert_allclose(found[0].numpy(), wanted, rtol=1e-12, atol=1e-12)
        total = total + wanted
    curve = saw_curve(torch.from_numpy(total), variant)
    assert float(curve.score) == pytest.approx(literal_score(total, variant), rel=1e-12)
    assert 0.3 < float(curve.score) < 0.99


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_curve_is_made_of_all_photographs(variant):
    one, other = drawn(4), drawn(5)
    both = [torch.cat(parts) for parts in zip(one, other, strict=True)]
    counts = [count_smooth(shading, labels, variant, image) for shading, labels, image in (one, other)]
    together = saw_average_precision(both[0], both[1], variant, both[2])
    assert together.score.equal(saw_curve(torch.cat(counts).sum(0), variant).score)
    alone = [float(saw_curve(some[0], variant).score) for some in counts]
    assert float(together.score) != pytest.approx(np.mean(alone), rel=1e-6)


def test_thresholds_are_those_of_the_published_programs():
    original = saw_thresholds("kovacs2017")
    assert (len(original), original[0], original[-1]) == (
        200,
        pytest.approx(0.5e-4),
        pytest.approx(1 - 0.5e-4),
    )
    assert (original == 0.5).sum() == 2
    np.testing.assert_allclose(original, 1 - original[::-1])
    assert original[50] / original[49] == pytest.approx(10 ** (4 / 99))
    later = saw_thresholds("cgintrinsics2018")
    assert (len(later), np.exp(later[0]), np.exp(later[-1])) == (400, pytest.approx(1.001), pytest.approx(64))
    assert np.exp(later[[199, 200]]) == pytest.approx([1.5, 1.501])
    assert (np.diff(later) > 0).all()
    np.testing.assert_array_equal(later, saw_thresholds("challenge2018"))


def test_maximum_filter_applies_to_smooth_pixels_of_the_original_only():
    shading = torch.ones(1, 1, 1, 40, dtype=torch.float64)
    shading[..., 20:] = 2
    labels = torch.full((1, 1, 40), 2)
    for variant, wanted in (("kovacs2017", 11), ("cgintrinsics2018", 2)):
        # The step shows in two pixels, or in the 2 + 9 pixels whose window holds one of them.
        assert count_smooth(shading, labels, variant)[0, 0].tolist() == [
            [0, 0],
            [0, 0],
            [wanted, 40 - wanted],
        ]
    labels[:] = 1
    for variant in ("kovacs2017", "cgintrinsics2018"):
        assert count_smooth(shading, labels, variant)[0, 0].tolist() == [[0, 0], [11, 29], [0, 0]]


def test_gradient_equal_to_a_threshold_is_not_smooth():
    shading = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    shading[..., 2:] = 0.125  # a gradient of 0.5 beside the step, the 100th and 101st threshold
    counts = count_smooth(shading, torch.full((1, 1, 4), 2), "kovacs2017")
    assert counts[0, 98:103, 2, 1].tolist() == [0, 0, 0, 4, 4]


def test_weights_are_means_over_regions_that_share_a_side():
    labels = np.full((5, 6), 100)
    labels[:2, :2] = 2
    labels[2, 2] = 2  # touches the first region at a corner only
    labels[4, 4:] = [2, 1]
    image = np.random.default_rng(0).random((3, 5, 6))
    slope = np.hypot(*(ndimage.sobel(linear_to_srgb(image).mean(0), axis=axis) for axis in (0, 1)))
    found = texture_weights(image, labels)
    np.testing.assert_allclose(found[:2, :2], slope[:2, :2].mean())
    np.testing.assert_allclose([found[2, 2], found[4, 4]], [slope[2, 2], slope[4, 4]])
    assert (found[labels != 2] == 0).all()
    assert not texture_weights(image, np.full((5, 6), 1)).any()


def scene():
    """A plane with the edge of a shadow and, below, strong texture of the reflectance."""
    shading = np.where(np.arange(80) < 40, 0.5, 0.8) * np.ones((60, 1))
    labels = np.full((60, 80), 2)
    labels[:, 30:50] = labels[25:35] = 100
    labels[:, 39:41] = 1
    reflectance = np.full((60, 80), 0.5)
    reflectance[30:] = np.random.default_rng(0).uniform(0.1, 0.9, (30, 80))
    image = shading * reflectance * np.ones((3, 1, 1))
    return [torch.from_numpy(part)[None] for part in (shading[None], labels, image)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_true_shading_is_perfect_constant_shading_is_half_and_the_image_is_between(variant):
    shading, labels, image = scene()
    true = saw_average_precision(shading, labels, variant, image)
    assert float(true.score) == pytest.approx(1, abs=1e-4)
    constant = saw_average_precision(torch.ones_like(shading), labels, variant, image)
    # Without a label 0 the two classes weigh 1 and 2.
    assert float(constant.score) == pytest.approx(2 / 3, abs=1e-4)
    whole = saw_average_precision(image, labels, variant, image)
    assert float(whole.score) < float(true.score) - 0.02


def test_constant_shading_is_half_with_all_classes():
    _, labels, image = drawn(6)
    for variant in VARIANTS:
        found = saw_average_precision(torch.ones_like(image), labels, variant, image)
        assert float(found.score) == pytest.approx(0.5, abs=1e-4)


def test_texture_in_the_shading_costs_more_in_the_challenge():
    _, labels, image = scene()
    plain, challenge = (
        float(saw_average_precision(image, labels, variant, image).score)
        for variant in ("cgintrinsics2018", "challenge2018")
    )
    assert challenge < plain


@pytest.mark.parametrize("variant", VARIANTS)
def test_recall_rises_and_lies_in_the_range(variant):
    curve = saw_average_precision(*drawn(7)[:2], variant, drawn(7)[2])
    assert (curve.recall.diff() >= 0).all()
    for values in (curve.recall, curve.precision):
        assert ((values >= 0) & (values <= 1)).all()
    assert len(curve.recall) == len(curve.precision) == len(saw_thresholds(variant))


def test_scale_counts_in_the_original_alone():
    shading, labels, image = drawn(8)
    for variant in VARIANTS:
        counts = [count_smooth(shading.clamp(min=1e-3) * scale, labels, variant, image) for scale in (1, 4)]
        assert counts[0].equal(counts[1]) == (variant != "kovacs2017")


def test_recall_that_no_threshold_reaches_adds_nothing_to_the_original():
    shading, labels, _ = drawn(9)
    huge = saw_average_precision(1e6 * (shading + torch.rand_like(shading)), labels, "kovacs2017")
    assert huge.recall.max() == 0
    assert huge.score == 0


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("variant", VARIANTS)
def test_shading_that_is_not_finite_has_no_counts(variant, bad):
    one, other = drawn(10), drawn(11)
    shading, labels, image = (torch.cat(parts) for parts in zip(one, other, strict=True))
    shading[0, 2, 5, 5] = bad
    counts = count_smooth(shading, labels, variant, image)
    assert counts[0].isnan().all()
    assert counts[1].equal(count_smooth(*other[:2], variant, other[2])[0])
    assert saw_curve(counts.sum(0), variant).score.isnan()


@pytest.mark.parametrize("labels", [(100,), (2, 100), (0, 1)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_score_needs_both_classes(variant, labels):
    shading, regions, image = drawn(12, labels=labels)
    assert saw_average_precision(shading, regions, variant, image).score.isnan()
    assert saw_average_precision(shading[:0], regions[:0], variant, image[:0]).score.isnan()


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_pixel(variant):
    image = torch.ones(1, 3, 1, 1)
    counts = count_smooth(image, torch.tensor([[[0]]]), variant, image)
    assert counts[0].sum((0, 2)).tolist() == [len(saw_thresholds(variant)), 0, 0]


def test_values_that_are_not_positive_are_raised_to_the_floor():
    shading, labels, _ = drawn(13)
    shading[..., 4:9] = 1e-4
    dark = shading.clone()
    dark[..., 4:9] = -3
    counts = [count_smooth(values, labels, "cgintrinsics2018") for values in (shading, dark)]
    assert counts[0].equal(counts[1])


def test_wrong_arguments_are_refused():
    shading, labels, _ = drawn(14)
    with pytest.raises(InputError, match=r"^`labels` must be 0, 1, 2 or 100, got 3$"):
        count_smooth(shading, torch.where(labels == 1, 3, labels), "kovacs2017")
    with pytest.raises(
        InputError, match=r'^the variant "challenge2018" needs the photographs; pass `image`$'
    ):
        saw_average_precision(shading, labels, "challenge2018")
    with pytest.raises(InputError, match=r"^`variant` must be one of: kovacs2017, cgintrinsics2018, chall"):
        unwrap(count_smooth)(shading, labels, "kovacs")
    with pytest.raises(InputError, match=r"^`variant` must be one of"):
        unwrap(saw_curve)(torch.zeros(200, 3, 2).double(), "kovacs")
    with pytest.raises(InputError, match=r"expected `counts` \[thresholds, 3, 2\], got \[1, 200, 3, 2\]"):
        unwrap(saw_curve)(torch.zeros(1, 200, 3, 2).double(), "kovacs2017")
    with pytest.raises(InputError, match=r"must have the 400 thresholds of `challenge2018`, got 200; give"):
        saw_curve(torch.zeros(200, 3, 2).double(), "challenge2018")


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 3, 5, 6), (1, 5, 5), (1, 3, 5, 6)),
        ((3, 5, 6), (1, 5, 6), (1, 3, 5, 6)),
        ((2, 1, 5, 6), (2, 5, 6), (1, 3, 5, 6)),
    ],
)
def test_shapes_are_not_broadcast(shapes):
    shading, labels, image = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(InputError, match=r"expected `shading` \[batch, channels, height, width\], `labels`"):
        unwrap(count_smooth)(shading, labels.long(), "challenge2018", image)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_of_tensors_are_those_of_arrays(variant, weighted) -> None:
    draws = torch.Generator().manual_seed(0)
    gray = torch.rand(40, 50, generator=draws, dtype=torch.float64)
    labels = torch.randint(0, 4, (40, 50), generator=draws)
    weights = torch.rand(40, 50, generator=draws, dtype=torch.float64) if weighted else None
    given = gray, labels, weights, torch.from_numpy(saw_thresholds(variant)), variant
    torch.testing.assert_close(_count_on_device(*given), _count(*given), rtol=1e-12, atol=1e-12)
