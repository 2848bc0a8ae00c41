"""`evaluate coverage --method` on generated photographs: images that are learned and scored, resuming."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.catalogue.coverage_options import ExplanationOptions, MethodName
from candlelight.evaluation.coverage import explained_images, score_coverage
from candlelight.evaluation.coverage.explained_images import fit_method, read_training_images
from candlelight.evaluation.models import open_model
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import open_data
from tests.command_line import refusal, run

QUICK = ("--quick", "--proportions", "0.05,0.1")
SMALL = ("--epochs", 1, "--topics", 3, "--prototypes", 2)  # only with all methods


def write_tables(out: Path, folder: Path) -> None:
    printed = run("evaluate", "coverage-tables", out, "--out", folder)
    assert set(printed.splitlines()) == {str(path) for path in folder.iterdir()}


@pytest.fixture
def seen(monkeypatch) -> dict[str, Any]:
    """Record the ids of the images that methods learn from, and the runs that are scored."""
    found: dict[str, Any] = {"learned": [], "scored": []}

    def read(data, rows, *given):
        found["learned"].append({data.ids[row] for row in rows})
        return read_training_images(data, rows, *given)

    def explain(run):
        found["scored"].append(set(run.data.ids))
        return read_explanations(run)

    def describe(user, predicted, labels, groups):
        found["labels"] = labels
        return describe_network(user, predicted, labels, groups)

    read_explanations, describe_network = score_coverage.read_explanations, score_coverage.describe_network
    monkeypatch.setattr(explained_images, "read_training_images", read)
    monkeypatch.setattr(score_coverage, "read_explanations", explain)
    monkeypatch.setattr(score_coverage, "describe_network", describe)
    return found


def ids_of(data: str, rows: range) -> set[str]:
    view = open_data("factors", data, split="annotated")
    return {view.ids[row] for row in rows}


def test_methods_learn_the_training_images_and_are_scored_on_the_others(
    coverage, birds, make_classifier, seen, tmp_path
) -> None:
    out, tables = tmp_path / "a.json", tmp_path / "tables"
    words = ("--model", make_classifier(), "--method", "all", *SMALL, "--proportions", "0.05,0.1")
    text = run(*coverage, *words, "--out", out)
    write_tables(out, tables)
    assert seen["learned"] == [ids_of(birds, range(0, 12, 2))]
    assert seen["scored"] == [ids_of(birds, range(1, 12, 2))]
    assert seen["labels"] == [0, 0, 0, 1, 1, 1]
    results = read_results(out)
    found = {result.about.model["name"].removeprefix("kinds "): result.details for result in results}
    assert list(found) == list(get_args(MethodName))
    assert [result.about.data["rows"] for result in results] == [6] * 4
    assert {tuple(result.about.settings["size"]) for result in results} == {(32, 32)}
    assert len({result.about.model["sha256"] for result in results}) == 4
    masked = {"object", "exact parts"}
    assert set(found["vebi"]["controls"]) == {"noise", "centre", "constant", "ideal", *masked}
    assert set(found["vebi"]["mask_controls"]) == masked
    assert "control ideal" in text
    assert "proportions / 100" in text
    network = open_model(str(make_classifier())).model
    view = open_data("parts", birds, split="annotated", by="part", rows=range(1, 12, 2))
    with torch.no_grad():
        predicted = network(torch.stack([view[row].image for row in range(6)])).argmax(1)
    accuracy = float((predicted == torch.tensor(seen["labels"])).double().mean())
    assert found["vebi"]["network"]["accuracy"][0] == accuracy
    assert [one["network"]["of"] for one in found.values()] == [
        *("kinds vebi", "kinds vebi", "kinds prototypes", "kinds vebi")
    ]
    (verdict,) = (line for line in text.splitlines() if "they explain different" in line)
    assert verdict.startswith("undecided between kinds vebi and kinds prototypes: no difference shown; they")
    assert "they explain different networks (accuracy kinds vebi" in verdict
    assert found["vebi"]["accuracy"] == found["grad-cam"]["accuracy"] == {"explained": accuracy}
    with (tables / "table1.csv").open() as file:
        (line,) = (one for one in csv.DictReader(file) if one["method"] == "topics")
    assert (line["classifier"], float(line["accuracy_classifier"])) == ("kinds", accuracy)


@pytest.mark.parametrize("words", [("--fit-limit", "2"), ("--fit", "{}:annotated")], ids=" ".join)
def test_images_that_the_classifier_has_learned_are_never_scored(
    coverage, birds, make_classifier, seen, words
) -> None:
    words = [str(word).format(birds) for word in words]
    run(*coverage, "--model", make_classifier(), "--method", "grad-cam", *words, *QUICK)
    assert seen["learned"][0] <= ids_of(birds, range(0, 12, 2))
    assert len(seen["learned"][0]) == (2 if "--fit-limit" in words else 6)
    assert seen["scored"] == [ids_of(birds, range(1, 12, 2))]


def test_images_of_other_data_with_the_same_ids_are_scored(
    coverage, birds, make_classifier, seen, monkeypatch
) -> None:
    def of_other_seed(*given):
        view = open_secondary(*given)
        identity = replace(view.identity, recipe="of another seed")
        return replace(view, named=replace(view.named, identity=identity))

    open_secondary = explained_images.open_secondary
    monkeypatch.setattr(explained_images, "open_secondary", of_other_seed)
    words = ("--model", make_classifier(), "--method", "grad-cam", "--fit", f"{birds}:annotated", *QUICK)
    text = run(*coverage, *words)
    assert seen["learned"] == [ids_of(birds, range(12))]
    assert seen["scored"] == [ids_of(birds, range(1, 12, 2))]
    assert "note: 6 of 12 images of DATA are scored: a classifier or a method has learned from the" in text


def test_scores_are_those_of_evaluate(coverage, birds, make_classifier, tmp_path) -> None:
    out, path = tmp_path / "a.json", str(make_classifier())
    chosen = {
        **{"k": 3, "rank": "score", "pooling": "image", "threshold_at": "map", "compat": "waiou2023"},
        **{"reduce": "sum", "choose": "same", "bound": 3},
    }
    words = [str(word) for name, value in chosen.items() for word in (f"--{name.replace('_', '-')}", value)]
    words += ["--proportions", "0.05", "--threshold", "0.1", "--quick"]
    run(*coverage, "--model", path, "--method", "vebi", *words, "--out", out)
    (found,) = read_results(out)
    given = {"method": ["vebi"], "proportions": [0.05], "iou_threshold": 0.1, "quick": True, **chosen}
    (expected,) = evaluate("coverage", birds, [path], split="annotated", device="cpu", **given).values()
    assert found.to_json() == expected.to_json()
    # The method fitted by hand is the same one, and so are its scores.
    view = open_data("factors", birds, split="annotated")
    training = read_training_images(view, range(0, 12, 2), [0, 0, 0, 1, 1, 1], (32, 32))
    options = ExplanationOptions(("vebi",), bound=3.0)
    method = fit_method("vebi", open_model(path), "layer3", training, options, FinishedSteps())
    parts = open_data("parts", birds, split="annotated", by="part", rows=range(1, 12, 2))
    own = {name: value for name, value in given.items() if name not in ("method", "bound")}
    (again,) = evaluate("coverage", parts, {"kinds vebi": method}, size=(32, 32), **own).values()
    assert again.scores == found.scores
    assert again.about.model["sha256"] == found.about.model["sha256"]


def test_several_classifiers_are_compared_on_images_that_none_has_learned(
    coverage, birds, make_classifier, seen, tmp_path
) -> None:
    other = make_classifier("other", range(1, 8, 2), seed=5)
    out, page, tables = tmp_path / "a.json", tmp_path / "a.html", tmp_path / "tables"
    words = ("--model", make_classifier(), "--model", other, "--method", "vebi", "--method", "grad-cam")
    run(*coverage, *words, *QUICK, "--fit-limit", 4, "--out", out, "--report", page)
    write_tables(out, tables)
    assert seen["scored"] == [ids_of(birds, range(9, 12, 2))] * 2
    names = [result.about.model["name"] for result in read_results(out)]
    assert names == ["kinds vebi", "kinds grad-cam", "other vebi", "other grad-cam"]
    with (tables / "table2.csv").open() as file:
        lines = [(line["comparison"], line["classifier"], line["method"]) for line in csv.DictReader(file)]
    assert lines == [
        (str(place), name, method)
        for place, name in enumerate(("kinds", "other"), 1)
        for method in ("vebi", "grad-cam")
    ]
    first, second = page.read_text(encoding="utf-8").split('<section id="coverage')[1:3]
    for name, section in (("kinds", first), ("other", second)):
        assert section.index(f"Heatmaps on {name}") < section.index("Concepts of vebi")


def test_files_of_heatmaps_and_layers_are_compared_with_methods(
    coverage, birds, make_classifier, tmp_path
) -> None:
    view = open_data("parts", birds, split="annotated", by="part")
    for row, name in enumerate(view.ids):
        path = tmp_path / "maps" / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, view[row].masks["head"].numpy().astype(np.float32))
    words = ("--model", make_classifier(), "--method", "grad-cam", "--layer", "layer1")
    run(*coverage, *words, "--heatmaps", f"heads={tmp_path / 'maps'}", *QUICK, "--out", tmp_path / "a.json")
    results = {result.about.model["name"]: result for result in read_results(tmp_path / "a.json")}
    assert list(results) == ["kinds grad-cam", "kinds layer1", "heads"]
    assert results["heads"].about.data["rows"] == 6
    heads = results["heads"].about.settings["parts"].index("head")
    assert results["heads"].details["labels"][heads] == 6
    assert results["heads"].score > max(results[name].score for name in list(results)[:2])
    given = (*coverage, *words, *QUICK, "--heatmaps", f"kinds grad-cam={tmp_path / 'maps'}")
    assert "two models or files have the name `kinds grad-cam`" in refusal(*given)


def test_scored_images_of_one_class_alone(coverage, birds, make_classifier, seen, tmp_path) -> None:
    """The classes are numbered by the classifier, not by the images that are left to score."""
    learned = make_classifier("skewed", range(0, 7))
    run(*coverage, "--model", learned, "--method", "vebi", *QUICK, "--out", tmp_path / "a.json")
    assert seen["scored"] == [ids_of(birds, range(7, 12))]
    assert seen["labels"] == [1] * 5


def test_one_scored_image_and_none(coverage, birds, make_classifier) -> None:
    words = (*coverage, "--method", "grad-cam", *QUICK, "--model")
    most = make_classifier("most", range(0, 11))
    assert "all images are of one group" in refusal(*words, most)
    assert "kinds" not in run(*words, most, "--choose", "same")
    line = refusal(*words, make_classifier("every", range(12)))
    assert "all images of DATA were learned from, so that none is left to score; hold some out" in line
