"""Sensitivities to families of transforms, and their order."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Real
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.perception.response_curves import check_distances, check_magnitudes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

# Transforms from the one to which people are most sensitive: Alabau-Bosque et al. 2024, section II.D, of
# thresholds in energy. Illuminants are along the short (red-green) and long (yellow-blue) axis of the human
# ellipse.
HUMAN_ORDER = ("scale", "translation", "rotation", "RG", "YB")


def transform_sensitivity(
    energies: Real[Tensor, "scenes magnitudes"], magnitudes: Real[Tensor, " magnitudes"], threshold: float
) -> float:
    """Compute the inverse of the energy of a transform at a threshold.

    ``S = 1 / |i - T_theta(i)|^2``, with theta the threshold of people or of a metric: Alabau-Bosque et al.
    2024, eq. 5. Here the square is over the number of values of the image (the square of the RMSE, which the
    paper names as unit), so that S does not grow with the image, and averaged over scenes. Between the
    magnitudes the RMSE is linear, as it nearly is for small moves. On a curve of D over the energy, D_T S is
    the slope of the line from the origin to the threshold, the "slope" by which the paper orders metrics.

    Blind to: the image: the same angle is more energy in a picture with more contrast, so compare transforms
    on the same scenes only.

    Args:
        energies: of each scene at each magnitude, see `SceneCurve`.
        magnitudes: of the transform, strictly increasing from the identity.
        threshold: in the unit of the magnitudes; inf for a metric that never moves, nan for a threshold that
            is not reached.

    Returns:
        Sensitivity, >= 0, larger for what is seen earlier; 0 for a threshold of inf, nan for nan, inf if the
        energy at the threshold is 0.

    Raises:
        InputError: the shapes do not agree, energies that are not finite or negative, magnitudes that do not
            increase, or a threshold outside them.

    Example:
        >>> import torch
        >>> magnitudes = torch.tensor([0.0, 1.0, 2.0])
        >>> round(transform_sensitivity(torch.tensor([[0.0, 0.01, 0.04]]), magnitudes, 1.5), 3)
        44.444
    """
    check_shapes(energies=(energies, "scenes magnitudes"), magnitudes=(magnitudes, "magnitudes"))
    mean = check_distances(energies, "energies").mean(0)
    if not math.isfinite(threshold):
        return 0.0 if threshold == math.inf else math.nan
    steps = check_magnitudes(magnitudes).numpy(force=True)
    if not float(steps[0]) <= threshold <= float(steps[-1]):
        raise InputError(
            f"`threshold` must lie within the magnitudes, {float(steps[0]):g} to {float(steps[-1]):g}, got "
            f"{threshold:g}; measure larger magnitudes"
        )
    rmse = float(np.interp(threshold, steps, mean.sqrt().numpy(force=True)))
    return 1 / rmse**2 if rmse > 0 else math.inf


@dataclass(frozen=True)
class SensitivityOrder:
    """The order of sensitivities, and its agreement with that of people.

    Attributes:
        score: share of the pairs of known transforms in the order of people, in [0, 1], equal sensitivities
            counting a half; nan with fewer than two known.
        order: known transforms from the most to the least sensitive.
        unknown: transforms whose threshold is not reached, which have no place.
        is_human: whether all transforms of `HUMAN_ORDER` are known, in this order.
    """

    score: float
    order: tuple[str, ...]
    unknown: tuple[str, ...]
    is_human: bool


def sensitivity_order(sensitivities: Mapping[str, float]) -> SensitivityOrder:
    """Order sensitivities to transforms, and compare the order with that of people.

    The second, weaker test of Alabau-Bosque et al. 2024 (section II.D and Table III): people are most
    sensitive to scale, then translation, rotation, red-green and yellow-blue illuminants (`HUMAN_ORDER`).

    Blind to: sizes. A metric with nearly equal sensitivities may have any order by chance, and 1 of 120
    random orders of five is that of people.

    Args:
        sensitivities: by the names of `HUMAN_ORDER`, not all of them necessarily; nan if unknown.

    Raises:
        InputError: another name, or a negative sensitivity.

    Example:
        >>> found = sensitivity_order({"scale": 9.0, "rotation": 5.0, "translation": 4.0, "RG": 0.0})
        >>> found.order, round(found.score, 3), found.is_human
        (('scale', 'rotation', 'translation', 'RG'), 0.833, False)
    """
    for name, value in sensitivities.items():
        check_choice("sensitivities", name, HUMAN_ORDER)
        if value < 0:
            raise InputError(f"sensitivities must be at least 0, got {value:g} for {name}; see eq. 5")
    known = [name for name in HUMAN_ORDER if not math.isnan(sensitivities.get(name, math.nan))]
    pairs = [(sensitivities[first], sensitivities[second]) for first, second in combinations(known, 2)]
    agreeing = sum(1.0 if first > second else 0.5 if first == second else 0.0 for first, second in pairs)
    return SensitivityOrder(
        score=agreeing / len(pairs) if pairs else math.nan,
        order=tuple(sorted(known, key=lambda name: -sensitivities[name])),
        unknown=tuple(name for name in sensitivities if name not in known),
        is_human=len(known) == len(HUMAN_ORDER) and agreeing == len(pairs),
    )
