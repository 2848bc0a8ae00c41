import numpy as np
import pytest

from candlelight.generators.scenes.lights import REFERENCE_POWER, normalise_lights
from candlelight.loaders.schema import LightRecord


def light(name="key", power=500.0, color=(1.0, 0.5, 0.25), temperature=None):
    location = (0.0, 1.0, 3.0)
    return LightRecord(
        name=name, location=location, power=power, radius=0.2, color=color, temperature=temperature
    )


def emitted(lights):
    return np.array([np.array(light.color) * light.power for light in lights])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_traced_light_times_gain_is_the_light(count):
    rng = np.random.default_rng(count)
    lights = tuple(
        light(f"l{i}", float(rng.uniform(10, 5000)), tuple(rng.uniform(0.1, 2, 3).tolist()))
        for i in range(count)
    )
    traced, gain = normalise_lights(lights)
    np.testing.assert_allclose(emitted(traced) * gain, emitted(lights), rtol=1e-6)
    assert traced[0].color == (1.0, 1.0, 1.0)
    assert {light.power for light in traced} == {REFERENCE_POWER}


def test_power_and_colour_of_all_lights_at_once_leave_the_trace_alone():
    def pair(power, color):
        return light(power=power, color=color), light("fill", power / 3, color)

    one, other = pair(300.0, (1.0, 0.9, 0.7)), pair(2000.0, (0.7, 1.0, 1.9))
    assert normalise_lights(one)[0] == normalise_lights(other)[0]
    moved = one[0].model_copy(update={"location": (1.0, 0.0, 3.0)})
    assert normalise_lights((moved, one[1]))[0] != normalise_lights(one)[0]


def test_temperature_is_not_traced():
    assert normalise_lights((light(temperature=2500.0),))[0][0].temperature is None


def test_place_and_radius_stay_in_the_trace():
    traced, _ = normalise_lights((light(),))
    assert (traced[0].name, traced[0].location, traced[0].radius) == ("key", (0.0, 1.0, 3.0), 0.2)


def test_a_channel_without_light_is_no_reference():
    # Blue of a light at 1000 K lies outside the gamut: another light's could not be told relative to it.
    lights = (light(color=(3.0, 0.5, 0.0)), light("fill", color=(1.0, 1.0, 1.0)))
    assert normalise_lights(lights) == (lights, (1.0, 1.0, 1.0))
