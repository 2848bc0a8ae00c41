"""Size of the images and quality of rendering, as pydantic models of a recipe."""

from typing import Any, Literal

from pydantic import model_validator

from candlelight.generators.language.field_types import described
from candlelight.loaders.schema import Record


class ImageSize(Record):
    """Size of the images."""

    width: int = described(320, "Width of the images, 8 to 8192.", 64, "pixels", ge=8, le=8192)
    height: int = described(240, "Height of the images, 8 to 8192.", 48, "pixels", ge=8, le=8192)


RenderPreset = Literal["draft", "standard", "reference"]
# Chosen by `benchmarks/equal_error.py`; docs/frames.md has the numbers.
RENDER_PRESETS: dict[str, dict[str, Any]] = {
    "draft": {"samples": 4, "bounces": 2, "denoise": True, "geometry_samples": 0},
    "standard": {"samples": 16, "bounces": 4, "denoise": True, "geometry_samples": 128},
    "reference": {"samples": 2048, "bounces": 4, "denoise": False, "geometry_samples": 0},
}


class RenderSettings(Record):
    """Quality of rendering: a preset, and fields that replace fields of the preset."""

    preset: RenderPreset = described(
        "standard",
        "Quality: `draft` to look at, `standard` to keep, `reference` to measure others against.",
        "draft",
    )
    samples: int = described(
        ..., "Paths per pixel, 1 to 65536.", 32, default_words="the preset's", ge=1, le=65536
    )
    bounces: int = described(..., "Bounces of light, 0 to 64.", 3, default_words="the preset's", ge=0, le=64)
    denoise: bool = described(
        ..., "Whether the parts of the light are denoised.", False, default_words="the preset's"
    )
    geometry_samples: int = described(
        ...,
        "Samples of the geometry trace over a shadow catcher, 0 for none.",
        64,
        default_words="the preset's",
        ge=0,
        le=65536,
    )

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
        # An unknown preset is refused with the field's own message, not with one about the fields it lacks.
        known = RENDER_PRESETS.get(preset) if isinstance(preset, str) else None
        return {**(known or RENDER_PRESETS["standard"]), **data}
