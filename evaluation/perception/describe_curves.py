"""The details of a result of `score_perception`: curves, thresholds, ellipses and notes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from candlelight.evaluation.perception.curve_scores import CurveScores
from candlelight.evaluation.perception.detection_threshold import detection_threshold
from candlelight.evaluation.perception.human_thresholds import human_verdict
from candlelight.evaluation.perception.response_curves import mean_response
from candlelight.evaluation.perception.scene_curves import GEOMETRIC_TRANSFORMS, SceneCurve
from candlelight.evaluation.perception.transform_families import ILLUMINANT

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
