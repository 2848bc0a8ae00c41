"""Stimuli of an experiment, opened from its data, and the plan of its trials."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.perception_options import ExperimentSettings
from candlelight.evaluation.perception.detection import normalised_dmos
from candlelight.evaluation.perception.people import HUMAN_THRESHOLDS, VISUAL_ANGLES, screen_pixels_per_degree
from candlelight.evaluation.perception.transforms import (
    PAPER_PIXELS_PER_DEGREE,
    PAPER_SATURATIONS,
    TRANSLATION_AXES,
    TransformFamily,
    unchanged_magnitude,
)
from candlelight.evaluation.views import DataIdentity, RatedPair, View, open_data, parse_data
from candlelight.evaluation.views.moved_frames import MovedRows
from candlelight.evaluation.views.named_rows import ChosenRows
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

StimulusKind = Literal["rated", "transform"]
Side = Literal["left", "right"]
SIDES: tuple[Side, ...] = get_args(Side)


@dataclass(frozen=True)
class Stimulus:
    """A pair to show, without its pixels.

    Attributes:
        kind: "rated" for a rated pair, "transform" for an image and its transform.
        image: id of the pair or of the image.
        transform: name of the transform, as in `TransformFamily`; None for a rated pair.
        magnitude: common distance D of a rated pair; of a transform, in the unit of its family.
        level: number of the level, from 0.
        row: row of the view.
    """

    kind: StimulusKind
    image: str
    transform: str | None
    magnitude: float
    level: int
    row: int


@dataclass(frozen=True, eq=False)
class StimulusSet:
    """Pairs to show, and their pixels.

    Attributes:
        identity: name, set and split of the data.
        stimuli: each pair as often as it is shown.
        pictures: reads or makes the original and the distorted image of a pair: sRGB-encoded, in [0, 1].
    """

    identity: DataIdentity
    stimuli: tuple[Stimulus, ...]
    pictures: Callable[[Stimulus], tuple[Float[Tensor, "3 height width"], Float[Tensor, "3 height width"]]]


def spaced_levels(first: float, last: float, count: int) -> Float64[ndarray, " count"]:
    """Space levels evenly, both ends among them.

    Example:
        >>> spaced_levels(0.3, 0.9, 3)
        array([0.3, 0.6, 0.9])
    """
    return np.linspace(first, last, count).round(9)


@dataclass(frozen=True)
class Trial:
    """One forced choice.

    Attributes:
        number: place in the observer's order, from 0.
        stimulus: the pair.
        side: side of the distorted image.
    """

    number: int
    stimulus: Stimulus
    side: Side


def plan_trials(stimuli: Sequence[Stimulus], seed: int, observer: str) -> tuple[Trial, ...]:
    """Order the pairs at random, and draw sides that are balanced within each level.

    Levels and transforms are mixed (constant stimuli). Half of the answers at each level of a transform have
    the distorted image on the left; for an odd number the extra side is drawn.

    Args:
        stimuli: each pair as often as it is shown.
        seed: seed of all observers.
        observer: name of the observer; another name has another order.

    Example:
        >>> pairs = [Stimulus("rated", name, None, 0.5, 0, 0) for name in "abcd"]
        >>> trials = plan_trials(pairs, 0, "ann")
        >>> sorted(trial.stimulus.image for trial in trials), sorted(trial.side for trial in trials)
        (['a', 'b', 'c', 'd'], ['left', 'left', 'right', 'right'])
    """
    stream = named_stream(seed, f"sides of {observer}")
    cells: dict[tuple[str | None, int], list[int]] = {}
    for place, stimulus in enumerate(stimuli):
        cells.setdefault((stimulus.transform, stimulus.level), []).append(place)
    sides: dict[int, Side] = {}
    for places in cells.values():
        first = int(stream.integers(2))
        for turn, place in enumerate(stream.permutation(places).tolist()):
            sides[place] = SIDES[(first + turn) % 2]
    order = named_stream(seed, f"order of {observer}").permutation(len(stimuli)).tolist()
    return tuple(Trial(number, stimuli[place], sides[place]) for number, place in enumerate(order))


def moved_stimuli(view: MovedRows, settings: ExperimentSettings, per_degree: float) -> StimulusSet:
    """List references and moved frames, at the magnitudes that were rendered.

    Of more magnitudes than levels, those nearest to evenly spaced ones are shown. A translation or parallax
    counts in degrees of the observer's visual angle: that of the frames, times their pixels per degree over
    those of the screen.

    Args:
        view: from `open_data("moved", ...)`.
        settings: settings of the experiment.
        per_degree: pixels of an image per degree of visual angle on the screen.

    Raises:
        InputError: the view lacks a transform, or has fewer than two magnitudes above the reference.
    """
    found = tuple(dict.fromkeys(scene.transform for scene in view.scenes))
    for name in settings.transforms:
        check_choice("transform", name, found)
    zooms = [_zoom(scene, per_degree) for scene in view.scenes]
    stimuli: list[Stimulus] = []
    for name in settings.transforms or found:
        rows = [row for row, scene in enumerate(view.scenes) if scene.transform == name]
        order = named_stream(settings.seed, f"scenes {name}").permutation(len(rows))[: settings.pairs]
        chosen = [rows[place] for place in order]
        for level, magnitude in enumerate(_rendered_levels(view, rows[0], settings.levels)):
            for repeat in range(settings.repeats):
                row = chosen[(level + repeat) % len(chosen)]
                shown = round(magnitude * zooms[row], 9)
                stimuli.append(Stimulus("transform", view.ids[row], name, shown, level, row))

    def pictures(stimulus: Stimulus) -> tuple[Tensor, Tensor]:
        item = view[stimulus.row]
        shown = item.magnitudes.numpy() * zooms[stimulus.row]
        return item.reference, item.moved[int(np.abs(shown - stimulus.magnitude).argmin())]

    return StimulusSet(view.identity, tuple(stimuli), pictures)


def _rendered_levels(view: MovedRows, row: int, levels: int) -> list[float]:
    """Choose magnitudes of the frames, which all scenes of a transform share."""
    name, rendered = view.scenes[row].transform, sorted(view.scenes[row].by_magnitude)
    # As in `align_curves`: scales below 1 and angles below 0 are another family.
    there = np.array([magnitude for magnitude in rendered if magnitude > unchanged_magnitude(name)])
    if len(there) < 2:
        raise InputError(
            f"{view.identity.name}: expected at least 2 magnitudes of {name} above the reference, got "
            f"{len(there)}; render more values"
        )
    wanted = spaced_levels(there[0], there[-1], levels)
    return there[np.unique(np.abs(there - wanted[:, None]).argmin(1))].tolist()


def _zoom(scene: Any, per_degree: float) -> float:
    """Return the factor from degrees of the camera of a scene's frames to degrees on the screen."""
    if not scene.transform.startswith(VISUAL_ANGLES):
        return 1.0
    of_frames: float = next(iter(scene.by_magnitude.values())).pixels_per_degree
    return of_frames / per_degree


