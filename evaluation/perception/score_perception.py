"""Score distances of images by their invariance to transforms, against the thresholds of people."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Int
from numpy import ndarray

from candlelight.evaluation.catalogue.perception_options import (
    MovedFramesOptions,
    PerceptionOptions,
    TransformsOptions,
)
from candlelight.evaluation.catalogue.record import Evaluation, Reading, split_pairs
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
from candlelight.evaluation.perception.measure_distances import measure_distances
from candlelight.evaluation.perception.perception_data import (
    IMAGE_PLANE,
    PerceptionData,
    open_moved_frames,
    open_transforms,
)
from candlelight.evaluation.perception.scene_curves import (
    GEOMETRIC_TRANSFORMS,
    AlignedCurves,
    SceneCurve,
    align_curves,
)
from candlelight.evaluation.perception.transduction import (
    Transduction,
    fit_rated_pairs,
    published_transduction,
)
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.fingerprints import Fingerprint, make_provenance
from candlelight.evaluation.run.intervals import (
    Score,
    distinct_groups,
    replicate_interval,
    resampled_interval,
)
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument, did_you_mean

_ENERGY = "energy of the difference"  # RMSE, beside the metrics
_UNRATED = Transduction(1.0, 1.0)


def _score_metrics(run: Run[Any]) -> dict[str, Result]:
    """Compute thresholds, errors of illuminants, and orders of sensitivities of metrics.

    Alabau-Bosque et al. 2024 (arXiv 2407.17927), Tables II and III. Distances are averaged over scenes before
    they are inverted, which hides the spread of the scenes, so scenes are resampled: all metrics on the same
    draws, so that `candlelight.evaluation.run.compare` pairs them. `docs/perception.md` defines the
    scores. A metric without a transduction, or whose fit failed, has curves and an order, see
    `level_without_ratings`, and no verdict.

    Images are transformed and compared on the device of the run; curves, a number for each scene and
    magnitude, are inverted on the CPU.

    Blind to: everything that `detection_threshold`, `illuminant_thresholds` and `sensitivity_order` are blind
    to; the errors of transductions and of D_T, which the intervals leave out.

    Returns:
        A result for each metric. Scores are "translation", "rotation" and "scale" (thresholds: nan if not
        reached, inf if the metric never moves), "illuminant_macadam" and "illuminant_experimental" (errors)
        and "order" (agreement with people); those of the image plane end in " (image plane)" if there are
        physical moves too.

    Raises:
        InputError: a preset is unknown, a metric fails, no scene is complete, or see `measure_distances` and
            `align_curves`.
    """
    data: PerceptionData = run.data
    for name in data.people.human:
        check_choice("human", name, tuple(all_human_thresholds()))
    human = {**all_human_thresholds(), **data.people.human}
    transductions, ratings = _find_transductions(run)
    aligned, energy = _measure_curves(run)
    described = run.fingerprint.describe(data.view)
    first = next(iter(aligned.curves.values()))
    levels = data.people.detection.levels
    settings = {
        **run.settings,
        **data.settings,
        **ratings,
        **{"moves": list(data.families), "transforms": list(first[energy]), "levels": list(levels)},
        **({"measured_human": dict(data.people.human)} if data.people.human else {}),
    }
    people = {
        moves: dict(zip(("sensitivities", "order"), people_order(curves[energy], human), strict=True))
        for moves, curves in aligned.curves.items()
    }
    common = {"levels": levels, "psychometric": data.people.detection.fit, "human": human, "people": people}
    told = _common_notes(run, transductions, aligned, energy)
    results: dict[str, Result] = {}
    for name, named in run.models.items():
        curves = {moves: metrics[name] for moves, metrics in aligned.curves.items()}
        scored = _score(
            *(name, named, curves, transductions.get(name), data.people.detection, human),
            *(aligned.groups, run.options.seed),
        )
        about = run.evaluation.name, run.evaluation.version, run.evaluation.better, named
        results[name] = StatisticResult(
            make_provenance(*about, described, settings),
            scored.scores,
            scored.replicates,
            distinct_groups(aligned.groups),
            (),
            {**common, **scored.details, "notes": [*told, *scored.notes]},
        )
    return results


def _find_transductions(run: Run[Any]) -> tuple[dict[str, Transduction], dict[str, Any]]:
    """Fit the transductions to rated pairs, or take published constants; describe the ratings."""
    pairs, presets = run.data.rated, run.options.preset
    if pairs is not None:
        if presets:
            raise InputError(
                f"{argument('preset')}: not with {argument('rated')}, which is fitted for every metric"
            )
        read = Fingerprint()
        fitted = fit_rated_pairs(
            run.models,
            pairs,
            device=run.device,
            batch_size=run.batch_size,
            steps=run.steps,
            fingerprint=read,
        )
        return fitted, {"rated": read.describe(pairs)}
    names = {name: "RMSE" for name, one in run.models.items() if is_rmse(one)}
    for name, metric in split_pairs(presets, argument("preset")).items():
        if name not in run.models:
            known, near = ", ".join(run.models), did_you_mean(name, run.models)
            raise InputError(
                f"{argument('preset')} {name}={metric}: no metric `{name}`; expected one of {known}{near}"
            )
        names[name] = metric
    published = {name: published_transduction(metric) for name, metric in names.items()}
    return {**published, **run.data.transductions}, {}


def _measure_curves(run: Run[Any]) -> tuple[AlignedCurves, str]:
    """Measure the curves of all metrics, and of RMSE, the name of which is returned."""
    # RMSE may be one of the metrics already.
    energy = next((name for name, one in run.models.items() if is_rmse(one)), _ENERGY)
    everything = {energy: open_distance("rmse", run.device), **run.models}
    measured = {
        moves: measure_distances(
            everything,
            run.data.view,
            families,
            device=run.device,
            batch_size=run.batch_size,
            steps=run.steps,
            fingerprint=run.fingerprint,
        )
        for moves, families in run.data.families.items()
    }
    return align_curves(measured, energy), energy


def _common_notes(
    run: Run[Any],
    transductions: Mapping[str, Transduction],
    aligned: AlignedCurves,
    energy: str,
) -> list[str]:
    """Word the notes that do not depend on a metric."""
    people, first = run.data.people, next(iter(aligned.curves.values()))
    told = [people.detection.note, *_origin(first[energy], people.human), *people.notes, *run.data.notes]
    told += _scene_notes(aligned)
    if unrated := [name for name in run.models if name not in transductions]:
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
    return told


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


def _record(options: type[PerceptionOptions], reads: Reading) -> Evaluation[Any]:
    return Evaluation(
        name="perception",
        version=1,
        better="neither",
        options=options,
        reads=reads,
        study=_score_metrics,
        page="candlelight.evaluation.perception.perception_report:PERCEPTION_PAGE",
    )


TRANSFORMS = _record(TransformsOptions, Reading(open=open_transforms, space="srgb"))
MOVED_FRAMES = _record(MovedFramesOptions, Reading(open=open_moved_frames, space="srgb"))
