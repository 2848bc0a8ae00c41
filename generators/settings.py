"""What an image set is rendered with and how its data set describes it, worked out from the recipe."""

from dataclasses import dataclass

from blender_assets import AssetLibrary
from generators.layout import LAMP, WORLD
from generators.recipe import ALL_LIGHTS, Categorical, Image, ImageSet, Recipe, Render
from loaders.errors import InputError
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


def light_names(recipe: Recipe, set_name: str) -> tuple[str, ...]:
    """Name the light groups of a set, the same for all its samples; none where no light layers are asked for.

    Raises:
        InputError: a light's name would depend on the sample.
    """
    if ALL_LIGHTS not in settings(recipe, set_name).layers:
        return ()
    layout = recipe.sets[set_name].layout
    names = [spec.name or spec.asset or LAMP for spec in layout.lights]
    if any(name.startswith("$") for name in names):
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


def factor_infos(image_set: ImageSet, library: AssetLibrary) -> tuple[FactorInfo, ...]:
    """Describe the factors of a set as its data set does."""
    return tuple(
        FactorInfo(name=name, kind="categorical", values=values_of(factor, library), unit=factor.unit)
        if isinstance(factor, Categorical)
        else FactorInfo(name=name, kind="continuous", low=factor.low, high=factor.high, unit=factor.unit)
        for name, factor in image_set.factors.items()
    )


def values_of(factor: Categorical, library: AssetLibrary) -> tuple[FactorValue, ...]:
    """Return the values of a categorical factor, in order.

    Raises:
        InputError: one of them is no asset of the kind that the factor names.
    """
    if factor.count is not None:
        return tuple(range(factor.count))
    if factor.values is None:
        return tuple(library.labels(str(factor.assets)))
    if factor.assets is not None:
        for value in factor.values:
            library.find(factor.assets, str(value))
    return factor.values
