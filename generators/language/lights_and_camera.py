"""Lights, environment and camera of a layout, as pydantic models."""

from typing import Generic, Literal

from annotated_types import Interval
from pydantic import model_validator

from candlelight.generators.language.field_types import (
    Color,
    Label,
    Number,
    NumberOrReference,
    Pair,
    Point,
    Three,
    Two,
    described,
    stated_fields,
)
from candlelight.loaders.schema import Record, Vector

DEFAULT_LIGHT_NAME = "light"  # name of a light, and so of its light layer, that the recipe does not name
ENVIRONMENT_LIGHT = "environment"  # name of the environment's light layer
# Fields that only some kinds of lights have.
_OF_KINDS = {
    "distance": ("point", "spot", "area"),
    "radius": ("point", "spot"),
    "cone": ("spot",),
    "blend": ("spot",),
    "aim": ("spot", "area", "sun"),
    "size": ("area",),
    "angle": ("sun",),
}


class Light(Record):
    """One light: an asset alone, or a light given by the other fields."""

    asset: Label | None = described(
        None, "Label of a light among the assets; it decides every other field but `name`.", "left"
    )
    name: str | None = described(
        None, "Name of the light's layer, `light/NAME`; by default the asset's label or `light`.", "key"
    )
    location: Point | None = described(
        None, "Place of the light, instead of azimuth, elevation and distance.", [2, 3, 4], "m"
    )
    azimuth: NumberOrReference = described(
        0.0,
        "Angle about the target: 0 is the camera's side, positive to the right in the image.",
        -40,
        "degrees",
    )
    elevation: NumberOrReference = described(45.0, "Angle above the floor.", 60, "degrees")
    distance: NumberOrReference = described(
        4.0, "Distance from the target, not of a sun.", 5, "m", filled=Interval(gt=0)
    )
    target: Point = described(
        (0.0, 0.0, 0.0), "Point that azimuth, elevation and distance count from.", [0, 0, 0.5], "m"
    )
    power: NumberOrReference = described(
        1000.0,
        "Power of the light, above 0. A sun needs one: its irradiance, in W/m2.",
        "$power",
        "W",
        filled=Interval(gt=0),
    )
    radius: NumberOrReference = described(
        0.5,
        "Radius of a point or spot; a larger one has softer shadows.",
        0.1,
        "m",
        filled=Interval(ge=0),
    )
    temperature: NumberOrReference | None = described(
        None, "Colour of a black body, at equal luminance; 1000 to 40000.", 4500, "K"
    )
    chromaticity: Pair | None = described(
        None,
        "Colour by dominant wavelength (440 to 650 nm, negative for its complement) and 0 to 8 steps of "
        "saturation, at equal luminance.",
        [611, 4],
        "nm, steps of 0.005 in CIE 1931 xy",
    )
    color: Color | None = described(
        None, "Colour that multiplies the power, channel by channel.", [1, 0.9, 0.8]
    )
    kind: Literal["point", "spot", "area", "sun"] = described(
        "point",
        "A `point` shines in all directions, a `spot` within a cone, an `area` from a rectangle to its "
        "front, and a `sun` in parallel.",
        "spot",
    )
    cone: NumberOrReference = described(
        45.0,
        "Angle of the cone of a spot from edge to edge, 1 to 180.",
        35,
        "degrees",
        filled=Interval(ge=1, le=180),
    )
    blend: NumberOrReference = described(
        0.15,
        "Share of the cone that is soft, from its edge inwards; 0 to 1.",
        0.3,
        filled=Interval(ge=0, le=1),
    )
    aim: Point | None = described(
        None,
        "Point that a spot or area shines at, or a sun from its `location`; by default its target.",
        [0, 0, 1],
        "m",
    )
    size: NumberOrReference | Pair = described(
        1.0,
        "Side of a square area, or width, which is level, and height of a rectangle.",
        [2, 0.5],
        "m",
        filled=Interval(gt=0),
        later=True,
    )
    angle: NumberOrReference = described(
        0.53,
        "Angle of the disc of a sun, 0 to 90; a larger one has softer shadows.",
        5,
        "degrees",
        filled=Interval(ge=0, le=90),
        later=True,
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "Light":
        stated = stated_fields(self)
        if self.asset is not None and (extra := [name for name in stated if name not in ("asset", "name")]):
            raise ValueError(
                f"a light asset decides every field of the light; expected no {', '.join(extra)} with it"
            )
        colors = [name for name in stated if name in ("temperature", "chromaticity", "color")]
        if len(colors) > 1:
            raise ValueError(
                f"expected one of `temperature`, `chromaticity` and `color`, got {', '.join(colors)}"
            )
        for name, kinds in _OF_KINDS.items():
            if name in stated and self.kind not in kinds:
                raise ValueError(f"{name}: belongs to `kind: {' or '.join(kinds)}`, got `kind: {self.kind}`")
        if self.kind == "sun" and "power" not in self.model_fields_set:
            raise ValueError("power: expected the irradiance of the sun in W/m2, as in `power: 5`, got none")
        if self.kind == "sun" and self.aim is not None and self.location is None:
            raise ValueError("aim: a sun shines by azimuth and elevation, or from a `location`; got none")
        return self

    @property
    def layer_name(self) -> str:
        """Name of the light, and of its layer after `light/`; it may be a reference."""
        return self.name or self.asset or DEFAULT_LIGHT_NAME


class Environment(Record):
    """The environment around the objects: an environment map, or a modelled scene."""

    scene: Label = described(..., "Label of an environment among the assets of kind `scenes`.", "$scene")
    rotation: NumberOrReference = described(
        0.0,
        "Turn of an environment map about the vertical, clockwise seen from above, added to that of its "
        "manifest.",
        90,
        "degrees",
    )
    strength: NumberOrReference = described(
        1.0, "Factor on the radiance of an environment map, at least 0.", 0.7
    )


class CameraFields(Record, Generic[Number, Two, Three]):
    """The camera: its place, the point it looks at, and its horizontal field of view.

    ``yaw``, ``pitch`` and ``roll`` then turn it about its own Y, X and Z axes. ``zoom`` multiplies the focal
    length; ``shift`` moves the image right and down (`candlelight.generators.scenes.camera.intrinsics`).
    """

    location: Three = described(..., "Place of the camera.", [0, 5.5, 3.6], "m")
    look_at: Three = described(..., "Point in the middle of the image.", [0, 0, 0.5], "m")
    field_of_view: Number = described(
        50.0, "Horizontal field of view.", 34, "degrees", filled=Interval(gt=0, lt=180)
    )
    pitch: Number = described(
        0.0, "Turn upwards, after looking at the point.", 0.5, "degrees", filled=Interval(ge=-180, le=180)
    )
    yaw: Number = described(
        0.0, "Turn to the left, after looking at the point.", 0.5, "degrees", filled=Interval(ge=-180, le=180)
    )
    roll: Number = described(
        0.0,
        "Turn anticlockwise; the scene turns clockwise in the image.",
        5,
        "degrees",
        filled=Interval(ge=-180, le=180),
    )
    shift: Two = described(
        (0.0, 0.0),
        "Move of the image to the right and down, after the zoom; at most 45.",
        [0.2, 0],
        "degrees of visual angle",
    )
    zoom: Number = described(
        1.0, "Scale of the image about its middle, 0.1 to 10.", 1.2, filled=Interval(ge=0.1, le=10)
    )


class PlacedCamera(CameraFields[float, tuple[float, float], Vector]):
    """The camera of a sample."""


class Camera(CameraFields[NumberOrReference, Pair, Point]):
    """The camera in a recipe."""

    scene: Label | None = described(
        None, "Label of a scene; a camera in its file replaces place, direction and field of view.", "$scene"
    )
