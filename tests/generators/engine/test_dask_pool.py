"""Workers that join, leave, are rejected and are lost; `fake` stands in for the render process."""

import asyncio
import logging
import threading
import time
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from candlelight.generators.engine import dask_pool, retry_limits
from candlelight.generators.engine.dask_clusters import without_late_timeouts
from candlelight.generators.engine.dask_pool import DaskPool
from candlelight.generators.engine.render_plan import render
from candlelight.generators.engine.render_process import RunSettings
from candlelight.generators.engine.worker_checks import find_unmet_requirement
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.frames import complete_indices
from tests.refusals import refused

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.usefixtures("quick_collection")


@pytest.fixture
def plan(tiny):
    return make_plan(load_recipe(tiny, ["sets.cubes.draws=8"]))


def new_cluster():
    """Start a scheduler whose two workers are in this process and have two threads each."""
    from distributed import LocalCluster

    if find_spec("bpy") is None:
        pytest.skip("the workers need bpy")
    return LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=False,
        memory_limit=0,
        dashboard_address=None,
        worker_dashboard_address="localhost:0",
        scheduler_kwargs={"dashboard_address": "localhost:0"},
    )


@pytest.fixture(scope="module")
def workers():
    """Return two workers that run after run uses; their scheduler's address is `scheduler`."""
    with new_cluster() as cluster:
        yield cluster


@pytest.fixture
def scheduler(workers, fake):
    return workers.scheduler_address


@pytest.fixture
def cluster():
    """Start workers that a test adds and takes away."""
    with new_cluster() as cluster:
        yield cluster


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "candlelight"]


def test_every_sample_is_rendered_once_by_one_process_of_each_worker(fake, plan, scheduler, monkeypatch):
    # Slices are submitted at once, and not at a second look at the workers.
    monkeypatch.setattr(retry_limits, "LOOK_INTERVAL", 1000.0)
    outcome = render(plan, fake.out, scheduler=scheduler)
    assert (outcome.written, outcome.failed) == (32, {})
    assert complete_indices(fake.out, "cubes").tolist() == list(range(32))
    assert sorted(fake.asked()) == [[sample.id] for sample in plan.samples]
    assert len(fake.asked_processes()) == 2
    # The file by which workers find the folder is gone.
    assert list(fake.out.glob(".*.probe*")) == []


def test_two_runs_at_once_have_separate_processes_on_a_worker(fake, plan, scheduler):
    """The workers have two threads, so tasks of both runs are rendered at the same time."""
    outcomes = {}

    def run(name):
        outcomes[name] = render(plan, fake.out.parent / name, scheduler=scheduler)

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = {"one": (32, {}), "two": (32, {})}
    assert {name: (made.written, made.failed) for name, made in outcomes.items()} == expected
    assert dask_pool._pools == {}


def test_an_exception_of_a_task_is_the_reason_why_its_groups_failed(fake, plan, scheduler, monkeypatch):
    def fail(settings, run, groups):
        raise TimeoutError("the disk is slow")  # waiting for a task raises this class, too

    monkeypatch.setattr(dask_pool, "render_slice", fail)
    outcome = render(plan, fake.out, scheduler=scheduler)
    assert outcome.failed == {sample.id: "TimeoutError: the disk is slow" for sample in plan.samples}
    assert "in fail" in (fake.out / "failed" / "cubes-000000.log").read_text()


def test_a_scheduler_file_replaces_the_address_and_no_more_workers_are_used_than_asked_for(
    fake, plan, scheduler, tmp_path
):
    file = tmp_path / "scheduler.json"
    file.write_text("[]")
    with refused(r"expected a file that `dask scheduler --scheduler-file` wrote"):
        render(plan, fake.out, scheduler=str(file))
    file.write_text(f'{{"address": "{scheduler}"}}')
    assert render(plan, fake.out, scheduler=str(file), workers=1).written == 32
    assert len(fake.asked_processes()) == 1


def test_a_scheduler_that_does_not_answer(fake, plan, monkeypatch):
    monkeypatch.setattr(retry_limits, "CONNECT_LIMIT", 0.3)
    with refused(r"^`scheduler` tcp://127\.0\.0\.1:9: expected a dask scheduler.*$"):
        render(plan, fake.out, scheduler="tcp://127.0.0.1:9")


