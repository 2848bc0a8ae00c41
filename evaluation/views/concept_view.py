"""Open sets of images that differ in the albedo, the illumination, or, as controls, camera or poses."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candlelight.evaluation.views.chosen_rows import ChosenRows, NamedRows, Request, RowChoice, choose_rows
from candlelight.evaluation.views.data_source import Content, open_rows, parse_data
from candlelight.evaluation.views.frame_rows import FrameRows, all_layers
from candlelight.evaluation.views.image_view import read_image
from candlelight.evaluation.views.public_rows import open_public
from candlelight.evaluation.views.view_items import ConceptSet
from candlelight.evaluation.views.view_protocols import Varies
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import MITIntrinsic
from candlelight.loaders.samples import Frames, factor_value
from candlelight.loaders.schema import FactorValue, Metadata

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

_CONTENT = Content(
    "concept sets", ("mit", "arap", "multi-illumination", "photometric-stereo"), all_layers("image")
)
_SHARED = {"mit": "object", "photometric-stereo": "object"}  # other data: the scene
_LIGHTS = 10  # of each object of MIT Intrinsic Images


@dataclass(frozen=True, eq=False)
class ConceptRows(ChosenRows[Tensor]):
    """Chosen rows with the members of `candlelight.evaluation.views.ConceptSets`."""

    sets: tuple[ConceptSet, ...]
    varies: Varies | None


def open_concepts(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
) -> ConceptRows:
    """Open sets of images that differ in one concept.

    In frames, a set holds the rows that agree in every factor but ``set_info.varies``. In public data, a set
    holds the images of one object or scene under its lights; ARAP scenes with one light are in no set.

    The concept of frames is found from the metadata of two rows. They do not name the colours of textures:
    where the camera or the poses change, recoloured textures are not seen.

    Args:
        data: PATH, LAYOUT:PATH (mit, arap, multi-illumination, photometric-stereo) or hf:NAME, see
            `parse_data`; any reader of frames, or one of `candlelight.loaders.public`.
        set_name: image set of frames; may be left out where there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all. A row of MIT Intrinsic Images is one of
            the ten lights of an object.
        limit: largest number of rows; None for all.

    Returns:
        The view: `candlelight.evaluation.views.ConceptSets`.

    Raises:
        InputError: the data are missing or have no concept sets; the set, split or row does not exist; or
            there are several sets or splits, and none is named.

    Example:
        >>> open_concepts("iiw:photographs")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: iiw:photographs: `iiw` has no concept sets; expected frames \
or one of the layouts mit, arap, multi-illumination, photometric-stereo
    """
    request = Request(data, set_name, split, rows, limit)
    named = _open_lights(request) or open_rows(request, _CONTENT)
    if isinstance(named, FrameRows):
        return _concepts_of_frames(named)
    sets = _sets_by_group(named)
    if not sets:
        raise InputError(f"{request.name}: expected images of one scene under several lights, got none")
    return ConceptRows(named, partial(read_image, named.reader), sets, "illumination")


class _MITLights:
    """Captures of MIT Intrinsic Images: ten lights of the first object, ten of the second, and so on.

    The ten captures of an object are read together, and kept until another object is read.
    """

    def __init__(self, objects: MITIntrinsic) -> None:
        self._objects = objects
        self._last: tuple[int, Any] = -1, None

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Id of each capture, such as ``box/light01``."""
        lights = [f"light{number:02d}" for number in range(1, _LIGHTS + 1)]
        return tuple(f"{name}/{light}" for name in self._objects.ids for light in lights)

    def __len__(self) -> int:
        """Count the captures."""
        return len(self.ids)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Read one capture.

        Raises:
            InputError: a file is missing or damaged, or the reader was opened without lights.
        """
        number, light = divmod(row, _LIGHTS)
        if self._last[0] != number:
            item = self._objects[number]
            if "lights" not in item:
                raise InputError("expected MITIntrinsic opened with lights=True, got a reader without lights")
            self._last = number, item["lights"]
        return {"image": self._last[1][light]}


def _open_lights(request: Request) -> NamedRows | None:
    """Open the captures of MIT Intrinsic Images; None for other data."""
    whole = Request(request.data, request.set_name, request.split)
    text = parse_data(request.data) if isinstance(request.data, str) else None
    if text is not None and text.layout == "mit":
        objects = open_public("mit", Path(text.place), whole, lights=True)
    elif isinstance(request.data, MITIntrinsic):
        objects = open_rows(whole, _CONTENT)
    else:
        return None
    lights = _MITLights(objects.reader)
    numbers = choose_rows(len(lights), request)
    ids = tuple(lights.ids[number] for number in numbers)
    groups = tuple(name.partition("/")[0] for name in ids)
    return NamedRows(objects.identity, lights, numbers, ids, groups, lambda: lights.ids)


def _sets_by_group(named: NamedRows) -> tuple[ConceptSet, ...]:
    shared = _SHARED.get(named.identity.layout, "scene")
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(named.groups):
        rows.setdefault(group, []).append(row)
    return tuple(ConceptSet({shared: name}, tuple(found)) for name, found in rows.items() if len(found) > 1)


def _concepts_of_frames(named: FrameRows) -> ConceptRows:
    frames: Frames = named.reader
    info = frames.set_info
    if not info.varies:
        raise InputError(f"image set `{frames.set_name}` is no concept set: its `varies` names no factor")
    fixed = [column for column, factor in enumerate(info.factors) if factor.name not in info.varies]
    rows: dict[tuple[float, ...], list[int]] = {}
    for row, key in enumerate(named.table[:, fixed].tolist()):
        rows.setdefault(tuple(key), []).append(row)

    def values(key: Sequence[float]) -> dict[str, FactorValue]:
        shared = [info.factors[column] for column in fixed]
        return {f.name: factor_value(f, number) for f, number in zip(shared, key, strict=True)}

    sets = tuple(
        ConceptSet(values(key), tuple(rows[key]), _objects(named, rows[key])) for key in sorted(rows)
    )
    return ConceptRows(named, partial(read_image, frames), sets, _find_varies(named, sets))


def _objects(named: FrameRows, rows: Sequence[int]) -> int | None:
    """Count the objects in the first and the last row of a set; None if the two differ."""
    counts = {len(named.reader.metadata(named.numbers[row]).objects) for row in (rows[0], rows[-1])}
    return counts.pop() if len(counts) == 1 else None


def _find_varies(named: FrameRows, sets: Sequence[ConceptSet]) -> Varies | None:
    """Compare two frames of the first set with several rows; all sets vary the same concept."""
    chosen = next((one.rows for one in sets if len(one.rows) > 1), None)
    if chosen is None:
        return None
    one, other = (named.reader.metadata(named.numbers[row]) for row in (chosen[0], chosen[-1]))
    lights = (one.lights, one.environment) != (other.lights, other.environment)
    materials = _materials(one) != _materials(other)
    if lights or materials:
        return None if lights and materials else "illumination" if lights else "albedo"
    camera, pose = one.camera != other.camera, _poses(one) != _poses(other)
    if camera or pose:
        return None if camera and pose else "camera" if camera else "pose"
    # Recoloured textures of one name, and floors, differ only in their pixels.
    return "albedo" if one.layers.get("albedo") != other.layers.get("albedo") else None


def _materials(metadata: Metadata) -> list[Any]:
    return [
        (record.material, record.base_color, [(part.material, part.base_color) for part in record.parts])
        for record in metadata.objects
    ]


def _poses(metadata: Metadata) -> list[Any]:
    return [(o.type, o.size, o.rotation, o.tilt, o.location) for o in metadata.objects]
