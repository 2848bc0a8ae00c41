"""List the values of categorical factors, among them the labels of all assets of a kind."""

from collections.abc import Mapping

from blender_assets import AssetLibrary
from generators.language.factors import Categorical, Factor
from generators.language.recipe import Recipe
from loaders.schema import FactorValue

FactorValues = Mapping[str, FactorValue]  # values by name of the factor or variable


def fill_in_labels(recipe: Recipe, library: AssetLibrary) -> Recipe:
    """Write into a recipe the labels of every factor that takes all assets of a kind.

    Files that are added to a folder later then do not change the recipe, and its plan can be read without
    the folder.
    """
    sets = {}
    for name, image_set in recipe.sets.items():
        filled = {
            field: {key: _with_labels(factor, library) for key, factor in getattr(image_set, field).items()}
            for field in ("factors", "variables")
        }
        sets[name] = image_set.model_copy(update=filled)
    return recipe.model_copy(update={"sets": sets})


def _with_labels(factor: Factor, library: AssetLibrary) -> Factor:
    if isinstance(factor, Categorical) and factor.assets is not None and factor.values is None:
        return factor.model_copy(update={"values": values_of(factor, library)})
    return factor


def values_of(factor: Categorical, library: AssetLibrary) -> tuple[FactorValue, ...]:
    """Return the values of a categorical factor, in order.

    Raises:
        InputError: a value is not an asset of the kind that the factor names.
    """
    if factor.values is None and factor.assets is not None:
        return tuple(library.labels(factor.assets))
    listed = listed_values(factor)
    if factor.assets is not None:
        for value in listed:
            library.find(factor.assets, str(value))
    return listed


def listed_values(factor: Categorical) -> tuple[FactorValue, ...]:
    """Return the values of a categorical factor of a recipe that `fill_in_labels` made."""
    return factor.values or tuple(range(factor.count or 0))
