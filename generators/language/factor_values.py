"""Values of factors that assets and code give a recipe."""

from collections.abc import Iterator, Mapping

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE, is_code_label
from candlelight.generators.language.colour_texts import is_colour_text, linear_colour
from candlelight.generators.language.factors import Categorical, Factor
from candlelight.generators.language.recipe import Recipe
from candlelight.loaders.schema import FactorValue

FactorValues = Mapping[str, FactorValue]  # values by name of the factor or variable


def allow_passed_code(recipe: Recipe) -> Recipe:
    """Let code run that lies beside a scene function which the recipe got in Python.

    Such a function needs no leave: its author runs it already. Code that the recipe names as a text needs it,
    because the text may be that of another author's file, which a set extends.
    """
    passed = {name: one.scene.passed for name, one in recipe.sets.items() if one.scene is not None}
    folders = [one.file.parent for one in passed.values() if one is not None and one.file is not None]
    if not folders or "code" in recipe.assets:
        return recipe
    own = {name: {"scene"} for name, one in passed.items() if one is not None}
    named = recipe.model_dump(mode="json", include={"sets"}, exclude={"sets": own})
    if any(map(is_code_label, _texts(named))):
        return recipe
    return recipe.model_copy(update={"assets": {**recipe.assets, "code": folders[0]}})


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def fill_in_labels(recipe: Recipe, library: AssetLibrary) -> Recipe:
    """Write into a recipe the labels of factors that take all assets of a kind, and the hashes of scenes.

    Files that are added to a folder later then do not change the recipe, and its plan can be read without
    the folder.

    Raises:
        InputError: a file of scenes is not found, or may not be run.
    """
    sets = {}
    for name, image_set in recipe.sets.items():
        filled = {
            field: {key: _with_labels(factor, library) for key, factor in getattr(image_set, field).items()}
            for field in ("factors", "variables")
        }
        scene = image_set.scene
        if scene is not None and not scene.sha256:
            scene = scene.model_copy(update={"sha256": library.sha256("code", scene.code)})
        sets[name] = image_set.model_copy(update={**filled, "scene": scene})
    return recipe.model_copy(update={"sets": sets})


def _with_labels(factor: Factor, library: AssetLibrary) -> Factor:
    if isinstance(factor, Categorical) and factor.assets is not None and factor.values is None:
        return factor.model_copy(update={"values": values_of(factor, library)})
    return factor


def values_of(factor: Categorical, library: AssetLibrary) -> tuple[FactorValue, ...]:
    """Return the values of a categorical factor, in order.

    Raises:
        InputError: a value is neither an asset of the kind that the factor names, nor a colour or own code
            for a material.
    """
    if factor.values is None and factor.assets is not None:
        return tuple(library.labels(factor.assets))
    listed = factor.listed()
    if factor.assets is not None:
        for value in map(str, listed):
            if factor.assets == "materials" and is_colour_text(value) and not library.has("materials", value):
                linear_colour(value)
            else:
                of_code = factor.assets == "materials" and is_code_label(value)
                library.find(CODE if of_code else factor.assets, value)
    return listed
