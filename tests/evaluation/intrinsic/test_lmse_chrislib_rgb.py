import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.lmse import lmse, lmse_chrislib_rgb
from candlelight.loaders.errors import InputError


def drawn(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.from_numpy(rng.uniform(0, 1, shape))


@pytest.mark.parametrize(
    ("height", "width", "window", "step"),
    [
        pytest.param(16, 16, 16, 8, id="one window"),
        pytest.param(37, 50, 16, 8, id="rows and columns left over"),
        pytest.param(23, 31, 7, 3, id="odd window"),
        pytest.param(120, 400, 16, 8, id="several strips"),
    ],
)
@pytest.mark.parametrize("kind", ["boolean", "weights"])
def test_equals_the_loop_over_windows(
    loop_lmse, height: int, width: int, window: int, step: int, kind: str
) -> None:
    rng = np.random.default_rng(0)
    prediction, target = drawn(rng, 2, 3, height, width), drawn(rng, 2, 3, height, width)
    prediction[0, :, :9, :9] = 1e-4  # below the floor
    weights = drawn(rng, 2, height, width)
    mask = weights < 0.6 if kind == "boolean" else weights
    found = lmse_chrislib_rgb(prediction, target, mask, window, step)
    images = [values.numpy().astype(float) for values in (prediction, target, mask)]
    wanted = [loop_lmse(*(values[row] for values in images), window, step) for row in range(2)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_windows_are_those_of_the_paper_unless_given() -> None:
    rng = np.random.default_rng(1)
    images = drawn(rng, 1, 3, 40, 40), drawn(rng, 1, 3, 40, 40), torch.ones(1, 40, 40)
    assert torch.equal(lmse_chrislib_rgb(*images), lmse_chrislib_rgb(*images, window=16, step=8))
    assert torch.equal(lmse_chrislib_rgb(*images, window=1), lmse_chrislib_rgb(*images, window=1, step=1))


def test_one_pixel_by_hand() -> None:
    target = torch.tensor([3.0, 0.0, 1.0]).reshape(1, 3, 1, 1)
    # White is scaled by 4/3: errors of 5/3, 4/3 and 1/3, so 42/9 of 10 is left. Per channel, 0 would be left.
    found = lmse_chrislib_rgb(torch.ones(1, 3, 1, 1), target, torch.ones(1, 1, 1), window=1)
    assert found.item() == pytest.approx(42 / 90)


def test_gray_images_have_the_score_of_grosse_but_for_window_and_floor() -> None:
    rng = np.random.default_rng(2)
    gray, target, mask = drawn(rng, 2, 30, 30), drawn(rng, 2, 30, 30), drawn(rng, 2, 30, 30)
    wanted = lmse(gray, target, mask, window=16, step=8, floor=1e-5)
    torch.testing.assert_close(lmse_chrislib_rgb(gray, target, mask), wanted, rtol=1e-12, atol=0)
    repeated = [values.unsqueeze(1).expand(2, 3, 30, 30) for values in (gray, target)]
    torch.testing.assert_close(lmse_chrislib_rgb(*repeated, mask), wanted, rtol=1e-12, atol=0)


def test_colour_counts() -> None:
    target, mask = drawn(np.random.default_rng(3), 1, 3, 20, 20), torch.ones(1, 20, 20)
    tinted = target * torch.tensor([1.0, 0.5, 0.25])[:, None, None]
    assert lmse_chrislib_rgb(tinted, target, mask).item() > 0.1
    assert lmse_chrislib_rgb(-3 * target, target, mask).item() < 1e-12


@pytest.mark.parametrize(("floor", "wanted"), [(0.0, 0.0), (1e-5, 1.0)])
def test_floor(floor: float, wanted: float) -> None:
    dark, target, mask = torch.full((1, 16, 16), 1e-4), torch.ones(1, 16, 16), torch.ones(1, 16, 16)
    assert lmse_chrislib_rgb(dark, target, mask, floor=floor).item() == pytest.approx(wanted, abs=1e-6)


def test_image_smaller_than_a_window() -> None:
    image = torch.ones(1, 3, 15, 40)
    with pytest.raises(InputError, match="window of 16x16 pixels, got 15x40"):
        lmse_chrislib_rgb(image, image, image[:, 0])
