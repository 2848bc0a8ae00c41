"""Pictures for the intrinsic section: decompositions of the median row and the worst rows."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from candlelight.evaluation.benchmark.candidate_scores import BenchmarkObject
from candlelight.evaluation.benchmark.decompose_methods import MethodDecomposer
from candlelight.evaluation.inputs.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.intrinsic.score_intrinsic import DecompositionModel
from candlelight.evaluation.report.blocks import Block, PicturesBlock, TextBlock, png_picture
from candlelight.evaluation.report.tables import number, unbroken
from candlelight.evaluation.report.tiles import (
    join_horizontally,
    linear_pixels,
    scale_for_page,
    scale_mask_for_page,
)
from candlelight.evaluation.results.result import MeanResult, model_name
from candlelight.evaluation.running.named_models import identify_models
from candlelight.evaluation.running.predict_decomposition import predict_decomposition
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet import BACKGROUND
from candlelight.loaders.views import Decompositions

_WORST = ("largest", "second largest")  # LMSE
_HOW = (
    "Each picture shows reflectance on the left and shading on the right, sRGB-encoded; pixels outside the "
    "mask are dark gray. Each prediction is scaled to the ground truth by least squares, with one factor for "
    "reflectance and one for shading. Shading is divided by the 99th percentile of the true shading."
)


def intrinsic_pictures(
    results: Mapping[str, MeanResult],
    models: Mapping[str, DecompositionModel],
    data: Decompositions,
    *,
    device: str = "cpu",
    decompose: MethodDecomposer | None = None,
) -> list[Block]:
    """Show the decompositions by all models of a median row and the worst rows.

    Rows are chosen by the LMSE of the first model. If methods of the benchmark were run, rows are chosen by
    the mean over all results: the best, the median and the worst one.

    Args:
        results: results of `score_intrinsic`, and of `candlelight.evaluation.benchmark.score_methods`, by
            model.
        models: the scored models, which run on these few rows again.
        data: the scored images.
        device: torch device of the models.
        decompose: decomposes rows by the methods of the benchmark.

    Returns:
        A text, and a block of pictures for each row.

    Raises:
        InputError: a model raised an exception.
    """
    first = next(iter(results.values()))
    missing = first.about.settings["missing"]
    named_models = identify_models(models, [data], "linear", missing) if models else {}
    blocks: list[Block] = [TextBlock(_HOW, quiet=True)]
    for label, row in _worst_rows(first) if decompose is None else _typical_rows(results):
        item, name = data[row], data.ids[row]
        truth = stack_ground_truth([item])
        true = _shown(truth.reflectance, truth.shading, truth)
        pictures = [
            png_picture(scale_for_page(linear_pixels(truth.image[0])), f"Image {name}.", "image"),
            png_picture(true, f"True reflectance and shading of {name}.", "ground truth"),
        ]
        opened = BenchmarkObject(item)
        for model, result in results.items():
            failed = name in result.failed
            if decompose is not None and model in decompose.choices:
                reflectance, shading = opened.in_colour(decompose(model, row, opened).decomposition)
            else:
                reflectance, shading, _ = predict_decomposition(
                    named_models[model], [name], truth.image, truth.mask, device, truth.lights
                )
            given = _shown(*_scaled(reflectance, shading, truth), truth)
            caption = f"{model}: {'failed, ' if failed else ''}{_errors(result, row)}"
            pictures.append(png_picture(given, f"Reflectance and shading of {name} by {model}.", caption))
        blocks.append(PicturesBlock(tuple(pictures), f"{name}: {label}"))
    return blocks


def _typical_rows(results: Mapping[str, MeanResult]) -> list[tuple[str, int]]:
    """Choose the rows of the lowest, the median and the highest LMSE, as a mean over all results."""
    means = np.mean([result.columns["lmse"] for result in results.values()], 0)
    order = [row for row in np.argsort(means, kind="stable").tolist() if np.isfinite(means[row])]
    places = {"lowest": 0, "median": (len(order) - 1) // 2, "highest": len(order) - 1} if order else {}
    rows = {order[place]: label for label, place in places.items()}
    return [(f"{label} LMSE, mean over all methods", row) for row, label in rows.items()]


def _worst_rows(result: MeanResult) -> list[tuple[str, int]]:
    """Choose the row of median LMSE and the worst rows among the rows with a defined LMSE."""
    column = np.array(result.columns["lmse"])
    order = [row for row in np.argsort(column, kind="stable").tolist() if np.isfinite(column[row])]
    if not order:
        return []
    middle = order[(len(order) - 1) // 2]
    worst = [row for row in order[::-1] if row != middle][: len(_WORST)]
    labels = zip(("median", *_WORST), (middle, *worst), strict=False)
    return [(f"{label} LMSE of {model_name(result)}", row) for label, row in labels]


def _errors(result: MeanResult, row: int) -> str:
    names = ("reflectance", "shading")
    parts = (unbroken(f"{name} {number(result.columns[f'lmse_{name}'][row])}") for name in names)
    return f"LMSE {', '.join(parts)}"


def _scaled(reflectance: Tensor, shading: Tensor, truth: GroundTruth) -> tuple[Tensor, Tensor]:
    """Scale both images to the ground truth by least squares; average shading if the true shading is gray."""
    if truth.shading.shape[1] == 1:
        shading = shading.mean(1, keepdim=True)
    mask = truth.mask[0]

    def nearest(given: Tensor, true: Tensor) -> Tensor:
        inside = given[0][:, mask].double()
        factor = (inside * true[0][:, mask]).sum() / inside.square().sum().clamp(min=1e-20)
        return given * float(factor)

    return nearest(reflectance, truth.reflectance), nearest(shading, truth.shading)


def _shown(reflectance: Tensor, shading: Tensor, truth: GroundTruth) -> Pixels:
    """Join reflectance and shading; shading is divided by the 99th percentile of the true shading."""
    inside = truth.shading[0][:, truth.mask[0]]
    white = torch.as_tensor(np.quantile(inside.numpy(), 0.99) if inside.numel() else 1.0).clamp(min=1e-6)
    tiles = [scale_for_page(linear_pixels(part[0])) for part in (reflectance, shading / white)]
    for tile in tiles:
        tile[~scale_mask_for_page(truth.mask[0])] = BACKGROUND
    return join_horizontally(*tiles)
