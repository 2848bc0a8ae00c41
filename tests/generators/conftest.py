"""Small recipes, one Blender for scripts, and frames that are rendered once for all tests of pixels."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from candlelight.generators.engine.helper_process import HelperOutput
from candlelight.generators.engine.processor_count import THREADS_VARIABLE
from candlelight.generators.engine.render_plan import RenderOutcome, render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import Plan, make_plan
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.generators.user_assets import asset_folders, import_meshes
from candlelight.loaders.frames import frame_path, read_frame
from candlelight.loaders.samples import Frame
from tests.generators.kept_processes import KeptProcesses

# A short complete recipe.
TINY = """
name: tiny
description: One cube under one light.
sets:
  cubes:
    factors:
      size: {values: [1, 1.5], unit: m}
      color: {values: [red, blue], assets: materials}
      azimuth: {low: -60, high: 60, unit: degrees}
    variables:
      x: {low: -1, high: 1, unit: m}
    layout:
      objects: [{type: cube, material: $color, size: $size, location: [$x, 0]}]
      lights: [{azimuth: $azimuth, distance: 4}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""

PROBE = """
name: probe
description: Small sets for the tests of pixels.
image: {width: 48, height: 36}
render: {samples: 8, bounces: 2}
exposure: 0.3
assets: {materials: materials}
sets:
  concepts:  # albedo sets, illumination sets, and temperatures that share one trace
    factors:
      scene: {values: [sphere]}
      texturing: {values: [rgb, textured]}
      paint: {count: 2}
      light_azimuth: {values: [-70, 70], unit: degrees}
      temperature: {values: [2500, 4500, 6500], unit: K}
    unit_factors: [scene]
    shares_units: true
    varies: [light_azimuth]
    layout: &table
      objects: [{type: sphere, size: 1.5}]
      random_material: {texturing: $texturing, variation: $paint}
      floor: {base_color: [0.8, 0.8, 0.8]}
      lights: [{azimuth: $light_azimuth, elevation: 35, distance: 4, radius: 0.3, temperature: $temperature}]
      camera: {location: [0, 5, 2.2], look_at: [0, 0, 0.6], field_of_view: 32}
  coloured:  # one sample of `concepts` with its coloured light traced, because a map lets no trace be shared
    factors:
      scene: {values: [sphere]}
      temperature: {values: [2500], unit: K}
    unit_factors: [scene]
    shares_units: true
    layout:
      <<: *table
      random_material: {}
      environment: {scene: studio, strength: 0}
      lights: [{azimuth: -70, elevation: 35, distance: 4, radius: 0.3, temperature: $temperature}]
  views:  # objects from two cameras; `pink` and `satin` are the user's own materials
    layers: &optional [image, radiance, albedo, shading, residual, depth, normal, object, part,
                       position, roughness, metallic]
    factors:
      material: {assets: materials, values: [red, pink, satin]}
      camera_x: {values: [-2, 2], unit: m}
    layout:
      objects: [{type: cube, material: $material, size: 1.2, rotation: 20}]
      floor: {}
      lights: [{azimuth: -40, distance: 4}]
      camera: {location: [$camera_x, 4.5, 2.2], look_at: [0, 0, 0.5], field_of_view: 32}
  stands:  # single objects on the floor, with a turned camera
    factors:
      object_type: {assets: objects, values: [cube, sphere, cylinder, cone, torus, suzanne]}
    image: {width: 64, height: 48}
    layout:
      objects: [{type: $object_type, material: blue, size: 1.4, rotation: 30, location: [0.2, -0.1]}]
      floor: {}
      lights: [{azimuth: 20, distance: 5}]
      camera: {location: [0.5, 5, 2.5], look_at: [0, 0, 0.5], field_of_view: 36, pitch: 2, yaw: -3}
  floating:  # two objects, one in front of the other, without a floor
    factors:
      side: {values: [0.3], unit: m}
    layout:
      objects:
        - {type: cube, material: red, size: 1.2, location: [0, -0.8]}
        - {type: sphere, material: green, size: 0.6, location: [$side, 0.9]}
      lights: [{azimuth: 0, distance: 4}]
      camera: {location: [0, 5, 1.5], look_at: [0, 0, 0.5], field_of_view: 34}
  lamps:  # light layers, denoised
    factors:
      color: {assets: materials, values: [orange]}
    layers: [image, radiance, albedo, shading, shading_direct, shading_indirect, residual, object, light/*]
    layout:
      objects: [{type: torus, material: $color, size: 1.4}]
      floor: {}
      lights:
        - {name: key, azimuth: -50, distance: 4, power: 800, temperature: 3000}
        - {name: fill, azimuth: 60, distance: 4, power: 300, temperature: 7000}
      camera: {location: [0, 5, 2.5], look_at: [0, 0, 0.3], field_of_view: 32}
  catcher:  # as CANDLE: an environment map, a shadow catcher, and lights by label
    layers: *optional
    factors:
      lights: {assets: lights, values: [left, right]}
    unit_factors: []
    layout:
      environment: {scene: moonlit grass}
      floor: {catcher: true}
      lights: [{asset: $lights}]
      objects: [{type: sphere, material: yellow, size: 2, location: [0, -2]}]
      camera: {location: [0, 6.5, 2.6], look_at: [0, -2, 0.9], field_of_view: 40}
"""

# `pink.blend` holds a material called Pink; `satin.blend` is 0.25 metallic and 0.1 transmissive.
MAKE_MATERIALS = """
import sys
import bpy
for file, name, color, roughness, metallic, transmission in (
    ("pink", "Pink", (0.8, 0.3, 0.5), 0.3, 0.0, 0.0), ("satin", "satin", (0.4, 0.6, 0.8), 0.9, 0.25, 0.1),
):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    material = bpy.data.materials.new(name)
    shader = next(n for n in material.node_tree.nodes if n.type == "BSDF_PRINCIPLED")
    shader.inputs["Base Color"].default_value = (*color, 1.0)
    shader.inputs["Roughness"].default_value = roughness
    shader.inputs["Metallic"].default_value = metallic
    shader.inputs["Transmission Weight"].default_value = transmission
    bpy.data.libraries.write(f"{sys.argv[1]}/{file}.blend", {material}, fake_user=True)
"""


# Runs a module or a script as a process of its own would; what Blender prints goes to stderr.
SERVER = """
import io, json, os, runpy, sys
import candlelight.generators.blender  # with one thread
asked, done = sys.stdin, os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in asked:
    run, name, text, sys.argv[1:] = json.loads(line)
    sys.stdin = io.StringIO(text)
    getattr(runpy, run)(name, run_name="__main__")
    print(file=done, flush=True)
"""


@pytest.fixture
def tiny(tmp_path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def write_recipe(tmp_path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "own.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="session")
def ask_blender(tmp_path_factory) -> Iterator[Callable[..., None]]:
    """Return a function that runs a module or a script in the same Blender as all others."""
    log = tmp_path_factory.mktemp("one_blender") / "log"
    command = [sys.executable, "-P", "-W", "ignore", "-c", SERVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stderr=errors, env={**os.environ, THREADS_VARIABLE: "1"}, **pipes
        ) as process,
    ):

        def ask(run: str, name: str, text: str, *words: object) -> None:
            print(
                json.dumps([run, name, text, [str(word) for word in words]]), file=process.stdin, flush=True
            )
            assert process.stdout.readline(), log.read_text()

        yield ask
        process.stdin.close()


@pytest.fixture(scope="session")
def run_script(ask_blender, tmp_path_factory) -> Callable[..., None]:
    """Return a function that runs a script, given as text, with arguments."""

    def run(script: str, *words: object) -> None:
        path = tmp_path_factory.mktemp("script") / "script.py"
        path.write_text(script)
        ask_blender("run_path", str(path), "", *words)

    return run


@pytest.fixture(scope="session")
def ask_helper(ask_blender, tmp_path_factory) -> Callable[..., HelperOutput]:
    """Return a function in place of `run_helper`, which starts no process."""
    replies = tmp_path_factory.mktemp("one_blender") / "replies"

    def run_helper(module: str, request: Any, time_limit: float, late: str) -> HelperOutput:
        ask_blender("run_module", module, json.dumps(request), replies)
        lines = replies.read_text(encoding="utf-8").splitlines()
        return HelperOutput(tuple(map(json.loads, lines)), 0, "")

    return run_helper


@pytest.fixture
def one_blender(ask_helper, monkeypatch) -> Callable[..., HelperOutput]:
    """Let one Blender answer in place of a helper process for each request."""
    for module in (asset_folders, import_meshes):
        monkeypatch.setattr(module, "run_helper", ask_helper)
    return ask_helper


@contextmanager
def probe_folder(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Lock the folder of the probe, which all processes of a run of pytest share: the first one fills it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "probe"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@pytest.fixture(scope="session")
def probe_plan(run_script, tmp_path_factory) -> Plan:
    """Plan the probe, with the user's own materials in a folder next to its file."""
    with probe_folder(tmp_path_factory) as folder:
        if not (folder / "probe.yaml").exists():
            (folder / "materials").mkdir()
            run_script(MAKE_MATERIALS, folder / "materials")
            (folder / "probe.yaml").write_text(PROBE)
    return make_plan(load_recipe(folder / "probe.yaml"))


@pytest.fixture(scope="session")
def kept_processes() -> Iterator[KeptProcesses]:
    """Keep render processes for the next run of these tests; `kept_renderers` lets a module use them."""
    kept = KeptProcesses()
    yield kept
    kept.close()


@pytest.fixture(scope="module")
def kept_renderers(kept_processes) -> Iterator[None]:
    """Let the runs of a module share render processes with each other and with those of other modules."""
    with kept_processes.used():
        yield


@pytest.fixture(scope="session")
def probe_run(probe_plan, kept_processes, tmp_path_factory) -> tuple[Path, RenderOutcome]:
    """Render the probe."""
    with probe_folder(tmp_path_factory) as folder, kept_processes.used():
        outcome = folder / "outcome.json"
        if not outcome.exists():
            outcome.write_text(json.dumps(asdict(render(probe_plan, folder / "frames", workers=2))))
    return folder / "frames", RenderOutcome(**json.loads(outcome.read_text()))


@pytest.fixture(scope="session")
def probe(probe_run) -> Path:
    """Return the folder of the probe's frames."""
    return probe_run[0]


@pytest.fixture(scope="session")
def pick(probe, probe_plan) -> Callable[..., list[tuple[SamplePlan, Frame]]]:
    """Return a function that reads the frames of a set with given factor values, and their plan rows."""

    def read(set_name: str, **values: object) -> list[tuple[SamplePlan, Frame]]:
        found = [
            (sample, read_frame(frame_path(probe, sample.set, sample.index), verify=True))
            for sample in probe_plan.samples
            if sample.set == set_name and values.items() <= sample.factors.items()
        ]
        assert found
        return found

    return read
