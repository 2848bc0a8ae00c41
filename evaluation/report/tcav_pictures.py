"""Pictures for the TCAV section: a few images of each concept."""

from collections.abc import Mapping

from evaluation.report.blocks import PicturesBlock, png_picture
from evaluation.report.tiles import encoded_pixels, evenly_spaced_rows, scale_for_page
from loaders.views import Images

_IMAGES = 6


def tcav_pictures(concepts: Mapping[str, Images]) -> list[PicturesBlock]:
    """Show a few images of each concept.

    Args:
        concepts: the concepts that `score_tcav` scored, by name.

    Returns:
        A block of pictures for each concept.
    """
    blocks = []
    for name, view in concepts.items():
        rows = evenly_spaced_rows(len(view.ids), _IMAGES)
        pictures = [
            png_picture(scale_for_page(encoded_pixels(view[row])), f"Image {view.ids[row]}.") for row in rows
        ]
        caption = f"{len(rows)} of {len(view.ids)} images of the concept {name}."
        blocks.append(PicturesBlock(tuple(pictures), caption))
    return blocks
