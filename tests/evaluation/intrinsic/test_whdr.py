from inspect import unwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from candlelight.evaluation.intrinsic.judgements import whdr
from candlelight.evaluation.views import Comparisons
from candlelight.loaders.errors import InputError


def literal_whdr(reflectance, comparisons, threshold=0.10):
    """Compute WHDR with the loop of the benchmark, over plain lists."""
    rows, columns = reflectance.shape[1:]
    wrong = total = 0.0
    for points, darker, weight in comparisons:
        values = []
        for x, y in points:
            mean = sum(channel[int(y * rows), int(x * columns)] for channel in reflectance) / len(reflectance)
            values.append(max(1e-10, mean))
        if values[1] / values[0] > 1 + threshold:
            answer = 1
        elif values[0] / values[1] > 1 + threshold:
            answer = 2
        else:
            answer = 0
        wrong += weight * (answer != darker)
        total += weight
    return wrong / total if total else np.nan


def drawn(seed, count):
    rng = np.random.default_rng(seed)
    return Comparisons(
        torch.from_numpy(rng.random((count, 2, 2))),
        torch.from_numpy(rng.integers(0, 3, count)),
        torch.from_numpy(rng.uniform(0.1, 2, count)),
    )


def listed(made):
    return list(zip(made.points.tolist(), made.darker.tolist(), made.score.tolist(), strict=True))


def pair(darker, score=1.0):
    """Compare the left half of an image with its right half."""
    points = torch.tensor([[[0.25, 0.5], [0.75, 0.5]]], dtype=torch.float64)
    return Comparisons(points, torch.tensor([darker]), torch.tensor([score], dtype=torch.float64))


def halves(left, right, channels=3):
    return torch.tensor([left, right]).expand(1, channels, 2, 2).double()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (37, 53)])
def test_equals_the_literal_loop(size, threshold, channels):
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 1, (4, channels, *size))
    images[1] = rng.uniform(-0.5, 0.5, (channels, *size))  # values below 0 count as 1e-10
    made = [drawn(row, 40) for row in range(3)] + [drawn(3, 0)]
    found = whdr(torch.from_numpy(images), made, threshold)
    wanted = [literal_whdr(image, listed(one), threshold) for image, one in zip(images, made, strict=True)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_the_pixel_is_rounded_down():
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
def test_answer_by_hand(left, right, wanted):
    image = halves(left, right)
    assert [whdr(image, [pair(darker)]).item() for darker in range(3)] == [
        float(d != wanted) for d in range(3)
    ]


def test_threshold_on_gamma_values_is_another_ratio():
    image, made = halves(0.5, 0.5 * 1.2), [pair(0)]
    assert whdr(image, made).item() == 1
    assert whdr(image ** (1 / 2.2), made).item() == 0
    assert whdr(image, made, threshold=1.1**2.2 - 1).item() == 0
    assert whdr(halves(0.5, 0.5 * 1.24), made, threshold=0.233).item() == 1


def test_weights_count():
    made = Comparisons(
        pair(1).points.repeat(3, 1, 1), torch.tensor([1, 0, 2]), torch.tensor([1.0, 2.0, 5.0]).double()
    )
    assert whdr(halves(0.1, 0.9), [made]).item() == pytest.approx(7 / 8)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), exponent=st.integers(-20, 20))
def test_scale_does_not_count(seed, exponent):
    image = torch.rand(1, 3, 9, 11, generator=torch.Generator().manual_seed(seed)) + 0.01
    made = [drawn(seed, 30)]
    assert whdr(image * 2.0**exponent, made).equal(whdr(image, made))


def test_swapped_points_and_answers_give_the_same_rate():
    image, made = torch.rand(1, 3, 9, 11), drawn(5, 60)
    swapped = Comparisons(made.points.flip(1), torch.tensor([0, 2, 1])[made.darker], made.score)
    assert whdr(image, [made]).equal(whdr(image, [swapped]))


def test_prediction_may_be_of_another_size():
    image, made = torch.rand(1, 3, 9, 11), [drawn(6, 60)]
    enlarged = image.repeat_interleave(4, 2).repeat_interleave(4, 3)
    assert whdr(enlarged, made).equal(whdr(image, made))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_only_compared_points_are_read(bad):
    image, made = halves(0.2, 0.8).clone(), [pair(1)]
    image[0, 1, 0, 0] = bad  # no point lies in the first row
    assert whdr(image, made).item() == 0
    image[0, 1, 1, 0] = bad
    assert whdr(image, made).isnan().all()


def test_images_are_scored_alone():
    images = torch.rand(3, 3, 8, 8)
    images[1] = torch.nan
    made = [drawn(row, 20) for row in range(3)]
    found = whdr(images, made)
    assert found.isnan().tolist() == [False, True, False]
    assert found[2].equal(whdr(images[2:], made[2:])[0])


@pytest.mark.parametrize(
    ("dtype", "wanted"), [(torch.float16, torch.float32), (torch.float64, torch.float64)]
)
def test_dtype_follows_the_prediction_but_is_never_half(dtype, wanted):
    assert whdr(torch.ones(1, 3, 2, 2, dtype=dtype), [pair(0)]).dtype == wanted
    assert whdr(torch.ones(0, 3, 2, 2, dtype=dtype), []).shape == (0,)


def change(**fields):
    made = pair(0)
    return Comparisons(**{**{name: getattr(made, name) for name in ("points", "darker", "score")}, **fields})


@pytest.mark.parametrize(
    ("made", "threshold", "message"),
    [
        ([], 0.1, r"^expected the `comparisons` of each image, got 0 for 1 images$"),
        ([pair(0)], -0.1, r"^`threshold` must be at least 0 and finite, got -0.1; 0.1 is Bell"),
        ([pair(0)], float("nan"), r"^`threshold` must be at least 0 and finite, got nan"),
        ([change(points=pair(0).points * 100)], 0.1, r"must lie in \[0, 1\), got 25; divide x by the width"),
        ([change(points=pair(0).points * torch.nan)], 0.1, r"must lie in \[0, 1\), got nan"),
        ([pair(3)], 0.1, r"^`darker` must be 0 \(equal\), 1 or 2, got \[3\]$"),
        ([pair(0, score=0.0)], 0.1, r"^`score` must be positive and finite, got 0 to 0; leave out"),
        ([pair(0, score=float("nan"))], 0.1, r"^`score` must be positive and finite, got nan to nan"),
    ],
)
def test_wrong_arguments_are_refused(made, threshold, message):
    with pytest.raises(InputError, match=message) as caught:
        whdr(torch.ones(1, 3, 2, 2), made, threshold)
    assert "\n" not in str(caught.value)


def test_an_image_without_batch_axis_is_refused():
    with pytest.raises(InputError, match=r"expected `reflectance` \[batch, channels, height, width\], got"):
        unwrap(whdr)(torch.ones(3, 2, 2), [pair(0)])
