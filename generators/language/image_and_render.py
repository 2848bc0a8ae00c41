"""Pixels of a frame, and how finely it is traced, as pydantic models of a recipe."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from generators.language.field_types import Model


class Image(Model):
    """Pixels of a frame."""

    width: Annotated[int, Field(ge=8, le=8192)] = 320
    height: Annotated[int, Field(ge=8, le=8192)] = 240


Preset = Literal["draft", "standard", "reference"]
# Chosen by `benchmarks/equal_error.py`; docs/frames.md has the numbers.
PRESETS: dict[str, dict[str, Any]] = {
    "draft": {"samples": 4, "bounces": 2, "denoise": True, "geometry_samples": 0},
    "standard": {"samples": 16, "bounces": 4, "denoise": True, "geometry_samples": 128},
    "reference": {"samples": 2048, "bounces": 4, "denoise": False, "geometry_samples": 0},
}


class Render(Model):
    """How a frame is traced: paths per pixel, bounces, and whether its parts are denoised.

    Over a shadow catcher the albedo and normals of objects are taken from a second trace, without light, of
    ``geometry_samples``, if these are more than ``samples`` and the light is denoised; nothing else there has
    any. A ``preset`` gives all four: "draft" to look at, "standard" to keep, "reference" to measure others
    against. A field that is given beside it wins.
    """

    preset: Preset = "standard"
    samples: Annotated[int, Field(ge=1, le=65536)]
    bounces: Annotated[int, Field(ge=0, le=64)]
    denoise: bool
    geometry_samples: Annotated[int, Field(ge=0, le=65536)]

    @property
    def has_geometry_trace(self) -> bool:
        """Whether objects over a shadow catcher are traced a second time, without light."""
        return self.denoise and self.geometry_samples > self.samples

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset", "standard")
        # Another name is refused with the field's own message, and what it leaves out is not missed then.
        known = PRESETS.get(preset) if isinstance(preset, str) else None
        return {**(known or PRESETS["standard"]), **data}
