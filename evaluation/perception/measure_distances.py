"""Distances of references and their transforms for a metric, at all magnitudes of a family of transforms."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception.distances import check_distance, pair_distances
from candlelight.evaluation.perception.transform_families import TransformFamily, unchanged_magnitude
from candlelight.evaluation.run.batches import run_in_halves
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.steps import FinishedSteps, model_key
from candlelight.evaluation.views import MovedImages, View
from candlelight.evaluation.views.image_tensors import check_srgb_image
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bars import progress_bar

_VERSION = 1  # of the numbers of a finished step


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


@dataclass(frozen=True, eq=False)
class _Label:
    """Names of one scene under one family: of a row of a table of distances."""

    id: str
    group: str
    transform: str
    unit: str
    magnitudes: Float64[Tensor, " magnitudes"]
    area: float = 1.0  # of the reference, in areas of the image


class _Chunk(NamedTuple):
    """Some magnitudes of a curve, with their images."""

    move: Callable[[], tuple[Tensor, Tensor]]  # images and their clipped shares, on the device, made once
    about: Mapping[str, Any]  # the data that the distances depend on


class _Curve(NamedTuple):
    """One scene under one family."""

    label: _Label
    reference: Float32[Tensor, "3 height width"]
    chunks: Iterable[_Chunk]


def measure_distances(
    named_distances: Mapping[str, NamedModel],
    view: View[Any],
    families: Sequence[TransformFamily] | Callable[[MovedImages], TransformFamily] | None = None,
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
    labels: list[_Label] = []
    found: dict[str, list[dict[str, Tensor]]] = {name: [] for name in named_distances}
    if families is None:
        curves = _moved_curves(view, device, whole, batch_size)
    else:
        curves = _curves(view, families, device, whole, batch_size)
    count = len(view.ids) * (1 if names is None else len(names))
    for curve in progress_bar(curves, desc="distances", unit="curve", total=count):
        reference = curve.reference[None]
        parts: dict[str, list[dict[str, Tensor]]] = {name: [] for name in named_distances}
        for chunk in curve.chunks:
            for name, named in named_distances.items():
                if not labels and not parts[name]:
                    check_distance(named, reference)
                key = keys[name]
                key = None if key is None else {**key, **chunk.about}
                compute = partial(_measure, named, reference, chunk)
                parts[name].append(kept.get_or_compute(key, compute))
        for name, some in parts.items():
            found[name].append({part: torch.cat([one[part] for one in some]) for part in some[0]})
        labels.append(curve.label)
    return {name: _tables(labels, rows) for name, rows in found.items()}


def _curves(
    view: View[Any],
    families: Sequence[TransformFamily] | Callable[[MovedImages], TransformFamily],
    device: str,
    whole: Fingerprint,
    batch_size: int,
) -> Iterator[_Curve]:
    for row, (name, group) in enumerate(zip(view.ids, view.groups, strict=True)):
        item = view[row]
        if callable(families):
            image, named = item.reference, {item.transform: families(item)}
        else:
            image, named = check_srgb_image(item), {family.name: family for family in families}
        read = _add_row(whole, name, image)
        for transform, family in named.items():
            reference = family.prepare(image[None].to(device))
            magnitudes = torch.tensor(family.magnitudes, dtype=torch.float64)
            area = reference[0].numel() / image.numel()
            label = _Label(name, group, transform, family.unit, magnitudes, area)
            yield _Curve(label, reference[0], _chunks(family, reference, read, batch_size))


def _chunks(family: TransformFamily, reference: Tensor, read: str, batch_size: int) -> Iterator[_Chunk]:
    for start in range(0, len(family.magnitudes), batch_size):
        some = replace(family, magnitudes=family.magnitudes[start : start + batch_size])
        move = cache(partial(_transform, some, reference))
        yield _Chunk(move, {"family": asdict(some), "read": read})


def _transform(family: TransformFamily, reference: Tensor) -> tuple[Tensor, Tensor]:
    moved = [family.transform(reference, magnitude) for magnitude in family.magnitudes]
    return torch.cat([one.images for one in moved]), torch.cat([one.clipped for one in moved])


def _moved_curves(
    view: View[MovedImages], device: str, whole: Fingerprint, batch_size: int
) -> Iterator[_Curve]:
    for row, (name, group) in enumerate(zip(view.ids, view.groups, strict=True)):
        item = view[row]
        label = _Label(name, group, item.transform, item.unit, item.magnitudes)
        read = _add_row(whole, name, item)
        yield _Curve(label, item.reference.to(device), _frames(item, device, read, batch_size))


def _frames(item: MovedImages, device: str, read: str, batch_size: int) -> Iterator[_Chunk]:
    before = item.clipped[item.magnitudes == unchanged_magnitude(item.transform)]
    for start in range(0, len(item.moved), batch_size):
        some = slice(start, start + batch_size)
        move = cache(partial(_copy, item.moved[some], item.clipped[some] - before, device))
        yield _Chunk(move, {"frames": [start, batch_size], "read": read})


def _copy(images: Tensor, clipped: Tensor, device: str) -> tuple[Tensor, Tensor]:
    return images.to(device), clipped


def _add_row(whole: Fingerprint, name: str, item: object) -> str:
    """Add a row to the hash of all rows, and return its own."""
    whole.add(name, item)
    own = Fingerprint()
    own.add(name, item)
    return own.hexdigest()


def _measure(named: NamedModel, reference: Tensor, chunk: _Chunk) -> dict[str, Tensor]:
    """Compare the images of some magnitudes with the reference."""
    moved, clipped = chunk.move()

    def compare(rows: slice) -> tuple[Tensor, ...]:
        images = moved[rows]
        return (pair_distances(named, images, reference.expand_as(images)),)

    [distances] = run_in_halves(compare, len(moved))
    return {"distances": distances, "clipped": clipped.double()}


def _tables(labels: Sequence[_Label], rows: Sequence[Mapping[str, Tensor]]) -> tuple[TransformDistances, ...]:
    """Join the rows of each family."""
    tables: list[TransformDistances] = []
    for transform in dict.fromkeys(label.transform for label in labels):
        chosen = [place for place, label in enumerate(labels) if label.transform == transform]
        some = [labels[place] for place in chosen]
        for label in some:
            if not torch.equal(label.magnitudes, some[0].magnitudes):
                raise InputError(
                    f"{transform}: expected the magnitudes of `{some[0].id}` for every scene, got others for "
                    f"`{label.id}`; measure them apart"
                )
        distances, clipped = (
            torch.stack([rows[place][key] for place in chosen]) for key in ("distances", "clipped")
        )
        ids, groups = tuple(label.id for label in some), tuple(label.group for label in some)
        areas = torch.tensor([label.area for label in some], dtype=torch.float64)
        unit, magnitudes = some[0].unit, some[0].magnitudes
        tables.append(TransformDistances(transform, unit, magnitudes, ids, groups, distances, clipped, areas))
    return tuple(tables)