def rated_stimuli(view: ChosenRows[RatedPair], settings: ExperimentSettings) -> StimulusSet:
    """List rated pairs whose D is nearest to levels from the smallest D of the data to the largest.

    The levels are evenly spaced in D, and not at quantiles, because ratings crowd where distortions are
    plain. The repeats of a level go through different pairs, so that an observer does not learn one image;
    each keeps its own D.

    Args:
        view: from `open_data("pairs", ...)`.
        settings: settings of the experiment.

    Raises:
        InputError: all pairs up to the largest D have one rating.
    """
    scores = torch.from_numpy(view.named.reader.mos[list(view.named.numbers)])
    distances = normalised_dmos(scores).numpy().round(9)  # as readable in the log
    first, last = float(distances.min()), float(distances.max())
    last = last if settings.largest is None else min(last, settings.largest)
    if last <= first:
        raise InputError(
            f"{view.identity.name}: expected pairs of different D, got D from {first:g} to {last:g}; "
            "take more pairs, or a larger largest D"
        )
    wanted = spaced_levels(first, last, settings.levels)
    stimuli = tuple(
        Stimulus("rated", view.ids[row], None, float(distances[row]), level, row)
        for level, rows in enumerate(nearest_pairs(distances, wanted, settings.pairs))
        for row in np.resize(rows, settings.repeats).tolist()
    )

    def pictures(stimulus: Stimulus) -> tuple[Tensor, Tensor]:
        pair = view[stimulus.row]
        return pair.reference, pair.distorted

    return StimulusSet(view.identity, stimuli, pictures)


