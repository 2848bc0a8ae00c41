"""Trainings on data by name, as ``candlelight train`` runs them: rows, network, weights, pages and lines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.ticker import MaxNLocator

from candlelight.evaluation.catalogue.intrinsic_options import LMSEOptions
from candlelight.evaluation.catalogue.training_options import (
    CausalCommand,
    CausalTraining,
    ClassifierCommand,
    ClassifierTraining,
    IntrinsicCommand,
    IntrinsicTraining,
)
from candlelight.evaluation.intrinsic.intrinsic_records import LMSE
from candlelight.evaluation.intrinsic.intrinsic_report import intrinsic_pictures
from candlelight.evaluation.models import save_model
from candlelight.evaluation.models.autoencoders import ConvVAE, save_autoencoder
from candlelight.evaluation.models.build_backbone import build_backbone, load_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, save_classifier
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.evaluation.report.blocks import (
    Picture,
    PicturesBlock,
    PlotBlock,
    Section,
    TableBlock,
    png_picture,
)
from candlelight.evaluation.report.drawing import COLOURS, drawing, to_svg
from candlelight.evaluation.report.page import write_page, write_report
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    join_horizontally,
    scale_for_page,
)
from candlelight.evaluation.run.evaluate import score, start
from candlelight.evaluation.training.causal_data import read_foreground
from candlelight.evaluation.training.loop import split_ids
from candlelight.evaluation.training.train_causal import CausalHistory, train_causal
from candlelight.evaluation.training.train_classifier import train_classifier
from candlelight.evaluation.training.train_intrinsic import History, SmallRows, train_intrinsic
from candlelight.evaluation.training.training_rows import factor_labels, hold_out
from candlelight.evaluation.views import Decompositions, Images, View, open_data
from candlelight.evaluation.views.image_tensors import ResizedImages
from candlelight.loaders.foreign_text import printable
from candlelight.loaders.verification.checksums import file_sha256


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished training.

    Attributes:
        data: all rows.
        held_out: numbers of the held-out rows.
        settings: settings of the training, for its record.
        history: its learning curves.
        save: writes the weights to a file.
        lines: the result in words.
        show: writes the page to a file; None for a training without a page.
    """

    data: View[Any]
    held_out: Sequence[int]
    settings: Mapping[str, Any]
    history: Any
    save: Callable[[Path], object]
    lines: Sequence[str]
    show: Callable[[Path], object] | None = None


def _options(kind: type, given: Any) -> dict[str, Any]:
    """Return the options of a class that the options of a command inherit."""
    return {one.name: getattr(given, one.name) for one in fields(kind)}


def train_decomposition(
    data: str, choice: Mapping[str, Any], options: IntrinsicCommand, seed: int, device: str, state: Path
) -> Trained:
    """Train a network to decompose images."""
    view = SmallRows(open_data("decompositions", data, **choice), size=options.size)
    held_out = hold_out(view.groups, options.validation, seed)
    settings = {"regime": options.regime, "seed": seed} | _options(IntrinsicTraining, options)
    network, history = train_intrinsic(view, validation=held_out, device=device, state=state, **settings)
    shown = SmallRows(view, held_out) if held_out else None
    count = len(view) - len(held_out)
    lines = [f"loss {history.training[-1]:.4f} after epoch {options.epochs} on {count} images"]
    if held_out:
        lines.append(f"LMSE {history.validation[-1]:.4f} on {len(held_out)} held-out images")
    return Trained(
        view,
        held_out,
        settings,
        history,
        partial(save_model, network, dtype=torch.float16 if options.half else torch.float32),
        lines,
        lambda path: _write_training_page(path, network, history, shown, settings, device),
    )


def train_labels(
    data: str, choice: Mapping[str, Any], options: ClassifierCommand, seed: int, device: str, state: Path
) -> Trained:
    """Train a network to predict a factor of images."""
    view = open_data("factors", data, **choice)
    labels, classes = factor_labels(view, options.label)
    square = None if options.size is None else (options.size, options.size)
    images: Images = view if square is None else ResizedImages(view, square)
    held_out = hold_out(view.groups, options.validation, seed)
    if options.weights is None:
        start = build_backbone(options.backbone, len(classes), seed=seed)
    else:
        start = load_backbone(options.backbone, options.weights, len(classes), seed=seed)
    settings = {"seed": seed, **_options(ClassifierTraining, options)}
    network, history = train_classifier(
        start, images, labels, validation=held_out, device=device, state=state, **settings
    )
    training = TrainedOn(options.label, view.identity, square, *split_ids(view, held_out))
    used = {"backbone": options.backbone, "label": options.label, "classes": classes, "size": square}
    used["weights_sha256"] = None if options.weights is None else file_sha256(options.weights)
    count = len(view) - len(held_out)
    lines = [f"loss {history.training[-1]:.4f} after epoch {options.epochs} on {count} images"]
    if held_out:
        shown = [labels[row] for row in held_out]
        most = max(map(shown.count, shown)) / len(shown)
        lines.append(
            f"accuracy {history.accuracy[-1]:.4f} on {len(shown)} held-out images of {len(classes)} classes; "
            f"{most:.4f} by always predicting their most frequent class"
        )
    return Trained(
        images,
        held_out,
        used | settings,
        history,
        lambda path: save_classifier(network, classes, path, training),
        lines,
    )


