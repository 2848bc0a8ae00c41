"""Pictures for the concepts section: images of a few concept sets, and what models make of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from candlelight.evaluation.concepts.set_images import set_images
from candlelight.evaluation.concepts.set_scores import Concept
from candlelight.evaluation.intrinsic.score_intrinsic import DecompositionModel
from candlelight.evaluation.report.blocks import Block
from candlelight.evaluation.report.images_block import images_block
from candlelight.evaluation.report.predicted_changes import predicted_changes
from candlelight.evaluation.report.tiles import evenly_spaced_rows, values_text
from candlelight.evaluation.results.result import StatisticResult
from candlelight.evaluation.running.named_models import identify_models
from candlelight.loaders.views import ConceptSets, View

_SETS = 2


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
            fixed = f" Fixed: {values_text(shown.fixed)}." if shown.fixed else ""
            blocks.append(
                images_block(set_images(view, shown), f"a concept set: only {concept} varies.{fixed}")
            )
            blocks.append(
                predicted_changes(concept, view, shown, results, named_models, size=size, device=device)
            )
    return blocks
