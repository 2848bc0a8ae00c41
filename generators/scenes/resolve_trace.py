"""From a layout and the values of a sample to its trace."""

from blender_assets import AssetLibrary
from generators.language.layout import Layout
from generators.random_streams import cycles_seed
from generators.scenes.appearance import lay_floor
from generators.scenes.camera import place_camera, take_view
from generators.scenes.dead_leaves import plan_leaves
from generators.scenes.layout_inputs import Draws
from generators.scenes.lights import hang_lights
from generators.scenes.normalise_lights import normalise_lights
from generators.scenes.object_placement import place_objects, surround
from generators.scenes.scene import Trace
from loaders.schema import LightRecord, Vector


def resolve(
    layout: Layout, draws: Draws, library: AssetLibrary
) -> tuple[tuple[LightRecord, ...], Vector, Trace]:
    """Resolve a layout for one sample.

    Args:
        layout: where the values go.
        draws: the values, and the streams of the unit.
        library: where assets are found.

    Returns:
        The lamps as they are, a gain per channel, and the trace whose radiance times the gain is theirs.

    Raises:
        InputError: an asset that does not exist, a value out of range, no room for an object; the message
            names the field.
    """
    if layout.leaves is not None:
        return (), (1.0, 1.0, 1.0), plan_leaves(layout.leaves, draws)
    camera = take_view(place_camera(layout, draws), layout, draws, library)
    lights = hang_lights(layout, draws, library, camera)
    environment = surround(layout, draws, library)
    traced, gain = normalise_lights(lights) if environment is None else (lights, (1.0, 1.0, 1.0))
    trace = Trace(
        objects=place_objects(layout, draws, library),
        lights=traced,
        environment=environment,
        # A modelled scene brings its own ground.
        floor=None if environment is not None and environment.modelled else lay_floor(layout, draws, library),
        camera=camera,
        cycles_seed=cycles_seed(draws.seed, draws.unit),
    )
    return lights, gain, trace
