"""Distances of references and their transforms for a metric, and the curves of the scenes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception.detection import check_distances
from candlelight.evaluation.perception.distances import check_distance, pair_distances
from candlelight.evaluation.perception.people import COLOUR_AXES
from candlelight.evaluation.perception.transforms import (
    ILLUMINANT,
    TRANSLATION_AXES,
    TransformFamily,
    unchanged_magnitude,
)
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.steps import FinishedSteps, Step, join_steps, model_key
from candlelight.evaluation.views import MovedImages, View
from candlelight.evaluation.views.image_tensors import check_srgb_image
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bars import progress_bar

_VERSION = 1  # of the numbers of a finished step
Families = Sequence[TransformFamily] | Callable[[MovedImages], TransformFamily] | None


@dataclass(frozen=True, eq=False)
class TransformDistances:
    """Distances of a metric over one family of transforms.

    Attributes:
        transform: name of the family, such as "rotation" or "illuminant 611".
        unit: unit of the magnitudes.
        magnitudes: as the family lists them; of frames, ascending.
        ids: id of the row of each scene.
        groups: scene, object or unit of each row; rows of one group are not independent.
        distances: distance of the transformed image from its reference; nan where it is undefined.
        clipped: share of the pixels of each image with an over-exposed channel, less that of the reference.
        areas: pixels of each compared image over those of the scene's own image: above 1 on a canvas.
    """

    transform: str
    unit: str
    magnitudes: Float64[Tensor, " magnitudes"]
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    distances: Float64[Tensor, "scenes magnitudes"]
    clipped: Float64[Tensor, "scenes magnitudes"]
    areas: Float64[Tensor, " scenes"]


class _Scene(NamedTuple):
    """Names of one scene under one family: a row of a table of distances."""

    id: str
    group: str
    transform: str
    unit: str
    magnitudes: Float64[Tensor, " magnitudes"]
    area: float = 1.0  # of the reference, in areas of the image


class _Curve(NamedTuple):
    """One scene under one family, with its images."""

    scene: _Scene
    reference: Float32[Tensor, "3 height width"]  # on the device
    move: Callable[[slice], tuple[Tensor, Tensor]]  # images of some magnitudes, and their clipped shares
    about: dict[str, Any]  # the data that the distances depend on


def measure_distances(
    named_distances: Mapping[str, NamedModel],
    view: View[Any],
    families: Families = None,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    steps: FinishedSteps | None = None,
    fingerprint: Fingerprint | None = None,
) -> dict[str, tuple[TransformDistances, ...]]:
    """Measure distances d(T(i), i) of images i from their transforms T at all magnitudes.

    The mean over scenes is the response of the metric, eq. 1 of Alabau-Bosque et al. 2024 (arXiv 2407.17927).
    An image is transformed once for all metrics; memory holds ``batch_size`` transformed images at a time.

    Args:
        named_distances: by name, from `open_distance` on ``device``.
        view: images, from `open_data("images", ...)`; or references with the frames in which
            camera or illuminant moved, from `open_data("moved", ...)`.
        families: transforms of the images, such as `paper_families()`; for frames, None compares them
            with their references, and `image_plane_family` transforms the references instead.
        device: torch device on which images are transformed and compared.
        batch_size: maximal number of pairs that are made and compared at once.
        steps: keeps the finished batches of each metric and family, so that an interrupted run resumes; None
            keeps nothing. Distances of a user's own functions are computed anew, as `model_key` says.
        fingerprint: is extended by every row of the view, if given.

    Returns:
        For each metric, its distances by family in the order of ``families``, or of the frames.

    Raises:
        InputError: there is no metric, row or family; an image is not sRGB-encoded in [0, 1]; a metric is not
            0 for equal images, fails, or needs larger images; the frames of two scenes have other magnitudes;
            ``batch_size`` is below 1; or a step cannot be written.

    Example:
        >>> from candlelight.evaluation.perception import open_distance
        >>> class Grays:
        ...     identity, ids, groups, known_ids = None, ("a", "b"), ("a", "b"), {"a", "b"}
        ...     def __len__(self):
        ...         return 2
        ...     def __getitem__(self, row):
        ...         return torch.linspace(0, 1, 5).expand(3, 4, 5)
        >>> family = TransformFamily("translation x", (0, 1), pixels_per_degree=1)
        >>> [measured] = measure_distances({"rmse": open_distance("rmse")}, Grays(), [family])["rmse"]
        >>> measured.distances
        tensor([[0.0000, 0.2236],
                [0.0000, 0.2236]], dtype=torch.float64)
    """
    names = [family.name for family in families] if isinstance(families, Sequence) else None
    if not named_distances or not len(view.ids) or names == []:
        raise InputError("expected at least one metric, one row of the view and one family, got none")
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")
    if names is not None and len(set(names)) < len(names):
        raise InputError(f"expected families of different names, got {', '.join(names)}; measure them apart")
    kept, whole = steps or FinishedSteps(), fingerprint or Fingerprint()
    settings = {"metric": "perception", "version": _VERSION}
    keys = {name: model_key(named, device, **settings) for name, named in named_distances.items()}
    scenes: list[_Scene] = []
    found: dict[str, list[Step]] = {name: [] for name in named_distances}
    count = len(view.ids) * (1 if names is None else len(names))
    curves = _curves(view, families, device, whole)
    for curve in progress_bar(curves, desc="distances", unit="curve", total=count):
        reference = curve.reference[None]
        if not scenes:
            for named in named_distances.values():
                check_distance(named, reference)
        made: list[dict[str, Step]] = []
        for start in range(0, len(curve.scene.magnitudes), batch_size):
            move = cache(partial(curve.move, slice(start, start + batch_size)))  # once for all metrics
            about = {**curve.about, "magnitudes": [start, batch_size]}
            made.append({})
            for name, named in named_distances.items():
                key, compute = keys[name], partial(_measure, named, reference, move)
                made[-1][name] = kept.get_or_compute(None if key is None else {**key, **about}, compute)
        for name, step in join_steps(made).items():
            found[name].append(step)
        scenes.append(curve.scene)
    return {name: _tables(scenes, rows) for name, rows in found.items()}


def _curves(view: View[Any], families: Families, device: str, whole: Fingerprint) -> Iterator[_Curve]:
    """Read the rows of a view, each under all families, and add them to the hash of all rows."""
    for row, (name, group) in enumerate(zip(view.ids, view.groups, strict=True)):
        item = view[row]
        if families is None:
            scene = _Scene(name, group, item.transform, item.unit, item.magnitudes)
            about: dict[str, Any] = {"read": _hash_row(whole, name, item)}
            yield _Curve(scene, item.reference.to(device), partial(_frames, item, device), about)
            continue
        if callable(families):
            image, named = item.reference, {item.transform: families(item)}
        else:
            image, named = check_srgb_image(item), {family.name: family for family in families}
        read = _hash_row(whole, name, image)
        for transform, family in named.items():
            reference = family.prepare(image[None].to(device))
            magnitudes = torch.tensor(family.magnitudes, dtype=torch.float64)
            area = reference[0].numel() / image.numel()
            scene = _Scene(name, group, transform, family.unit, magnitudes, area)
            about = {"family": asdict(family), "read": read}
            yield _Curve(scene, reference[0], partial(_transform, family, reference), about)


def _transform(family: TransformFamily, reference: Tensor, some: slice) -> tuple[Tensor, Tensor]:
    moved = [family.transform(reference, magnitude) for magnitude in family.magnitudes[some]]
    return torch.cat([one.images for one in moved]), torch.cat([one.clipped for one in moved])


def _frames(item: MovedImages, device: str, some: slice) -> tuple[Tensor, Tensor]:
    before = item.clipped[item.magnitudes == unchanged_magnitude(item.transform)]
    return item.moved[some].to(device), item.clipped[some] - before


def _hash_row(whole: Fingerprint, name: str, item: object) -> str:
    """Add a row to the hash of all rows, and return its own."""
    own = Fingerprint()
    for one in (whole, own):
        one.add(name, item)
    return own.hexdigest()


def _measure(
    named: NamedModel, reference: Tensor, move: Callable[[], tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """Compare the images of some magnitudes with the reference."""
    moved, clipped = move()
    distances = pair_distances(named, moved, reference.expand_as(moved))
    return {"distances": distances, "clipped": clipped.double()}


def _tables(scenes: Sequence[_Scene], rows: Sequence[Mapping[str, Tensor]]) -> tuple[TransformDistances, ...]:
    """Join the rows of each family."""
    tables: list[TransformDistances] = []
    for transform in dict.fromkeys(scene.transform for scene in scenes):
        chosen = [place for place, scene in enumerate(scenes) if scene.transform == transform]
        ids, groups, _, [unit, *_], [magnitudes, *others], areas = zip(
            *(scenes[place] for place in chosen), strict=True
        )
        for name, other in zip(ids[1:], others, strict=True):
            if not torch.equal(other, magnitudes):
                raise InputError(
                    f"{transform}: expected the magnitudes of `{ids[0]}` for every scene, got others for "
                    f"`{name}`; measure them apart"
                )
        distances, clipped = (
            torch.stack([rows[place][key] for place in chosen]) for key in ("distances", "clipped")
        )
        numbers = distances, clipped, torch.tensor(areas, dtype=torch.float64)
        tables.append(TransformDistances(transform, unit, magnitudes, ids, groups, *numbers))
    return tuple(tables)


_Key = tuple[str, int]  # group of a row, and its place among the rows of the group


@dataclass(frozen=True, eq=False)
class SceneCurve:
    """Distances of each scene from itself over one transform.

    Attributes:
        name: "translation" (mean over x and y), "parallax x", "rotation", "scale", "illuminant HUE", or "RG"
            and "YB" (mean over both ends of the axis); of one direction alone if only that was measured.
        unit: unit of the magnitudes.
        magnitudes: ascending from the identity: 0, or 1 for scale.
        distances: in the unit of the metric.
        energies: sums of the squared differences of the sRGB-encoded images, over the values of the scene's
            own image: means, unless the images lie on a canvas, which adds pixels and no difference.
        clipped: share of pixels that are cut, see `TransformDistances`.
        directions: transforms that are averaged; empty if there is one by definition.
    """

    name: str
    unit: str
    magnitudes: Float64[Tensor, " magnitudes"]
    distances: Float64[Tensor, "scenes magnitudes"]
    energies: Float64[Tensor, "scenes magnitudes"]
    clipped: Float64[Tensor, "scenes magnitudes"]
    directions: tuple[str, ...] = ()


class AlignedCurves(NamedTuple):
    """Curves of several metrics over the same scenes.

    Attributes:
        groups: group of each scene.
        curves: by kind of moves, metric and transform.
        notes: numbers of scenes that are left out, because a transform lacks them or a metric is undefined.
    """

    groups: tuple[str, ...]
    curves: dict[str, dict[str, dict[str, SceneCurve]]]
    notes: list[str]


def align_curves(
    measured: Mapping[str, Mapping[str, Sequence[TransformDistances]]], energy: str
) -> AlignedCurves:
    """Bring the curves of all metrics and transforms to the same scenes, and average those of an axis.

    Args:
        measured: by kind of moves, such as "physical", and metric, from `measure_distances`.
        energy: name of RMSE among the metrics.

    Returns:
        Curves at magnitudes from the identity upwards; smaller ones, such as scales below 1, are another
        family. A scene on which a metric is undefined (nan) is left out for all, so that all are compared
        on the same scenes.

    Raises:
        InputError: no scene is left, distances are negative, or axes or hues differ in their magnitudes.

    Example:
        >>> def table(axis, distances):
        ...     both = torch.tensor([distances]).double()
        ...     magnitudes = torch.tensor([0.0, 1.0]).double()
        ...     names = f"translation {axis}", "degrees"
        ...     area = torch.ones(1).double()
        ...     return TransformDistances(*names, magnitudes, ("a",), ("a",), both, both, area)
        >>> tables = [table("x", [0.0, 0.1]), table("y", [0.0, 0.3])]
        >>> found = align_curves({"physical": {"rmse": tables}}, "rmse").curves["physical"]["rmse"]
        >>> found["translation"].distances
        tensor([[0.0000, 0.2000]], dtype=torch.float64)
    """
    by_metric: dict[str, list[TransformDistances]] = {}
    for metrics in measured.values():
        for name, tables in metrics.items():
            by_metric.setdefault(name, []).extend(tables)
    places = [_places(table) for table in by_metric[energy]]  # of all metrics
    shared = [key for key in places[0] if all(key in some for some in places)]
    defined = {
        name: torch.stack([table.distances[_rows(table, shared)].isfinite().all(1) for table in tables]).all(
            0
        )
        for name, tables in by_metric.items()
    }
    kept = torch.stack(list(defined.values())).all(0).tolist()
    chosen = [key for key, is_kept in zip(shared, kept, strict=True) if is_kept]
    if not chosen:
        never = [name for name, some in defined.items() if shared and not bool(some.any())]
        raise InputError(
            "expected a scene on which every metric is defined under every transform, got none"
            + (f"; undefined on all scenes: {', '.join(never)}" if never else "")
        )
    missing = len(set().union(*places)) - len(shared)
    notes = [f"scenes left out because a transform lacks them: {missing}"] if missing else []
    for name, some in defined.items():
        if groups := [
            key[0] for key, is_defined in zip(shared, some.tolist(), strict=True) if not is_defined
        ]:
            listed = ", ".join(groups[:3]) + (", ..." if len(groups) > 3 else "")
            notes.append(f"scenes left out because {name} is undefined on them: {len(groups)}, {listed}")
    curves = {
        moves: {name: _curves_of(name, tables, metrics[energy], chosen) for name, tables in metrics.items()}
        for moves, metrics in measured.items()
    }
    return AlignedCurves(tuple(group for group, _ in chosen), curves, notes)


def _places(table: TransformDistances) -> dict[_Key, int]:
    """Find each row by its group and its place in it, because frames have other ids for each transform."""
    counts: Counter[str] = Counter()
    places = {}
    for row, group in enumerate(table.groups):
        places[group, counts[group]] = row
        counts[group] += 1
    return places


def _rows(table: TransformDistances, chosen: Sequence[_Key]) -> list[int]:
    places = _places(table)
    return [places[key] for key in chosen]


def _curves_of(
    metric: str,
    tables: Iterable[TransformDistances],
    energy: Iterable[TransformDistances],
    chosen: Sequence[_Key],
) -> dict[str, SceneCurve]:
    found: dict[str, SceneCurve] = {}
    for table, rmse in zip(tables, energy, strict=True):
        identity = unchanged_magnitude(table.transform)
        order = [
            place for place in table.magnitudes.argsort().tolist() if table.magnitudes[place] >= identity
        ]
        distances, energies, clipped = (
            values[_rows(table, chosen)][:, order]
            for values in (table.distances, rmse.distances.square() * rmse.areas[:, None], table.clipped)
        )
        distances = check_distances(distances, f"distances of {metric}")
        curve = (table.unit, table.magnitudes[order], distances, energies, clipped)
        found[table.transform] = SceneCurve(table.transform, *curve)
    axes: dict[str, tuple[str, ...]] = {"translation": TRANSLATION_AXES}
    axes |= {axis: tuple(f"{ILLUMINANT}{hue}" for hue in hues) for axis, hues in COLOUR_AXES.items()}
    means = {axis: [found[name] for name in names if name in found] for axis, names in axes.items()}
    averaged = {axis: _mean(axis, some) for axis, some in means.items() if some}
    return averaged | {name: curve for name, curve in found.items() if name not in TRANSLATION_AXES}


def _mean(name: str, curves: Sequence[SceneCurve]) -> SceneCurve:
    """Average curves over directions, scene by scene."""
    for curve in curves:
        if not torch.equal(curve.magnitudes, curves[0].magnitudes):
            raise InputError(
                f"{name}: expected the magnitudes of `{curves[0].name}` for `{curve.name}` too, got others; "
                "measure the same ones"
            )
    distances, energies, clipped = (
        torch.stack([getattr(curve, part) for curve in curves]).mean(0)
        for part in ("distances", "energies", "clipped")
    )
    names = tuple(curve.name for curve in curves)
    return SceneCurve(name, curves[0].unit, curves[0].magnitudes, distances, energies, clipped, names)
