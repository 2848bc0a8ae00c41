"""Train autoencoders for a table of models and seeds; finished and interrupted trainings are kept."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jaxtyping import Float64
from numpy import ndarray
from torch import nn

from evaluation.causal.supplement_tables import IDENTIFIABLE
from evaluation.coverage.resized_images import ResizedImages
from evaluation.models.autoencoders import load_autoencoder, save_autoencoder
from evaluation.training.causal_settings import CausalModel, CausalSettings
from evaluation.training.train_causal import train_causal
from loaders.errors import InputError
from loaders.schema import FactorInfo
from loaders.views import Factors


class ResizedFactors(ResizedImages):
    """Square images with factors, resized; the members of `loaders.views.Factors`.

    Args:
        data: images of any size with factors.
        side: height and width in pixels.
    """

    def __init__(self, data: Factors, side: int) -> None:
        super().__init__(data, (side, side))
        self.factors: tuple[FactorInfo, ...] = tuple(data.factors)
        self.table: Float64[ndarray, "n k"] = data.table


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
    notes = []
    for model in models:
        for seed in range(seeds):
            name = f"{model}#{seed}"
            path, chosen = folder / f"{name}.pt", settings(model)
            record = {
                "settings": {**asdict(chosen), "seed": seed},
                "data": asdict(view.identity),
                "training_ids": list(view.ids),
            }
            if not path.exists():
                state = path.with_name(f"{path.name}.partial")
                try:
                    network, _ = train_causal(
                        view, chosen, seed=seed, factors=view, device=device, state=state
                    )
                except InputError as error:
                    if model != IDENTIFIABLE:
                        raise
                    notes.append(f"{model} is left out: {error}")
                    break
                save_autoencoder(network, path, record)
                state.unlink(missing_ok=True)
            # Always from the file: another memory layout of equal weights gives slightly other codes.
            networks[name] = _load(path, record, device)
    return networks, notes


def _load(path: Path, record: dict[str, Any], device: str) -> nn.Module:
    """Load weights that were trained with these settings, on these data."""
    network, training = load_autoencoder(path, device)
    wanted = json.loads(json.dumps(record))
    if different := [name for name in wanted if training.get(name) != wanted[name]]:
        raise InputError(
            f"{path}: trained with other {', '.join(different)}; delete it, or give another --out"
        )
    return network
