"""Pictures for the causal section: images with their factor values."""

from itertools import compress

from candlelight.evaluation.report.blocks import Block, PicturesBlock, png_picture
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    scale_for_page,
    values_text,
)
from candlelight.loaders.schema import FactorInfo, FactorValue
from candlelight.loaders.views import Factors

_IMAGES = 6


def causal_pictures(data: Factors) -> list[Block]:
    """Show a few images and the values of the factors that vary.

    Args:
        data: the view that `score_causal` scored.

    Returns:
        One block of pictures.
    """
    pictures = []
    varying = [len(set(column)) > 1 for column in data.table.T.tolist()]
    for row in evenly_spaced_rows(len(data), _IMAGES):
        pairs = compress(zip(data.factors, data.table[row].tolist(), strict=True), varying)
        values = values_text({factor.name: _value(factor, value) for factor, value in pairs})
        pixels = scale_for_page(encoded_pixels(data[row]))
        pictures.append(png_picture(pixels, f"Image {data.ids[row]}.", values))
    caption = f"{len(pictures)} of {len(data)} images, with the values of the factors that vary."
    return [PicturesBlock(tuple(pictures), caption)]


def _value(factor: FactorInfo, value: float) -> FactorValue:
    return (factor.values or ())[int(value)] if factor.kind == "categorical" else value
