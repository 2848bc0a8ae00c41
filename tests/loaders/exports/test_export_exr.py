import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from candlelight.loaders.exports import export_exr
from candlelight.loaders.exports.export_exr import exr_channels
from candlelight.loaders.frame_folder import FrameFolder
from tests.refusals import refused

OpenEXR = pytest.importorskip("OpenEXR")


def read(path):
    with OpenEXR.File(str(path), separate_channels=True) as file:
        assert len(file.parts) == 1
        return dict(file.header()), {name: channel.pixels for name, channel in file.channels().items()}


@pytest.fixture(scope="module")
def exported(frames_root, tmp_path_factory):
    out = tmp_path_factory.mktemp("exr")
    assert export_exr(frames_root, out, "free").written == 5
    return out


def test_every_layer_is_read_back_to_the_bit(exported, frames_root):
    frames = FrameFolder(frames_root, "free")
    for row, index in enumerate(frames.indices):
        _, channels = read(exported / "free" / f"{index:06d}.exr")
        layers = {name: array for name, array in frames.frame(row).layers.items() if name != "image"}
        names = exr_channels(layers)
        assert {channel for some in names.values() for channel in some} == set(channels)
        for name, array in layers.items():
            planes = [channels[channel] for channel in names[name]]
            assert {plane.dtype.name for plane in planes} == {
                "float32" if name in ("depth", "position") else "float16"
            }
            read_back = np.stack(planes, axis=-1).reshape(array.shape).astype(array.dtype)
            assert read_back.tobytes() == array.tobytes()


def test_channels_have_blenders_names():
    names = exr_channels(["radiance", "normal", "depth", "albedo", "object", "roughness", "light/key"])
    assert {name: [one.removeprefix("ViewLayer.") for one in some] for name, some in names.items()} == {
        "radiance": ["Combined.R", "Combined.G", "Combined.B"],
        "normal": ["Normal.X", "Normal.Y", "Normal.Z"],
        "depth": ["Depth.Z"],
        "albedo": ["albedo.R", "albedo.G", "albedo.B"],
        "object": ["object.X"],
        "roughness": ["roughness.X"],
        "light/key": ["Combined_key.R", "Combined_key.G", "Combined_key.B"],
    }
    assert exr_channels(["light/a.b"])["light/a.b"][0] == "ViewLayer.Combined_a_b.R"
    with refused("layers `light/a.b` and `light/a_b` would both be light_a_b; rename a light"):
        exr_channels(["light/a.b", "light/a_b"])


def test_attributes_tell_colour_space_and_sample(exported, frames_root):
    header, _ = read(exported / "free" / "000001.exr")
    frames = FrameFolder(frames_root, "free")
    metadata = frames.metadata(1)
    assert np.allclose(header["chromaticities"], (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, 0.3127, 0.3290))
    assert header["colorInteropID"] == "lin_rec709_scene"
    told = {name.removeprefix("candlelight/"): text for name, text in header.items() if "/" in name}
    assert json.loads(told.pop("metadata")) == json.loads(metadata.to_json())
    factors = {"factor/shape": "cone", "factor/angle": "12.5"}
    assert told == {"id": "free-000001", "exposure": "1.0", **factors}


def test_names_of_folders_need_not_be_utf8(exported, frames_root, tmp_path):
    out = tmp_path / os.fsdecode(b"latin-\xe9")
    export_exr(frames_root, out, "free")
    assert (out / "free/000001.exr").read_bytes() == (exported / "free/000001.exr").read_bytes()


def test_layers_can_be_chosen(frames_root, tmp_path):
    export_exr(frames_root, tmp_path, "grid", ["depth", "light/left"])
    _, channels = read(tmp_path / "grid" / "000003.exr")
    left = {f"ViewLayer.Combined_left.{one}" for one in "RGB"}
    assert set(channels) == {"ViewLayer.Depth.Z", *left}
    for some, told in ((["image", "depth"], "image, depth"), ([], "none")):
        with refused(
            f"expected layers of linear light, such as `radiance`, got {told}; PNG files hold `image`"
        ):
            export_exr(frames_root, tmp_path, "grid", some)
    with refused("layer `light/top` is not in this set; it has image, radiance"):
        export_exr(frames_root, tmp_path, "grid", ["light/top"])


def test_sets_of_images_alone_are_refused(concept_frames, tmp_path):
    with refused("expected a set with a layer other than `image`, got albedo"):
        export_exr(concept_frames, tmp_path / "out", "albedo")
    assert not (tmp_path / "out").exists()


def test_without_openexr_the_error_names_the_extra(frames_root, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused(r'run `pip install "candlelight\[exr\]"`', ModuleNotFoundError):
        export_exr(frames_root, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Opens a file as the compositor's Image node does, and renders its outputs; prints the file's type.
BLENDER = """
import sys

import bpy

path, *wanted = sys.argv[1:]
image = bpy.data.images.load(path)
len(image.pixels)  # Blender reads files when their pixels are asked for
tree = bpy.data.node_groups.new("read", "CompositorNodeTree")
node = tree.nodes.new("CompositorNodeImage")
node.image = image
scene = bpy.data.scenes.new("read")
scene.collection.objects.link(bpy.data.objects.new("camera", bpy.data.cameras.new("camera")))
scene.camera = scene.collection.objects["camera"]
scene.render.engine, scene.cycles.samples = "CYCLES", 1
scene.render.resolution_x, scene.render.resolution_y = 32, 24
scene.render.image_settings.file_format, scene.render.image_settings.color_depth = "OPEN_EXR", "32"
scene.compositing_node_group = tree
tree.interface.new_socket("Image", in_out="OUTPUT", socket_type="NodeSocketColor")
end = tree.nodes.new("NodeGroupOutput")
for name in wanted:
    tree.links.new(node.outputs[name], end.inputs[0])
    scene.render.filepath = f"{path}.{name}"
    scene.render.use_file_extension = False
    bpy.ops.render.render(write_still=True, scene=scene.name)
print("type:", image.type, sorted(output.name for output in node.outputs))
"""


@pytest.mark.blender
def test_blender_opens_an_export_as_multilayer(exported, frames_root, tmp_path):
    pytest.importorskip("bpy")
    path = tmp_path / "a.exr"
    path.write_bytes((exported / "free" / "000002.exr").read_bytes())
    outputs = {"Combined": "radiance", "albedo": "albedo", "Depth": "depth", "object": "object"}
    outputs |= {"Combined_left": "light/left", "Normal": "normal"}
    done = subprocess.run(
        [sys.executable, "-c", BLENDER, path, *outputs], capture_output=True, text=True, check=True
    )
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("type:")]
    frame = FrameFolder(frames_root, "free").frame(2)
    assert told.startswith("type: MULTILAYER")
    found = set(re.findall(r"'(\w+)'", told)) - {"Alpha"}  # Blender 5.0 makes one of the Combined pass
    assert len(found) == len(frame.layers) - 1
    for name, layer in outputs.items():
        _, channels = read(tmp_path / f"a.exr.{name}")
        planes = np.stack([channels[one] for one in "RGB"], axis=-1)
        array = frame.layers[layer].astype(np.float32)
        np.testing.assert_array_equal(planes if array.ndim == 3 else planes[..., 0], array, strict=True)
