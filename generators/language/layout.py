"""The layout of an image set, as pydantic models: where the values of factors and variables go in a scene.

``$name`` stands for the value of the factor or variable of that name. Lengths are metres, angles degrees,
colours linear Rec.709.
"""

from typing import Annotated, Any, Literal

from annotated_types import Interval
from pydantic import Discriminator, Field, Tag, model_validator

from candlelight.generators.language.dead_leaves_fields import DeadLeavesSpec
from candlelight.generators.language.field_types import (
    Choice,
    CodeLabel,
    CodeNumbers,
    Color,
    Label,
    NumberOrReference,
    Pair,
    Point,
    described,
    is_choice,
    stated_fields,
)
from candlelight.generators.language.lights_and_camera import Camera, Environment, Light
from candlelight.generators.language.material_spec import MaterialOrLabel, RandomMaterial
from candlelight.loaders.schema import Record


def _kind_of_choice(value: object) -> str:
    return "[choice]" if is_choice(value) else "[one]"


# This class and those below have names of their own, because a recipe is pickled for other processes.
class ChosenMaterial(Choice[MaterialOrLabel | None]):
    """A material, or None, that a factor or variable chooses."""


AnyMaterial = Annotated[
    Annotated[MaterialOrLabel | None, Tag("[one]")] | Annotated[ChosenMaterial, Tag("[choice]")],
    Discriminator(_kind_of_choice),
]


class Object(Record):
    """One object: its asset, material and pose."""

    type: Label | None = described(
        None, "Label of the object among the assets; required without `build`.", "cube", later=True
    )
    build: CodeLabel | None = described(
        None,
        "Function of your own code that returns the object, in place of `type`.",
        "knots.py:trefoil",
        later=True,
    )
    numbers: CodeNumbers = described({}, "Arguments of that function.", {"twist": "$twist"}, later=True)
    material: AnyMaterial = described(
        None,
        "Material of the object: a label, a colour such as css:teal, `own` for the colours that its asset "
        "names or its function makes, `absent` for no object, numbers, or a function; by default drawn by "
        "`random_material`.",
        "red",
    )
    parts: dict[str, MaterialOrLabel] = described(
        {},
        "Materials of single parts, by the names that the asset's manifest has or its function gives, or by "
        "`$name`; `own` is the part's own colour, and `absent` takes it away. Other parts have `material`.",
        {"beak": "yellow"},
    )
    size: NumberOrReference = described(
        1.0,
        "Metres per unit of the asset; the shipped objects are one unit wide.",
        1.5,
        "m",
        filled=Interval(gt=0),
    )
    rotation: NumberOrReference = described(0.0, "Turn about the vertical, after the tilt.", 30, "degrees")
    tilt: Pair = described(
        (0.0, 0.0), "Turn about the world's x axis, then about its y axis.", [90, 0], "degrees"
    )
    location: Pair | Point = described(
        (0.0, 0.0),
        "Place of the anchor: x and y on the floor, and z upwards if it is not 0. From the usual camera, "
        "at positive y, positive x is on the left of the image.",
        [0.5, "$y"],
        "m",
    )
    anchor: Literal["base", "center"] = described(
        "base",
        "Point of the object that `location` places and the tilt keeps: middle of base or of height.",
        "center",
    )

    @model_validator(mode="after")
    def _is_asset_or_code(self) -> "Object":
        if (self.type is None) == (self.build is None):
            got = "neither" if self.type is None else "both"
            raise ValueError(f"expected `type`, or `build` for an object of your own code, got {got}")
        if self.build is None and self.numbers:
            raise ValueError("numbers: expected `build` as well, the function whose arguments they are")
        if self.build is not None and self.anchor != "base":
            raise ValueError(
                "anchor: expected `base`, the origin of the function, because planning does not know the "
                "height of an object of your own code; got `center`"
            )
        return self


