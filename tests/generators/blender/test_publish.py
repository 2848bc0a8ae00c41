"""``scripts/publish``: packs of shipped recipes load in `datasets`; a second call makes nothing."""

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.loaders import open_frames, read_captions
from candlelight.loaders.frames import read_dataset_info
from tests.loaders.edits import contents, edit_json
from tests.refusals import refused

SCRIPT = Path(__file__).parents[3] / "scripts" / "publish_packs.py"
RECIPES = ("candle", "dead-leaves", "toy-confounded")
SMALL = ["--samples=3", "--preset=draft", "--workers=1", "--set=image={width: 24, height: 16}"]

pytestmark = pytest.mark.blender


@pytest.fixture(scope="module")
def script():
    spec = spec_from_file_location("publish_packs", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def published(script, tmp_path_factory) -> Path:
    """Publish three recipes, tiny."""
    out = tmp_path_factory.mktemp("published")
    script.main([f"--out={out}", f"--recipes={','.join(RECIPES)}", *SMALL])
    return out


@pytest.mark.parametrize("name", RECIPES)
def test_a_published_pack_loads(published, datasets, tmp_path, name):
    pack = published / "packs" / name
    (config,) = datasets.get_dataset_config_names(str(pack))
    rows = datasets.load_dataset(str(pack), config, split="train", cache_dir=tmp_path)
    assert len(rows) == 3
    assert rows[0]["image"].size == (24, 16)
    assert rows["caption"][:] == read_captions(open_frames(pack))
    assert all(len(text) > 5 for text in rows["caption"])
    info = read_dataset_info(pack)
    assert f"licence: {info.licence.lower()}" in (pack / "README.md").read_text().lower().replace(
        "license", "licence"
    )


def test_a_second_call_makes_nothing_and_names_the_upload(published, script, capsys):
    before = contents(published)
    script.main([f"--out={published}", "--recipes=dead-leaves,candle", "--org=me", *SMALL])
    *each, total, command = capsys.readouterr().out.splitlines()
    assert [line.partition(" samples")[0] for line in each] == ["dead-leaves: 3", "candle: 3"]
    assert all(line.endswith(", rendered in 0 CPU s") for line in each)
    assert total.startswith("2 packs, 6 samples, ")
    packs = " ".join(f"{published}/packs/{name}" for name in ("dead-leaves", "candle"))
    push = 'candlelight push "$pack" me/candlelight-"$(basename "$pack")"'
    assert command == f"upload them: for pack in {packs}; do {push}; done"
    assert contents(published) == before


def test_more_samples_are_packed_anew(published, script, tmp_path, capsys):
    out = shutil.copytree(published, tmp_path / "copy")
    for samples in (5, 2):  # finished frames stay
        script.main([f"--out={out}", "--recipes=dead-leaves", f"--samples={samples}", *SMALL[1:]])
        assert capsys.readouterr().out.startswith("dead-leaves: 5 samples, ")
    assert len(open_frames(out / "packs" / "dead-leaves")) == 5


def test_a_number_of_samples_below_1_is_refused(script):
    with refused("--samples: expected 1 or more, got 0"):
        script.main(["--samples=0"])


def test_many_sets_and_counterfactuals_stay_few(script):
    for name in ("concepts-controls", "sequences"):
        recipe = load_recipe(name)
        plan = script.plan_few(recipe, 60)
        assert 30 <= len(plan) <= 60
        assert {sample.set for sample in plan.samples} == {*recipe.sets}


def test_packs_without_licences_are_refused(published, script, tmp_path):
    pack = published / "packs" / "toy-confounded"
    text = (pack / "dataset.json").read_text()
    for edit, message in (
        (lambda info: info.update(licence=""), "expected a licence, got none; state it in the recipe"),
        (lambda info: info["assets"][0].update(licence="unknown"), "has licence `unknown` and source"),
        (lambda info: info["assets"][0].update(source=""), "and source ``; state both in the manifest"),
    ):
        (tmp_path / "dataset.json").write_text(text)
        edit_json(tmp_path / "dataset.json", edit)
        with refused(message):
            script.check_licences(tmp_path)
