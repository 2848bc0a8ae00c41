"""Materials in a recipe, as pydantic models: by label, stated in numbers, or drawn at random."""

from typing import Annotated

from annotated_types import Interval
from pydantic import Discriminator, Tag, model_validator

from candlelight.generators.language.field_types import (
    CodeLabel,
    CodeNumbers,
    Color,
    Label,
    NumberOrReference,
    PlainType,
    Share,
    check_order,
    described,
)
from candlelight.loaders.schema import Record, Vector

# Every shipped texture, in alphabetical order.
TEXTURES = (
    *("bricks", "camouflage", "checker", "cracks", "dots", "gabor", "gradient", "grid", "hexagons", "marble"),
    *("mosaic", "speckle", "stripes", "swirls", "waves", "weave", "wood", "zigzag"),
)


_SHARE = Interval(ge=0, le=1)


class RandomMaterial(Record):
    """A material drawn at random: one colour, or a texture at a random place."""

    texturing: Label = described(
        "rgb", "Kind of material: `rgb` for one colour, `textured` for a texture.", "textured"
    )
    variation: NumberOrReference = described(
        0.0, "Number of the drawn material: samples of a unit with equal numbers have equal materials.", 3
    )
    textures: tuple[str, ...] | None = described(
        None,
        "Textures to draw from; by default all of the folder `assets.textures`, else all shipped.",
        ["wood"],
        min_length=1,
    )
    low: Share = described(0.1, "Darkest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.2)
    high: Share = described(0.95, "Brightest drawn channel, as an sRGB-encoded value from 0 to 1.", 0.9)

    _in_order = model_validator(mode="after")(check_order)


class Material(Record):
    """A material stated in numbers: one colour, or a texture with its two colours, and its surface."""

    base_color: Color | None = described(
        None, "The one colour of a material without texture.", [0.5, 0.1, 0.1]
    )
    texture: Label | None = described(None, "Label of a texture; an image brings its own colours.", "wood")
    color_a: Color | None = described(None, "First colour of the texture.", [0.8, 0.7, 0.5])
    color_b: Color | None = described(None, "Second colour of the texture.", [0.2, 0.1, 0.05])
    offset: Vector = described(
        (0.0, 0.0, 0.0),
        "Shift of the texture along x, y and z.",
        [0.5, 0, 0],
        "m",
    )
    scale: float = described(1.0, "Repeats of the texture per metre, on an object of size 1.", 1.6, gt=0)
    roughness: NumberOrReference = described(
        0.5, "Width of the highlight, 0 to 1: 0 is a mirror, 1 the widest.", 0.3, filled=_SHARE
    )
    specular: NumberOrReference = described(
        0.5,
        "Strength of the gloss, 0 to 1: 0.5 as the shipped materials, 0 for a Lambertian surface.",
        0,
        filled=_SHARE,
    )
    metallic: NumberOrReference | None = described(
        None,
        "Share of metal, 0 to 1: 1 is a metal, whose gloss has the colour, and which has no albedo.",
        1,
        default_words="0, or as in the file of the texture",
        filled=_SHARE,
        later=True,
    )
    transmission: NumberOrReference | None = described(
        None,
        "Share of light that passes instead of being scattered, 0 to 1: 1 is glass, which has no albedo.",
        1,
        default_words="0, or as in the file of the texture",
        filled=_SHARE,
        later=True,
    )
    ior: NumberOrReference | None = described(
        None,
        "Index of refraction, 1 to 3, which decides the strength of the gloss, too.",
        1.33,
        default_words="1.45, or as in the file of the texture",
        filled=Interval(ge=1, le=3),
        later=True,
    )

    @model_validator(mode="after")
    def _one_or_two_colours(self) -> "Material":
        plain, colors = self.texture is None, (self.color_a, self.color_b)
        whole = self.base_color is not None if plain else colors.count(None) != 1
        extra = any(color is not None for color in colors) if plain else self.base_color is not None
        if extra or not whole:
            raise ValueError("expected `base_color` alone, or `texture`, `color_a` and `color_b`")
        return self


class BuiltMaterial(Record):
    """A material that a Python function makes when the scene is rendered."""

    build: CodeLabel = described(
        ..., "Function of your own code that returns a node material.", "paint.py:rust"
    )
    numbers: CodeNumbers = described({}, "Arguments of that function.", {"wear": "$wear"})


def _material_kind(value: object) -> str | None:
    if isinstance(value, str):
        return "[label]"
    if isinstance(value, BuiltMaterial) or (isinstance(value, dict) and "build" in value):
        return "[built]"
    return "[stated]" if isinstance(value, dict | Material) else None


MaterialOrLabel = Annotated[
    Annotated[str, Tag("[label]"), PlainType("label or $name")]
    | Annotated[Material, Tag("[stated]")]
    | Annotated[BuiltMaterial, Tag("[built]")],
    Discriminator(
        _material_kind,
        custom_error_type="material",
        custom_error_message="expected the label of a material, or a mapping such as {base_color: [1, 0, 0]}",
    ),
]
