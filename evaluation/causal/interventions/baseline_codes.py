"""Baseline values of codes, to which interventions set them."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

Baseline = Literal["farthest", "mean", "zero"]


def baseline_codes(
    codes: Float[Tensor, "rows codes"], baseline: Baseline = "farthest"
) -> Float[Tensor, "rows codes"]:
    """Compute the baseline value of each code in each row.

    Args:
        codes: finite codes of at least one row.
        baseline: "farthest" is the value among the rows that is farthest from the row's own value: the
            smallest or the largest, whichever is farther, and the largest if both are equally far. It is the
            "maximally deviated" baseline of Reddy et al. 2022. "mean" is the mean over the rows, and "zero"
            is 0, the mean of the prior of a variational autoencoder.

    Returns:
        Baselines in the dtype of the codes. "farthest" gives a constant code its own value.

    Raises:
        InputError: a dimension is missing, there is no row, codes are not finite, or ``baseline`` is
            misspelt.

    Example:
        >>> baseline_codes(torch.tensor([[0.0], [1.0], [4.0]])).flatten()
        tensor([4., 4., 0.])
    """
    check_choice("baseline", baseline, Baseline)
    check_shapes(codes=(codes, "rows codes"))
    if len(codes) == 0:
        raise InputError("`codes` needs at least one row, got none")
    if not bool(codes.isfinite().all()):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    if baseline == "zero":
        return torch.zeros_like(codes)
    if baseline == "mean":
        return codes.double().mean(0).to(codes.dtype).expand_as(codes)
    low, high = codes.amin(0), codes.amax(0)
    return torch.where(high - codes >= codes - low, high, low)
