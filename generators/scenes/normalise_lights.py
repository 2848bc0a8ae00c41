"""Scale lights to a reference power, so that samples that differ only in power or colour share a trace."""

import numpy as np

from candlelight.loaders.schema import LightRecord, Vector

REFERENCE_POWER = 1000.0  # W of the first light of a trace that several samples share


def normalise_lights(lights: tuple[LightRecord, ...]) -> tuple[tuple[LightRecord, ...], Vector]:
    """Split the lights of a sample into lights to trace and a gain per channel.

    Light transport is linear: the first light is traced white at `REFERENCE_POWER`, the others relative to
    it, and the traced radiance times the gain is the radiance under the lights of the sample. So samples that
    differ in nothing but power and colour of their light come from one trace, and are exact multiples of each
    other.

    Args:
        lights: all light sources of the sample; there is no environment.

    Returns:
        The lights to trace, and the gain.

    Example:
        >>> light = LightRecord(name="light", location=(0, 0, 3), power=500, radius=0.5, color=(2, 1, 0.5))
        >>> traced, gain = normalise_lights((light,))
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