def test_a_worker_with_an_unmet_requirement_is_left_out(fake, plan, workers, scheduler, monkeypatch, caplog):
    from distributed import get_worker

    unfit = next(iter(workers.workers.values())).address
    monkeypatch.setattr(
        dask_pool, "find_unmet_requirement",
        lambda requirements: "it has bpy 4.2.0" if get_worker().address == unfit else "",
    )  # fmt: skip
    assert render(plan, fake.out, scheduler=scheduler).written == 32
    assert messages(caplog) == [f"worker {unfit} is left out: it has bpy 4.2.0"]
    assert len(fake.asked_processes()) == 1


def test_a_run_ends_if_all_workers_are_left_out_or_their_check_fails(fake, plan, scheduler, monkeypatch):
    def fail(requirements):
        raise ModuleNotFoundError("No module named 'generators'")

    monkeypatch.setattr(retry_limits, "JOIN_GRACE", 0.1)
    for check, reason in (
        (lambda requirements: "it has no\nbpy", "it has no bpy"),
        (fail, "ModuleNotFoundError: No module named 'generators'"),
    ):
        monkeypatch.setattr(dask_pool, "find_unmet_requirement", check)
        with refused(rf"no worker can render this; the first of 2, inproc:\S+: {reason}$"):
            render(plan, fake.out, scheduler=scheduler)


def test_the_run_waits_for_workers_that_join_late(fake, plan, cluster, caplog):
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
    fake.act(pause=0.05)
    outcome = render(plan, fake.out, scheduler=cluster.scheduler_address, advance=advance)
    logger.removeHandler(joining)
    assert outcome.written == 32
    assert messages(caplog) == ["no workers yet; waiting for the first"]
    assert len(fake.asked_processes()) == 2


def test_tasks_of_lost_workers_are_repeated_and_a_lost_scheduler_ends_the_run(fake, plan, cluster, caplog):
    """All workers leave at once; dask by itself would not repeat tasks that no present worker can run."""
    steps = iter([list(cluster.workers.values())])

    def advance(count):
        for worker in next(steps, []) if count else []:
            cluster.sync(worker.close, executor_wait=False)
            cluster.scale(len(cluster.worker_spec) + 1)

    fake.act(pause=0.02)
    outcome = render(plan, fake.out, scheduler=cluster.scheduler_address, advance=advance)
    # Samples that the lost workers had finished count as found.
    assert (outcome.written + outcome.found, outcome.failed) == (32, {})
    assert complete_indices(fake.out, "cubes").tolist() == list(range(32))
    assert sum("is lost; its tasks are repeated" in message for message in messages(caplog)) == 2

    other = fake.out.with_name("other")
    with refused(r"^scheduler .*: the connection is lost; finished samples are whole, run.*$"):
        render(
            plan, other, scheduler=cluster.scheduler_address, advance=lambda count: count and cluster.close()
        )
    outcome = render(plan, other, workers=2)
    assert outcome.found >= 1
    assert outcome.found + outcome.written == 32


def test_an_interrupted_run_stops_its_processes_on_the_workers(tmp_path, monkeypatch):
    from distributed import LocalCluster

    def advance(count):
        if count:
            assert render_processes()
            raise KeyboardInterrupt

    def render_processes():
        children = psutil.Process().children(recursive=True)
        return [one for one in children if "candlelight.generators.engine.dead_leaves" in one.cmdline()]

    monkeypatch.setattr(retry_limits, "LARGEST_SLICE", 1)  # so that the first sample is told at once
    plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=40)
    options = {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "localhost:0"}}
    with LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster:
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


def test_only_late_timeouts_of_asyncio_are_silenced(caplog):
    def drop(error):
        """Drop a failed future whose result is never read."""

        async def fail():
            asyncio.get_running_loop().create_future().set_exception(error)

        asyncio.run(fail())

    with caplog.at_level(logging.ERROR, "asyncio"):
        with without_late_timeouts():
            drop(TimeoutError("Timeout"))
            assert not caplog.records
            drop(ValueError("another"))
            assert len(caplog.records) == 1
        drop(TimeoutError("Timeout"))
        assert len(caplog.records) == 2
