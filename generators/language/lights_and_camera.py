"""What lights a layout and what looks at it, as pydantic models; see `generators.language.layout`."""

from typing import Literal

from pydantic import model_validator

from generators.language.field_types import Color, Model, Number

UNNAMED_LIGHT = "lamp"  # the light layer of a light that the recipe does not name
ENVIRONMENT_LIGHT = "environment"  # the light layer of the environment


class LightSpec(Model):
    """One lamp: an asset, or a light given here; ``name`` is that of its light layer.

    Given here it stands at ``location``, or at ``distance`` from ``target``, ``elevation`` above the floor
    and ``azimuth`` to the side: 0 is the camera's side, positive to the right in the picture. A "spot" shines
    at ``aim``, by default its target, within a ``cone`` of that many degrees from edge to edge, of which the
    share ``blend`` from the edge inwards is soft.

    Its light is white, linear Rec.709 (1, 1, 1); or that of a black body at ``temperature`` kelvin, or of
    ``chromaticity``, a dominant wavelength in nm (negative for its complement) and steps of saturation
    (`generators.scenes.colorimetry.illuminant`), these at equal luminance; or of ``color``, which multiplies
    the power channel by channel.
    """

    asset: str | None = None
    name: str | None = None
    location: tuple[Number, Number, Number] | None = None
    azimuth: Number = 0.0
    elevation: Number = 45.0
    distance: Number = 4.0
    target: tuple[Number, Number, Number] = (0.0, 0.0, 0.0)
    power: Number = 1000.0
    radius: Number = 0.5
    temperature: Number | None = None
    chromaticity: tuple[Number, Number] | None = None
    color: Color | None = None
    kind: Literal["point", "spot"] = "point"
    cone: Number = 45.0
    blend: Number = 0.15
    aim: tuple[Number, Number, Number] | None = None

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

    @model_validator(mode="after")
    def _one_colour(self) -> "LightSpec":
        given = [name for name in ("temperature", "chromaticity", "color") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"expected one of `temperature`, `chromaticity` and `color`, got {', '.join(given)}"
            )
        return self

    @model_validator(mode="after")
    def _spots_alone(self) -> "LightSpec":
        fields = type(self).model_fields
        beam = [name for name in ("cone", "blend", "aim") if getattr(self, name) != fields[name].default]
        if self.kind == "point" and beam:
            raise ValueError(
                f"expected no {', '.join(beam)}: a point light shines everywhere; say `kind: spot`"
            )
        return self


class EnvironmentSpec(Model):
    """The map around the scene, a label among the scenes; turned and scaled beside what it needs itself."""

    map: str
    rotation: Number = 0.0
    strength: Number = 1.0


class CameraSpec(Model):
    """The camera: where it stands, what it looks at, its horizontal field of view, and how it is turned.

    ``pitch`` turns it up, ``yaw`` to the left, ``roll`` anticlockwise, so that the scene turns clockwise in
    the picture. ``zoom`` scales the picture about its middle; ``shift`` then moves it right and down,
    exactly, by degrees of visual angle (`generators.scenes.camera.intrinsics`). Where the file of the scene
    that ``scene`` names has a camera of its own, that one's place, direction and field of view go before
    those given here.
    """

    location: tuple[Number, Number, Number]
    look_at: tuple[Number, Number, Number]
    field_of_view: Number = 50.0
    pitch: Number = 0.0
    yaw: Number = 0.0
    roll: Number = 0.0
    shift: tuple[Number, Number] = (0.0, 0.0)
    zoom: Number = 1.0
    scene: str | None = None
