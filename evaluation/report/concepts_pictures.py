"""Pictures for the concepts section: images of a few concept sets, and what models make of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.concepts.set_scores import Concept
from evaluation.intrinsic.score_intrinsic import DecompositionModel
from evaluation.report.blocks import Block, PicturesBlock, png_picture
from evaluation.report.predicted_changes import predicted_changes
from evaluation.report.tiles import encoded_pixels, evenly_spaced_rows, scale_for_page, values_text
from evaluation.results.result import StatisticResult
from evaluation.running.named_models import identify_models
from loaders.views import ConceptSets, View

_SETS, _IMAGES = 2, 6


def concepts_pictures(
    albedo: ConceptSets | None,
    illumination: ConceptSets | None,
    results: Mapping[str, StatisticResult],
    models: Mapping[str, DecompositionModel],
    *,
    others: Sequence[View[Any]] = (),
    size: tuple[int, int] | None = None,
    device: str = "cpu",
) -> list[Block]:
    """Show a few images of a few concept sets with the factors that are fixed, and predictions of all models.

    Args:
        albedo: the albedo sets that `score_concepts` scored.
        illumination: the illumination sets that `score_concepts` scored.
        results: the results of `score_concepts`, by model.
        models: the scored models, which run on two images of each shown set again.
        others: negatives and test frames, whose ids predictions of another program have too.
        size: the size with which `score_concepts` ran.
        device: torch device of the models.

    Returns:
        Two blocks of pictures for each shown set.

    Raises:
        InputError: a model raised an exception.
    """
    views: dict[Concept, ConceptSets | None] = {"albedo": albedo, "illumination": illumination}
    scored = [view for view in views.values() if view is not None]
    named_models = identify_models(models, [*scored, *others], "linear", None)
    blocks: list[Block] = []
    for concept, view in views.items():
        if view is None:
            continue
        for place in evenly_spaced_rows(len(view.sets), _SETS):
            shown = view.sets[place]
            blocks.append(_images(concept, view, place))
            blocks.append(
                predicted_changes(concept, view, shown, results, named_models, size=size, device=device)
            )
    return blocks


def _images(concept: str, view: ConceptSets, place: int) -> PicturesBlock:
    one = view.sets[place]
    rows = [one.rows[place] for place in evenly_spaced_rows(len(one.rows), _IMAGES)]
    pictures = [
        png_picture(scale_for_page(encoded_pixels(view[row])), f"Image {view.ids[row]}.") for row in rows
    ]
    caption = f"{len(rows)} of {len(one.rows)} images of a concept set: only {concept} varies."
    fixed = f" Fixed: {values_text(one.fixed)}." if one.fixed else ""
    return PicturesBlock(tuple(pictures), caption + fixed)
