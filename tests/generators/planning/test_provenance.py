"""Records of the assets of a plan, and the check of trace groups against them."""

import hashlib
import json
import shutil

import pytest

from candlelight.blender_assets import AssetLibrary, manifest, shipped
from candlelight.generators.engine.dataset_description import dataset_info
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.provenance import EditedAssetError, check_group, used_assets
from candlelight.loaders.schema import DatasetInfo
from tests.refusals import refused

RECIPE = """
name: tiny
description: Objects of several materials.
ASSETS
sets:
  cubes:
    factors:
      type: {values: [cube, cone]}
      color: {values: [red, blue], assets: materials}
    layout:
      objects:
        - {type: $type, material: $color, location: [-1, 0]}
        - {type: sphere, material: {base_color: [0.2, 0.4, 0.6]}, location: [1, 0]}
      floor: {base_color: [0.8, 0.8, 0.8]}
      lights: [{asset: left}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""


def planned(tmp_path, assets=""):
    path = tmp_path / "tiny.yaml"
    path.write_text(RECIPE.replace("ASSETS", assets))
    return make_plan(load_recipe(str(path)))


def assets_of(plan):
    return used_assets((sample.trace for sample in plan.samples), AssetLibrary(plan.recipe.assets))


def test_each_used_file_is_listed_once_with_licence_and_source(tmp_path):
    found = assets_of(planned(tmp_path))
    labels = ["blue", "red", "cone", "cube", "sphere"]
    kinds = ["materials"] * 2 + ["objects"] * 3
    assert [(asset.kind, asset.label) for asset in found] == list(zip(kinds, labels, strict=True))
    for asset in found:
        entry = manifest()[asset.kind, asset.label]
        assert (asset.licence, asset.source) == (entry["licence"], entry["source"])
        data = AssetLibrary().find(asset.kind, asset.label).read_bytes()
        assert asset.sha256 == hashlib.sha256(data).hexdigest()


def test_a_file_of_the_user_has_no_licence_unless_a_manifest_states_it(tmp_path):
    folder = tmp_path / "materials"
    folder.mkdir()
    for label in ("red", "blue"):
        shutil.copy(shipped() / "materials" / f"{label}.blend", folder)
    plan = planned(tmp_path, "assets: {materials: materials}")
    blue, *_ = assets_of(plan)
    assert (blue.label, blue.licence, blue.source) == ("blue", "", "")
    entry = {**manifest()["materials", "blue"], "file": "blue.blend", "licence": "CC-BY-4.0", "source": "me"}
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "assets": [entry]}))
    blue, red, *_ = assets_of(plan)
    assert (blue.licence, blue.source) == ("CC-BY-4.0", "me")
    assert red.licence == ""
    (folder / "blue.blend").write_bytes(b"another")
    with refused(r"`blue.blend` is not the file that manifest.json describes"):
        assets_of(plan)


def test_textures_and_environment_maps_are_listed_but_no_lights():
    kinds = {asset.kind for asset in assets_of(make_plan(load_recipe("demo"), limit=3))}
    assert kinds == {"materials", "objects", "scenes", "textures"}
    assert assets_of(make_plan(load_recipe("dead-leaves"), limit=2)) == ()


def test_a_trace_group_with_other_numbers_or_assets_is_refused(tmp_path):
    first, second, *_ = make_plan(load_recipe("dead-leaves"), limit=2).samples
    library = AssetLibrary()
    check_group([first], library)
    with pytest.raises(ValueError, match=f"trace group `{first.group}` has samples with different numbers"):
        check_group([first, second.model_copy(update={"group": first.group})], library)
    with pytest.raises(EditedAssetError, match=f"numbers or assets of `{second.id}` differ from the plan"):
        check_group([second.model_copy(update={"trace": first.trace})], library)


def test_the_description_of_the_data_set_lists_the_assets(tmp_path):
    info = dataset_info(planned(tmp_path))
    assert len(info.assets) == 5
    assert DatasetInfo.model_validate_json(info.to_json()) == info
