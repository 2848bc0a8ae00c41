"""Planned samples as records: every number of a scene, without names of factors or distributions.

A plan holds these records, the render process receives them, and the metadata of frames come from them.
Lengths are metres, angles degrees, colours linear Rec.709.
"""

import operator
from typing import Annotated

from pydantic import BeforeValidator, Field

from candlelight.generators.language.dead_leaves_fields import DeadLeaves
from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.loaders.schema import (
    EnvironmentRecord,
    FactorValue,
    InterventionKind,
    LightRecord,
    Metadata,
    Record,
    Vector,
    later_field,
)

# Fields of a material: width and strength of the gloss, shares of metal and of transmitted light (each 0 to
# 1), and the index of refraction (1 to 3).
SURFACE = ("roughness", "specular", "metallic", "transmission", "ior")

# Part of a file name: a plan of another author must not name files elsewhere.
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]


class CodeArgument(Record):
    """One argument of a function of the user's own code: a number, or else a label."""

    name: str
    number: float | None = None
    label: str | None = None


# Left out where empty, so that plans without own code stay as they were; a column of Parquet gives None then.
CodeArguments = Annotated[
    tuple[CodeArgument, ...], BeforeValidator(lambda given: given or ()), Field(exclude_if=operator.not_)
]


def keyword_arguments(numbers: CodeArguments) -> dict[str, FactorValue]:
    """Return arguments by name; a number without fraction is an int, as in ``range(turns)``.

    Example:
        >>> keyword_arguments((CodeArgument(name="turns", number=3), CodeArgument(name="twist", number=0.5)))
        {'turns': 3, 'twist': 0.5}
    """
    return {one.name: _value(one) for one in numbers}


def _value(one: CodeArgument) -> FactorValue:
    if one.number is None:
        return one.label or ""
    return int(one.number) if one.number.is_integer() else one.number


class PlacedMaterial(Record):
    """The material of an object, a part or a floor.

    ``label`` names an asset in ``materials`` or ``textures``, or is "rgb" for one colour given here.
    ``base_color`` and the fields of `SURFACE` are None where the asset decides. The other fields place and
    colour a texture; a texture that is an ``image`` has its own colours. A label of own code,
    FILE.py:FUNCTION, has the arguments ``numbers``.
    """

    label: str
    numbers: CodeArguments = ()
    image: bool = False
    base_color: Vector | None = None
    roughness: float | None = None
    specular: float | None = None
    color_a: Vector | None = None
    color_b: Vector | None = None
    offset: Vector = (0.0, 0.0, 0.0)
    scale: float = 1.0
    metallic: float | None = later_field()
    transmission: float | None = later_field()
    ior: float | None = later_field()

    def surface(self) -> dict[str, float]:
        """Return the stated numbers of the surface (`SURFACE`) by field."""
        return {name: value for name in SURFACE if (value := getattr(self, name)) is not None}


class PartMaterial(Record):
    """One part of an object: its name and its material."""

    name: str
    material: PlacedMaterial


class SceneObject(Record):
    """One object of a scene: asset label, material, size (metres per unit of the asset) and pose.

    ``tilt`` turns the object about the world's x axis, then its y axis, ``rotation`` then about the vertical,
    in degrees; ``location`` is the middle of its base. ``parts`` are the parts in the asset's manifest, in
    the order of its material slots. An object of own code has a label FILE.py:FUNCTION, the arguments
    ``numbers``, and those parts alone that the recipe names.
    """

    type: str
    numbers: CodeArguments = ()
    material: PlacedMaterial
    size: float
    rotation: float
    tilt: tuple[float, float] = (0.0, 0.0)
    location: Vector
    parts: tuple[PartMaterial, ...] = ()


class PlacedFloor(Record):
    """The ground at height 0: a shadow catcher that shows the environment, or a plane with a material."""

    catcher: bool = False
    base_color: Vector = (0.8, 0.8, 0.8)
    half_width: float = 20.0
    material: PlacedMaterial | None = None


class Trace(Record):
    """Everything that decides the traced light: samples with equal traces share one render.

    ``dead_leaves`` are painted and not traced; then all other fields but the seed are empty.
    """

    objects: tuple[SceneObject, ...]
    lights: tuple[LightRecord, ...]
    environment: EnvironmentRecord | None
    floor: PlacedFloor | None
    camera: PlacedCamera | None
    cycles_seed: int
    dead_leaves: DeadLeaves | None = None


class SamplePlan(Record):
    """One planned sample.

    Blender renders ``trace``; its radiance times ``gain``, channel by channel, is the radiance of this sample
    (power and colour of the light are linear and need no second render). ``lights`` are the lights of this
    sample. ``step``, ``intervention`` and ``intervention_kind`` mean what they mean in `Metadata`.
    ``propensity`` is, for each factor and variable, the probability (or density) of its value given its
    parents.
    """

    id: FileName
    set: FileName
    index: Annotated[int, Field(ge=0)]
    unit: str
    group: FileName
    factors: dict[str, FactorValue]
    exogenous: dict[str, FactorValue]
    step: int | None = later_field()
    intervention: dict[str, FactorValue]
    intervention_kind: dict[str, InterventionKind] = later_field({})
    propensity: dict[str, float]
    counterfactual_of: str | None = None
    lights: tuple[LightRecord, ...]
    gain: Vector
    trace: Trace


# Fields that a planned sample and the metadata of its frame have in common.
PLAN_FIELDS = Metadata.model_fields.keys() & SamplePlan.model_fields.keys()