def nearest_pairs(
    distances: Float64[ndarray, " pairs"], levels: Float64[ndarray, " levels"], most: int
) -> Iterator[list[int]]:
    """Find, for each level, the pairs nearest to it.

    Args:
        distances: D of the pairs.
        levels: wanted D.
        most: largest number of pairs at each level.

    Returns:
        For each level the rows of the nearest pairs, nearest first, among those that lie nearer to it than to
        another level; where there is none, the one nearest pair.

    Example:
        >>> distances = np.array([0.1, 0.12, 0.35, 0.9])
        >>> list(nearest_pairs(distances, np.array([0.1, 0.5, 0.9]), 5))
        [[0, 1], [2], [3]]
    """
    apart = np.abs(distances - levels[:, None])
    own = apart.argmin(0)
    for level, row in enumerate(apart):
        order = row.argsort(kind="stable")
        inside = order[own[order] == level][:most]
        yield (inside if len(inside) else order[:1]).tolist()


DEFAULT_TRANSFORMS = ("translation x", "rotation", "scale")
_RANGE = 3.0  # largest magnitude of a transform, in human thresholds of the paper


def default_largest(transform: str) -> float:
    """Return the largest magnitude that is shown: three times the human threshold of the paper.

    For illuminants it is the paper's largest saturation, 8 steps.

    Example:
        >>> default_largest("rotation"), round(default_largest("scale"), 3), default_largest("illuminant 611")
        (10.8, 1.078, 8.0)
    """
    threshold = HUMAN_THRESHOLDS.get(transform.split(" ")[0])
    if threshold is None:
        return float(max(PAPER_SATURATIONS))
    start = unchanged_magnitude(transform)
    return round(start + _RANGE * (threshold - start), 9)


def transformed_stimuli(view: View[Tensor], settings: ExperimentSettings, per_degree: float) -> StimulusSet:
    """List images and their transforms at levels evenly spaced from the first change to the largest.

    All transforms and levels show the same images, chosen at random; the repeats of a level go through them.
    Translations are shown at the nearest whole pixels, as in the paper, at most one level for each: between
    pixels an image would be softer than its original, which gives it away. Rotation and scale resample the
    changed image alone, and illuminants resample nothing.

    Args:
        view: from `open_data("images", ...)`.
        settings: settings of the experiment.
        per_degree: pixels of an image per degree of visual angle on the screen.

    Raises:
        InputError: a transform is unknown, or its largest magnitude is not above the unchanged one, is out of
            range, or is a translation of less than two pixels.
    """
    chosen = settings.transforms or dict.fromkeys(DEFAULT_TRANSFORMS)
    largest = {name: default_largest(name) if one is None else one for name, one in chosen.items()}
    levels = {name: _image_levels(name, one, settings.levels, per_degree) for name, one in largest.items()}
    rows = named_stream(settings.seed, "images").permutation(len(view))[: settings.pairs].tolist()
    stimuli = tuple(
        Stimulus("transform", view.ids[row], name, magnitude, level, row)
        for name, magnitudes in levels.items()
        for level, magnitude in enumerate(magnitudes)
        for row in (rows[(level + repeat) % len(rows)] for repeat in range(settings.repeats))
    )

    def pictures(stimulus: Stimulus) -> tuple[Tensor, Tensor]:
        image = view[stimulus.row]
        family = TransformFamily(str(stimulus.transform), (stimulus.magnitude,), per_degree)
        return image, family.transform(image[None], stimulus.magnitude).images[0]

    return StimulusSet(view.identity, stimuli, pictures)


