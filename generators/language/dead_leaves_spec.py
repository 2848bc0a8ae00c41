"""Dead leaves in a recipe, as a pydantic model."""

from typing import Annotated

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

    shape: Annotated[Label, described("Shape of the leaves: `disc`, `ellipse` or `polygon`.", "disc")] = (
        "disc"
    )
    exponent: Annotated[
        NumberOrReference, described("Radii r have a density proportional to r^-exponent; 0 to 10.", 3)
    ] = 3.0
    size: Annotated[
        Pair,
        described(
            "Smallest and largest radius, of the disc of equal area.",
            [0.004, 0.5],
            "longer sides of the image",
        ),
    ] = (0.004, 0.5)
    colors: Annotated[Label, described("Colours of the leaves: `rgb` or `gray`.", "gray")] = "rgb"
    low: Annotated[Share, described("Darkest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.2)] = (
        0.1
    )
    high: Annotated[
        Share, described("Brightest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.9)
    ] = 0.95
    contrast: Annotated[
        NumberOrReference, described("Contrast of the waves within each leaf, from 0 (none) to 1.", 0.5)
    ] = 0.0
    falloff: Annotated[
        NumberOrReference, described("Share of the light that is lost across the image, from 0 to 1.", 0.4)
    ] = 0.0
    azimuth: Annotated[
        NumberOrReference, described("Brightest side of the image: 0 is right, 90 up.", 45, "degrees")
    ] = 0.0

    @model_validator(mode="after")
    def _in_order(self) -> "DeadLeavesSpec":
        if self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        return self
