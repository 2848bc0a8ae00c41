"""The modelled indoor scenes: indoor, hall, garage, tunnel and station.

Ceilings and vaults begin behind CANDLE's lights, where the camera first sees them, so that the lights shine
on all objects from inside the room. Parts of a room that these lights do not reach have their own lights.
"""

from collections.abc import Callable

from build_garage import garage
from build_hall import hall
from build_indoor import indoor
from build_scenes import Scenery
from build_station import station
from build_tunnel import tunnel

SETS: dict[str, Callable[[Scenery], None]] = {
    "indoor": indoor,
    "hall": hall,
    "garage": garage,
    "station": station,
    "tunnel": tunnel,
}
