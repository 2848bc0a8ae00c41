"""Malicious .blend files cannot run code, nor write or read files outside their folder; frames are right."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.user_assets.asset_folders import scan_assets
from candlelight.loaders.frames import frame_path, read_frame
from tests.generators.blender.frame_geometry import inside

pytestmark = [pytest.mark.blender, pytest.mark.slow]

POISONED = Path(__file__).with_name("poisoned.py")
RED, GREEN = (0.8, 0.1, 0.1), (0.0100, 0.3185, 0.0331)  # the second is stored as sRGB 0.1, 0.6, 0.2
# Files that are used after they were made harmless, with the albedo that is seen then.
PAINTS = {**dict.fromkeys(("driven", "scripted", "composed", "osl"), RED), "beside": GREEN, "packed": GREEN}
OPENED = (
    *("materials/driven", "materials/scripted", "materials/composed", "materials/osl"),
    *("objects/driven", "scenes/driven", "scenes/cached", "scenes/fluid", "materials/beholden"),
)
HARMLESS = OPENED[:-2]
# Files that these .blend files write in a Blender that trusts them.
MARKERS = {
    *(
        f"driver_{where}"
        for where in ("nodes", "material", "group", "mesh", "key", "object", "world", "lamp")
    ),
    *(
        "driver_lent",
        "text",
        "text_handler",
        "filepath.png",
        "compositor.exr",
        "fluid",
        "still.png",
        "osl.png",
    ),
}
NEEDS = "which is missing, hidden, of an unsupported kind, or outside the folder; pack it into the .blend"
REFUSED = {
    "absolute": f"absolute.blend: `absolute` needs `.*secret.png`, {NEEDS}",
    "climbing": f"climbing.blend: `climbing` needs `.*secret.png`, {NEEDS}",
    "linked": f"linked.blend: `linked` needs `.*linked.png`, {NEEDS}",
    "missing": f"missing.blend: `missing` needs `.*missing.png`, {NEEDS}",
    "device": f"device.blend: `device` needs `/dev/zero`, {NEEDS}",
    "tiled": f"tiled.blend: `tiled` needs `.*secret.1001.png`, {NEEDS}",
    "film": "film.blend: expected still images, got the film `film`; keep one image",
    "vast": "vast.blend: its image `vast` of 60000 x 60000 pixels is too large; make it smaller",
    "half": "half.blend: expected all tiles of `half` in the file, got some; pack them",
    "worded": "worded.blend: `paint` has a light profile in the text `lamp`; put it into the folder",
    "beholden": f"beholden.blend: `lender.blend` needs `.*lender.blend`, {NEEDS}",
    "profile": f"profile.blend: `paint` needs `.*secret.ies`, {NEEDS}",
}
REFUSED_SCENES = {
    "fluid": "fluid.blend: `cube` has the modifier `fluid`, which writes to disk; apply or remove it",
    "external": "external.blend: `cube` has the modifier `soft`, whose result may be stored in another file",
    "baked": "baked.blend: `cube` has the modifier `bake`, whose result may be stored in another file",
    "imported": "imported.blend: `imports` has the node `.*`, which reads files; apply it",
}
RECIPE = """
name: poisoned
description: One small frame of each file.
image: {width: 32, height: 24}
render: {samples: 4, bounces: 1, denoise: false}
layers: [image, radiance, albedo, residual, object]
assets: {materials: assets/materials, objects: assets/objects, scenes: assets/scenes}
sets:
  paints:
    factors:
      paint: {values: [PAINTS], assets: materials}
    layout:
      objects: [{type: sphere, material: $paint, size: 1.5}]
      lights: &lights [{azimuth: -20, distance: 4}]
      camera: &camera {location: [0, 5, 2], look_at: [0, 0, 0.6], field_of_view: 32}
  shapes:
    factors:
      shape: {values: [SHAPES], assets: objects}
    layout: {objects: [{type: $shape, material: red}], lights: *lights, camera: *camera}
  places:
    factors:
      place: {values: [PLACES], assets: scenes}
    layout:
      environment: {scene: $place}
      lights: *lights
      camera: *camera
"""
# Append and render files with `append` in a Blender that is allowed to run scripts.
TRUSTING = """
import sys
from pathlib import Path
import bpy
from candlelight.generators.blender.append_files import append
def handlers():
    listed = {name: getattr(bpy.app.handlers, name) for name in dir(bpy.app.handlers)}
    return {name: list(functions) for name, functions in listed.items() if isinstance(functions, list)}
kinds = {"materials": "materials", "objects": "objects", "scenes": "collections"}
for file in map(Path, sys.argv[1:]):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.preferences.filepaths.use_scripts_auto_execute = True
    scene, before = bpy.context.scene, handlers()
    scene.render.engine, scene.cycles.samples, scene.cycles.shading_system = "CYCLES", 1, True
    scene.render.resolution_x = scene.render.resolution_y = 8
    kind = kinds[file.parent.name]
    block = append(file, kind, "paint" if kind == "materials" else file.stem)
    bpy.ops.mesh.primitive_cube_add()
    cube = bpy.context.object
    if kind == "materials":
        cube.data.materials.append(block)
    elif kind == "objects":
        scene.collection.objects.link(block)
    else:
        scene.collection.children.link(block)
    scene.camera = bpy.data.objects.new("stand", bpy.data.cameras.new("stand"))
    scene.collection.objects.link(scene.camera)
    bpy.ops.render.render()
    scene.frame_set(2)
    assert handlers() == before
    assert len(bpy.data.scenes) == 1 and not bpy.data.texts and not bpy.data.sounds
