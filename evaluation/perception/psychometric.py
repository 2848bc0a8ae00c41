"""The psychometric function: the probability of a correct answer as a function of the stimulus level."""

import torch
from jaxtyping import Float64, Real
from torch import Tensor

from candlelight.loaders.errors import InputError

FORCED_CHOICE = 0.5  # guess rate of two alternatives


def psychometric(
    levels: Real[Tensor, "*shape"],
    threshold: float,
    slope: float,
    guess: float = FORCED_CHOICE,
    lapse: float = 0.0,
) -> Float64[Tensor, "*shape"]:
    """Compute the probability that an observer finds the distorted image.

    ``p(x) = g + (1 - g - l) / (1 + exp(-k (x - t)))``. With guess rate g = 1/2 and lapse rate l = 0 this is
    ``1/2 + 1 / (2 (1 + exp(-k (D - D_T))))``, Alabau-Bosque et al. 2024, eq. 4. At the threshold the
    probability lies half way between guessing and the top: 0.75 without lapses.

    Args:
        levels: of the stimulus, in any unit, such as D or degrees.
        threshold: t, in the unit of the levels.
        slope: k, per unit of the levels; negative slopes fall.
        guess: probability of a correct guess; the paper's is 0.5.
        lapse: probability of a mistake at any level; the paper's is 0.

    Raises:
        InputError: rates that are negative, or together 1 or more.

    Example:
        >>> psychometric(torch.tensor([0.0, 0.445, 10.0]), threshold=0.445, slope=20.0).round(decimals=3)
        tensor([0.5000, 0.7500, 1.0000], dtype=torch.float64)
    """
    check_rates(guess, lapse)
    return guess + (1 - guess - lapse) * torch.sigmoid(slope * (levels.double() - threshold))


def check_rates(guess: float, lapse: float) -> None:
    """Refuse guess and lapse rates that leave no range for the function.

    Raises:
        InputError: rates that are negative, or together 1 or more.

    Example:
        >>> check_rates(0.5, 0.5)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `guess` and `lapse` must be at least 0, together below 1, got \
0.5 and 0.5
    """
    if not (guess >= 0 and lapse >= 0 and guess + lapse < 1):
        raise InputError(
            f"`guess` and `lapse` must be at least 0, together below 1, got {guess:g} and {lapse:g}"
        )
