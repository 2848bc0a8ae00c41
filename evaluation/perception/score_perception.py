"""Score distances of images by their invariance to transforms, against the thresholds of people."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from jaxtyping import Int
from numpy import ndarray

from candlelight.evaluation.catalogue.perception_options import (
    MovedFramesOptions,
    PerceptionOptions,
    TransformKind,
    TransformsOptions,
)
from candlelight.evaluation.catalogue.record import Evaluation, Reading, split_pairs
from candlelight.evaluation.perception.curve_scores import (
    CurveScores,
    clipped_note,
    curve_notes,
    describe_curves,
    level_without_ratings,
    people_order,
)
from candlelight.evaluation.perception.detection import Transduction, fit_rated_pairs, published_transduction
from candlelight.evaluation.perception.distances import is_rmse, open_distance
from candlelight.evaluation.perception.measure_distances import (
    AlignedCurves,
    Families,
    SceneCurve,
    align_curves,
    measure_distances,
)
from candlelight.evaluation.perception.people import NOTEBOOK_SLIP, VISUAL_ANGLES, all_human_thresholds
from candlelight.evaluation.perception.psychometric import MeasuredThresholds
from candlelight.evaluation.perception.transforms import (
    GEOMETRIC_TRANSFORMS,
    ILLUMINANT,
    PAPER_PIXELS_PER_DEGREE,
    TRANSLATION_AXES,
    TransformFamily,
    image_plane_family,
    paper_families,
    spread_hues,
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
from candlelight.evaluation.views import RatedPair, View, open_data
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument, did_you_mean

PHYSICAL, IMAGE_PLANE = "physical", "image plane"


@dataclass(frozen=True, eq=False)
class PerceptionData:
    """Images that metrics compare, and the people whom metrics are compared with.

    Attributes:
        view: images; or references with moved frames.
        families: by kind of moves, `PHYSICAL` or `IMAGE_PLANE`: transforms of the images, or of the
            references of frames; None for the frames themselves. See `measure_distances`.
        people: thresholds of people.
        rated: rated pairs, to which the transduction of each metric is fitted; None for published ones.
        transductions: by name of the metric, beside those of the options.
        settings: facts that the numbers depend on.
        notes: to show beside the scores.
    """

    view: View[Any]
    families: Mapping[str, Families]
    people: MeasuredThresholds = field(default_factory=MeasuredThresholds)
    rated: View[RatedPair] | None = None
    transductions: Mapping[str, Transduction] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def open_transforms(choice: Mapping[str, Any], options: TransformsOptions, models: Any) -> PerceptionData:
    """Open images, and choose their transforms.

    Raises:
        InputError: the images, the ratings or the answers cannot be opened, or an option is out of range.
    """
    if isinstance(choice["data"], PerceptionData):
        return choice["data"]
    people, rated = _open_people(options)
    stated, slip = options.pixels_per_degree, NOTEBOOK_SLIP if options.notebook_slip else 1.0
    per_degree = PAPER_PIXELS_PER_DEGREE if stated is None else stated
    families = paper_families(
        "mnist" if options.canvas == "mnist" else "photographs",
        pixels_per_degree=per_degree,
        hues=options.hues,
        kernel=options.kernel,
    )
    kinds = options.transform or get_args(TransformKind)
    chosen = tuple(_slipped(one, slip) for one in families if one.name.startswith(kinds))
    origin = "assumed, as the paper does for ImageNet" if stated is None else "as stated"
    size: dict[str, Any] = {} if options.size is None else {"size": options.size}
    return PerceptionData(
        open_data("images", **choice, **size),
        {IMAGE_PLANE: chosen},
        people,
        rated,
        settings={"pixels_per_degree": per_degree},
        notes=(f"{per_degree:g} pixels per degree of visual angle, {origin}",),
    )


def open_moved_frames(choice: Mapping[str, Any], options: MovedFramesOptions, models: Any) -> PerceptionData:
    """Open frames in which the camera or the light moved.

    Raises:
        InputError: the frames, the ratings or the answers cannot be opened, or an option is out of range.
    """
    if isinstance(choice["data"], PerceptionData):
        return choice["data"]
    people, rated = _open_people(options)
    wanted: dict[str, Any] = {}
    if options.transform or not is_view(choice["data"]):
        kinds = options.transform or get_args(TransformKind)
        names = [kind for kind in kinds if kind in ("rotation", "scale")]
        names += [*TRANSLATION_AXES, "parallax x"]
        names += [f"{ILLUMINANT}{hue}" for hue in spread_hues(options.hues)]
        wanted = {"transforms": [name for name in names if name.startswith(kinds)]}
    frames = open_data("moved", **choice, **wanted)
    families: dict[str, Families] = {
        PHYSICAL: None,
        IMAGE_PLANE: partial(image_plane_family, kernel=options.kernel),
    }
    if options.moves != "both":
        kind = IMAGE_PLANE if options.moves == "image-plane" else PHYSICAL
        families = {kind: families[kind]}
    notes, settings = [], {}
    if frames.pixels_per_degree:
        ends = list(dict.fromkeys((frames.pixels_per_degree[0], frames.pixels_per_degree[-1])))
        settings["pixels_per_degree"] = ends[0] if len(ends) == 1 else ends
        shown = " to ".join(f"{one:.4g}" for one in ends)
        notes.append(f"{shown} pixels per degree of visual angle, of the camera of the frames")
    if frames.incomplete:
        notes.append(f"scenes left out because a frame of a transform is missing: {len(frames.incomplete)}")
    return PerceptionData(frames, families, people, rated, settings=settings, notes=tuple(notes))


def _open_people(options: PerceptionOptions) -> tuple[MeasuredThresholds, View[RatedPair] | None]:
    """Fit the thresholds of people to logs of answers, and open rated pairs."""
    people = MeasuredThresholds()
    if options.answers:
        from candlelight.evaluation.perception.experiment.answers import measured_thresholds

        people = measured_thresholds([Path(log) for log in options.answers])
    return people, None if options.rated is None else open_data("pairs", options.rated)


def _slipped(family: TransformFamily, slip: float) -> TransformFamily:
    """Multiply the magnitudes of the same shifts."""
    if not family.name.startswith(VISUAL_ANGLES):
        return family
    magnitudes = tuple(slip * one for one in family.magnitudes)
    return replace(family, magnitudes=magnitudes, pixels_per_degree=family.pixels_per_degree / slip)


_ENERGY = "energy of the difference"  # RMSE, beside the metrics


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
    people, levels = data.people, data.people.detection.levels
    for name in people.human:
        check_choice("human", name, tuple(all_human_thresholds()))
    human = {**all_human_thresholds(), **people.human}
    transductions, ratings = _find_transductions(run)
    aligned, energy = _measure_curves(run)
    of_energy = {moves: curves[energy] for moves, curves in aligned.curves.items()}
    first = next(iter(of_energy.values()))
    settings = {**run.settings, **data.settings, **ratings}
    settings |= {"moves": list(data.families), "transforms": list(first), "levels": list(levels)}
    settings |= {"measured_human": dict(people.human)} if people.human else {}
    orders = {moves: people_order(curves, human) for moves, curves in of_energy.items()}
    common = {
        "levels": levels,
        "psychometric": people.detection.fit,
        "human": human,
        "people": {moves: {"sensitivities": one, "order": order} for moves, (one, order) in orders.items()},
    }
    told = [people.detection.note, *_origin(first, people.human), *people.notes, *data.notes, *aligned.notes]
    told += _common_notes(run, transductions, of_energy)
    described = run.fingerprint.describe(data.view)
    record = run.evaluation
    results: dict[str, Result] = {}
    for name, named in run.models.items():
        curves = {moves: metrics[name] for moves, metrics in aligned.curves.items()}
        found, notes = _metric_scores(run, name, curves, transductions.get(name), human)
        scores, replicates = _intervals(found, aligned.groups, run.options.seed)
        details = {
            **common,
            "transduction": transductions.get(name),
            "moves": {moves: describe_curves(one, human) for moves, one in found.items()},
            "notes": [*told, *notes],
        }
        about = make_provenance(record.name, record.version, record.better, named, described, settings)
        groups = distinct_groups(aligned.groups)
        results[name] = StatisticResult(about, scores, replicates, groups, (), details)
    return results


def _origin(curves: Mapping[str, SceneCurve], measured: Mapping[str, float]) -> list[str]:
    """Tell whose thresholds of people the verdicts are about."""
    names = [name for name in GEOMETRIC_TRANSFORMS if name in curves]
    own, published = ([name for name in names if (name in measured) == is_own] for is_own in (True, False))
    if not own:
        return ["thresholds of people: published"] if published else []
    rest = f"; published for {', '.join(published)}" if published else ""
    return [f"thresholds of people: measured for {', '.join(own)}{rest}"]


def _common_notes(
    run: Run[Any], transductions: Mapping[str, Transduction], curves: Mapping[str, Mapping[str, SceneCurve]]
) -> list[str]:
    """Tell which metrics have no ratings, which axes were measured in one direction, and the cut pixels."""
    told = []
    if unrated := [name for name in run.models if name not in transductions]:
        told.append(
            f"no ratings, so curves and an order, but no verdict: {', '.join(unrated)}; give rated pairs "
            "(--rated tid2013:PATH), or a preset where it holds"
        )
    for moves, of_moves in curves.items():
        told += [
            f"{moves}: {curve.name} was measured in one direction alone, {curve.directions[0]}"
            for curve in of_moves.values()
            if len(curve.directions) == 1
        ]
        if note := clipped_note(of_moves):
            told.append(f"{moves}: {note}")
    return told


def _find_transductions(run: Run[Any]) -> tuple[dict[str, Transduction], dict[str, Any]]:
    """Fit the transductions to rated pairs, or take published constants; describe the ratings."""
    pairs, presets = run.data.rated, run.options.preset
    if pairs is not None:
        if presets:
            raise InputError(
                f"{argument('preset')}: not with {argument('rated')}, which is fitted for every metric"
            )
        read = Fingerprint()
        fitted = fit_rated_pairs(run.models, pairs, fingerprint=read, **_how(run))
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


def _how(run: Run[Any]) -> dict[str, Any]:
    return {"device": run.device, "batch_size": run.batch_size, "steps": run.steps}


def _measure_curves(run: Run[Any]) -> tuple[AlignedCurves, str]:
    """Measure the curves of all metrics, and of RMSE, the name of which is returned."""
    # RMSE may be one of the metrics already.
    energy = next((name for name, one in run.models.items() if is_rmse(one)), _ENERGY)
    everything = {energy: open_distance("rmse", run.device), **run.models}
    measured = {
        moves: measure_distances(
            everything, run.data.view, families, fingerprint=run.fingerprint, **_how(run)
        )
        for moves, families in run.data.families.items()
    }
    return align_curves(measured, energy), energy


def _metric_scores(
    run: Run[Any],
    name: str,
    curves: Mapping[str, Mapping[str, SceneCurve]],
    transduction: Transduction | None,
    human: Mapping[str, float],
) -> tuple[dict[str, CurveScores], list[str]]:
    """Score the curves of one metric by kind of moves, with notes."""
    notes = []
    rmse = is_rmse(run.models[name])
    if rmse:
        notes.append(
            f"{name}: no order of sensitivities, because a sensitivity is 1 / RMSE^2 at the threshold, which "
            "is the same for all transforms; the paper lists RMSE nevertheless"
        )
    if transduction is not None and not transduction.converged:
        notes.append(f"{name}: no transduction, so curves and order only: {transduction.note}")
        transduction = None
    levels = None if transduction is None else run.data.people.detection.levels
    found: dict[str, CurveScores] = {}
    for moves, some in curves.items():
        level = level_without_ratings(some, human) if levels is None else levels[1]
        one = CurveScores(some, transduction or Transduction(1.0, 1.0), level, levels, rmse)
        notes += curve_notes(f"{name}, {moves}" if len(curves) > 1 else name, one)
        found[moves] = one
    return found, notes


def _intervals(
    found: Mapping[str, CurveScores], groups: Sequence[str], seed: int
) -> tuple[dict[str, Score], dict[str, tuple[float, ...]]]:
    """Score all scenes and resampled ones."""

    def numbers(rows: Int[ndarray, " drawn"]) -> dict[str, float]:
        return {
            f"{label} ({moves})" if moves == IMAGE_PLANE and len(found) > 1 else label: value
            for moves, one in found.items()
            for label, value in replace(one, rows=rows).numbers().items()
        }

    scores, replicates = resampled_interval(numbers, groups, seed)
    for label in scores:
        if label.startswith(GEOMETRIC_TRANSFORMS):
            # A resample that does not reach D_T has its threshold beyond the range; nan would be left out.
            replicates[label] = tuple(math.inf if math.isnan(one) else one for one in replicates[label])
            count = len(distinct_groups(groups))
            scores[label] = replicate_interval(scores[label].value, replicates[label], count)
    return scores, replicates


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
