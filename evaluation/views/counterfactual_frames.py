"""Rendered images together with their counterfactuals, in which one region was changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float32

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
from candlelight.loaders.schema import Metadata, ObjectRecord

BACKGROUND_REGION = "background"  # region of all pixels that show no part


@dataclass(frozen=True, eq=False)
class CounterfactualImages(PartImage):
    """An image with masks of its regions, and the same image after interventions on one region each.

    The regions are the shown parts and `BACKGROUND_REGION`, the pixels of no part.

    Attributes:
        changed: the images after interventions, by the name of the region that they change.
    """

    changed: dict[str, Float32[Tensor, "changes 3 height width"]] = field(default_factory=dict)


class _Change(NamedTuple):
    """One counterfactual: the region that differs, and the row of the reader."""

    region: str
    frames: Frames
    row: int


class _Original(NamedTuple):
    """A frame that has counterfactuals."""

    id: str
    unit: str
    parts: Any
    row: int
    changes: tuple[_Change, ...]


class CounterfactualRows(ChosenRows[CounterfactualImages]):
    """A view of frames that have counterfactuals: `View` of `CounterfactualImages`.

    The metadata tell which region a counterfactual changes: the part whose material differs, or else, where
    no part differs, the background. A counterfactual whose image equals the original, such as the same scene
    set again, is left out, and so is an original without any counterfactual.

    Blind to: interventions on the background that change the objects' pixels as well. An environment lights
    the objects; an intervention on a lamp counts as one on the background.
    """

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


def _read_original(original: _Original) -> CounterfactualImages:
    import torch

    shown = original.parts[original.row]
    everywhere = torch.ones(shown.image.shape[1:], dtype=torch.bool)
    covered = torch.stack([~everywhere, *shown.masks.values()]).any(0)
    images: dict[str, list[Tensor]] = {}
    for change in original.changes:
        images.setdefault(change.region, []).append(to_srgb(change.frames[change.row]["image"]))
    changed = {region: torch.stack(some) for region, some in images.items()}
    return CounterfactualImages(
        shown.image, {**shown.masks, BACKGROUND_REGION: ~covered}, shown.label, changed
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
        raise InputError(
            f"{path}: expected {wanted} with counterfactuals, got none; render the recipe parts-recoloured"
        )
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
    return CounterfactualRows(named, lambda row: _read_original(originals[row]))


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
                _Change(changed_region(original, metadata), reader, place)
                for reader, place, metadata in found[name]
                if metadata.layers["image"] != original.layers["image"]
            )
            if changes:
                yield _Original(name, unit, parts, row, changes)


def changed_region(original: Metadata, changed: Metadata) -> str:
    """Name the region in which a counterfactual differs: the part of another material, or the background.

    Raises:
        InputError: the objects differ in more than the material of one part.
    """
    before, after = ([_without_materials(record) for record in one.objects] for one in (original, changed))
    pairs = zip(original.objects, changed.objects, strict=False)
    differing = {
        part.name
        for one, other in pairs
        for part, its in zip(one.parts, other.parts, strict=False)
        if (part.material, part.base_color) != (its.material, its.base_color)
    }
    if before != after or len(differing) > 1:
        problem = f"in {', '.join(sorted(differing))}" if before == after else "in objects as a whole"
        raise InputError(
            f"`{changed.id}` differs from `{original.id}` {problem}; expected the material of one part, or "
            "nothing but the background"
        )
    return differing.pop() if differing else BACKGROUND_REGION


def _without_materials(record: ObjectRecord) -> ObjectRecord:
    parts = tuple(part.model_copy(update={"material": "", "base_color": None}) for part in record.parts)
    return record.model_copy(update={"parts": parts})


COUNTERFACTUALS = Content(
    "counterfactuals",
    layers=lambda available, options: ("image", "object", "part"),
    open=_open_counterfactuals,
)
