"""Trainings on data by name, as ``candlelight train`` runs them: rows, network, weights, page and lines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch

from candlelight.evaluation.catalogue.training_options import (
    CausalCommand,
    CausalTraining,
    ClassifierCommand,
    ClassifierTraining,
    IntrinsicCommand,
    IntrinsicTraining,
)
from candlelight.evaluation.models import save_model
from candlelight.evaluation.models.autoencoders import save_autoencoder
from candlelight.evaluation.models.build_backbone import build_backbone, load_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, save_classifier
from candlelight.evaluation.training.causal_data import read_foreground
from candlelight.evaluation.training.pages import write_causal_page, write_training_page
from candlelight.evaluation.training.train_causal import train_causal
from candlelight.evaluation.training.train_classifier import train_classifier
from candlelight.evaluation.training.train_intrinsic import SmallRows, train_intrinsic
from candlelight.evaluation.training.training_rows import factor_labels, hold_out
from candlelight.evaluation.views import Images, View, open_data
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


def _split_ids(view: View[Any], held_out: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    unseen = set(held_out)
    training = tuple(name for row, name in enumerate(view.ids) if row not in unseen)
    return training, tuple(view.ids[row] for row in held_out)


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
        lambda path: write_training_page(path, network, history, shown, settings, device),
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
    training = TrainedOn(options.label, view.identity, square, *_split_ids(view, held_out))
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
    about = dict(zip(("training_ids", "held_out_ids"), map(list, _split_ids(view, held_out)), strict=True))
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
        lambda path: write_causal_page(path, network, history, images, held_out or range(len(view)), used),
    )
