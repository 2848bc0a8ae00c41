"""All commands of evaluations: faults are one line before anything is read; files, page, plots and resume."""

import re

import numpy as np
import pytest

from candlelight.evaluation.catalogue import CATALOGUE
from candlelight.evaluation.catalogue.record import MODELS
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import Provenance, StatisticResult
from candlelight.evaluation.run.result_files import read_results, write_results
from candlelight.evaluation.views import open_data
from tests.command_line import refusal, run

CODE = """
import torch
from torch.nn import Module

class Split(Module):
    def forward(self, image):
        return image, torch.ones_like(image[:, :1])

class Layers(Module):
    def forward(self, image):
        return {"normal": image - 0.5, "depth": 0.1 + image.mean(1, keepdim=True)}

class Heatmaps(Module):
    def forward(self, image):
        return image[:, :2] + torch.linspace(0, 0.1, image.shape[3])

class Codes(Module):
    def forward(self, image):
        return image.mean((2, 3))
"""
NEEDED = {"tcav": "--target norm --layer x"}
# The model and options, the number of pictures on the page, and words of the page.
RUNS = {
    "lmse": ("split", "--set tabletop_test", 3 * 4, "median lmse of split"),
    "depth": ("layers", "--set tabletop_test --by object", 3 * 4, "Scores of each part"),
    "csm": (
        "split",
        "--set tabletop_test --albedo albedo --illumination none --negatives negatives --runs 2",
        2 * (3 + 2),  # images of two sets, and two images with their decompositions
        "3 of 3 images of a concept set: only albedo varies. Fixed: color",
    ),
    "coverage": ("heatmaps", "--set tabletop_test --quick", 3 * 2 + 2 * 3, "outlined: "),
    "codes": ("codes", "--set tabletop_test --metric mig --no-controls", 6, "size 1.5"),
    "protocols": (
        "split",
        "--set negatives --limit 2 --model retinex --protocol mit-grosse,saw",
        0,
        "Rank of each model by the main score",
    ),
    "transforms": ("rmse", "--set negatives --limit 2 --transform scale --preset rmse=RMSE", 0, "Table II"),
}


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("contract") / "own.py"
    path.write_text(CODE)
    return path


def words_of(name, frames, own):
    model, options, *_ = RUNS[name]
    given = ("--metric", model) if model == "rmse" else ("--model", f"{model}={own}:{model.title()}")
    return ("evaluate", name, frames, *options.split(), *given, "--device", "cpu")


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "effects"])  # scores files alone
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("MODEL", "does not exist|give a --method|is missing; get it"),
        ("MODEL MODEL", "two models are named"),
        ("--MODEL retinx", "`retinx`: expected one of "),
        ("", "nothing to score: give a --|does not exist"),
        ("--out no/folder.json", "its folder does not exist"),
        ("--out .", r"expected a file name that ends in \.json, \.csv, \.md or \.tex"),
        ("--out a.csv --out a.csv", r"--out: expected different files, got one of a\.csv, a\.csv twice"),
        ("MODEL --out taken.json", "--method|taken.json.partial: must not exist, or hold the steps of an"),
        ("--report a.pdf", r"expected a file name that ends in \.html or \.htm"),
        ("--report nowhere/a.html", "its folder does not exist"),
        ("--device abacus", "--device abacus: not usable here"),
    ],
)
def test_faults_are_one_line_before_anything_is_read(name, words, message, tmp_path):
    (tmp_path / "taken.json.partial").mkdir()
    (tmp_path / "taken.json.partial" / "notes.txt").touch()
    model = getattr(CATALOGUE[name].options, "models", MODELS).name
    words = words.replace("--MODEL", f"--{model}")
    words = words.replace("MODEL", f"--{model} {'rmse' if model == 'metric' else 'retinex'}")
    line = refusal("evaluate", name, "nowhere", *NEEDED.get(name, "").split(), *words.split())
    assert re.search(message, line), line
    assert [path.name for path in tmp_path.iterdir()] == ["taken.json.partial"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("lmse mitt:x --model retinex", "did you mean `mit`?"),
        ("lmse nowhere --predictions none", "none"),
        ("codes nowhere --codes codes.npz", "codes.npz: expected a file of codes, there is none"),
        ("report nowhere.json --out a.html", "nowhere.json: cannot be read"),
        ("compare nowhere.json nowhere.json", "nowhere.json: cannot be read"),
    ],
)
def test_files_and_data_that_are_not_there(words, message):
    assert message in refusal("evaluate", *words.split())


