"""Score distances of images by their invariance to transforms, against the thresholds of people."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Int
from numpy import ndarray

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception.curve_scores import (
    CurveScores,
    all_human_thresholds,
    clipped_note,
    curve_notes,
    describe_curves,
    level_without_ratings,
    people_order,
)
from candlelight.evaluation.perception.detection import DetectionLevels
from candlelight.evaluation.perception.distances import is_rmse, open_distance
from candlelight.evaluation.perception.measure_distances import TransformDistances, measure_distances
from candlelight.evaluation.perception.people import NOTEBOOK_SLIP, VISUAL_ANGLES
from candlelight.evaluation.perception.scene_curves import (
    GEOMETRIC_TRANSFORMS,
    AlignedCurves,
    SceneCurve,
    align_curves,
)
from candlelight.evaluation.perception.transduction import Transduction
from candlelight.evaluation.perception.transform_families import TransformFamily
from candlelight.evaluation.run.batches import Fingerprint, make_provenance
from candlelight.evaluation.run.intervals import (
    Score,
    distinct_groups,
    replicate_interval,
    resampled_interval,
)
from candlelight.evaluation.run.result import StatisticResult
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import MovedImages, View
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

PERCEPTION_METRIC, _VERSION = "perception", 1
PHYSICAL, IMAGE_PLANE = "physical", "image plane"
_ENERGY = "energy of the difference"  # RMSE, beside the metrics
_UNRATED = Transduction(1.0, 1.0)


@dataclass(frozen=True, eq=False)
class MoveSource:
    """Images and their transforms.

    Attributes:
        view: images; or references with moved frames.
        families: transforms of the images, see `measure_distances`; None for frames.
    """

    view: View[Any]
    families: tuple[TransformFamily, ...] | Callable[[MovedImages], TransformFamily] | None = None


def score_perception(
    named_distances: Mapping[str, NamedModel],
    sources: Mapping[str, MoveSource],
    transductions: Mapping[str, Transduction],
    *,
    detection: DetectionLevels | None = None,
    human: Mapping[str, float] | None = None,
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    notebook_slip: bool = False,
    seed: int = 0,
    batch_size: int = 16,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, StatisticResult]:
    """Compute thresholds, errors of illuminants, and orders of sensitivities of metrics.

    Alabau-Bosque et al. 2024 (arXiv 2407.17927), Tables II and III. Distances are averaged over scenes before
    they are inverted, which hides the spread of the scenes, so scenes are resampled: all metrics on the same
    draws, so that `candlelight.evaluation.run.compare` pairs them. `docs/perception.md` defines the
    scores.

    Blind to: everything that `detection_threshold`, `illuminant_thresholds` and `sensitivity_order` are blind
    to; the errors of transductions and of D_T, which the intervals leave out.

    Args:
        named_distances: by name, from `open_distance` on ``device``.
        sources: `PHYSICAL`, `IMAGE_PLANE`, or both, of the same scenes.
        transductions: by name of the metric. A metric without one, or whose fit failed, has curves and an
            order, see `level_without_ratings`, and no verdict.
        detection: D_T; None takes the published one.
        human: thresholds of people by transform, such as from `measured_thresholds`, which replace the
            published ones of `all_human_thresholds`; "parallax x" has its own.
        settings: further facts that the numbers depend on, such as the ratings.
        notes: on the data, to show beside the scores.
        notebook_slip: multiply magnitudes of translations on the image plane by 1.1, as the paper's notebook
            does by mistake, to compare with its numbers.
        seed: of the resampled scenes.
        batch_size: maximal number of pairs that are compared at once.
        device: torch device on which images are transformed and compared.
        steps: keeps finished curves, so that an interrupted run resumes.

    Returns:
        A result for each metric. Scores are "translation", "rotation" and "scale" (thresholds: nan if not
        reached, inf if the metric never moves), "illuminant_macadam" and "illuminant_experimental" (errors)
        and "order" (agreement with people); those of the image plane end in " (image plane)" if there are
        physical moves too.

    Raises:
        InputError: there is no metric or source, a metric fails, no scene is complete, or what
            `measure_distances` and `align_curves` refuse.
    """
    if not named_distances or not sources:
        raise InputError("expected at least one metric and one source of moves, got none")
    measured_human = dict(human or {})
    for name in measured_human:
        check_choice("human", name, tuple(all_human_thresholds()))
    thresholds = {**all_human_thresholds(), **measured_human}
    detection = detection or DetectionLevels()
    fingerprint = Fingerprint()
    measured = {}
    # RMSE may be one of the metrics already.
    energy = next((name for name, one in named_distances.items() if is_rmse(one)), _ENERGY)
    everything = {energy: open_distance("rmse", device), **named_distances}
    for moves, source in sources.items():
        tables = measure_distances(
            everything,
            source.view,
            source.families,
            device=device,
            batch_size=batch_size,
            steps=steps,
            fingerprint=fingerprint,
        )
        slips = notebook_slip and moves == IMAGE_PLANE
        measured[moves] = {name: _slipped(some) if slips else some for name, some in tables.items()}
    aligned = align_curves(measured, energy)
    described = fingerprint.describe(next(iter(sources.values())).view)
    people = {
        moves: dict(zip(("sensitivities", "order"), people_order(curves[energy], thresholds), strict=True))
        for moves, curves in aligned.curves.items()
    }
    common = {"levels": detection.levels, "psychometric": detection.fit}
    common |= {"human": thresholds, "people": people}
    whole = {
        **(settings or {}),
        **{"moves": list(sources), "transforms": list(aligned.curves[next(iter(sources))][energy])},
        **{"levels": list(detection.levels), "notebook_slip": notebook_slip, "seed": seed},
        **({"measured_human": measured_human} if measured_human else {}),
    }
    told = [detection.note, *_origin(aligned.curves[next(iter(sources))][energy], measured_human), *notes]
    told += _scene_notes(aligned)
    if unrated := [name for name in named_distances if name not in transductions]:
        told.append(
            f"no ratings, so curves and an order, but no verdict: {', '.join(unrated)}; give rated pairs "
            "(--rated tid2013:PATH), or a preset where it holds"
        )
    for moves, metrics in aligned.curves.items():
        told += [
            f"{moves}: {curve.name} was measured in one direction alone, {curve.directions[0]}"
            for curve in metrics[energy].values()
            if len(curve.directions) == 1
        ]
        if note := clipped_note(metrics[energy].values()):
            told.append(f"{moves}: {note}")
    results = {}
    for name, named in named_distances.items():
        curves = {moves: metrics[name] for moves, metrics in aligned.curves.items()}
        known = transductions.get(name)
        scored = _score(name, named, curves, known, detection, thresholds, aligned.groups, seed)
        results[name] = StatisticResult(
            make_provenance(PERCEPTION_METRIC, _VERSION, "neither", named, described, whole),
            scored.scores,
            scored.replicates,
            distinct_groups(aligned.groups),
            (),
            {**common, **scored.details, "notes": [*told, *scored.notes]},
        )
    return results


@dataclass(frozen=True)
class _Scored:
    scores: dict[str, Score]
    replicates: dict[str, tuple[float, ...]]
    details: dict[str, Any]
    notes: list[str]


def _score(
    name: str,
    named: NamedModel,
    curves: Mapping[str, Mapping[str, SceneCurve]],
    transduction: Transduction | None,
    detection: DetectionLevels,
    human: Mapping[str, float],
    groups: Sequence[str],
    seed: int,
) -> _Scored:
    """Score one metric on all scenes and on resampled ones."""
    usable = transduction is not None and transduction.converged
    known = transduction if transduction is not None and usable else _UNRATED
    notes = []
    if is_rmse(named):
        notes.append(
            f"{name}: no order of sensitivities, because a sensitivity is 1 / RMSE^2 at the threshold, which "
            "is the same for all transforms; the paper lists RMSE nevertheless"
        )
    if transduction is not None and not usable:
        notes.append(f"{name}: no transduction, so curves and order only: {transduction.note}")
    found: dict[str, CurveScores] = {}
    for moves, some in curves.items():
        level = detection.levels[1] if usable else level_without_ratings(some, human)
        found[moves] = CurveScores(some, known, level, is_rmse(named))
        notes += curve_notes(f"{name}, {moves}" if len(curves) > 1 else name, found[moves], usable)
    statistic = _statistic(found, usable)
    scores, replicates = resampled_interval(statistic, groups, seed)
    count = len(distinct_groups(groups))
    thresholds = [label for label in scores if not label.startswith(("illuminant", "order"))]
    for label in thresholds:
        # A resample that does not reach D_T has its threshold beyond the range; nan would be left out.
        replicates[label] = tuple(math.inf if math.isnan(one) else one for one in replicates[label])
        scores[label] = replicate_interval(scores[label].value, replicates[label], count)
    details = {
        "transduction": transduction,
        "moves": {
            moves: describe_curves(one, detection.levels if usable else None, human)
            for moves, one in found.items()
        },
    }
    return _Scored(scores, replicates, details, notes)


def _statistic(
    found: Mapping[str, CurveScores], usable: bool
) -> Callable[[Int[ndarray, " drawn"]], dict[str, float]]:
    """Make the function from drawn scenes to scores."""

    def compute(rows: Int[ndarray, " drawn"]) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for moves, one in found.items():
            ending = f" ({moves})" if moves == IMAGE_PLANE and len(found) > 1 else ""
            some = (
                replace(one, rows=rows).numbers()
                if usable
                else {"order": replace(one, rows=rows).order.score}
            )
            numbers |= {f"{label}{ending}": value for label, value in some.items()}
        return numbers

    return compute


def _slipped(tables: Sequence[TransformDistances]) -> tuple[TransformDistances, ...]:
    """Multiply the magnitudes of translations by the slip of the paper's notebook."""
    return tuple(
        replace(table, magnitudes=NOTEBOOK_SLIP * table.magnitudes)
        if table.transform.startswith(VISUAL_ANGLES)
        else table
        for table in tables
    )


def _origin(curves: Iterable[str], measured: Mapping[str, float]) -> list[str]:
    """Tell whose thresholds of people the verdicts are about."""
    names = [name for name in GEOMETRIC_TRANSFORMS if name in curves]
    own, published = ([name for name in names if (name in measured) == is_own] for is_own in (True, False))
    if not own:
        return ["thresholds of people: published"] if published else []
    rest = f"; published for {', '.join(published)}" if published else ""
    return [f"thresholds of people: measured for {', '.join(own)}{rest}"]


def _scene_notes(aligned: AlignedCurves) -> list[str]:
    """Tell which scenes are left out, and why."""
    notes = []
    if aligned.missing:
        notes.append(f"scenes left out because a transform lacks them: {aligned.missing}")
    for name, groups in aligned.undefined.items():
        if groups:
            notes.append(
                f"scenes left out because {name} is undefined on them: {len(groups)}, "
                f"{', '.join(groups[:3])}" + (", ..." if len(groups) > 3 else "")
            )
    return notes
