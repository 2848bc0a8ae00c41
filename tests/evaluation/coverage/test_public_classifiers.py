"""Train classifiers on CUB-70 and CelebAMask-HQ by the command line, and score them on other splits."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.evaluation.models.classifiers import load_classifier
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import open_data
from candlelight.evaluation.views.image_tensors import ResizedImages

SPECIES = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
SIZES = ((36, 48), (48, 36), (40, 40), (33, 52))  # height, width
TRAIN, TEST = 4, 3  # photographs of each species


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def noise(seed: int, size: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Write photographs of several sizes of two species; test images have masks."""
    root, lists = tmp_path / "CUB", {}
    cub = root / "CUB_200_2011"
    for number in range(1, 2 * (TRAIN + TEST) + 1):
        label, place = divmod(number - 1, TRAIN + TEST)
        species, stem, train = SPECIES[label], f"Bird_{number:04d}_{number}", place < TRAIN
        size = SIZES[number % len(SIZES)]
        save(cub / "images" / species / f"{stem}.jpg", noise(number, size))
        if not train:
            for part, rows in {"head": slice(0, 12), "tail": slice(20, 30)}.items():
                mask = np.zeros(size, np.uint8)
                mask[rows] = 255
                save(root / "AnnotationMasksPerclass" / str(label + 1) / f"{stem}_{part}.png", mask)
        for name, value in {
            "images.txt": f"{species}/{stem}.jpg",
            "image_class_labels.txt": label + 1,
            "train_test_split.txt": int(train),
            "bounding_boxes.txt": "1.0 1.0 9.0 9.0",
        }.items():
            lists.setdefault(name, []).append(f"{number} {value}")
    lists["classes.txt"] = [f"{number} {name}" for number, name in enumerate(SPECIES, 1)]
    lists |= {"parts/parts.txt": ["1 back"], "parts/part_locs.txt": ["1 1 0.0 0.0 0"]}
    for name, lines in lists.items():
        (cub / name).parent.mkdir(exist_ok=True)
        (cub / name).write_text("\n".join([*lines, ""]))
    return root


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """Write faces of the three splits of CelebA, with masks and attributes."""
    root = tmp_path / "CelebAMask-HQ"
    places, marks = ["idx orig_idx orig_file"], ["12", "Male Young"]
    for number, origin in enumerate([*range(100, 106), 170000, 170001, *range(190000, 190004)]):
        save(root / "CelebA-HQ-img" / f"{number}.jpg", noise(number, (48, 48)))
        for part, rows in {"hair": slice(0, 6), "l_eye": slice(8, 10), "hat": slice(0, 3)}.items():
            mask = np.zeros((24, 24, 3), np.uint8)
            mask[rows] = 255
            save(root / "CelebAMask-HQ-mask-anno" / "0" / f"{number:05d}_{part}.png", mask)
        places.append(f"{number}  {origin}  {origin:06d}.jpg")
        marks.append(f"{number}.jpg  {'1' if number % 2 else '-1'}  1")
    (root / "CelebA-HQ-to-CelebA-mapping.txt").write_text("\n".join([*places, ""]))
    (root / "CelebAMask-HQ-attribute-anno.txt").write_text("\n".join([*marks, ""]))
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
    words = ("--by", "part", "--model", out, "--layer", "layer3", "--out", found)
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
    words = ("--by", "part", "--model", out, "--layer", "layer3", "--out", found)
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
    text = train(f"celebamask:{faces}", "Young", out, "--size", 32, code=2)
    assert "--label Young: expected rows with several values, got yes alone" in text
    text = train(f"cub70:{birds}", "species", out, code=2)
    assert re.search(r"expected images of one size, got \d+ x \d+ and .*; resize them \(--size\)", text)
    (faces / "CelebAMask-HQ-attribute-anno.txt").unlink()
    text = train(f"celebamask:{faces}", "Male", out, "--size", 32, code=2)
    assert "CelebAMask-HQ-attribute-anno.txt is missing; get it from https" in text
    quick = ("--label", "species", "--out", out)
    text = run("train", "classifier", f"cub70:{birds}", *quick, code=2)
    assert "choose a split (--split); expected one of: annotated, train, test" in text
    assert not out.exists()
