"""The recipes of concept sets: grids, shapes, exposure."""

import numpy as np
import pytest

from candlelight.generators import load_recipe, make_plan, render
from candlelight.loaders.frame_folder import FrameFolder

PAPER = {
    *("Cube", "Sphere", "happy", "homer", "max-planck", "nefertiti", "spot", "stanford-bunny", "suzanne"),
    *("teapot", "Cube_happy_stanford-bunny", "Sphere_Cube_teapot", "Sphere_nefertiti_max-planck"),
    *("happy_homer_Sphere", "happy_homer_max-planck", "happy_max-planck_spot", "homer_max-planck_suzanne"),
    *("nefertiti_spot_suzanne", "max-planck_stanford-bunny_teapot", "spot_stanford-bunny_suzanne"),
}


@pytest.mark.parametrize("name", ["concepts", "concepts-scans"])
def test_the_grids_are_those_of_the_paper(name):
    recipe = load_recipe(name)
    albedo, illumination = recipe.sets["albedo"], recipe.sets["illumination"]
    assert albedo.factors["scene"] == illumination.factors["scene"]
    scenes = albedo.factors["scene"].values
    assert len(set(scenes)) == 20
    counts = [len(albedo.layout.objects.among[scene]) for scene in scenes]
    assert sorted(counts) == [1] * 10 + [3] * 10
    assert (albedo.varies, illumination.varies) == (("material",), ("light_azimuth",))
    assert albedo.factors["material"].count == 100
    assert len(albedo.factors["light_azimuth"].values) == 4
    assert illumination.factors["material"].count == 3
    assert illumination.factors["light_azimuth"].values == (*range(-44, 0, 2), *range(2, 46, 2))
    for one in (albedo, illumination):
        assert one.factors["texturing"].values == ("rgb", "textured")
        assert one.factors["temperature"].values == (2500, 4500, 6500)
        (light,) = one.layout.lights
        assert (light.power, light.radius, light.temperature) == (1000, 0.5, "$temperature")
        assert one.layout == albedo.layout


def test_the_scans_recipe_has_the_papers_scenes():
    recipe = load_recipe("concepts-scans")
    assert set(recipe.sets["albedo"].factors["scene"].values) == PAPER
    for scene in PAPER:
        types = [spec.type for spec in recipe.sets["albedo"].layout.objects.among[scene]]
        assert types == [{"Cube": "cube", "Sphere": "sphere"}.get(name, name) for name in scene.split("_")]
    shipped = load_recipe("concepts")
    for name in ("image", "render", "exposure", "layers"):
        assert getattr(recipe, name) == getattr(shipped, name)


def test_at_least_ten_shapes_are_shown():
    scenes = load_recipe("concepts").sets["albedo"].layout.objects.among.values()
    shown = {spec.type for specs in scenes for spec in specs}
    assert len(shown) >= 10
    assert {"cube", "sphere", "suzanne", "teapot", "bunny"} <= shown


@pytest.mark.blender
@pytest.mark.usefixtures("kept_renderers")
@pytest.mark.slow
def test_few_object_pixels_clip(tmp_path):
    small = ["image={width: 24, height: 24}", "render={samples: 8, bounces: 2, denoise: false}"]
    small += ["layers=[image, radiance, object]", "sets.albedo.factors.material.count=5"]
    small += ["sets.albedo.factors.light_azimuth.values=[-60, 20]"]
    recipe = load_recipe("concepts", [*small, "sets.illumination.factors.light_azimuth.values=[-44, 2]"])
    assert render(make_plan(recipe).limit(20), tmp_path / "frames", workers=1).written == 40
    for name in recipe.sets:
        frames = FrameFolder(tmp_path / "frames", name)
        read = [frames.frame(row).layers for row in range(len(frames))]
        seen = np.concatenate([layers["radiance"][layers["object"] > 0] for layers in read])
        clipped = (seen.astype(float).max(axis=-1) * recipe.exposure > 1).mean()
        assert clipped < 0.005
        # Nor is the set in the dark: half of it is above the sRGB value of 15 %.
        assert np.median(seen.astype(float).max(axis=-1)) * recipe.exposure > 0.02
