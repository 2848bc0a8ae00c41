"""Dead leaves in a recipe, as a pydantic model."""


from pydantic import model_validator

from candlelight.generators.language.field_types import (
    Label,
    Model,
    NumberOrReference,
    Pair,
    Share,
    described,
)


class DeadLeavesSpec(Model):
    """Dead leaves: opaque flat shapes at random places that hide one another."""

    shape: Label = described("disc", "Shape of the leaves: `disc`, `ellipse` or `polygon`.", "disc")
    exponent: NumberOrReference = described(
        3.0, "Radii r have a density proportional to r^-exponent; 0 to 10.", 3
    )
    size: Pair = described(
        (0.004, 0.5),
        "Smallest and largest radius, of the disc of equal area.",
        [0.004, 0.5],
        "longer sides of the image",
    )
    colors: Label = described("rgb", "Colours of the leaves: `rgb` or `gray`.", "gray")
    low: Share = described(0.1, "Darkest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.2)
    high: Share = described(0.95, "Brightest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.9)
    contrast: NumberOrReference = described(
        0.0, "Contrast of the waves within each leaf, from 0 (none) to 1.", 0.5
    )
    falloff: NumberOrReference = described(
        0.0, "Share of the light that is lost across the image, from 0 to 1.", 0.4
    )
    azimuth: NumberOrReference = described(
        0.0, "Brightest side of the image: 0 is right, 90 up.", 45, "degrees"
    )

    @model_validator(mode="after")
    def _in_order(self) -> "DeadLeavesSpec":
        if self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        return self
