"""Workers that join, leave, are rejected and are lost; a script stands in for the render process."""

import logging
import sys
import threading
import time
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import candlelight.generators.engine.dask_pool
import candlelight.generators.engine.devices
import candlelight.generators.engine.render_plan
import candlelight.generators.engine.render_process
import candlelight.generators.engine.worker_checks
from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.dask_pool import DaskPool
from candlelight.generators.engine.devices import Device, GpuSlot
from candlelight.generators.engine.render_plan import render
from candlelight.generators.engine.render_process import RunSettings
from candlelight.generators.engine.worker_checks import find_unmet_requirement
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import complete_indices

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.skipif(find_spec("bpy") is None, reason="the workers need bpy")

# The process id stands for the worker: each worker has one render process.
SCRIPT = """#!{python}
import json, os, pathlib, sys, time
replies = os.fdopen(int(sys.argv[-1]), "w")
settings = json.loads(sys.stdin.readline())
root = pathlib.Path(settings["root"])
def say(**reply):
    print(json.dumps(reply), file=replies, flush=True)
say(ready=True)
for line in sys.stdin:
    group = json.loads(line)
    time.sleep(0.02)
    for sample in group:
        with open(root.parent / "asked", "a") as asked:
            print(os.getpid(), sample["id"], file=asked)
        folder = root / "samples" / sample["set"] / "0000" / ("%06d" % sample["index"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata.json").write_text("{{}}")
    say(written=[sample["id"] for sample in group], cpu_seconds=0.25)
"""


@pytest.fixture
def out(tmp_path, monkeypatch):
    script = tmp_path / "process"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setattr(
        candlelight.generators.engine.render_process, "sys", SimpleNamespace(executable=str(script))
    )
    monkeypatch.setattr(retry_limits, "LOOK_INTERVAL", 0.05)
    monkeypatch.setattr(
        candlelight.generators.engine.worker_checks, "find_devices", lambda: [Device("CPU")]
    )  # without Blender
    yield tmp_path / "out"
    assert [one for one in psutil.Process().children(recursive=True) if str(script) in one.cmdline()] == []


@pytest.fixture
def plan(tiny):
    return make_plan(load_recipe(tiny, ["sets.cubes.draws=8"]))


