"""Images of some concept sets."""

from collections.abc import Iterator

from evaluation.report.blocks import Block, Pictures, png_picture
from evaluation.report.tiles import encoded_pixels, fit, spread_rows, values_text
from loaders.views import ConceptSets

SETS, IMAGES = 2, 6


def concepts_pictures(albedo: ConceptSets | None, illumination: ConceptSets | None) -> list[Block]:
    """Show some images of some concept sets: what varies among them, and what is fixed.

    Args:
        albedo: as `score_concepts` was given them.
        illumination: as `score_concepts` was given them.

    Returns:
        Pictures of each set.
    """
    named = (("albedo", albedo), ("illumination", illumination))
    return [block for concept, view in named if view is not None for block in _sets(concept, view)]


def _sets(concept: str, view: ConceptSets) -> Iterator[Pictures]:
    for one in (view.sets[place] for place in spread_rows(len(view.sets), SETS)):
        rows = [one.rows[place] for place in spread_rows(len(one.rows), IMAGES)]
        pictures = [png_picture(fit(encoded_pixels(view[row])), f"Image {view.ids[row]}.") for row in rows]
        caption = f"{len(rows)} of {len(one.rows)} images of a concept set: only {concept} varies."
        fixed = f" Fixed: {values_text(one.fixed)}." if one.fixed else ""
        yield Pictures(tuple(pictures), caption + fixed)
