import pytest

from candlelight.generators.scenes.layout_inputs import hue_to_rgb


def test_hues_lie_on_the_hexagon():
    corners = {0: (1, 0, 0), 60: (1, 1, 0), 120: (0, 1, 0), 180: (0, 1, 1), 240: (0, 0, 1), 300: (1, 0, 1)}
    for hue, rgb in corners.items():
        for turns in (-360, 0, 360):
            assert hue_to_rgb(hue + turns, 1, 1) == pytest.approx(rgb)
    assert hue_to_rgb(30, 1, 1) == pytest.approx((1, 0.5, 0))
    assert hue_to_rgb(123, 0, 0.7) == pytest.approx((0.7, 0.7, 0.7))
    assert hue_to_rgb(240, 0.8, 1) == pytest.approx((0.2, 0.2, 1))
