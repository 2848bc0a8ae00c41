"""Sets of images that differ in the albedo, the illumination, or, as controls, camera or poses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from candlelight.evaluation.views.image_contents import image_layer, read_image
from candlelight.evaluation.views.named_rows import ChosenRows, Content, FrameRows, NamedRows
from candlelight.evaluation.views.view_types import ConceptSet, Tensor, Varies
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import MITIntrinsic
from candlelight.loaders.samples import Frames, factor_value
from candlelight.loaders.schema import FactorValue, Metadata

_SHARED = {"mit": "object", "photometric-stereo": "object"}  # other data: the scene
_LIGHTS = 10  # of each object of MIT Intrinsic Images


@dataclass(frozen=True, eq=False)
class ConceptRows(ChosenRows[Tensor]):
    """Chosen rows with the members of `candlelight.evaluation.views.ConceptSets`.

    In frames, a set holds the rows that agree in every factor but ``set_info.varies``. In public data, a set
    holds the images of one object or scene under its lights; ARAP scenes with one light are in no set.

    The concept of frames is found from the metadata of two rows. They do not name the colours of textures:
    where the camera or the poses change, recoloured textures are not seen.
    """

    sets: tuple[ConceptSet, ...]
    varies: Varies | None


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


def _concepts(named: NamedRows, read: Callable[[int], Tensor], options: Any) -> ConceptRows:
    if isinstance(named, FrameRows):
        return _concepts_of_frames(named, read)
    sets = _sets_by_group(named)
    if not sets:
        raise InputError(
            f"{named.identity.name}: expected images of one scene under several lights, got none"
        )
    return ConceptRows(named, read, sets, "illumination")


def _sets_by_group(named: NamedRows) -> tuple[ConceptSet, ...]:
    shared = _SHARED.get(named.identity.layout, "scene")
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(named.groups):
        rows.setdefault(group, []).append(row)
    return tuple(ConceptSet({shared: name}, tuple(found)) for name, found in rows.items() if len(found) > 1)


def _concepts_of_frames(named: FrameRows, read: Callable[[int], Tensor]) -> ConceptRows:
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
    return ConceptRows(named, read, sets, find_varies(named, sets))


def _objects(named: FrameRows, rows: Sequence[int]) -> int | None:
    """Count the objects in the first and the last row of a set; None if the two differ."""
    counts = {len(named.reader.metadata(named.numbers[row]).objects) for row in (rows[0], rows[-1])}
    return counts.pop() if len(counts) == 1 else None


def find_varies(named: FrameRows, sets: Sequence[ConceptSet]) -> Varies | None:
    """Tell the concept that sets of frames vary, of two frames of the first set with several rows.

    Args:
        named: the frames.
        sets: sets of their rows, all of one concept.
    """
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


def same_view(one: Metadata, other: Metadata) -> bool:
    """Tell whether two frames show the same objects at the same places through the same camera."""
    return one.camera == other.camera and _poses(one) == _poses(other)


def _materials(metadata: Metadata) -> list[Any]:
    return [
        (record.material, record.base_color, [(part.material, part.base_color) for part in record.parts])
        for record in metadata.objects
    ]


def _poses(metadata: Metadata) -> list[Any]:
    return [(o.type, o.size, o.rotation, o.tilt, o.location) for o in metadata.objects]


CONCEPTS = Content(
    "concept sets",
    ("mit", "arap", "multi-illumination", "photometric-stereo"),
    image_layer,
    arguments=lambda layout, options: {"lights": True} if layout == "mit" else {},
    reader=lambda layout, reader: _MITLights(reader) if layout == "mit" else reader,
    public=read_image,
    view=_concepts,
)


def match_controls(
    concepts: Sequence[ConceptSet], controls: Sequence[ConceptSet]
) -> tuple[tuple[ConceptSet, ...], ...]:
    """Return the controls of each concept set: the control sets that agree in all factors that both sets fix.

    Sets of albedo and their controls of the recipe `concepts-controls` agree in scene, texturing, light and
    temperature, and there is a control in each of several materials; sets of illumination and theirs agree in
    scene, texturing, material and temperature, and there is one under each of several lights; both and the
    negatives agree in scene and texturing.

    Args:
        concepts: concept sets, as ``sets`` of `open_data("concepts", ...)`.
        controls: control sets, of the same or other data; they may be of more scenes.

    Returns:
        The control sets of each concept set, at least one, in their order, with rows of the view of the
        controls.

    Raises:
        InputError: a concept set has no factor in common with the controls, or no control.

    Example:
        >>> painted = ConceptSet({"scene": "cube", "light_azimuth": -20}, rows=(0, 1))
        >>> moved = ConceptSet({"scene": "cube", "light_azimuth": -20, "material": 0}, rows=(0, 1))
        >>> other = ConceptSet({"scene": "cube", "light_azimuth": 20, "material": 0}, rows=(2, 3))
        >>> match_controls([painted], [other, moved]) == ((moved,),)
        True
    """
    return tuple(_match(one.fixed, controls) for one in concepts)


def _match(fixed: Mapping[str, FactorValue], controls: Sequence[ConceptSet]) -> tuple[ConceptSet, ...]:
    found = []
    for control in controls:
        shared = fixed.keys() & control.fixed.keys()
        if shared and all(fixed[name] == control.fixed[name] for name in shared):
            found.append(control)
    if not found:
        values = ", ".join(f"{name}={value}" for name, value in fixed.items())
        raise InputError(
            f"expected a control of the concept set with {values}, got none of {len(controls)} sets; render "
            "controls with the same values of these factors"
        )
    return tuple(found)
