"""Optional layers: position in the world, roughness, metallic and the shares of the shading."""

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders import FrameFolder, HDF5Frames, HubFrames, collate, mixed_edges, pack_hdf5, pack_hub

pytestmark = pytest.mark.blender

# Metallic and roughness of the two materials; half precision rounds most of these numbers.
METALLIC, ROUGHNESS = {"metal": 1.0, "rough": 0.2}, {"metal": 0.3, "rough": 0.9}
MAKE = """
import sys
import bpy
for name, metallic, roughness in (("metal", 1.0, 0.3), ("rough", 0.2, 0.9)):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    material = bpy.data.materials.new(name)
    shader = next(n for n in material.node_tree.nodes if n.type == "BSDF_PRINCIPLED")
    shader.inputs["Base Color"].default_value = (0.8, 0.5, 0.2, 1.0)
    shader.inputs["Metallic"].default_value = metallic
    shader.inputs["Roughness"].default_value = roughness
    bpy.data.libraries.write(f"{sys.argv[1]}/{name}.blend", {material}, fake_user=True)
"""
RECIPE = """
name: layers
description: Optional layers.
image: {width: 48, height: 36}
render: {samples: 8, bounces: 2}
exposure: 0.3
layers: [image, radiance, albedo, shading, shading_direct, shading_indirect, residual, depth, normal,
         object, part, position, roughness, metallic]
assets: {materials: materials}
sets:
  table:
    factors:
      material: {assets: materials, values: [metal, rough]}
    layout: &table
      objects: [{type: sphere, material: $material, size: 1.5, location: [0.3, 0.2]}]
      floor: {half_width: 3}
      lights: [{azimuth: -40, distance: 4}]
      camera: {location: [0.5, 5, 1.2], look_at: [0, 0, 0.9], field_of_view: 34, pitch: 1, yaw: -2}
  catcher:
    factors:
      material: {assets: materials, values: [rough]}
    layout:
      <<: *table
      environment: {scene: studio}
      floor: {catcher: true}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory, render_recipe):
    folder = tmp_path_factory.mktemp("layers")
    (folder / "materials").mkdir()
    subprocess.run([sys.executable, "-c", MAKE, str(folder / "materials")], check=True, timeout=200)
    assert len(render_recipe(folder, RECIPE).samples) == 3
    return folder / "frames"


@pytest.mark.parametrize("set_name", ["table", "catcher"])
def test_position_agrees_with_depth_and_camera(root, set_name):
    frame = FrameFolder(root, set_name).frame(0)
    position, depth = frame.layers["position"].astype(float), frame.layers["depth"]
    camera = frame.metadata.camera
    matrix, intrinsics = np.array(camera.world_to_camera), np.array(camera.intrinsics)
    seen = position @ matrix[:3, :3].T + matrix[:3, 3]
    hit = np.isfinite(depth)
    assert 0.4 < hit.mean() < 1
    assert abs(seen[hit][:, 2] - depth[hit]).max() < 1e-3
    assert (position[~hit] == 0).all()
    # The single sample of a pixel may lie off its middle, but not beyond the pixel filter.
    pixels = seen[hit] @ intrinsics.T
    rows, columns = hit.nonzero()
    off = pixels[:, :2] / pixels[:, 2:] - np.stack([columns + 0.5, rows + 0.5], axis=1)
    assert abs(off).max() < 0.751
    # Points of the floor lie at height 0, points of the object on the sphere.
    sphere = frame.layers["object"] == 1
    assert abs(position[hit & ~sphere][:, 2]).max() < 1e-3
    radius = np.linalg.norm(position[sphere] - (0.3, 0.2, 0.75), axis=-1)
    assert abs(radius - 0.75).max() < 0.01  # the mesh has flat faces


@pytest.mark.parametrize("name", ["metal", "rough"])
def test_roughness_and_metallic_are_those_of_the_material(root, name):
    frames = FrameFolder(root, "table")
    (frame,) = (f for f in map(frames.frame, range(2)) if f.metadata.factors["material"] == name)
    layers, hit = frame.layers, np.isfinite(frame.layers["depth"])
    sphere = layers["object"] == 1
    pure = ~mixed_edges(layers["object"]) & ~mixed_edges(
        hit.astype(np.uint8)
    )  # without edges of floor and sky
    assert np.unique(layers["roughness"][sphere & pure]).tolist() == [np.float16(ROUGHNESS[name])]
    assert np.unique(layers["metallic"][sphere & pure]).tolist() == [np.float16(METALLIC[name])]
    assert np.unique(layers["metallic"][hit & ~sphere & pure]).tolist() == [0]
    assert np.unique(layers["roughness"][hit & ~sphere & pure]).tolist() == [0.5]  # of the floor
    albedo = layers["albedo"][sphere & pure].astype(float)
    assert np.allclose(albedo, np.array([0.8, 0.5, 0.2]) * (1 - METALLIC[name]), atol=1e-3)


def test_a_shadow_catcher_has_no_material(root):
    layers = FrameFolder(root, "catcher").frame(0).layers
    around = (layers["object"] == 0) & ~mixed_edges(layers["object"])
    assert (layers["roughness"][around] == 0).all()
    assert (layers["metallic"][around] == 0).all()


def test_direct_and_indirect_shading_add_up(root):
    for frame in map(FrameFolder(root, "table").frame, range(2)):
        direct, indirect, shading = (
            frame.layers[name].astype(np.float32)
            for name in ("shading_direct", "shading_indirect", "shading")
        )
        assert ((direct + indirect).astype(np.float16) == shading).all()
        assert indirect.max() > 0.01


def test_packs_hold_optional_layers(root, tmp_path, datasets):
    folder = FrameFolder(root, "table")
    (file, _), hub = pack_hdf5(root, tmp_path / "h5"), pack_hub(root, tmp_path / "hub")
    for packed in (HDF5Frames(file), HubFrames(hub, "table")):
        assert packed.layers == folder.layers
        for name in ("position", "roughness", "metallic"):
            assert np.array_equal(packed.frame(1).layers[name], folder.frame(1).layers[name])
        batch = collate([packed[0], packed[1]])
        assert batch["position"].shape == (2, 3, 36, 48)
        assert batch["metallic"].shape == (2, 36, 48)
    for path in (root, file, hub):
        told = CliRunner().invoke(main, ["info", str(path)])
        for name in ("object", "part", "position", "roughness", "metallic"):
            assert f"    {name}: " in told.output
