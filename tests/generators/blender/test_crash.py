"""Killed renders leave only whole samples, and the next run completes the folder with the same bytes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import frame_path, read_metadata
from candlelight.loaders.verification.verify_frames import verify

pytestmark = pytest.mark.blender
psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).parents[3]
RUN = """
import sys
from pathlib import Path
from candlelight.generators.engine.render_plan import render
from candlelight.generators.planning.plan_table import load_plan
render(load_plan(Path(sys.argv[1]), {"materials": Path(sys.argv[3])}), Path(sys.argv[2]), workers=2)
"""


def finished(out):
    return len(list(out.glob("samples/*/*/*/metadata.json")))


def start_and_wait(plan, out, samples):
    """Start a run; return it and its child processes when ``samples`` samples are written."""
    plan_file, materials = plan
    command = [sys.executable, "-c", RUN, str(plan_file), str(out), str(materials)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = psutil.Popen(command, cwd=ROOT, start_new_session=True, **quiet)
    deadline = time.monotonic() + 100
    while finished(out) < samples:
        assert run.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return run, run.children(recursive=True)


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_same_bytes(probe, probe_plan, files_of, tmp_path):
    out, total = tmp_path / "out", len(probe_plan)
    planned = probe / "plan.parquet", probe_plan.recipe.assets["materials"]

    # First kill the run alone: its child processes must end with it.
    run, children = start_and_wait(planned, out, 2)
    run.kill()
    run.wait()
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    assert len(gone) == 2
    first = finished(out)
    assert 2 <= first < total

    # Then kill its whole process group, later.
    run, children = start_and_wait(planned, out, first + 4)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert psutil.wait_procs(children, timeout=20)[1] == []
    second = finished(out)
    assert first < second < total
    for path in out.glob("samples/*/*/*"):  # each sample in its place is whole
        read_metadata(path)
        assert len(list(path.iterdir())) == 4

    outcome = render(probe_plan, out, workers=2)
    assert (outcome.found, outcome.written, outcome.failed) == (second, total - second, {})
    assert files_of(out) == files_of(probe)
    assert sorted(path.name for path in out.iterdir()) == [
        *(".group-locks", ".lock", "SHA256SUMS", "dataset.json", "plan.parquet", "samples")
    ]
    assert (out / "dataset.json").read_bytes() == (probe / "dataset.json").read_bytes()


def test_a_killed_render_process_costs_only_a_retry(probe, probe_plan, files_of, tmp_path):
    killed = []

    def kill_once(count):
        del count
        if not killed:  # a killed process has no command line
            module = "candlelight.generators.blender.renderer"
            for process in psutil.Process().children():
                if module in process.cmdline():
                    killed.append(process.pid)
                    process.kill()

    part = condition(probe_plan, scene="sphere", texturing="rgb")
    outcome = render(part, tmp_path / "out", workers=1, advance=kill_once)
    assert len(killed) == 1
    assert (outcome.written, outcome.failed) == (len(part), {})
    assert files_of(tmp_path / "out").items() <= files_of(probe).items()
    assert not (tmp_path / "out" / "failed").exists()


def test_repair_traces_damaged_samples_to_the_same_bytes(probe, probe_plan, files_of, tmp_path):
    out = shutil.copytree(probe, tmp_path / "out")
    part = condition(probe_plan, side=0.3)
    (sample,) = part.samples
    first = probe_plan.samples[0]
    other = frame_path(out, first.set, first.index) / "image.png"
    whole = other.read_bytes()
    for file in (frame_path(out, sample.set, sample.index) / "layers.npz", other):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(data)
    outcome = render(part, out, workers=1, repair=True)
    assert (outcome.damaged, outcome.damaged_outside_plan, outcome.written) == (1, 1, 1)
    other.write_bytes(whole)
    assert files_of(out) == files_of(probe)
    assert verify(out).whole


@pytest.mark.parametrize("content", [b"", b"BLENDER-v500 and then nothing", b"no blend file at all" * 100])
def test_a_damaged_asset_is_named_and_fails_only_its_own_samples(probe_plan, tmp_path, content):
    (tmp_path / "broken.blend").write_bytes(content)
    values = "sets.views.factors.material.values=[broken, red]"
    folder = {"materials": tmp_path}
    recipe = load_recipe(probe_plan.recipe.assets["materials"].parent / "probe.yaml", [values], assets=folder)
    plan = condition(make_plan(recipe), camera_x=2)
    outcome = render(plan, tmp_path / "out", workers=1)
    assert outcome.written == 1
    ((name, error),) = outcome.failed.items()
    assert name.startswith("views-")
    assert "broken.blend" in error
    assert "\n" not in error
    with pytest.raises(
        InputError, match=r"asset `broken2` is not among the materials; expected one of: .*broken"
    ):
        make_plan(load_recipe("candle", ["sets.candle.factors.color.values=[broken2]"], assets=folder))


def test_a_damaged_environment_map_is_an_error(tmp_path):
    (tmp_path / "own.exr").write_bytes(b"v/1\x01 and then nothing")
    overrides = [
        "image={width: 32, height: 24}",
        "render.samples=1",
        "sets.negatives.factors.scene.values=[own]",
    ]
    plan = make_plan(load_recipe("negatives", overrides, assets={"scenes": tmp_path})).limit(1)
    outcome = render(plan, tmp_path / "out", workers=1)
    assert outcome.written == 0
    (error,) = outcome.failed.values()
    assert error == "own.exr: cannot be read as an image; replace it"
