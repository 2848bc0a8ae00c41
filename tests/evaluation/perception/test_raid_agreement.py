"""RAID in its layout, made by hand: gray photographs whose distortions are a brighter gray."""

import math
import shutil
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from scipy.stats import spearmanr

from candlelight.cli import main
from candlelight.evaluation import evaluate
from candlelight.evaluation.perception import raid_agreement, rmse_distance
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.result_files import read_results
from tests.refusals import refused

HEADER = "Reference,Distorted,Curve_Value,Sigmas,Response,Estimated_MOS\n"
# By reference: gray steps of each level, and response of people to the last level.
STEPS = {"rot": (1, 2, 3, 4, 5, 6, 7), "trans": (7, 2, 9, 4, 5, 3, 1)}
LAST = {"rot": (1.5, 2, 3, 4, 6, 9, 0.5), "trans": (2, 0.5, 0.5, 0.5, 3, 0.5, 4)}


def gray(path, value, side=4):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(path)


def write_responses(folder, response):
    """Write the responses to all images, in reverse order, by distortion, photograph and level from 0."""
    lines = [
        f"img_{place + 1:02d}.png,{prefix}_img_{place + 1:02d}_level_{level + 1:02d}.png,0.5,0.2,"
        f"{response(prefix, place, level)},5\n"
        for prefix in STEPS
        for place in range(7)
        for level in range(10)
    ]
    (folder / "responses.csv").write_text("".join([HEADER, *reversed(lines)]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Write responses, references beside them, and distorted images in a folder of each distortion."""
    folder = tmp_path_factory.mktemp("raid")
    for place in range(7):
        gray(folder / f"img_{place + 1:02d}.png", 100)
    for prefix, steps in STEPS.items():
        for place, step in enumerate(steps):
            for level in range(1, 10):
                name = f"{prefix}_img_{place + 1:02d}_level_{level + 1:02d}.png"
                gray(folder / prefix / name, 100 + step * level)
    write_responses(folder, lambda prefix, place, level: LAST[prefix][place] * level / 9)
    return folder


@pytest.fixture
def raid(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "raid")


@pytest.fixture(autouse=True)
def few_resamples_of_photographs(monkeypatch):
    monkeypatch.setattr(raid_agreement, "resampled_interval", partial(resampled_interval, resamples=20))


def scored(folder, **metrics):
    return evaluate("raid", folder, metrics or ["rmse"], device="cpu")


def test_thresholds_of_people_and_rank_correlation_beside_that_of_the_level(whole):
    metric, level = scored(whole).values()
    assert list(metric.scores) == ["translation", "rotation"]  # the order of the file
    turned = metric.details["people"]["rotation"]
    assert turned["unit"] == "degrees"
    assert turned["magnitudes"] == pytest.approx(list(range(0, 20, 2)))
    assert turned["photographs"][:6] == pytest.approx([18 / last for last in LAST["rot"][:6]])
    assert turned["photographs"][6] is None
    assert turned["human"] == pytest.approx(6)  # the median of 2, 3, 4.5, 6, 9, 12 and inf
    shifted = metric.details["people"]["translation"]
    assert shifted["magnitudes"][-1] == 0.63
    assert shifted["human"] == "inf"  # four of seven do not reach it
    assert shifted["photographs"][0] == pytest.approx(0.315)
    told = "rotation: people respond with 1 at 6 degrees, the median of 7 photographs"
    assert told in metric.details["notes"]
    numbers = np.arange(1, 10)
    for prefix, name in (("trans", "translation"), ("rot", "rotation")):
        distances, people = (np.outer(values[prefix], numbers).ravel() for values in (STEPS, LAST))
        found = metric.scores[name]
        assert found.value == pytest.approx(spearmanr(distances, people).statistic)
        assert found.low <= found.value <= found.high
        wanted = spearmanr(np.tile(numbers, 7), people).statistic
        assert level.scores[name].value == pytest.approx(wanted)
    assert compare(metric, level, "rotation").groups == 7


def test_a_metric_that_is_the_response_agrees_and_one_that_never_moves_is_undefined(raid):
    write_responses(raid, lambda prefix, place, level: STEPS[prefix][place] * level)
    still = lambda one, _: 0 * one[:, 0, 0, 0]  # noqa: E731
    below = lambda one, _: -1e-9 + still(one, _)  # noqa: E731  # rounding below 0 counts as 0
    found = scored(raid, rmse=rmse_distance, still=still, below=below)
    for name in ("rotation", "translation"):
        assert found["rmse"].scores[name].value == pytest.approx(1)
        assert found["rmse"].scores[name].low == pytest.approx(1)
        assert found["level"].scores[name].value < 0.9
        assert math.isnan(found["still"].scores[name].value)
        assert math.isnan(found["below"].scores[name].value)


def test_some_photographs_and_the_command(whole, tmp_path):
    words = ["evaluate", "raid", whole, "--metric", "rmse", "--limit", 4, "--device", "cpu"]
    words += ["--out", tmp_path / "a.json", "--report", tmp_path / "a.html"]
    done = CliRunner().invoke(main, [*map(str, words)], terminal_width=200)
    assert done.exit_code == 0, done.output
    assert "people respond with 1 beyond 0.63 degrees, the median of 4 photographs" in done.output
    metric, level = read_results(tmp_path / "a.json")
    assert list(metric.scores) == list(level.scores) == ["translation"]
    assert metric.about.data["rows"] == 4
    assert "level" in (tmp_path / "a.html").read_text()


def test_damaged_layouts_are_refused(raid):
    with refused("`split`: RAID has one set of images; leave it out"):
        evaluate("raid", raid, ["rmse"], split="test")
    moved = raid / "rot" / "rot_img_02_level_03.png"
    gray(moved, 100, side=5)
    with refused(r"rot_img_02_level_03\.png: expected the 4x4 pixels of its reference, got 5x5"):
        scored(raid)
    lines = (raid / "responses.csv").read_text().splitlines()
    (raid / "responses.csv").write_text("\n".join(lines[:-1]))
    with refused("rotation: expected levels 1 to 10 of each image, once, got 69 responses of 7 images"):
        scored(raid)
