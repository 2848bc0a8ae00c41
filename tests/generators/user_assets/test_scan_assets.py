"""Assets in the convention of CANDLE's generator: scanned, planned and rendered."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.blender_assets import AssetLibrary, manifest, shipped
from candlelight.blender_assets.asset_manifest import write_asset_manifest
from candlelight.cli import main
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.user_assets import asset_folders
from candlelight.generators.user_assets.asset_folders import open_assets, scan_assets
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.verification.checksums import file_sha256
from tests.refusals import refused

KINDS = ("objects", "materials", "lights", "scenes")
SMALL = (
    *("image.width=48", "image.height=36", "render.samples=4"),
    *("sets.candle.factors.scene.values=[harbour]", "sets.candle.factors.lights.values=[left]"),
    *("sets.candle.factors.object_type.values=[cube, torus]", "sets.candle.factors.color.values=[red]"),
    *("sets.candle.factors.size.values=[2.5]", "sets.candle.factors.rotation.values=[15]"),
)
ONE = {"scene": "garden", "lights": "left", "object_type": "cube", "color": "red", "size": 2, "rotation": 15}
# The kind that each bad file is scanned as, and the message.
BAD = {
    "hollow": ("objects", "hollow.blend: expected a mesh object with faces, got one without faces"),
    "loose": ("objects", "loose.blend: part `hat` is attached to `neck`; expected one of hat, head"),
    "torn": ("objects", "torn.blend: cannot be read as a .blend file; replace it"),
    "both": ("materials", "both.blend: expected one block named `both` in materials, found "),
    "sun": ("lights", "sun.blend: expected an object that is a point light, got sun"),
    "warm": ("lights", "warm.blend: expected a light of energy and colour alone, got temperature or"),
    "nowhere": ("scenes", "nowhere.blend: expected a world, or a collection named `nowhere`"),
    "elsewhere": ("scenes", "elsewhere.blend: `garden.exr` needs `"),
    "rolled": ("scenes", "rolled.blend: expected a camera without roll"),
    "upright": ("scenes", "upright.blend: expected a camera without roll, upright"),
    "flat": ("scenes", "flat.blend: expected `Camera` to be a perspective camera"),
    "shifted": ("scenes", "shifted.blend: expected a camera without shift"),
}


@pytest.fixture(scope="module")
def originals(ask_blender, tmp_path_factory):
    """Make files that follow the convention, and files that do not."""
    root = tmp_path_factory.mktemp("originals")
    script, outside = Path(__file__).with_name("originals.py"), shipped() / "scenes" / "garden.exr"
    ask_blender("run_path", str(script), "", root / "good", root / "bad", outside)
    shutil.copy(shipped() / "objects" / "duck.blend", root / "good" / "objects")
    return root


@pytest.fixture(scope="module")
def scanned(originals, ask_helper):
    """Scan the good files with the command."""
    before = {path: path.read_bytes() for path in (originals / "good").rglob("*.blend")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asset_folders, "run_helper", ask_helper)
        result = CliRunner().invoke(main, ["assets", "scan", str(originals / "good")])
    assert result.exit_code == 0, result.output
    assert before == {path: path.read_bytes() for path in (originals / "good").rglob("*.blend")}
    return originals / "good", result.output


@pytest.fixture(scope="module")
def rendered(scanned, kept_renderers, tmp_path_factory):
    """Render `candle-faithful` with the scanned assets only."""
    folder, _ = scanned
    assets = {kind: folder / kind for kind in KINDS}
    plan = make_plan(load_recipe("candle-faithful", SMALL, assets=assets))
    root = tmp_path_factory.mktemp("frames") / "originals"
    assert not render(plan, root, workers=1).failed
    return plan, FrameFolder(root, "candle")


# ------------------------------------------------------------------------------------------------ facts


@pytest.mark.blender
def test_files_are_measured_as_they_are(scanned):
    """Objects with the scale in their file."""
    library = AssetLibrary({kind: scanned[0] / kind for kind in KINDS})
    white = {"power": 5000, "radius": 0.25, "color": [1, 1, 1]}
    for (kind, label), facts in {
        ("objects", "cube"): {"dimensions": [1, 1, 1], "footprint": 0.707107},
        ("objects", "torus"): {"dimensions": [1.25, 1.25, 0.25], "footprint": 0.625},
        ("lights", "left"): {**white, "location": [5, -5, 7]},
        ("lights", "right"): {**white, "location": [-5, 5, 7]},
        ("materials", "red"): {"base_color": [0.8, 0.0866, 0.0804]},
    }.items():
        assert library.facts(kind, label) == facts
    harbour = library.facts("scenes", "harbour")
    view = harbour.pop("camera")
    assert harbour == {"modelled": False}
    assert (view["location"], view["look_at"]) == ([1, 15, 3], [1, 14, 3])
    # A sensor of 36 mm and a lens of 40 mm.
    assert view["field_of_view"] == pytest.approx(np.degrees(2 * np.arctan(18 / 40)), abs=1e-5)
    expected = {part["name"]: part["color"] for part in manifest()["objects", "duck"]["facts"]["parts"]}
    parts = {part["name"]: part["color"] for part in library.facts("objects", "duck")["parts"]}
    assert list(parts) == list(expected)
    np.testing.assert_allclose(list(parts.values()), list(expected.values()), atol=1e-5)
    gray = {"color": [0.5, 0.5, 0.5]}
    doll = [{"name": "head", **gray}, {"name": "hat", **gray, "attached_to": "head"}]
    assert library.facts("objects", "doll")["parts"] == doll


@pytest.mark.blender
def test_the_command_prints_the_labels(scanned):
    folder, output = scanned
    note = "\n  lights/right.blend: its nodes are left out; energy, radius, colour and location are used"
    labels = ("cube, doll, duck, torus", "red", f"left, right{note}", "harbour")
    lines = [
        f"{folder / kind / 'manifest.json'}: {names}\n" for kind, names in zip(KINDS, labels, strict=True)
    ]
    assert output == "".join(lines)


@pytest.mark.blender
def test_a_second_scan_keeps_known_licences_the_facts_of_maps_and_entries_of_other_files(
    one_blender, tmp_path
):
    for label in ("garden", "studio"):
        shutil.copy(shipped() / "scenes" / f"{label}.exr", tmp_path)
    (tmp_path / "manifest.json").write_text("{")  # is replaced
    scan_assets(tmp_path, "scenes", licence="CC0-1.0")
    file = tmp_path / "manifest.json"
    data = json.loads(file.read_text())
    data["assets"][0]["facts"] |= {"rotation": 90}
    data["assets"][1] |= {"licence": "ask me", "source": ""}
    data["assets"].append({**data["assets"][0], "name": "tile", "file": "tile.exr"})
    file.write_text(json.dumps(data))
    stated = ["--kind", "scenes", "--licence", "CC-BY-4.0", "--source", "me"]
    assert CliRunner().invoke(main, ["assets", "scan", str(tmp_path), *stated]).exit_code == 0
    listed = CliRunner().invoke(main, ["assets", "list", str(tmp_path), "--kind", "scenes"])
    assert listed.output.splitlines()[1:] == [
        "  garden  rotation 90 degrees, environment map  CC0-1.0  me",
        "  studio  environment map  CC-BY-4.0  me",
    ]
    names = [entry["name"] for entry in json.loads(file.read_text())["assets"]]
    assert sorted(names) == ["garden", "studio", "tile"]


@pytest.mark.blender
def test_images_of_textures_are_scanned_by_label(one_blender, tmp_path):
    (tmp_path / "banded").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "banded" / "one.png")
    shutil.copy(shipped() / "textures" / "wood.blend", tmp_path)
    (done,) = scan_assets(tmp_path, "textures", licence="CC0-1.0")
    files = {entry["name"]: entry["file"] for entry in done.entries}
    assert (files, done.notes) == ({"banded/one": "banded/one.png", "wood": "wood.blend"}, ())
    assert AssetLibrary({"textures": tmp_path}).entry("textures", "banded/one")["licence"] == "CC0-1.0"
    (tmp_path / "banded" / "two.png").write_bytes(b"no image")
    with refused(r"^textures/two.png: cannot be read: .*; replace or remove it; no man"):
        scan_assets(tmp_path, "textures")


# ---------------------------------------------------------------------------------------------- refused


@pytest.mark.blender
def test_files_that_break_the_convention_are_refused_with_a_reason(one_blender, originals):
    files = [(kind, label, str(originals / "bad" / f"{label}.blend")) for label, (kind, _) in BAD.items()]
    files.append(("objects", "sunk", str(originals / "bad" / "sunk.blend")))
    answers = one_blender("candlelight.generators.blender.scan_file", files, 200.0, "late").replies
    for answer, (_, message) in zip(answers, BAD.values(), strict=False):
        assert message in answer["error"]
        assert "\n" not in answer["error"]
    assert answers[-1]["notes"] == ["its base is at height -0.5 m, not 0: it will float or sink by that"]


@pytest.mark.blender
def test_no_manifest_is_written_if_a_file_is_bad(originals, tmp_path):
    (folder := tmp_path / "lights").mkdir()
    for label in ("sun", "warm"):
        shutil.copy(originals / "bad" / f"{label}.blend", folder)
    result = CliRunner().invoke(main, ["assets", "scan", str(folder)])
    reason = "lights/sun.blend: expected an object that is a point light, got sun (and 1 more files)"
    assert (result.exit_code, result.output) == (2, f"Error: {reason}; no manifest was written\n")
    assert {path.name for path in folder.iterdir()} == {"sun.blend", "warm.blend"}


def test_a_folder_without_assets_is_refused(tmp_path):
    with refused("nowhere: there is no such folder"):
        scan_assets(tmp_path / "nowhere")
    with refused(r"expected folders objects, .* name their kind with --kind"):
        scan_assets(tmp_path)
    (tmp_path / "lights").mkdir()
    with refused(r"there is no asset in it; expected files of lights: \.blend"):
        scan_assets(tmp_path)


def test_without_blender_no_file_is_blamed(tmp_path, monkeypatch):
    (tmp_path / "a.blend").touch()
    monkeypatch.setattr(asset_folders, "find_spec", lambda name: None)
    with refused(r"^scanning assets needs bpy, not installed here"):
        scan_assets(tmp_path, "materials")


# ----------------------------------------------------------------------------------------------- camera

VIEW = {"location": (1, 15, 3), "look_at": (1, 14, 3), "field_of_view": 40}


def one_plan(*overrides, assets=None):
    few = [f"sets.candle.factors.{name}.values=[{value}]" for name, value in ONE.items()]
    return make_plan(load_recipe("candle", [*few, *overrides], assets=assets))


def write_camera(folder, view):
    """Write the shipped garden with a camera in its manifest."""
    shutil.copy(shipped() / "scenes" / "garden.exr", folder)
    entry = {"kind": "scenes", "name": "garden", "file": "garden.exr", "licence": "", "source": ""}
    entry |= {"sha256": file_sha256(folder / "garden.exr"), "facts": {"camera": view}}
    write_asset_manifest(folder / "manifest.json", [entry])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"field_of_view": None}, "camera.field_of_view: "),
        ({"field_of_view": 180}, "camera.field_of_view: "),
        ({"location": [0, 1]}, r"camera.location"),
    ],
)
def test_an_incomplete_camera_in_a_manifest_is_refused(tmp_path, change, message):
    write_camera(tmp_path, {**VIEW, **change})
    with refused(rf"assets\.scenes: .*{message}"):
        AssetLibrary({"scenes": tmp_path}).facts("scenes", "garden")


def test_the_camera_of_a_scene_replaces_the_recipes_camera_but_not_its_turns(tmp_path):
    (own,) = one_plan().samples
    turned = "sets.candle.layout.camera.scene=$scene"
    assert one_plan(turned).samples[0].trace == own.trace  # the shipped scene has no camera
    write_camera(tmp_path, VIEW)
    (moved,) = one_plan(turned, assets={"scenes": tmp_path}).samples
    assert moved.trace.camera.model_dump() == {**own.trace.camera.model_dump(), **VIEW}
    assert moved.trace.camera.yaw != 0
    with refused(r"layout\.camera\.scene: asset `attic` is not among the scenes"):
        one_plan("sets.candle.layout.camera.scene=attic")


# --------------------------------------------------------------------------------------------- rendered


@pytest.mark.blender
def test_objects_have_the_size_of_their_files(rendered):
    plan, frames = rendered
    for sample, row in zip(plan.samples, range(len(frames)), strict=True):
        (written,) = frames.metadata(row).objects
        corners = np.array(written.corners).reshape(8, 3)
        x, y, _ = written.location
        # A cube of 2.5 m, and a torus a quarter wider, both on the floor.
        height, across = (2.5, 2.5) if written.type == "cube" else (0.625, 3.125)
        assert corners.min(axis=0)[2] == pytest.approx(0, abs=1e-5)
        assert corners.max(axis=0)[2] == pytest.approx(height, abs=1e-5)
        assert corners.mean(axis=0)[:2] == pytest.approx((x, y), abs=1e-5)
        edge = min(np.linalg.norm(corners[0] - corner) for corner in corners[1:])
        assert edge == pytest.approx(min(height, across), abs=1e-4)
        assert sample.factors["rotation"] == 15
        assert written.rotation == pytest.approx(139.4367, abs=1e-3)


@pytest.mark.blender
def test_the_camera_and_the_world_of_the_scene_are_used(rendered):
    plan, frames = rendered
    assert {sample.trace.camera.location for sample in plan.samples} == {(1, 15, 3)}
    assert {sample.trace.camera.look_at for sample in plan.samples} == {(1, 14, 3)}
    for row in range(len(frames)):
        frame = frames.frame(row)
        sky = frame.layers["radiance"][:5].astype(float).mean(axis=(0, 1))
        # The map is (0.2, 0.3, 0.8) above the horizon.
        np.testing.assert_allclose(sky, (0.2, 0.3, 0.8), rtol=0.01)
        assert frame.metadata.environment.scene == "harbour"


@pytest.mark.blender
def test_a_world_that_was_not_scanned_is_refused_as_a_modelled_scene(one_blender, scanned, tmp_path):
    shutil.copy(scanned[0] / "scenes" / "harbour.blend", tmp_path)
    plan = one_plan("sets.candle.factors.scene.values=[harbour]", assets={"scenes": tmp_path})
    # A render says the same: `test_open_assets.py`.
    reason = "scene `harbour`: expected a collection of that name, found `Collection`; if the file"
    with refused(f"{reason}.*candlelight assets scan"):
        open_assets(plan)
