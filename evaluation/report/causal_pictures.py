"""Images with their factors."""

from itertools import compress

from evaluation.report.blocks import Block, Pictures, png_picture
from evaluation.report.tiles import encoded_pixels, fit, spread_rows, values_text
from loaders.schema import FactorInfo, FactorValue
from loaders.views import Factors

IMAGES = 6


def causal_pictures(data: Factors) -> list[Block]:
    """Show a few images and the values of their factors.

    Args:
        data: as `score_causal` was given it.

    Returns:
        One block of pictures.
    """
    pictures = []
    varying = [len(set(column)) > 1 for column in data.table.T.tolist()]
    for row in spread_rows(len(data), IMAGES):
        pairs = compress(zip(data.factors, data.table[row].tolist(), strict=True), varying)
        values = values_text({factor.name: _value(factor, value) for factor, value in pairs})
        pixels = fit(encoded_pixels(data[row]))
        pictures.append(png_picture(pixels, f"Image {data.ids[row]}.", values))
    return [Pictures(tuple(pictures), f"{len(pictures)} of {len(data)} images, and the factors that vary.")]


def _value(factor: FactorInfo, value: float) -> FactorValue:
    return (factor.values or ())[int(value)] if factor.kind == "categorical" else value
