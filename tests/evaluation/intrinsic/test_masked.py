"""Failed predictions, undefined ground truth and invalid masks, in all metrics that use `masked`."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic import masked
from candlelight.evaluation.intrinsic.image_errors import mse, psnr, si_mse
from candlelight.evaluation.intrinsic.lmse import lmse, lmse_barron, lmse_chrislib_rgb, lmse_sintel
from candlelight.evaluation.intrinsic.masked import check_mask, is_failed
from candlelight.evaluation.intrinsic.protocol_records import dssim_crefnet, lmse_crefnet
from candlelight.evaluation.intrinsic.ssim import dssim, ms_ssim, ssim, ssim_padded
from tests.refusals import refused

METRICS = [
    *(lmse, lmse_chrislib_rgb, lmse_barron, lmse_sintel, lmse_crefnet),
    *(mse, si_mse, psnr, ssim, ssim_padded, dssim, dssim_crefnet, ms_ssim),
]
BAD = torch.tensor([torch.nan, torch.inf, -torch.inf])


@pytest.fixture(params=METRICS, ids=lambda metric: metric.__name__)
def metric(request):
    return request.param


@pytest.fixture
def images(metric):
    """Four pairs of images, and a mask that lacks one row of pixels."""
    side = 161 if metric is ms_ssim else 25
    draws = torch.Generator().manual_seed(0)
    mask = torch.ones(4, side, side, dtype=torch.bool)
    mask[:, 3] = False
    return [*torch.rand(2, 4, side, side, generator=draws), mask]


@pytest.mark.parametrize("place", [(0, 0), (-1, -1)], ids=["in a window", "beyond the last window"])
def test_prediction_that_is_not_finite_has_no_score(metric, place, images):
    prediction, target, mask = images
    plain = metric(*images)
    prediction[1:, *place] = BAD
    found = metric(prediction, target, mask)
    assert found.isnan().tolist() == [False, True, True, True]
    assert found[0] == plain[0]
    assert is_failed(prediction, mask).tolist() == [False, True, True, True]


def test_truth_that_is_not_finite_gives_no_score_and_no_failure(metric, images):
    prediction, target, mask = images
    target[1:, 7, 7] = BAD
    # An infinite target must not give a score to an all-zero prediction.
    for given in (prediction, 0 * prediction):
        assert metric(given, target, mask).isnan().tolist() == [False, True, True, True]
        assert not is_failed(given, mask).any()


def test_float64_values_whose_squares_overflow_are_failures(metric, images):
    prediction, target, mask = images
    huge = prediction.double()
    huge[0, 0, 0] = 1e200
    assert metric(huge, target.double(), mask).isnan().tolist() == [True, False, False, False]
    assert is_failed(huge, mask).tolist() == [True, False, False, False]


def test_dtype_follows_the_prediction_but_is_never_half(metric, images):
    prediction, target, mask = images
    assert metric(prediction.half(), target.double(), mask).dtype == torch.float32
    assert metric(prediction.double(), target.half(), mask).dtype == torch.float64


def test_images_are_scored_in_parts_that_fit_in_memory(metric, images, monkeypatch):
    plain = metric(*images)
    monkeypatch.setattr(masked, "chunk_length", lambda device: 300)
    torch.testing.assert_close(metric(*images), plain, rtol=1e-5, atol=0)
    images[0][1, -1, -1] = torch.nan
    assert metric(*images).isnan().tolist() == [False, True, False, False]


@pytest.mark.usefixtures("unchecked")
def test_images_of_integers_have_the_score_of_their_numbers(metric, images):
    prediction, target = ((255 * image).byte() for image in images[:2])
    wanted = metric(prediction.float(), target.float(), images[2])
    torch.testing.assert_close(metric(prediction, target, images[2]), wanted)


def test_arrays_are_refused(metric, images):
    prediction, target, mask = images
    with refused("`prediction` must be a torch tensor, got ndarray"):
        metric(prediction.numpy(), target, mask)


def test_a_value_of_any_channel_inside_the_mask_fails():
    image = torch.ones(2, 3, 5, 5)
    image[1, 2, 0, 0] = torch.nan
    mask = torch.ones(2, 5, 5)
    assert is_failed(image, mask).tolist() == [False, True]
    mask[1, 0, 0] = 0
    assert not is_failed(image, mask).any()
    none = torch.zeros(2, 0, 5)
    assert not is_failed(none, none).any()
    assert mse(none, none, none).isnan().all()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(3, dtype=torch.uint8), "got torch.uint8; pass `mask > 0`$"),
        (np.ones(3), "must be a boolean or float tensor, got ndarray"),
        (torch.tensor([0.0, 255.0]), "must lie from 0 to 1, got 0 to 255; divide 0/255 masks by 255$"),
    ],
)
def test_masks_are_boolean_or_weights(mask, message):
    with refused(f"^`mask` .*{message}"):
        check_mask(mask)