def test_a_page_of_an_edited_file_is_refused(tmp_path) -> None:
    about = Provenance("codes", 7, "higher", {"name": "vae"}, {}, {"factors": ["x", "y"]}, {})
    details = {"codes": [0], "matrix": 5, "parents": [0], "weights": [1.0], "matrices": {}}
    result = StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), details)
    write_results(tmp_path / "irs.json", [result])
    line = refusal("evaluate", "report", "irs.json", "--out", "a.html")
    assert "irs.json: cannot be shown, a field is missing or damaged" in line
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupted_command_resumes_and_writes_a_page_with_pictures(
    noise_frames, own, name, tmp_path, monkeypatch
):
    def stop(*_):
        raise KeyboardInterrupt

    words = (*words_of(name, noise_frames, own), "--out", "a.json", "--report", "a.html")
    with monkeypatch.context() as patch:
        patch.setattr("candlelight.evaluation.run.result_files.write_results", stop)
        assert "interrupted; run the same command again to continue" in run(*words, code=130)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json.partial"]
    printed = run(*words)
    assert re.search(r"a\.json\.partial: (\d+) of \1 steps were already finished", printed), printed
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "a.html"}
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    _, _, pictures, said = RUNS[name]
    assert page.count("<img") == pictures
    assert said in page
    assert page.count("<script") == 1
    assert not re.search(r"https?:", page)
    run("evaluate", "report", "a.json", "--out", "again.html")
    assert pictures or (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_results_go_into_all_kinds_of_files_and_plots_into_a_folder(noise_frames, own, tmp_path):
    files = [tmp_path / f"a{end}" for end in (".json", ".csv", ".md", ".tex", ".rows.csv")]
    given = [word for file in files for word in ("--out", file)]
    printed = run(*words_of("lmse", noise_frames, own), *given, "--intervals", "--figures", "figures")
    plots = [f"figures/{path.name}" for path in (tmp_path / "figures").iterdir()]
    assert {plot.rpartition(".")[2] for plot in plots} == {"pdf", "svg"}
    lines = printed.splitlines()
    assert lines[-len(files) - len(plots) : -len(plots)] == [str(file) for file in files]
    assert sorted(lines[-len(plots) :]) == sorted(plots)
    [result] = read_results(files[0])
    assert len(files[4].read_text().splitlines()) == 1 + len(result.ids)
    assert f"{result.score:.4g} [" in files[2].read_text()


def test_a_page_shows_the_rows_that_are_named(noise_frames, own, tmp_path):
    words = ("evaluate", "normals", noise_frames, "--set", "tabletop_test", "--model", f"{own}:Layers")
    row = open_data("images", str(noise_frames), set_name="tabletop_test").ids[2]
    run(*words, "--pictures", "best", "--pictures", row, "--device", "cpu", "--report", "a.html")
    page = (tmp_path / "a.html").read_text().replace("<wbr>", "")
    assert page.count("<img") == 2 * 4
    assert [page.count(text) for text in ("best mean_angle of", f"{row}: mean_angle of")] == [
        2,
        2,
    ]  # for readers and for screen readers
    assert "--pictures best: needs a page" in refusal(*words, "--pictures", "best")
    line = refusal(*words, "--pictures", "bets", "--report", "a.html")
    assert "--pictures bets: expected worst, median, best or an id; did you mean `best`?" in line


def test_predictions_that_are_missing_are_shown_as_failed(noise_frames, tmp_path):
    images = open_data("images", str(noise_frames), set_name="tabletop_test")
    (tmp_path / "mine").mkdir()
    for row, name in list(enumerate(images.ids))[1:]:
        pixels = images[row].numpy()
        np.savez(tmp_path / "mine" / f"{name}.npz", reflectance=pixels, shading=pixels)
    words = ("--set", "tabletop_test", "--predictions", "mine", "--missing", "fail", "--report", "a.html")
    run("evaluate", "lmse", noise_frames, "--device", "cpu", *words)
    page = (tmp_path / "a.html").read_text().replace("<wbr>", "").replace("\N{NO-BREAK SPACE}", " ")
    assert f"{images.ids[0]}: worst lmse of mine" in page
    assert page.count("failed, lmse_reflectance 1.00, lmse_shading 1.00") == 1