@pytest.fixture
def cluster():
    """Start a scheduler whose two workers are in this process and have two threads each."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=False,
        memory_limit=0,
        dashboard_address=None,
        worker_dashboard_address="localhost:0",
        scheduler_kwargs={"dashboard_address": "localhost:0"},
    ) as cluster:
        yield cluster


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "candlelight"]


def asked(out):
    return [line.split() for line in (out.parent / "asked").read_text().splitlines()]


def test_every_sample_is_rendered_once_by_one_process_of_each_worker(out, plan, cluster):
    outcome = render(plan, out, scheduler=cluster.scheduler_address)
    assert (outcome.written, outcome.failed) == (32, {})
    assert complete_indices(out, "cubes").tolist() == list(range(32))
    processes, names = zip(*asked(out), strict=True)
    assert sorted(names) == sorted(sample.id for sample in plan.samples)
    assert len(set(processes)) == 2
    # The file by which workers find the folder is gone.
    assert list(out.glob(".*.probe*")) == []


def test_threads_of_a_worker_share_one_gpu_slot(out, plan, cluster, monkeypatch):
    taken = []

    class SlowSlot(GpuSlot):
        def __init__(self):
            time.sleep(0.2)  # time for the other thread of the worker to ask as well
            super().__init__(out.parent / "slots")
            taken.append(self)

    monkeypatch.setattr(candlelight.generators.engine.render_process, "GpuSlot", SlowSlot)
    assert render(plan, out, scheduler=cluster.scheduler_address).written == 32
    assert len(taken) == 2
    assert len({process for process, _ in asked(out)}) == 2


def test_two_runs_after_each_other_use_the_same_workers(out, plan, cluster):
    parts = [plan.limit(count) for count in (3, 6)]
    written = [render(part, out, scheduler=cluster.scheduler_address).written for part in parts]
    assert written == [3, 3]


def test_two_runs_at_once_have_separate_processes_on_a_worker(out, plan, cluster):
    """The workers have two threads, so tasks of both runs are rendered at the same time."""
    address, outcomes = cluster.scheduler_address, {}

    def run(name):
        outcomes[name] = render(plan, out / name, scheduler=address)

    out.mkdir()
    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {name: (made.written, made.failed) for name, made in outcomes.items()} == {
        "one": (32, {}),
        "two": (32, {}),
    }
    assert candlelight.generators.engine.dask_pool._pools == {}


def test_an_exception_of_a_task_is_the_reason_why_its_groups_failed(out, plan, cluster, monkeypatch):
    def fail(settings, run, groups):
        raise TimeoutError("the disk is slow")  # waiting for a task raises this class, too

    monkeypatch.setattr(candlelight.generators.engine.dask_pool, "render_slice", fail)
    outcome = render(plan, out, scheduler=cluster.scheduler_address)
    assert set(outcome.failed.values()) == {"TimeoutError: the disk is slow"}
    assert len(outcome.failed) == len(plan)
    assert "in fail" in (out / "failed" / "cubes-000000.log").read_text()


def test_no_more_workers_are_used_than_asked_for(out, plan, cluster):
    render(plan, out, scheduler=cluster.scheduler_address, workers=1)
    assert len({process for process, _ in asked(out)}) == 1


def test_a_scheduler_file_replaces_the_address(out, plan, cluster, tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text(f'{{"address": "{cluster.scheduler_address}"}}')
    assert render(plan.limit(1), out, scheduler=str(file)).written == 1
    file.write_text("[]")
    with pytest.raises(InputError, match=r"expected a file that `dask scheduler --scheduler-file` wrote"):
        render(plan, out, scheduler=str(file))


def test_a_scheduler_that_does_not_answer(out, plan, monkeypatch):
    monkeypatch.setattr(retry_limits, "CONNECT_LIMIT", 0.3)
    with pytest.raises(InputError, match=r"`scheduler` tcp://127\.0\.0\.1:9: expected a dask scheduler") as e:
        render(plan, out, scheduler="tcp://127.0.0.1:9")
    assert "\n" not in str(e.value)


def test_a_worker_with_an_unmet_requirement_is_left_out(out, plan, cluster, monkeypatch, caplog):
    from distributed import get_worker

    unfit = next(iter(cluster.workers.values())).address
    monkeypatch.setattr(
        candlelight.generators.engine.dask_pool,
        "find_unmet_requirement",
        lambda requirements: "it has bpy 4.2.0" if get_worker().address == unfit else "",
    )
    assert render(plan, out, scheduler=cluster.scheduler_address).written == 32
    assert messages(caplog) == [f"worker {unfit} is left out: it has bpy 4.2.0"]
    assert len({process for process, _ in asked(out)}) == 1


def test_a_run_ends_if_all_workers_are_left_out(out, plan, cluster, monkeypatch):
    monkeypatch.setattr(retry_limits, "JOIN_GRACE", 0.1)
    monkeypatch.setattr(
        candlelight.generators.engine.dask_pool,
        "find_unmet_requirement",
        lambda requirements: "it has no\nbpy",
    )
    with pytest.raises(
        InputError, match=r"no worker can render this; the first of 2, inproc:\S+: it has no bpy$"
    ):
        render(plan, out, scheduler=cluster.scheduler_address)


def test_a_check_that_raises_is_an_unmet_requirement(out, plan, cluster, monkeypatch):
    def fail(requirements):
        raise ModuleNotFoundError("No module named 'generators'")

    monkeypatch.setattr(retry_limits, "JOIN_GRACE", 0.1)
    monkeypatch.setattr(candlelight.generators.engine.dask_pool, "find_unmet_requirement", fail)
    with pytest.raises(InputError, match=r"ModuleNotFoundError: No module named 'generators'$"):
        render(plan, out, scheduler=cluster.scheduler_address)


def test_tasks_are_submitted_at_once_to_workers_that_are_there(out, plan, cluster, monkeypatch):
    """A run once waited for a first result before it had submitted a task."""
    monkeypatch.setattr(retry_limits, "LOOK_INTERVAL", 60.0)
    began = time.monotonic()
    assert render(plan, out, scheduler=cluster.scheduler_address).written == len(plan)
    assert time.monotonic() - began < 60.0


def test_the_run_waits_for_workers_that_join_late(out, plan, cluster, caplog):
    cluster.scale(0)
    while cluster.scheduler_info["workers"]:
        time.sleep(0.01)
    more = iter([2])

    def advance(count):
        if count and (number := next(more, None)):
            cluster.scale(number)

    class Joining(logging.Handler):
        def emit(self, record):
            cluster.scale(1)

    logger, joining = logging.getLogger("candlelight"), Joining()
    logger.addHandler(joining)
    many = make_plan(replace_draws(plan, 40))
    assert render(many, out, scheduler=cluster.scheduler_address, advance=advance).written == 160
    logger.removeHandler(joining)
    assert messages(caplog) == ["no workers yet; waiting for the first"]
    assert len({process for process, _ in asked(out)}) == 2


def replace_draws(plan, draws):
    cubes = plan.recipe.sets["cubes"].model_copy(update={"draws": draws})
    return plan.recipe.model_copy(update={"sets": {"cubes": cubes}})


def test_tasks_of_lost_workers_are_repeated(out, plan, cluster, caplog):
    """All workers leave at once; dask by itself would not repeat tasks that no present worker can run."""
    steps = iter([list(cluster.workers.values())])

    def advance(count):
        for worker in next(steps, []) if count else []:
            cluster.sync(worker.close, executor_wait=False)
            cluster.scale(len(cluster.worker_spec) + 1)

    outcome = render(plan, out, scheduler=cluster.scheduler_address, advance=advance)
    # Samples that the lost workers had finished count as found.
    assert (outcome.written + outcome.found, outcome.failed) == (32, {})
    assert complete_indices(out, "cubes").tolist() == list(range(32))
    assert sum("is lost; its tasks are repeated" in message for message in messages(caplog)) == 2


def test_a_lost_scheduler_ends_the_run_with_one_line(out, plan, cluster):
    def advance(count):
        if count:
            cluster.close()

    with pytest.raises(
        InputError, match=r"scheduler .*: the connection is lost; finished samples are whole, run"
    ) as e:
        render(plan, out, scheduler=cluster.scheduler_address, advance=advance)
    assert "\n" not in str(e.value)
    outcome = render(plan, out, workers=2)
    assert outcome.found >= 1
    assert outcome.found + outcome.written == 32


def test_an_interrupted_run_stops_its_processes_on_the_workers(tmp_path):
    from distributed import LocalCluster

    def advance(count):
        if count:
            assert render_processes()
            raise KeyboardInterrupt

    def render_processes():
        children = psutil.Process().children(recursive=True)
        return [one for one in children if "candlelight.generators.engine.dead_leaves" in one.cmdline()]

    plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=500)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        with pytest.raises(KeyboardInterrupt):
            render(plan, tmp_path / "out", scheduler=cluster.scheduler_address, advance=advance)
        assert render_processes() == []


class LosingClient:
    """A client whose scheduler lists another worker at every look; workers are accepted and do nothing."""

    status = "running"

    def __init__(self):
        self.looks, self.asked = 0, []

    def nthreads(self):
        self.looks += 1
        return {f"tcp://w{self.looks}": 1}

    def submit(self, function, argument, *, pure, workers):
        check = function is find_unmet_requirement
        self.asked += [] if check else workers
        future = SimpleNamespace(key=f"{check} {workers}", status="pending", release=lambda: None)
        future.add_done_callback = lambda call: call(future) if check else None
        future.result = lambda timeout: ""
        return future


def test_a_group_over_which_too_many_workers_are_lost_fails(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(retry_limits, "LOOK_INTERVAL", 0.02)
    client, group = LosingClient(), tuple(plan.samples[:1])
    pool = DaskPool(client, RunSettings(tmp_path, plan.recipe), None)
    ((done, result),) = pool.render([group])
    assert (done, result.error) == (group, "more than 10 workers were lost while they had it")
    assert len(set(client.asked)) == len(client.asked) == retry_limits.LOST_WORKERS + 1


def test_contradicting_options_are_refused_before_the_folder_is_made(out, plan, monkeypatch):
    for other in ({}, {"workers": 2, "scheduler": "tcp://127.0.0.1:9"}):
        with pytest.raises(InputError, match=r"`cluster` slurm: expected `workers`, and no `scheduler`"):
            render(plan, out, cluster="slurm", **other)
    monkeypatch.setattr(
        candlelight.generators.engine.devices, "find_devices", lambda: [Device("CPU", "EPYC")]
    )
    with pytest.raises(InputError, match=r"`device` cuda: expected a GPU .* Blender found: CPU"):
        render(plan, out, device="cuda")
    with pytest.raises(InputError, match=r"`device`: expected one of auto, cpu"):
        render(plan, out, device="gpu")
    assert not out.exists()


def test_render_processes_take_different_gpus(out, plan, monkeypatch):
    """With two GPUs there are two workers, whose render processes get different numbers."""
    gpus = [Device("OPTIX", "L4", str(number)) for number in range(2)]
    monkeypatch.setattr(
        candlelight.generators.engine.render_plan, "usable_devices", lambda device: tuple(gpus)
    )
    monkeypatch.setattr(candlelight.generators.engine.devices, "_slots_folder", lambda: out.parent / "slots")
    seen = set()
    start = candlelight.generators.engine.render_process._Process.start

    def note(settings):
        seen.add((settings.device.device, settings.device.slot))
        return start(settings)

    monkeypatch.setattr(candlelight.generators.engine.render_process._Process, "start", note)
    assert render(plan, out).written == 32
    assert seen == {("optix", 0), ("optix", 1)}
