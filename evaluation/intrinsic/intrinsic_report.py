"""Sections of a report on intrinsic images: errors, judgements, regions, and pictures of decompositions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.intrinsic.alignment import align
from candlelight.evaluation.intrinsic.benchmark_methods import BenchmarkObject, MethodDecomposer
from candlelight.evaluation.intrinsic.benchmark_report import RANK, benchmark_blocks, method_lines
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TextBlock,
)
from candlelight.evaluation.report.drawing import COLOURS, drawing, to_svg
from candlelight.evaluation.report.error_maps import ComparedRow, prediction_blocks
from candlelight.evaluation.report.plain_section import plain_section, score_bars
from candlelight.evaluation.report.tiles import (
    join_horizontally,
    linear_pixels,
    scale_for_page,
)
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.named_models import predict_decomposition
from candlelight.evaluation.run.result import MeanResult, Result, StatisticResult, model_name
from candlelight.loaders.looking.layer_pixels import Pixels

NEEDS = ("lmse", "lmse_reflectance", "lmse_shading")
READING = (
    TextBlock(
        "The errors of predicted reflectance and shading: LMSE (Grosse et al. 2009) in windows of 20 pixels, "
        "with the best scale in each window, and si-MSE, the MSE with the best single scale."
    ),
    TextBlock(
        "↓ Lower is better. 0 is perfect. A prediction of zeros has LMSE 1, and a failed prediction counts "
        "as 1. MSE includes the scale: it is meaningful only for models that predict the scale.",
        term="How to read",
    ),
    TextBlock(
        "colour, and the scale in each window, so errors that vary slowly (LMSE); scale and sign (si-MSE).",
        term="Blind to",
    ),
)


def intrinsic_section(results: Sequence[MeanResult], pictures: Sequence[Block]) -> Section:
    """Report the errors of models on the same data."""
    ranked = benchmark_blocks(results) if all(RANK in result.columns for result in results) else []
    bars = [score_bars(results, name) for name in NEEDS]
    return plain_section("intrinsic", "Intrinsic images", results, (*ranked, *pictures), bars)


_HOW = (
    "Each picture shows reflectance on the left and shading on the right, sRGB-encoded; pixels outside the "
    "mask are dark gray. Each prediction is scaled to the ground truth by least squares, with one factor for "
    "reflectance and one for shading. Shading is divided by the 99th percentile of the true shading. "
    "Maps show the absolute errors of both in linear light, as means of the channels; all maps of an image "
    "have one scale, that of the bar below: from 0 to the largest 99th percentile of the models."
)


def intrinsic_pictures(run: Run[Any], results: Mapping[str, Any]) -> list[Block]:
    """Show the decompositions of a few rows, on which all models run again, with maps of their errors."""
    decompose: MethodDecomposer | None = run.kept.get("decompose")  # by the methods of the benchmark

    def draw(row: int) -> ComparedRow:
        item, name = run.data[row], run.data.ids[row]
        truth, opened = stack_ground_truth([item]), BenchmarkObject(item)
        tiles, errors = {}, {}
        for model in results:
            if decompose is not None and model in decompose.choices:
                reflectance, shading = opened.in_colour(decompose(model, row, opened).decomposition)
            else:
                found = predict_decomposition(
                    run.scored[model], [name], truth.image, truth.mask, run.device, truth.lights
                )
                reflectance, shading = found.reflectance.cpu(), found.shading.cpu()
            scaled = _scaled(reflectance, shading, truth)
            tiles[model], errors[model] = _shown(*scaled, truth), _error_maps(*scaled, truth)
        image, true = scale_for_page(linear_pixels(truth.image[0])), (truth.reflectance, truth.shading)
        return ComparedRow(image, _shown(*true, truth), tiles, errors, truth.mask[0])

    blocks = prediction_blocks(run, results, NEEDS[1:], draw)
    return [TextBlock(_HOW, quiet=True), *blocks]


def _scaled(reflectance: Tensor, shading: Tensor, truth: GroundTruth) -> tuple[Tensor, Tensor]:
    """Scale both images to the ground truth by least squares; average shading if the true shading is gray."""
    if truth.shading.shape[1] == 1:
        shading = shading.mean(1, keepdim=True)
    pairs = (reflectance, truth.reflectance), (shading, truth.shading)
    first, second = (align(*pair, truth.mask, "scale") for pair in pairs)
    return first, second


def _white(truth: GroundTruth) -> Tensor:
    """Compute the 99th percentile of the true shading, by which shading is divided."""
    inside = truth.shading[0][:, truth.mask[0]]
    return torch.as_tensor(np.quantile(inside.numpy(), 0.99) if inside.numel() else 1.0).clamp(min=1e-6)


def _error_maps(reflectance: Tensor, shading: Tensor, truth: GroundTruth) -> list[Tensor]:
    """Compute the absolute errors of the channels of both images, of shading those that are known."""
    of_shading = (truth.comparable(shading) - truth.comparable(truth.shading)) / _white(truth)
    return [one[0].abs().mean(0) for one in (reflectance - truth.reflectance, of_shading)]


def _shown(reflectance: Tensor, shading: Tensor, truth: GroundTruth) -> Pixels:
    """Join reflectance and shading."""
    parts = reflectance, shading / _white(truth)
    return join_horizontally(*(scale_for_page(linear_pixels(part[0]), truth.mask[0]) for part in parts))


WHDR_READING = (
    TextBlock(
        "WHDR (Bell et al. 2014) is the weighted share of comparisons of two points that the predicted "
        "reflectance contradicts: which of the two is darker, or whether they are equal."
    ),
    TextBlock("↓ Lower is better; 0 is perfect. A failed prediction counts as 1.", term="How to read"),
    TextBlock("all pixels that are not compared, scale, colour, and shading.", term="Blind to"),
)
SAW_READING = (
    TextBlock(
        "The average precision of smooth pixels (Kovacs et al. 2017) tells how well the gradient of the "
        "predicted shading separates pixels of smooth shading from edges of surfaces and shadows."
    ),
    TextBlock(
        "↑ Higher is better; the maximum is 1. Numbers of two variants are not comparable.",
        term="How to read",
    ),
    TextBlock("reflectance, and all pixels without a label.", term="Blind to"),
)
MAW_READING = (
    TextBlock(
        "Measured Albedo in the Wild (Wu et al. 2023): errors of the mean colour of regions of one material, "
        "in intensity after one scale for each image, and in chromaticity as CIEDE2000."
    ),
    TextBlock("↓ Lower is better; 0 is perfect.", term="How to read"),
    TextBlock("everything within a region, and all pixels outside the regions.", term="Blind to"),
)
CONSTANCY_READING = (
    TextBlock(
        "Illumination constancy: how much the predicted reflectance of the same material varies over lights "
        "(c_mat, chroma_drift), and how much of the chroma between materials is lost (chroma_loss)."
    ),
    TextBlock(
        "↓ Lower is better in all columns together: the controls `gray` and `constant` show that a model "
        "without colours, or without contrast, has a low drift too.",
        term="How to read",
    ),
    TextBlock("the true reflectance, but for its chroma.", term="Blind to"),
)


def _curves(results: Sequence[Result]) -> PlotBlock:
    with drawing(3.4) as figure:
        axes = figure.subplots()
        for place, result in enumerate(results):
            assert isinstance(result, StatisticResult)  # the page checks it
            recall, precision = (result.details[name] for name in ("recall", "precision"))
            colour = COLOURS[place % len(COLOURS)]
            axes.plot(_numbers(recall), _numbers(precision), color=colour, label=model_name(result))
        axes.set_xlabel("recall of smooth pixels")
        axes.set_ylabel("precision")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.legend(loc="lower left")
        svg = to_svg(figure, "saw")
    return PlotBlock(
        svg,
        "Curves of precision against recall, one for each model.",
        "Precision and recall of smooth pixels: the higher the curve, the better. saw_ap is the area "
        "below it.",
    )


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


def saw_section(results: Sequence[Result], pictures: Sequence[Block]) -> Section:
    """Report average precisions on the same data, with their curves."""
    return plain_section("saw", "Labels of shading", results, pictures, [_curves(results)])


LMSE_PAGE = Page(section=intrinsic_section, reading=READING, needs=NEEDS, pictures=intrinsic_pictures)
METHODS_PAGE = replace(LMSE_PAGE, lines=method_lines)
WHDR_PAGE = Page(
    section=partial(plain_section, "whdr", "Comparisons of reflectance"),
    reading=WHDR_READING,
    needs=("whdr",),
)
SAW_PAGE = Page(section=saw_section, reading=SAW_READING, needs=("recall", "precision"))
MAW_PAGE = Page(
    section=partial(plain_section, "maw", "Measured albedo"), reading=MAW_READING, needs=("maw_intensity",)
)
CONSTANCY_PAGE = Page(
    section=partial(plain_section, "constancy", "Illumination constancy"),
    reading=CONSTANCY_READING,
    needs=("c_mat", "chroma_drift"),
)