"""


def blender(*arguments: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def listed(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Make the files, and remove what Blender wrote while it made them."""
    folder = tmp_path_factory.mktemp("poisoned")
    (folder / "markers").mkdir()
    blender(str(POISONED), "make", str(folder / "assets"), str(folder / "markers"))
    for left in ("markers/fluid", "assets/scenes/blendcache_cached"):
        shutil.rmtree(folder / left, ignore_errors=True)
    return folder


@pytest.fixture
def untouched(place, tmp_path):
    """Check that a test writes nothing but frames: no marker, no file in the asset folders, no cache."""
    before = listed(place)
    (tmp_path / "temporary").mkdir()
    yield tmp_path
    assert listed(place) == before
    assert not list(tmp_path.rglob("blendcache*"))


def plan_of(place, paints=("driven",), shapes=("driven",), places=("driven",)):
    text = RECIPE
    for word, names in (("PAINTS", paints), ("SHAPES", shapes), ("PLACES", places)):
        text = text.replace(word, ", ".join(names))
    (place.parent / f"{place.name}.yaml").write_text(text.replace("assets/", f"{place}/assets/"))
    return make_plan(load_recipe(place.parent / f"{place.name}.yaml"))


def test_frames_are_right_and_nothing_is_written(place, untouched):
    plan = plan_of(place, paints=PAINTS, places=("driven", "cached"))
    outcome = render(plan, untouched / "out", workers=1)
    assert outcome.failed == {}
    frames = {s.id: (s, read_frame(frame_path(untouched / "out", s.set, s.index))) for s in plan.samples}
    assert len(frames) == len(PAINTS) + 3
    for sample, frame in frames.values():
        albedo = frame.layers["albedo"].astype(float)
        if sample.set == "places":  # the cube is part of the environment
            assert (albedo.max(axis=(0, 1)) > 0.05).any()
            continue
        inner = inside(frame.layers["object"] == 1, 1)
        assert inner.sum() > 10
        if sample.set == "paints":
            seen = np.median(albedo[inner], axis=0)
            np.testing.assert_allclose(seen, PAINTS[sample.factors["paint"]], atol=0.02)
        # Nothing emits light, so the residual is only gloss.
        assert frame.layers["residual"][inner].astype(float).mean() < 0.5


def test_a_scan_writes_only_manifests(place, untouched):
    shutil.copytree(place / "assets", untouched / "own", symlinks=True)
    for file in (untouched / "own").rglob("*.blend"):
        name = f"{file.parent.name}/{file.stem}"
        if name not in HARMLESS:
            file.unlink()
    (untouched / "own/materials/linked.png").unlink()
    before = listed(untouched / "own")
    scanned = {kind.manifest.parent.name: kind for kind in scan_assets(untouched / "own")}
    assert listed(untouched / "own") - before == {
        *(f"{kind}/manifest.json" for kind in ("materials", "objects", "scenes")),
    }
    notes = {note for kind in scanned.values() for note in kind.notes}
    assert {
        "materials/scripted.blend: its text `text.py` is left out",
        "materials/composed.blend: its compositor node tree `compositor` is left out",
        "materials/osl.blend: the script `Script` of `paint` is left out",
        "objects/driven.blend: the animation of `Key` is left out",
        "scenes/driven.blend: the animation of `lamp` is left out",
    } <= notes


def test_files_stay_harmless_if_scripts_are_allowed(place, untouched):
    files = [str(place / "assets" / f"{name}.blend") for name in HARMLESS]
    blender("-c", TRUSTING, *files, TMPDIR=str(untouched / "temporary"))


def test_harmful_files_are_refused_in_one_line(place, untouched):
    plan = plan_of(place, paints=REFUSED, shapes=["borrowed"], places=REFUSED_SCENES)
    outcome = render(plan, untouched / "out", workers=1)
    assert outcome.written == 0
    reasons = {s.factors.get("paint") or s.factors.get("place"): outcome.failed[s.id] for s in plan.samples}
    borrowed = f"borrowed.blend: `library.blend` needs `.*library.blend`, {NEEDS}"
    for name, message in {**REFUSED, **REFUSED_SCENES, None: borrowed}.items():
        assert re.search(f"^.*{message}.*$", reasons[name]), name


def test_the_files_are_harmful_in_a_blender_that_trusts_them(place):
    """Without this, the tests above could not fail."""
    before = listed(place / "markers")
    blender(str(POISONED), "open", *(str(place / "assets" / f"{name}.blend") for name in OPENED))
    assert {name.partition("/")[0] for name in listed(place / "markers") - before} == MARKERS
    assert list((place / "assets" / "scenes" / "blendcache_cached").iterdir())
