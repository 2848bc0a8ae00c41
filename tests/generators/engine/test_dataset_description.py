"""The description of a folder of frames, which refuses other recipes, other files and edited assets."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from candlelight.blender_assets import shipped
from candlelight.generators.engine import dataset_description
from candlelight.generators.engine.dataset_description import dataset_info, describe_folder
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256
from candlelight.generators.planning.interventions import condition, counterfactual
from candlelight.generators.planning.plan import Plan, make_plan
from candlelight.generators.planning.plan_table import join, load_plan, save_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.loaders.frames import read_dataset_info
from candlelight.loaders.verification.checksums import NEXT_SUMS, SUMS
from tests.refusals import refused

FILES = ("dataset.json", "plan.parquet", SUMS)


def leaves(*overrides, count=8):
    small = ("image.width=32", "image.height=24")
    return make_plan(load_recipe("dead-leaves", [*small, *overrides]), count)


@pytest.fixture(scope="module")
def plan():
    return leaves()


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """Describe a folder without its samples, which no test changes."""
    describe_folder(plan, out := tmp_path_factory.mktemp("whole"))
    return out


@pytest.fixture
def out(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "frames")


def tree(out):
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def flip(file, rng):
    data = bytearray(file.read_bytes())
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    file.write_bytes(data)


# ------------------------------------------------------------------------------------------ what it says


def test_it_counts_the_planned_samples_and_lists_factors_and_layers(tiny):
    info = dataset_info(condition(make_plan(load_recipe(tiny, ["sets.cubes.draws=3"])), color="red"))
    cubes = info.sets["cubes"]
    assert (info.recipe.name, cubes.count) == ("tiny", 6)
    assert [factor.name for factor in cubes.factors] == ["size", "color", "azimuth"]
    layers = "image", "radiance", "albedo", "shading", "residual", "depth", "normal", "object"
    assert cubes.layers == layers


def test_sets_without_samples_are_not_described():
    factors = [
        *("sets.albedo.factors.material.count=1", "sets.illumination.factors.light_azimuth.values=[10]"),
        *(f"sets.{name}.factors.scene.values=[cube]" for name in ("albedo", "illumination")),
    ]
    plan = make_plan(load_recipe("concepts", factors))
    assert dataset_info(plan).sets.keys() == {"albedo", "illumination"}
    assert dataset_info(condition(plan, light_azimuth=-60)).sets.keys() == {"albedo"}


def test_it_covers_the_samples_of_all_runs(tiny, tmp_path):
    plan, out = make_plan(load_recipe(tiny)), tmp_path / "out"
    out.mkdir()
    red, blue = (condition(plan, color=color) for color in ("red", "blue"))
    describe_folder(red, out)
    assert load_plan(out / "plan.parquet") == red
    describe_folder(blue, out)
    assert load_plan(out / "plan.parquet") == plan
    assert read_dataset_info(out) == dataset_info(plan)
    before = tree(out)
    describe_folder(plan.limit(1), out)
    assert tree(out) == before


# ------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("damage", [flip, lambda file, rng: file.unlink()])
@pytest.mark.parametrize("name", ["dataset.json", "plan.parquet"])
def test_a_damaged_description_is_refused_and_repaired(plan, whole, out, name, damage):
    damage(out / name, np.random.default_rng(12))
    lost = name == "dataset.json" and not (out / name).exists()
    how = "expected an empty folder" if lost else rf"{name} .*`candlelight render RECIPE --repair --out"
    with refused(how):
        describe_folder(plan, out)
    # Also the samples of other runs are planned still.
    describe_folder(plan if name == "plan.parquet" else plan.limit(1), out, repair=True)
    assert tree(out) == tree(whole)


def test_missing_or_wrong_checksums_are_written_again(plan, whole, out):
    (out / SUMS).unlink()
    describe_folder(plan, out)
    assert tree(out) == tree(whole)
    (out / SUMS).write_text((out / SUMS).read_text() + "more\n")
    describe_folder(plan, out)
    assert tree(out) == tree(whole)
    rng = np.random.default_rng(13)
    for _ in range(5):
        flip(out / SUMS, rng)
        describe_folder(plan, out, repair=True)
        assert tree(out) == tree(whole)


def test_damage_is_reported_without_checksums(plan, out):
    (out / SUMS).unlink()
    (out / "dataset.json").write_text("{")
    with refused(r"dataset\.json"):
        describe_folder(plan, out)


def test_the_next_run_completes_the_description_of_a_killed_run(plan, whole, out):
    shutil.copy(out / SUMS, out / NEXT_SUMS)
    (out / SUMS).write_text("")
    describe_folder(plan.limit(1), out)
    assert tree(out) == tree(whole)
    # After a kill between the two files the plan is missing, and the checksums still have their first name.
    (out / "plan.parquet").unlink()
    (out / SUMS).rename(out / NEXT_SUMS)
    describe_folder(plan, out)
    assert tree(out) == tree(whole)


# ----------------------------------------------------------------------------------------- other recipes


@pytest.mark.parametrize(
    ("overrides", "differences"),
    [
        (["seed=1"], "seed is 0 there and 1 here"),
        (
            ["render.preset=draft"],
            "render.preset is standard there and draft here, render.samples is 16 .* 4",
        ),
        (
            ["sets.dead_leaves.draws=9", "layers=[image]", "do={azimuth: 3}"],
            r"layers is \[.image., .{30}.*\.\.\. there and \[.image.\] here, do.azimuth is not given there "
            "and 3 here, sets.dead_leaves.draws is [0-9]+ there and 9 here; name another folder, or undo",
        ),
        (["image.width=16", "image.height=12", "exposure=2", "seed=2"], "and 1 more; name another"),
    ],
)
def test_fields_that_differ_from_the_recipe_of_a_folder_are_named(whole, overrides, differences):
    before = tree(whole)
    with refused(rf"^output folder .*another recipe \(dead-leaves, \w{{12}}\): .*{differences}.*$"):
        describe_folder(leaves(*overrides), whole)
    assert tree(whole) == before


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_text("{")])
def test_frames_of_another_recipe_are_refused_without_a_readable_dataset_json(plan, tmp_path, damage):
    pytest.importorskip("distributed")
    out = tmp_path / "frames"
    render(plan.limit(1), out, workers=1)
    damage(out / "dataset.json")
    before = tree(out)
    with refused(r"holds frames of another recipe \(dead-leaves, "):
        describe_folder(leaves("seed=1"), out, repair=True)
    assert tree(out) == before
    # Also if only the samples are left.
    for name in FILES:
        (out / name).unlink(missing_ok=True)
    with refused(r"holds frames of another recipe"):
        describe_folder(leaves("seed=1"), out, repair=True)
    with refused(r"if these are frames without their dataset\.json, add `repair`"):
        describe_folder(plan, out)


def test_frames_of_another_blender_are_refused(tiny, tmp_path, monkeypatch):
    plan, out = make_plan(load_recipe(tiny)), tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(dataset_description, "blender_version", lambda: "5.0.1")
    describe_folder(plan, out)
    assert read_dataset_info(out).blender == "5.0.1"
    monkeypatch.setattr(dataset_description, "blender_version", lambda: "5.2.3")
    with refused(r": holds frames of Blender 5\.0\.1, and this is Blender 5\.2\.3; name another"):
        describe_folder(plan, out, repair=True)


# ----------------------------------------------------------------------------------------- edited assets

RECIPE = """
name: cubes
description: A cube of one colour, from several sides.
assets: {materials: colours}
sets:
  cubes:
    factors:
      color: {assets: materials, values: [pink, gold]}
      rotation: {values: [0, 10, 20], unit: degrees}
    layout:
      objects: [{type: cube, material: $color, rotation: $rotation}]
      lights: [{azimuth: 0}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""
EDITED = r"was made with another `(pink|gold)` of materials \(SHA-256 \w{12}"


def put_colors(folder: Path, **labels: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for label, shipped_label in labels.items():
        shutil.copy(shipped() / "materials" / f"{shipped_label}.blend", folder / f"{label}.blend")


@pytest.fixture
def recipe(tmp_path) -> Path:
    """Write a recipe and a folder of colours, in which pink is red."""
    put_colors(tmp_path / "colours", pink="red", gold="yellow")
    (tmp_path / "cubes.yaml").write_text(RECIPE)
    return tmp_path / "cubes.yaml"


def test_a_run_does_not_resume_after_an_asset_was_edited(recipe, tmp_path):
    (out := tmp_path / "out").mkdir()
    describe_folder(make_plan(load_recipe(recipe), 3), out)
    before = tree(out)
    put_colors(tmp_path / "colours", pink="blue")
    for repair in (False, True):
        with refused(rf"output folder .*out {EDITED}"):
            describe_folder(make_plan(load_recipe(recipe)), out, repair)
    (out / "dataset.json").unlink()
    with refused(rf"output folder .*out {EDITED}"):
        describe_folder(make_plan(load_recipe(recipe)), out, repair=True)
    put_colors(tmp_path / "colours", pink="red")
    describe_folder(make_plan(load_recipe(recipe), 3), out, repair=True)
    assert tree(out) == before


def test_unused_assets_the_description_and_the_folder_may_change(recipe, tmp_path):
    (out := tmp_path / "out").mkdir()
    describe_folder(make_plan(load_recipe(recipe), 3), out)
    (moved := tmp_path / "elsewhere").mkdir()
    (moved / "cubes.yaml").write_text(RECIPE.replace("A cube of one colour", "A coloured cube"))
    (tmp_path / "colours").rename(moved / "colours")
    put_colors(moved / "colours", green="green")
    again = make_plan(load_recipe(moved / "cubes.yaml"))
    assert recipe_sha256(again.recipe) == read_dataset_info(out).recipe.sha256
    describe_folder(again, out)
    assert read_dataset_info(out).description.startswith("A coloured cube")
    assert read_dataset_info(out).sets["cubes"].count == 6


def test_a_changed_caption_is_described_without_new_frames(recipe, tmp_path):
    (out := tmp_path / "out").mkdir()
    describe_folder(make_plan(load_recipe(recipe), 3), out)
    assert "caption" not in (out / "dataset.json").read_text()
    describe_folder(make_plan(load_recipe(recipe, ["caption='{objects}'"]), 3), out)
    assert read_dataset_info(out).sets["cubes"].caption == "{objects}"
    describe_folder(make_plan(load_recipe(recipe), 3), out)
    assert read_dataset_info(out).sets["cubes"].caption == ""


def test_a_changed_light_is_an_error_although_the_trace_is_the_same(recipe, tmp_path):
    plan = make_plan(load_recipe(recipe), 1)
    (out := tmp_path / "out").mkdir()
    describe_folder(plan, out)
    (sample,) = plan.samples
    weaker = replace(plan, samples=compress_samples([sample.model_copy(update={"gain": (0.5, 0.5, 0.5)})]))
    with refused(rf"planned `{sample.id}` there with other numbers or files"):
        describe_folder(weaker, out)


def test_a_plan_file_holds_no_path_and_takes_asset_folders(recipe, tmp_path, fake):
    file, folder = tmp_path / "plan.parquet", tmp_path / "moved"
    plan = make_plan(load_recipe(recipe), 1)
    save_plan(plan, file)
    assert str(tmp_path).encode() not in file.read_bytes()
    (tmp_path / "colours").rename(folder)
    with refused(r"needs `(pink|gold)` of materials, .*`assets` materials=FOLDER$"):
        render(load_plan(file), fake.out, workers=1)
    again = load_plan(file, {"materials": folder})
    assert again == Plan(again.recipe, plan.samples)
    assert render(again, fake.out, workers=1).written == 1
    put_colors(folder, pink="blue", gold="blue")
    with refused(rf"the plan of `cubes` {EDITED}"):
        render(load_plan(file, {"materials": folder}), fake.out, workers=1)


def test_counterfactuals_use_the_assets_of_their_plan(recipe, tmp_path):
    plan = make_plan(load_recipe(recipe))
    asked = Plan(plan.recipe, plan.samples[:1], plan.assets)
    other = "gold" if plan.samples[0].factors["color"] == "pink" else "pink"
    both = join(asked, counterfactual(asked, color=other))
    assert {asset.label for asset in dataset_info(both).assets} == {"cube", "gold", "pink"}
    put_colors(tmp_path / "colours", pink="blue", gold="blue")
    with refused(rf"the plan of `cubes` {EDITED}"):
        counterfactual(asked, color=other)
    with refused("uses `cube` of objects but holds no hash of it"):
        dataset_info(Plan(plan.recipe, plan.samples, ()))
