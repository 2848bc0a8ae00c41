"""Every number that Blender is told about one sample, resolved: no names of factors, no distributions.

These records are what a plan holds, what crosses the pipe to the render child, and what the metadata is
written from. Lengths are metres, angles degrees, colours linear Rec.709.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from loaders.schema import FactorValue, LightRecord, Vector

# What becomes part of file names: a plan may come from elsewhere.
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]


class PlanRecord(BaseModel):
    """Base of the records below: immutable, and refuses what it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Material(PlanRecord):
    """What an object is made of.

    ``label`` names an asset in ``materials`` or ``textures``, or is "rgb" for a plain colour given here.
    ``base_color`` is None where an asset decides, as are ``roughness`` and ``specular``, the width and the
    strength of the gloss from 0 to 1. The others place and colour a texture; one that is an ``image`` of the
    user's has its colours from there.
    """

    label: str
    image: bool = False
    base_color: Vector | None = None
    roughness: float | None = None
    specular: float | None = None
    color_a: Vector | None = None
    color_b: Vector | None = None
    offset: Vector = (0.0, 0.0, 0.0)
    scale: float = 1.0


class PartMaterial(PlanRecord):
    """One part of an object: its name, and what it is made of."""

    name: str
    material: Material


class SceneObject(PlanRecord):
    """One object: asset label, material, metres per unit, how it is turned, and the middle of its base.

    It is turned about the world's x axis, then y axis, by ``tilt``, then about the vertical by ``rotation``,
    in degrees, the middle of its base staying where it is. ``parts`` are those of the asset's
    manifest, in the order of its material slots.
    """

    type: str
    material: Material
    size: float
    rotation: float
    tilt: tuple[float, float] = (0.0, 0.0)
    location: Vector
    parts: tuple[PartMaterial, ...] = ()


class Environment(PlanRecord):
    """What surrounds the scene: a map, degrees about the vertical, and the multiplier of its radiance.

    A ``modelled`` one has a ground and surroundings of its own, and stands in place of a floor.
    """

    scene: str
    rotation: float = 0.0
    strength: float = 1.0
    modelled: bool = False


class Camera(PlanRecord):
    """Where the camera stands, the point it looks at, its horizontal field of view, and how it is turned.

    ``yaw``, ``pitch`` and ``roll`` turn it about its own Y, X and Z axes after it has looked at the point.
    ``zoom`` multiplies the focal length; ``shift`` moves the picture right and down, in degrees of visual
    angle (`generators.scenes.camera.intrinsics`).
    """

    location: Vector
    look_at: Vector
    field_of_view: float
    pitch: float = 0.0
    yaw: float = 0.0
    roll: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)
    zoom: float = 1.0


class Floor(PlanRecord):
    """The ground at height 0: a shadow catcher that shows the map, or a plane of one colour or a material."""

    catcher: bool = False
    base_color: Vector = (0.8, 0.8, 0.8)
    half_width: float = 20.0
    material: Material | None = None


class DeadLeaves(PlanRecord):
    """Dead leaves; the fields are those of `generators.language.layout.DeadLeavesSpec`, resolved."""

    shape: Literal["disc", "ellipse", "polygon"]
    exponent: float
    size: tuple[float, float]
    colors: Literal["rgb", "gray"]
    low: float
    high: float
    contrast: float
    falloff: float
    azimuth: float


class Trace(PlanRecord):
    """All that decides the light that is traced: samples with equal traces share one render.

    Where there are ``dead_leaves`` nothing is traced: they are painted, and there is no camera.
    """

    objects: tuple[SceneObject, ...]
    lights: tuple[LightRecord, ...]
    environment: Environment | None
    floor: Floor | None
    camera: Camera | None
    cycles_seed: int
    dead_leaves: DeadLeaves | None = None


class SamplePlan(PlanRecord):
    """One row of a plan.

    ``trace`` is what Blender renders; ``gain`` multiplies its radiance, channel by channel, to give this
    sample's (power and colour of the light, which are linear and so need no second render).
    ``lights`` are the lamps as this sample has them. ``propensity`` is, for each factor and variable, the
    probability (or density) of its value given its parents.
    """

    id: FileName
    set: FileName
    index: Annotated[int, Field(ge=0)]
    unit: str
    group: FileName
    factors: dict[str, FactorValue]
    exogenous: dict[str, FactorValue]
    intervention: dict[str, FactorValue]
    propensity: dict[str, float]
    counterfactual_of: str | None = None
    lights: tuple[LightRecord, ...]
    gain: Vector
    trace: Trace
