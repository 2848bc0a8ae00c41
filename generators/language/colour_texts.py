"""Colours as texts: `#3080c0` and `css:teal`, which are sRGB, as linear numbers."""

import re

import numpy as np
from PIL import ImageColor

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import Vector


def is_colour_text(text: str) -> bool:
    """Tell whether a text is meant as a colour.

    Example:
        >>> is_colour_text("#3080c0"), is_colour_text("css:teal"), is_colour_text("teal")
        (True, True, False)
    """
    return text.startswith(("#", "css:"))


def linear_colour(text: str) -> Vector:
    """Return the colour that a text stands for.

    Args:
        text: ``#rrggbb``, an sRGB colour in hexadecimal digits, or ``css:NAME``, a named colour of CSS.

    Returns:
        Scene-linear Rec.709 channels in [0, 1], rounded to six decimals.

    Raises:
        InputError: the text has another form, or CSS has no colour of that name.

    Example:
        >>> linear_colour("#3080c0"), linear_colour("css:teal")
        ((0.029557, 0.215861, 0.527115), (0.0, 0.215861, 0.215861))
    """
    try:
        if not re.fullmatch("#[0-9a-fA-F]{6}|css:[a-z]+", text):
            raise ValueError
        encoded = ImageColor.getrgb(text.removeprefix("css:"))
    except ValueError:
        raise InputError(f"expected a colour such as '#3080c0' or css:teal, got `{text}`") from None
    red, green, blue = srgb_to_linear(np.array(encoded) / 255).round(6).tolist()
    return red, green, blue
