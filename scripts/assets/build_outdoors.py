"""The modelled outdoor scenes: playground, bridge, street, beach and skywalk.

Each scene consists of simple solids and procedural finishes, without photographs or scans.
"""

from collections.abc import Callable

from build_beach import beach
from build_bridge import bridge
from build_playground import playground
from build_scenes import Scenery
from build_skywalk import skywalk
from build_street import street

SETS: dict[str, Callable[[Scenery], None]] = {
    "playground": playground,
    "bridge": bridge,
    "street": street,
    "beach": beach,
    "skywalk": skywalk,
}
