"""RAID in its layout, made by hand: gray photographs whose distortions are a brighter gray."""

import math

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from scipy.stats import spearmanr

from candlelight.cli import main
from candlelight.evaluation import evaluate
from candlelight.evaluation.perception import rmse_distance
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.result_files import read_results
from tests.refusals import refused

HEADER = "Reference,Distorted,Curve_Value,Sigmas,Response,Estimated_MOS\n"
# By reference: gray steps of each level, and response of people to the last level.
STEPS = {"rot": (1, 2, 3, 4, 5, 6, 7), "trans": (7, 2, 9, 4, 5, 3, 1)}
LAST = {"rot": (1.5, 2, 3, 4, 6, 9, 0.5), "trans": (2, 0.5, 0.5, 0.5, 3, 0.5, 4)}


@pytest.fixture
def raid(tmp_path):
    """Write responses, references beside them, and distorted images in a folder of each distortion."""
    lines = [HEADER]
    for place in range(7):
        gray(tmp_path / f"img_{place + 1:02d}.png", 100)
    for prefix, steps in STEPS.items():
        for place, step in enumerate(steps):
            for level in range(1, 11):
                name = f"{prefix}_img_{place + 1:02d}_level_{level:02d}.png"
                response = LAST[prefix][place] * (level - 1) / 9
                lines.append(f"img_{place + 1:02d}.png,{name},0.5,0.2,{response},5\n")
                if level > 1:
                    gray(tmp_path / prefix / name, 100 + step * (level - 1))
    (tmp_path / "responses.csv").write_text("".join([lines[0], *reversed(lines[1:])]))
    return tmp_path


def gray(path, value, side=4):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(path)


def scored(folder, **metrics):
    return evaluate("raid", folder, metrics or ["rmse"], device="cpu")


def test_thresholds_of_people(raid):
    found = scored(raid)["rmse"]
    assert list(found.scores) == ["translation", "rotation"]  # the order of the file
    turned = found.details["people"]["rotation"]
    assert turned["unit"] == "degrees"
    assert turned["magnitudes"] == pytest.approx(list(range(0, 20, 2)))
    wanted = [18 / last for last in LAST["rot"]]
    assert turned["photographs"][:6] == pytest.approx(wanted[:6])
    assert turned["photographs"][6] is None
    assert turned["human"] == pytest.approx(6)  # the median of 2, 3, 4.5, 6, 9, 12 and inf
    shifted = found.details["people"]["translation"]
    assert shifted["magnitudes"][-1] == 0.63
    assert shifted["human"] == "inf"  # four of seven do not reach it
    assert shifted["photographs"][0] == pytest.approx(0.315)
    assert (
        "rotation: people respond with 1 at 6 degrees, the median of 7 photographs" in found.details["notes"]
    )


def test_rank_correlation_with_people_beside_that_of_the_level(raid):
    levels = np.arange(1, 10)
    metric, level = scored(raid).values()
    for prefix, name in (("trans", "translation"), ("rot", "rotation")):
        distances, people = (np.outer(numbers[prefix], levels).ravel() for numbers in (STEPS, LAST))
        found = metric.scores[name]
        assert found.value == pytest.approx(spearmanr(distances, people).statistic)
        assert found.low <= found.value <= found.high
        wanted = spearmanr(np.tile(levels, 7), people).statistic
        assert level.scores[name].value == pytest.approx(wanted)
    assert compare(metric, level, "rotation").groups == 7


def test_a_metric_that_is_the_response_agrees_and_one_that_never_moves_is_undefined(raid):
    text = (raid / "responses.csv").read_text().splitlines()
    same = []
    for line in text[1:]:
        cells = line.split(",")
        prefix, _, image, _, level = cells[1].removesuffix(".png").split("_")
        cells[4] = str(STEPS[prefix][int(image) - 1] * (int(level) - 1))
        same.append(",".join(cells))
    (raid / "responses.csv").write_text("\n".join([text[0], *same]))
    still = lambda one, _: 0 * one[:, 0, 0, 0]  # noqa: E731
    found = scored(raid, rmse=rmse_distance, still=still)
    for name in ("rotation", "translation"):
        assert found["rmse"].scores[name].value == pytest.approx(1)
        assert found["rmse"].scores[name].low == pytest.approx(1)
        assert found["level"].scores[name].value < 0.9
        assert math.isnan(found["still"].scores[name].value)


def test_rounding_below_0_counts_as_0(raid):
    found = scored(raid, below=lambda one, _: -1e-9 + 0 * one[:, 0, 0, 0])
    assert math.isnan(found["below"].scores["rotation"].value)
    with refused("`distances of mine` must be at least 0, got -1"):
        scored(raid, mine=lambda one, _: -1 + 0 * one[:, 0, 0, 0])


def test_some_photographs_and_the_command(raid):
    words = ["evaluate", "raid", raid, "--metric", "rmse", "--limit", 4, "--device", "cpu"]
    words += ["--out", raid / "a.json", "--report", raid / "a.html"]
    done = CliRunner().invoke(main, [*map(str, words)], terminal_width=200)
    assert done.exit_code == 0, done.output
    assert "people respond with 1 beyond 0.63 degrees, the median of 4 photographs" in done.output
    metric, level = read_results(raid / "a.json")
    assert list(metric.scores) == list(level.scores) == ["translation"]
    assert metric.about.data["rows"] == 4
    assert "level" in (raid / "a.html").read_text()
    with refused("`split`: RAID has one set of images; leave it out"):
        evaluate("raid", raid, ["rmse"], split="test")


def test_damaged_layouts_are_refused(raid):
    lines = (raid / "responses.csv").read_text().splitlines()
    (raid / "responses.csv").write_text("\n".join(lines[:-1]))
    with refused("rotation: expected levels 1 to 10 of each image, once, got 69 responses of 7 images"):
        scored(raid)
    (raid / "responses.csv").write_text("\n".join(lines))
    gray(raid / "rot" / "rot_img_02_level_03.png", 100, side=5)
    with refused(r"rot_img_02_level_03\.png: expected the 4x4 pixels of its reference, got 5x5"):
        scored(raid)
    (raid / "rot" / "rot_img_02_level_03.png").unlink()
    with refused(r"rot_img_02_level_03\.png is missing; get it from https"):
        scored(raid)
    with refused("nowhere is missing; get it from https"):
        scored("nowhere")
