"""Test of conditional independence by the generalised covariance measure (Shah and Peters 2020)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def covariance_measure_test(
    first: Float[Tensor, "samples columns"], second: Float[Tensor, " samples"]
) -> Float[Tensor, " columns"]:
    """Test whether variables are independent given others, from residuals of regressions on the others.

    With the products ``r_n = first_n second_n`` of the residuals of N samples, ``T = sqrt(N) mean(r) /
    std(r)`` is standard normal for large N if both are independent given the others: Shah and Peters 2020
    (The Hardness of Conditional Independence Testing and the Generalised Covariance Measure, Annals of
    Statistics 48), sec. 3. The p-value is two-sided.

    Blind to: dependence without covariance of the residuals, such as that of a variable and its square if it
    is symmetric about 0, or of effects with opposite signs. It rejects too often if both regressions leave
    out the same part of the other variables.

    Args:
        first: residuals of some variables, each tested by itself.
        second: residuals of the variable that they are tested with.

    Returns:
        p-values, float64; 1 if the products are all 0, as for a variable that the others determine.

    Example:
        >>> first = torch.tensor([[1.0, 1.0], [2.0, -1.0]])
        >>> covariance_measure_test(first, torch.tensor([1.0, 1.0])).round(decimals=3)
        tensor([0., 1.], dtype=torch.float64)
    """
    products = first.double() * second.double()[:, None]
    mean = products.mean(0)
    spread = (products - mean).square().mean(0).sqrt()
    statistic = math.sqrt(len(products)) * mean / spread
    return torch.special.erfc(statistic.abs() / math.sqrt(2)).nan_to_num(1)