def _image_levels(name: str, largest: float, count: int, per_degree: float) -> list[float]:
    """Space the magnitudes of a transform of images; refuse a transform before it is shown."""
    start = unchanged_magnitude(name)
    if not largest > start:
        raise InputError(
            f"transform `{name}`: expected a largest magnitude above {start:g}, which changes nothing, got "
            f"{largest:g}; levels rise from there"
        )
    TransformFamily(name, (largest,), per_degree)  # checks the name and the range
    levels = spaced_levels(start, largest, count + 1)[1:].tolist()
    if name in TRANSLATION_AXES:
        pixels = {max(1, round(level * per_degree)) for level in levels}
        levels = [one / per_degree for one in sorted(pixels)]
    if len(levels) < 2:
        raise InputError(
            f"transform `{name}`: expected a largest magnitude of at least 2 pixels, {2 / per_degree:.2g} "
            f"degrees, got {largest:g}; levels are whole pixels, and a fit needs two"
        )
    return levels


_RATED_LAYOUT = "tid2013"
PICTURE_SIDE = 256  # pixels of pictures of a folder, unless a size is given


def screen_geometry(settings: ExperimentSettings) -> tuple[float, int | None]:
    """Return the pixels of an image per degree, and the screen's pixels for each of them if that is fixed.

    Raises:
        InputError: the distance of the eyes without the pitch of the screen, or beside pixels per degree.

    Example:
        >>> screen_geometry(ExperimentSettings())
        (29.2, None)
    """
    distance, pitch = settings.distance, settings.pitch
    if distance is None and pitch is None:
        return settings.pixels_per_degree or PAPER_PIXELS_PER_DEGREE, settings.scale
    if distance is None or pitch is None or settings.pixels_per_degree is not None:
        one, other, last = map(argument, ("pixels_per_degree", "distance", "pitch"))
        raise InputError(f"expected {one} alone, or both {other} and {last}")
    shown = settings.scale or 1
    return screen_pixels_per_degree(pitch * shown, distance), shown


def open_stimuli(
    data: str, settings: ExperimentSettings, set_name: str | None = None, split: str | None = None
) -> StimulusSet:
    """Open the data of an experiment.

    Args:
        data: ``tid2013:PATH`` for rated pairs; else natural images, as for
            `open_data("images", ...)`.
        settings: settings of the experiment.
        set_name: image set of frames.
        split: split of the data.

    Raises:
        InputError: the data are missing or of another kind, or an option belongs to another kind of data.

    Example:
        >>> open_stimuli("tid2013:nowhere", ExperimentSettings(("rotation",)))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: tid2013:nowhere: rated pairs have no transforms, got \
rotation; leave them out, or name a folder of images
    """
    per_degree = screen_geometry(settings)[0]
    rated_layout = parse_data(data).layout == _RATED_LAYOUT
    if settings.size is not None and (rated_layout or settings.moved):
        raise InputError(f"{data}: a size is for pictures of a folder; leave it out")
    if rated_layout:
        if settings.transforms or settings.moved:
            got = ", ".join(settings.transforms) or "moved frames"
            raise InputError(
                f"{data}: rated pairs have no transforms, got {got}; leave them out, or name a folder of "
                "images"
            )
        rated = open_data("pairs", data, set_name=set_name, split=split)
        return rated_stimuli(rated, settings)
    if settings.largest is not None:
        raise InputError(
            f"{data}: a largest D is for rated pairs; give each transform its own, as in rotation=6"
        )
    if settings.moved:
        if ranged := [name for name, largest in settings.transforms.items() if largest is not None]:
            raise InputError(
                f"transform `{ranged[0]}`: moved frames have the magnitudes that were rendered; name it "
                "without a largest one"
            )
        moved = open_data("moved", data, set_name=set_name, split=split)
        return moved_stimuli(moved, settings, per_degree)
    side = settings.size or PICTURE_SIDE
    view = open_data("images", data, set_name=set_name, split=split, size=(side, side))
    return transformed_stimuli(view, settings, per_degree)
