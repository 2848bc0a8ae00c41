"""Schema of a frame: its layers, its metadata, and the description of its data set.

This module is the only definition of schema version 3. All code that writes or reads frames (folders, HDF5,
Parquet) takes names, shapes, dtypes, units and colour spaces from this module.
"""

import hashlib
import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy import ndarray
from pydantic import Field

from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.errors import InputError
from candlelight.loaders.records import FactorValue as FactorValue
from candlelight.loaders.records import Record as Record
from candlelight.loaders.records import later_field as later_field

SCHEMA_VERSION = 3
LIGHT_PREFIX = "light/"

Vector = tuple[float, float, float]
_Row = tuple[float, float, float, float]
Pose = tuple[_Row, _Row, _Row, _Row]


@dataclass(frozen=True)
class Layer:
    """One kind of array that a frame may carry.

    Attributes:
        name: name of the layer, the same in every file format.
        dtype: numpy dtype name.
        channels: 3 for colours and directions, 0 for a single value per pixel (H W).
        unit: physical unit or value range.
        colour_space: "linear Rec.709", "sRGB", or "" if the layer is not a colour.
        meaning: description in one line.
    """

    name: str
    dtype: str
    channels: int
    unit: str
    colour_space: str
    meaning: str

    def shape(self, height: int, width: int) -> tuple[int, ...]:
        """Return the array shape of this layer in a frame of ``height`` by ``width`` pixels.

        Example:
            >>> LAYERS["albedo"].shape(24, 32), LAYERS["depth"].shape(24, 32)
            ((24, 32, 3), (24, 32))
        """
        return (height, width, self.channels) if self.channels else (height, width)


_LINEAR = "linear Rec.709"
_RADIANCE = "scene radiance"
LAYERS = {
    layer.name: layer
    for layer in (
        Layer("image", "uint8", 3, "0..255", "sRGB", "`radiance` times the set's exposure, sRGB encoded"),
        Layer("radiance", "float16", 3, _RADIANCE, _LINEAR, "float16(albedo * shading + residual)"),
        Layer("albedo", "float16", 3, "0..1", _LINEAR, "base colour x (1 - metallic) x (1 - transmission)"),
        Layer("shading", "float16", 3, _RADIANCE, _LINEAR, "diffuse radiance / albedo; 0 where albedo is 0"),
        Layer("shading_direct", "float16", 3, _RADIANCE, _LINEAR, "share of `shading` straight from lights"),
        Layer("shading_indirect", "float16", 3, _RADIANCE, _LINEAR, "share of `shading` after a bounce"),
        Layer("residual", "float16", 3, _RADIANCE, _LINEAR, "gloss, transmission, emission, environment"),
        Layer(
            "depth", "float32", 0, "metres", "", "distance along the optical axis; inf where nothing is hit"
        ),
        Layer("normal", "float16", 3, "unit vector", "", "in OpenCV camera axes; 0 where nothing is hit"),
        Layer("object", "uint8", 0, "index", "", "1 + index into `objects`, 0 background; not anti-aliased"),
        Layer("part", "uint8", 0, "index", "", "part index within the object, 0 none; not anti-aliased"),
        Layer("position", "float32", 3, "metres", "", "world point that `depth` saw; 0 where nothing is hit"),
        Layer("roughness", "float16", 0, "0..1", "", "of the material; 0 where no material is seen"),
        Layer("metallic", "float16", 0, "0..1", "", "of the material; 0 where no material is seen"),
    )
}


def layer(name: str) -> Layer:
    """Look up a layer by name; ``light/<name>`` is the radiance due to that light alone.

    Raises:
        InputError: the layer is unknown.

    Example:
        >>> layer("depth").dtype, layer("light/left").channels
        ('float32', 3)
    """
    if name in LAYERS:
        return LAYERS[name]
    if name.startswith(LIGHT_PREFIX) and len(name) > len(LIGHT_PREFIX):
        return Layer(name, "float16", 3, _RADIANCE, _LINEAR, "radiance due to this light alone")
    raise InputError(f"layer `{name}` is not known; expected one of {', '.join(LAYERS)} or light/<name>")


