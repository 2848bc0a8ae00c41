"""Pictures for the intrinsic section: decompositions of the median row and the worst rows."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from evaluation.inputs.ground_truth import GroundTruth, stack_ground_truth
from evaluation.intrinsic.score_intrinsic import DecompositionModel
from evaluation.report.blocks import Block, PicturesBlock, TextBlock, png_picture
from evaluation.report.tables import number, unbroken
from evaluation.report.tiles import join_horizontally, linear_pixels, scale_for_page, scale_mask_for_page
from evaluation.results.result import MeanResult, model_name
from evaluation.running.named_models import identify_models
from evaluation.running.predict_decomposition import predict_decomposition
from loaders.looking.layer_pixels import Pixels
from loaders.looking.sheet import BACKGROUND
from loaders.views import Decompositions

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
) -> list[Block]:
    """Show the decompositions by all models of the first model's median row and worst rows (LMSE).

    Args:
        results: results of `score_intrinsic` by model.
        models: the scored models, which run on these few rows again.
        data: the scored images.
        device: torch device of the models.

    Returns:
        A text, and a block of pictures for each row.

    Raises:
        InputError: a model raised an exception.
    """
    first = next(iter(results.values()))
    named_models = identify_models(models, [data], "linear", first.about.settings["missing"])
    blocks: list[Block] = [TextBlock(_HOW, quiet=True)]
    for label, row in _rows(first):
        truth, name = stack_ground_truth([data[row]]), data.ids[row]
        true = _shown(truth.reflectance, truth.shading, truth)
        pictures = [
            png_picture(scale_for_page(linear_pixels(truth.image[0])), f"Image {name}.", "image"),
            png_picture(true, f"True reflectance and shading of {name}.", "ground truth"),
        ]
        for model, named in named_models.items():
            reflectance, shading, failed = predict_decomposition(
                named, [name], truth.image, truth.mask, device
            )
            given = _shown(*_scaled(reflectance, shading, truth), truth)
            caption = f"{model}: {'failed, ' if failed else ''}{_errors(results[model], row)}"
            pictures.append(png_picture(given, f"Reflectance and shading of {name} by {model}.", caption))
        blocks.append(PicturesBlock(tuple(pictures), f"{name}: {label} LMSE of {model_name(first)}"))
    return blocks


def _rows(result: MeanResult) -> list[tuple[str, int]]:
    """Choose the row of median LMSE and the worst rows among the rows with a defined LMSE."""
    column = np.array(result.columns["lmse"])
    order = [row for row in np.argsort(column, kind="stable").tolist() if np.isfinite(column[row])]
    if not order:
        return []
    middle = order[(len(order) - 1) // 2]
    worst = [row for row in order[::-1] if row != middle][: len(_WORST)]
    return [("median", middle), *zip(_WORST[: len(worst)], worst, strict=True)]


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
