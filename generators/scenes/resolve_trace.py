"""Resolve the layout of an image set for one sample: its trace, its lights and its gain."""

from candlelight.generators.language.dead_leaves_fields import (
    COLORS,
    SHAPES,
    SMALLEST,
    DeadLeaves,
    DeadLeavesSpec,
)
from candlelight.generators.language.layout import Scene
from candlelight.generators.random_streams import cycles_seed
from candlelight.generators.scenes.camera import place_camera
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.lights import normalise_lights, place_lights
from candlelight.generators.scenes.object_materials import place_floor
from candlelight.generators.scenes.object_placement import place_environment, place_objects
from candlelight.generators.scenes.plan_records import Trace
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import LightRecord, Vector

_NO_GAIN = (1.0, 1.0, 1.0)


def resolve(layout: Scene, inputs: LayoutInputs) -> tuple[tuple[LightRecord, ...], Vector, Trace]:
    """Resolve a layout for one sample.

    Args:
        layout: the layout of the image set.
        inputs: the values of the sample, the streams of its unit, and where assets are found.

    Returns:
        The lights of the sample, a gain per channel, and the trace; the traced radiance times the gain is the
        radiance of the sample.

    Raises:
        InputError: an asset that does not exist, a value out of range, no room for an object; the message
            names the field.
    """
    if layout.dead_leaves is not None:
        return (), _NO_GAIN, _resolve_dead_leaves(layout.dead_leaves, inputs)
    camera = place_camera(layout, inputs)
    lights = place_lights(layout, inputs, camera)
    environment = place_environment(layout, inputs)
    traced, gain = normalise_lights(lights) if environment is None else (lights, _NO_GAIN)
    trace = Trace(
        objects=place_objects(layout, inputs),
        lights=traced,
        environment=environment,
        # A modelled scene brings its own ground.
        floor=None if environment is not None and environment.modelled else place_floor(layout, inputs),
        camera=camera,
        cycles_seed=cycles_seed(inputs.seed, inputs.unit),
    )
    return lights, gain, trace


def _resolve_dead_leaves(spec: DeadLeavesSpec, inputs: LayoutInputs) -> Trace:
    """Resolve dead leaves; the trace holds only them and the seed of all their draws."""
    field = "layout.dead_leaves"
    numbers = inputs.numbers(spec, field, "size", "exponent", "contrast", "falloff", "azimuth")
    low, high = numbers["size"]
    if not SMALLEST <= low <= high <= 1:
        raise InputError(
            f"{field}.size: expected {SMALLEST} <= smallest <= largest <= 1, got {low} and {high}"
        )
    shape = inputs.label(spec.shape, SHAPES, f"{field}.shape")
    colors = inputs.label(spec.colors, COLORS, f"{field}.colors")
    return Trace(
        objects=(),
        lights=(),
        environment=None,
        floor=None,
        camera=None,
        cycles_seed=cycles_seed(inputs.seed, inputs.unit),
        dead_leaves=DeadLeaves(**{**spec.model_dump(), **numbers, "shape": shape, "colors": colors}),
    )
