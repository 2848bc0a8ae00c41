"""Recipes: what varies in an image set and how it is laid out, as pydantic models.

A recipe holds one or more image sets. Each set names its factors (labelled) and variables (drawn and
recorded, not labelled); its layout says where their values go, ``$name`` standing for the value of the
factor or variable of that name. Lengths are metres, angles degrees, colours linear Rec.709.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_serializer, model_validator

from generators.language.causal_graph import Graph, causal_graph, causal_order
from generators.language.expressions import CONSTANTS
from generators.language.factors import Categorical, Factor, Name, Rule, Value, Weights
from generators.language.field_types import Model, references
from generators.language.image_and_render import Image, Render
from generators.language.layout import Layout
from loaders.errors import InputError, did_you_mean
from loaders.schema import LAYERS, LIGHT_PREFIX, AssetKind, Statements, layer

RESERVED = {*LAYERS, "id", "index", "objects", "metadata", "set"}
ALL_LIGHTS = "light/*"


def _uneven(row: Weights) -> bool:
    weights = row.values() if isinstance(row, dict) else row
    return len(set(weights) - {0.0}) > 1


class Counterfactual(Model):
    """What a set asks of the units of another: ``of`` names that set, ``do`` lists interventions.

    For each sample of ``of`` and each intervention there is one sample: the same unit, every exogenous draw
    kept, the named factors set, their descendants recomputed.
    """

    of: str
    do: Annotated[tuple[Annotated[dict[Name, Value], Field(min_length=1)], ...], Field(min_length=1)]


class ImageSet(Model):
    """One image set: factors, how they are crossed or drawn, and the layout.

    The rows are the full grid of ``grid`` (default: every categorical factor without weights or table, in the
    order written, the last one fastest), ``draws`` times each; what is not in the grid is drawn. ``rules``
    exclude values that do not occur together; rows of the grid that break one are left out, and the others
    keep their index in the full product. Rows that agree in the factors of ``unit`` form a unit: they share
    every drawn number and the renderer's seed. By default each row is its own. Units belong to their set, but
    those of all sets that say ``shares_units`` are one where the factors of ``unit`` have the same values.
    ``varies`` names the factors that change inside one concept set. ``do`` sets factors by intervention, in
    this set alone, and goes before the recipe's. ``image``, ``render``, ``layers`` and ``exposure`` override
    the recipe's. A set with ``counterfactual`` is otherwise that of the set it is of.
    """

    factors: dict[Name, Factor]
    variables: dict[Name, Factor] = Field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    grid: tuple[str, ...] | None = None
    draws: Annotated[int, Field(ge=1)] = 1
    unit: tuple[str, ...] | None = None
    shares_units: bool = False
    varies: tuple[str, ...] = ()
    do: dict[Name, Value] = Field(default_factory=dict)
    counterfactual: Counterfactual | None = None
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
        for name in sorted(self.do.keys() - self.mechanisms().keys()):
            near = did_you_mean(name, self.mechanisms())
            raise ValueError(f"do: `{name}` is no factor or variable of this set{near}")
        for name in self.mechanisms().keys() & CONSTANTS.keys():
            raise ValueError(f"`{name}` is a number in expressions; expected another name")
        for field, names in (("grid", self.grid), ("unit", self.unit), ("varies", self.varies)):
            for name in names or ():
                if not isinstance(self.factors.get(name), Categorical):
                    raise ValueError(f"{field}: expected names of categorical factors, got `{name}`")
        if len(set(self.crossed())) != len(self.crossed()):
            raise ValueError(f"grid: expected distinct factors, got {list(self.crossed())}")
        for name in set(self.unit or ()) - set(self.crossed()):
            raise ValueError(f"unit: expected factors of the grid, got `{name}`")
        if self.shares_units and self.unit is None:
            raise ValueError("shares_units: expected `unit` beside it, the factors whose values name a unit")
        known = ", ".join(self.mechanisms()) or "none"
        for reference in references(self.layout):
            if reference not in self.mechanisms():
                raise ValueError(f"layout: `${reference}` is no factor or variable; expected one of: {known}")
        self._check_choices()
        return self

    def _check_choices(self) -> None:
        for field, choice in self.layout.choices().items():
            mechanism = self.mechanisms()[choice.factor]
            if not isinstance(mechanism, Categorical):
                raise ValueError(
                    f"{field}.choose: expected a factor or variable with a list of values, "
                    f"got `{choice.choose}`, which has a range"
                )
            if missing := choice.missing(mechanism.listed()):
                raise ValueError(f"{field}.{missing}")

    @model_validator(mode="after")
    def _causes(self) -> "ImageSet":
        mechanisms = self.mechanisms()
        for name, mechanism in mechanisms.items():
            field = f"{'factors' if name in self.factors else 'variables'}.{name}"
            for parent in mechanism.parents():
                if parent not in mechanisms:
                    known = ", ".join(mechanisms)
                    raise ValueError(
                        f"{field}: `{parent}` is no factor or variable; expected one of: {known}"
                    )
                if isinstance(mechanism, Categorical) and not isinstance(mechanisms[parent], Categorical):
                    raise ValueError(f"{field}.given: expected categorical names, got `{parent}`")
        for i, rule in enumerate(self.rules):
            for name in rule.exclude:
                if not isinstance(mechanisms.get(name), Categorical):
                    raise ValueError(f"rules.{i}.exclude: expected categorical names, got `{name}`")
            if rule.selection and self.unit is not None and not set(rule.exclude) <= set(self.crossed()):
                raise ValueError(
                    f"rules.{i}: a selection on drawn values would draw the rows of a unit apart; "
                    "leave `unit` out, or select on factors of the grid"
                )
        try:
            causal_order(self.graph())
        except ValueError as error:
            raise ValueError(f"factors: {error}") from None
        return self

    @model_validator(mode="after")
    def _grid_lists(self) -> "ImageSet":
        for name in self.crossed():
            factor = self.factors[name]
            if isinstance(factor, Categorical) and (
                factor.weights is not None
                or factor.strength != 1
                or any(_uneven(row) for row in factor.rows().values())
            ):
                raise ValueError(
                    f"grid: lists every combination once, but `{name}` has weights or a strength below 1; "
                    "leave it out of `grid` to draw it, `draws` times a row"
                )
            for parent in self.graph()[name]:
                if parent not in self.crossed():
                    raise ValueError(
                        f"grid: `{name}` depends on `{parent}`, which is drawn; leave it out too"
                    )
        return self

    @model_serializer(mode="wrap")
    def _written(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Leave an empty ``do`` out: recipes without keep the hash that they had before there was one."""
        fields = write(self)
        return fields if self.do else {name: value for name, value in fields.items() if name != "do"}

    def mechanisms(self) -> dict[str, Factor]:
        """Return factors and variables by name."""
        return {**self.factors, **self.variables}

    def graph(self) -> Graph:
        """Return the parents of every factor and variable."""
        return causal_graph(self.mechanisms(), self.rules)

    def crossed(self) -> tuple[str, ...]:
        """Names of the factors that form the grid, in order."""
        if self.grid is not None:
            return self.grid
        return tuple(
            name
            for name, factor in self.factors.items()
            if isinstance(factor, Categorical) and factor.weights is None and factor.table is None
        )


