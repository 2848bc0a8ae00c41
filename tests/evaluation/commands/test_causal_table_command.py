"""``candlelight evaluate causal-table`` on drawn images in the layout of CANDLE: table, resume, messages."""

import functools
import itertools
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.causal.factor_data import ResizedFactors
from candlelight.evaluation.causal.supplement_tables import SUPPLEMENT_TABLES, train_table_models
from candlelight.evaluation.models.autoencoders import load_autoencoder
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.training import CausalTraining
from candlelight.evaluation.training.train_causal import CausalTask
from candlelight.evaluation.views import open_data
from tests.command_line import refusal, run
from tests.refusals import refused

OBJECTS = ("cube", "sphere", "cylinder", "cone", "torus")
COLORS = {
    **{"red": (200, 30, 30), "blue": (30, 30, 200), "yellow": (200, 200, 30)},
    **{"purple": (160, 30, 160), "orange": (230, 130, 20)},
}


def write_candle(folder: Path) -> None:
    """Write all combinations of object, color and size, three times with the object at another place."""
    combinations = itertools.product(enumerate(OBJECTS), COLORS.items(), (1.5, 2.5), ("hall", "tunnel"))
    for number, ((shape, name), (color, rgb), size, scene) in enumerate(combinations):
        pixels = np.full((32, 32, 3), 40 if scene == "hall" else 120, np.uint8)
        side = int(4 * size)
        pixels[4 + 3 * shape :, 8:][:side, :side] = rgb
        Image.fromarray(pixels).save(folder / f"{number}.png")
        one = {"object_type": name, "color": color, "size": size, "rotation": 0}
        content = {"scene": scene, "objects": {name: one | {"bounds": [[0, 0], [9, 9]]}}}
        (folder / f"{number}.json").write_text(json.dumps(content))


@pytest.fixture(scope="module")
def candle(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("candle")
    write_candle(folder)
    return f"candle:{folder}"


TABLE = ("evaluate", "causal-table")
QUICK = ("--steps", 2, "--codes", 5, "--metric", "irs", "--device", "cpu")


@pytest.fixture
def few_resamples(monkeypatch) -> None:
    few = functools.partial(resampled_interval, resamples=3)
    monkeypatch.setattr(import_module("candlelight.evaluation.causal.measure_codes"), "MOST_RESAMPLES", 3)
    counterfactuals = import_module("candlelight.evaluation.causal.score_counterfactuals")
    monkeypatch.setattr(counterfactuals, "resampled_interval", few)


@pytest.mark.usefixtures("few_resamples")
def test_table_5_is_trained_and_scored(candle, tmp_path: Path) -> None:
    words = (*TABLE, candle, "--table", 5, "--model", "ss-beta-vae", "--seeds", 2)
    text = run(*words, "--labelled", 10, *QUICK, "--out", tmp_path)
    assert "table 5, 40 images, 2 steps, 5 codes; higher is better" in text
    lines = text.splitlines()
    order = ("ss-beta-vae, 2 seeds", "random codes", "factors as codes")
    assert [name for name in order if any(line.startswith(name) for line in lines)] == [*order]
    assert not any(line.startswith("ss-beta-vae#") for line in lines)
    published = [line.split() for line in lines if line.strip().startswith("published ")]
    assert published[0][1:] == ["0.51", "0.18", "0.8", "0.28", "0.6", "0.19"]
    assert "published values are no target" in text
    results = read_results(tmp_path / "table-5.json")
    found = {one.about.metric: one for one in results if one.about.model["name"] == "ss-beta-vae#0"}
    assert found["codes"].about.settings["factors"] == ["scene", "object_type", "color", "size"]
    # A counterfactual is taken from all 100 images, as the selection has no other color for each object.
    assert found["counterfactuals"].about.settings["counterfactuals"]["rows"] == 100
    assert "unconfoundedness(1), candle2021" in found["codes"].scores
    assert "counterfactual_generativeness(1), signed" in found["generativeness"].scores
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"ss-beta-vae#{n}.pt" for n in (0, 1)),
        "table-5.json",
    }
    assert len(load_autoencoder(tmp_path / "ss-beta-vae#1.pt").training["training_ids"]) == 40


