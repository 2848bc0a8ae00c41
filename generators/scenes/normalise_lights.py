"""Light is linear: what samples of one trace may differ in, and by how much their radiance does."""

import numpy as np

from loaders.schema import LightRecord, Vector

REFERENCE_POWER = 1000.0  # W of the first lamp of a trace that several samples share


def normalise_lights(lights: tuple[LightRecord, ...]) -> tuple[tuple[LightRecord, ...], Vector]:
    """Split lamps into what is traced and a gain per channel that makes up for it.

    Light transport is linear: with the first lamp traced white at `REFERENCE_POWER` and the others relative
    to it, the traced radiance times the gain is that of the lamps as they are. So samples that differ in
    nothing but the power and colour of their light come from one trace, and are exactly linear among
    themselves.

    Args:
        lights: the lamps of a sample that nothing else lights.

    Returns:
        The lamps to trace, and the gain.

    Example:
        >>> lamp = LightRecord(name="lamp", location=(0, 0, 3), power=500, radius=0.5, color=(2, 1, 0.5))
        >>> traced, gain = normalise_lights((lamp,))
        >>> traced[0].power, traced[0].color, gain
        (1000.0, (1.0, 1.0, 1.0), (1.0, 0.5, 0.25))
    """
    first = np.array(lights[0].color) * lights[0].power / REFERENCE_POWER
    if not first.all():
        # A channel without light cannot be the reference for one that has some.
        return lights, (1.0, 1.0, 1.0)
    traced = []
    for i, light in enumerate(lights):
        relative = (
            (np.array(light.color) * light.power / REFERENCE_POWER / first).round(9) if i else np.ones(3)
        )
        red, green, blue = relative.tolist()
        update = {"power": REFERENCE_POWER, "color": (red, green, blue), "temperature": None}
        traced.append(light.model_copy(update=update))
    red, green, blue = first.tolist()
    return tuple(traced), (red, green, blue)
