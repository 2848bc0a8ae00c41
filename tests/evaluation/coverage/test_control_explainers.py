"""Noise covers as much as chance, a mask covers itself, and a constant map covers nothing."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.control_explainers import (
    CONTROLS,
    centre_blob,
    ideal_coverage,
    uniform_noise,
)
from candlelight.evaluation.coverage.heatmap_streams import MaskStream
from candlelight.evaluation.coverage.thresholds import Explanations, binarise, set_threshold
from candlelight.evaluation.coverage.waiou import part_iou
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.views import PartImage
from tests.refusals import refused

SHARES = (0.05, 0.2, 0.35)


def ideal(masks, parts, resolution, proportions, groups=None, **options):
    choose = "others" if groups else "same"
    chosen = CoverageOptions(proportions=tuple(proportions), choose=choose, **options)
    return ideal_coverage(
        masks, parts, resolution, chosen, groups or [*map(str, range(len(masks.annotated)))]
    )


def _images(count, height=12, width=10, seed=0):
    return torch.rand(count, 3, height, width, generator=torch.Generator().manual_seed(seed))


def _stream(*images):
    """Make a stream of masks: for each image, masks by the name of the part."""
    masks = MaskStream()
    for image in images:
        masks.append({name: torch.as_tensor(mask).bool() for name, mask in image.items()})
    return masks


def _blocks(count, height=12, width=16, seed=0):
    """Draw a rectangle of at least 3 x 4 pixels in each image."""
    rng = np.random.default_rng(seed)
    masks = np.zeros((count, height, width), bool)
    for mask in masks:
        top, left = rng.integers(height - 3), rng.integers(width - 4)
        mask[top : top + rng.integers(3, 7), left : left + rng.integers(4, 9)] = True
    return masks


def test_noise_depends_on_the_image_alone():
    images = _images(7)
    whole = uniform_noise(images)
    assert whole.shape == (7, 1, 12, 10)
    torch.testing.assert_close(uniform_noise(images.flip(0)), whole.flip(0), rtol=0, atol=0)
    for number in range(7):
        assert (uniform_noise(images[number : number + 1]) == whole[number]).all()
    eighths = (images * 255).round() / 255
    assert (uniform_noise(eighths) == uniform_noise(eighths + 1e-6)).all()
    assert not (whole[0] == whole[1]).any()
    assert not (uniform_noise(images, seed=1) == whole).any()


def test_noise_is_uniform():
    values = uniform_noise(_images(10, 50, 40)).flatten().sort().values.double()
    # Kolmogorov's distance of 20 000 points exceeds 0.0138 in one of 1000 samples.
    assert (values - torch.linspace(0, 1, len(values))).abs().max() < 0.0138


def test_noise_covers_as_much_as_chance():
    count, height, width, p = 400, 32, 32, 0.1
    mask = torch.zeros(height, width, dtype=torch.bool)
    mask[4:12, 8:24] = True
    pixels, area = height * width, int(mask.sum())
    heatmap = uniform_noise(_images(count, height, width))[:, 0]
    binary = binarise(heatmap, set_threshold(Explanations(heatmap, torch.zeros(count, 1).long()), p))
    shared, union = ((binary & mask).sum((1, 2)).double(), (binary | mask).sum((1, 2)).double())

    a = area / pixels
    ratio = p * a / (p + a - p * a)
    spread = float((shared - ratio * union).std()) / float(union.mean()) / math.sqrt(count)
    assert abs(float(shared.sum() / union.sum()) - ratio) < 3 * spread

    outside = np.arange(pixels - area + 1)
    mean = p * area * (binom.pmf(outside, pixels - area, p) / (area + outside)).sum()
    assert mean == pytest.approx(ratio * (1 + (1 - a) * p * (1 - p) / (pixels * (p + a - p * a) ** 2)), 1e-4)
    iou = part_iou(binary, mask.expand(count, 1, -1, -1))[:, 0]
    assert abs(float(iou.mean()) - mean) < 3 * float(iou.std()) / math.sqrt(count)
    assert 3 * float(iou.std()) / math.sqrt(count) < mean / 20


def test_centre_by_hand():
    assert centre_blob(torch.zeros(2, 3, 1, 1)).flatten().tolist() == [1, 1]
    blob = centre_blob(torch.zeros(1, 3, 3, 3))[0, 0]
    np.testing.assert_allclose(blob, [[5 / 9, 7 / 9, 5 / 9], [7 / 9, 1, 7 / 9], [5 / 9, 7 / 9, 5 / 9]], 1e-6)
    wide = centre_blob(torch.zeros(1, 3, 6, 9))[0, 0]
    for turned in (wide.flip(0), wide.flip(1)):
        torch.testing.assert_close(turned, wide)


def test_scores_of_the_controls(memory_view):
    images = _images(9, 12, 16)
    masks = torch.zeros(12, 16, dtype=torch.bool)
    masks[5:7, 6:10] = True
    items = [PartImage(image, {"middle": masks, "corner": masks.roll((5, 6), (0, 1))}) for image in images]
    view = memory_view(items)
    results = evaluate("coverage", view, CONTROLS, device="cpu", quick=True, batch_size=4)
    assert results["constant"].score == 0
    assert results["constant"].failed == view.ids
    # The 8 pixels next to the middle, and no other pixel.
    assert results["centre"].details["mean_iou"] == [None, 1]
    assert 0 < results["noise"].scores["mean_iou"].value < 0.2


def test_controls_say_their_colour_space():
    assert {one.colour_space for one in identify_models(CONTROLS, [], "linear", None).values()} == {"srgb"}


@pytest.mark.parametrize("control", CONTROLS.values())
def test_control_of_a_single_image(control):
    with refused(r"expected `images` \[batch, 3, height, width\], got \[3, 4, 5\]"):
        control(torch.zeros(3, 4, 5))


@pytest.mark.parametrize("compat", ["exact", "waiou2023"])
def test_mask_covers_itself(compat):
    masks = _stream(*({"a": one, "b": two} for one, two in zip(_blocks(6), _blocks(6, seed=1), strict=True)))
    found = ideal(masks, ["b", "a"], (12, 16), [0.05], compat=compat)
    assert found.mean_iou.tolist() == [1, 1]
    assert (found.iou == 1).all()


def test_larger_share_than_the_part():
    masks = _stream({"a": _blocks(1)[0]})
    assert ideal(masks, ["a"], (12, 16), [0.9]).mean_iou.tolist() == [1]
    # The threshold is 0, and by the paper's rule every point reaches it.
    paper = ideal(masks, ["a"], (12, 16), [0.9], compat="waiou2023").mean_iou
    assert paper.tolist() == [_blocks(1).mean()]


def test_ideal_by_hand():
    # Cells 1 and 1/2, resized to 1, 7/8, 5/8, 1/2: shares of 1/4 and 1/2 mark one and two of three pixels.
    masks = _stream({"a": [[True, True, True, False]]})
    found = ideal(masks, ["a"], (1, 2), [0.25, 0.5])
    assert found.best_proportion.tolist() == [1]
    assert found.mean_iou.tolist() == [2 / 3]
    assert ideal(masks, ["a"], (1, 2), [0.25]).mean_iou.tolist() == [1 / 3]
    assert ideal(masks, ["a"], (1, 2), [0.75]).mean_iou.tolist() == [1]


@pytest.mark.parametrize("threshold_at", ["mask", "map"])
@pytest.mark.parametrize("pooling", ["set", "image"])
@pytest.mark.parametrize("resolution", [(3, 4), (24, 32)])
def test_ideal_equals_averages_in_loops(resolution, pooling, threshold_at):
    masks = _blocks(5)
    fine = masks.repeat(resolution[0], 1).repeat(resolution[1], 2)
    heatmaps = np.zeros((5, *resolution), np.float32)
    for image in range(5):
        for row in range(resolution[0]):
            for column in range(resolution[1]):
                cell = fine[image, 12 * row : 12 * row + 12, 16 * column : 16 * column + 16]
                heatmaps[image, row, column] = cell.mean()
    explained = Explanations(torch.from_numpy(heatmaps), torch.zeros(5, 1, dtype=torch.int64))
    resized = explained.resized(12, 16)
    means = []
    for share in SHARES:
        thresholds = set_threshold(resized if threshold_at == "mask" else explained, share, pooling)
        iou = part_iou(binarise(resized.heatmap, thresholds), torch.from_numpy(masks)[:, None])
        means.append(float(iou.mean()))
    stream = _stream(*({"a": mask} for mask in masks))
    found = ideal(stream, ["a"], resolution, SHARES, pooling=pooling, threshold_at=threshold_at)
    assert found.best_proportion.tolist() == [np.argmax(means)]
    assert found.mean_iou.tolist() == pytest.approx([max(means)], abs=1e-12)


def test_proportions_of_the_ideal_are_chosen_on_other_images():
    blocks, groups = _blocks(10), list("aabbccddee")
    masks, shares = _stream(*({"a": mask} for mask in blocks)), np.arange(0.05, 0.4, 0.02).tolist()
    iou = np.stack([ideal(masks, ["a"], (3, 4), [share]).iou[:, 0].numpy() for share in shares])
    expected = []
    for image, group in enumerate(groups):
        others = [row for row in range(10) if groups[row] != group]
        expected.append(iou[iou[:, others].mean(1).argmax(), image])
    crossed, same = (ideal(masks, ["a"], (3, 4), shares, groups=some) for some in (groups, None))
    assert crossed.iou[:, 0].tolist() == expected
    assert float(crossed.mean_iou) < float(same.mean_iou)
    assert crossed.best_proportion.tolist() == same.best_proportion.tolist()


def test_images_without_the_part_change_nothing():
    blocks = _blocks(4)
    empty = np.zeros_like(blocks[0])
    alone = _stream(*({"a": mask} for mask in blocks))
    among = _stream({"b": blocks[0]}, {"a": empty}, *({"a": mask} for mask in blocks), {})
    few, many = (ideal(masks, ["a"], (3, 4), SHARES) for masks in (alone, among))
    assert many.iou[[0, 1, -1]].isnan().all()
    torch.testing.assert_close(many.iou[2:-1], few.iou, rtol=0, atol=0)
    torch.testing.assert_close(many.mean_iou, few.mean_iou)


def test_part_that_no_image_shows():
    masks = _stream({"a": _blocks(1)[0], "b": np.zeros((12, 16))})
    found = ideal(masks, ["b", "tail", "a"], (12, 16), SHARES)
    assert found.mean_iou.isnan().tolist() == [True, True, False]
    assert found.best_proportion.tolist() == [0, 0, 0]


def test_part_that_fills_an_image_has_a_dead_heatmap():
    masks = _stream({"a": np.ones((12, 16))}, {"a": _blocks(1)[0]})
    assert ideal(masks, ["a"], (12, 16), [0.05]).iou[:, 0].tolist() == [0, 1]