def test_an_interrupted_training_goes_on(candle, tmp_path: Path, monkeypatch) -> None:
    view = open_data("factors", candle, rows=range(30))

    def train(folder: Path) -> dict[str, torch.Tensor]:
        folder.mkdir(exist_ok=True)
        quick = {"steps": 2, "codes": 3, "batch_size": 8}
        train_table_models(
            view, ["beta-vae"], 1, lambda one: CausalTraining(model=one, **quick), folder, "cpu"
        )
        return load_autoencoder(folder / "beta-vae#0.pt").network.state_dict()

    whole = train(tmp_path / "whole")
    view.table[0] += 1
    with refused(r"beta-vae#0\.pt: trained with other content; delete it"):
        train(tmp_path / "whole")
    view.table[0] -= 1
    original = CausalTask.losses
    with monkeypatch.context() as patch:
        patch.setattr(CausalTask, "losses", None)  # a finished training is not repeated
        assert all(torch.equal(values, whole[name]) for name, values in train(tmp_path / "whole").items())

    def interrupted(self, batch):
        if batch[0] == 1:
            raise KeyboardInterrupt
        return original(self, batch)

    monkeypatch.setattr(CausalTask, "losses", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut")
    assert [path.name for path in (tmp_path / "cut").iterdir()] == ["beta-vae#0.pt.partial"]
    monkeypatch.setattr(CausalTask, "losses", lambda self, *given: original(self, *given))
    again = train(tmp_path / "cut")
    assert all(torch.equal(values, again[name]) for name, values in whole.items())


def test_a_model_that_finds_no_pairs_is_a_note(candle, tmp_path: Path) -> None:
    view = open_data("factors", candle)
    names = [info.name for info in view.factors]
    shapes, colors = (view.table[:, names.index(name)] for name in ("object_type", "color"))
    toys = open_data("factors", candle, rows=np.flatnonzero(shapes == colors).tolist())
    toys = ResizedFactors(toys, 32)
    columns = [names.index("object_type"), names.index("color")]  # of which each determines the other
    toys.factors, toys.table = tuple(view.factors[j] for j in columns), toys.table[:, columns]
    quick = {"steps": 1, "codes": 3, "batch_size": 4}
    given = (["ada-gvae", "beta-vae"], 1, lambda one: CausalTraining(model=one, **quick), tmp_path, "cpu")
    networks, notes = train_table_models(toys, *given)
    assert list(networks) == ["beta-vae#0"]
    assert notes[0].startswith("ada-gvae is left out: expected pairs of images that share some factors")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--table 6", "Invalid value for '--table'"),
        ("--table 9", "expected dsprites:PATH; "),
        ("--table 4 --metric mgi", "Invalid value for '--metric'"),
        ("--table 4 --factor colour --factor size", "got `colour`; did you mean `color`?"),
        ("--table 5 --limit 50", "--table: chooses the rows itself; omit --rows and --limit"),
        ("--table 4 --model ss-beta-vae --images 20", "at least 100 training images"),
        ("--table 4 --labelled 10", "--labelled: only the models ss- have labelled images"),
    ],
)
def test_faults_are_found_before_any_training(candle, tmp_path: Path, words, message) -> None:
    given = (candle, *QUICK, "--model", "beta-vae", "--seeds", 1, "--out", tmp_path / "out")
    assert message in refusal(*TABLE, *given, *words.split())
    assert not list(tmp_path.glob("out/*.pt*"))


def test_tables_are_those_of_the_supplement() -> None:
    models = [len(table.values) for table in SUPPLEMENT_TABLES.values()]
    assert models == [4, 8, 8, 8, 8, 8, 8]
    for table in SUPPLEMENT_TABLES.values():
        assert all(len(values) == len(table.columns) for values in table.values.values())
    assert SUPPLEMENT_TABLES[11].values["ss-dip-vae-i"] == (0.32, 0.007, 0.76, 0.06, 0.32, 0.10)
