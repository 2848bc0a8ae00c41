"""Pages of a training: curves, and pictures of the trained model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.ticker import MaxNLocator

from candlelight.evaluation.catalogue.intrinsic_options import LMSEOptions
from candlelight.evaluation.intrinsic.intrinsic_records import LMSE
from candlelight.evaluation.intrinsic.intrinsic_report import intrinsic_pictures
from candlelight.evaluation.models.autoencoders import ConvVAE
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.evaluation.report.blocks import (
    Block,
    Picture,
    PicturesBlock,
    PlotBlock,
    Section,
    TableBlock,
    png_picture,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, to_svg
from candlelight.evaluation.report.page import write_page, write_report
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    join_horizontally,
    scale_for_page,
)
from candlelight.evaluation.run.evaluate import score, start
from candlelight.evaluation.run.named_models import DecompositionModel
from candlelight.evaluation.training.train_causal import CausalHistory
from candlelight.evaluation.training.train_intrinsic import History
from candlelight.evaluation.views import Decompositions, Images


def curves_plot(
    panels: Sequence[tuple[str, Sequence[float], float | None]],
    places: Sequence[int],
    unit: str,
    caption: str,
) -> PlotBlock:
    """Plot learning curves below each other.

    Args:
        panels: name, values and lower end of the axis (None for any) of each curve.
        places: number of epochs or steps at each value.
        unit: "epochs" or "steps".
        caption: caption of the plot.

    Example:
        >>> curves_plot([("loss", (1.0, 0.5), None)], (1, 2), "epochs", "").alt
        'After 2 epochs: loss 0.5.'
    """
    with drawing(2.4 * len(panels)) as figure:
        for place, (name, values, low) in enumerate(panels):
            axes = figure.add_subplot(len(panels), 1, place + 1)
            axes.plot(places, values, color=COLOURS[place % len(COLOURS)], marker="o", markersize=3)
            axes.set_ylabel(name)
            axes.set_ylim(low, None)
            axes.grid(color=INK, alpha=0.15, linewidth=0.6)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(unit)
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values, _ in panels)
        return PlotBlock(to_svg(figure, "curves"), f"After {places[-1]} {unit}: {last}.", caption)


def write_training_page(
    path: Path,
    network: IntrinsicNet,
    history: History,
    held_out: Decompositions | None,
    settings: Mapping[str, Any],
    device: str = "cpu",
) -> Path:
    """Write a page of a training.

    Args:
        path: the HTML file, which is replaced atomically.
        network: the trained network, on ``device``.
        history: its learning curves.
        held_out: images that were not trained on, to score and to show beside the trivial decompositions;
            None for learning curves alone.
        settings: arguments of `train_intrinsic`, for the table of settings.
        device: torch device.

    Returns:
        ``path``.

    Raises:
        InputError: the file cannot be written.
    """
    curves: list[Block] = [learning_curves(history)]
    facts = {name: str(value) for name, value in settings.items() if value is not None}
    if held_out is None:
        section = Section("training", "Learning curves", tuple(curves))
        write_page(path, "Training", [section])
        return path
    models: dict[str, DecompositionModel] = {"network": network, **BASELINES}
    run = start(LMSE, LMSEOptions(), {"data": held_out}, models, device)
    results = score(run)
    pictures = [*curves, *intrinsic_pictures(run, results)]
    return write_report(
        path, list(results.values()), title="Training", settings=facts, pictures={"lmse": pictures}
    )


def learning_curves(history: History) -> PlotBlock:
    """Plot the loss and, if rows were held out, their LMSE after each epoch.

    Example:
        >>> learning_curves(History((1.0, 0.5), (0.04, 0.02))).svg[:4]
        '<svg'
    """
    panels: list[tuple[str, Sequence[float], float | None]] = [("loss of training", history.training, None)]
    if history.validation:
        panels.append(("LMSE of held-out images", history.validation, 0))
    return curves_plot(panels, range(1, len(history.training) + 1), "epochs", _CAPTION)


_CAPTION = (
    "Learning curves; lower is better. Losses of different regimes are not comparable, the LMSE of the same "
    "held-out images is."
)


_SHOWN = 12


def write_causal_page(
    path: Path,
    network: ConvVAE,
    history: CausalHistory,
    images: Images,
    rows: Sequence[int],
    settings: Mapping[str, Any],
) -> Path:
    """Write a page of a training.

    Args:
        path: the HTML file, which is replaced atomically.
        network: the trained network.
        history: its learning curves.
        images: the images.
        rows: rows of which some are shown beside their reconstructions, held-out ones if there are any.
        settings: settings for the table.

    Returns:
        ``path``.

    Raises:
        InputError: the file cannot be written.
    """
    facts = tuple((name, str(value)) for name, value in settings.items() if value is not None)
    shown = [_picture(network, images, rows[place]) for place in evenly_spaced_rows(len(rows), _SHOWN)]
    blocks = (
        causal_curves(history),
        PicturesBlock(tuple(shown), "Images, each left of the image decoded from the means of its codes."),
        TableBlock("Settings.", ("setting", "value"), facts, folded=True),
    )
    write_page(path, "Training", [Section("training", "Learning curves", blocks)])
    return path


def causal_curves(history: CausalHistory) -> PlotBlock:
    """Plot the terms of the loss and, if rows were held out, the error of their reconstructions.

    Example:
        >>> causal_curves(CausalHistory((5,), (3.0,), {"kl": (1.0,)}, (), None)).alt
        'After 5 steps: loss 3, kl 1.'
    """
    panels: list[tuple[str, Sequence[float], float | None]] = [("loss", history.training, None)]
    panels += [(name, values, None) for name, values in history.terms.items()]
    caption = "Mean terms of the loss before their weights."
    if history.targets:
        caption += f" The first codes learn {', '.join(history.targets)} from labels."
    if history.validation:
        panels.append(("squared error of held-out images", history.validation, 0))
        caption += (
            f" A reconstruction by the mean of the held-out images has the error {history.constant:.5f}."
        )
    return curves_plot(panels, history.steps, "steps", caption)


def _picture(network: ConvVAE, images: Images, row: int) -> Picture:
    image = images[row]
    with torch.no_grad():
        device = next(network.parameters()).device
        decoded = network.decode(network(image[None].to(device)))[0].cpu()
    pixels = [scale_for_page(encoded_pixels(one)) for one in (image, decoded)]
    return png_picture(join_horizontally(*pixels), f"Image {images.ids[row]} and its reconstruction.")
