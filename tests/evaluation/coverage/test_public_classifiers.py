"""Train classifiers on CUB-70 and CelebAMask-HQ by the command line, and score them on other splits."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.models.classifiers import load_classifier
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import open_data
from candlelight.evaluation.views.image_tensors import ResizedImages

SPECIES = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
SIZES = ((36, 48), (48, 36), (40, 40), (33, 52))  # height, width
TRAIN, TEST = 4, 3  # photographs of each species
QUICK = ("--by", "part", "--quick", "--proportions", "0.1")


def noise(seed: int, size: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)


@pytest.fixture
def birds(write_birds, band) -> Path:
    """Write photographs of several sizes of two species; test images have masks."""
    shown = {}
    for number in range(2 * (TRAIN + TEST)):
        label, place = divmod(number, TRAIN + TEST)
        size, parts = SIZES[number % len(SIZES)], {"head": (0, 12), "tail": (20, 30)}
        masks = {part: band(*size, rows) for part, rows in parts.items()} if place >= TRAIN else {}
        shown[f"Bird_{number:04d}_{number}"] = (label, place < TRAIN, noise(number, size), masks)
    return write_birds(SPECIES, shown)


@pytest.fixture
def faces(write_faces) -> Path:
    """Write faces of the three splits of CelebA, with masks and attributes."""
    origins = [*range(100, 106), 170000, 170001, *range(190000, 190004)]
    photographs = {number: (origin, noise(number, (48, 48))) for number, origin in enumerate(origins)}
    root = write_faces(photographs, {"hair": (0, 6), "l_eye": (8, 10), "hat": (0, 3)})
    marks = [f"{number}.jpg  {'1' if number % 2 else '-1'}  1" for number in photographs]
    (root / "CelebAMask-HQ-attribute-anno.txt").write_text("\n".join(["12", "Male Young", *marks, ""]))
    return root


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, [*map(str, words), "--device", "cpu"])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def train(data: str, label: str, out: Path, *words: object, code: int = 0) -> str:
    quick = ("--split", "train", "--epochs", 2, "--batch-size", 4, "--out", out)
    return run("train", "classifier", data, "--label", label, *quick, *words, code=code)


def test_a_classifier_of_species_is_scored_on_the_test_split(birds: Path, tmp_path: Path) -> None:
    data, out = f"cub70:{birds}", tmp_path / "birds.pt"
    text = train(data, "species", out, "--size", 32, "--validation", 0.25)
    assert "after epoch 2 on 6 images" in text
    network, classes, training = load_classifier(out)
    assert classes == tuple(SPECIES)
    view = open_data("factors", data, split="train")
    assert training.label == "species"
    assert training.data == view.identity
    assert training.size == (32, 32)
    assert sorted(training.training_ids + training.held_out_ids) == sorted(view.ids)
    assert (len(training.training_ids), len(training.held_out_ids)) == (6, 2)
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["data"]["split"] == "train"
    assert record["training_ids"] == list(training.training_ids)

    found = tmp_path / "coverage.json"
    words = (*QUICK, "--model", out, "--layer", "layer3", "--out", found)
    run("evaluate", "coverage", data, "--split", "test", "--size", 32, 32, *words)
    (result,) = read_results(found)
    assert result.about.settings["parts"] == ["head", "tail"]
    assert result.about.data["rows"] == 2 * TEST
    # The same rows are labelled and have masks, so the accuracy is of the images whose coverage is scored.
    scored, labelled = (
        open_data("parts", data, split="test", by="part"),
        open_data("factors", data, split="test"),
    )
    assert scored.ids == labelled.ids
    assert {scored[row].label for row in range(len(scored))} == set(classes)
    assert not set(scored.ids) & set(training.training_ids + training.held_out_ids)
    with torch.no_grad():
        assert network(ResizedImages(labelled, training.size)[0][None]).shape == (1, 2)


def test_a_classifier_of_an_attribute_is_scored_on_the_test_split(faces: Path, tmp_path: Path) -> None:
    data, out, found = f"celebamask:{faces}", tmp_path / "faces.pt", tmp_path / "coverage.json"
    train(data, "Male", out, "--size", 32, "--validation", 0)
    _, classes, training = load_classifier(out)
    assert classes == ("no", "yes")
    assert training.label == "Male"
    assert training.training_ids == ("0", "1", "2", "3", "4", "5")
    words = (*QUICK, "--model", out, "--layer", "layer3", "--out", found)
    run("evaluate", "coverage", data, "--split", "test", "--size", 32, 32, *words)
    (result,) = read_results(found)
    assert result.about.settings["parts"] == ["eyes", "hair"]  # without the hat
    assert result.about.data["rows"] == 4


def test_errors_are_one_line_with_the_cure(birds: Path, faces: Path, tmp_path: Path) -> None:
    out = tmp_path / "network.pt"
    text = train(f"cub70:{birds}", "specie", out, "--size", 32, code=2)
    assert "--label specie: expected one of the factors species; did you mean `species`?" in text
    text = train(f"celebamask:{faces}", "male", out, "--size", 32, code=2)
    assert "--label male: expected one of the factors Male, Young; did you mean `Male`?" in text
    (faces / "CelebAMask-HQ-attribute-anno.txt").unlink()
    text = train(f"celebamask:{faces}", "Male", out, "--size", 32, code=2)
    assert "CelebAMask-HQ-attribute-anno.txt is missing; get it from https" in text
    assert not out.exists()
