"""A page of a training: learning curves, and scores and pictures of held-out images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from evaluation.intrinsic.score_intrinsic import DecompositionModel, score_intrinsic
from evaluation.models.baselines import BASELINES
from evaluation.models.network import IntrinsicNet
from evaluation.report.blocks import Block, PlotBlock, Section
from evaluation.report.drawing import COLOURS, INK, drawing, to_svg
from evaluation.report.intrinsic_pictures import intrinsic_pictures
from evaluation.report.page import write_page, write_report
from evaluation.training.train_intrinsic import History
from loaders.views import Decompositions


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
    results = score_intrinsic(models, held_out, device=device)
    pictures = [*curves, *intrinsic_pictures(results, models, held_out, device=device)]
    return write_report(
        path, list(results.values()), title="Training", settings=facts, pictures={"lmse": pictures}
    )


def learning_curves(history: History) -> PlotBlock:
    """Plot the loss and, if rows were held out, their LMSE after each epoch.

    Example:
        >>> learning_curves(History((1.0, 0.5), (0.04, 0.02))).svg[:4]
        '<svg'
    """
    panels = [("loss of training", history.training)]
    if history.validation:
        panels.append(("LMSE of held-out images", history.validation))
    with drawing(2.4 * len(panels)) as figure:
        for place, (name, values) in enumerate(panels):
            axes = figure.add_subplot(len(panels), 1, place + 1)
            axes.plot(range(1, len(values) + 1), values, color=COLOURS[place], marker="o", markersize=3)
            axes.set_ylabel(name)
            axes.set_ylim(0 if place else None, None)
            axes.grid(color=INK, alpha=0.15, linewidth=0.6)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epochs")
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in panels)
        return PlotBlock(to_svg(figure, "curves"), f"After {len(history.training)} epochs: {last}.", _CAPTION)


_CAPTION = (
    "Learning curves; lower is better. Losses of different regimes are not comparable, the LMSE of the same "
    "held-out images is."
)