class Scatter(Record):
    """Objects at random places, none touching another."""

    count: NumberOrReference = described(..., "Number of objects.", 4)
    types: tuple[str, ...] = described(
        ..., "Labels that each object is drawn from.", ["cube", "cone"], min_length=1
    )
    size: tuple[float, float] = described(
        ..., "Smallest and largest size; sizes are uniform between them.", [0.6, 1.1], "m"
    )
    region: tuple[float, float, float, float] = described(
        ..., "Bounds of the places: x low, x high, y low, y high.", [-2, 2, -1, 1], "m"
    )
    gap: float = described(
        0.1, "Smallest distance between the bounding circles of two objects.", 0.05, "m", ge=0
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Scatter":
        x_low, x_high, y_low, y_high = self.region
        if x_low > x_high or y_low > y_high:
            raise ValueError(f"region: expected x low <= x high and y low <= y high, got {list(self.region)}")
        if not 0 < self.size[0] <= self.size[1]:
            raise ValueError(f"size: expected 0 < low <= high, got {list(self.size)}")
        return self


class RandomPose(Record):
    """Random turns and moves of the objects from their poses, for each object on its own."""

    variation: NumberOrReference = described(
        0.0, "Number of the drawn poses: samples of a unit with equal numbers have equal poses.", 3
    )
    turn: float = described(
        0.0, "Largest turn about the vertical to either side; turns are uniform.", 30, "degrees", ge=0
    )
    move: float = described(
        0.0, "Largest move along x, and along y, to either side; moves are uniform.", 0.05, "m", ge=0
    )


class Floor(Record):
    """The ground at height 0: a shadow catcher, one colour, a material, or a random material."""

    catcher: bool = described(
        False, "Whether the floor only catches shadows and shows the environment.", True
    )
    base_color: Color = described((0.8, 0.8, 0.8), "Diffuse colour of the floor.", [0.8, 0.8, 0.8])
    half_width: NumberOrReference = described(
        20.0, "Reach of the floor from the origin along x and y.", 10, "m", filled=Interval(gt=0)
    )
    random_material: RandomMaterial | None = described(
        None, "A drawn material instead of the colour, without gloss.", {"texturing": "textured"}
    )
    material: AnyMaterial = described(
        None,
        "A material instead of the colour, with its gloss; null leaves the colour.",
        {"texture": "checker", "color_a": [0.8, 0.8, 0.8], "color_b": [0.3, 0.3, 0.3], "specular": 0},
        later=True,
    )

    @model_validator(mode="after")
    def _has_one_look(self) -> "Floor":
        given = [name for name in ("random_material", "material") if getattr(self, name) is not None]
        if self.catcher and given:
            raise ValueError(
                f"a shadow catcher shows the environment and no material; expected no `{given[0]}`"
            )
        if len(given) == 2:
            raise ValueError("expected `material` or `random_material`, got both")
        return self


def _kind_of_list(value: object) -> str:
    return "[choice]" if isinstance(value, dict | Choice) else "[list]"


class ChosenCamera(Choice[Camera]):
    """A camera that a factor or variable chooses."""


class ChosenObjects(Choice[tuple[Object, ...]]):
    """Objects that a factor or variable chooses."""


class ChosenLights(Choice[Annotated[tuple[Light, ...], Field(min_length=1)]]):
    """Lights that a factor or variable chooses."""


class Scene(Record):
    """The scene of every sample; `$name` stands for the value of a factor or variable."""

    camera: Annotated[
        Annotated[Camera | None, Tag("[one]")] | Annotated[ChosenCamera, Tag("[choice]")],
        Discriminator(_kind_of_choice),
    ] = described(
        None, "The camera; required without `dead_leaves`.", {"location": [0, 5, 3], "look_at": [0, 0, 0]}
    )
    objects: Annotated[
        Annotated[tuple[Object, ...], Tag("[list]")] | Annotated[ChosenObjects, Tag("[choice]")],
        Discriminator(_kind_of_list),
    ] = described((), "The objects; at most 255.", [{"type": "cube", "material": "$color"}])
    scatter: Scatter | None = described(
        None,
        "Objects at random places, in place of `objects`.",
        {"count": 3, "types": ["cube"], "size": [0.5, 1], "region": [-1, 1, -1, 1]},
    )
    random_pose: RandomPose | None = described(
        None,
        "Random changes of the poses of all objects.",
        {"variation": "$pose", "turn": 30, "move": 0.05},
        later=True,
    )
    random_material: RandomMaterial = described(
        RandomMaterial(),
        "Random materials of the objects that name none.",
        {"texturing": "$texturing", "variation": 2},
    )
    material: AnyMaterial = described(
        None,
        "One material over all objects and their parts; null leaves each object its own.",
        {"choose": "$look", "among": {"own": None, "gray": {"base_color": [0.5, 0.5, 0.5]}}},
    )
    lights: Annotated[
        Annotated[tuple[Light, ...], Tag("[list]")] | Annotated[ChosenLights, Tag("[choice]")],
        Discriminator(_kind_of_list),
    ] = described(
        (),
        "The lights; without them and without an environment one white light of 1000 W.",
        [{"azimuth": "$azimuth", "elevation": 50}],
    )
    environment: Environment | None = described(
        None, "The environment around the objects.", {"scene": "garden"}
    )
    floor: Floor | None = described(None, "The ground; without it there is none.", {})
    dead_leaves: DeadLeavesSpec | None = described(
        None, "An image of dead leaves instead of a scene; no other field goes with it.", {"shape": "disc"}
    )

    @model_validator(mode="before")
    @classmethod
    def _add_default_light(cls, data: Any) -> Any:
        if isinstance(data, dict) and not data.keys() & {"lights", "environment", "dead_leaves"}:
            return {**data, "lights": [{}]}
        return data

    @model_validator(mode="after")
    def _fits_together(self) -> "Scene":
        if self.objects and self.scatter is not None:
            raise ValueError("expected `objects` or `scatter`, got both")
        if self.dead_leaves is None and self.environment is None and not self.lights:
            raise ValueError("expected `lights` or an `environment`: nothing would be lit")
        if self.dead_leaves is None and self.camera is None:
            raise ValueError("expected a `camera`, or `dead_leaves`")
        others = [name for name in stated_fields(self) if name != "dead_leaves"]
        if self.dead_leaves is not None and others:
            raise ValueError(f"expected `dead_leaves` alone, got {', '.join(others)} as well")
        return self

    @property
    def traced(self) -> bool:
        """Whether Blender traces the scene; dead leaves are painted without it."""
        return self.dead_leaves is None

    @property
    def has_catcher(self) -> bool:
        """Whether the floor is a shadow catcher, on which light layers are black."""
        return self.floor is not None and self.floor.catcher

    def choices(self) -> dict[str, Any]:
        """Return the fields that a factor or variable chooses (`Choice`), by their paths."""
        names = ("camera", "objects", "lights", "material")
        fields = {f"layout.{name}": getattr(self, name) for name in names}
        if self.floor is not None:
            fields["layout.floor.material"] = self.floor.material
        chosen = self.objects.among.items() if isinstance(self.objects, Choice) else [("", self.objects)]
        for entry, specs in chosen:
            where = f"layout.objects.among.{entry}" if entry else "layout.objects"
            fields |= {f"{where}.{i}.material": spec.material for i, spec in enumerate(specs)}
        return {field: value for field, value in fields.items() if isinstance(value, Choice)}
