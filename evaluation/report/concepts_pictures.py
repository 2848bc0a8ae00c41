"""Pictures for the concepts section: images of a few concept sets."""

from collections.abc import Iterator

from evaluation.report.blocks import Block, PicturesBlock, png_picture
from evaluation.report.tiles import encoded_pixels, evenly_spaced_rows, scale_for_page, values_text
from loaders.views import ConceptSets

_SETS, _IMAGES = 2, 6


def concepts_pictures(albedo: ConceptSets | None, illumination: ConceptSets | None) -> list[Block]:
    """Show a few images of a few concept sets, with the factors that are fixed.

    Args:
        albedo: the albedo sets that `score_concepts` scored.
        illumination: the illumination sets that `score_concepts` scored.

    Returns:
        A block of pictures for each shown set.
    """
    named = (("albedo", albedo), ("illumination", illumination))
    return [block for concept, view in named if view is not None for block in _sets(concept, view)]


def _sets(concept: str, view: ConceptSets) -> Iterator[PicturesBlock]:
    for one in (view.sets[place] for place in evenly_spaced_rows(len(view.sets), _SETS)):
        rows = [one.rows[place] for place in evenly_spaced_rows(len(one.rows), _IMAGES)]
        pictures = [
            png_picture(scale_for_page(encoded_pixels(view[row])), f"Image {view.ids[row]}.") for row in rows
        ]
        caption = f"{len(rows)} of {len(one.rows)} images of a concept set: only {concept} varies."
        fixed = f" Fixed: {values_text(one.fixed)}." if one.fixed else ""
        yield PicturesBlock(tuple(pictures), caption + fixed)
