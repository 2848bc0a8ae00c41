"""Images with their factors."""

from itertools import compress

from evaluation.report.blocks import Block, PicturesBlock, png_picture
from evaluation.report.tiles import encoded_pixels, evenly_spaced_rows, scale_for_page, values_text
from loaders.schema import FactorInfo, FactorValue
from loaders.views import Factors

_IMAGES = 6


def causal_pictures(data: Factors) -> list[Block]:
    """Show a few images and the values of their factors.

    Args:
        data: as `score_causal` was given it.

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
    return [
        PicturesBlock(tuple(pictures), f"{len(pictures)} of {len(data)} images, and the factors that vary.")
    ]


def _value(factor: FactorInfo, value: float) -> FactorValue:
    return (factor.values or ())[int(value)] if factor.kind == "categorical" else value
