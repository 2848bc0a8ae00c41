"""Every number that Blender is told about one sample, resolved: no names of factors, no distributions.

These records are what a plan holds, what crosses the pipe to the render child, and what the metadata is
written from. Lengths are metres, angles degrees, colours linear Rec.709.
"""

from pydantic import BaseModel, ConfigDict

from loaders.schema import FactorValue, LightRecord, Vector


class Part(BaseModel):
    """Base of the records below: immutable, and refuses what it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Material(Part):
    """What an object is made of.

    ``label`` names an asset in ``materials`` or ``textures``, or is "rgb" for a plain colour given here.
    ``base_color`` is None where an asset decides. The last four place and colour a texture.
    """

    label: str
    base_color: Vector | None = None
    color_a: Vector | None = None
    color_b: Vector | None = None
    offset: Vector = (0.0, 0.0, 0.0)
    scale: float = 1.0


class Thing(Part):
    """One object on the floor: asset label, material, metres per unit, degrees about the vertical, base."""

    type: str
    material: Material
    size: float
    rotation: float
    location: Vector


class Environment(Part):
    """The map around the scene, degrees about the vertical, and the multiplier of its radiance."""

    map: str
    rotation: float = 0.0
    strength: float = 1.0


class Camera(Part):
    """Where the camera stands, the point it looks at, its horizontal field of view, and two small turns.

    ``pitch`` and ``yaw`` turn it about its own X and Y axes after it has looked at the point.
    """

    location: Vector
    look_at: Vector
    field_of_view: float
    pitch: float = 0.0
    yaw: float = 0.0


class Floor(Part):
    """The ground at height 0: a shadow catcher that shows the map, or a plane of one diffuse colour."""

    catcher: bool = False
    base_color: Vector = (0.8, 0.8, 0.8)
    half_width: float = 20.0


class Trace(Part):
    """All that decides the light that is traced: samples with equal traces share one render."""

    objects: tuple[Thing, ...]
    lights: tuple[LightRecord, ...]
    environment: Environment | None
    floor: Floor | None
    camera: Camera
    cycles_seed: int


class SamplePlan(Part):
    """One row of a plan.

    ``trace`` is what Blender renders; ``gain`` multiplies its radiance, channel by channel, to give this
    sample's (power and colour temperature of the light, which are linear and so need no second render).
    ``lights`` are the lamps as this sample has them.
    """

    id: str
    set: str
    index: int
    unit: str
    group: str
    factors: dict[str, FactorValue]
    exogenous: dict[str, float]
    intervention: dict[str, FactorValue]
    lights: tuple[LightRecord, ...]
    gain: Vector
    trace: Trace
