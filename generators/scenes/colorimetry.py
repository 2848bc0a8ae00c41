"""Hues on the HSV hexagon, in linear Rec.709."""

import colorsys

from candlelight.loaders.schema import Vector


def hue_to_rgb(hue: float, saturation: float, value: float) -> Vector:
    """Return the linear Rec.709 colour of a hue on the HSV hexagon.

    The hexagon's coordinates are taken for linear ones, as 3DIdent's generator does.

    Args:
        hue: degrees; 0 is red, 120 green, 240 blue.
        saturation: 0 to 1.
        value: the largest channel.

    Returns:
        R, G, B.

    Example:
        >>> hue_to_rgb(120, 0.75, 1)
        (0.25, 1.0, 0.25)
    """
    red, green, blue = colorsys.hsv_to_rgb(hue / 360.0 % 1.0, saturation, 1.0)
    return red * value, green * value, blue * value
