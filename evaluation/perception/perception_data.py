"""Open the images of an evaluation of distances: pictures with transforms, or frames that moved."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from candlelight.evaluation.catalogue.perception_options import (
    MovedFramesOptions,
    PerceptionOptions,
    TransformKind,
    TransformsOptions,
)
from candlelight.evaluation.perception.detection import MeasuredThresholds
from candlelight.evaluation.perception.people import (
    NOTEBOOK_SLIP,
    PAPER_PIXELS_PER_DEGREE,
    VISUAL_ANGLES,
)
from candlelight.evaluation.perception.scene_curves import TRANSLATION_AXES
from candlelight.evaluation.perception.transduction import Transduction
from candlelight.evaluation.perception.transform_families import (
    ILLUMINANT,
    TransformFamily,
    image_plane_family,
    paper_families,
)
from candlelight.evaluation.perception.transforms import spread_hues
from candlelight.evaluation.views import MovedImages, RatedPair, View, open_data
from candlelight.evaluation.views.open_data import is_view

PHYSICAL, IMAGE_PLANE = "physical", "image plane"
Families = Sequence[TransformFamily] | Callable[[MovedImages], TransformFamily] | None


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
        wanted = {"transforms": list(_transform_names(kinds, options.hues))}
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
        from candlelight.evaluation.perception.experiment.fit_answers import measured_thresholds

        people = measured_thresholds([Path(log) for log in options.answers])
    return people, None if options.rated is None else open_data("pairs", options.rated)


def _slipped(family: TransformFamily, slip: float) -> TransformFamily:
    """Multiply the magnitudes of the same shifts."""
    if not family.name.startswith(VISUAL_ANGLES):
        return family
    magnitudes = tuple(slip * one for one in family.magnitudes)
    return replace(family, magnitudes=magnitudes, pixels_per_degree=family.pixels_per_degree / slip)


def _transform_names(kinds: Sequence[str], hues: int) -> Iterator[str]:
    """Name the transforms of frames: those of each axis and hue."""
    yield from (kind for kind in kinds if kind in ("rotation", "scale"))
    if "translation" in kinds:
        yield from TRANSLATION_AXES
    if "parallax" in kinds:
        yield "parallax x"
    if "illuminant" in kinds:
        yield from (f"{ILLUMINANT}{hue}" for hue in spread_hues(hues))
