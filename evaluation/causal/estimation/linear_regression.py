"""Least squares of factors on codes."""

import torch
from jaxtyping import Float, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import standardise


def predict_by_line(
    codes: Real[Tensor, "fitted codes"],
    factors: Real[Tensor, "fitted factors"],
    scored: Real[Tensor, "scored codes"],
) -> Float[Tensor, "scored factors"]:
    """Fit least squares with an intercept to rows and predict the factors of other rows.

    Of equally good weights of the standardised codes, as for collinear codes, those of least norm count.

    Args:
        codes: codes to fit on, finite.
        factors: their factors, finite.
        scored: codes to predict for.

    Returns:
        Predicted factors in their own units, float64.

    Example:
        >>> codes, factors = torch.tensor([[0.0], [1.0]]), torch.tensor([[1], [3]])
        >>> predict_by_line(codes, factors, torch.tensor([[2.0]])).round(decimals=6)
        tensor([[5.]], dtype=torch.float64)
    """
    targets = factors.double()
    basis, triangle = torch.linalg.qr(standardise(codes))
    weights = torch.linalg.pinv(triangle) @ (basis.T @ (targets - targets.mean(0)))
    return standardise(scored, codes) @ weights + targets.mean(0)
