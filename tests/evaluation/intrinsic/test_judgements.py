"""Scores of judgements: WHDR, and counts and curves of SAW, against loops over pixels and thresholds."""

from typing import get_args

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.judgements import (
    SAWVariant,
    _count,
    _count_on_device,
    count_smooth,
    saw_average_precision,
    saw_curve,
    saw_thresholds,
    whdr,
)
from candlelight.evaluation.views import Comparisons
from tests.evaluation.intrinsic.references import drawn_saw, slow_counts, slow_precision, slow_whdr
from tests.refusals import refused

VARIANTS = get_args(SAWVariant)


def drawn_comparisons(seed, count):
    rng = np.random.default_rng(seed)
    return Comparisons(
        torch.from_numpy(rng.random((count, 2, 2))),
        torch.from_numpy(rng.integers(0, 3, count)),
        torch.from_numpy(rng.uniform(0.1, 2, count)),
    )


def pair(darker, score=1.0):
    """Compare the left half of an image with its right half."""
    points = torch.tensor([[[0.25, 0.5], [0.75, 0.5]]], dtype=torch.float64)
    return Comparisons(points, torch.tensor([darker]), torch.tensor([score], dtype=torch.float64))


def halves(left, right, channels=3):
    return torch.tensor([left, right]).expand(1, channels, 2, 2).double()


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("size", [(1, 1), (37, 53)])
def test_whdr_equals_the_literal_loop(size, threshold) -> None:
    rng = np.random.default_rng(0)
    for channels in (1, 3):
        images = rng.uniform(0, 1, (4, channels, *size))
        images[1] = rng.uniform(-0.5, 0.5, (channels, *size))  # values below 0 count as 1e-10
        made = [drawn_comparisons(row, 40) for row in range(3)] + [drawn_comparisons(3, 0)]
        listed = [
            list(zip(one.points.tolist(), one.darker.tolist(), one.score.tolist(), strict=True))
            for one in made
        ]
        wanted = [slow_whdr(image, one, threshold) for image, one in zip(images, listed, strict=True)]
        np.testing.assert_allclose(whdr(torch.from_numpy(images), made, threshold), wanted, rtol=1e-12)


def test_the_pixel_is_rounded_down() -> None:
    image = torch.arange(12.0).reshape(1, 1, 3, 4) + 1
    points = torch.tensor([[[0.49, 0.99], [0.5, 0.34]]], dtype=torch.float64)  # pixels [2, 1] and [1, 2]
    left = Comparisons(points, torch.tensor([2]), torch.ones(1, dtype=torch.float64))
    assert whdr(image, [left]).item() == 0  # 10 against 7
    image[0, 0, 2, 1], image[0, 0, 1, 2] = 1, 2
    assert whdr(image, [left]).item() == 1


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [(1.0, 1.0, 0), (1.0, 1.099, 0), (1.0, 1.101, 1), (1.101, 1.0, 2), (0.0, 0.0, 0), (0.0, 1e-9, 1)],
)
def test_answer_by_hand(left, right, wanted) -> None:
    image = halves(left, right)
    assert [whdr(image, [pair(darker)]).item() for darker in range(3)] == [
        float(d != wanted) for d in range(3)
    ]


def test_only_compared_points_are_read_and_images_are_scored_alone() -> None:
    images = halves(0.2, 0.8).repeat(3, 1, 1, 1)
    images[:2, 1, 0, 0] = torch.tensor([torch.nan, torch.inf])  # no point lies in the first row
    assert whdr(images, [pair(1)] * 3).tolist() == [0, 0, 0]
    images[:2, 1, 1, 0] = torch.tensor([torch.nan, -torch.inf])
    assert whdr(images, [pair(1)] * 3).isnan().tolist() == [True, True, False]
    assert whdr(images.half(), [pair(1)] * 3).dtype == torch.float32


def change(**fields):
    made = pair(0)
    return Comparisons(**{**{name: getattr(made, name) for name in ("points", "darker", "score")}, **fields})


@pytest.mark.parametrize(
    ("made", "threshold", "message"),
    [
        ([pair(0)], -0.1, r"^`threshold` must be at least 0 and finite, got -0.1; 0.1 is Bell"),
        ([change(points=pair(0).points * 100)], 0.1, r"must lie in \[0, 1\), got 25; divide x by the width"),
        ([pair(3)], 0.1, r"^`darker` must be 0 \(equal\), 1 or 2, got \[3\]$"),
        ([pair(0, score=0.0)], 0.1, r"^`score` must be positive and finite, got 0 to 0; leave out"),
    ],
)
def test_invalid_comparisons_and_thresholds_are_refused(made, threshold, message) -> None:
    with refused(message):
        whdr(torch.ones(1, 3, 2, 2), made, threshold)


