"""Runs in a batch system: jobs of dask-jobqueue, submitted to scripts that stand in for Slurm."""

import gc
import os
import signal
import sys
import time

import pytest

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.dask_clusters import start_cluster
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.frames import complete_indices
from tests.refusals import refused

pytest.importorskip("dask_jobqueue")
psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.usefixtures("quick_collection")

SBATCH = """#!/bin/sh
cp "$1" "{folder}/$$.sh"
setsid sh "{folder}/$$.sh" > "{folder}/$$.out" 2>&1 < /dev/null &
echo $! > "{folder}/$$.pid"
echo "Submitted batch job $$"
"""
SCANCEL = """#!/bin/sh
for job in "$@"; do kill -TERM -- "-$(cat {folder}/$job.pid)"; done
"""
OPTIONS = {"cores": 1, "memory": "1GB", "walltime": "00:10:00", "queue": "normal", "interface": "lo"}


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Put scripts named `sbatch` and `scancel` first on the path; yield the folder of their jobs."""
    import dask

    folder = tmp_path / "jobs"
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "scancel": SCANCEL}.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(folder=folder))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with dask.config.set({f"jobqueue.slurm.{name}": value for name, value in OPTIONS.items()}):
        yield folder
    for file in folder.glob("*.pid"):
        for process in session(int(file.read_text())):
            process.kill()


def session(leader):
    """List the living processes of a job."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass
    return found


def test_jobs_import_no_modules_of_the_submission_folder(slurm):
    with start_cluster("slurm", 0, None) as cluster:
        assert f"{sys.executable} -P -m distributed" in cluster.job_script()


@pytest.fixture(scope="module")
def plan():
    return make_plan(load_recipe("dead-leaves", ["image.width=16", "image.height=16"]), 40)


@pytest.mark.slow
def test_a_killed_job_is_submitted_again_and_no_process_is_left(slurm, plan, tmp_path, monkeypatch):
    import dask

    monkeypatch.setattr(retry_limits, "RESUBMIT_INTERVAL", 0.5)
    ended = set()

    def advance(count):
        if count and not ended:
            (job,) = slurm.glob("*.pid")
            for process in session(int(job.read_text())):
                ended.add(process.pid)
                os.kill(process.pid, signal.SIGKILL)

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}):
        outcome = render(plan, tmp_path / "out", cluster="slurm", workers=1, advance=advance)
    assert (outcome.written + outcome.found, outcome.failed) == (40, {})
    assert len(complete_indices(tmp_path / "out", "dead_leaves")) == 40
    first, _ = slurm.glob("*.sh")
    assert "#SBATCH -p normal" in first.read_text()
    assert "--nthreads 1 " in first.read_text()
    deadline = time.monotonic() + 20
    while any(session(int(file.read_text())) for file in slurm.glob("*.pid")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_refused_job_ends_the_run_with_the_reason(slurm, plan, tmp_path):
    script = "#!/bin/sh\necho 'sbatch: error: invalid partition specified: normal' >&2\nexit 1\n"
    (tmp_path / "bin" / "sbatch").write_text(script)
    with refused(r"^.*a job was refused .*: sbatch: error: invalid partition.*$"):
        render(plan, tmp_path / "out", cluster="slurm", workers=1)


@pytest.mark.filterwarnings("ignore:unclosed cluster:ResourceWarning")
def test_a_missing_setting_is_reported_in_one_line(slurm, plan, tmp_path):
    import dask

    with (
        dask.config.set({"jobqueue.slurm.cores": None}),
        refused(r"^`cluster` slurm: SLURMCluster: .*cores.*docs/clusters.md.*$"),
    ):
        render(plan, tmp_path / "out", cluster="slurm", workers=1)
    gc.collect()  # while the warning of the unfinished cluster is still ignored


@pytest.mark.parametrize(
    ("kind", "module"), [("lsf", "dask_jobqueue"), ("kubernetes", "dask_kubernetes.operator")]
)
def test_a_missing_package_is_named(plan, tmp_path, monkeypatch, kind, module):
    monkeypatch.setitem(sys.modules, module, None)
    with refused(rf"`cluster` {kind} needs dask-.*`pip install dask-"):
        render(plan, tmp_path / "out", cluster=kind, workers=1)
    assert not (tmp_path / "out").exists()


def test_a_batch_system_without_its_commands_is_refused(plan, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("`cluster` pbs: qsub is not on this machine"):
        render(plan, tmp_path / "out", cluster="pbs", workers=1)
