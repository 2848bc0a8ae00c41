"""A page of a training: learning curves, and scores and pictures of held-out images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from candlelight.evaluation.intrinsic.score_intrinsic import DecompositionModel, score_intrinsic
from candlelight.evaluation.models.baselines import BASELINES
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.report.blocks import Block, PlotBlock, Section
from candlelight.evaluation.report.curves_plot import curves_plot
from candlelight.evaluation.report.intrinsic_pictures import intrinsic_pictures
from candlelight.evaluation.report.page import write_page, write_report
from candlelight.evaluation.training.train_intrinsic import History
from candlelight.loaders.views import Decompositions


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
    panels: list[tuple[str, Sequence[float], float | None]] = [("loss of training", history.training, None)]
    if history.validation:
        panels.append(("LMSE of held-out images", history.validation, 0))
    return curves_plot(panels, range(1, len(history.training) + 1), "epochs", _CAPTION)


_CAPTION = (
    "Learning curves; lower is better. Losses of different regimes are not comparable, the LMSE of the same "
    "held-out images is."
)
