"""Colours as texts in a recipe: of materials, of lights, and as values of factors."""

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators import load_recipe, make_plan
from candlelight.generators.language.colour_texts import linear_colour
from candlelight.generators.language.material_spec import RandomMaterial
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.object_materials import choose_material
from candlelight.generators.scenes.plan_records import PlacedMaterial
from candlelight.loaders.colour import linear_to_srgb
from tests.refusals import refused

TEAL = (0.0, 0.215861, 0.215861)


def recipe(first="$color", second="css:teal", floor="css:gray", light="$tint", **factors):
    factors = {
        "color": {"assets": "materials", "values": ["red", "#3080c0"]},
        "look": {"values": ["plain", "gold"]},
        "tint": {"values": ["css:gold"]},
        **factors,
    }
    layout = {
        "objects": [{"type": "cube", "material": first}, {"type": "cone", "material": second}],
        "floor": {"base_color": floor},
        "lights": [{"color": light}],
        "camera": {"location": [0, 5, 3], "look_at": [0, 0, 0]},
    }
    sets = {"s": {"factors": factors, "layout": layout}}
    return load_recipe({"name": "c", "licence": "CC0-1.0", "sets": sets})


def materials(made):
    """List the materials of both objects in each sample, in the order of the factors."""
    return [[one.material for one in sample.trace.objects] for sample in make_plan(made).samples]


def test_hexadecimal_digits_and_names_are_srgb():
    assert linear_colour("css:teal") == TEAL
    for text, channels in {"#3080C0": (0x30, 0x80, 0xC0), "css:rebeccapurple": (0x66, 0x33, 0x99)}.items():
        encoded = linear_to_srgb(np.array(linear_colour(text))) * 255
        np.testing.assert_allclose(encoded, channels, atol=1e-2)


def test_texts_are_numbers_in_the_plan():
    made = recipe()
    [sample, *_] = make_plan(made).samples
    assert sample.trace.floor.base_color == linear_colour("css:gray")
    assert sample.lights[0].color == linear_colour("css:gold")
    blue, teal = (
        PlacedMaterial(label="rgb", base_color=linear_colour(one)) for one in ("#3080c0", "css:teal")
    )
    assert materials(made) == [[PlacedMaterial(label="red"), teal]] * 2 + [[blue, teal]] * 2
    assert [asset.label for asset in make_plan(made).assets if asset.kind == "materials"] == ["red"]


def test_a_factor_chooses_the_material_of_one_object():
    among = {"plain": None, "gold": {"base_color": "css:gold", "roughness": 0.2}}
    made = recipe(first="red", second={"choose": "$look", "among": among})
    gold = PlacedMaterial(
        label="rgb",
        base_color=linear_colour("css:gold"),
        offset=(0, 0, 0),
        scale=1,
        roughness=0.2,
        specular=0.5,
    )
    found = materials(made)
    assert [first.label for first, _ in found] == ["red"] * 4
    assert [second for _, second in found][1::2] == [gold] * 2
    drawn = [second for _, second in found][::2]
    assert {one.label for one in drawn} == {"rgb"}
    with refused("objects.1.material.among: expected an entry for each value of `look`, got none for gold"):
        recipe(second={"choose": "$look", "among": {"plain": None}})


def test_an_asset_of_the_same_name_wins(tmp_path):
    (tmp_path / "css:teal.blend").write_bytes(b"")
    inputs = LayoutInputs(0, "s/0", {}, AssetLibrary({"materials": tmp_path}))
    assert choose_material("css:teal", "cube", 0, RandomMaterial(), inputs) == PlacedMaterial(
        label="css:teal"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"floor": "gray"}, "floor.base_color: expected a colour such as '#3080c0' or css:teal, got `gray`"),
        ({"floor": "#fff"}, "got `#fff`"),
        ({"floor": "$look"}, "layout.floor.base_color: expected a colour .* got `plain`"),
        ({"light": "css:#ffffff"}, "got `css:#ffffff`"),
        ({"second": "css:teel"}, "layout.objects.1.material: expected a colour .* got `css:teel`"),
        ({"color": {"assets": "materials", "values": ["css:teel"]}}, "factors.color: expected a colour"),
        ({"color": {"assets": "materials", "values": ["teal"]}}, "asset `teal` is not among the materials"),
    ],
)
def test_other_texts_are_refused(change, message):
    with refused(message):
        make_plan(recipe(**change))
