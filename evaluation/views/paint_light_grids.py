"""Grids of rendered images: every paint of a scene under every light, with the true decomposition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxtyping import Bool, Float32

from candlelight.evaluation.views.concept_sets import find_varies, same_view
from candlelight.evaluation.views.intrinsic_contents import DECOMPOSITION_CONTENT
from candlelight.evaluation.views.named_rows import (
    ChosenRows,
    FrameRows,
    Request,
    choose_rows,
    name_items,
)
from candlelight.evaluation.views.view_types import ConceptSet, DecomposedImage, Tensor
from candlelight.loaders.errors import InputError, argument


@dataclass(frozen=True, eq=False)
class PaintLightGrid:
    """Images of one scene in each of its paints under each of its lights, scene-linear Rec.709.

    Attributes:
        image: radiance times the exposure, see `DecomposedImage`.
        reflectance: true reflectance, equal under all lights.
        shading: true shading.
        mask: pixels whose reflectance and shading are known in all channels of all images.
        frames: ids of the images, paint by paint.
    """

    image: Float32[Tensor, "paints lights 3 height width"]
    reflectance: Float32[Tensor, "paints lights 3 height width"]
    shading: Float32[Tensor, "paints lights 3 height width"]
    mask: Bool[Tensor, "height width"]
    frames: tuple[str, ...]


class _Grid(NamedTuple):
    """One grid: the frames' rows, a list for each paint."""

    id: str
    unit: str
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class PaintLightGrids(ChosenRows[PaintLightGrid]):
    """A view of grids: `View` of `PaintLightGrid`; ``views`` holds their frames, and ``every`` all frames.

    Frames of one unit form a grid if they differ in nothing but factors that change the light alone and
    factors that change materials alone, as the metadata of two frames tell.
    """

    views: tuple[ChosenRows[DecomposedImage], ...]
    every: ChosenRows[DecomposedImage]

    def chosen(self, request: Request) -> "PaintLightGrids":
        """Choose grids by ``rows`` and ``limit`` of a request, and of the frames those of the grids alone."""
        return _view(self.every, [self.named.reader[number] for number in choose_rows(len(self), request)])


def _grids(named: FrameRows, read: Callable[[int], DecomposedImage], options: Any) -> PaintLightGrids:
    return _view(DECOMPOSITION_CONTENT.view(named, read, options), _find_grids(named))


def _view(frames: ChosenRows[DecomposedImage], grids: Sequence[_Grid]) -> PaintLightGrids:
    of = frames.named
    shown = [row for grid in grids for rows in grid.rows for row in rows]
    numbers = tuple(of.numbers[row] for row in shown)
    ids, groups = (tuple(some[row] for row in shown) for some in (of.ids, of.groups))
    scored = replace(frames, named=replace(of, numbers=numbers, ids=ids, groups=groups))
    rows = name_items(frames.identity, grids)
    return PaintLightGrids(rows, lambda number: _stack(frames, grids[number]), (scored,), frames)


def _find_grids(named: FrameRows) -> tuple[_Grid, ...]:
    """Sort the frames into grids by their units and factors.

    Raises:
        InputError: no factor changes the paint alone, or none the light alone, or a grid lacks an image.
    """
    factors = [factor.name for factor in named.reader.set_info.factors]
    roles = [_role(named, column) for column in range(len(factors))]
    columns = {role: [c for c, one in enumerate(roles) if one == role] for role in ("albedo", "illumination")}
    if not all(columns.values()):
        told = [", ".join(factors[c] for c in some) or "none" for some in columns.values()]
        raise InputError(
            f"{named.identity.name}: expected factors that change the paint alone and factors that change "
            f"the light alone, as in the recipe paints-and-lights, got {told[0]} for the paint and {told[1]} "
            "for the light"
        )
    rest = [c for c, role in enumerate(roles) if role not in columns]
    cells: dict[Any, dict[Any, int]] = {}
    for row, (unit, values) in enumerate(zip(named.groups, named.table.tolist(), strict=True)):
        key, *cell = (tuple(values[c] for c in some) for some in (rest, *columns.values()))
        if cells.setdefault((unit, key), {}).setdefault(tuple(cell), row) != row:
            raise InputError(
                f"{named.identity.name}: `{named.ids[row]}`: another image has this paint and light"
            )
    units = [unit for unit, _ in cells]
    found = []
    for (unit, key), rows in cells.items():
        others = [f"{factors[c]}={value:g}" for c, value in zip(rest, key, strict=True)]
        name = unit if units.count(unit) == 1 else "/".join([unit, *others])
        paints, lights = (sorted({cell[axis] for cell in rows}) for axis in (0, 1))
        if len(paints) < 2 or len(lights) < 2 or len(rows) < len(paints) * len(lights):
            raise InputError(
                f"{named.identity.name}: `{name}`: expected an image of each paint in each light, two or "
                f"more of both, got {len(rows)} of {len(paints)} x {len(lights)}; render the missing, or "
                "choose whole grids"
            )
        found.append(_Grid(name, unit, tuple(tuple(rows[p, light] for light in lights) for p in paints)))
    return tuple(found)


def _role(named: FrameRows, column: int) -> str | None:
    """Tell what a factor changes, of the first two frames of a unit that differ in it alone."""
    first: dict[Any, int] = {}
    for row, (unit, values) in enumerate(zip(named.groups, named.table.tolist(), strict=True)):
        other = first.setdefault((unit, *values[:column], *values[column + 1 :]), row)
        if values[column] != named.table[other, column]:
            pair = (named.reader.metadata(named.numbers[number]) for number in (other, row))
            return find_varies(named, [ConceptSet({}, (other, row))]) if same_view(*pair) else None
    return None


def _stack(frames: ChosenRows[DecomposedImage], grid: _Grid) -> PaintLightGrid:
    import torch

    numbers = [row for rows in grid.rows for row in rows]
    items = [frames[row] for row in numbers]
    shape = len(grid.rows), len(grid.rows[0]), *items[0].image.shape
    layers = {
        name: torch.stack([getattr(item, name) for item in items]).reshape(shape)
        for name in ("image", "reflectance", "shading")
    }
    mask = torch.stack([item.mask & (item.reflectance > 0).all(0) for item in items]).all(0)
    if not bool(mask.any()):
        raise InputError(
            f"{frames.identity.name}: `{grid.id}`: no pixel has a known truth in all images; "
            f"choose a smaller {argument('leave_edges')}"
        )
    return PaintLightGrid(**layers, mask=mask, frames=tuple(frames.ids[row] for row in numbers))


GRIDS = replace(
    DECOMPOSITION_CONTENT,
    noun="grids of paints and lights",
    layouts=(),
    only={},
    public=None,
    view=_grids,
    choose=PaintLightGrids.chosen,
)
