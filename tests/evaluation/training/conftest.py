"""Fixtures: a training that is interrupted, and small data of each training."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.training import (
    train_causal,
    train_classifier,
    train_factor_heads,
    train_intrinsic,
)
from candlelight.evaluation.training.loop import TrainingState
from candlelight.loaders.schema import FactorInfo

SHAPES = 3
FACTORS = tuple(
    FactorInfo(name=name, kind="categorical", values=values)
    for name, values in (
        ("colour", ("red", "green", "blue")),
        ("side", ("left", "right")),
        ("floor", ("flat",)),
    )
)


class Stop(Exception):
    """Ends a training as a killed process would."""


@pytest.fixture
def interrupt(monkeypatch) -> Callable[[Callable[[], object]], None]:
    """Call a training that ends as soon as the state after its second part is written."""

    def call(training: Callable[[], object]) -> None:
        write = TrainingState.write

        def stop_at_the_second(self: TrainingState, state: dict[str, object]) -> None:
            write(self, state)
            if state["parts"] == 2:
                raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(TrainingState, "write", stop_at_the_second)
            with pytest.raises(Stop):
                training()

    return call


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    states = one.state_dict(), other.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.fixture
def lit_scenes(scenes, decompositions):
    """Four scenes, each under two lights."""
    view = scenes(4, seed=0)
    pairs = [(item.reflectance, item.shading * light) for item in view.items for light in (0.6, 1.0)]
    groups = [f"scene-{number}" for number in range(4) for _ in range(2)]
    return decompositions(*map(torch.stack, zip(*pairs, strict=True)), groups)


def drawn_shape(rng: np.random.Generator, shape: int, size: int = 32) -> Tensor:
    """Draw a disc, a ring or a bar of random colours, place and size."""
    rows, columns = np.mgrid[:size, :size]
    y, x = rng.uniform(0.4, 0.6, 2) * size
    distance = np.hypot(rows - y, columns - x)
    radius = rng.uniform(0.25, 0.35) * size
    inside = (distance < radius, abs(distance - radius) < 2.5, abs(rows - y) < 2.5)[shape]
    colours = rng.uniform(0, 0.4, 3), rng.uniform(0.6, 1, 3)
    return torch.from_numpy(np.where(inside[None], *(c[:, None, None] for c in colours)).astype(np.float32))


@pytest.fixture
def shapes(memory_view):
    """Make a view of drawn shapes and their labels."""

    def make(count: int):
        rng = np.random.default_rng(0)
        labels = [number % SHAPES for number in range(count)]
        return memory_view([drawn_shape(rng, label) for label in labels]), labels

    return make


def drawn_square(colour: int, side: int, shade: float) -> Tensor:
    image = torch.full((3, 32, 32), shade)
    image[:, 10:22, 16 * side + 2 : 16 * side + 14] = torch.eye(3)[colour][:, None, None]
    return image


@pytest.fixture
def squares(memory_view, monkeypatch):
    """Make a view of squares of three colours at two sides, four of each, and the discriminator fast."""
    monkeypatch.setattr("candlelight.evaluation.models.autoencoders._WIDTH", 20)
    rng = np.random.default_rng(0)
    table = np.array([[row // 2 % 3, row % 2, 0] for row in range(24)], float)
    images = [drawn_square(int(one), int(two), rng.uniform(0.2, 0.4)) for one, two, _ in table]
    return memory_view(images, factors=FACTORS, table=table)


@pytest.fixture
def training_of(lit_scenes, shapes, squares) -> Callable[[str], tuple[Any, Callable[..., Any]]]:
    """Return the view of a training by name, and the training as a function of further options."""
    causal = {"factors": squares, "codes": 3, "steps": 4, "batch_size": 4}

    def make(name: str):
        small = {"epochs": 3, "batch_size": 4}
        if name in ("vgg_small", "resnet_small"):  # with dropout, and with running means
            view, kinds = shapes(8)
            return view, partial(train_classifier, build_backbone(name, SHAPES, seed=0), view, kinds, **small)
        if name == "factor heads":
            view, kinds = shapes(8)
            given = {"labels": {"shape": kinds}, "validation": [0, 1]}
            return view, partial(train_factor_heads, view, **given, **small)
        if name.endswith("vae"):
            own = {"labelled": 6} if name.startswith("ss-") else {}
            return squares, partial(train_causal, squares, model=name, **causal, **own)
        return lit_scenes, partial(train_intrinsic, lit_scenes, regime=name, width=2, **small)

    return make


def spoil(view: Any, row: int) -> None:
    """Change an image, or the truth of a decomposition."""
    item = view.items[row]
    view.items[row] = 1 - item if isinstance(item, Tensor) else replace(item, shading=item.shading * 0.5)
