"""Thresholds and orders of response curves against those of people."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray

from candlelight.evaluation.perception.detection import (
    COLOUR_AXES,
    STILL,
    IlluminantThresholds,
    curve_thresholds,
    detection_threshold,
    illuminant_thresholds,
)
from candlelight.evaluation.perception.people import HUMAN_SATURATIONS, HUMAN_THRESHOLDS, human_verdict
from candlelight.evaluation.perception.scene_curves import (
    GEOMETRIC_TRANSFORMS,
    HUMAN_ORDER,
    SceneCurve,
    SensitivityOrder,
    sensitivity_order,
    transform_sensitivity,
)
from candlelight.evaluation.perception.transduction import Transduction, mean_response
from candlelight.evaluation.perception.transform_families import ILLUMINANT
from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import XY_PER_STEP


@dataclass(frozen=True, eq=False)
class CurveScores:
    """Scores of the mean curves of a metric.

    Args:
        curves: by transform, from `align_curves`.
        transduction: of the metric.
        level: D_T on the common scale.
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
    is_rmse: bool = False
    rows: Int[ndarray, " drawn"] | None = None

    @cached_property
    def thresholds(self) -> dict[str, float]:
        """Threshold of each geometric transform and colour axis, see `curve_thresholds`."""
        return {
            name: float(
                curve_thresholds(
                    mean_response(self._drawn(curve.distances)),
                    curve.magnitudes,
                    self.transduction,
                    self.level,
                )
            )
            for name, curve in self.curves.items()
            if name in (*GEOMETRIC_TRANSFORMS, *COLOUR_AXES)
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
    def hues(self) -> tuple[float, ...]:
        """Dominant wavelengths of the illuminants."""
        return illuminant_hues(self.curves)

    @cached_property
    def illuminants(self) -> IlluminantThresholds | None:
        """Thresholds of the illuminants with their ellipse; None without illuminants."""
        if not self.hues:
            return None
        curves = [self.curves[f"{ILLUMINANT}{hue:g}"] for hue in self.hues]
        steps = curves[0].magnitudes
        if not all(torch.equal(curve.magnitudes, steps) for curve in curves):
            raise InputError("expected the same saturations for every hue, got others; measure the same ones")
        distances = torch.stack([self._drawn(curve.distances)[:, steps > 0] for curve in curves], 1)
        radii = XY_PER_STEP * steps[steps > 0]
        hues = torch.tensor(self.hues, dtype=torch.float64)
        return illuminant_thresholds(distances, self.transduction, hues, radii, self.level)

    def numbers(self) -> dict[str, float]:
        """Return the scores by name; the thresholds are the main ones."""
        found = {name: value for name, value in self.thresholds.items() if name in GEOMETRIC_TRANSFORMS}
        if self.illuminants is not None:
            found["illuminant_macadam"] = self.illuminants.macadam_error
            found["illuminant_experimental"] = self.illuminants.score
        return found | {"order": self.order.score}

    def _drawn(self, values: torch.Tensor) -> torch.Tensor:
        return values if self.rows is None else values[torch.from_numpy(self.rows)]


def illuminant_hues(curves: Mapping[str, SceneCurve]) -> tuple[float, ...]:
    """List the dominant wavelengths of the illuminants among the curves."""
    return tuple(float(name.removeprefix(ILLUMINANT)) for name in curves if name.startswith(ILLUMINANT))


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
    for name, threshold in human.items():
        if name in curves and name in HUMAN_ORDER:
            steps = curves[name].magnitudes
            inside = float(steps[0]) <= threshold <= float(steps[-1])
            at = threshold if inside else math.nan
            sensitivities[name] = transform_sensitivity(curves[name].energies, steps, at)
    return sensitivities, sensitivity_order(sensitivities)


def all_human_thresholds() -> dict[str, float]:
    """Return the thresholds of people by transform; along the colour axes in steps of saturation.

    Parallax has that of translation: a camera that moves shifts the picture by the same angle.

    Example:
        >>> all_human_thresholds()["RG"]
        1.383
    """
    steps = {
        axis: sum(HUMAN_SATURATIONS[hue] for hue in hues) / len(hues) for axis, hues in COLOUR_AXES.items()
    }
    return {**HUMAN_THRESHOLDS, "parallax x": HUMAN_THRESHOLDS["translation"], **steps}


_FALL = 0.01  # of the largest value of a curve, above which a note tells that it falls


def describe_curves(
    scores: CurveScores, levels: tuple[float, float, float] | None, human: Mapping[str, float]
) -> dict[str, Any]:
    """Collect what tables and plots of one metric show.

    Args:
        scores: of all scenes.
        levels: quartiles and threshold of D_T; None for a metric without ratings, which has no thresholds.
        human: thresholds of people by transform.
    """
    found: dict[str, Any] = {
        "curves": [_curve(curve, scores) for curve in scores.curves.values()],
        "sensitivities": scores.sensitivities,
        "order": asdict(scores.order),
        "level": scores.level,
    }
    if levels is None:
        return found | {"thresholds": {}, "illuminants": None}
    found["thresholds"] = {
        name: _threshold(scores.curves[name], scores, levels, human[name])
        for name in GEOMETRIC_TRANSFORMS
        if name in scores.curves
    }
    illuminants = scores.illuminants
    found["illuminants"] = None if illuminants is None else {**asdict(illuminants), "hues": scores.hues}
    return found


def _curve(curve: SceneCurve, scores: CurveScores) -> dict[str, Any]:
    """Describe the mean curve of one transform; ``common`` is D, or d without ratings."""
    response = mean_response(curve.distances)
    return {
        **{"transform": curve.name, "unit": curve.unit, "magnitudes": curve.magnitudes},
        **{"response": response, "common": scores.transduction(response)},
        "rmse": curve.energies.mean(0).sqrt(),
        "clipped": curve.clipped.mean(0),
    }


def _threshold(
    curve: SceneCurve, scores: CurveScores, levels: tuple[float, float, float], human: float
) -> dict[str, Any]:
    found = detection_threshold(curve.distances, curve.magnitudes, scores.transduction, levels)
    below = float(curve.magnitudes[-1]) if math.isnan(found.low) else found.low
    verdict = human_verdict(found.score, found.uncertainty, human, below)
    return {**asdict(found), "unit": curve.unit, "human": human, "verdict": verdict}


def curve_notes(name: str, scores: CurveScores, usable: bool) -> list[str]:
    """Tell which curves fall again, and which thresholds and hues are uncertain.

    Args:
        name: of the metric.
        scores: of all scenes.
        usable: whether the metric has thresholds.
    """
    notes, curves = [], {label: scores.curves[label] for label in scores.thresholds}
    falling = [label for label, curve in curves.items() if _falls(curve)]
    if falling:
        notes.append(f"{name}: curves that fall again, so the first crossing counts: {', '.join(falling)}")
    if usable:
        early = [
            label
            for label, curve in curves.items()
            if curve.magnitudes[0] < scores.thresholds[label] < curve.magnitudes[:2][-1]
        ]
        if early:
            notes.append(
                f"{name}: thresholds within the first step, exact if d is linear there: {', '.join(early)}"
            )
        if scores.illuminants is not None and not scores.illuminants.note.startswith("0 of"):
            notes.append(f"{name}: {scores.illuminants.note}, because they do not reach D_T")
    return notes


def _falls(curve: SceneCurve) -> bool:
    """Tell whether the mean curve falls by more than a hundredth of its largest value."""
    response = mean_response(curve.distances)
    return bool((response.cummax(0).values - response).max() > _FALL * response.max())


def clipped_note(curves: Iterable[SceneCurve]) -> str:
    """Tell the largest mean share of cut pixels of illuminants; empty without illuminants."""
    shares = [
        (float(curve.clipped.mean(0).max()), curve.name)
        for curve in curves
        if curve.name.startswith(ILLUMINANT)
    ]
    if not shares:
        return ""
    share, name = max(shares)
    return (
        f"up to {100 * share:.2g} % of the pixels, beyond those of the reference, are cut at the edge of "
        f"sRGB ({name})"
    )