def schema_order(names: Collection[str]) -> list[str]:
    """Sort layer names in the order of the schema, ``light/*`` last and by name.

    Raises:
        InputError: a layer is unknown.

    Example:
        >>> schema_order({"light/right", "depth", "light/left", "image"})
        ['image', 'depth', 'light/left', 'light/right']
    """
    known = list(LAYERS)
    places = {name: known.index(name) if name in LAYERS else len(known) for name in names if layer(name)}
    return sorted(places, key=lambda name: (places[name], name))


def check_layer(name: str, array: ndarray, height: int, width: int) -> None:
    """Refuse an array whose dtype or shape does not fit the schema of layer ``name``.

    Args:
        name: layer name.
        array: array of the layer.
        height: rows of the frame.
        width: columns of the frame.

    Raises:
        InputError: unknown layer, wrong dtype or wrong shape.

    Example:
        >>> check_layer("depth", np.zeros((2, 3), np.float32), 2, 3)
    """
    spec = layer(name)
    shape = spec.shape(height, width)
    if array.shape != shape or array.dtype != np.dtype(spec.dtype):
        raise InputError(
            f"layer `{name}`: expected {spec.dtype} {list(shape)}, got {array.dtype} {list(array.shape)}"
        )


def array_sha256(array: ndarray) -> str:
    """Hash an array's dtype, shape and values: the hash is the same in a folder, in HDF5 and in Parquet.

    Values are hashed as little-endian bytes in C order.

    Example:
        >>> array_sha256(np.zeros(2, np.uint8)) == array_sha256(np.zeros(2, np.float16))
        False
    """
    ordered = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    head = f"{array.dtype.name} {list(array.shape)}".encode()
    return hashlib.sha256(head + b"\n" + ordered.tobytes()).hexdigest()


class PartRecord(Record):
    """One part of an object: its name, its value in the `part` layer (``index``), and its material.

    ``base_color``, ``bbox`` and ``area`` have the same meaning as for an object.
    """

    name: str
    index: int
    material: str
    base_color: Vector | None
    bbox: tuple[int, int, int, int] | None = None
    area: int = 0


class ObjectRecord(Record):
    """One object of a frame; the first object has value 1 in the `object` layer.

    ``base_color`` is linear Rec.709, None for a textured material. ``rotation`` is in degrees about the
    vertical axis, applied after ``tilt`` about x and y; ``location`` is the middle of the object's base in
    metres; ``size`` is metres per unit of the asset. ``bbox`` bounds the visible pixels as (left, top, right,
    bottom), y from the top, right and bottom exclusive; None if no pixel shows the object. ``area`` counts
    the visible pixels. ``corners`` are x, y, z of the eight corners of the object's own bounding box in the
    world, one corner after the other, in metres. ``parts`` are the parts that the asset's manifest names, in
    order of their indices. An object of own code has a ``type`` FILE.py:FUNCTION and ``numbers``, the
    arguments of that function; others have none.
    """

    type: str
    numbers: dict[str, FactorValue] = Field(default_factory=dict, exclude_if=operator.not_)
    material: str
    base_color: Vector | None
    size: float
    rotation: float
    tilt: tuple[float, float] = (0.0, 0.0)
    location: Vector
    bbox: tuple[int, int, int, int] | None = None
    area: int = 0
    corners: Annotated[tuple[float, ...], Field(min_length=24, max_length=24)] | None = None
    parts: tuple[PartRecord, ...] = ()


class LightRecord(Record):
    """One light: location in metres, power in watts, radius in metres, colour as linear Rec.709.

    ``temperature`` is in kelvin, None if the colour was given directly. A "point" shines in all directions,
    the others along the unit vector ``direction``. A "spot" shines within a cone of ``cone`` degrees from
    edge to edge, whose outer share ``blend`` is soft. An "area" is a rectangle that shines to its front with
    the radiance power / (pi x its area); ``size`` is width, which is level (along x if it shines straight up
    or down), and height in metres; its ``radius`` is None. A "sun" has a disc of ``angle`` degrees, no
    location and no radius, and its ``power`` is the irradiance in W/m2 of a surface that faces it. ``size``
    and ``angle`` are left out of JSON where they are None.
    """

    name: str
    location: Vector | None
    power: float
    radius: float | None
    color: Vector
    temperature: float | None = None
    kind: Literal["point", "spot", "area", "sun"] = "point"
    cone: float | None = None
    blend: float | None = None
    direction: Vector | None = None
    size: tuple[float, float] | None = later_field()
    angle: float | None = later_field()


