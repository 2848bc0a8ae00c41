"""``candlelight evaluate causal-table`` on drawn images in the layout of CANDLE: table, resume, messages."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.evaluation.causal.factor_data import ResizedFactors
from candlelight.evaluation.causal.supplement_tables import SUPPLEMENT_TABLES, train_table_models
from candlelight.evaluation.models.autoencoders import load_autoencoder
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.training import CausalTraining
from candlelight.evaluation.training.train_causal import CausalTask
from candlelight.evaluation.views import open_data
from candlelight.loaders.errors import InputError

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


def is_first(result) -> bool:
    return result.about.model["name"] == "beta-vae#0"


QUICK = ("--steps", 2, "--codes", 5, "--metric", "irs", "--device", "cpu")


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["evaluate", "causal-table", *map(str, (*words, *QUICK))])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def test_table_5_is_trained_scored_and_resumed(candle, tmp_path: Path, monkeypatch) -> None:
    words = (
        candle,
        "--table",
        5,
        "--model",
        "beta-vae",
        "--model",
        "ss-factor-vae",
        "--seeds",
        2,
        "--labelled",
        10,
    )
    text = run(*words, "--out", tmp_path)
    assert "table 5, 40 images, 2 steps, 5 codes; higher is better" in text
    lines = text.splitlines()
    order = ("beta-vae, 2 seeds", "ss-factor-vae, 2 seeds", "random codes", "factors as codes")
    assert [name for name in order if any(line.startswith(name) for line in lines)] == [*order]
    assert not any(line.startswith("beta-vae#") for line in lines)
    published = [line.split() for line in lines if line.strip().startswith("published ")]
    assert published[0][1:] == ["0.8", "0.17", "0.4", "0.21", "0.13", "0.2"]
    assert "published values are no target" in text
    found = {one.about.metric: one for one in read_results(tmp_path / "table-5.json") if is_first(one)}
    assert found["codes"].about.settings["factors"] == ["scene", "object_type", "color", "size"]
    # A counterfactual is taken from all 100 images, as the selection has no other color for each object.
    assert found["counterfactuals"].about.settings["counterfactuals"]["rows"] == 100
    assert "unconfoundedness(1), candle2021" in found["codes"].scores
    assert "counterfactual_generativeness(1), signed" in found["generativeness"].scores
    files = {f"{model}#{seed}.pt" for model in ("beta-vae", "ss-factor-vae") for seed in (0, 1)}
    assert {path.name for path in tmp_path.iterdir()} == {*files, "table-5.json"}
    assert len(load_autoencoder(tmp_path / "beta-vae#1.pt").training["training_ids"]) == 40

    before = (tmp_path / "table-5.json").read_text()
    (tmp_path / "beta-vae#1.pt").unlink()
    trained = []
    original = CausalTask.losses
    monkeypatch.setattr(
        CausalTask, "losses", lambda self, *given: trained.append(1) or original(self, *given)
    )
    run(*words, "--out", tmp_path)
    assert len(trained) == 2  # the two steps of one training
    assert (tmp_path / "table-5.json").read_text() == before


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
    with pytest.raises(InputError, match=r"beta-vae#0\.pt: trained with other content; delete it"):
        train(tmp_path / "whole")
    view.table[0] -= 1
    original = CausalTask.losses

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


def test_messages_are_one_line(candle, tmp_path: Path) -> None:
    words = (candle, "--model", "beta-vae", "--seeds", 1, "--out", tmp_path / "out")
    for wrong, message in (
        (("--table", 6), "Invalid value for '--table'"),
        (("--table", 9), "expected dsprites:PATH; "),
        (("--table", 4, "--metric", "mgi"), "Invalid value for '--metric'"),
        (("--table", 4, "--factor", "colour", "--factor", "size"), "got `colour`; did you mean `color`?"),
        (("--table", 5, "--limit", 50), "--table: chooses the rows itself; omit --rows and --limit"),
    ):
        text = run(*words, *wrong, code=2)
        assert "Error: " in text.splitlines()[-1]
        assert message in text
    run(*words, "--table", 4, "--images", 20)
    text = run(*words, "--table", 4, "--images", 21, code=2)
    assert "beta-vae#0.pt: trained with other training_ids, content; delete it, or give another --out" in text


def test_faults_are_found_before_any_training(candle, tmp_path: Path) -> None:
    words = (candle, "--seeds", 1, "--out", tmp_path / "out", "--table", 4)
    for wrong, message in (
        (("--model", "beta-vae", "--model", "ss-beta-vae", "--images", 20), "at least 100 training images"),
        (("--model", "beta-vae", "--labelled", 10), "--labelled: only the models ss- have labelled images"),
    ):
        assert message in run(*words, *wrong, code=2)
    assert not list(tmp_path.glob("out/*.pt*"))


def test_tables_are_those_of_the_supplement() -> None:
    models = [len(table.values) for table in SUPPLEMENT_TABLES.values()]
    assert models == [4, 8, 8, 8, 8, 8, 8]
    for table in SUPPLEMENT_TABLES.values():
        assert all(len(values) == len(table.columns) for values in table.values.values())
    assert SUPPLEMENT_TABLES[11].values["ss-dip-vae-i"] == (0.32, 0.007, 0.76, 0.06, 0.32, 0.10)