def train_codes(
    data: str, choice: Mapping[str, Any], options: CausalCommand, seed: int, device: str, state: Path
) -> Trained:
    """Train an autoencoder."""
    side = None if options.size is None else int(options.size)
    view = open_data("factors", data, **choice)
    images: Images = view if side is None else ResizedImages(view, (side, side))
    held_out = hold_out(view.groups, options.validation, seed)
    foreground = None
    if options.kind != "none":
        foreground = read_foreground(data, options.kind, side, **choice)
    network, history = train_causal(
        images,
        seed=seed,
        factors=view,
        validation=held_out,
        foreground=foreground,
        device=device,
        workers=options.workers,
        state=state,
        **_options(CausalTraining, options),
    )
    used = {**options.settings(), "seed": seed, "size": side, "foreground_kind": options.kind}
    about = dict(zip(("training_ids", "held_out_ids"), map(list, split_ids(view, held_out)), strict=True))
    record = {"settings": used, "data": asdict(view.identity), **about}
    count = len(view) - len(held_out)
    lines = [f"loss {history.training[-1]:.2f} after step {options.steps} on {count} images"]
    if held_out:
        lines.append(
            f"mean squared error {history.validation[-1]:.5f} of reconstructed held-out images; "
            f"{history.constant:.5f} of their mean"
        )
    if targets := history.targets:
        lines.append(printable(f"learned from labels, in the order of the codes: {', '.join(targets)}"))
        if alike := [one.name for one in view.factors if one.name not in targets]:
            names = ", ".join(alike)
            lines.append(printable(f"note: one value among the labelled images, so not learned: {names}"))
    return Trained(
        images,
        held_out,
        used,
        history,
        lambda path: save_autoencoder(network, path, record),
        lines,
        lambda path: _write_causal_page(path, network, history, images, held_out or range(len(view)), used),
    )


_Panel = tuple[str, Sequence[float], float | None]


def curves_plot(panels: Sequence[_Panel], places: Sequence[int], unit: str, caption: str) -> PlotBlock:
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
            axes.set_title(name, loc="left")
            axes.set_ylim(low, None)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(unit)
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values, _ in panels)
        return PlotBlock(to_svg(figure, "curves"), f"After {places[-1]} {unit}: {last}.", caption)


def _write_training_page(
    path: Path,
    network: IntrinsicNet,
    history: History,
    held_out: Decompositions | None,
    settings: Mapping[str, Any],
    device: str,
) -> None:
    """Write learning curves, and the scores of held-out images beside those of the trivial decompositions."""
    curves = learning_curves(history)
    if held_out is None:
        write_page(path, "Training", [Section("training", "Learning curves", (curves,))])
        return
    run = start(LMSE, LMSEOptions(), {"data": held_out}, {"network": network, **BASELINES}, device)
    results = score(run)
    pictures = {"lmse": [curves, *intrinsic_pictures(run, results)]}
    facts = dict(_facts(settings))
    write_report(path, list(results.values()), title="Training", settings=facts, pictures=pictures)


def _facts(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in settings.items() if value is not None)


def learning_curves(history: History) -> PlotBlock:
    """Plot the loss and, if rows were held out, their LMSE after each epoch.

    Example:
        >>> learning_curves(History((1.0, 0.5), (0.04, 0.02))).svg[:4]
        '<svg'
    """
    panels: list[_Panel] = [("loss of training", history.training, None)]
    if history.validation:
        panels.append(("LMSE of held-out images", history.validation, 0))
    caption = (
        "Learning curves; lower is better. Losses of different regimes are not comparable, the LMSE of the "
        "same held-out images is."
    )
    return curves_plot(panels, range(1, len(history.training) + 1), "epochs", caption)


_SHOWN = 12
_RECONSTRUCTIONS = (
    "Images, each left of the image decoded from the means of its codes: the more alike, the better."
)


def _write_causal_page(
    path: Path,
    network: ConvVAE,
    history: CausalHistory,
    images: Images,
    rows: Sequence[int],
    settings: Mapping[str, Any],
) -> None:
    """Write learning curves, and some of the rows beside their reconstructions."""
    shown = [_picture(network, images, rows[place]) for place in evenly_spaced_rows(len(rows), _SHOWN)]
    blocks = (
        causal_curves(history),
        PicturesBlock(tuple(shown), _RECONSTRUCTIONS),
        TableBlock("Settings", ("setting", "value"), _facts(settings), folded=True),
    )
    write_page(path, "Training", [Section("training", "Learning curves", blocks)])


def causal_curves(history: CausalHistory) -> PlotBlock:
    """Plot the terms of the loss and, if rows were held out, the error of their reconstructions.

    Example:
        >>> causal_curves(CausalHistory((5,), (3.0,), {"kl": (1.0,)}, (), None)).alt
        'After 5 steps: loss 3, kl 1.'
    """
    panels: list[_Panel] = [("loss", history.training, None)]
    panels += [(name, values, None) for name, values in history.terms.items()]
    caption = "The loss should fall and level off. Below it are the means of its terms before their weights."
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
