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
    PicturesBlock,
    PlotBlock,
    Section,
    TextBlock,
    note,
    number,
    png_picture,
    scores_table,
    settings_table,
    unbroken,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, draw_bars, drawing, label_rows, to_svg
from candlelight.evaluation.report.error_maps import error_tiles, shown_rows
from candlelight.evaluation.report.plain_section import plain_section
from candlelight.evaluation.report.row_tables import row_tables
from candlelight.evaluation.report.tiles import (
    join_horizontally,
    linear_pixels,
    scale_for_page,
    scale_mask_for_page,
)
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.named_models import predict_decomposition
from candlelight.evaluation.run.result import MeanResult, Result, StatisticResult, model_name
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet_tiles import BACKGROUND

NEEDS = ("lmse", "lmse_reflectance", "lmse_shading")
READING = (
    TextBlock(
        "The errors of predicted reflectance and shading: LMSE (Grosse et al. 2009) in windows of 20 pixels, "
        "with the best scale in each window, and si-MSE, the MSE with the best single scale."
    ),
    TextBlock(
        "↓ Lower is better. 0 is perfect. A prediction of zeros has LMSE 1, and a failed prediction counts "
        "as 1.",
        term="How to read",
    ),
    TextBlock(
        "colour, and the scale in each window, so errors that vary slowly (LMSE); scale and sign (si-MSE).",
        term="Blind to",
    ),
)


def intrinsic_section(results: Sequence[MeanResult], pictures: Sequence[Block]) -> Section:
    """Report the errors of models on the same data."""
    notes = [note for result in results for note in _notes(result)]
    notes.append("MSE includes the scale: it is meaningful only for models that predict the scale.")
    caption = "Error of each model: mean over rows, with 95 % intervals over groups of rows"
    means = ", ".join(f"{model_name(result)} {number(result.score)}" for result in results)
    plot = PlotBlock(
        _draw(results),
        f"Bars of LMSE for reflectance and shading of each model. Mean of both: {means}.",
        "LMSE by model. Whiskers are 95 % intervals; vertical lines are means of reflectance and shading.",
    )
    scores = scores_table(caption, results, models_as_rows=True)
    ranked = benchmark_blocks(results) if all(RANK in result.columns for result in results) else []
    rows = *row_tables(results), settings_table(results)
    blocks = (scores, *map(note, notes), plot, *ranked, *pictures, *rows)
    return Section("intrinsic", "Intrinsic images", blocks)


def _notes(result: MeanResult) -> list[str]:
    """Report the numbers of failed rows and of rows with undefined ground truth."""
    name, notes = model_name(result), []
    if result.failed:
        notes.append(
            f"{name}: {len(result.failed)} of {len(result.ids)} predictions failed (missing or not finite) "
            f"and count as LMSE 1. The LMSE of the other rows is {number(result.mean_of_rest['lmse'])}."
        )
    if result.undefined:
        notes.append(
            f"{name}: {result.undefined} of {len(result.ids)} rows are left out, because LMSE is not "
            "defined: the ground truth is 0 or masked in every window."
        )
    return notes


def _draw(results: Sequence[MeanResult]) -> str:
    pairs = [[result.scores["lmse_reflectance"], result.scores["lmse_shading"]] for result in results]
    means = np.array([[score.value for score in pair] for pair in pairs])
    ends = np.array(
        [[(score.value - score.low, score.high - score.value) for score in pair] for pair in pairs]
    )
    with drawing(1.0 + 0.6 * len(results)) as figure:
        axes = figure.subplots()
        draw_bars(axes, means, ("reflectance", "shading"), ends)
        for row, result in enumerate(results):
            axes.plot([result.score] * 2, [row - 0.42, row + 0.42], color=INK, linewidth=2)
        label_rows(axes, [model_name(result) for result in results])
        axes.set_xlabel("LMSE")
        return to_svg(figure, "lmse")


_HOW = (
    "Each picture shows reflectance on the left and shading on the right, sRGB-encoded; pixels outside the "
    "mask are dark gray. Each prediction is scaled to the ground truth by least squares, with one factor for "
    "reflectance and one for shading. Shading is divided by the 99th percentile of the true shading. "
    "Maps show the absolute errors of both in linear light, as means of the channels; all maps of an image "
    "have one scale, that of the bar below: from 0 to the largest 99th percentile of the models."
)


def intrinsic_pictures(run: Run[Any], results: Mapping[str, Any]) -> list[Block]:
    """Show the decompositions by all models, with maps of their errors, of the rows that were asked for.

    Others than those of ``run.shown`` are a median row and the worst rows by the LMSE of the first model. If
    methods of the benchmark were run, rows are chosen by the mean over all results: the best, the median and
    the worst one.

    Args:
        run: the run, whose models run on these few rows again; ``run.kept["decompose"]`` decomposes rows by
            the methods of the benchmark.
        results: its results.

    Returns:
        A text, and a block of pictures for each row.

    Raises:
        InputError: a model raised an exception.
    """
    decompose: MethodDecomposer | None = run.kept.get("decompose")
    blocks: list[Block] = [TextBlock(_HOW, quiet=True)]
    many, (first, *_) = decompose is not None, results.values()
    column = np.mean(
        [one.columns["lmse"] for one in results.values()] if many else [first.columns["lmse"]], 0
    )
    what = "LMSE, mean over all methods" if many else f"LMSE of {model_name(first)}"
    usual = ("best", "median", "worst") if many else ("median", "worst", "second worst")
    for label, row in shown_rows(run.shown or usual, run.data.ids, column.tolist(), "lower", what):
        item, name = run.data[row], run.data.ids[row]
        truth = stack_ground_truth([item])
        true = _shown(truth.reflectance, truth.shading, truth)
        captions, tiles, errors = [], [], []
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
                found = predict_decomposition(
                    run.scored[model], [name], truth.image, truth.mask, run.device, truth.lights
                )
                reflectance, shading = found.reflectance.cpu(), found.shading.cpu()
            scaled = _scaled(reflectance, shading, truth)
            tiles.append(_shown(*scaled, truth))
            errors += _error_maps(*scaled, truth)
            captions.append(f"{model}: {'failed, ' if failed else ''}{_errors(result, row)}")
        maps, reach = error_tiles(errors, truth.mask[0])
        for place, model in enumerate(results):
            alt = f"Reflectance and shading of {name} by {model}."
            pictures.append(png_picture(tiles[place], alt, captions[place]))
            joined = join_horizontally(*maps[2 * place : 2 * place + 2])
            pictures.append(png_picture(joined, f"Errors of {model} on {name}.", f"absolute errors, {reach}"))
        blocks.append(PicturesBlock(tuple(pictures), f"{name}: {label}"))
    return blocks


def _errors(result: MeanResult, row: int) -> str:
    names = ("reflectance", "shading")
    parts = (unbroken(f"{name} {number(result.columns[f'lmse_{name}'][row])}") for name in names)
    return f"LMSE {', '.join(parts)}"


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
    tiles = [scale_for_page(linear_pixels(part[0])) for part in (reflectance, shading / _white(truth))]
    for tile in tiles:
        tile[~scale_mask_for_page(truth.mask[0])] = BACKGROUND
    return join_horizontally(*tiles)


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
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        axes.legend(loc="lower left")
        svg = to_svg(figure, "saw")
    return PlotBlock(
        svg,
        "Curves of precision against recall, one for each model.",
        "Precision and recall of smooth pixels.",
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
