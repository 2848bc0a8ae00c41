"""The modelled sets indoors: indoor, hall, garage, tunnel and station.

Ceilings and vaults begin where CANDLE's camera first sees them, behind the lamps, which so shine on all
objects from inside the room. What the lamps do not reach has light of its own.
"""

from collections.abc import Callable

from blender_assets.build_garage import garage
from blender_assets.build_hall import hall
from blender_assets.build_indoor import indoor
from blender_assets.build_scenes import Scenery
from blender_assets.build_station import station
from blender_assets.build_tunnel import tunnel

SETS: dict[str, Callable[[Scenery], None]] = {
    "indoor": indoor,
    "hall": hall,
    "garage": garage,
    "station": station,
    "tunnel": tunnel,
}
