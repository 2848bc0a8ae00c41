"""Pictures of concept sets, and of the changes that models predict on them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.concepts.cav_diagnostics import resize_linear
from candlelight.evaluation.concepts.set_scores import (
    BRANCHES,
    METRICS,
    UNWANTED,
    WANTED,
    Concept,
    mean_ratio,
)
from candlelight.evaluation.concepts.sets import set_images
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import Block, PicturesBlock, number, png_picture, unbroken
from candlelight.evaluation.report.tiles import (
    evenly_spaced_rows,
    images_block,
    join_horizontally,
    linear_pixels,
    scale_for_page,
    values_text,
)
from candlelight.evaluation.run.named_models import (
    DecompositionModel,
    decode,
    identify_models,
    predict_decomposition,
)
from candlelight.evaluation.run.result import StatisticResult
from candlelight.evaluation.views import ConceptSet, ConceptSets, View
from candlelight.loaders.looking.layer_pixels import Pixels

_GAP = 4
_WHITE = 0.99  # quantile that is shown as white, of both images together


def predicted_changes(
    concept: Concept,
    view: ConceptSets,
    shown: ConceptSet,
    results: Mapping[str, StatisticResult],
    models: Mapping[str, NamedModel],
    *,
    size: tuple[int, int] | None = None,
    device: str = "cpu",
) -> PicturesBlock:
    """Show the first image of a concept set, and the least similar one, with decompositions by all models.

    Args:
        concept: the concept that varies in the set.
        view: the concept sets.
        shown: the set.
        results: results of `candlelight.evaluation.concepts.score_concepts`, by model.
        models: the scored models, by the same names, on ``device``; they run on these two images again.
        size: see `candlelight.evaluation.concepts.score_concepts`.
        device: torch device of the models.

    Raises:
        InputError: a model raised an exception.
    """
    rows = (shown.rows[0], _least_similar(view, shown))
    images = [resize_linear(decode(view[row])[None], size) for row in rows]
    names = " and ".join(view.ids[row] for row in rows)
    pictures = [png_picture(_with_change(images), f"{names}, and their difference.", "image")]
    for name, named in models.items():
        parts = [
            predict_decomposition(named, [view.ids[row]], image, None, device)[:2]
            for row, image in zip(rows, images, strict=True)
        ]
        branches = [_with_change(_exposed([part[place] for part in parts])) for place in range(len(BRANCHES))]
        alt = f"Reflectance and shading of {names} by {name}, and their differences."
        caption = f"{name}: {_scores(concept, shown, results[name])}"
        pictures.append(png_picture(join_horizontally(*branches), alt, caption))
    wanted = WANTED[concept]
    other = UNWANTED[concept]
    return PicturesBlock(
        tuple(pictures),
        f"Predictions while only {concept} changes, reflectance left, shading right: for the first image of "
        "the set, the least similar one, and twice the difference of the two. The "
        f"{wanted} should change and the {other} should not, so its difference should be black. Below: "
        f"aligned sensitivities to this set (ideal: {wanted} 1, {other} 0) and their ratio. Both images have "
        "one scale in each column.",
    )


def _least_similar(view: ConceptSets, shown: ConceptSet) -> int:
    """Find the row of a set with the largest mean difference from its first row."""
    first = view[shown.rows[0]]
    differences = [float((view[row] - first).abs().mean()) for row in shown.rows]
    return shown.rows[differences.index(max(differences))]


def _scores(concept: Concept, shown: ConceptSet, result: StatisticResult) -> str:
    """Write the aligned sensitivities of both branches to the set, and their ratio."""
    scored: list[dict[str, Any]] = result.details["sets"]
    found = next((one for one in scored if one["concept"] == concept and one["fixed"] == shown.fixed), None)
    if found is None:
        return "not scored"
    sensitivities = {branch: found[branch]["aligned"]["sensitivity"] for branch in BRANCHES}
    ratio = mean_ratio(*(np.array([sensitivities[one[concept]]]) for one in (WANTED, UNWANTED)))
    parts = [f"{branch} {number(value)}" for branch, value in sensitivities.items()]
    return ", ".join(unbroken(part) for part in (*parts, f"{METRICS[concept]} {number(ratio)}"))


def _exposed(images: list[Tensor]) -> list[Tensor]:
    """Scale both images by one factor, so that differences of their scale stay visible."""
    white = float(np.quantile(torch.stack(images).numpy(), _WHITE))
    return [image / max(white, 1e-6) for image in images]


def _with_change(images: list[Tensor]) -> UInt8[ndarray, "height width 3"]:
    """Stack two images and twice the absolute difference of their encoded pixels."""
    first, last = (linear_pixels(image[0]).astype(np.int16) for image in images)
    tiles: list[Pixels] = [one.clip(0, 255).astype(np.uint8) for one in (first, last, 2 * abs(first - last))]
    scaled = [scale_for_page(tile) for tile in tiles]
    gap = np.full((_GAP, scaled[0].shape[1], 3), 128, np.uint8)
    return np.concatenate([scaled[0], gap, scaled[1], gap, scaled[2]])


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
