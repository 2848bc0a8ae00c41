"""The layout of an image set: where the values of factors and variables go in a scene, as pydantic models.

``$name`` stands for the value of the factor or variable of that name. Lengths are metres, angles degrees,
colours linear Rec.709.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from generators.language.field_types import Choice, Color, Model, Number, Share, is_choice
from generators.language.lights_and_camera import CameraSpec, EnvironmentSpec, LightSpec
from loaders.schema import Vector

# Every shipped texture, in alphabetical order.
TEXTURES = (
    *("bricks", "camouflage", "checker", "cracks", "dots", "gabor", "gradient", "grid", "hexagons", "marble"),
    *("mosaic", "speckle", "stripes", "swirls", "waves", "weave", "wood", "zigzag"),
)


class Appearance(Model):
    """Materials drawn at random: the ``variation``-th of the unit, for each object its own.

    ``texturing`` is "rgb" (one colour) or "textured" (one of ``textures``, placed at random; two colours, if
    it is no image). Without ``textures`` they are all of the folder that ``assets.textures`` names, or else
    `TEXTURES`.
    Colours are uniform between ``low`` and ``high`` in sRGB-encoded values, so that they look evenly spread.
    """

    texturing: str = "rgb"
    variation: Number = 0.0
    textures: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    low: Annotated[float, Field(ge=0, le=1)] = 0.1
    high: Annotated[float, Field(ge=0, le=1)] = 0.95

    @model_validator(mode="after")
    def _in_order(self) -> "Appearance":
        if self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        return self


class Paint(Model):
    """A material in numbers: one colour, or a texture and its two, and its gloss.

    ``texture`` is a label among the textures, placed by ``offset`` (m) and ``scale``; an image has colours of
    its own, and takes none. ``specular`` is the strength of the gloss: 0.5 is that of the shipped
    materials, 0 leaves a Lambertian surface; ``roughness`` is 0 for a mirror and 1 for the widest highlight.
    """

    base_color: Color | None = None
    texture: str | None = None
    color_a: Color | None = None
    color_b: Color | None = None
    offset: Vector = (0.0, 0.0, 0.0)
    scale: Annotated[float, Field(gt=0)] = 1.0
    roughness: Share = 0.5
    specular: Share = 0.5

    @model_validator(mode="after")
    def _one_or_two_colours(self) -> "Paint":
        plain, colors = self.texture is None, (self.color_a, self.color_b)
        whole = self.base_color is not None if plain else colors.count(None) != 1
        extra = any(color is not None for color in colors) if plain else self.base_color is not None
        if extra or not whole:
            raise ValueError("expected `base_color` alone, or `texture`, `color_a` and `color_b`")
        return self


def _label_or_paint(value: object) -> str | None:
    return "label" if isinstance(value, str) else "paint" if isinstance(value, dict | Paint) else None


MadeOf = Annotated[
    Annotated[str, Tag("label")] | Annotated[Paint, Tag("paint")],
    Discriminator(
        _label_or_paint, custom_error_type="made_of", custom_error_message="expected a label or a paint"
    ),
]


def _kind_of_choice(value: object) -> str:
    return "[choice]" if is_choice(value) else "[one]"


def _kind_of_list(value: object) -> str:
    return "[choice]" if isinstance(value, dict | Choice) else "[list]"


class ObjectSpec(Model):
    """One object: asset, material (a label, a paint, or drawn by the set's appearance) and pose.

    ``size`` is metres per unit of the asset (the shipped ones are one unit wide), ``location`` x and y of the
    middle of its base, and z where it is not on the floor. It is tilted about the world's x axis, then its y
    axis, by ``tilt`` degrees, then turned about the vertical by ``rotation`` degrees. With
    ``anchor`` "centre" it is the middle of the asset's height that is at ``location`` and stays there. The
    material "own" stands for the colours that the manifest names of the asset's parts; ``parts`` gives some
    of them another material.
    """

    type: str
    material: MadeOf | None = None
    parts: dict[str, MadeOf] = Field(default_factory=dict)
    size: Number = 1.0
    rotation: Number = 0.0
    tilt: tuple[Number, Number] = (0.0, 0.0)
    location: tuple[Number, Number] | tuple[Number, Number, Number] = (0.0, 0.0)
    anchor: Literal["base", "centre"] = "base"


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


class LeavesSpec(Model):
    """Dead leaves: opaque flat shapes at random places, each in front of what fell before it.

    ``shape`` is "disc", "ellipse" or "polygon". The radius r (of the disc of equal area) has density
    r^-``exponent`` between the two of ``size``, in widths of the longer side of the image. ``colors`` is
    "rgb" or "gray", uniform between ``low`` and ``high`` in sRGB-encoded values; ``contrast`` is that of
    waves within each leaf, 0 for none. Light falls off linearly across the image, by the share ``falloff``
    from the side that ``azimuth`` points to (degrees, 0 right, 90 up) to the other.
    """

    shape: str = "disc"
    exponent: Number = 3.0
    size: tuple[Number, Number] = (0.004, 0.5)
    colors: str = "rgb"
    low: Annotated[float, Field(ge=0, le=1)] = 0.1
    high: Annotated[float, Field(ge=0, le=1)] = 0.95
    contrast: Number = 0.0
    falloff: Number = 0.0
    azimuth: Number = 0.0

    @model_validator(mode="after")
    def _in_order(self) -> "LeavesSpec":
        if self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        return self


class FloorSpec(Model):
    """The ground at height 0: a shadow catcher, one diffuse colour, or what ``appearance`` draws for it.

    It reaches ``half_width`` metres from the origin along x and y.
    """

    catcher: bool = False
    base_color: Color = (0.8, 0.8, 0.8)
    half_width: Number = 20.0
    appearance: Appearance | None = None

    @model_validator(mode="after")
    def _catchers_are_bare(self) -> "FloorSpec":
        if self.catcher and self.appearance is not None:
            raise ValueError(
                "a shadow catcher shows the map and no material; expected no `appearance` beside it"
            )
        return self


_Lights = Annotated[tuple[LightSpec, ...], Field(min_length=1)]


class Layout(Model):
    """How values become a scene.

    The objects are ``objects`` or a ``scatter``. A ``material`` covers all objects and their parts; null
    leaves each object its own. A layout without ``lights`` and without ``environment`` has one default light.
    ``objects``, ``lights`` and ``material`` may each be a choice by the value of a factor or variable
    (`generators.language.field_types.Choice`). ``leaves`` stand alone: they are painted and not traced.
    """

    camera: CameraSpec | None = None
    objects: Annotated[
        Annotated[tuple[ObjectSpec, ...], Tag("[list]")]
        | Annotated[Choice[tuple[ObjectSpec, ...]], Tag("[choice]")],
        Discriminator(_kind_of_list),
    ] = ()
    scatter: Scatter | None = None
    appearance: Appearance = Appearance()
    material: Annotated[
        Annotated[MadeOf | None, Tag("[one]")] | Annotated[Choice[MadeOf | None], Tag("[choice]")],
        Discriminator(_kind_of_choice),
    ] = None
    lights: Annotated[
        Annotated[tuple[LightSpec, ...], Tag("[list]")] | Annotated[Choice[_Lights], Tag("[choice]")],
        Discriminator(_kind_of_list),
    ] = ()
    environment: EnvironmentSpec | None = None
    floor: FloorSpec | None = None
    leaves: LeavesSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _lit(cls, data: Any) -> Any:
        if isinstance(data, dict) and not data.keys() & {"lights", "environment", "leaves"}:
            return {**data, "lights": [{}]}
        return data

    @model_validator(mode="after")
    def _one_kind_of_objects(self) -> "Layout":
        if self.objects and self.scatter is not None:
            raise ValueError("expected `objects` or `scatter`, got both")
        if self.leaves is None and self.environment is None and not self.lights:
            raise ValueError("expected `lights` or an `environment`: nothing would be lit")
        return self

    @model_validator(mode="after")
    def _leaves_or_camera(self) -> "Layout":
        if self.leaves is None and self.camera is None:
            raise ValueError("expected a `camera`, or `leaves`")
        fields = type(self).model_fields.items()
        beside = [
            name
            for name, field in fields
            if getattr(self, name) != field.get_default(call_default_factory=True)
        ]
        if self.leaves is not None and len(beside) > 1:
            raise ValueError(f"expected `leaves` alone, got {', '.join(beside)}")
        return self

    def choices(self) -> dict[str, Any]:
        """Return the fields that a factor or variable chooses, by their paths."""
        fields = {name: getattr(self, name) for name in ("objects", "lights", "material")}
        return {f"layout.{name}": value for name, value in fields.items() if isinstance(value, Choice)}
