"""Recipes: what varies in an image set and how it is laid out, as pydantic models.

A recipe holds one or more image sets. Each set names its factors (labelled) and variables (drawn and
recorded, not labelled); its layout says where their values go, ``$name`` standing for the value of the
factor or variable of that name. Lengths are metres, angles degrees, colours linear Rec.709.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from generators.specs import Layout, Model, references
from loaders.errors import InputError
from loaders.schema import LAYERS, LIGHT_PREFIX, FactorValue, layer

NAME = r"^[a-z][a-z0-9_]*$"
RESERVED = {*LAYERS, "id", "index", "objects", "metadata", "set"}
ALL_LIGHTS = "light/*"
AssetKind = Literal["objects", "materials", "textures", "lights", "scenes"]


Name = Annotated[str, Field(pattern=NAME)]


class Categorical(Model):
    """A factor with a list of values.

    Exactly one of the first three says which: ``values`` lists them, ``count`` stands for 0 .. count - 1,
    ``assets`` alone takes every label of that kind. ``assets`` beside ``values`` says that they are labels
    of that kind, and each is checked to exist.
    """

    values: tuple[FactorValue, ...] | None = None
    count: Annotated[int, Field(ge=1)] | None = None
    assets: AssetKind | None = None
    unit: str = ""

    @field_validator("values", mode="before")
    @classmethod
    def _no_truths(cls, values: Any) -> Any:
        # YAML takes yes, no, on and off for truth values, which would pass for the numbers 1 and 0.
        if isinstance(values, list | tuple) and any(isinstance(value, bool) for value in values):
            raise ValueError(f"expected names or numbers, got {list(values)}; put names as 'yes' in quotes")
        return values

    @model_validator(mode="after")
    def _one_source(self) -> "Categorical":
        if self.values is not None and self.count is not None:
            raise ValueError("expected `values` or `count`, got both")
        if self.count is not None and self.assets is not None:
            raise ValueError("expected `count` or `assets`, got both")
        if self.values is None and self.count is None and self.assets is None:
            raise ValueError("expected `values`, `count` or `assets`, got none of them")
        if self.values is not None:
            if not self.values or len(set(self.values)) != len(self.values):
                raise ValueError(f"expected distinct values, at least one, got {list(self.values)}")
            if len({isinstance(value, str) for value in self.values}) != 1:
                raise ValueError(f"expected names or numbers, not both, got {list(self.values)}")
        return self

    def names_things(self) -> bool:
        """Say whether the values are names; they are numbers otherwise."""
        return self.count is None and (self.values is None or isinstance(self.values[0], str))


class Continuous(Model):
    """A factor or variable drawn between ``low`` and ``high``.

    Uniform, or normal with ``mean`` and ``std`` where they are given, truncated to what lies within.
    """

    low: float
    high: float
    mean: float | None = None
    std: Annotated[float, Field(gt=0)] | None = None
    unit: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> "Continuous":
        if self.low > self.high:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")
        if (self.mean is None) != (self.std is None):
            raise ValueError("expected `mean` and `std` together")
        if self.mean is not None and not self.low <= self.mean <= self.high:
            raise ValueError(f"expected the mean within [{self.low}, {self.high}], got {self.mean}")
        return self


def _kind(value: object) -> str | None:
    keys = value if isinstance(value, dict) else value.__dict__ if isinstance(value, Model) else None
    if keys is None:
        return None
    return "continuous" if "low" in keys or "high" in keys else "categorical"


Factor = Annotated[
    Annotated[Categorical, Tag("categorical")] | Annotated[Continuous, Tag("continuous")],
    Discriminator(
        _kind,
        custom_error_type="factor",
        custom_error_message="expected a table of `values` or `low`, `high`",
    ),
]


class Image(Model):
    """Pixels of a frame."""

    width: Annotated[int, Field(ge=8, le=8192)] = 320
    height: Annotated[int, Field(ge=8, le=8192)] = 240


class Render(Model):
    """How a frame is traced: paths per pixel, bounces, and whether its parts are denoised."""

    samples: Annotated[int, Field(ge=1, le=65536)] = 16
    bounces: Annotated[int, Field(ge=0, le=64)] = 4
    denoise: bool = True


class ImageSet(Model):
    """One image set: factors, how they are crossed or drawn, and the layout.

    The rows are the full grid of ``grid`` (default: every categorical factor, in the order written, the last
    one fastest), ``draws`` times each; what is not in the grid is drawn. Rows that agree in the factors of
    ``unit`` form a unit: they share every drawn number and the renderer's seed. By default each row is its
    own. ``varies`` names the factors that change inside one concept set. ``image``, ``render``, ``layers``
    and ``exposure`` override the recipe's.
    """

    factors: dict[Name, Factor]
    variables: dict[Name, Continuous] = Field(default_factory=dict)
    grid: tuple[str, ...] | None = None
    draws: Annotated[int, Field(ge=1)] = 1
    unit: tuple[str, ...] | None = None
    varies: tuple[str, ...] = ()
    layout: Layout
    image: Image | None = None
    render: Render | None = None
    layers: tuple[str, ...] | None = None
    exposure: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _names_exist(self) -> "ImageSet":
        for name in self.factors.keys() & RESERVED:
            raise ValueError(
                f"factors.{name}: the name is taken by a column of every data set; choose another"
            )
        for name in self.factors.keys() & self.variables.keys():
            raise ValueError(f"variables.{name}: there is a factor of that name already")
        for field, names in (("grid", self.grid), ("unit", self.unit), ("varies", self.varies)):
            for name in names or ():
                if not isinstance(self.factors.get(name), Categorical):
                    raise ValueError(f"{field}: expected names of categorical factors, got `{name}`")
        if len(set(self.crossed())) != len(self.crossed()):
            raise ValueError(f"grid: expected distinct factors, got {list(self.crossed())}")
        for name in set(self.unit or ()) - set(self.crossed()):
            raise ValueError(f"unit: expected factors of the grid, got `{name}`")
        for reference in references(self.layout):
            if reference not in self.factors and reference not in self.variables:
                known = ", ".join([*self.factors, *self.variables]) or "none"
                raise ValueError(f"layout: `${reference}` is no factor or variable; expected one of: {known}")
        return self

    def crossed(self) -> tuple[str, ...]:
        """Names of the factors that form the grid, in order."""
        if self.grid is not None:
            return self.grid
        return tuple(name for name, factor in self.factors.items() if isinstance(factor, Categorical))


DEFAULT_LAYERS = ("image", "radiance", "albedo", "shading", "residual", "depth", "normal", "object")


class Recipe(Model):
    """A recipe: image sets and what they share.

    ``assets`` maps a kind to a folder of the user's own, searched before the shipped library. ``do`` sets
    factors by intervention: their mechanism is replaced by the value, everything else is drawn as before.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    description: str
    licence: str = "CC-BY-4.0"
    seed: Annotated[int, Field(ge=0)] = 0
    image: Image = Image()
    render: Render = Render()
    layers: tuple[str, ...] = DEFAULT_LAYERS
    exposure: Annotated[float, Field(gt=0)] = 1.0
    assets: dict[AssetKind, Path] = Field(default_factory=dict)
    do: dict[str, FactorValue] = Field(default_factory=dict)
    sets: Annotated[dict[Name, ImageSet], Field(min_length=1)]

    @model_validator(mode="after")
    def _settle(self) -> "Recipe":
        for name, image_set in self.sets.items():
            layers = image_set.layers or self.layers
            if "image" not in layers or len(set(layers)) != len(layers):
                raise ValueError(
                    f"sets.{name}: layers: expected distinct names, `image` among them, got {list(layers)}"
                )
            for wanted in layers:
                _check_layer(wanted, f"sets.{name}: layers")
            floor = image_set.layout.floor
            if ALL_LIGHTS in layers and floor is not None and floor.catcher:
                raise ValueError(
                    f"sets.{name}: layers: light layers are black on a shadow catcher; "
                    "use a plain floor or leave `light/*` out"
                )
        for name, kinds in self._kinds().items():
            if len(kinds) > 1:
                raise ValueError(
                    f"factors.{name}: expected names in every set or numbers in every set, got both"
                )
        for name in self.do:
            if not any(name in image_set.factors for image_set in self.sets.values()):
                raise ValueError(f"do: `{name}` is no factor of any set")
        return self

    def _kinds(self) -> dict[str, set[str]]:
        """Say of each factor whether it is a name or a number: in a plan it has one column for all sets."""
        kinds: dict[str, set[str]] = {}
        for image_set in self.sets.values():
            for name, factor in image_set.factors.items():
                named = isinstance(factor, Categorical) and factor.names_things()
                kinds.setdefault(name, set()).add("name" if named else "number")
        return kinds


def _check_layer(name: str, field: str) -> None:
    try:
        layer(name)
    except InputError as error:
        raise ValueError(f"{field}: {error}") from None
    if name.startswith(LIGHT_PREFIX) and name != ALL_LIGHTS:
        raise ValueError(f"{field}: expected `{ALL_LIGHTS}`, which makes one of every light, got `{name}`")
