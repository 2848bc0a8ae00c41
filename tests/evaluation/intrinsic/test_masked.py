"""Failed predictions, undefined ground truth and invalid masks, in all metrics that use `masked`."""

from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.image_errors import mse, psnr, si_mse
from candlelight.evaluation.intrinsic.lmse import (
    lmse,
    lmse_barron,
    lmse_chrislib_rgb,
    lmse_score,
    lmse_sintel,
)
from candlelight.evaluation.intrinsic.masked import check_mask, is_failed
from candlelight.evaluation.intrinsic.ssim import dssim, ssim
from candlelight.loaders.errors import InputError

METRICS = [lmse, lmse_chrislib_rgb, lmse_barron, lmse_sintel, mse, si_mse, psnr, ssim, dssim]
BAD = [torch.nan, torch.inf, -torch.inf]


def _drawn(seed, *shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def images():
    mask = torch.ones(3, 25, 25, dtype=torch.bool)
    mask[:, 3] = False
    return _drawn(0, 3, 25, 25), _drawn(1, 3, 25, 25), mask


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [(0, 0), (24, 24)], ids=["in a window", "beyond the last window"])
@pytest.mark.parametrize("metric", METRICS)
def test_prediction_that_is_not_finite_has_no_score(metric, place, bad, images):
    prediction, target, mask = images
    plain = metric(prediction, target, mask)
    prediction[1, *place] = bad
    found = metric(prediction, target, mask)
    assert found.isnan().tolist() == [False, True, False]
    assert torch.equal(found[::2], plain[::2])
    assert is_failed(prediction, mask).tolist() == [False, True, False]


def test_prediction_that_is_not_finite_in_the_last_strip_has_no_score():
    prediction, target, mask = _drawn(5, 1, 305, 605), _drawn(6, 1, 305, 605), torch.ones(1, 305, 605)
    assert lmse(prediction, target, mask).isfinite().all()
    prediction[0, 304, 604] = torch.nan
    assert lmse(prediction, target, mask).isnan().all()


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("metric", METRICS)
def test_truth_that_is_not_finite_gives_no_score_and_no_failure(metric, bad, images):
    prediction, target, mask = images
    target[2, 7, 7] = bad
    assert metric(prediction, target, mask).isnan().tolist() == [False, False, True]
    assert not is_failed(prediction, mask).any()
    # Regression: an infinite target once gave a score to an all-zero prediction.
    assert metric(torch.zeros_like(prediction), target, mask).isnan().tolist() == [False, False, True]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("metric", METRICS)
def test_nothing_is_read_outside_the_mask(metric, bad, images):
    prediction, target, mask = images
    plain = metric(prediction, target, mask)
    prediction[:, 3], target[:, 3] = bad, bad
    assert torch.equal(metric(prediction, target, mask), plain)
    assert not is_failed(prediction, mask).any()


def test_a_failed_sample_does_not_improve_the_mean_of_the_others():
    good, target = _drawn(2, 4, 20, 20), _drawn(3, 4, 20, 20)
    mask = torch.ones(4, 20, 20)
    bad = good.clone()
    bad[lmse(good, target, mask).argmax(), 0, 0] = torch.inf
    found = torch.where(is_failed(bad, mask), 1.0, lmse(bad, target, mask))
    assert found.mean() > lmse(good, target, mask).mean()


@pytest.mark.parametrize("metric", METRICS)
def test_float64_values_whose_squares_overflow_are_failures(metric, images):
    prediction, target, mask = images
    huge = prediction.double()
    huge[0, 0, 0] = 1e200
    assert metric(huge, target.double(), mask).isnan().tolist() == [True, False, False]
    assert is_failed(huge, mask).tolist() == [True, False, False]


def test_failure_in_any_channel():
    image = _drawn(4, 2, 3, 20, 20)
    image[1, 2, 0, 0] = torch.nan
    mask = torch.ones(2, 20, 20)
    assert is_failed(image, mask).tolist() == [False, True]
    assert lmse_score(image, image, image.nan_to_num(), image.nan_to_num(), mask).isnan().tolist() == [
        False,
        True,
    ]
    mask[1, 0, 0] = 0
    assert not is_failed(image, mask).any()


