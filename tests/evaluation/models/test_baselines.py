import pytest
import torch

from candlelight.evaluation.intrinsic import lmse
from candlelight.evaluation.models.model_protocols import IntrinsicModel
from candlelight.evaluation.models.retinex import BASELINES, constant_reflectance, constant_shading


@pytest.mark.parametrize("model", BASELINES.values(), ids=BASELINES.keys())
def test_product_is_the_image(model: IntrinsicModel) -> None:
    image = torch.rand(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    reflectance, shading = model(image)
    assert torch.equal(reflectance * shading, image)


def test_each_baseline_is_right_if_its_assumption_holds() -> None:
    pattern = torch.rand(1, 3, 20, 20, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(1, 20, 20)
    _, shading = constant_reflectance(0.5 * pattern)
    reflectance, _ = constant_shading(0.5 * pattern)
    assert lmse(shading.mean(1), pattern.mean(1), mask).item() < 1e-9
    assert lmse(reflectance.mean(1), pattern.mean(1), mask).item() < 1e-9
