"""A few images of a view in a row, such as those of a concept."""

from candlelight.evaluation.report.blocks import PicturesBlock, png_picture
from candlelight.evaluation.report.tiles import encoded_pixels, evenly_spaced_rows, scale_for_page
from candlelight.loaders.views import Images

_SHOWN = 6


def images_block(images: Images, text: str) -> PicturesBlock:
    """Show at most six images at equal distances.

    Args:
        images: a view of sRGB-encoded images.
        text: end of the caption "6 of 20 images of ...".
    """
    rows = evenly_spaced_rows(len(images.ids), _SHOWN)
    pictures = (
        png_picture(scale_for_page(encoded_pixels(images[row])), f"Image {images.ids[row]}.") for row in rows
    )
    return PicturesBlock(tuple(pictures), f"{len(rows)} of {len(images.ids)} images of {text}")
