"""Rendered pixels of image textures, textured floors, parts, and counterfactuals of parts."""

import numpy as np
import pytest
from PIL import Image

from candlelight.blender_assets import manifest
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.mixed_edges import mixed_edges

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]

HALF = 2.0**-11  # largest relative rounding error of half precision
FLAT = (200, 100, 20)  # a single colour, so that the projection does not matter
RECIPE = """
name: own
description: A cube in several materials on several floors, and a finch.
image: {width: 48, height: 36}
render: {samples: 8, bounces: 1}
layers: [image, albedo, depth, normal, object, part]
exposure: 0.3
assets: {textures: textures}
sets:
  stated:
    factors:
      look: {values: [rgb, flat, halves, wood]}
    unit_factors: []
    shares_units: true
    layout: &table
      objects: [{type: cube, size: 1.5, rotation: 20}]
      material:
        choose: $look
        among:
          rgb: null
          flat: {texture: plain/flat}
          halves: {texture: plain/halves}
          wood: {texture: wood, color_a: [0.8, 0.1, 0.1], color_b: [0.1, 0.1, 0.8]}
      floor: {}
      lights: [{azimuth: 30, elevation: 50, distance: 4}]
      camera: {location: [0, 4.5, 2.5], look_at: [0, 0, 0.6], field_of_view: 34}
  drawn:
    factors:
      variation: {count: 2}
    unit_factors: []
    shares_units: true
    layout:
      <<: *table
      material: null
      random_material: {texturing: textured, variation: $variation, textures: [plain/flat, plain/halves]}
  pair:
    factors:
      side: {values: [0.7], unit: m}
    layout:
      <<: *table
      material: null
      objects:
        - {type: cube, material: {texture: plain/flat}, size: 1.0, location: [$side, 0]}
        - {type: cube, material: {texture: plain/other}, size: 1.0, location: [-0.7, 0]}
  floors:
    factors:
      half_width: {values: [3, 6], unit: m}
    unit_factors: []
    layout:
      <<: *table
      material: null
      objects: []
      floor: {half_width: $half_width, random_material: {texturing: textured, textures: [checker]}}
      camera: {location: [0, 2, 2.5], look_at: [0, 0, 0], field_of_view: 34}
  parts:
    factors:
      beak: {assets: materials, values: [blue, yellow]}
    unit_factors: []
    image: {width: 96, height: 72}
    layout:
      <<: *table
      material: null
      objects:
        - {type: finch, material: own, parts: {beak: $beak}, size: 1.9, rotation: 130, location: [0.4, 0]}
        - {type: cube, material: blue, size: 0.5, location: [-1, 0]}
  house:  # whose regions a counterfactual changes, one each
    extends: parts-recoloured/house
    image: {width: 40, height: 40}
    render: {samples: 2, bounces: 1, denoise: false}
    layers: [image, object, part]
    factors: {class: {assets: objects, values: [tower]}}
    draws: 1
    do: {scene: garden}
  changed:
    counterfactual:
      of: house
      do: [{recoloured: roof}, {recoloured: walls}, {scene: studio}, {scene: garden}]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, render_recipe):
    """Render the recipe with images in a folder next to it."""
    folder = tmp_path_factory.mktemp("textures_and_parts")
    (folder / "textures" / "plain").mkdir(parents=True)
    flat = np.full((20, 30, 3), FLAT, np.uint8)
    halves = np.repeat(np.where(np.arange(30) < 15, 30, 220).astype(np.uint8), 3).reshape(1, 30, 3)
    for name, image in (("flat", flat), ("halves", np.repeat(halves, 20, 0)), ("other", 255 - flat)):
        Image.fromarray(image).save(folder / "textures" / "plain" / f"{name}.png")
    render_recipe(folder, RECIPE)
    return folder / "frames"


def frames_of(run, name):
    reader = FrameFolder(run, name)
    return [reader.frame(row) for row in range(len(reader))]


def pure(frame, layer, index):
    """Return the pixels that show one object or part only."""
    return (frame.layers[layer] == index) & ~mixed_edges(frame.layers[layer])


def assert_albedo(frame, layer, index, linear):
    seen = frame.layers["albedo"][pure(frame, layer, index)].astype(float)
    np.testing.assert_allclose(seen, np.broadcast_to(linear, seen.shape), rtol=2 * HALF)
    return len(seen)


def test_an_image_texture_gives_the_albedo_of_its_pixels(run):
    _, flat, halves, _ = frames_of(run, "stated")
    assert assert_albedo(flat, "object", 1, srgb_to_linear(np.array(FLAT) / 255)) > 50
    seen = halves.layers["albedo"][pure(halves, "object", 1)].astype(float)
    ends = srgb_to_linear(np.array([30, 220]) / 255)
    assert (seen.min(), seen.max()) == pytest.approx(tuple(ends), rel=2 * HALF)
    assert flat.metadata.objects[0].material == "plain/flat"
    assert flat.metadata.objects[0].base_color is None
    (pair,) = frames_of(run, "pair")  # two images in one frame
    for index, color in ((1, np.array(FLAT)), (2, 255 - np.array(FLAT))):
        assert assert_albedo(pair, "object", index, srgb_to_linear(color / 255)) > 10


def test_materials_do_not_change_geometry(run):
    first, *others = frames_of(run, "stated") + frames_of(run, "drawn")
    assert len(others) == 5
    for other in others:
        for name in ("depth", "normal", "object", "part"):
            np.testing.assert_array_equal(first.layers[name], other.layers[name])
    looks = [frame.metadata.layers["albedo"] for frame in [first, *others]]
    assert len(set(looks)) >= 5


def test_the_pattern_of_a_floor_has_the_same_size_on_any_floor(run):
    small, large = (frame.layers["albedo"].astype(float) for frame in frames_of(run, "floors"))
    seen, times = np.unique(small.reshape(-1, 3).round(3), axis=0, return_counts=True)
    colors = seen[np.argsort(times)[-2:]]
    assert np.abs(colors[0] - colors[1]).max() > 0.05
    # Rounding moves the edges of the pattern a little.
    assert (np.abs(small - large).max(axis=-1) < 0.02).mean() > 0.97


def test_each_part_has_its_colour_bounding_box_and_area(run):
    palette = {part["name"]: part["color"] for part in manifest()["objects", "finch"]["facts"]["parts"]}
    for frame, beak in zip(frames_of(run, "parts"), ("blue", "yellow"), strict=True):
        finch, cube = frame.metadata.objects
        beak_color = manifest()["materials", beak]["facts"]["base_color"]
        assert [(part.index, part.name) for part in finch.parts] == list(enumerate(palette, 1))
        assert (finch.material, finch.base_color) == ("own", None)
        part_layer, object_layer = frame.layers["part"], frame.layers["object"]
        assert ((part_layer > 0) == (object_layer == 1)).all()
        assert sum(part.area for part in finch.parts) == finch.area == (object_layer == 1).sum()
        checked = 0
        for part in finch.parts:
            rows, columns = (part_layer == part.index).nonzero()
            expected = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) if len(rows) else None
            assert (part.bbox, part.area) == (expected, len(rows))
            own = beak_color if part.name == "beak" else palette[part.name]
            np.testing.assert_allclose(part.base_color, own, atol=1e-6)
            checked += assert_albedo(frame, "part", part.index, own) > 0
        assert checked >= 3
        assert (cube.parts, cube.material) == ((), "blue")


def test_packs_hold_part_names(run, tmp_path):
    names = tuple(part["name"] for part in manifest()["objects", "finch"]["facts"]["parts"])
    folder = FrameFolder(run, "parts", objects=True)
    (packed,) = pack_hdf5(run, tmp_path / "h5", ["parts"])
    hub = HubFrames(pack_hub(run, tmp_path / "hub", ["parts"]), "parts", objects=True)
    for reader in (folder, HDF5Frames(packed, objects=True), hub):
        assert reader.set_info.parts == {"finch": names}
        assert reader.frame(1).metadata.objects == folder.frame(1).metadata.objects
        assert [part["name"] for part in reader[1]["objects"][0]["parts"]] == list(names)
    assert FrameFolder(run, "stated").set_info.parts == {}


def test_a_counterfactual_changes_its_region_most(run):
    from candlelight.evaluation.views import open_data  # needs torch, unlike the other tests of this folder

    (item,) = open_data("counterfactuals", run)
    # The scene that a frame has already is no change.
    counts = {name: len(images) for name, images in item.changed.items()}
    assert counts == {"roof": 1, "walls": 1, "background": 1}
    differences = {name: (images[0] - item.image).abs().amax(0) for name, images in item.changed.items()}
    for part in ("roof", "walls"):
        difference = differences[part]
        inside = difference[item.masks[part]].mean()
        assert inside > 0.1
        assert inside > 5 * difference[~item.masks[part]].mean()
    assert differences["background"][item.masks["background"]].mean() > 0.03


MEMORY = """
import sys
from pathlib import Path
import bpy
from candlelight.blender_assets import AssetLibrary
from candlelight.generators.blender.image_textures import TextureImageCache
library = AssetLibrary({"textures": Path(sys.argv[1])})
images = TextureImageCache(library)
bpy.ops.wm.read_factory_settings(use_empty=True)
counts, values = [], []
for label in library.labels("textures"):
    images.start()
    image = images.get(label)
    assert images.get(label) == image
    counts.append(len(bpy.data.images))
    values.append(round(image.pixels[0], 4))
Path(sys.argv[2]).write_text(f"{max(counts)} {len(set(values))}")
"""


def test_unused_images_are_removed_at_the_next_trace(run_script, tmp_path):
    for value in range(6):
        Image.fromarray(np.full((8, 8, 3), 40 * value, np.uint8)).save(tmp_path / f"gray_{value:02d}.png")
    run_script(MEMORY, tmp_path, tmp_path / "counted")
    # An image remains until the next trace begins, so there are at most two.
    assert (tmp_path / "counted").read_text() == "2 6"