@pytest.mark.parametrize("variant", VARIANTS)
def test_counts_and_score_equal_the_loops(variant) -> None:
    total = 0
    for seed in range(2):
        shading, labels, image = drawn_saw(seed)
        found = count_smooth(shading, labels, variant, image)
        arrays = shading[0].numpy(), labels[0].numpy(), image[0].numpy()
        wanted = slow_counts(*arrays, variant)
        np.testing.assert_allclose(found[0].numpy(), wanted, rtol=1e-12, atol=1e-12)
        total = total + wanted
    curve = saw_curve(torch.from_numpy(total), variant)
    assert float(curve.score) == pytest.approx(slow_precision(total, variant), rel=1e-12)
    assert 0.3 < float(curve.score) < 0.99


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_curve_is_made_of_all_photographs(variant) -> None:
    one, other = drawn_saw(4), drawn_saw(5)
    both = [torch.cat(parts) for parts in zip(one, other, strict=True)]
    counts = [count_smooth(shading, labels, variant, image) for shading, labels, image in (one, other)]
    together = saw_average_precision(both[0], both[1], variant, both[2])
    assert together.score.equal(saw_curve(torch.cat(counts).sum(0), variant).score)
    alone = [float(saw_curve(some[0], variant).score) for some in counts]
    assert float(together.score) != pytest.approx(np.mean(alone), rel=1e-6)


def test_thresholds_are_those_of_the_published_programs() -> None:
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


def test_maximum_filter_applies_to_smooth_pixels_of_the_original_only() -> None:
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


def test_gradient_equal_to_a_threshold_is_not_smooth() -> None:
    shading = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    shading[..., 2:] = 0.125  # a gradient of 0.5 beside the step, the 100th and 101st threshold
    counts = count_smooth(shading, torch.full((1, 1, 4), 2), "kovacs2017")
    assert counts[0, 98:103, 2, 1].tolist() == [0, 0, 0, 4, 4]


def test_recall_that_no_threshold_reaches_adds_nothing_to_the_original() -> None:
    shading, labels, _ = drawn_saw(9)
    huge = saw_average_precision(1e6 * (shading + torch.rand_like(shading)), labels, "kovacs2017")
    assert huge.recall.max() == 0
    assert huge.score == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_shading_that_is_not_finite_has_no_counts(variant) -> None:
    one, other = drawn_saw(10), drawn_saw(11)
    shading, labels, image = (torch.cat(parts) for parts in zip(one, other, strict=True))
    shading[0, 2, 5, 5] = torch.nan
    counts = count_smooth(shading, labels, variant, image)
    assert counts[0].isnan().all()
    assert counts[1].equal(count_smooth(*other[:2], variant, other[2])[0])
    assert saw_curve(counts.sum(0), variant).score.isnan()


@pytest.mark.parametrize("labels", [(100,), (2, 100), (0, 1)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_score_needs_both_classes(variant, labels) -> None:
    shading, regions, image = drawn_saw(12, labels=labels)
    for count in (1, 0):
        found = saw_average_precision(shading[:count], regions[:count], variant, image[:count])
        assert found.score.isnan()


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_pixel(variant) -> None:
    image = torch.ones(1, 3, 1, 1)
    counts = count_smooth(image, torch.tensor([[[0]]]), variant, image)
    assert counts[0].sum((0, 2)).tolist() == [len(saw_thresholds(variant)), 0, 0]


def test_values_that_are_not_positive_are_raised_to_the_floor() -> None:
    shading, labels, _ = drawn_saw(13)
    shading[..., 4:9] = 1e-4
    dark = shading.clone()
    dark[..., 4:9] = -3
    counts = [count_smooth(values, labels, "cgintrinsics2018") for values in (shading, dark)]
    assert counts[0].equal(counts[1])


def test_invalid_images_labels_variants_and_counts_are_refused() -> None:
    shading, labels, _ = drawn_saw(14)
    counts = torch.zeros(200, 3, 2, dtype=torch.float64)
    for message, call in {
        r"expected `reflectance` \[batch, channels, height, width\], got": lambda: whdr(
            torch.ones(3, 2, 2), [pair(0)]
        ),
        r"^`labels` must be 0, 1, 2 or 100, got 3$": lambda: count_smooth(
            shading, torch.where(labels == 1, 3, labels), "kovacs2017"
        ),
        r'^the variant "challenge2018" needs the photographs; pass `image`$': lambda: saw_average_precision(
            shading, labels, "challenge2018"
        ),
        r"^`variant` must be one of: kovacs2017, cgintri": lambda: count_smooth(shading, labels, "kovacs"),
        r"^`variant` must be one of: kovacs2017": lambda: saw_curve(counts, "kovacs"),
        r"expected `counts` \[thresholds, 3, 2\], got \[1, 200, 3, 2\]": lambda: saw_curve(
            counts[None], "kovacs2017"
        ),
        r"must have the 400 thresholds of `challenge2018`, got 200; give": lambda: saw_curve(
            counts, "challenge2018"
        ),
    }.items():
        with refused(message):
            call()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_of_tensors_are_those_of_arrays(variant, weighted) -> None:
    draws = torch.Generator().manual_seed(0)
    gray = torch.rand(40, 50, generator=draws, dtype=torch.float64)
    labels = torch.randint(0, 4, (40, 50), generator=draws)
    weights = torch.rand(40, 50, generator=draws, dtype=torch.float64) if weighted else None
    given = gray, labels, weights, torch.from_numpy(saw_thresholds(variant)), variant
    torch.testing.assert_close(_count_on_device(*given), _count(*given), rtol=1e-12, atol=1e-12)
