"""Train classifiers on CUB-70 and CelebAMask-HQ by the command line, and score them on other splits."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.models.classifiers import TrainedOn, load_classifier
from candlelight.evaluation.run.result import Result
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import open_data

SPECIES = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
SIZES = ((36, 48), (48, 36), (40, 40), (33, 52))  # height, width
TRAIN, TEST = 4, 3  # photographs of each species


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


def train_and_score(
    data: str, label: str, out: Path, *words: object
) -> tuple[tuple[str, ...], TrainedOn, Result]:
    """Train on the training split, and score a layer on the test split."""
    train(data, label, out, "--size", 32, *words)
    found = out.with_name("coverage.json")
    words = ("--by", "part", "--quick", "--proportions", "0.1", "--model", out, "--layer", "layer3")
    run("evaluate", "coverage", data, "--split", "test", "--size", 32, 32, *words, "--out", found)
    return *load_classifier(out)[1:], *read_results(found)


def test_a_classifier_of_species_is_scored_on_the_test_split(birds: Path, tmp_path: Path) -> None:
    data = f"cub70:{birds}"
    classes, training, result = train_and_score(data, "species", tmp_path / "a.pt", "--validation", 0.25)
    assert classes == tuple(SPECIES)
    learned = training.training_ids + training.held_out_ids
    assert sorted(learned) == sorted(open_data("factors", data, split="train").ids)
    assert (training.label, training.size, len(training.held_out_ids)) == ("species", (32, 32), 2)
    assert (result.about.settings["parts"], result.about.data["rows"]) == (["head", "tail"], 2 * TEST)
    assert not set(learned) & set(open_data("parts", data, split="test", by="part").ids)


def test_a_classifier_of_an_attribute_is_scored_on_the_test_split(faces: Path, tmp_path: Path) -> None:
    data = f"celebamask:{faces}"
    classes, training, result = train_and_score(data, "Male", tmp_path / "a.pt", "--validation", 0)
    assert (classes, training.label) == (("no", "yes"), "Male")
    assert training.training_ids == ("0", "1", "2", "3", "4", "5")
    # The hat is in no group of the paper.
    assert (result.about.settings["parts"], result.about.data["rows"]) == (["eyes", "hair"], 4)


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