class EnvironmentRecord(Record):
    """The environment: label of its asset, rotation in degrees about the vertical, radiance multiplier.

    ``modelled`` is true for a modelled scene, which all layers show, and false for an environment map.
    """

    scene: str
    rotation: float = 0.0
    strength: float = 1.0
    modelled: bool = False


class CameraRecord(Record):
    """OpenCV camera: x right, y down, z forward; intrinsics in pixels, world-to-camera 4x4 in metres.

    ``aimed`` is the pose before the recipe's small rotations ``pitch`` and ``yaw``, None if both are zero.
    """

    intrinsics: tuple[Vector, Vector, Vector]
    world_to_camera: Pose
    aimed: Pose | None = None


class RendererRecord(Record):
    """The renderer of the frame. The same build, device class and CPU features give the same bytes.

    ``blender`` is None for dead leaves, which are not traced: their ``samples`` are points per pixel, their
    ``cycles_seed`` is the seed of their draws, and they have no ``bounces``. ``geometry_samples`` are the
    samples of a separate geometry trace, None if there was none.
    """

    blender: str | None
    device: str
    cpu_features: str
    samples: int
    bounces: int | None = None
    geometry_samples: int | None = None
    denoiser: str
    cycles_seed: int


class ChecksRecord(Record):
    """Errors measured while the frame was made.

    ``identity_error``: largest difference of the sum of the light passes from the traced radiance before
    denoising, relative to max(1, radiance); None with a shadow catcher, whose passes do not add up, and for
    frames that were not traced. ``stored_error``: the same for the stored layers. ``clipped``: share of
    pixels with an over-exposed channel in `image`. ``light_sum_error``: 95th percentile over pixels of the
    difference of the sum of ``light/*`` from `radiance`, relative to the mean radiance; None without light
    layers.
    """

    identity_error: float | None
    stored_error: float
    clipped: float
    light_sum_error: float | None = None


class RecipeRecord(Record):
    """Name of the frame's recipe, and SHA-256 of the recipe without its prose and folders."""

    name: str
    sha256: str


InterventionKind = Literal["hard", "soft", "drawn"]


