import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.image_errors import mse, si_mse
from candlelight.evaluation.intrinsic.lmse import ENERGY_FLOOR
from candlelight.loaders.errors import InputError


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, shape))


@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 3, 5, 7)], ids=["gray", "colour"])
@pytest.mark.parametrize("kind", ["boolean", "weights"])
def test_both_equal_a_loop_over_pixels(shape: tuple[int, ...], kind: str) -> None:
    prediction, target, weights = drawn(0, *shape), drawn(1, *shape), drawn(2, 2, 5, 7)
    mask = weights if kind == "weights" else weights < 0.5
    for row in range(2):
        values = [
            (mask[row, y, x].item(), prediction[row, ..., y, x].ravel(), target[row, ..., y, x].ravel())
            for y in range(5)
            for x in range(7)
        ]
        count = sum(m * len(p) for m, p, _ in values)
        scale = sum(m * (p @ t) for m, p, t in values) / sum(m * (p @ p) for m, p, _ in values)
        plain = sum(m * ((t - p) ** 2).sum() for m, p, t in values) / count
        scaled = sum(m * ((t - scale * p) ** 2).sum() for m, p, t in values) / count
        torch.testing.assert_close(mse(prediction, target, mask)[row], plain)
        torch.testing.assert_close(si_mse(prediction, target, mask)[row], scaled)


def test_by_hand() -> None:
    target, prediction = torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[1.0, 1.0]]])
    mask = torch.ones(1, 1, 2)
    assert mse(prediction, target, mask).item() == 2
    assert si_mse(prediction, target, mask).item() == 1  # scaled by 2: errors of 1 and 1
    assert mse(prediction, target, torch.tensor([[[0.0, 1.0]]])).item() == 4


def test_only_si_mse_is_blind_to_scale() -> None:
    prediction, target, mask = drawn(3, 1, 3, 6, 6), drawn(4, 1, 3, 6, 6), torch.ones(1, 6, 6)
    torch.testing.assert_close(si_mse(-4 * prediction, target, mask), si_mse(prediction, target, mask))
    assert mse(4 * prediction, target, mask) > mse(prediction, target, mask)
    assert si_mse(prediction, target, mask) <= mse(prediction, target, mask)


def test_prediction_without_energy_is_not_scaled() -> None:
    target, mask = torch.ones(1, 2, 2), torch.ones(1, 2, 2)
    level = (ENERGY_FLOOR / 4) ** 0.5
    found = [si_mse(torch.full((1, 2, 2), factor * level), target, mask).item() for factor in (0.99, 1.01)]
    assert found == pytest.approx([1, 0], abs=1e-6)


@pytest.mark.parametrize(("floor", "wanted"), [(0.0, 0.0), (1e-5, 1.0)])
def test_floor_of_si_mse_can_be_given(floor: float, wanted: float) -> None:
    dark, target, mask = torch.full((1, 2, 2), 1e-4), torch.ones(1, 2, 2), torch.ones(1, 2, 2)
    assert si_mse(dark, target, mask, floor=floor).item() == pytest.approx(wanted, abs=1e-6)


def test_cap_cuts_the_scaled_prediction() -> None:
    target, prediction = torch.tensor([[[1.0, 0.5, 0.5]]]), torch.tensor([[[4.0, 1.0, 1.0]]])
    mask = torch.ones(1, 1, 3)
    # Scale 5/18: 10/9, 5/18 and 5/18; errors 1/9 and twice 2/9. With the cap, the scale stays.
    assert si_mse(prediction, target, mask).item() == pytest.approx(1 / 9 * (1 / 9 + 4 / 9 + 4 / 9) / 3)
    assert si_mse(prediction, target, mask, cap=1).item() == pytest.approx(8 / 81 / 3)
    assert si_mse(prediction, target, mask, cap=2) == si_mse(prediction, target, mask)


@pytest.mark.parametrize("cap", [0.0, -1.0, torch.nan])
def test_cap_must_be_positive(cap: float) -> None:
    image = torch.ones(1, 2, 2)
    with pytest.raises(InputError, match=f"^`cap` must be above 0, got {cap:g}; None cuts nothing$"):
        si_mse(image, image, image, cap=cap)


def test_si_mse_of_sintel_equals_the_formula() -> None:
    prediction, target, mask = drawn(7, 1, 3, 9, 8), drawn(8, 1, 3, 9, 8), drawn(9, 1, 9, 8) < 0.8
    a, b = (values[0][:, mask[0]].numpy() for values in (prediction, target))
    wanted = np.mean((np.minimum((a * b).sum() / (a * a).sum() * a, 1) - b) ** 2)
    found = si_mse(prediction, target, mask, cap=1, floor=0)
    assert found.item() == pytest.approx(wanted)
    assert found < si_mse(prediction, target, mask) or (a.max() * (a * b).sum() / (a * a).sum() <= 1)


@pytest.mark.parametrize("metric", [mse, si_mse])
def test_outside_the_mask(metric) -> None:
    prediction, target = drawn(5, 2, 3, 4, 4), drawn(6, 2, 3, 4, 4)
    mask = torch.ones(2, 4, 4, dtype=torch.bool)
    mask[0], mask[1, 0] = False, False
    plain = metric(prediction, target, mask)
    prediction[1, :, 0], target[1, :, 0] = torch.nan, torch.inf
    found = metric(prediction, target, mask)
    assert found.isnan().tolist() == [True, False]
    assert found[1] == plain[1]


@pytest.mark.parametrize("metric", [mse, si_mse])
@pytest.mark.parametrize(
    ("dtype", "wanted"), [(torch.float16, torch.float32), (torch.float64, torch.float64)]
)
def test_dtype(metric, dtype: torch.dtype, wanted: torch.dtype) -> None:
    assert metric(torch.ones(1, 2, 2, dtype=dtype), torch.ones(1, 2, 2), torch.ones(1, 2, 2)).dtype == wanted
