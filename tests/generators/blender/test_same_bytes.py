"""A sample has the same bytes in any order, with any other samples, workers and threads, and after a kill."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.planning.interventions import condition
from candlelight.generators.planning.plan_table import save_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.loaders.frames import read_metadata

pytestmark = pytest.mark.blender
psutil = pytest.importorskip("psutil")

RUN = """
import sys
from pathlib import Path
from candlelight.generators.engine.render_plan import render
from candlelight.generators.planning.plan_table import load_plan
render(load_plan(Path(sys.argv[1]), {"materials": Path(sys.argv[3])}), Path(sys.argv[2]), workers=2)
"""


def finished(out):
    return len(list(out.glob("samples/*/*/*/metadata.json")))


def test_reverse_order_in_one_process_with_two_threads(probe, probe_plan, files_of, tmp_path):
    backwards = replace(probe_plan, samples=probe_plan.samples[::-1])
    outcome = render(backwards, tmp_path / "out", workers=1, threads=2)
    assert outcome.written == len(probe_plan)
    assert files_of(tmp_path / "out") == files_of(probe)
    assert len(files_of(probe)) == 4 * len(probe_plan)


def test_samples_by_themselves(probe, probe_plan, files_of, tmp_path):
    # The first shares its trace with two others, which are not written.
    concept = {"texturing": "textured", "paint": 1, "light_azimuth": 70, "temperature": 4500}
    alone = [
        sample
        for sample in probe_plan.samples
        if concept.items() <= sample.factors.items() or sample.factors.get("lights") == "right"
    ]
    assert [sample.set for sample in alone] == ["concepts", "catcher"]
    render(replace(probe_plan, samples=compress_samples(alone)), tmp_path / "out", workers=1)
    files = files_of(tmp_path / "out")
    assert len(files) == 4 * 2
    assert files.items() <= files_of(probe).items()


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_same_bytes(probe, probe_plan, files_of, tmp_path):
    part, out = condition(probe_plan, scene="sphere"), tmp_path / "out"
    save_plan(part, tmp_path / "plan.parquet")
    (tmp_path / "temporary").mkdir()

    def start_and_wait(samples):
        """Start a run; return it and its child processes when ``samples`` samples are written."""
        files = [tmp_path / "plan.parquet", out, probe_plan.recipe.assets["materials"]]
        run = psutil.Popen(
            [sys.executable, "-c", RUN, *map(str, files)],
            env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 100
        while finished(out) < samples:
            assert run.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return run, run.children(recursive=True)

    # First kill the run alone: its child processes must end with it.
    run, children = start_and_wait(1)
    run.kill()
    run.wait()
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert (len(gone), alive) == (2, [])
    first = finished(out)

    # Then kill its whole process group, later.
    run, children = start_and_wait(first + 1)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert psutil.wait_procs(children, timeout=20)[1] == []
    second = finished(out)
    assert 1 <= first < second < len(part)
    for path in out.glob("samples/*/*/*"):  # each sample in its place is whole
        read_metadata(path)
        assert len(list(path.iterdir())) == 4
    assert not list((tmp_path / "temporary").glob("blender_*"))

    outcome = render(part, out, workers=2)
    assert (outcome.found, outcome.written, outcome.failed) == (second, len(part) - second, {})
    files = files_of(out)
    assert len(files) == 4 * len(part)
    assert files.items() <= files_of(probe).items()
