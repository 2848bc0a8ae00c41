"""The layout of an image set: where the values of factors and variables go in a scene, as pydantic models.

``$name`` stands for the value of the factor or variable of that name. Lengths are metres, angles degrees,
colours linear Rec.709.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from generators.scene import Floor
from loaders.schema import Vector


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a number or $variable")
    if isinstance(value, str) and not value.startswith("$"):
        raise ValueError("expected a number or $variable")
    return value


Number = Annotated[float | str, BeforeValidator(_number)]


TEXTURES = ("bricks", "checker", "dots", "marble", "stripes")


class Model(BaseModel):
    """Base of the models below: immutable; unknown keys and non-finite numbers are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Appearance(Model):
    """Materials drawn at random: the ``variation``-th of the unit, for each object its own.

    ``texturing`` is "rgb" (one colour) or "textured" (one of ``textures``, two colours, placed at random).
    Colours are uniform between ``low`` and ``high`` in sRGB-encoded values, so that they look evenly spread.
    """

    texturing: str = "rgb"
    variation: Number = 0.0
    textures: Annotated[tuple[str, ...], Field(min_length=1)] = TEXTURES
    low: Annotated[float, Field(ge=0, le=1)] = 0.1
    high: Annotated[float, Field(ge=0, le=1)] = 0.95

    @model_validator(mode="after")
    def _in_order(self) -> "Appearance":
        if self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        return self


class ObjectSpec(Model):
    """One object: asset, material (a label, or drawn by the set's appearance), pose on the floor.

    ``size`` is metres per unit of the asset (the shipped ones are one unit wide), ``rotation`` degrees about
    the vertical, ``location`` x and y of the base.
    """

    type: str
    material: str | None = None
    size: Number = 1.0
    rotation: Number = 0.0
    location: tuple[Number, Number] = (0.0, 0.0)


class Scatter(Model):
    """Objects at random places, none touching another.

    ``count`` objects, types out of ``types``, sizes uniform in ``size``, inside ``region`` (x low, x high, y
    low, y high), at least ``gap`` metres between their bounding circles.
    """

    count: Number
    types: Annotated[tuple[str, ...], Field(min_length=1)]
    size: tuple[float, float]
    region: tuple[float, float, float, float]
    gap: Annotated[float, Field(ge=0)] = 0.1

    @model_validator(mode="after")
    def _in_order(self) -> "Scatter":
        x_low, x_high, y_low, y_high = self.region
        if x_low > x_high or y_low > y_high:
            raise ValueError(f"region: expected x low <= x high and y low <= y high, got {list(self.region)}")
        if not 0 < self.size[0] <= self.size[1]:
            raise ValueError(f"size: expected 0 < low <= high, got {list(self.size)}")
        return self


class LightSpec(Model):
    """One lamp: an asset, or a point light given here; ``name`` is that of its light layer.

    Given here it stands at ``location``, or at ``distance`` from ``target``, ``elevation`` above the floor
    and ``azimuth`` to the side: 0 is the camera's side, positive to the right in the picture. Colour is
    white, or that of a black body at ``temperature`` kelvin, at equal luminance.
    """

    asset: str | None = None
    name: str | None = None
    location: tuple[Number, Number, Number] | None = None
    azimuth: Number = 0.0
    elevation: Number = 45.0
    distance: Number = 4.0
    target: Vector = (0.0, 0.0, 0.0)
    power: Number = 1000.0
    radius: Number = 0.5
    temperature: Number | None = None

    @model_validator(mode="after")
    def _asset_alone(self) -> "LightSpec":
        fields = type(self).model_fields
        extra = [
            name
            for name in fields
            if name not in ("asset", "name") and getattr(self, name) != fields[name].default
        ]
        if self.asset is not None and extra:
            raise ValueError(
                f"a light asset decides everything of itself; expected no {', '.join(extra)} beside it"
            )
        return self


class EnvironmentSpec(Model):
    """The map around the scene, a label among the scenes; turned and scaled beside what it needs itself."""

    map: str
    rotation: Number = 0.0
    strength: Number = 1.0


class CameraSpec(Model):
    """The camera: where it stands, what it looks at, its horizontal field of view, and two small turns."""

    location: tuple[Number, Number, Number]
    look_at: tuple[Number, Number, Number]
    field_of_view: Number = 50.0
    pitch: Number = 0.0
    yaw: Number = 0.0


class Layout(Model):
    """How values become a scene.

    The objects are ``objects``, or those of ``arrangements`` that ``arrangement`` names, or a ``scatter``.
    """

    camera: CameraSpec
    objects: tuple[ObjectSpec, ...] = ()
    arrangement: str | None = None
    arrangements: dict[str, tuple[ObjectSpec, ...]] = Field(default_factory=dict)
    scatter: Scatter | None = None
    appearance: Appearance = Appearance()
    lights: tuple[LightSpec, ...] = ()
    environment: EnvironmentSpec | None = None
    floor: Floor | None = None

    @model_validator(mode="after")
    def _one_kind_of_objects(self) -> "Layout":
        given = [bool(self.objects), self.arrangement is not None, self.scatter is not None]
        if sum(given) > 1:
            raise ValueError("expected one of `objects`, `arrangement` and `scatter`")
        if self.arrangement is not None and not self.arrangements:
            raise ValueError("expected `arrangements` that `arrangement` can name, got none")
        if self.environment is None and not self.lights:
            raise ValueError("expected `lights` or an `environment`: nothing would be lit")
        return self


def references(value: object) -> Iterator[str]:
    """Yield the names that ``$name`` refers to anywhere in a model."""
    if isinstance(value, str) and value.startswith("$"):
        yield value[1:]
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from references(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from references(item)


def substitute(value: Any, lookup: Callable[[str], Any]) -> Any:
    """Return the value that a field of a layout stands for: ``$name`` is looked up, all else stays.

    Example:
        >>> substitute((1.0, "$size"), {"size": 2.5}.__getitem__)
        (1.0, 2.5)
    """
    if isinstance(value, str) and value.startswith("$"):
        return lookup(value[1:])
    if isinstance(value, tuple):
        return tuple(substitute(item, lookup) for item in value)
    return value
