import numpy as np
import torch
from scipy.stats import norm

from candlelight.evaluation.causal.estimators import covariance_measure_test


def test_equals_loops():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(30, 3)), rng.normal(size=30)
    first[:, 1] += 0.5 * second
    found = covariance_measure_test(torch.from_numpy(first), torch.from_numpy(second))
    for column in range(3):
        products = [one * other for one, other in zip(first[:, column], second, strict=True)]
        statistic = np.sqrt(30) * np.mean(products) / np.std(products)
        np.testing.assert_allclose(found[column], 2 * norm.sf(abs(statistic)))


def test_closed_forms():
    second = torch.tensor([1.0, 1, -1, -1, 1, 1])
    # Products without spread are certain; products 2, 0, 0, 0, 0, 0 have T = sqrt(6) / sqrt(5).
    first = torch.stack([second, -second, 0 * second, 2 * (torch.arange(6) == 0)], dim=1)
    expected = [0, 0, 1, 2 * norm.sf(np.sqrt(6 / 5))]
    np.testing.assert_allclose(covariance_measure_test(first, second), expected)


def test_the_sign_and_scale_of_residuals_do_not_matter():
    first, second = torch.randn(2, 50, 2, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(
        covariance_measure_test(first, second[:, 0]), covariance_measure_test(-7 * first, 3 * second[:, 0])
    )


def test_level_with_residuals_of_unequal_variance():
    draws = torch.Generator().manual_seed(0)
    scale = torch.rand(200, 1, generator=draws).double()
    first = scale * torch.randn(200, 4000, generator=draws)
    p_values = covariance_measure_test(first, scale[:, 0] * torch.randn(200, generator=draws))
    for level in (0.01, 0.05, 0.5):
        assert abs(float((p_values < level).double().mean()) - level) < 4 * (level / 4000) ** 0.5


def test_a_square_of_a_symmetric_variable_is_not_seen():
    values = torch.linspace(-1, 1, 41)
    np.testing.assert_allclose(covariance_measure_test(values.square()[:, None] - 0.35, values), 1)
