"""Commands of all evaluations on a GPU: their numbers are those of the CPU."""

import numpy as np
import pytest
from PIL import Image

from candlelight.evaluation.catalogue import CATALOGUE
from candlelight.evaluation.run.result_files import read_results
from tests.command_line import run
from tests.evaluation.causal.scoring.test_score_effects import write_rooms
from tests.evaluation.commands.test_command_contract import CODE
from tests.evaluation.commands.test_intrinsic_commands import write_objects
from tests.evaluation.commands.test_perception_command import write_turned
from tests.evaluation.commands.test_tcav_command import write_pictures
from tests.evaluation.intrinsic.test_leaks import write_grids
from tests.evaluation.test_pages import write_raid
from tests.loaders.public.copies import write_maw, write_multi_illumination

SPLIT, CODES = "--model split=own.py:Split", "--model codes=own.py:Codes"
COMMANDS = {
    "lmse": f"noise --set tabletop_test {SPLIT} --model retinex",
    "layer": f"noise --set tabletop_test {SPLIT} --model retinex --align median --space srgb --resize 20 "
    "--by object",
    "normals": "noise --set tabletop_test --model layers=own.py:Layers --resize 20 --axes opengl",
    "depth": "noise --set tabletop_test --model layers=own.py:Layers --align scale-shift --resize 20 "
    "--filter area",
    "whdr": f"noise --set negatives {SPLIT} --model retinex",
    "saw": f"noise --set negatives {SPLIT} --model retinex",
    "maw": f"maw:maw {SPLIT} --model retinex",
    "constancy": f"multi-illumination:lit --split all {SPLIT} --model retinex",
    "leaks": f"grids {SPLIT} --model retinex",
    "methods": "mit:objects --split all --methods BAS,GR-RET,W",
    "protocols": f"noise --set negatives {SPLIT} --model retinex",
    "csm": f"noise --set tabletop_test {SPLIT} --albedo albedo --illumination none "
    "--negatives negatives --runs 3",
    "tcav": "photographs --model tcav.py:Red --target logit:0 --layer means --concept red=red "
    "--negatives negatives --runs 3",
    "codes": f"noise --set candle {CODES} --model vae.pt --metric irs --metric mig --metric sap "
    "--metric unconfoundedness --metric blocks --splits 2",
    "graph": f"noise --set candle --factor scene --factor color --truth graph.json {CODES} --discover pc "
    "--discover ges --resamples 20",
    "generativeness": "noise --set candle --model vae.pt",
    "counterfactuals": "noise --set candle --model vae.pt",
    "effects": "rooms --set observed --treatment lamp --values dim,bright --outcome luminance --replicates 3",
    "axioms": "noise --set candle --model vae.pt --cycles 2",
    "coverage": "noise --set tabletop_test --model heatmaps=own.py:Heatmaps",
    "transforms": "ramps --metric rmse --metric ssim --preset rmse=RMSE",
    "moved-frames": "turned --metric rmse --transform rotation",
    "raid": "raid --metric rmse",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory, noise_frames):
    """Write all data, models and files of the commands into one folder."""
    folder = tmp_path_factory.mktemp("gpu")
    (folder / "noise").symlink_to(noise_frames)
    for name in ("objects", "maw", "lit", "raid", "ramps"):
        (folder / name).mkdir()
    write_objects(folder / "objects")
    write_maw(folder / "maw")
    write_multi_illumination(folder / "lit")
    write_raid(folder / "raid")
    write_turned(folder / "turned")
    write_grids(folder / "grids")
    write_rooms(folder / "rooms")
    write_pictures(folder)
    (folder / "own.py").rename(folder / "tcav.py")
    (folder / "own.py").write_text(CODE)
    (folder / "graph.json").write_text('{"nodes": ["scene", "color"], "edges": [["scene", "color"]]}')
    for row in range(3):
        noise = np.random.default_rng(row).integers(0, 256, (40, 40, 3), np.uint8)
        Image.fromarray(noise).save(folder / "ramps" / f"{row}.png")
    words = ("--set", "candle", "--size", 32, "--model", "beta-vae", "--steps", 3, "--codes", 3)
    words += ("--validation", 0, "--device", "cpu")
    run("train", "causal", noise_frames, *words, "--out", folder / "vae.pt")
    return folder


def check_numbers(tmp_path, *words):
    """Run a command on the CPU and on the GPU, and compare the scores and the values of images."""
    files = {device: tmp_path / f"{device}.json" for device in ("cpu", "cuda")}
    for device, file in files.items():
        run("evaluate", *words, "--device", device, "--out", file)
    expected, found = map(read_results, files.values())
    assert [one.about.model for one in found] == [one.about.model for one in expected]
    for one, wanted in zip(found, expected, strict=True):
        assert one.scores.keys() == wanted.scores.keys()
        for name, score in wanted.scores.items():
            close = pytest.approx(score.value, rel=1e-3, abs=1e-5, nan_ok=True)
            assert one.scores[name].value == close, name
        for name, values in vars(wanted).get("columns", {}).items():  # of scores that are means of images
            np.testing.assert_allclose(one.columns[name], values, rtol=1e-3, atol=1e-5, err_msg=name)


def test_every_evaluation_has_a_command():
    # Of the last two: test_causal_check_command.py and test_score_removal.py.
    assert {*COMMANDS, "causal-check", "removal"} == set(CATALOGUE)


@pytest.mark.gpu
@pytest.mark.parametrize("name", COMMANDS)
def test_numbers_are_those_of_the_cpu(data, name, tmp_path, monkeypatch):
    monkeypatch.chdir(data)
    check_numbers(tmp_path, name, *COMMANDS[name].split())
