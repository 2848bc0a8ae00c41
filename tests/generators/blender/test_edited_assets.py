"""Assets that change between planning and rendering, or between two runs: never mixed in one folder."""

import os
import shutil
from pathlib import Path

import pytest

from blender_assets import AssetLibrary, shipped
from generators.engine.dataset_description import dataset_info
from generators.engine.render_plan import render
from generators.language.load_recipe import load_recipe, recipe_sha256
from generators.planning.counterfactual import counterfactual
from generators.planning.packed_samples import pack
from generators.planning.plan import Plan, make_plan
from generators.planning.plan_table import join, load_plan, save_plan
from loaders.errors import InputError
from loaders.frames import METADATA, read_dataset_info
from loaders.verification.verify_frames import verify

RECIPE = """
name: paint
description: A cube of one paint, from several sides.
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


def paint(folder: Path, **labels: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for label, shipped_label in labels.items():
        shutil.copy(shipped() / "materials" / f"{shipped_label}.blend", folder / f"{label}.blend")


@pytest.fixture
def recipe(tmp_path) -> Path:
    """Write a recipe whose pink is red, beside the folder of it."""
    paint(tmp_path / "colours", pink="red", gold="yellow")
    path = tmp_path / "paint.yaml"
    path.write_text(RECIPE)
    return path


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def planned(recipe: Path, limit: int | None = None) -> Plan:
    return make_plan(load_recipe(recipe), limit)


pytestmark = pytest.mark.blender


def test_a_folder_is_not_gone_on_with_after_an_edit(recipe, tmp_path):
    out = tmp_path / "out"
    assert render(planned(recipe, 3), out, workers=1).written == 3
    before = files_of(out)
    paint(tmp_path / "colours", pink="blue")
    for repair in (False, True):
        with pytest.raises(
            InputError,
            match=r"output folder .*out was made with another `pink` of materials \(SHA-256 \w{12}",
        ):
            render(planned(recipe), out, workers=1, repair=repair)
    assert files_of(out) == before
    assert render(planned(recipe), tmp_path / "other", workers=1).written == 6
    paint(tmp_path / "colours", pink="red")
    assert render(planned(recipe), out, workers=1).written == 3
    assert verify(out).whole


def test_what_nobody_shows_may_be_edited_and_prose_and_place_may_change(recipe, tmp_path):
    out = tmp_path / "out"
    render(planned(recipe, 3), out, workers=1)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (moved / "paint.yaml").write_text(RECIPE.replace("A cube of one paint", "A painted cube"))
    (tmp_path / "colours").rename(moved / "colours")
    paint(moved / "colours", green="green")
    again = planned(moved / "paint.yaml")
    assert recipe_sha256(again.recipe) == read_dataset_info(out).recipe.sha256
    assert render(again, out, workers=1).written == 3
    assert read_dataset_info(out).description.startswith("A painted cube")
    assert verify(out).whole


def test_a_plan_holds_no_path_and_is_told_where_assets_are(recipe, tmp_path):
    plan = planned(recipe, 1)
    save_plan(plan, tmp_path / "plan.parquet")
    assert str(tmp_path).encode() not in (tmp_path / "plan.parquet").read_bytes()
    folder = tmp_path / "paints"
    (tmp_path / "colours").rename(folder)
    with pytest.raises(InputError, match=r"needs `(pink|gold)` of materials, .*--assets materials=FOLDER$"):
        render(load_plan(tmp_path / "plan.parquet"), tmp_path / "out", workers=1)
    again = load_plan(tmp_path / "plan.parquet", {"materials": folder})
    assert again == Plan(again.recipe, plan.samples)
    assert render(again, tmp_path / "out", workers=1).written == 1
    paint(folder, pink="blue", gold="blue")
    with pytest.raises(
        InputError, match=r"the plan of `paint` was made with another `(pink|gold)` of materials"
    ):
        render(load_plan(tmp_path / "plan.parquet", {"materials": folder}), tmp_path / "out", workers=1)


def test_a_renderer_that_finds_another_file_ends_the_run(recipe, tmp_path):
    plan = planned(recipe)
    blue = next(sample for sample in plan.samples if sample.factors["color"] == "pink")
    forged = blue.model_copy(update={"group": "0" * 16})
    rest = pack([sample for sample in plan.samples if sample != blue])
    with pytest.raises(InputError, match=rf"assets of `{blue.id}` are not those .* run again to resume"):
        render(Plan(plan.recipe, pack([*rest, forged]), plan.assets), tmp_path / "out", workers=1)
    assert render(Plan(plan.recipe, rest, plan.assets), tmp_path / "out", workers=1).written == 0


def test_a_light_that_changed_is_told_though_no_file_of_it_shows(recipe, tmp_path):
    lit = tmp_path / "lit.yaml"
    lit.write_text(RECIPE.replace("{azimuth: 0}", "{asset: left}"))
    out = tmp_path / "out"
    plan = planned(lit, 1)
    render(plan, out, workers=1)
    (sample,) = plan.samples
    weaker = sample.model_copy(update={"gain": (0.5, 0.5, 0.5)})
    with pytest.raises(InputError, match=rf"`{sample.id}` was planned there with other numbers or files"):
        render(Plan(plan.recipe, pack([weaker]), plan.assets), out, workers=1)


def test_frames_of_other_files_in_a_folder_are_found(recipe, tmp_path):
    red, blue = tmp_path / "red", tmp_path / "blue"
    render(planned(recipe), red, workers=1)
    paint(tmp_path / "colours", pink="blue")
    render(planned(recipe), blue, workers=1)
    first = next(path.parent for path in sorted(red.rglob(METADATA)))
    shutil.rmtree(first)
    shutil.copytree(blue / first.relative_to(red), first)
    (damage,) = verify(red).damaged
    assert str(damage).endswith("metadata.json: was made with other numbers or files than planned")


def test_a_folder_that_lost_its_plan_is_not_gone_on_with(recipe, tmp_path):
    out = tmp_path / "out"
    render(planned(recipe, 1), out, workers=1)
    (out / "plan.parquet").unlink()
    with pytest.raises(InputError, match=r"plan\.parquet is missing; .*--repair"):
        render(planned(recipe, 1), out, workers=1)
    assert render(planned(recipe, 1), out, workers=1, repair=True).found == 1


def test_what_if_is_asked_of_the_assets_that_a_plan_was_made_with(recipe, tmp_path):
    plan = planned(recipe)
    asked = Plan(plan.recipe, plan.samples[:1], plan.assets)
    other = "gold" if plan.samples[0].factors["color"] == "pink" else "pink"
    both = join(asked, counterfactual(asked, color=other))
    assert {asset.label for asset in dataset_info(both).assets} == {"cube", "gold", "pink"}
    paint(tmp_path / "colours", pink="blue", gold="blue")
    with pytest.raises(InputError, match=r"the plan of `paint` was made with another `(pink|gold)`"):
        counterfactual(asked, color=other)
    with pytest.raises(InputError, match="shows `cube` of objects and holds no hash of it"):
        dataset_info(Plan(plan.recipe, plan.samples, ()))


def test_a_file_beside_a_blend_is_part_of_its_content(tmp_path):
    paint(tmp_path / "colours", pink="red")
    library = AssetLibrary({"materials": tmp_path / "colours"})
    alone = library.sha256("materials", "pink")
    paint(tmp_path / "colours", green="green")
    (tmp_path / "colours" / "pink.blend1").write_bytes(b"a backup")
    assert AssetLibrary({"materials": tmp_path / "colours"}).sha256("materials", "pink") == alone
    (tmp_path / "colours" / "wood.png").write_bytes(b"a picture that it may use")
    with_wood = AssetLibrary({"materials": tmp_path / "colours", "objects": tmp_path / "colours"})
    first = with_wood.sha256("materials", "pink")
    assert with_wood.sha256("objects", "pink") == alone
    (tmp_path / "colours" / "wood.png").write_bytes(b"another one of its pictures")
    assert with_wood.sha256("materials", "pink") == first
    with_wood.look_again()
    assert len({alone, first, with_wood.sha256("materials", "pink")}) == 3


def test_no_asset_hangs_on_what_it_cannot_refer_to(tmp_path):
    folder = tmp_path / "colours"
    paint(folder, pink="red")
    alone = AssetLibrary({"materials": folder}).sha256("materials", "pink")
    (folder / ".maps").mkdir()
    (tmp_path / "out.png").touch()
    for hidden in (".maps/wood.png", "._wood.png"):
        (folder / hidden).touch()
    (folder / "gone.png").symlink_to("nowhere")
    (folder / "out.png").symlink_to(tmp_path / "out.png")
    os.mkfifo(folder / "pipe.png")
    assert AssetLibrary({"materials": folder}).sha256("materials", "pink") == alone