class Metadata(Record):
    """Metadata of one sample: the content of its ``metadata.json``.

    ``set`` is the image set within the recipe (the Hugging Face configuration) and ``index`` the sample's
    number in it. Samples of one ``unit`` share exogenous draws and the renderer's seed. Samples of one
    ``group`` share one trace; its name is a hash of the scene's numbers and of the content of its assets.
    ``exogenous`` holds the drawn variables that are not factors. ``step`` counts the steps of a unit that is
    a sequence. ``intervention`` holds the values of all that an intervention changed; ``intervention_kind``
    says for which of them it put another mechanism in place of a number, "soft" with parents and "drawn"
    without; both are left out of JSON where they say nothing. ``camera`` is None for dead leaves and
    photographs, ``renderer`` for photographs. ``layers`` maps each layer to `array_sha256`.
    """

    schema_version: Annotated[Literal[3], Field(alias="schema")] = 3
    id: str
    set: str
    index: int
    recipe: RecipeRecord
    unit: str
    group: str
    factors: dict[str, FactorValue]
    exogenous: dict[str, FactorValue]
    step: int | None = later_field()
    intervention: dict[str, FactorValue]
    intervention_kind: dict[str, InterventionKind] = later_field({})
    propensity: dict[str, float] = Field(default_factory=dict)
    counterfactual_of: str | None = None
    objects: tuple[ObjectRecord, ...]
    lights: tuple[LightRecord, ...]
    environment: EnvironmentRecord | None
    camera: CameraRecord | None
    exposure: float
    renderer: RendererRecord | None
    checks: ChecksRecord
    layers: dict[str, str]

    def to_json(self) -> str:
        """Return the text of ``metadata.json``: fixed key order, two-space indent, a final newline."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


class FactorInfo(Record):
    """One factor of an image set: categorical with ordered values, or continuous with bounds.

    A bound is None if it depends on other factors, or if an expression gives the value.
    """

    name: str
    kind: Literal["categorical", "continuous"]
    values: tuple[FactorValue, ...] | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""


class SetInfo(Record):
    """Description of one image set: number and size of its samples, its layers and factors.

    ``varies`` names the factors that change within a concept set; all other factors are fixed in it.
    ``parts`` names the parts of each object type that has parts: the first part is 1 in the `part` layer;
    the parts of own code stand in the metadata of each frame alone. ``graph`` is the causal graph of the set,
    None in data sets made before graphs were written. ``caption`` is the recipe's own template of captions
    (`candlelight.loaders.captions.check_caption`), "" for captions of factors and objects.
    """

    count: int
    width: int
    height: int
    layers: tuple[str, ...]
    factors: tuple[FactorInfo, ...]
    varies: tuple[str, ...] = ()
    exposure: float = 1.0
    parts: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    graph: CausalGraph | None = later_field()
    caption: str = later_field("")

    @property
    def propensity_names(self) -> tuple[str, ...]:
        """Factors and variables whose propensities a pack holds as columns: all nodes of the graph."""
        return self.graph.names if self.graph else ()

    def factor(self, name: str) -> FactorInfo:
        """Look up a factor by name.

        Raises:
            InputError: the set has no such factor.
        """
        for factor in self.factors:
            if factor.name == name:
                return factor
        known = ", ".join(f.name for f in self.factors) or "none"
        raise InputError(f"factor `{name}` is not in this set; expected one of: {known}")


AssetKind = Literal["objects", "materials", "textures", "lights", "scenes", "code"]


class AssetRecord(Record):
    """One asset that the images show: an object, a material, a texture, a light or a scene, by its label.

    Python code that makes an object or a material has the kind "code" and a label such as
    "knots.py:trefoil"; its hash covers the local files that it imports.

    ``licence`` and ``source`` are copied from the manifest of its library, "" if the manifest lacks the
    asset; ``sha256`` is the hash of its content (`candlelight.blender_assets.AssetLibrary.sha256`).
    """

    kind: AssetKind
    label: str
    licence: str = ""
    source: str = ""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _statement(about: str, example: str) -> Any:
    return Field(default="", description=f'Statement on {about}, "" for none.', examples=[example])


class Statements(Record):
    """The author's statements on responsible use, which Croissant publishes; "" for no statement."""

    limitations: str = _statement("the limits of the data", "Rendered scenes only.")
    use_cases: str = _statement("intended uses", "Research on causal inference.")
    personal_information: str = _statement("personal and sensitive information", "None.")
    social_impact: str = _statement("social impact", "None is expected.")
    maintenance: str = _statement("maintenance", "Errors are mended in new versions.")


class DatasetInfo(Record):
    """Description of a data set: the content of ``dataset.json`` in a folder of frames or a pack.

    ``licence`` is "" if the recipe states none. ``blender`` is the version that traces all frames, None if
    none is traced. ``assets`` are all assets that any frame shows. ``recipe_fields`` is the whole recipe
    without its folders of assets, as `candlelight.generators.load_recipe` reads it, with the fields of sets
    that it extends. It is empty in data sets made before it was written.
    """

    schema_version: Annotated[Literal[3], Field(alias="schema")] = 3
    name: str
    description: str
    licence: str
    statements: Statements = Statements()
    recipe: RecipeRecord
    recipe_fields: dict[str, Any] = later_field({})
    seed: int
    candlelight: str
    blender: str | None = None
    assets: tuple[AssetRecord, ...] = ()
    sets: dict[str, SetInfo]

    def set(self, name: str) -> SetInfo:
        """Look up an image set by name.

        Raises:
            InputError: the data set has no such set.
        """
        if name not in self.sets:
            raise InputError(f"set `{name}` is not in `{self.name}`; expected one of: {', '.join(self.sets)}")
        return self.sets[name]

    def to_json(self) -> str:
        """Return the text of ``dataset.json``: fixed key order, two-space indent, a final newline."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"