DEFAULT_LAYERS = ("image", "radiance", "albedo", "shading", "residual", "depth", "normal", "object")
PAINTED_LAYERS = ("image", "radiance", "albedo", "shading", "residual")


class Recipe(Model):
    """A recipe: image sets and what they share.

    ``assets`` maps a kind to a folder of the user's own, searched before the shipped library. ``do`` sets
    factors by intervention: their mechanism is replaced by the value, everything else is drawn as before.
    ``licence`` is that of the data set, "" where its author states none; ``statements`` are the author's.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    description: str = ""
    licence: str = ""
    statements: Statements = Statements()
    seed: Annotated[int, Field(ge=0)] = 0
    image: Image = Image()
    render: Render = Render.model_validate({})
    layers: tuple[str, ...] = DEFAULT_LAYERS
    exposure: Annotated[float, Field(gt=0)] = 0.3
    assets: dict[AssetKind, Path] = Field(default_factory=dict)
    do: dict[str, Value] = Field(default_factory=dict)
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
            if image_set.layout.leaves is not None and (other := set(layers) - set(PAINTED_LAYERS)):
                raise ValueError(
                    f"sets.{name}: layers: leaves have {', '.join(PAINTED_LAYERS)}, "
                    f"got {', '.join(sorted(other))} besides"
                )
            floor = image_set.layout.floor
            if ALL_LIGHTS in layers and floor is not None and floor.catcher:
                raise ValueError(
                    f"sets.{name}: layers: light layers are black on a shadow catcher; "
                    "use a plain floor or leave `light/*` out"
                )
        for name, kinds in self._kinds().items():
            if len(kinds) > 1:
                raise ValueError(f"`{name}`: expected names in every set or numbers in every set, got both")
        known = {name for image_set in self.sets.values() for name in image_set.mechanisms()}
        for name in sorted(self.do.keys() - known):
            raise ValueError(f"do: `{name}` is no factor or variable of any set{did_you_mean(name, known)}")
        self._check_counterfactuals()
        # Of sets that name their units otherwise none would be shared, in silence.
        sharing = {name: one for name, one in self.sets.items() if one.shares_units}
        if len({(one.unit, one.draws > 1) for one in sharing.values()}) > 1:
            names = ", ".join(sharing)
            raise ValueError(f"shares_units: expected one `unit`, and `draws` in all or none, of {names}")
        return self

    def _check_counterfactuals(self) -> None:
        for name, image_set in self.sets.items():
            asked = image_set.counterfactual
            if asked is None:
                continue
            above = list(self.sets)[: list(self.sets).index(name)]
            base = self.sets[asked.of] if asked.of in above else None
            if base is None or base.counterfactual is not None:
                plain = ", ".join(n for n in above if self.sets[n].counterfactual is None) or "none"
                raise ValueError(
                    f"sets.{name}.counterfactual.of: expected a set above ({plain}), got `{asked.of}`"
                )
            if image_set.model_copy(update={"counterfactual": None}) != base:
                raise ValueError(
                    f"sets.{name}: a set with `counterfactual` is that of `{asked.of}`; "
                    "expected no other field beside it"
                )
            for factor in {factor for change in asked.do for factor in change} - base.mechanisms().keys():
                raise ValueError(
                    f"sets.{name}.counterfactual.do: `{factor}` is no factor or variable of `{asked.of}`"
                )

    def _kinds(self) -> dict[str, set[str]]:
        """Say of each factor and variable what it is: in a plan it has one column for all sets."""
        kinds: dict[str, set[str]] = {}
        for image_set in self.sets.values():
            for name, factor in image_set.mechanisms().items():
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
