"""Values of factors: those that assets give a categorical factor, and those that interventions set.

Interventions stand in a recipe's `do`, a set's `do` and a set of counterfactuals;
`candlelight.generators.planning.interventions` says what an intervention is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE, is_code_label
from candlelight.generators.language.colour_texts import is_colour_text, linear_colour
from candlelight.generators.language.factors import (
    Categorical,
    Continuous,
    Factor,
    mechanism_in_place,
)
from candlelight.generators.language.recipe import Recipe
from candlelight.loaders.errors import InputError, did_you_mean, within
from candlelight.loaders.schema import FactorValue

FactorValues = Mapping[str, FactorValue]  # values by name of the factor or variable
Changes = dict[str, FactorValue | Factor]  # what an intervention sets, and mechanisms that it puts in place


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


def check_interventions(recipe: Recipe) -> None:
    """Refuse a recipe whose interventions set values that their factors cannot have.

    Raises:
        InputError: as `intervention_values`; the message names the set.
    """
    library: AssetLibrary | None = None
    for name, image_set in recipe.sets.items():
        if recipe.do or image_set.do or image_set.counterfactual is not None:
            library = library or AssetLibrary(recipe.assets)
            with within(f"sets.{name}"):
                for changes in intervention_values(recipe, name, library):
                    if mechanisms_in(changes):
                        with within("do"):
                            image_set.intervened(changes)


def mechanisms_in(changes: Changes) -> dict[str, Factor]:
    """Return the mechanisms that an intervention puts in place, without the values that it sets.

    Example:
        >>> mechanisms_in({"color": "red"})
        {}
    """
    return {name: one for name, one in changes.items() if isinstance(one, Categorical | Continuous)}


def intervention_values(recipe: Recipe, set_name: str, library: AssetLibrary) -> list[Changes]:
    """List the interventions of a set, one for each sample of a unit.

    A set of samples has one intervention: the recipe's ``do`` and the set's own, which takes precedence. A
    set of counterfactuals has one for each entry of its ``counterfactual.do``, in addition to that.

    Args:
        recipe: the recipe.
        set_name: the set.
        library: where assets are found.

    Returns:
        For each intervention the factors and variables of the set that it changes: with their values as the
        recipe writes them, or with the mechanisms put in place.

    Raises:
        InputError: a categorical factor does not have the value, or a number is expected. Numbers may leave
            the range of their factor. Or fields that are no mechanism of the factor.
    """
    image_set = recipe.sets[set_name]
    mechanisms = image_set.mechanisms()
    try:
        always = _checked({**recipe.do, **image_set.do}, "do", mechanisms, library)
    except InputError as error:
        remedy = "; `sets.NAME.do` sets a factor of one set alone" if len(recipe.sets) > 1 else ""
        raise InputError(f"{error}{remedy}") from None
    if image_set.counterfactual is None:
        return [always]
    return [
        {**always, **_checked(change, f"counterfactual.do.{k}", mechanisms, library)}
        for k, change in enumerate(image_set.counterfactual.do)
    ]


def _checked(
    changes: Mapping[str, FactorValue | dict[str, Any]],
    field: str,
    mechanisms: Mapping[str, Factor],
    library: AssetLibrary,
) -> Changes:
    """Choose the changes that concern these mechanisms, and check their values."""
    chosen: Changes = {}
    for name, value in changes.items():
        mechanism = mechanisms.get(name)
        if isinstance(value, dict):
            if mechanism is not None:
                with within(f"{field}.{name}"):
                    chosen[name] = mechanism_in_place(mechanism, value)
        elif isinstance(mechanism, Categorical):
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
