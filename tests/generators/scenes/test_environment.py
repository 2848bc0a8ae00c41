"""Environments in plans: environment maps and modelled scenes."""

from dataclasses import replace

import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.layout import SceneLayout
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.object_placement import place_environment
from candlelight.generators.scenes.plan_records import Floor
from candlelight.generators.scenes.resolve_trace import resolve
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import EnvironmentRecord

DRAWS = LayoutInputs(0, "set/000000", {})


def scene_layout(**environment):
    return SceneLayout.model_validate(
        {
            "camera": {"location": (0, 5, 2), "look_at": (0, 0, 0.5)},
            "environment": environment,
            "floor": {"catcher": True},
        }
    )


def test_a_modelled_scene_replaces_the_floor():
    _, _, trace = resolve(scene_layout(scene="hall"), DRAWS)
    assert trace.environment == EnvironmentRecord(scene="hall", modelled=True)
    assert trace.floor is None
    _, _, trace = resolve(scene_layout(scene="garden"), DRAWS)
    assert not trace.environment.modelled
    assert trace.floor == Floor(catcher=True)


@pytest.mark.parametrize("change", [{"rotation": 10}, {"strength": 0.5}])
def test_a_modelled_scene_is_neither_turned_nor_scaled(change):
    message = (
        "layout.environment: `hall` is a .blend file, which has its own place and light; expected rotation 0"
    )
    with pytest.raises(InputError, match=message):
        resolve(scene_layout(scene="hall", **change), DRAWS)


def test_a_users_blend_counts_as_modelled_and_an_environment_map_may_be_hdr(tmp_path):
    for name in ("yard.blend", "sky.hdr", "both.exr", "both.blend"):
        (tmp_path / name).touch()
    library = AssetLibrary({"scenes": tmp_path})
    assert library.labels("scenes") == ["both", "sky", "yard"]
    found = {
        name: place_environment(scene_layout(scene=name), replace(DRAWS, library=library)).modelled
        for name in ("yard", "sky", "both")
    }
    assert found == {"yard": True, "sky": False, "both": True}
