"""What an image set is rendered with and how its data set describes it, worked out from the recipe."""

from dataclasses import dataclass

from generators.language.factor_values import listed_values
from generators.language.factors import Continuous
from generators.language.field_types import Choice
from generators.language.image_and_render import ImageSize, RenderSettings
from generators.language.lights_and_camera import DEFAULT_LIGHT_NAME, ENVIRONMENT_LIGHT
from generators.language.recipe import ALL_LIGHTS, ImageSet, Recipe
from loaders.errors import InputError
from loaders.schema import LAYERS, LIGHT_PREFIX, FactorInfo


@dataclass(frozen=True)
class SetSettings:
    """What one image set is rendered with: its own fields over the recipe's."""

    image: ImageSize
    render: RenderSettings
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
    return any(image_set.layout.dead_leaves is None for image_set in recipe.sets.values())


def light_names(recipe: Recipe, set_name: str) -> tuple[str, ...]:
    """Name the light groups of a set, the same for all its samples; none where no light layers are asked for.

    Raises:
        InputError: a light's name would depend on the sample.
    """
    if ALL_LIGHTS not in settings(recipe, set_name).layers:
        return ()
    layout = recipe.sets[set_name].layout
    lists = layout.lights.among.values() if isinstance(layout.lights, Choice) else [layout.lights]
    named = [[spec.name or spec.asset or DEFAULT_LIGHT_NAME for spec in lights] for lights in lists]
    names = named[0]
    if any(name.startswith("$") for name in names) or named.count(names) < len(named):
        raise InputError(
            "layout.lights: light layers need a name that is the same in every sample; "
            "give each light that a factor chooses a `name`"
        )
    return (*names, ENVIRONMENT_LIGHT) if layout.environment is not None else tuple(names)


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
