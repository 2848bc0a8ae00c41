"""The modelled sets indoors: indoor, hall, garage, tunnel and station.

Ceilings and vaults begin where CANDLE's camera first sees them, behind the lamps, which so shine on all
objects from inside the room. What the lamps do not reach has light of its own.
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
