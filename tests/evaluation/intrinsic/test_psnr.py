import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.image_errors import psnr
from candlelight.loaders.errors import InputError


def test_equals_the_formula() -> None:
    rng = np.random.default_rng(0)
    prediction, target = rng.uniform(0, 1, (2, 2, 3, 7, 9))
    mask = rng.uniform(0, 1, (2, 7, 9)) < 0.5
    found = psnr(*map(torch.from_numpy, (prediction, target, mask)), data_range=2.0)
    for row in range(2):
        error = np.mean((prediction[row] - target[row])[:, mask[row]] ** 2)
        assert found[row].item() == pytest.approx(20 * np.log10(2) - 10 * np.log10(error))


def test_range_moves_the_result_by_decibels() -> None:
    images = torch.full((1, 3, 2, 2), 0.6), torch.full((1, 3, 2, 2), 0.5), torch.ones(1, 2, 2)
    bytes_ = 255 * images[0], 255 * images[1], images[2]
    torch.testing.assert_close(psnr(*bytes_, data_range=255), psnr(*images))
    torch.testing.assert_close(psnr(*images, data_range=10), psnr(*images) + 20)


def test_no_error_is_infinite_and_nothing_to_compare_is_nan() -> None:
    image, mask = torch.rand(3, 4, 4), torch.ones(3, 4, 4)
    mask[1], image[2, 0, 0] = 0, torch.nan
    found = psnr(image, image, mask)
    assert found[0] == torch.inf
    assert found[1:].isnan().all()


@pytest.mark.parametrize("data_range", [0.0, -1.0, torch.inf, torch.nan])
def test_invalid_range(data_range: float) -> None:
    image = torch.ones(1, 2, 2)
    with pytest.raises(InputError, match="`data_range` must be a finite number above 0"):
        psnr(image, image, image, data_range)
