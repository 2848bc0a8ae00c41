"""What an image set is rendered with and how its data set describes it, worked out from the recipe."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from blender_assets import AssetLibrary
from generators.language.factors import Categorical, Continuous, Factor
from generators.language.image_and_render import Image, Render
from generators.language.recipe import ALL_LIGHTS, ImageSet, Recipe
from generators.scenes.lights import LAMP
from generators.scenes.object_placement import WORLD
from generators.scenes.scene import Trace
from loaders.errors import InputError, did_you_mean
from loaders.schema import LAYERS, LIGHT_PREFIX, FactorInfo, FactorValue


@dataclass(frozen=True)
class SetSettings:
    """What one image set is rendered with: its own fields over the recipe's."""

    image: Image
    render: Render
    layers: tuple[str, ...]
    exposure: float


def settings(recipe: Recipe, set_name: str) -> SetSettings:
    """Return what an image set is rendered with."""
    image_set = recipe.sets[set_name]
    return SetSettings(
        image=image_set.image or recipe.image,
        render=image_set.render or recipe.render,
        layers=image_set.layers or recipe.layers,
        exposure=image_set.exposure or recipe.exposure,
    )


def is_traced(recipe: Recipe) -> bool:
    """Tell whether any set of a recipe needs Blender; dead leaves are painted without."""
    return any(image_set.layout.leaves is None for image_set in recipe.sets.values())


def light_names(recipe: Recipe, set_name: str) -> tuple[str, ...]:
    """Name the light groups of a set, the same for all its samples; none where no light layers are asked for.

    Raises:
        InputError: a light's name would depend on the sample.
    """
    if ALL_LIGHTS not in settings(recipe, set_name).layers:
        return ()
    layout = recipe.sets[set_name].layout
    rigs = list(layout.rigs.values()) if layout.rig is not None else [layout.lights]
    named = [[spec.name or spec.asset or LAMP for spec in rig] for rig in rigs]
    names = named[0]
    if any(name.startswith("$") for name in names) or named.count(names) < len(named):
        raise InputError(
            "layout.lights: light layers need a name that is the same in every sample; "
            "give each light that a factor chooses a `name`"
        )
    return (*names, WORLD) if layout.environment is not None else tuple(names)


def stored_layers(recipe: Recipe, set_name: str) -> tuple[str, ...]:
    """Name the layers that the frames of a set hold, in the schema's order, ``light/*`` spelled out."""
    wanted = settings(recipe, set_name).layers
    lights = (LIGHT_PREFIX + name for name in light_names(recipe, set_name))
    return (*(name for name in LAYERS if name in wanted), *lights)


def factor_infos(image_set: ImageSet) -> tuple[FactorInfo, ...]:
    """Describe the factors of a planned set; a bound that depends on others is left out."""

    def bound(quantity: float | str) -> float | None:
        return None if isinstance(quantity, str) else float(quantity)

    infos = []
    for name, factor in image_set.factors.items():
        if isinstance(factor, Continuous):
            info = FactorInfo(name=name, kind="continuous", low=bound(factor.low), high=bound(factor.high))
        else:
            info = FactorInfo(name=name, kind="categorical", values=listed_values(factor))
        infos.append(info.model_copy(update={"unit": factor.unit}))
    return tuple(infos)


def spell_out(recipe: Recipe, library: AssetLibrary) -> Recipe:
    """List the labels of every factor that takes all assets of a kind, so that the recipe says them itself.

    A file that is added to a folder later does not change the recipe then, and a plan of it needs no folder
    to be read.
    """
    sets = {}
    for name, image_set in recipe.sets.items():
        spelled = {
            field: {key: _spelled(factor, library) for key, factor in getattr(image_set, field).items()}
            for field in ("factors", "variables")
        }
        sets[name] = image_set.model_copy(update=spelled)
    return recipe.model_copy(update={"sets": sets})


def _spelled(factor: Factor, library: AssetLibrary) -> Factor:
    if isinstance(factor, Categorical) and factor.assets is not None and factor.values is None:
        return factor.model_copy(update={"values": values_of(factor, library)})
    return factor


def values_of(factor: Categorical, library: AssetLibrary) -> tuple[FactorValue, ...]:
    """Return the values of a categorical factor, in order.

    Raises:
        InputError: one of them is no asset of the kind that the factor names.
    """
    if factor.values is None and factor.assets is not None:
        return tuple(library.labels(factor.assets))
    listed = listed_values(factor)
    if factor.assets is not None:
        for value in listed:
            library.find(factor.assets, str(value))
    return listed


def listed_values(factor: Categorical) -> tuple[FactorValue, ...]:
    """Return the values of a categorical factor of a recipe that spells them out."""
    return factor.values or tuple(range(factor.count or 0))


def interventions(
    changes: Mapping[str, FactorValue], field: str, image_set: ImageSet, library: AssetLibrary
) -> dict[str, FactorValue]:
    """Choose the interventions that concern a set; they may leave a range, but a category must exist.

    Args:
        changes: factor or variable to the value that it is set to.
        field: where they stand, for the message.
        image_set: the set.
        library: where assets are found.

    Returns:
        Those of its factors and variables, each value as the recipe has it written.

    Raises:
        InputError: a value that there is not, or a name where a number is expected.
    """
    chosen: dict[str, FactorValue] = {}
    for name, value in changes.items():
        mechanism = image_set.mechanisms().get(name)
        if isinstance(mechanism, Categorical):
            listed = values_of(mechanism, library)
            if value not in listed:
                known = ", ".join(map(str, listed))
                near = did_you_mean(value, listed)
                raise InputError(f"{field}.{name}: expected one of {known}, got {value!r}{near}")
            chosen[name] = listed[listed.index(value)]
        elif mechanism is not None:
            if isinstance(value, str):
                raise InputError(f"{field}.{name}: expected a number, got {value!r}")
            chosen[name] = float(value)
    return chosen


def check_interventions(recipe: Recipe) -> None:
    """Refuse interventions of a recipe that no plan of it could follow.

    Raises:
        InputError: as `interventions`; the message names the set.
    """
    library = cache(lambda: AssetLibrary(recipe.assets))
    for set_name, image_set in recipe.sets.items():
        asked = {} if image_set.counterfactual is None else dict(enumerate(image_set.counterfactual.do))
        fields = {
            "do": {**recipe.do, **image_set.do},
            **{f"counterfactual.do.{k}": change for k, change in asked.items()},
        }
        for field, changes in fields.items():
            if changes:
                try:
                    interventions(changes, field, image_set, library())
                except InputError as error:
                    several = field == "do" and len(recipe.sets) > 1
                    remedy = "; `sets.NAME.do` is of one set alone" if several else ""
                    raise InputError(f"sets.{set_name}: {error}{remedy}") from None


def part_names(traces: Iterable[Trace]) -> dict[str, tuple[str, ...]]:
    """Name the parts of each type of object that has some, the types in alphabetical order."""
    found = {
        thing.type: tuple(part.name for part in thing.parts)
        for trace in traces
        for thing in trace.objects
        if thing.parts
    }
    return dict(sorted(found.items()))
