"""From a layout and the values of a sample to its trace."""

from blender_assets import AssetLibrary
from generators.layout import Draws, hang_lights, place_camera, place_objects, surround
from generators.linear import normalise_lights
from generators.scene import Trace
from generators.specs import Layout
from generators.streams import cycles_seed
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
    camera = place_camera(layout, draws)
    lights = hang_lights(layout, draws, library, camera)
    environment = surround(layout, draws, library)
    traced, gain = normalise_lights(lights) if environment is None else (lights, (1.0, 1.0, 1.0))
    trace = Trace(
        objects=place_objects(layout, draws, library),
        lights=traced,
        environment=environment,
        floor=layout.floor,
        camera=camera,
        cycles_seed=cycles_seed(draws.seed, draws.unit),
    )
    return lights, gain, trace
