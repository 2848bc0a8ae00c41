"""Image sets of a recipe, as pydantic models, with size and quality of their images."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import model_validator

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.causal_graph import Graph, causal_graph, causal_order, describe_graph
from candlelight.generators.language.expressions import CONSTANTS
from candlelight.generators.language.factors import (
    Categorical,
    Change,
    Continuous,
    Factor,
    Name,
    Rule,
    Weights,
    first_mechanism,
    read_change,
)
from candlelight.generators.language.field_types import LayerNames, described, references
from candlelight.generators.language.intervention_fields import Counterfactual, Targets
from candlelight.generators.language.layout import Scene
from candlelight.generators.language.scene_code import SceneCode
from candlelight.loaders.captions import check_caption
from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.errors import InputError, did_you_mean, within
from candlelight.loaders.schema import LAYERS, FactorValue, Record


class ImageSize(Record):
    """Size of the images."""

    width: int = described(320, "Width of the images, 8 to 8192.", 64, "pixels", ge=8, le=8192)
    height: int = described(240, "Height of the images, 8 to 8192.", 48, "pixels", ge=8, le=8192)


RenderPreset = Literal["draft", "standard", "reference"]
# Chosen by `benchmarks/equal_error.py`; docs/benchmarks.md has the numbers.
RENDER_PRESETS: dict[str, dict[str, Any]] = {
    "draft": {"samples": 4, "bounces": 2, "denoise": True, "geometry_samples": 0},
    "standard": {"samples": 16, "bounces": 4, "denoise": True, "geometry_samples": 128},
    "reference": {"samples": 2048, "bounces": 4, "denoise": False, "geometry_samples": 0},
}


class RenderSettings(Record):
    """Quality of rendering: a preset, and fields that replace fields of the preset."""

    preset: RenderPreset = described(
        "standard",
        "Quality: `draft` to look at, `standard` to keep, `reference` to measure others against.",
        "draft",
    )
    samples: int = described(
        ..., "Paths per pixel, 1 to 65536.", 32, default_words="the preset's", ge=1, le=65536
    )
    bounces: int = described(..., "Bounces of light, 0 to 64.", 3, default_words="the preset's", ge=0, le=64)
    denoise: bool = described(
        ..., "Whether the parts of the light are denoised.", False, default_words="the preset's"
    )
    geometry_samples: int = described(
        ...,
        "Samples of the geometry trace over a shadow catcher, 0 for none.",
        64,
        default_words="the preset's",
        ge=0,
        le=65536,
    )

    @property
    def has_geometry_trace(self) -> bool:
        """Whether objects over a shadow catcher are traced a second time, without light."""
        return self.denoise and self.geometry_samples > self.samples

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset", "standard")
        # An unknown preset is refused with the field's own message, not with one about the fields it lacks.
        known = RENDER_PRESETS.get(preset) if isinstance(preset, str) else None
        return {**(known or RENDER_PRESETS["standard"]), **data}


_RESERVED = {*LAYERS, "id", "index", "objects", "metadata", "set"}


def _uneven(row: Weights) -> bool:
    weights = row.values() if isinstance(row, dict) else row
    return len(set(weights) - {0.0}) > 1


class ImageSet(Record):
    """One image set: its factors, how its samples are drawn, and its layout."""

    factors: dict[Name, Factor] = described(
        ..., "Labelled factors by name.", {"color": {"values": ["red", "blue"]}}
    )
    variables: dict[Name, Factor] = described(
        {}, "Drawn and recorded variables that are no labels, by name.", {"x": {"low": -1, "high": 1}}
    )
    rules: tuple[Rule, ...] = described(
        (),
        "Values that do not occur together.",
        [{"exclude": {"shape": "cone", "size": 2}, "target": "size"}],
    )
    grid: tuple[str, ...] | None = described(
        None,
        "Factors of which every combination occurs, the last fastest; by default all with a list "
        "of values without `weights` and `table`. All else is drawn.",
        ["shape", "color"],
    )
    draws: int = described(
        1, "Samples of each combination of the grid, or of the set if `grid` is [].", 100, ge=1
    )
    unit_factors: tuple[str, ...] | None = described(
        None,
        "Factors of the grid that name a unit: samples with equal values share every draw and the "
        "renderer's seed. By default each sample is a unit.",
        ["scene"],
    )
    shares_units: bool = described(
        False, "Whether all sets that say so have the same units, by the values of `unit_factors`.", True
    )
    varies: tuple[str, ...] = described(
        (), "Factors that change within a concept set; samples with equal other factors form one.", ["color"]
    )
    do: dict[Name, Change] = described(
        {},
        "Interventions: values, or mechanisms, in place of the mechanisms of their factors.",
        {"color": "red"},
        later=True,
    )
    steps: int = described(
        1, "Steps of each unit, which is a sequence then: one sample each.", 8, later=True, ge=1, le=100_000
    )
    targets: Targets | None = described(
        None,
        "Targets that are drawn at each step but the first, or for each sample of a set without steps.",
        {"of": ["color", "x"]},
        later=True,
    )
    counterfactual: Counterfactual | None = described(
        None,
        "Counterfactuals of another set; then the only field of this set.",
        {"of": "train", "do": [{"color": "red"}]},
    )
    layout: Scene | None = described(
        None, "The scene of every sample.", {"camera": {"location": [0, 5, 3], "look_at": [0, 0, 0]}}
    )
    scene: SceneCode | None = described(
        None,
        "A Python function that makes the scene of each sample, in place of `layout`: FILE.py:FUNCTION.",
        "scenes.py:table",
        later=True,
    )
    image: ImageSize | None = described(
        None, "Size of the images of this set, in place of the recipe's.", {"width": 64}
    )
    render: RenderSettings | None = described(
        None, "Quality of rendering of this set, in place of the recipe's.", {"preset": "draft"}
    )
    layers: LayerNames | None = described(
        None, "Layers of this set, in place of the recipe's.", ["image", "depth"]
    )
    exposure: float | None = described(None, "Exposure of this set, in place of the recipe's.", 0.5, gt=0)
    caption: str = described(
        "",
        "Caption of each sample: text with `{name}` for a factor, `{name:.1f}` for a number with one digit "
        "after the point, and `{objects}` for the visible objects.",
        "a {color} {shape} on a table",
        default_words="objects, scene and factors in words",
        later=True,
    )

    @model_validator(mode="after")
    def _check_names(self) -> "ImageSet":
        for name in self.factors.keys() & _RESERVED:
            raise ValueError(
                f"factors.{name}: the name is taken by a column of every data set; choose another"
            )
        for name in self.factors.keys() & self.variables.keys():
            raise ValueError(f"variables.{name}: there is a factor of that name already")
        changed = {"do": set(self.do), "targets.of": set(self.targets.of if self.targets else ())}
        for field, names in changed.items():
            for name in sorted(names - self.mechanisms().keys()):
                near = did_you_mean(name, self.mechanisms())
                raise ValueError(f"{field}: `{name}` is no factor or variable of this set{near}")
        for name in self.mechanisms().keys() & CONSTANTS.keys():
            raise ValueError(f"`{name}` is a number in expressions; expected another name")
        for field, listed in (
            ("grid", self.grid),
            ("unit_factors", self.unit_factors),
            ("varies", self.varies),
        ):
            for name in listed or ():
                if not isinstance(self.factors.get(name), Categorical):
                    raise ValueError(f"{field}: expected names of categorical factors, got `{name}`")
        if len(set(self.crossed())) != len(self.crossed()):
            raise ValueError(f"grid: expected distinct factors, got {list(self.crossed())}")
        for name in set(self.unit_factors or ()) - set(self.crossed()):
            raise ValueError(f"unit_factors: expected factors of the grid, got `{name}`")
        if self.shares_units and self.unit_factors is None:
            raise ValueError(
                "shares_units: expected `unit_factors` as well, the factors whose values name a unit"
            )
        return self

    @model_validator(mode="after")
    def _check_caption(self) -> "ImageSet":
        check_caption(self.caption, self.factors)
        return self

    @model_validator(mode="after")
    def _check_layout(self) -> "ImageSet":
        if (self.layout is None) == (self.scene is None):
            raise ValueError(
                "expected `layout`, or `scene` with a function, got "
                + ("neither" if self.scene is None else "both")
            )
        if self.layout is None:
            return self
        known = ", ".join(self.mechanisms()) or "none"
        for reference in references(self.layout):
            if reference not in self.mechanisms():
                raise ValueError(f"layout: `${reference}` is no factor or variable; expected one of: {known}")
        for field, choice in self.layout.choices().items():
            mechanism = self.mechanisms()[choice.factor]
            if not isinstance(mechanism, Categorical):
                raise ValueError(
                    f"{field}.choose: expected a factor or variable with a list of values, "
                    f"got `{choice.choose}`, which has a range"
                )
            if missing := choice.missing(mechanism.listed()):
                raise ValueError(f"{field}.{missing}")
        return self

    def _check_parents(self, fixed: Collection[str] = ()) -> None:
        mechanisms = self.mechanisms()
        for name, mechanism in mechanisms.items():
            field = self.field_of(name)
            for parent in (*mechanism.parents(), *mechanism.lagged_parents()):
                if parent not in mechanisms:
                    known = ", ".join(mechanisms)
                    unquoted = isinstance(mechanism, Continuous) and self._is_value(parent)
                    remedy = f"; names of values stand in quotes: '{parent}'" if unquoted else ""
                    raise InputError(
                        f"{field}: `{parent}` is no factor or variable; expected one of: {known}{remedy}"
                    )
                if isinstance(mechanism, Categorical) and not isinstance(mechanisms[parent], Categorical):
                    raise InputError(
                        f"{field}.given: expected categorical names, got `{parent}`, which has a range; "
                        "list `values` for it, or use it in an expression"
                    )
        with within("factors"):
            causal_order(self.causal_parents(fixed))

    @model_validator(mode="after")
    def _check_parents_and_rules(self) -> "ImageSet":
        self._check_parents()
        self.at_first_step()
        for i, rule in enumerate(self.rules):
            for name in rule.exclude:
                if name not in self.categorical():
                    raise ValueError(f"rules.{i}.exclude: expected categorical names, got `{name}`")
            if (
                rule.selection
                and self.unit_factors is not None
                and not set(rule.exclude) <= set(self.crossed())
            ):
                raise ValueError(
                    f"rules.{i}: a selection on drawn values would tell the samples of a unit apart; "
                    "leave `unit_factors` out, or select on factors of the grid"
                )
        return self

    def _is_value(self, name: str) -> bool:
        """Tell whether a name is a value of a categorical factor, or a label of its shipped assets."""
        library = AssetLibrary()
        return any(
            name in one.listed() or (one.assets is not None and library.has(one.assets, name))
            for one in self.categorical().values()
        )

    @model_validator(mode="after")
    def _check_grid(self) -> "ImageSet":
        for name in self.crossed():
            factor = self.factors[name]
            if isinstance(factor, Categorical) and (
                factor.weights is not None
                or factor.strength != 1
                or any(_uneven(row) for row in factor.rows().values())
            ):
                raise ValueError(
                    f"grid: lists every combination once, but `{name}` has weights or a strength below 1; "
                    "leave it out of `grid`, then it is drawn"
                )
            for parent in self.causal_parents()[name]:
                if parent not in self.crossed():
                    raise ValueError(
                        f"grid: `{name}` depends on `{parent}`, which is drawn; leave it out too"
                    )
            if self.renewed(name):
                raise ValueError(
                    f"grid: lists values of whole units, but `{name}` is drawn at each step; leave it out"
                )
        return self

    @model_validator(mode="after")
    def _check_steps(self) -> "ImageSet":
        if self.steps == 1:
            if self.counterfactual is not None and self.counterfactual.step is not None:
                raise ValueError("counterfactual.step: the set has no steps; leave it out")
            return self
        if self.unit_factors is not None:
            raise ValueError("steps: the steps of a sequence are its unit; leave `unit_factors` out")
        for i, rule in enumerate(self.rules):
            if rule.selection and not set(rule.exclude) <= set(self.crossed()):
                raise ValueError(
                    f"rules.{i}: a selection on drawn values would reject single steps of a sequence; give "
                    "the rule a target, or select on factors of the grid"
                )
        if self.counterfactual is not None and (self.counterfactual.step or 0) >= self.steps:
            raise ValueError(
                f"counterfactual.step: expected 0 to {self.steps - 1}, got {self.counterfactual.step}"
            )
        return self

    @property
    def traced(self) -> bool:
        """Whether Blender traces the scenes; dead leaves are painted without it."""
        return self.layout is None or self.layout.traced

    def mechanisms(self) -> dict[str, Factor]:
        """Return factors and variables by name."""
        return {**self.factors, **self.variables}

    def categorical(self) -> dict[str, Categorical]:
        """Return the factors and variables with a list of values, by name."""
        return {name: one for name, one in self.mechanisms().items() if isinstance(one, Categorical)}

    def field_of(self, name: str) -> str:
        """Return the field of a factor or variable, for messages."""
        return f"{'factors' if name in self.factors else 'variables'}.{name}"

    @property
    def graph(self) -> CausalGraph:
        """The causal graph as data, under the set's own interventions but not the whole recipe's.

        A set of counterfactuals has nodes that the intervention of some or all of its samples changes. The
        graph of a sequence is that of the second step and all later ones.
        """
        own, asked = self.mechanisms(), self.counterfactual
        entries = [{**self.do, **one} for one in (asked.do if asked is not None and asked.do else ({},))]
        if asked is not None and asked.step is not None:
            entries.append(self.do)  # of the other steps
        changes = [{n: read_change(own[n], one) for n, one in entry.items() if n in own} for entry in entries]
        names = set(self.targets.of if self.targets else ()) - self.do.keys()
        names |= set(asked.targets.of if asked is not None and asked.targets else ())
        return describe_graph(self.factors, self.variables, self.rules, self.crossed(), changes, names)

    def causal_parents(self, intervened: Collection[str] = ()) -> Graph:
        """Return the parents of every factor and variable; names that an intervention sets have none."""
        return causal_graph(self.mechanisms(), self.rules, intervened)

    def intervened(self, changes: Mapping[str, FactorValue | Factor]) -> "ImageSet":
        """Return the set with the mechanisms that an intervention puts in place.

        Rules whose target is intervened on are gone, selections stay. A name that the intervention sets to a
        value keeps its mechanism, which then is not used.

        Raises:
            InputError: a mechanism in place has an unknown parent, or closes a cycle.
        """
        placed = {name: one for name, one in changes.items() if isinstance(one, Categorical | Continuous)}
        rules = tuple(rule for rule in self.rules if rule.target not in changes)
        return self._with_mechanisms(placed, rules, changes.keys() - placed.keys())

    def at_first_step(self, fixed: Collection[str] = ()) -> "ImageSet":
        """Return the set with the mechanisms of the first step, which has no previous one.

        Args:
            fixed: names that an intervention sets.

        Raises:
            InputError: a mechanism reads a previous value and does not say how it begins.
        """
        firsts = {}
        for name, mechanism in self.mechanisms().items():
            if mechanism.lagged_parents() and name not in fixed:
                with within(self.field_of(name)):
                    firsts[name] = first_mechanism(mechanism)
        if not firsts:
            return self
        with within("first"):
            return self._with_mechanisms(firsts, self.rules, fixed)

    def _with_mechanisms(
        self, placed: Mapping[str, Factor], rules: tuple[Rule, ...], fixed: Collection[str]
    ) -> "ImageSet":
        changed = self.model_copy(
            update={
                "factors": {name: placed.get(name, one) for name, one in self.factors.items()},
                "variables": {name: placed.get(name, one) for name, one in self.variables.items()},
                "rules": rules,
            }
        )
        changed._check_parents(fixed)
        return changed

    def crossed(self) -> tuple[str, ...]:
        """Names of the factors that form the grid, in order."""
        if self.grid is not None:
            return self.grid
        return tuple(
            name
            for name, factor in self.factors.items()
            if isinstance(factor, Categorical)
            and factor.weights is None
            and factor.table is None
            and not self.renewed(name)
        )

    def renewed(self, name: str) -> bool:
        """Tell whether the noise of a factor or variable is drawn at each step, and not once for a unit."""
        mechanism = self.mechanisms()[name]
        return mechanism.every == "step" or bool(mechanism.lagged_parents())

    @property
    def entries(self) -> int:
        """Number of samples of each unit and step: those of a set of counterfactuals, or 1."""
        return len(self.counterfactual.do or "1") if self.counterfactual is not None else 1

    @property
    def samples_per_unit(self) -> int:
        """Number of samples of each unit: its steps under each intervention, with successive indices."""
        return self.steps * self.entries
