"""The recipes of concept sets: grids, places of the objects, exposure."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators import load_recipe, make_plan, render
from candlelight.generators.scenes.camera import project
from candlelight.generators.scenes.object_placement import footprint
from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder

LIBRARY = AssetLibrary()
PAPER = {
    *(
        "Cube",
        "Sphere",
        "happy",
        "homer",
        "max-planck",
        "nefertiti",
        "spot",
        "stanford-bunny",
        "suzanne",
        "teapot",
    ),
    *("Cube_happy_stanford-bunny", "Sphere_Cube_teapot", "Sphere_nefertiti_max-planck", "happy_homer_Sphere"),
    *(
        "happy_homer_max-planck",
        "happy_max-planck_spot",
        "homer_max-planck_suzanne",
        "nefertiti_spot_suzanne",
    ),
    *("max-planck_stanford-bunny_teapot", "spot_stanford-bunny_suzanne"),
}
ONE = ("material.count=1", "texturing.values=[rgb]", "light_azimuth.values=[20]", "temperature.values=[4500]")
FEW = [f"sets.{name}.factors.{field}" for name in ("albedo", "illumination") for field in ONE]
SCANS = ("happy", "homer", "max-planck", "nefertiti", "spot", "stanford-bunny")


@pytest.fixture(scope="module")
def scans(tmp_path_factory) -> Path:
    """Make a folder of empty files with the names of the scans; a plan does not open them."""
    folder = tmp_path_factory.mktemp("objects")
    for name in SCANS:
        (folder / f"{name}.blend").touch()
    return folder


@pytest.fixture(scope="module")
def plans(scans):
    """Plan one sample of each scene of both recipes."""
    recipes = [load_recipe("concepts", FEW), load_recipe("concepts-scans", FEW, assets={"objects": scans})]
    return [make_plan(recipe) for recipe in recipes]


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
    shown = {
        spec.type
        for specs in load_recipe("concepts").sets["albedo"].layout.objects.among.values()
        for spec in specs
    }
    assert len(shown) >= 10
    assert {"cube", "sphere", "suzanne", "teapot", "bunny"} <= shown


@pytest.mark.parametrize("which", [0, 1], ids=["concepts", "scans"])
def test_no_footprints_touch(plans, which):
    # The scans here have no manifest: they count as unit boxes, which hold any mesh.
    library = AssetLibrary(plans[which].recipe.assets)
    scenes = {sample.factors["scene"]: sample.trace for sample in plans[which].samples}
    assert len(scenes) == 20
    for scene, trace in scenes.items():
        for a, b in itertools.combinations(trace.objects, 2):
            apart = math.dist(a.location, b.location)
            radii = sum(placed.size * footprint(library, placed.type) for placed in (a, b))
            assert apart > radii + 0.05, (scene, a.type, b.type)


@pytest.mark.parametrize("which", [0, 1], ids=["concepts", "scans"])
def test_every_object_is_on_the_table_and_in_the_picture(plans, which):
    library = AssetLibrary(plans[which].recipe.assets)
    for sample in plans[which].samples:
        for placed in sample.trace.objects:
            assert placed.location[2] == 0
            assert max(map(abs, placed.location)) + placed.size < sample.trace.floor.half_width
            pixels = project(box(library, placed), sample.trace.camera, 256, 256)
            assert pixels.min() > 4, (sample.factors["scene"], placed.type)
            assert pixels.max() < 252, (sample.factors["scene"], placed.type)


def box(library, placed):
    """Corners of the box about a turned object; for an unknown object, of a prism that holds any object."""
    facts = library.facts("objects", placed.type)
    width, depth, height = facts.get("dimensions", (1, 1, 1))
    if facts:
        base = np.array(list(itertools.product((-width / 2, width / 2), (-depth / 2, depth / 2))))
    else:
        turns = np.linspace(0, 2 * np.pi, 16)
        base = math.sqrt(0.5) * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
    angle = math.radians(placed.rotation)
    base = base @ np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    points = np.array([[x, y, z] for x, y in base for z in (0, height)])
    return points * placed.size + placed.location


def test_all_missing_scans_are_named(tmp_path):
    (tmp_path / "spot.blend").touch()
    message = (
        r"sets\.albedo: layout\.objects\.among: there are no objects `happy`, `homer`, `max-planck`, "
        r"`nefertiti`, `stanford-bunny`; bring each in with `candlelight assets add MESH --name LABEL "
        r"--out FOLDER`, and name the folder with `assets` objects=FOLDER"
    )
    with pytest.raises(InputError, match=message):
        make_plan(load_recipe("concepts-scans", FEW, assets={"objects": tmp_path}))


@pytest.mark.blender
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
