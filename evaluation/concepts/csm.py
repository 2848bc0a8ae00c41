"""Concept Sensitivity Metrics (Gupta et al. 2022)."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

Reduce = Literal["mean_of_ratios", "ratio_of_means"]


@dataclass(frozen=True)
class CSM:
    """The two metrics, their bounded variants, and the sensitivities that they combine.

    Attributes:
        csm_s: wanted over unwanted sensitivity to albedo; high values mean little albedo in the shading.
        csm_r: wanted over unwanted sensitivity to illumination; high values mean little illumination in the
            reflectance.
        bounded_s: ``R / (R + S)`` instead of ``R / S`` for albedo sets, in [0, 1]; 0.5 means equal
            sensitivities.
        bounded_r: ``S / (S + R)`` instead of ``S / R`` for illumination sets.
        r_albedo: sensitivities of the reflectance branch to the albedo sets.
        s_albedo: sensitivities of the shading branch to the albedo sets.
        r_illumination: sensitivities of the reflectance branch to the illumination sets.
        s_illumination: sensitivities of the shading branch to the illumination sets.
    """

    csm_s: Float[Tensor, ""]
    csm_r: Float[Tensor, ""]
    bounded_s: Float[Tensor, ""]
    bounded_r: Float[Tensor, ""]
    r_albedo: Float[Tensor, " albedo_sets"]
    s_albedo: Float[Tensor, " albedo_sets"]
    r_illumination: Float[Tensor, " illumination_sets"]
    s_illumination: Float[Tensor, " illumination_sets"]


def csm(
    r_albedo: Float[Tensor, " albedo_sets"],
    s_albedo: Float[Tensor, " albedo_sets"],
    r_illumination: Float[Tensor, " illumination_sets"],
    s_illumination: Float[Tensor, " illumination_sets"],
    reduce: Reduce = "mean_of_ratios",
) -> CSM:
    """Combine sensitivities into the Concept Sensitivity Metrics.

    ``CSM_S = R_da / S_da`` and ``CSM_R = S_di / R_di`` (Gupta et al. 2022, eq. 4). The paper does not say
    whether it averages ratios or sensitivities over concept sets; ``reduce`` chooses. With one set both are
    equal.

    Blind to: the correctness of the predictions, and the strength of an effect, because only shares of test
    images count. A noisy branch is sensitive to everything. The ratio has no upper bound, so one set with a
    small denominator can dominate the mean; the bounded variants avoid this.

    Args:
        r_albedo: sensitivity of the reflectance branch to each albedo set (only albedo varies), in [0, 1].
        s_albedo: sensitivity of the shading branch to the same sets.
        r_illumination: sensitivity of the reflectance branch to each illumination set.
        s_illumination: sensitivity of the shading branch to the same sets.
        reduce: "mean_of_ratios" averages the ratios of the sets, "ratio_of_means" divides the averages.

    Returns:
        Higher is better for all four metrics. A positive number over 0 is inf; 0 over 0, or a mean without
        sets, is nan. One inf or nan makes a mean of ratios inf or nan.

    Raises:
        InputError: a sensitivity is outside [0, 1] or nan, the branches have different numbers of sets, or
            ``reduce`` is misspelt.

    Example:
        >>> scores = csm(*(Tensor([x]) for x in (0.8, 0.4, 0.391, 0.296)))
        >>> scores.csm_s, scores.csm_r.round(decimals=3)
        (tensor(2.), tensor(0.7570))
    """
    inputs = {
        "r_albedo": r_albedo,
        "s_albedo": s_albedo,
        "r_illumination": r_illumination,
        "s_illumination": s_illumination,
    }
    check_choice("reduce", reduce, Reduce)
    check_shapes(
        r_albedo=(r_albedo, "albedo_sets"),
        s_albedo=(s_albedo, "albedo_sets"),
        r_illumination=(r_illumination, "illumination_sets"),
        s_illumination=(s_illumination, "illumination_sets"),
    )
    for name, values in inputs.items():
        if not bool(((values >= 0) & (values <= 1)).all()):
            raise InputError(f"`{name}` must hold sensitivities from 0 to 1, got {values.tolist()}")
    csm_s, bounded_s = _ratios(r_albedo, s_albedo, reduce)
    csm_r, bounded_r = _ratios(s_illumination, r_illumination, reduce)
    return CSM(csm_s, csm_r, bounded_s, bounded_r, **inputs)


def _ratios(wanted: Tensor, unwanted: Tensor, reduce: Reduce) -> tuple[Tensor, Tensor]:
    """Compute wanted over unwanted, and wanted over the sum of both."""
    if reduce == "ratio_of_means":
        wanted, unwanted = wanted.mean(), unwanted.mean()
    return (wanted / unwanted).mean(), (wanted / (wanted + unwanted)).mean()
