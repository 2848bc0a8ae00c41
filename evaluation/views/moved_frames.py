"""Rendered references together with the frames in which the camera or the illuminant moved."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float32, Float64

from candlelight.evaluation.views.data_layouts import DataText, folder_of_sets
from candlelight.evaluation.views.named_rows import (
    FRAMES,
    ChosenRows,
    Content,
    Request,
    list_sets,
    name_items,
)
from candlelight.evaluation.views.view_colours import to_srgb
from candlelight.evaluation.views.view_types import DataIdentity, Tensor
from candlelight.loaders.errors import InputError
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import Metadata, SetInfo


class _Move(NamedTuple):
    """One factor of the recipe `invariance`: name and unit of its transform."""

    transform: str
    unit: str
    reference: float  # value of the reference
    direction: str | None = None  # factor whose values are transforms of their own


_MOVES = {
    "translation": _Move("translation", "degrees", 0.0, "axis"),
    "parallax": _Move("parallax x", "degrees", 0.0),
    "rotation": _Move("rotation", "degrees", 0.0),
    "scale": _Move("scale", "factor", 1.0),
    "saturation": _Move("illuminant", "steps", 0.0, "hue"),
}


@dataclass(frozen=True, eq=False)
class MovedImages:
    """An image of a scene, and images of the same scene after one physical transform at several magnitudes.

    Attributes:
        reference: sRGB-encoded, in [0, 1].
        moved: likewise, by magnitude; among them the reference again.
        transform: "translation x", "translation y", "parallax x", "rotation", "scale" or "illuminant HUE".
        unit: unit of the magnitudes: "degrees", "factor" or "steps" of 0.005 in CIE xy.
        magnitudes: ascending; 0, for scale 1, is the reference.
        clipped: share of pixels of each moved image with an over-exposed channel, from its metadata.
        pixels_per_degree: pixels per degree of visual angle in the middle of the reference, seen from the
            place of its camera; nan without a camera.
    """

    reference: Float32[Tensor, "3 height width"]
    moved: Float32[Tensor, "magnitudes 3 height width"]
    transform: str
    unit: str
    magnitudes: Float64[Tensor, " magnitudes"]
    clipped: Float64[Tensor, " magnitudes"]
    pixels_per_degree: float


class _Frame(NamedTuple):
    row: int
    clipped: float
    pixels_per_degree: float


class _Scene(NamedTuple):
    """All frames of a scene under one transform."""

    id: str
    unit: str
    move: _Move
    transform: str
    frames: Frames
    by_magnitude: Mapping[float, _Frame]


@dataclass(frozen=True, eq=False)
class MovedRows(ChosenRows[MovedImages]):
    """A view with one row for each scene and transform: `candlelight.evaluation.views.View` of `MovedImages`.

    The factor says which transform a set shows, as in the recipe `invariance`: `translation` (by `axis`),
    `parallax` (a translation in which the camera itself moves), `rotation`, `scale`, or `saturation` (by
    `hue`). The reference of a scene is its frame of the same set and axis or hue with value 0, for `scale` 1.
    Every magnitude of the frames that are there counts: a recipe with fewer values, or the part of it that
    was rendered, is enough. The groups are the units of the scenes.

    Blind to: a scene that changes in other ways between the frames of a unit; the recipe keeps it the same.

    Attributes:
        incomplete: ids of the rows that are left out, because their reference is missing, or a magnitude that
            another scene has.
    """

    incomplete: tuple[str, ...]

    @property
    def scenes(self) -> tuple[_Scene, ...]:
        """Scene and transform of each row."""
        return self.named.reader

    @property
    def pixels_per_degree(self) -> tuple[float, ...]:
        """Different values of `MovedImages.pixels_per_degree`, to 1e-3, ascending; none without cameras."""
        found = (scene.by_magnitude[scene.move.reference].pixels_per_degree for scene in self.scenes)
        return tuple(sorted({round(one, 3) for one in found if not math.isnan(one)}))


@dataclass(frozen=True)
class MovedOptions:
    """Options of `open_data("moved", ...)`.

    Attributes:
        transforms: names of the transforms to read; None for all. Sets without one of them are not opened.
    """

    transforms: Collection[str] | None = None


def _open_moved(request: Request, text: DataText | None, options: MovedOptions) -> MovedRows:
    path = folder_of_sets(request, text)
    set_name, split, transforms = request.set_name, request.split, options.transforms
    sets = _moved_sets(path, set_name, transforms)
    readers = {name: open_frames(path, name, split, ("image",)) for name in sets}
    found = [scene for name, factor in sets.items() for scene in _scenes(name, factor, readers[name])]
    found = [scene for scene in found if transforms is None or scene.transform in transforms]
    needed: dict[tuple[str, str], set[float]] = {}
    for scene in found:
        rendered = needed.setdefault((scene.frames.set_name, scene.transform), {scene.move.reference})
        rendered.update(scene.by_magnitude)
    whole: dict[str, list[_Scene]] = {scene.transform: [] for scene in found}
    incomplete = []
    for scene in found:
        magnitudes = needed[scene.frames.set_name, scene.transform]
        if len(magnitudes) > 1 and magnitudes == set(scene.by_magnitude):
            whole[scene.transform].append(scene)
        else:
            incomplete.append(scene.id)
    if request.limit is not None and whole:  # all transforms are compared on the same scenes
        shared = set.intersection(*({scene.unit for scene in some} for some in whole.values()))
        whole = {
            name: [scene for scene in some if scene.unit in shared][: request.limit]
            for name, some in whole.items()
        }
    scenes = tuple(scene for some in whole.values() for scene in some)
    if not scenes:
        raise InputError(f"{path}: expected a scene with all magnitudes, got none; render the other frames")
    info = readers[next(iter(sets))].info
    identity = DataIdentity(info.name, FRAMES, set_name, split, info.recipe.sha256)
    named = name_items(identity, scenes)
    return MovedRows(named, lambda row: _read_scene(scenes[row]), tuple(incomplete))


def _moved_sets(path: Path, set_name: str | None, transforms: Collection[str] | None) -> dict[str, str]:
    """List the sets of the transforms, each with its factor.

    Raises:
        InputError: there is none.
    """
    sets = {
        name: _moved_factor(info)
        for name, info in list_sets(path)[0].items()
        if set_name in (None, name) and info.count and _only_moves(info)
    }
    if transforms is not None:
        kinds = {name: _MOVES[factor].transform for name, factor in sets.items()}
        wanted = {name for name, kind in kinds.items() if any(one.startswith(kind) for one in transforms)}
        sets = {name: factor for name, factor in sets.items() if name in wanted}
    if not sets:
        place = "a set" if set_name is None else f"a set `{set_name}`"
        raise InputError(
            f"{path}: expected {place} in which a factor translation (and axis), parallax, rotation, scale, "
            "or saturation (and hue) alone varies, got none; render the recipe invariance"
        )
    return sets


def _read_scene(scene: _Scene) -> MovedImages:
    import torch

    magnitudes = sorted(scene.by_magnitude)
    chosen = [scene.by_magnitude[magnitude] for magnitude in magnitudes]
    moved = torch.stack([to_srgb(scene.frames[frame.row]["image"]) for frame in chosen])
    return MovedImages(
        moved[magnitudes.index(scene.move.reference)],
        moved,
        scene.transform,
        scene.move.unit,
        torch.tensor(magnitudes, dtype=torch.float64),
        torch.tensor([frame.clipped for frame in chosen], dtype=torch.float64),
        scene.by_magnitude[scene.move.reference].pixels_per_degree,
    )


def _moved_factor(info: SetInfo) -> str:
    """Name the factor by which the camera or the illuminant moves; "" if there is none."""
    names = {factor.name for factor in info.factors}
    found = (name for name, move in _MOVES.items() if {name, move.direction or name} <= names)
    return next(found, "")


def _only_moves(info: SetInfo) -> bool:
    """Tell whether the factor of a move, and its direction, are all that varies."""
    if not (factor := _moved_factor(info)):
        return False
    return factor in info.varies and set(info.varies) <= {factor, _MOVES[factor].direction}


def _scenes(set_name: str, factor: str, frames: Frames) -> Iterator[_Scene]:
    """Collect the frames of each scene and transform of a set."""
    move = _MOVES[factor]
    found: dict[tuple[str, str], dict[float, _Frame]] = {}
    for row in range(len(frames)):
        metadata: Metadata = frames.metadata(row)
        transform = move.transform
        if move.direction is not None:
            value = metadata.factors[move.direction]
            transform += f" {value if isinstance(value, str) else format(value, 'g')}"
        of_scene = found.setdefault((metadata.unit, transform), {})
        magnitude = float(metadata.factors[factor])
        if magnitude in of_scene:
            raise InputError(
                f"set `{set_name}`: expected one frame of `{metadata.unit}` for {transform} {magnitude:g}, "
                "got two; name the scene in `unit_factors` of the recipe"
            )
        focal_length = math.nan if metadata.camera is None else metadata.camera.intrinsics[0][0]
        of_scene[magnitude] = _Frame(row, metadata.checks.clipped, focal_length * math.pi / 180)
    for (unit, transform), by_magnitude in found.items():
        yield _Scene(f"{set_name}/{unit}/{transform}", unit, move, transform, frames, by_magnitude)


MOVED = Content(
    "moved frames", layers=lambda available, options: ("image",), options=MovedOptions, open=_open_moved
)
