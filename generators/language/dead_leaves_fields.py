"""The fields of dead leaves, in a recipe and in a plan."""

from typing import Generic

from annotated_types import Interval
from pydantic import model_validator

from candlelight.generators.language.field_types import (
    Label,
    Number,
    NumberOrReference,
    Pair,
    Share,
    Two,
    check_order,
    described,
)
from candlelight.loaders.schema import Record

DEAD_LEAVES_LAYERS = ("image", "radiance", "albedo", "shading", "residual")
SMALLEST = 0.002  # of the longer side; smaller leaves are many, slow, and below a pixel
SHAPES = ("disc", "ellipse", "polygon")
COLORS = ("rgb", "gray")


class DeadLeavesFields(Record, Generic[Number, Two]):
    """Dead leaves: opaque flat shapes at random places that hide one another."""

    shape: Label = described("disc", "Shape of the leaves: `disc`, `ellipse` or `polygon`.", "disc")
    exponent: Number = described(
        3.0,
        "Radii r have a density proportional to r^-exponent; 0 to 10.",
        3,
        filled=Interval(ge=0, le=10),
    )
    size: Two = described(
        (0.004, 0.5),
        "Smallest and largest radius, of the disc of equal area.",
        [0.004, 0.5],
        "longer sides of the image",
    )
    colors: Label = described("rgb", "Colours of the leaves: `rgb` or `gray`.", "gray")
    low: Share = described(0.1, "Darkest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.2)
    high: Share = described(0.95, "Brightest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.9)
    contrast: Number = described(
        0.0, "Contrast of the waves within each leaf, from 0 (none) to 1.", 0.5, filled=Interval(ge=0, le=1)
    )
    falloff: Number = described(
        0.0,
        "Share of the light that is lost across the image, from 0 to 1.",
        0.4,
        filled=Interval(ge=0, le=1),
    )
    azimuth: Number = described(0.0, "Brightest side of the image: 0 is right, 90 up.", 45, "degrees")

    _in_order = model_validator(mode="after")(check_order)


class DeadLeavesSpec(DeadLeavesFields[NumberOrReference, Pair]):
    """Dead leaves in a recipe."""


class DeadLeaves(DeadLeavesFields[float, tuple[float, float]]):
    """The dead leaves of a sample."""
