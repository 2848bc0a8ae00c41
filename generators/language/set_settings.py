"""Work out settings of an image set from its recipe: image, rendering, layers, light names, factors."""

from dataclasses import dataclass

from candlelight.generators.language.dead_leaves_fields import DEAD_LEAVES_LAYERS
from candlelight.generators.language.factors import Continuous
from candlelight.generators.language.field_types import Choice
from candlelight.generators.language.image_set import ImageSet, ImageSize, RenderSettings
from candlelight.generators.language.layout import Scene
from candlelight.generators.language.lights_and_camera import ENVIRONMENT_LIGHT
from candlelight.generators.language.recipe import ALL_LAYERS, ALL_LIGHTS, Recipe
from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import LAYERS, LIGHT_PREFIX, FactorInfo

_LONGEST_NAME = 54  # bytes of a light's name: Blender's names of passes have 63, of which "Combined_" takes 9


@dataclass(frozen=True)
class SetSettings:
    """Settings of one image set: its own fields, else the recipe's."""

    image: ImageSize
    render: RenderSettings
    layers: tuple[str, ...]
    exposure: float


def settings(recipe: Recipe, set_name: str) -> SetSettings:
    """Return the settings of an image set."""
    image_set = recipe.sets[set_name]
    layers = image_set.layers or recipe.layers
    return SetSettings(
        image=image_set.image or recipe.image,
        render=image_set.render or recipe.render,
        layers=_possible_layers(image_set) if layers == ALL_LAYERS else layers,
        exposure=image_set.exposure or recipe.exposure,
    )


def _possible_layers(image_set: ImageSet) -> tuple[str, ...]:
    """Return the layers that a set can have, which ``layers: all`` stands for.

    A set has no light layers on a shadow catcher, where they are black, or if the name of a light depends on
    the sample.
    """
    layout = image_set.layout
    if not image_set.traced:
        return DEAD_LEAVES_LAYERS
    if image_set.scene is not None:
        named = bool(image_set.scene.lights)
    else:
        named = layout is not None and not layout.has_catcher and _fixed_names(layout) is not None
    return (*LAYERS, ALL_LIGHTS) if named else (*LAYERS,)


def is_traced(recipe: Recipe) -> bool:
    """Tell whether any set of a recipe needs Blender."""
    return any(image_set.traced for image_set in recipe.sets.values())


def light_names(recipe: Recipe, set_name: str) -> tuple[str, ...]:
    """Return the names of the lights of a set that asks for light layers, else none.

    Raises:
        InputError: the name of a light depends on the sample, or Blender would change it.
    """
    if ALL_LIGHTS not in settings(recipe, set_name).layers:
        return ()
    layout, scene = recipe.sets[set_name].layout, recipe.sets[set_name].scene
    if scene is not None or layout is None:
        return () if scene is None else _checked(scene.lights)
    names = _fixed_names(layout)
    if names is None:
        raise InputError(
            "layout.lights: light layers need a name that is the same in every sample; "
            "give each light a `name`, the same in every choice"
        )
    return _checked((*names, ENVIRONMENT_LIGHT) if layout.environment is not None else names)


def _checked(lights: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse names that Blender changes: it puts _ for dots, and cuts the name of the light's pass."""
    for name in lights:
        if "." in name or len(name.encode()) > _LONGEST_NAME:
            raise InputError(
                f"light layers need names of lights without dots, of at most {_LONGEST_NAME} bytes, got "
                f"`{name}`"
            )
    return lights


def _fixed_names(layout: Scene) -> tuple[str, ...] | None:
    """Return the names of the lights, the same in every sample; None if they depend on the sample."""
    lists = layout.lights.among.values() if isinstance(layout.lights, Choice) else [layout.lights]
    named = [tuple(spec.layer_name for spec in lights) for lights in lists]
    same = len(set(named)) == 1 and not any(name.startswith("$") for name in named[0])
    return named[0] if same else None


def stored_layers(recipe: Recipe, set_name: str) -> tuple[str, ...]:
    """Return the layers of the frames of a set, in the schema's order, with one layer for each light."""
    wanted = settings(recipe, set_name).layers
    lights = (LIGHT_PREFIX + name for name in light_names(recipe, set_name))
    return (*(name for name in LAYERS if name in wanted), *lights)


def factor_infos(image_set: ImageSet) -> tuple[FactorInfo, ...]:
    """Describe the factors of a planned set; a bound that depends on other factors is None."""
    infos = []
    for name, factor in image_set.factors.items():
        if isinstance(factor, Continuous):
            low, high = (float(q) if isinstance(q, int | float) else None for q in (factor.low, factor.high))
            infos.append(FactorInfo(name=name, kind="continuous", low=low, high=high, unit=factor.unit))
        else:
            infos.append(FactorInfo(name=name, kind="categorical", values=factor.listed(), unit=factor.unit))
    return tuple(infos)


def set_graph(recipe: Recipe, set_name: str) -> CausalGraph:
    """Return the causal graph of a set under all of its interventions: the recipe's ``do`` and its own."""
    image_set = recipe.sets[set_name]
    return image_set.model_copy(update={"do": {**recipe.do, **image_set.do}}).graph
