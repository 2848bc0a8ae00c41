import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.lmse import ENERGY_FLOOR, gray, lmse, lmse_score
from candlelight.loaders.errors import InputError


def drawn(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.from_numpy(rng.uniform(0, 1, shape))


@pytest.mark.parametrize(
    ("height", "width", "window", "step"),
    [
        pytest.param(20, 20, 20, 10, id="one window"),
        pytest.param(47, 64, 20, 10, id="rows and columns left over"),
        pytest.param(31, 25, 7, 3, id="odd window"),
        pytest.param(12, 9, 4, 6, id="gaps between windows"),
        pytest.param(236, 705, 20, 10, id="several strips"),
        pytest.param(50, 2900, 12, 9, id="blocks smaller than a step"),
    ],
)
@pytest.mark.parametrize("kind", ["all", "boolean", "weights"])
def test_equals_the_loop_over_windows_in_the_range_of_the_benchmark(
    loop_lmse, height: int, width: int, window: int, step: int, kind: str
) -> None:
    rng = np.random.default_rng(7)
    prediction, target = drawn(rng, 3, height, width), drawn(rng, 3, height, width)
    weights = drawn(rng, 3, height, width)
    mask = {"all": weights >= 0, "boolean": weights < 0.4, "weights": weights}[kind]
    found = lmse(prediction, target, mask, window, step)
    images = 257 * prediction[:, None].numpy(), 257 * target[:, None].numpy(), mask.numpy()
    wanted = [loop_lmse(*(values[row] for values in images), window, step) for row in range(3)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_samples_of_a_large_batch_are_scored_alone() -> None:
    rng = np.random.default_rng(8)
    images = drawn(rng, 70, 40, 40), drawn(rng, 70, 40, 40), drawn(rng, 70, 40, 40)
    alone = torch.cat([lmse(*(image[row : row + 1] for image in images)) for row in range(70)])
    torch.testing.assert_close(lmse(*images), alone, rtol=1e-12, atol=0)


def test_gradient_is_finite() -> None:
    prediction, target, mask = drawn(np.random.default_rng(9), 3, 2, 40, 40)
    prediction[0], mask[:, :20] = 0, 0
    lmse(prediction.requires_grad_(), target, mask).sum().backward()
    assert prediction.grad is not None
    assert prediction.grad.isfinite().all()


def test_one_window_by_hand() -> None:
    target = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    # The best multiple of a constant is the mean 2.5; 2.25 + 0.25 + 0.25 + 2.25 is left of 30.
    assert lmse(torch.ones(1, 2, 2), target, torch.ones(1, 2, 2), window=2).item() == pytest.approx(5 / 30)


def test_step_is_half_a_window_unless_given() -> None:
    rng = np.random.default_rng(0)
    images = drawn(rng, 1, 40, 40), drawn(rng, 1, 40, 40), torch.ones(1, 40, 40)
    assert torch.equal(lmse(*images), lmse(*images, window=20, step=10))
    assert torch.equal(lmse(*images, window=1), lmse(*images, window=1, step=1))


def test_each_window_has_its_own_scale() -> None:
    target = drawn(np.random.default_rng(1), 1, 40, 40)
    prediction = target.clone()
    prediction[:, :20] *= 5
    mask = torch.ones(1, 40, 40)
    assert lmse(prediction, target, mask, window=20, step=20).item() < 1e-12
    assert lmse(prediction, target, mask).item() > 1e-3


def test_scale_and_sign_do_not_count() -> None:
    rng = np.random.default_rng(2)
    prediction, target, mask = drawn(rng, 2, 30, 30), drawn(rng, 2, 30, 30), torch.ones(2, 30, 30)
    plain = lmse(prediction, target, mask)
    torch.testing.assert_close(lmse(-3 * prediction, 0.5 * target, mask), plain)
    assert ((plain > 0) & (plain < 1)).all()


def test_window_without_energy_is_not_scaled() -> None:
    target, mask = torch.ones(1, 20, 20), torch.ones(1, 20, 20)
    level = (ENERGY_FLOOR / 400) ** 0.5
    found = [lmse(torch.full((1, 20, 20), factor * level), target, mask).item() for factor in (0.99, 1.01)]
    assert found == pytest.approx([1, 0], abs=1e-6)


@pytest.mark.parametrize(("floor", "wanted"), [(0.0, 0.0), (1e-5, 1.0)])
def test_floor_can_be_given(floor: float, wanted: float) -> None:
    dark, target, mask = torch.full((1, 20, 20), 1e-4), torch.ones(1, 20, 20), torch.ones(1, 20, 20)
    assert lmse(dark, target, mask, floor=floor).item() == pytest.approx(wanted, abs=1e-6)
    pair = [values.expand(1, 3, 20, 20) for values in (dark, dark, target, target)]
    assert lmse_score(*pair, mask, floor).item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("floor", [-1e-9, torch.nan])
def test_negative_floor(floor: float) -> None:
    image = torch.ones(1, 20, 20)
    with pytest.raises(InputError, match=f"`floor` must be at least 0, got {floor:g}; 0 scales every"):
        lmse(image, image, image, floor=floor)


def test_zeros_score_one_and_the_truth_zero() -> None:
    target = drawn(np.random.default_rng(3), 2, 45, 33).float()
    mask = torch.ones(2, 45, 33, dtype=torch.bool)
    assert lmse(torch.zeros_like(target), target, mask).tolist() == [1, 1]
    assert (lmse(target, target, mask) < 1e-12).all()


def test_rows_and_columns_beyond_the_last_window_are_not_seen() -> None:
    rng = np.random.default_rng(4)
    prediction, target, mask = drawn(rng, 1, 49, 49), drawn(rng, 1, 49, 49), torch.ones(1, 49, 49)
    plain = lmse(prediction, target, mask)
    prediction[:, 40:], prediction[:, :, 40:] = 9, 9
    assert torch.equal(lmse(prediction, target, mask), plain)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nothing_outside_the_mask_is_read(bad: float) -> None:
    rng = np.random.default_rng(5)
    prediction, target = drawn(rng, 1, 24, 24), drawn(rng, 1, 24, 24)
    mask = torch.ones(1, 24, 24, dtype=torch.bool)
    mask[:, 5:9] = False
    plain = lmse(prediction, target, mask)
    prediction[:, 5:9], target[:, 6] = bad, bad
    assert torch.equal(lmse(prediction, target, mask), plain)


@pytest.mark.parametrize("what", ["mask", "target"])
def test_nothing_to_compare_with_is_nan(what: str) -> None:
    images = {name: torch.ones(2, 20, 20) for name in ("prediction", "target", "mask")}
    images[what][0] = 0
    assert lmse(**images).isnan().tolist() == [True, False]


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [(torch.float16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_dtype_follows_the_prediction_but_is_never_half(dtype: torch.dtype, wanted: torch.dtype) -> None:
    image = torch.ones(1, 20, 20, dtype=dtype)
    assert lmse(image, image.half(), torch.ones(1, 20, 20)).dtype == wanted


def test_score_is_the_mean_of_both_gray_images(loop_lmse) -> None:
    rng = np.random.default_rng(6)
    images = [drawn(rng, 2, 3, 30, 41) for _ in range(4)]
    mask = drawn(rng, 2, 30, 41) < 0.8
    reflectance, shading, *truths = (257 * image.numpy().mean(1, keepdims=True) for image in images)
    wanted = [
        np.mean(
            [
                loop_lmse(given[row], true[row], mask[row].numpy())
                for given, true in zip((reflectance, shading), truths, strict=True)
            ]
        )
        for row in range(2)
    ]
    np.testing.assert_allclose(lmse_score(*images, mask).numpy(), wanted, rtol=1e-12)


def test_gray_of_half_precision_is_not_rounded_to_it() -> None:
    image = torch.tensor([1.0, 1.0, 1.0009765625]).half().reshape(1, 3, 1, 1)
    assert gray(image).item() == pytest.approx(1 + 0.0009765625 / 3, abs=1e-7)


@pytest.mark.parametrize("shape", [(19, 40), (40, 19)])
def test_image_smaller_than_a_window(shape: tuple[int, int]) -> None:
    image = torch.ones(1, *shape)
    with pytest.raises(InputError, match=f"window of 20x20 pixels, got {shape[0]}x{shape[1]}"):
        lmse(image, image, image)


@pytest.mark.parametrize(("window", "step"), [(0, 1), (4, 0), (4, -2)])
def test_window_and_step_below_one(window: int, step: int) -> None:
    image = torch.ones(1, 20, 20)
    with pytest.raises(InputError, match=f"at least 1 pixel, got {window} and {step}"):
        lmse(image, image, image, window, step)
