"""Train autoencoders for a table of models and seeds; finished and interrupted trainings are kept."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from candlelight.evaluation.causal.supplement_tables import IDENTIFIABLE
from candlelight.evaluation.models.autoencoders import load_autoencoder, save_autoencoder
from candlelight.evaluation.running.batches import Fingerprint
from candlelight.evaluation.training.causal_batches import CausalBatches
from candlelight.evaluation.training.causal_settings import CausalModel, CausalSettings
from candlelight.evaluation.training.train_causal import train_causal
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bar import progress_bar
from candlelight.loaders.views import Factors


def train_table_models(
    view: Factors,
    models: Sequence[CausalModel],
    seeds: int,
    settings: Callable[[CausalModel], CausalSettings],
    folder: Path,
    device: str,
) -> tuple[dict[str, nn.Module], list[str]]:
    """Train each model with each seed on all images, or take the weights of an earlier call.

    Args:
        view: images of 32 x 32 or 64 x 64 pixels.
        models: names of the models.
        seeds: number of seeds, counted from 0.
        settings: makes the settings of a model.
        folder: folder of the weights, MODEL#SEED.pt, and of the states of interrupted trainings.
        device: torch device.

    Returns:
        Networks by name, MODEL#SEED, and notes on models that cannot be trained: pairs for "ada-gvae" may be
        missing, if factors determine each other.

    Raises:
        InputError: weights in the folder have other settings or data, or see `train_causal`.
    """
    networks: dict[str, nn.Module] = {}
    chosen, notes = _trainable(view, {model: settings(model) for model in models})
    described = {"data": asdict(view.identity), "training_ids": list(view.ids), "content": _content(view)}
    trainings = [(model, seed) for model in chosen for seed in range(seeds)]
    for model, seed in progress_bar(trainings, desc="trainings", unit="training"):
        name, one = f"{model}#{seed}", chosen[model]
        path = folder / f"{name}.pt"
        record = {"settings": {**asdict(one), "seed": seed}, **described}
        if not path.exists():
            state = path.with_name(f"{path.name}.partial")
            network, _ = train_causal(view, one, seed=seed, factors=view, device=device, state=state)
            save_autoencoder(network, path, record)
            state.unlink(missing_ok=True)
        # Always from the file: another memory layout of equal weights gives slightly other codes.
        networks[name] = _load(path, record, device)
    return networks, notes


def _trainable(
    view: Factors, settings: dict[CausalModel, CausalSettings]
) -> tuple[dict[CausalModel, CausalSettings], list[str]]:
    """Draw a batch for each model before any is trained; a note tells that there are no pairs."""
    notes = []
    for model, one in list(settings.items()):
        batches = CausalBatches(view, range(len(view)), one, 0, view)
        try:
            batches[0]
        except InputError as error:
            if model != IDENTIFIABLE or len(settings) == 1:
                raise
            notes.append(f"{model} is left out: {error}")
            del settings[model]
    return settings, notes


def _content(view: Factors) -> str:
    """Hash the images and their factors."""
    fingerprint = Fingerprint()
    for row, name in enumerate(view.ids):
        fingerprint.add(name, view[row])
    fingerprint.add("factors", np.asarray(view.table))
    return fingerprint.hexdigest()


def _load(path: Path, record: dict[str, Any], device: str) -> nn.Module:
    """Load weights that were trained with these settings, on these data."""
    network, training = load_autoencoder(path, device)
    wanted = json.loads(json.dumps(record))
    if different := [name for name in wanted if training.get(name) != wanted[name]]:
        raise InputError(
            f"{path}: trained with other {', '.join(different)}; delete it, or give another --out"
        )
    return network
