"""Sensitivities, thresholds and orders of response curves, against those of people."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Real
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.perception.detection import (
    STILL,
    IlluminantThresholds,
    Transduction,
    check_distances,
    check_magnitudes,
    curve_thresholds,
    detection_threshold,
    illuminant_thresholds,
    mean_response,
)
from candlelight.evaluation.perception.measure_distances import SceneCurve
from candlelight.evaluation.perception.people import COLOUR_AXES, HUMAN_ORDER, human_verdict
from candlelight.evaluation.perception.transforms import GEOMETRIC_TRANSFORMS, ILLUMINANT
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import XY_PER_STEP


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


_WITH_THRESHOLD = (*GEOMETRIC_TRANSFORMS, *COLOUR_AXES)


@dataclass(frozen=True, eq=False)
class CurveScores:
    """Scores of the mean curves of a metric.

    Args:
        curves: by transform, from `align_curves`.
        transduction: of the metric.
        level: D_T on the common scale; without ratings see `level_without_ratings`.
        levels: quartiles and threshold of D_T; None for a metric without ratings, which has no thresholds.
        is_rmse: whether the metric is RMSE, to which equal distances are equal energies, so that its order is
            a tie.
        rows: scenes to average, some of which may repeat; None for each scene once.

    Example:
        >>> scenes = torch.tensor([[0.0, 0.25], [0.0, 0.75]]).double()
        >>> magnitudes = torch.tensor([0.0, 10.0]).double()
        >>> curve = SceneCurve("rotation", "degrees", magnitudes, scenes, scenes.square(), 0 * scenes)
        >>> found = CurveScores({"rotation": curve}, Transduction(1.0, 1.0), 0.25)
        >>> found.thresholds, {name: round(value) for name, value in found.sensitivities.items()}
        ({'rotation': 5.0}, {'rotation': 13})
    """

    curves: Mapping[str, SceneCurve]
    transduction: Transduction
    level: float
    levels: tuple[float, float, float] | None = None
    is_rmse: bool = False
    rows: Int[ndarray, " drawn"] | None = None

    @cached_property
    def thresholds(self) -> dict[str, float]:
        """Threshold of each geometric transform and colour axis, see `curve_thresholds`."""
        known = {name: one for name, one in self.curves.items() if name in _WITH_THRESHOLD}
        means = {name: mean_response(self._drawn(curve.distances)) for name, curve in known.items()}
        about = self.transduction, self.level
        return {
            name: float(curve_thresholds(means[name], curve.magnitudes, *about))
            for name, curve in known.items()
        }

    @cached_property
    def sensitivities(self) -> dict[str, float]:
        """Sensitivity to each transform of `HUMAN_ORDER` at its threshold, see `transform_sensitivity`."""
        return {
            name: transform_sensitivity(self._drawn(curve.energies), curve.magnitudes, self.thresholds[name])
            for name, curve in self.curves.items()
            if name in HUMAN_ORDER
        }

    @cached_property
    def order(self) -> SensitivityOrder:
        """Order of the sensitivities, and its agreement with that of people; none of RMSE."""
        return sensitivity_order({} if self.is_rmse else self.sensitivities)

    @cached_property
    def illuminants(self) -> IlluminantThresholds | None:
        """Thresholds of the illuminants with their ellipse; None without illuminants."""
        curves = illuminant_curves(self.curves)
        if not curves:
            return None
        steps = next(iter(curves.values())).magnitudes
        if not all(torch.equal(curve.magnitudes, steps) for curve in curves.values()):
            raise InputError("expected the same saturations for every hue, got others; measure the same ones")
        moved = [self._drawn(curve.distances)[:, steps > 0] for curve in curves.values()]
        hues = torch.tensor(list(curves), dtype=torch.float64)
        radii = XY_PER_STEP * steps[steps > 0]
        return illuminant_thresholds(torch.stack(moved, 1), self.transduction, hues, radii, self.level)

    def numbers(self) -> dict[str, float]:
        """Return the scores by name; the thresholds are the main ones, and need ratings."""
        if self.levels is None:
            return {"order": self.order.score}
        found = {name: value for name, value in self.thresholds.items() if name in GEOMETRIC_TRANSFORMS}
        if self.illuminants is not None:
            found["illuminant_macadam"] = self.illuminants.macadam_error
            found["illuminant_experimental"] = self.illuminants.score
        return found | {"order": self.order.score}

    def _drawn(self, values: Tensor) -> Tensor:
        return values if self.rows is None else values[torch.from_numpy(self.rows)]


def illuminant_curves(curves: Mapping[str, SceneCurve]) -> dict[float, SceneCurve]:
    """Choose the curves of illuminants, by dominant wavelength."""
    return {
        float(name.removeprefix(ILLUMINANT)): curve
        for name, curve in curves.items()
        if name.startswith(ILLUMINANT)
    }


def level_without_ratings(curves: Mapping[str, SceneCurve], human: Mapping[str, float]) -> float:
    """Choose a distance at which to order the sensitivities of a metric that has no common scale.

    The median of the metric's mean distances at the thresholds of people, over the transforms under which it
    moves: a human-like metric has the same distance at all of them. The order at another level may be another
    one, where curves over the energy cross.

    Args:
        curves: by transform.
        human: thresholds of people by transform, in the unit of its magnitudes.

    Returns:
        Level; half of the largest distance if all thresholds of people lie beyond the magnitudes, inf if the
        metric never moves or no transform has a place in the order.

    Example:
        >>> scenes = torch.tensor([[0.0, 0.25], [0.0, 0.75]]).double()
        >>> magnitudes = torch.tensor([0.0, 10.0]).double()
        >>> curve = SceneCurve("rotation", "degrees", magnitudes, scenes, scenes.square(), 0 * scenes)
        >>> level_without_ratings({"rotation": curve}, {"rotation": 5.0})
        0.25
    """
    means = {name: mean_response(curve.distances) for name, curve in curves.items() if name in HUMAN_ORDER}
    largest = max((float(mean.max()) for mean in means.values()), default=0.0)
    found = [
        float(np.interp(human[name], curves[name].magnitudes.numpy(), mean.numpy()))
        for name, mean in means.items()
        if curves[name].magnitudes[0] <= human[name] <= curves[name].magnitudes[-1]
    ]
    moving = [value for value in found if value > STILL * largest]
    if moving:
        return median(moving)
    return largest / 2 if largest > 0 else math.inf


def people_order(
    curves: Mapping[str, SceneCurve], human: Mapping[str, float]
) -> tuple[dict[str, float], SensitivityOrder]:
    """Order the sensitivities of people on these images, from the energies at their thresholds.

    Args:
        curves: of any metric.
        human: thresholds by transform, in the unit of its magnitudes; others are left out.

    Returns:
        Sensitivities, nan where the threshold lies beyond the magnitudes, and their order.
    """
    sensitivities = {}
    for name in (name for name in human if name in curves and name in HUMAN_ORDER):
        steps = curves[name].magnitudes
        at = human[name] if steps[0] <= human[name] <= steps[-1] else math.nan
        sensitivities[name] = transform_sensitivity(curves[name].energies, steps, at)
    return sensitivities, sensitivity_order(sensitivities)


def describe_curves(scores: CurveScores, human: Mapping[str, float]) -> dict[str, Any]:
    """Collect what tables and plots of one metric show.

    Args:
        scores: of all scenes.
        human: thresholds of people by transform.
    """
    found: dict[str, Any] = {
        "curves": [_describe_curve(curve, scores.transduction) for curve in scores.curves.values()],
        "sensitivities": scores.sensitivities,
        "order": asdict(scores.order),
        "level": scores.level,
        "thresholds": {},
        "illuminants": None,
    }
    if scores.levels is not None:
        found["thresholds"] = {
            name: _describe_threshold(scores.curves[name], scores.transduction, scores.levels, human[name])
            for name in GEOMETRIC_TRANSFORMS
            if name in scores.curves
        }
        if scores.illuminants is not None:
            hues = list(illuminant_curves(scores.curves))
            found["illuminants"] = {**asdict(scores.illuminants), "hues": hues}
    return found


def _describe_curve(curve: SceneCurve, transduction: Transduction) -> dict[str, Any]:
    """Describe the mean curve of one transform; ``common`` is D, or d without ratings."""
    response = mean_response(curve.distances)
    return {
        "transform": curve.name,
        "unit": curve.unit,
        "magnitudes": curve.magnitudes,
        "response": response,
        "common": transduction(response),
        "rmse": curve.energies.mean(0).sqrt(),
        "clipped": curve.clipped.mean(0),
    }


def _describe_threshold(
    curve: SceneCurve, transduction: Transduction, levels: tuple[float, float, float], human: float
) -> dict[str, Any]:
    found = detection_threshold(curve.distances, curve.magnitudes, transduction, levels)
    below = float(curve.magnitudes[-1]) if math.isnan(found.low) else found.low
    verdict = human_verdict(found.score, found.uncertainty, human, below)
    return {**asdict(found), "unit": curve.unit, "human": human, "verdict": verdict}


_FALL = 0.01  # of the largest value of a curve, above which a note tells that it falls


def curve_notes(name: str, scores: CurveScores) -> list[str]:
    """Tell which curves fall again, and which thresholds and hues are uncertain.

    Args:
        name: of the metric.
        scores: of all scenes.
    """
    falling, early = [], []
    for label, threshold in scores.thresholds.items():
        curve = scores.curves[label]
        response = mean_response(curve.distances)
        if (response.cummax(0).values - response).max() > _FALL * response.max():
            falling.append(label)
        if curve.magnitudes[0] < threshold < curve.magnitudes[:2][-1]:
            early.append(label)
    told = {"curves that fall again, so the first crossing counts": falling}
    if scores.levels is not None:
        told["thresholds within the first step, exact if d is linear there"] = early
    notes = [f"{name}: {text}: {', '.join(labels)}" for text, labels in told.items() if labels]
    if scores.levels is not None and (found := scores.illuminants) and not found.note.startswith("0 of"):
        notes.append(f"{name}: {found.note}, because they do not reach D_T")
    return notes


def clipped_note(curves: Mapping[str, SceneCurve]) -> str:
    """Tell the largest mean share of cut pixels of illuminants; empty without illuminants."""
    shares = [(float(one.clipped.mean(0).max()), one.name) for one in illuminant_curves(curves).values()]
    share, name = max(shares, default=(0.0, ""))
    return name and (
        f"up to {100 * share:.2g} % of the pixels, beyond those of the reference, are cut at the edge of "
        f"sRGB ({name})"
    )
