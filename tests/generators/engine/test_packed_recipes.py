"""Packs hold their recipe and graph, and are planned and rendered anew from them."""

import json
import shutil

import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.open_frames import open_frames
from tests.command_line import run
from tests.refusals import refused


@pytest.fixture(scope="module")
def leaves(tmp_path_factory):
    """Frames of dead leaves, which need no Blender, under an intervention, in three forms."""
    folder = tmp_path_factory.mktemp("leaves")
    plan = make_plan(
        load_recipe("dead-leaves", ["draws=2", "image.width=16", "image.height=16", "do.falloff=0.3"])
    )
    render(plan, folder / "frames")
    pack_hdf5(folder / "frames", folder / "h5")
    pack_hub(folder / "frames", folder / "hub")
    return plan, folder


@pytest.mark.parametrize("form", ["h5/dead_leaves.h5", "hub"])
def test_a_pack_is_planned_anew_to_the_same_plan(leaves, form):
    plan, folder = leaves
    again = make_plan(load_recipe(folder / form))
    assert [*again.samples] == [*plan.samples]
    assert open_frames(folder / form).set_info.graph.node("falloff").mechanism == "do(0.3)"


def test_a_pack_is_rendered_anew_to_the_same_bytes(leaves, tmp_path):
    _, folder = leaves
    run("render", folder / "hub", "--out", tmp_path / "again")
    files = sorted(one for one in (folder / "frames").rglob("*") if one.is_file())
    assert len(files) > 4
    for file in files:
        other = tmp_path / "again" / file.relative_to(folder / "frames")
        assert other.read_bytes() == file.read_bytes(), file


def test_a_pack_of_before_is_no_recipe(leaves, tmp_path):
    _, folder = leaves
    shutil.copytree(folder / "hub", tmp_path / "hub")
    data = json.loads((tmp_path / "hub" / "dataset.json").read_text())
    del data["recipe_fields"]
    (tmp_path / "hub" / "dataset.json").write_text(json.dumps(data))
    with refused("expected a pack that holds its recipe, got one of an earlier version"):
        load_recipe(tmp_path / "hub")


def test_propensities_are_columns(leaves):
    plan, folder = leaves
    wanted = {name: [sample.propensity[name] for sample in plan.samples] for name in ("falloff", "azimuth")}
    for form in ("h5", "hub"):
        found = open_frames(folder / form).propensities
        assert {name: found[name].tolist() for name in wanted} == wanted
