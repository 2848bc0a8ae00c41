"""Frames of edited assets and of unedited ones never mix in one output folder."""

import os
import shutil
from pathlib import Path

import pytest

from candlelight.blender_assets import AssetLibrary, shipped
from candlelight.generators.engine.dataset_description import dataset_info
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256
from candlelight.generators.planning.interventions import counterfactual
from candlelight.generators.planning.plan import Plan, make_plan
from candlelight.generators.planning.plan_table import join, load_plan, save_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import METADATA, read_dataset_info
from candlelight.loaders.verification.verify_frames import verify

RECIPE = """
name: cubes
description: A cube of one colour, from several sides.
image: {width: 16, height: 12}
render: {samples: 1, bounces: 0, denoise: false}
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


def put_colors(folder: Path, **labels: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for label, shipped_label in labels.items():
        shutil.copy(shipped() / "materials" / f"{shipped_label}.blend", folder / f"{label}.blend")


@pytest.fixture
def recipe(tmp_path) -> Path:
    """Write a recipe and a folder of colours, in which pink is red."""
    put_colors(tmp_path / "colours", pink="red", gold="yellow")
    path = tmp_path / "cubes.yaml"
    path.write_text(RECIPE)
    return path


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def planned(recipe: Path, limit: int | None = None) -> Plan:
    return make_plan(load_recipe(recipe), limit)


pytestmark = [pytest.mark.blender, pytest.mark.slow]


def test_a_run_does_not_resume_after_an_asset_was_edited(recipe, tmp_path):
    out = tmp_path / "out"
    assert render(planned(recipe, 3), out, workers=1).written == 3
    before = files_of(out)
    put_colors(tmp_path / "colours", pink="blue")
    for repair in (False, True):
        with pytest.raises(
            InputError,
            match=r"output folder .*out was made with another `pink` of materials \(SHA-256 \w{12}",
        ):
            render(planned(recipe), out, workers=1, repair=repair)
    assert files_of(out) == before
    assert render(planned(recipe), tmp_path / "other", workers=1).written == 6
    put_colors(tmp_path / "colours", pink="red")
    assert render(planned(recipe), out, workers=1).written == 3
    assert verify(out).whole


def test_unused_assets_the_description_and_the_folder_may_change(recipe, tmp_path):
    out = tmp_path / "out"
    render(planned(recipe, 3), out, workers=1)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (moved / "cubes.yaml").write_text(RECIPE.replace("A cube of one colour", "A coloured cube"))
    (tmp_path / "colours").rename(moved / "colours")
    put_colors(moved / "colours", green="green")
    again = planned(moved / "cubes.yaml")
    assert recipe_sha256(again.recipe) == read_dataset_info(out).recipe.sha256
    assert render(again, out, workers=1).written == 3
    assert read_dataset_info(out).description.startswith("A coloured cube")
    assert verify(out).whole


def test_a_plan_file_holds_no_path_and_takes_asset_folders(recipe, tmp_path):
    plan = planned(recipe, 1)
    save_plan(plan, tmp_path / "plan.parquet")
    assert str(tmp_path).encode() not in (tmp_path / "plan.parquet").read_bytes()
    folder = tmp_path / "moved"
    (tmp_path / "colours").rename(folder)
    with pytest.raises(InputError, match=r"needs `(pink|gold)` of materials, .*`assets` materials=FOLDER$"):
        render(load_plan(tmp_path / "plan.parquet"), tmp_path / "out", workers=1)
    again = load_plan(tmp_path / "plan.parquet", {"materials": folder})
    assert again == Plan(again.recipe, plan.samples)
    assert render(again, tmp_path / "out", workers=1).written == 1
    put_colors(folder, pink="blue", gold="blue")
    with pytest.raises(
        InputError, match=r"the plan of `cubes` was made with another `(pink|gold)` of materials"
    ):
        render(load_plan(tmp_path / "plan.parquet", {"materials": folder}), tmp_path / "out", workers=1)


def test_a_renderer_that_finds_an_edited_asset_ends_the_run(recipe, tmp_path):
    plan = planned(recipe)
    blue = next(sample for sample in plan.samples if sample.factors["color"] == "pink")
    forged = blue.model_copy(update={"group": "0" * 16})
    rest = compress_samples([sample for sample in plan.samples if sample != blue])
    with pytest.raises(InputError, match=rf"assets of `{blue.id}` differ .* run again to resume"):
        render(Plan(plan.recipe, compress_samples([*rest, forged]), plan.assets), tmp_path / "out", workers=1)
    assert render(Plan(plan.recipe, rest, plan.assets), tmp_path / "out", workers=1).written == 0


def test_a_changed_light_is_an_error_although_the_trace_is_the_same(recipe, tmp_path):
    lit = tmp_path / "lit.yaml"
    lit.write_text(RECIPE.replace("{azimuth: 0}", "{asset: left}"))
    out = tmp_path / "out"
    plan = planned(lit, 1)
    render(plan, out, workers=1)
    (sample,) = plan.samples
    weaker = sample.model_copy(update={"gain": (0.5, 0.5, 0.5)})
    with pytest.raises(InputError, match=rf"planned `{sample.id}` there with other numbers or files"):
        render(Plan(plan.recipe, compress_samples([weaker]), plan.assets), out, workers=1)


def test_verification_finds_frames_of_edited_assets(recipe, tmp_path):
    red, blue = tmp_path / "red", tmp_path / "blue"
    render(planned(recipe), red, workers=1)
    put_colors(tmp_path / "colours", pink="blue")
    render(planned(recipe), blue, workers=1)
    first = next(path.parent for path in sorted(red.rglob(METADATA)))
    shutil.rmtree(first)
    shutil.copytree(blue / first.relative_to(red), first)
    (damage,) = verify(red).damaged
    assert str(damage).endswith("metadata.json: was made with other numbers or files than planned")


def test_a_run_does_not_resume_without_the_plan_file(recipe, tmp_path):
    out = tmp_path / "out"
    render(planned(recipe, 1), out, workers=1)
    (out / "plan.parquet").unlink()
    with pytest.raises(InputError, match=r"plan\.parquet is missing; .*--repair"):
        render(planned(recipe, 1), out, workers=1)
    assert render(planned(recipe, 1), out, workers=1, repair=True).found == 1


def test_counterfactuals_use_the_assets_of_their_plan(recipe, tmp_path):
    plan = planned(recipe)
    asked = Plan(plan.recipe, plan.samples[:1], plan.assets)
    other = "gold" if plan.samples[0].factors["color"] == "pink" else "pink"
    both = join(asked, counterfactual(asked, color=other))
    assert {asset.label for asset in dataset_info(both).assets} == {"cube", "gold", "pink"}
    put_colors(tmp_path / "colours", pink="blue", gold="blue")
    with pytest.raises(InputError, match=r"the plan of `cubes` was made with another `(pink|gold)`"):
        counterfactual(asked, color=other)
    with pytest.raises(InputError, match="uses `cube` of objects but holds no hash of it"):
        dataset_info(Plan(plan.recipe, plan.samples, ()))


def test_images_in_the_folder_are_part_of_an_assets_hash(tmp_path):
    put_colors(tmp_path / "colours", pink="red")
    library = AssetLibrary({"materials": tmp_path / "colours"})
    alone = library.sha256("materials", "pink")
    put_colors(tmp_path / "colours", green="green")
    (tmp_path / "colours" / "pink.blend1").write_bytes(b"a backup")
    assert AssetLibrary({"materials": tmp_path / "colours"}).sha256("materials", "pink") == alone
    (tmp_path / "colours" / "wood.png").write_bytes(b"an image that it may use")
    with_wood = AssetLibrary({"materials": tmp_path / "colours", "objects": tmp_path / "colours"})
    first = with_wood.sha256("materials", "pink")
    assert with_wood.sha256("objects", "pink") == alone
    (tmp_path / "colours" / "wood.png").write_bytes(b"another image")
    assert with_wood.sha256("materials", "pink") == first
    with_wood.look_again()
    assert len({alone, first, with_wood.sha256("materials", "pink")}) == 3


def test_files_that_an_asset_cannot_refer_to_are_not_part_of_its_hash(tmp_path):
    folder = tmp_path / "colours"
    put_colors(folder, pink="red")
    alone = AssetLibrary({"materials": folder}).sha256("materials", "pink")
    (folder / ".maps").mkdir()
    (tmp_path / "out.png").touch()
    for hidden in (".maps/wood.png", "._wood.png"):
        (folder / hidden).touch()
    (folder / "gone.png").symlink_to("nowhere")
    (folder / "out.png").symlink_to(tmp_path / "out.png")
    os.mkfifo(folder / "pipe.png")
    assert AssetLibrary({"materials": folder}).sha256("materials", "pink") == alone
