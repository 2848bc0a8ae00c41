"""Pictures of concept sets and of the changes that models predict on them; the text of the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.concepts_options import CSMOptions
from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.concepts.concepts_report import NEEDS, READING, concepts_section
from candlelight.evaluation.concepts.probe import resize_linear
from candlelight.evaluation.concepts.set_scores import (
    BRANCHES,
    CONTROLLED,
    METRICS,
    UNWANTED,
    WANTED,
    Concept,
    mean_ratio,
)
from candlelight.evaluation.concepts.sets import set_images
from candlelight.evaluation.report.blocks import Block, PicturesBlock, number, png_picture, unbroken
from candlelight.evaluation.report.tiles import (
    evenly_spaced_rows,
    images_block,
    join_horizontally,
    linear_pixels,
    scale_for_page,
    values_text,
)
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.named_models import predict_decomposition
from candlelight.evaluation.run.result import StatisticResult, model_name, table
from candlelight.evaluation.views import ConceptSet, ConceptSets
from candlelight.evaluation.views.image_tensors import decode
from candlelight.loaders.looking.layer_pixels import Pixels

_GAP = 4
_WHITE = 0.99  # quantile that is shown as white, of both images together


def _predicted_changes(
    run: Run[CSMOptions],
    concept: Concept,
    view: ConceptSets,
    shown: ConceptSet,
    results: Mapping[str, StatisticResult],
) -> PicturesBlock:
    """Show the first image of a concept set, and the least similar one, with decompositions by all models."""
    rows = (shown.rows[0], _least_similar(view, shown))
    images = [resize_linear(decode(view[row])[None], run.options.size) for row in rows]
    names = " and ".join(view.ids[row] for row in rows)
    pictures = [png_picture(_with_change(images), f"{names}, and their difference.", "image")]
    for name, one in run.kept["models"].items():
        found = [
            predict_decomposition(one.named, [view.ids[row]], image.to(run.device), None, run.device)
            for row, image in zip(rows, images, strict=True)
        ]
        parts = [(made.reflectance.cpu(), made.shading.cpu()) for made in found]
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


def csm_pictures(run: Run[CSMOptions], results: Mapping[str, StatisticResult]) -> list[Block]:
    """Show a few images of a few concept sets with the factors that are fixed, and predictions of all models.

    Args:
        run: the run of `CONCEPT_SENSITIVITY`, whose models run on two images of each shown set again.
        results: its results, by model.

    Returns:
        Two blocks of pictures for each shown set.

    Raises:
        InputError: a model raised an exception.
    """
    views: dict[Concept, ConceptSets | None] = {
        "albedo": run.data.albedo,
        "illumination": run.data.illumination,
    }
    blocks: list[Block] = []
    for concept, view in views.items():
        if view is None:
            continue
        for place in evenly_spaced_rows(len(view.sets), _SETS):
            shown = view.sets[place]
            fixed = f" Fixed: {values_text(shown.fixed)}." if shown.fixed else ""
            text = f"a concept set: only {concept} varies.{fixed}"
            blocks += [images_block(set_images(view, shown), text)]
            blocks += [_predicted_changes(run, concept, view, shown, results)]
    return blocks


def csm_lines(results: Sequence[StatisticResult]) -> list[str]:
    """Word the scores against single controls, and compare the first model with each other one.

    Each verdict names the score and the reference that it stands on: the controls where there are any, and
    otherwise the negatives. CSM_S and CSM_R are compared apart, because they may disagree.
    Planted decompositions are left out.

    Args:
        results: results of `CONCEPT_SENSITIVITY` on the same data.
    """
    models = [result for result in results if result.about.model.get("source") != "planted"]
    lines = [line for result in models for line in _spread(result)]
    for column in _columns(models[0]):
        reference = "controls" if CONTROLLED in column else "negatives"
        for other in models[1:]:
            verdict, numbers = str(compare(models[0], other, column)).split("\n")
            names, colon, reason = verdict.partition(": ")
            lines += [f"{names}, by {column.partition(' ')[0]} against {reference}{colon}{reason}", numbers]
    return lines


def _columns(result: StatisticResult) -> list[str]:
    """Choose a score of each metric: aligned, all sets, against controls if there are any."""
    names = (
        [f"{metric} aligned{reference}, all sets" for reference in (CONTROLLED, "")]
        for metric in METRICS.values()
    )
    found = [[name for name in some if name in result.scores] for some in names]
    return [some[0] for some in found if some]


def _spread(result: StatisticResult) -> list[str]:
    """Word the least and the largest score of a single control."""
    lines = []
    for column in _columns(result):
        scores = result.details["by_control"].get(column, {})
        known = {name: float(score) for name, score in scores.items() if score is not None}
        if len(known) > 1:
            least, largest = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
            lines.append(
                f"{model_name(result)}: {column} is {known[least]:.4g} against {least} alone and "
                f"{known[largest]:.4g} against {largest}, of {len(scores)} controls"
            )
    return lines


CSM_PAGE = Page(
    section=concepts_section,
    reading=READING,
    needs=NEEDS,
    pictures=csm_pictures,
    lines=lambda results: [table(results), *csm_lines(results)],
)
