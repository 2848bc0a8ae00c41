"""RAID in its layout, made by hand: gray photographs whose distortions are a brighter gray."""

import math

import numpy as np
import pytest
from PIL import Image
from scipy.stats import spearmanr

from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.perception import open_distance, raid_agreement
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.raid import read_raid_responses

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


def agreement(folder, **changes):
    arguments = {
        "named": open_distance("rmse"),
        "responses": read_raid_responses(folder / "responses.csv"),
        "images": folder,
    }
    return raid_agreement(**{**arguments, **changes})


def test_thresholds_of_people(raid):
    found = agreement(raid)
    assert list(found) == ["translation", "rotation"]  # the order of the file
    turned = found["rotation"]
    assert turned.unit == "degrees"
    assert turned.magnitudes.tolist() == pytest.approx(list(range(0, 20, 2)))
    wanted = [18 / last for last in LAST["rot"]]
    assert turned.references[:6].tolist() == pytest.approx(wanted[:6])
    assert math.isnan(turned.references[6])
    assert turned.human == pytest.approx(6)  # the median of 2, 3, 4.5, 6, 9, 12 and inf
    shifted = found["translation"]
    assert shifted.magnitudes[-1] == 0.63
    assert shifted.human == math.inf  # four of seven do not reach it
    assert shifted.references[0] == pytest.approx(0.315)


def test_rank_correlation_with_people_beside_that_of_the_level(raid):
    levels = np.arange(1, 10)
    for prefix, found in zip(("trans", "rot"), agreement(raid).values(), strict=True):
        distances, people = (np.outer(numbers[prefix], levels).ravel() for numbers in (STEPS, LAST))
        assert found.correlation.value == pytest.approx(spearmanr(distances, people).statistic)
        assert found.correlation.low <= found.correlation.value <= found.correlation.high
        assert found.control == pytest.approx(spearmanr(np.tile(levels, 7), people).statistic)


def test_a_metric_that_is_the_response_agrees_and_one_that_never_moves_is_undefined(raid):
    responses = read_raid_responses(raid / "responses.csv")
    chosen = responses["transformation"] == "rotation"
    responses = {name: column[chosen] for name, column in responses.items()}
    steps = np.array(STEPS["rot"])[responses["image"] - 1]
    perfect = agreement(raid, responses={**responses, "response": steps * (responses["level"] - 1.0)})
    assert perfect["rotation"].correlation.value == pytest.approx(1)
    assert perfect["rotation"].correlation.low == pytest.approx(1)
    assert perfect["rotation"].control < 0.9
    still = NamedModel(ModelIdentity("still", "callable"), lambda one, _: 0 * one[:, 0, 0, 0], "srgb")
    found = agreement(raid, named=still, responses=responses)["rotation"]
    assert math.isnan(found.correlation.value)


def test_rounding_below_0_counts_as_0(raid):
    below = NamedModel(ModelIdentity("below", "callable"), lambda one, _: -1e-9 + 0 * one[:, 0, 0, 0], "srgb")
    assert math.isnan(agreement(raid, named=below)["rotation"].correlation.value)
    negative = NamedModel(ModelIdentity("mine", "callable"), lambda one, _: -1 + 0 * one[:, 0, 0, 0], "srgb")
    with pytest.raises(InputError, match="`distances of mine` must be at least 0, got -1"):
        agreement(raid, named=negative)


def test_damaged_layouts_are_refused(raid):
    responses = read_raid_responses(raid / "responses.csv")
    fewer = {name: column[:-1] for name, column in responses.items()}
    with pytest.raises(
        InputError,
        match="rotation: expected levels 1 to 10 of each image, once, got 69 responses of 7 images",
    ):
        agreement(raid, responses=fewer)
    gray(raid / "rot" / "rot_img_02_level_03.png", 100, side=5)
    with pytest.raises(
        InputError, match=r"rot_img_02_level_03\.png: expected the 4x4 pixels of its reference, got 5x5"
    ):
        agreement(raid)
    (raid / "rot" / "rot_img_02_level_03.png").unlink()
    with pytest.raises(InputError, match=r"rot_img_02_level_03\.png is missing; get it from https"):
        agreement(raid)
    with pytest.raises(InputError, match="nowhere is missing; get it from https"):
        agreement(raid, images="nowhere")