def test_empty_masks_and_batches_fail_nothing():
    image = torch.full((1, 20, 20), torch.nan)
    assert is_failed(image, torch.zeros(1, 20, 20)).tolist() == [False]
    assert is_failed(torch.zeros(0, 3, 20, 20), torch.zeros(0, 20, 20)).tolist() == []
    none = torch.zeros(0, 20, 20)
    assert all(metric(none, none, none).tolist() == [] for metric in METRICS)


def test_images_without_pixels_have_no_error():
    image = torch.zeros(2, 0, 5)
    assert mse(image, image, image).isnan().all()
    assert not is_failed(image, image).any()


MASKS = {
    "negative": (torch.full((1, 20, 20), -1.0), "must lie from 0 to 1, got -1 to -1"),
    "0 and 255": (torch.full((1, 20, 20), 255.0), r"got 255 to 255; divide 0/255 masks by 255$"),
    "nan": (torch.full((1, 20, 20), torch.nan), "must lie from 0 to 1, got nan to nan"),
    "inf": (torch.full((1, 20, 20), torch.inf), "must lie from 0 to 1, got inf to inf"),
    "bytes": (
        torch.ones(1, 20, 20, dtype=torch.uint8),
        "boolean or float tensor, got torch.uint8; pass `mask > 0`",
    ),
}


@pytest.mark.parametrize(("mask", "message"), MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("metric", METRICS)
def test_invalid_masks_are_refused(metric, mask, message):
    image = torch.ones(1, 20, 20)
    with pytest.raises(InputError, match=f"^`mask` .*{message}"):
        unwrap(metric)(image, image, mask)
    with pytest.raises(InputError, match=message):
        unwrap(is_failed)(image, mask)


def test_mask_of_another_type_is_refused():
    with pytest.raises(InputError, match="`mask` must be a boolean or float tensor, got ndarray"):
        check_mask(np.ones(3))


@pytest.mark.parametrize(
    ("prediction", "target", "mask"),
    [
        ((2, 20, 20), (1, 20, 20), (2, 20, 20)),
        ((1, 20, 20), (2, 20, 20), (2, 20, 20)),
        ((2, 20, 20), (2, 20, 20), (1, 20, 20)),
        ((2, 20, 20), (2, 20, 1), (2, 20, 20)),
        ((2, 20, 20), (2, 20, 20), (20, 20)),
        ((20, 20), (20, 20), (20, 20)),
    ],
)
@pytest.mark.parametrize("metric", METRICS)
def test_shapes_are_not_broadcast(metric, prediction, target, mask):
    shapes = ", ".join(str(list(shape)) for shape in (prediction, target, mask))
    with pytest.raises(InputError, match="expected `prediction`") as caught:
        unwrap(metric)(torch.ones(prediction), torch.ones(target), torch.ones(mask))
    assert str(caught.value).endswith(f"got {shapes}")


@pytest.mark.parametrize("metric", METRICS[1:])
def test_one_channel_is_not_broadcast_to_three(metric):
    with pytest.raises(InputError, match=r"got \[2, 1, 4, 4\], \[2, 3, 4, 4\], \[2, 4, 4\]"):
        unwrap(metric)(torch.ones(2, 1, 4, 4), torch.ones(2, 3, 4, 4), torch.ones(2, 4, 4))


def test_score_of_images_without_three_channels():
    image, one = torch.ones(1, 3, 20, 20), torch.ones(1, 1, 20, 20)
    with pytest.raises(InputError, match=r"`shading` \[batch, 3, height, width\].*\[1, 3, 20, 20\], \[1, 1,"):
        unwrap(lmse_score)(image, one, image, image, torch.ones(1, 20, 20))


@pytest.mark.parametrize("metric", METRICS)
def test_numpy_is_refused(metric):
    with pytest.raises(InputError, match="`prediction` must be a torch tensor, got ndarray"):
        unwrap(metric)(np.ones((1, 20, 20)), torch.ones(1, 20, 20), torch.ones(1, 20, 20))
