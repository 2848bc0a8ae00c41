import numpy as np
import pytest
import torch
from numpy import ndarray

from candlelight.evaluation.intrinsic.lmse import geometric_mean, lmse_barron, lmse_barron_score
from candlelight.loaders.errors import InputError


def literal(prediction: ndarray, target: ndarray, mask: ndarray) -> float:
    """Compute the score of one gray image block by block, as MATLAB does with `X(start:end, ...)`."""
    errors = total = 0.0
    for first_row in (1, 20 // 2):  # counted from 1
        for first_column in (1, 20 // 2):
            e, c, m = (values[first_row - 1 :, first_column - 1 :] for values in (prediction, target, mask))
            height, width = -(-np.array(c.shape) // 20) * 20
            e, c, m = (
                np.pad(values, ((0, height - len(values)), (0, width - values.shape[1])))
                for values in (e * (m > 0), c * (m > 0), m)
            )
            for top in range(0, height, 20):
                for left in range(0, width, 20):
                    here = np.s_[top : top + 20, left : left + 20]
                    scale = np.sum(m[here] * c[here] * e[here]) / max(2**-52, np.sum(m[here] * e[here] ** 2))
                    errors += np.sum(m[here] * (c[here] - scale * e[here]) ** 2)
                    total += np.sum(m[here] * c[here] ** 2)
    return errors / total


def drawn(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.from_numpy(rng.uniform(0, 1, shape))


@pytest.mark.parametrize(
    ("height", "width"), [(20, 20), (40, 60), (47, 64), (29, 30), (1, 1), (9, 50), (10, 10), (120, 700)]
)
@pytest.mark.parametrize("kind", ["boolean", "weights"])
def test_equals_the_loop_over_blocks(height: int, width: int, kind: str) -> None:
    rng = np.random.default_rng(0)
    prediction, target = drawn(rng, 2, 3, height, width), drawn(rng, 2, 3, height, width)
    weights = drawn(rng, 2, height, width)
    mask = weights < 0.99 if kind == "boolean" else weights
    found = lmse_barron(prediction, target, mask)
    images = [values.numpy().astype(float) for values in (prediction, target, mask)]
    wanted = [
        np.mean([literal(images[0][row, c], images[1][row, c], images[2][row]) for c in range(3)])
        for row in range(2)
    ]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-15)


def test_blocks_by_hand() -> None:
    target, prediction = torch.zeros(1, 20, 20), torch.zeros(1, 20, 20)
    target[0, 0, 8], target[0, 0, 9], prediction[0, 0, 8], prediction[0, 0, 9] = 1, 1, 1, 3
    # Both pixels lie in one block of the first offset: scale 0.4, errors 0.36 and 0.04 of 2. At column 9
    # begins a block with the second pixel alone: no error of 1. Row 0 lies in no block that begins at row 9.
    found = lmse_barron(prediction, target, torch.ones(1, 20, 20)).item()
    assert found == pytest.approx((0.36 + 0.04) / (2 + 1))


def test_no_pixel_is_left_out() -> None:
    target = drawn(np.random.default_rng(1), 1, 23, 31)
    prediction = target.clone()
    prediction[0, 22, 30] = 0
    assert lmse_barron(prediction, target, torch.ones(1, 23, 31)).item() > 1e-4


def test_colour_does_not_count() -> None:
    target, mask = drawn(np.random.default_rng(2), 1, 3, 25, 25), torch.ones(1, 25, 25)
    tinted = target * torch.tensor([1.0, -0.5, 0.25])[:, None, None]
    assert lmse_barron(tinted, target, mask).item() < 1e-12


def test_mean_is_over_channels_and_not_over_sums() -> None:
    rng = np.random.default_rng(3)
    prediction, target, mask = drawn(rng, 1, 3, 25, 25), drawn(rng, 1, 3, 25, 25), drawn(rng, 1, 25, 25)
    target[:, 0] *= 100
    single = [lmse_barron(prediction[:, c], target[:, c], mask).item() for c in range(3)]
    assert lmse_barron(prediction, target, mask).item() == pytest.approx(np.mean(single))


@pytest.mark.parametrize(("floor", "wanted"), [(2**-52, 0.0), (1e-5, 1.0)])
def test_floor(floor: float, wanted: float) -> None:
    dark, target, mask = torch.full((1, 20, 20), 1e-4), torch.ones(1, 20, 20), torch.ones(1, 20, 20)
    assert lmse_barron(dark, target, mask, floor).item() == pytest.approx(wanted, abs=1e-6)
    assert lmse_barron_score(dark, dark, target, target, mask, floor).item() == pytest.approx(
        wanted, abs=1e-6
    )


def test_score_is_the_mean_of_reflectance_and_shading() -> None:
    rng = np.random.default_rng(4)
    images, mask = [drawn(rng, 2, 3, 30, 41) for _ in range(4)], drawn(rng, 2, 30, 41) < 0.8
    wanted = (lmse_barron(images[0], images[2], mask) + lmse_barron(images[1], images[3], mask)) / 2
    torch.testing.assert_close(lmse_barron_score(*images, mask), wanted)


def test_channel_without_truth_is_undefined() -> None:
    target = torch.ones(2, 3, 20, 20)
    target[1, 2] = 0
    assert lmse_barron(target, target, torch.ones(2, 20, 20)).isnan().tolist() == [False, True]


def test_geometric_mean() -> None:
    assert geometric_mean(torch.tensor([0.1, 0.2, 0.4])).item() == pytest.approx(0.2)
    assert geometric_mean(torch.tensor([0.1, 0.0])).item() == 0
    assert geometric_mean(torch.tensor([0.1, torch.nan])).isnan()
    assert geometric_mean(torch.zeros(0)).isnan()
    with pytest.raises(InputError, match="`errors` must be at least 0, got -1"):
        geometric_mean(torch.tensor([0.1, -1.0]))
