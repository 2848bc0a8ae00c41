"""Constancy of materials under several lights, against plain loops over lights and materials."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.constancy import chroma_drift, chroma_retention, material_variation
from tests.evaluation.intrinsic.references import slow_constancy
from tests.refusals import refused


def drawn(seed: int, batch: int = 2, lights: int = 4, materials: int = 5) -> torch.Tensor:
    values = np.random.default_rng(seed).uniform(0.1, 1, (batch, lights, materials, 3))
    return torch.from_numpy(values)


def test_scores_equal_plain_loops():
    scenes, truth = drawn(0), drawn(1)[:, 0]
    expected = np.array([slow_constancy(scenes[row].numpy(), truth[row].numpy()) for row in range(2)])
    found = (
        material_variation(scenes),
        material_variation(scenes, align=False),
        chroma_drift(scenes),
        chroma_retention(scenes, truth),
    )
    np.testing.assert_allclose(torch.stack(found, 1), expected, rtol=1e-12)


def test_exposure_counts_only_without_a_scale_for_each_light():
    scene = drawn(4, lights=1).expand(-1, 2, -1, -1) * torch.tensor([1.0, 3.0])[None, :, None, None]
    assert material_variation(scene).max() < 1e-12
    np.testing.assert_allclose(material_variation(scene, align=False), 0.5)  # 1 and 3 about 2


def test_a_colour_cast_drifts_but_keeps_the_variation_of_gray_low():
    albedo = torch.tensor([[0.5, 0.5, 0.5], [0.2, 0.2, 0.2]]).double()
    cast = torch.tensor([1.5, 1.0, 1.0]).double()
    scene = torch.stack([albedo, albedo * cast])[None]
    assert chroma_drift(scene).item() == pytest.approx(0.0625)  # ratios 1 and 1.5
    assert material_variation(scene).item() == pytest.approx(0, abs=1e-12)


def test_doubled_chroma_retains_four_times_the_variance():
    truth = torch.tensor([[0.6, 0.4, 0.4], [0.2, 0.4, 0.4]]).double()
    strong = truth.clone()
    strong[:, 0] = torch.tensor([0.8, 0.0])
    scene = strong.expand(1, 2, 2, 3)
    assert chroma_retention(scene, truth[None]).item() == pytest.approx(4)


def test_largest_variation_is_that_of_one_light():
    scene = torch.full((1, 5, 2, 3), 0.0).double()
    scene[0, 0], scene[0, 1:] = 1.0, 1e-12
    assert material_variation(scene, align=False).item() == pytest.approx(2, rel=1e-6)  # sqrt(5 - 1)


def test_black_green_gives_finite_scores():
    truth = torch.tensor([[0.8, 0.0, 0.0], [0.4, 0.4, 0.4]]).double()
    scene = truth.expand(1, 2, 2, 3) * torch.tensor([1.0, 2.0])[None, :, None, None]
    assert chroma_drift(scene).item() == pytest.approx(0, abs=1e-3)
    assert chroma_retention(scene, truth[None]).item() == pytest.approx(1)
    assert material_variation(0 * scene + truth).isfinite().all()


def test_a_material_that_is_black_under_all_lights_does_not_vary():
    scene = torch.tensor([[0.0, 0.0, 0.0], [0.4, 0.4, 0.4]]).double().expand(1, 3, 2, 3)
    assert material_variation(scene).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 0.0, -1.0])
def test_failed_predictions_are_nan(bad):
    scene, truth = drawn(5), drawn(6)[:, 0]
    # A light must have a positive value.
    scene[0, 1] = bad if bad <= 0 else scene[0, 1]
    scene[0, 1, 2, 0] = bad
    for found in (
        material_variation(scene),
        material_variation(scene, align=False),
        chroma_drift(scene),
        chroma_retention(scene, truth),
    ):
        assert found.isnan().tolist() == [True, False]


def test_undefined_scenes_are_nan():
    one = drawn(7, materials=1)
    assert material_variation(one).isnan().all()
    assert material_variation(one, align=False).isfinite().all()
    assert chroma_drift(one).isfinite().all()
    assert chroma_retention(one, one[:, 0]).isnan().all()
    spoilt = drawn(9)[:, 0]
    spoilt[1, 2, 1] = torch.nan
    assert chroma_retention(drawn(8), spoilt).isnan().tolist() == [False, True]


def test_rounded_gray_truth_has_no_chroma():
    rng = np.random.default_rng(10)
    gray = rng.uniform(0.1, 1, (1, 40, 1)) * (1 + rng.uniform(-1, 1, (1, 40, 3)) * 2.0**-11)
    assert chroma_retention(drawn(11, batch=1, materials=40), torch.from_numpy(gray)).isnan().all()


def test_shapes_and_the_number_of_lights_are_checked():
    for score in (material_variation, chroma_drift):
        with refused("constancy needs at least 2 lights, got 1"):
            score(drawn(13, lights=1))
        with refused(r"expected `prediction` \[batch, lights, materials, 3\], got"):
            score(drawn(13)[0])
