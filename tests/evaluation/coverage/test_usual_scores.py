"""Deletion, insertion, pointing game, randomised layers: cases by hand, slow references, degenerate maps."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from candlelight.evaluation.coverage.explainers import open_explainer
from candlelight.evaluation.coverage.usual_scores import (
    baseline_images,
    cascade_layers,
    curve_area,
    pixel_curves,
    pointing_hits,
    randomised_similarity,
)
from tests.refusals import refused

ONE = torch.tensor([0])


def brightness(images: torch.Tensor) -> torch.Tensor:
    """Score class 0 by the mean of the image, class 1 by its opposite."""
    mean = images.mean((1, 2, 3))
    return torch.stack([mean, 1 - mean], 1)


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(3))


def test_curves_by_hand() -> None:
    image = torch.tensor([[0.1, 0.2], [0.3, 0.4]]).expand(1, 3, 2, 2)
    black = torch.zeros_like(image)
    best, worst = image[:, 0], -image[:, 0]
    for maps, mode, expected in (
        (best, "deletion", [0.25, 0.15, 0.075, 0.025, 0]),
        (worst, "deletion", [0.25, 0.225, 0.175, 0.1, 0]),
        (best, "insertion", [0, 0.1, 0.175, 0.225, 0.25]),
    ):
        curve = pixel_curves(brightness, image, maps, ONE, black, steps=4, mode=mode)
        torch.testing.assert_close(curve, torch.tensor([expected]))
        area = (sum(expected) - (expected[0] + expected[-1]) / 2) / 4
        torch.testing.assert_close(curve_area(curve), torch.tensor([area]))
    other = pixel_curves(brightness, image, best, ONE + 1, black, steps=2)
    torch.testing.assert_close(other, torch.tensor([[0.75, 1 - 0.075, 1]]))


def test_curves_are_those_of_a_loop_over_images_and_steps() -> None:
    images, maps, targets = drawn(3, 3, 5, 7), drawn(3, 5, 7) - 0.5, torch.tensor([0, 1, 0])
    found = pixel_curves(brightness, images, maps, targets, "gray", steps=6)
    for row in range(3):
        order = np.argsort(-maps[row].numpy().ravel(), kind="stable")
        for step in range(7):
            pixels = images[row].numpy().reshape(3, -1).copy()
            pixels[:, order[: step * 35 // 6]] = 0.5
            mean = pixels.mean()
            assert float(found[row, step]) == pytest.approx((mean, 1 - mean)[targets[row]], abs=1e-6)


def test_curves_end_at_image_and_baseline_for_any_map() -> None:
    images, maps = drawn(2, 3, 8, 8), drawn(2, 4, 4)
    blank = brightness(baseline_images(images, "blur"))[:, 0]
    for mode, ends in (("deletion", (0, -1)), ("insertion", (-1, 0))):
        curve = pixel_curves(brightness, images, maps, torch.zeros(2).long(), "blur", steps=3, mode=mode)
        torch.testing.assert_close(curve[:, ends[0]], brightness(images)[:, 0])
        torch.testing.assert_close(curve[:, ends[1]], blank)


def test_curves_of_maps_without_values() -> None:
    images, maps = drawn(2, 3, 4, 4), torch.zeros(2, 4, 4)
    maps[1, 0, 0] = torch.nan
    curve = pixel_curves(brightness, images, maps, torch.zeros(2).long(), steps=2)
    assert curve.isnan().all(1).tolist() == [False, True]
    upper = images[0].clone()
    upper[:, :2] = 0.5  # a constant map takes pixels in the order of rows
    torch.testing.assert_close(curve[0, 1], upper.mean())


def test_blur_keeps_what_is_even_and_spreads_a_point() -> None:
    even = torch.full((1, 3, 40, 60), 0.3)
    torch.testing.assert_close(baseline_images(even, "blur"), even)
    point = torch.zeros(1, 3, 41, 61)
    point[..., 20, 30] = 1
    spread = baseline_images(point, "blur")
    torch.testing.assert_close(spread.sum((2, 3)), torch.ones(1, 3))
    assert float(spread[0, 0, 20, 30]) == pytest.approx(1 / (2 * np.pi * 2.05**2), rel=0.01)
    torch.testing.assert_close(spread, spread.flip(2).flip(3))
    assert baseline_images(torch.zeros(1, 3, 1, 1), "blur").tolist() == [[[[0.0]]] * 3]


def test_pointing_by_hand() -> None:
    masks = torch.zeros(5, 9, 9, dtype=torch.bool)
    masks[:4, 4, 4] = True
    maps = torch.zeros(5, 9, 9)
    maps[0, 7, 8] = 1  # 3 rows and 4 columns away: a distance of 5
    maps[1, 4, 4] = maps[1, 0, 0] = 1
    maps[3, 0, 0] = torch.nan
    maps[4, 0, 0] = 1
    assert pointing_hits(maps, masks, 5)[:4].tolist() == [1, 0.5, 0, 0]
    assert pointing_hits(maps, masks, 4.9)[:4].tolist() == [0, 0.5, 0, 0]
    assert pointing_hits(maps, masks, 0)[4].isnan()
    coarse = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])  # its largest points are the upper right ones
    assert pointing_hits(coarse, masks[:1], 1).tolist() == [0]
    assert pointing_hits(coarse, masks[:1], 15).tolist() == [1]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    convolutions = (nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU())
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(4 * 144, 5)).eval()


def test_cascade_is_that_of_a_network_whose_layers_are_randomised_by_hand() -> None:
    images, targets, model = drawn(2, 3, 16, 16), torch.tensor([0, 4]), network()
    kept = copy.deepcopy(model.state_dict())
    explain = open_explainer("occlusion,window=4", model).explain
    layers = cascade_layers(model)
    assert layers == ["6", "3", "1", "0"]
    found = randomised_similarity(model, explain, images, targets, layers, seed=7)
    assert all(torch.equal(kept[name], values) for name, values in model.state_dict().items())
    other, draws = network(), torch.Generator().manual_seed(7)
    first = open_explainer("occlusion,window=4", other).explain(images, targets)
    for row, layer in enumerate(layers):
        for weights in other.get_submodule(layer).parameters():
            drawn_now = torch.randn(weights.shape, generator=draws)
            weights.data = weights.data.mean() + weights.data.std(correction=0) * drawn_now
        now = open_explainer("occlusion,window=4", other).explain(images, targets)
        for place in range(2):
            expected = spearmanr(first[place].ravel(), now[place].ravel()).statistic
            assert float(found[row, place]) == pytest.approx(expected, abs=1e-5)
    again = randomised_similarity(model, explain, images, targets, layers, seed=7)
    assert torch.equal(found, again)
    assert not torch.equal(found, randomised_similarity(model, explain, images, targets, layers, seed=8))


def test_maps_that_ignore_the_network_stay_the_same_and_bad_ones_have_no_similarity() -> None:
    images, targets, model = drawn(3, 3, 16, 16), torch.zeros(3).long(), network()
    images[1], images[2] = 0.5, torch.nan
    for measure, even in (("spearman", torch.nan), ("ssim", 1.0)):
        found = randomised_similarity(
            model, lambda images, _: images[:, 0], images, targets, ["0", "6"], measure=measure
        )
        expected = torch.tensor([1.0, even, torch.nan]).expand(2, -1)
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_weights_return_after_an_explainer_that_fails() -> None:
    model, calls = network(), []
    kept = copy.deepcopy(model.state_dict())

    def explain(images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return images[:, 0] if len(calls) < 2 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        randomised_similarity(model, explain, drawn(1, 3, 16, 16), ONE, ["0"])
    assert all(torch.equal(kept[name], values) for name, values in model.state_dict().items())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: pixel_curves(brightness, drawn(1, 3, 2, 2), drawn(1, 2, 2), ONE, "grey"),
            "did you mean `gray`",
        ),
        (
            lambda: pixel_curves(brightness, drawn(1, 3, 2, 2), drawn(1, 2, 2), ONE, steps=0),
            "`steps` must be at",
        ),
        (lambda: pixel_curves(brightness, drawn(1, 3, 2, 2), drawn(2, 2, 2), ONE), "`maps`"),
        (
            lambda: pixel_curves(brightness, drawn(1, 3, 2, 2), drawn(1, 2, 2), ONE, mode="delete"),
            "`mode` must be one of: deletion, insertion",
        ),
        (
            lambda: pixel_curves(lambda images: images, drawn(1, 3, 2, 2), drawn(1, 2, 2), ONE),
            r"expected logits \[1, classes\]",
        ),
        (
            lambda: pointing_hits(drawn(1, 2, 2), drawn(1, 2, 2) > 0, -1),
            "`tolerance` must be at least 0, got -1",
        ),
        (
            lambda: randomised_similarity(network(), lambda *_: None, drawn(1, 3, 2, 2), ONE, ["9"]),
            "layer `9` is not in the model",
        ),
        (
            lambda: randomised_similarity(
                network(), lambda images, _: images[:, 0], drawn(1, 3, 8, 8), ONE, ["0"], measure="ssim"
            ),
            "SSIM needs images of at least 11x11 pixels",
        ),
    ],
)
def test_bad_arguments(call, message) -> None:
    with refused(message):
        call()
