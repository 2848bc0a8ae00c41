"""A page of the training of an autoencoder: learning curves, and reconstructed images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from candlelight.evaluation.models.autoencoders import ConvVAE
from candlelight.evaluation.report.blocks import (
    Picture,
    PicturesBlock,
    PlotBlock,
    Section,
    TableBlock,
    png_picture,
)
from candlelight.evaluation.report.curves_plot import curves_plot
from candlelight.evaluation.report.page import write_page
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    join_horizontally,
    scale_for_page,
)
from candlelight.evaluation.training.train_causal import CausalHistory
from candlelight.loaders.views import Images

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
