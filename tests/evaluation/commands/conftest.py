"""Frames of noise; photographs of two species in the layout of CUB-70, and untrained classifiers of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray
from PIL import Image

from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, save_classifier
from candlelight.evaluation.run import steps as finished_steps
from candlelight.evaluation.views import open_data
from tests.evaluation.test_pages import write_noise

SPECIES = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
PER_SPECIES, SIDE = 6, 32
CODE = """
import torch
from torch import nn

def small(classes=2):
    torch.manual_seed(0)
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes))
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(), *head)

def plain():
    return small()

def five():
    return small(5)
"""


def _save(path: Path, pixels: ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def _mask(*place: slice) -> ndarray:
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[place] = 255
    return mask


def write_birds(root: Path) -> None:
    """Write six photographs of each species: a bright head, whose column tells the species, and a tail."""
    lists: dict[str, list[str]] = {}
    for number in range(1, 2 * PER_SPECIES + 1):
        label, place = divmod(number - 1, PER_SPECIES)
        stem = f"Bird_{number:04d}_{number}"
        pixels = np.random.default_rng(number).integers(0, 90, (SIDE, SIDE, 3), np.uint8)
        head = (slice(2 * place, 2 * place + 10), slice(4 + 14 * label, 14 + 14 * label))
        tail = (slice(24, 30), slice(4, 28))
        pixels[(*head, label)] += 160
        pixels[(*tail, 2)] += 60
        _save(root / "CUB_200_2011/images" / SPECIES[label] / f"{stem}.jpg", pixels)
        for part, where in {"head": head, "tail": tail}.items():
            if part == "head" or place % 3:
                folder = root / "AnnotationMasksPerclass" / str(label + 1)
                _save(folder / f"{stem}_{part}.png", _mask(*where))
        for name, value in {
            "images.txt": f"{SPECIES[label]}/{stem}.jpg",
            "image_class_labels.txt": label + 1,
            "train_test_split.txt": place % 2,
            "bounding_boxes.txt": "1.0 1.0 9.0 9.0",
        }.items():
            lists.setdefault(name, []).append(f"{number} {value}")
    lists["classes.txt"] = [f"{number} {name}" for number, name in enumerate(SPECIES, 1)]
    lists |= {"parts/parts.txt": ["1 back"], "parts/part_locs.txt": ["1 1 0.0 0.0 0"]}
    for name, lines in lists.items():
        path = root / "CUB_200_2011" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*lines, ""]))


@pytest.fixture(scope="session")
def birds(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("birds")
    write_birds(root)
    return f"cub70:{root}"


@pytest.fixture(scope="session")
def coverage(birds) -> tuple[str, ...]:
    """Return the words of a command that scores explanations of the photographs."""
    return ("evaluate", "coverage", birds, "--split", "annotated", "--device", "cpu")


@pytest.fixture(scope="session")
def make_classifier(birds, tmp_path_factory) -> Callable[..., Path]:
    """Write a classifier whose file says that it was trained on some rows of the photographs."""
    folder = tmp_path_factory.mktemp("classifiers")

    def make(name: str = "kinds", rows: range = range(0, 12, 2), seed: int = 0) -> Path:
        view = open_data("factors", birds, split="annotated")
        network = build_backbone("resnet_small", 2, seed=seed)
        network.head.weight.data *= 100
        learned = tuple(view.ids[row] for row in rows)
        held_out = tuple(one for one in view.ids if one not in learned)
        training = TrainedOn("species", view.identity, (SIDE, SIDE), learned, held_out)
        return save_classifier(network, SPECIES, folder / f"{name}.pt", training)

    return make


@pytest.fixture(scope="session")
def own_networks(tmp_path_factory) -> Path:
    """Write a file of Python with networks."""
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(CODE)
    return path


@pytest.fixture(scope="session")
def noise_frames(tmp_path_factory) -> Path:
    """Write frames of noise with the sets of the demo."""
    root = tmp_path_factory.mktemp("noise")
    write_noise(root)
    return root


@pytest.fixture(autouse=True)
def fixed_code(monkeypatch) -> None:
    """Keep the hash of the imported code: commands in one process import more and more of the package."""
    monkeypatch.setattr(finished_steps, "_code_sha256", lambda: "code")
