"""Rendered images together with their counterfactuals, in which one region was changed."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jaxtyping import Bool, Float32

from candlelight.evaluation.views.data_layouts import DataText, folder_of_sets
from candlelight.evaluation.views.image_contents import PartOptions, part_layers, read_part_frame
from candlelight.evaluation.views.named_rows import (
    ChosenRows,
    Content,
    Request,
    list_sets,
    name_items,
    open_frame_rows,
)
from candlelight.evaluation.views.view_colours import to_srgb
from candlelight.evaluation.views.view_types import PartImage, Tensor
from candlelight.loaders.errors import InputError
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import FactorValue, Metadata, ObjectRecord

BACKGROUND_REGION = "background"  # region of all pixels that show no part
ABSENT_MATERIAL = "absent"  # material of a part or object that is not there

ChangeKind = Literal["removed", "added", "partly", "recoloured", "scene"]


@dataclass(frozen=True, eq=False)
class RegionChange:
    """An image after an intervention on one or several regions.

    Attributes:
        image: sRGB-encoded, in [0, 1].
        regions: what happened to each region that differs: "removed" if it is absent after the intervention,
            "added" if it was absent before, "partly" if that holds for one of several objects that have the
            part, "recoloured" if its material differs, "scene" for the background where no object differs.
        intervention: the values that were set, by factor.
        objects: pixels of the image before the intervention that show an object without parts which differs.
    """

    image: Float32[Tensor, "3 height width"]
    regions: dict[str, ChangeKind]
    intervention: dict[str, FactorValue]
    objects: Bool[Tensor, "height width"]


@dataclass(frozen=True, eq=False)
class CounterfactualImages(PartImage):
    """An image with masks of its regions, and the same image after interventions on one region each.

    The regions are the shown parts and `BACKGROUND_REGION`, the pixels of no part.

    Attributes:
        changed: the images after interventions on one region, by the name of that region.
        changes: all images after interventions, of one region or several, in the order of their frames.
    """

    changed: dict[str, Float32[Tensor, "changes 3 height width"]] = field(default_factory=dict)
    changes: tuple[RegionChange, ...] = ()


class _Change(NamedTuple):
    """One counterfactual: what differs, the values that were set, and the row of the reader."""

    regions: dict[str, ChangeKind]
    intervention: dict[str, FactorValue]
    objects: tuple[int, ...]
    frames: Frames
    row: int


class _Original(NamedTuple):
    """A frame that has counterfactuals."""

    id: str
    unit: str
    parts: Any
    row: int
    changes: tuple[_Change, ...]


@dataclass(frozen=True, eq=False)
class CounterfactualRows(ChosenRows[CounterfactualImages]):
    """A view of frames that have counterfactuals: `View` of `CounterfactualImages`.

    The metadata tell which regions a counterfactual changes, see `changed_regions`. A counterfactual whose
    image equals the original, such as the same scene set again, is left out, and so is an original without
    any counterfactual.

    Blind to: interventions on the background that change the objects' pixels as well. An environment lights
    the objects; an intervention on a lamp counts as one on the background.

    Attributes:
        path: folder of all sets.
    """

    path: Path

    def values_in(self, set_name: str, factor: str) -> frozenset[FactorValue]:
        """Collect the values of a factor in another set; none if there is no such set or factor."""
        with suppress(InputError):
            frames = open_frames(self.path, set_name, self.identity.split, ("image",))
            found = (frames.metadata(row).factors.get(factor) for row in range(len(frames)))
            return frozenset(value for value in found if value is not None)
        return frozenset()

    def factor_values(self, name: str) -> tuple[str, ...] | None:
        """Return the value of a categorical factor for each original; None if a set has no such factor."""
        values = []
        for original in self.named.reader:
            named = original.parts.named
            factors = {info.name: place for place, info in enumerate(named.reader.set_info.factors)}
            known = named.reader.set_info.factors[factors[name]].values if name in factors else None
            if known is None:
                return None
            values.append(str(known[int(named.table[original.row, factors[name]])]))
        return tuple(values)

    def factor_order(self, name: str) -> tuple[str, ...]:
        """Return all values of a categorical factor in their order; none if the first set has none."""
        info = self.named.reader[0].parts.named.reader.set_info
        known = {one.name: one.values for one in info.factors}.get(name)
        return tuple(map(str, known or ()))


def _read_original(original: _Original) -> CounterfactualImages:
    import torch

    shown = original.parts[original.row]
    everywhere = torch.ones(shown.image.shape[1:], dtype=torch.bool)
    covered = torch.stack([~everywhere, *shown.masks.values()]).any(0)
    images: dict[str, list[Tensor]] = {}
    objects = torch.as_tensor(original.parts.named.reader[original.row]["object"])
    changes = []
    for change in original.changes:
        image = to_srgb(change.frames[change.row]["image"])
        different = torch.isin(objects, torch.tensor(change.objects, dtype=objects.dtype))
        changes.append(RegionChange(image, change.regions, change.intervention, different))
        if len(change.regions) == 1:
            images.setdefault(next(iter(change.regions)), []).append(image)
    changed = {region: torch.stack(some) for region, some in images.items()}
    return CounterfactualImages(
        shown.image, {**shown.masks, BACKGROUND_REGION: ~covered}, shown.label, changed, tuple(changes)
    )


def _open_counterfactuals(request: Request, text: DataText | None, options: Any) -> CounterfactualRows:
    path, split = folder_of_sets(request, text), request.split
    pairs = [
        (original, changed)
        for changed, original in _counterfactual_sets(path, split)
        if request.set_name in (None, original)
    ]
    if not pairs:
        wanted = "sets" if request.set_name is None else f"a set `{request.set_name}`"
        known = sorted({original for _, original in _counterfactual_sets(path, split)})
        none = "none; render the recipe parts-removed or parts-recoloured"
        raise InputError(f"{path}: expected {wanted} with counterfactuals, got {', '.join(known) or none}")
    originals: list[_Original] = []
    for name in dict.fromkeys(original for original, _ in pairs):
        changed = [
            open_frames(path, other, split, ("image",)) for original, other in pairs if original == name
        ]
        by_part = PartOptions("part")
        rows = open_frame_rows(path, Request(path, name, split), partial(part_layers, options=by_part))
        parts = ChosenRows(rows, partial(read_part_frame, rows, by_part))
        originals += list(_originals(parts, changed))[: request.limit]
    if not originals:
        raise InputError(f"{path}: expected counterfactuals of rendered frames, got none; render all sets")
    first = originals[0].parts.identity
    named = name_items(replace(first, set_name=request.set_name), tuple(originals))
    return CounterfactualRows(named, lambda row: _read_original(originals[row]), path)


def _counterfactual_sets(path: Path, split: str | None) -> Iterator[tuple[str, str]]:
    """List the sets of counterfactuals, each with the set of its original frames."""
    for name, info in list_sets(path)[0].items():
        if info.count:
            of = open_frames(path, name, split, ("image",)).metadata(0).counterfactual_of
            if of is not None:
                yield name, of.rpartition("-")[0]


def _originals(parts: Any, changed: Sequence[Frames]) -> Iterator[_Original]:
    """Collect the original frames of a set with their counterfactuals."""
    frames: Frames = parts.named.reader
    found: dict[str, list[tuple[Frames, int, Metadata]]] = {}
    for reader in changed:
        for row in range(len(reader)):
            metadata = reader.metadata(row)
            found.setdefault(str(metadata.counterfactual_of), []).append((reader, row, metadata))
    for row, (name, unit) in enumerate(zip(parts.ids, parts.groups, strict=True)):
        if name in found:
            original = frames.metadata(row)
            changes = tuple(
                _Change(
                    changed_regions(original, metadata),
                    metadata.intervention,
                    _changed_objects(original, metadata),
                    reader,
                    place,
                )
                for reader, place, metadata in found[name]
                if metadata.layers["image"] != original.layers["image"]
            )
            if changes:
                yield _Original(name, unit, parts, row, changes)


def changed_regions(original: Metadata, changed: Metadata) -> dict[str, ChangeKind]:
    """Name the regions in which a counterfactual differs, each with what happened to it.

    A part is a region; an object without parts belongs to the background. Where no object differs, the
    background does: its scene.

    Raises:
        InputError: the objects differ in more than materials.
    """
    if len(original.objects) != len(changed.objects):
        raise _unlike(original, changed)
    found: dict[str, ChangeKind] = {}
    for before, after in zip(original.objects, changed.objects, strict=True):
        looks, others = _looks(before), _looks(after)
        if looks.keys() != others.keys():
            raise _unlike(original, changed)
        for (region, look), other in zip(looks.items(), others.values(), strict=True):
            if look == other or found.get(region) in ("removed", "added"):
                continue
            kind: ChangeKind = "removed" if other[0] == ABSENT_MATERIAL else "recoloured"
            found[region] = "added" if look[0] == ABSENT_MATERIAL else kind
    pairs = zip(original.objects, changed.objects, strict=True)
    # Where a part is gone, those behind it show more pixels.
    masks = not {"removed", "added"} & {*found.values()}
    if any(_without_looks(before, masks) != _without_looks(after, masks) for before, after in pairs):
        raise _unlike(original, changed)
    for records, kind in ((changed.objects, "removed"), (original.objects, "added")):
        shown = {
            region for one in records for region, look in _looks(one).items() if look[0] != ABSENT_MATERIAL
        }
        partly = {region for region in shown - {BACKGROUND_REGION} if found.get(region) == kind}
        found |= dict.fromkeys(partly, "partly")
    return found or {BACKGROUND_REGION: "scene"}


def _changed_objects(original: Metadata, changed: Metadata) -> tuple[int, ...]:
    """List the instances of objects without parts that differ."""
    pairs = zip(original.objects, changed.objects, strict=True)
    looks = ((before.parts, _looks(before) != _looks(after)) for before, after in pairs)
    return tuple(number for number, (parts, differs) in enumerate(looks, 1) if differs and not parts)


def _unlike(original: Metadata, changed: Metadata) -> InputError:
    return InputError(
        f"`{changed.id}` differs from `{original.id}` in objects as a whole; expected materials of objects "
        "or parts, absent ones, or nothing but the background"
    )


def _looks(record: ObjectRecord) -> dict[str, tuple[str, Any]]:
    """Return material and colour of the regions of an object."""
    if not record.parts:
        return {BACKGROUND_REGION: (record.material, record.base_color)}
    return {part.name: (part.material, part.base_color) for part in record.parts}


def _without_looks(record: ObjectRecord, masks: bool) -> ObjectRecord:
    look: dict[str, Any] = {"material": "", "base_color": None}
    if not masks:
        look |= {"bbox": None, "area": 0}
    parts = tuple(part.model_copy(update=look) for part in record.parts)
    return record.model_copy(update={**look, "parts": parts})


COUNTERFACTUALS = Content(
    "counterfactuals",
    layers=lambda available, options: ("image", "object", "part"),
    open=_open_counterfactuals,
)
