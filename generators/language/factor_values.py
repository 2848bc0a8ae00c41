"""The values of categorical factors, with the assets that are there, and interventions on factors."""

from collections.abc import Mapping
from functools import cache

from blender_assets import AssetLibrary
from generators.language.factors import Categorical, Factor
from generators.language.image_set import ImageSet
from generators.language.recipe import Recipe
from loaders.errors import InputError, did_you_mean
from loaders.schema import FactorValue


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
