"""Rendering a plan into a folder; `fake` stands in for the render process."""

import errno
import fcntl
import gc
import os
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import candlelight.generators.engine.devices
import candlelight.generators.engine.render_plan
import candlelight.generators.engine.render_process
from candlelight.generators.engine.devices import Device
from candlelight.generators.engine.output_locks import GroupLocks, hold_folder
from candlelight.generators.engine.render_plan import default_workers, render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.frames import complete_indices, read_dataset_info
from tests.refusals import refused

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")


@pytest.fixture
def plan(tiny):
    # Two sizes, two colours and three draws make 12 traces.
    return make_plan(load_recipe(tiny, ["sets.cubes.draws=3"]))


@pytest.fixture
def grouped(plan):
    """The same samples, three to a trace."""
    samples = (s.model_copy(update={"group": f"g{i // 3}"}) for i, s in enumerate(plan.samples))
    return replace(plan, samples=compress_samples(samples))


def test_every_group_is_rendered_once_without_a_port_open_to_other_machines(fake, grouped):
    done, heard = [], set()

    def advance(count):
        done.append(count)
        connections = psutil.Process().net_connections("inet")
        heard.update(c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN)

    outcome = render(grouped, fake.out, workers=2, advance=advance)
    assert (outcome.found, outcome.written, outcome.failed, outcome.cpu_seconds) == (0, 12, {}, 1.0)
    assert done == [0, 3, 3, 3, 3]
    assert sorted(fake.asked()) == sorted([s.id for s in group] for group in grouped.groups.values())
    assert heard <= {"127.0.0.1", "::1"}


def test_complete_samples_are_not_rendered_again(fake, grouped):
    render(condition(grouped, size=1), fake.out, workers=1)
    fake.forget()
    outcome = render(grouped, fake.out, workers=1)
    assert (outcome.found, outcome.written) == (6, 6)
    assert sum(map(len, fake.asked())) == 6
    fake.forget()
    outcome = render(grouped, fake.out, workers=2)
    assert (outcome.found, outcome.written) == (12, 0)
    assert fake.starts() == []


def test_all_shards_together_make_the_data_set(fake, grouped):
    written = [render(grouped, fake.out, workers=1, shard=(i, 3)).written for i in (1, 2, 3)]
    assert sum(written) == 12
    assert complete_indices(fake.out, "cubes").tolist() == list(range(12))
    assert read_dataset_info(fake.out).sets["cubes"].count == 12


def test_a_group_that_crashes_the_process_fails_and_the_run_goes_on(fake, grouped):
    fake.act(_4="crash")
    outcome = render(grouped, fake.out, workers=1)
    reason = "the render process ended with signal 9"
    assert outcome.failed == {"cubes-000004": reason, "cubes-000005": reason}
    # The sample of its group that was written before the crash is whole, and counted.
    assert outcome.written == 10
    assert complete_indices(fake.out, "cubes").tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert sum("cubes-000004" in names for names in fake.asked()) == 3
    log = (fake.out / "failed" / "cubes-000004.log").read_text()
    assert log.startswith(f"{reason}\n")
    assert "tracing cubes-000003" in log
    # Without the cause, another run renders the rest and removes the logs.
    fake.act()
    outcome = render(grouped, fake.out, workers=1)
    assert (outcome.found, outcome.written, outcome.failed) == (10, 2, {})
    assert list((fake.out / "failed").iterdir()) == []


def test_a_group_that_takes_too_long_is_stopped(fake, plan):
    fake.act(**{f"_{index}": "hang" for index in range(12)})  # after its sample is written
    outcome = render(plan.limit(1), fake.out, workers=1, time_limit=0.3)
    assert (outcome.written, outcome.failed, len(fake.starts())) == (1, {}, 3)


def test_a_full_disk_ends_the_run_with_one_line(fake, grouped):
    fake.act(_3="full")
    with refused(r"^.*No space left on device; finished samples are whole, run again.*$"):
        render(grouped, fake.out, workers=2)
    assert not (fake.out / "failed").exists()
    fake.act()
    assert render(grouped, fake.out, workers=2).failed == {}
    assert len(complete_indices(fake.out, "cubes")) == 12


def test_finished_samples_are_not_kept_in_memory(fake, tiny):
    plan = make_plan(load_recipe(tiny, ["sets.cubes.draws=20"]))

    def in_memory():
        # Not isinstance: it reads `__class__`, and objects of some packages then warn.
        return {id(one) for one in gc.get_objects() if type(one) is SamplePlan}

    before, done, held = in_memory(), 0, set()

    def look(count):
        nonlocal done, held
        done += count
        if done == len(plan):
            gc.collect()
            held = in_memory() - before

    render(plan, fake.out, workers=1, advance=look)
    assert done == len(plan) == 80
    assert len(held) < 40


def test_two_runs_at_once_share_the_groups(fake, plan):
    """No group is rendered twice, and both runs end when all samples are complete."""
    fake.act(pause=0.05)
    outcomes = []
    runs = [
        threading.Thread(target=lambda: outcomes.append(render(plan, fake.out, workers=1))) for _ in range(2)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert sorted(fake.asked()) == [[sample.id] for sample in plan.samples]
    assert [outcome.failed for outcome in outcomes] == [{}, {}]
    assert sum(outcome.written for outcome in outcomes) == len(plan)
    assert all(outcome.found + outcome.written == len(plan) for outcome in outcomes)


def test_a_run_waits_for_locked_groups_and_renders_them_when_they_are_free(fake, plan, caplog):
    fake.out.mkdir()
    locks, groups, outcomes = GroupLocks(fake.out), list(plan.groups), []
    assert locks.try_lock(groups[1])
    assert locks.try_lock(groups[2])
    run = threading.Thread(target=lambda: outcomes.append(render(plan, fake.out, workers=2)))
    run.start()
    while not caplog.records:
        time.sleep(0.01)
    time.sleep(0.3)  # in which it tries again
    assert len(complete_indices(fake.out, "cubes")) == 10
    locks.close()
    run.join(60)
    assert [(outcome.written, outcome.failed) for outcome in outcomes] == [(12, {})]
    messages = [record.getMessage() for record in caplog.records if record.name == "candlelight"]
    assert messages == ["waiting for another run, which has locked 2 trace groups"]


def test_rendering_works_on_a_file_system_without_locks(fake, plan, monkeypatch):
    def refuse(handle, how):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    render(plan.limit(1), fake.out, workers=1)
    (making := fake.out / ".partial" / f"cubes-000000-{'0' * 32}").mkdir(parents=True)
    assert render(plan, fake.out, workers=1).written == len(plan) - 1
    assert making.exists()


def test_a_second_run_does_not_remove_unfinished_files_of_the_first(fake, plan):
    making = fake.out / ".partial" / f"cubes-000000-{'0' * 32}"
    describing = fake.out / f".dataset.json.{'0' * 32}.partial"
    fake.out.mkdir()
    for file in (describing, fake.out / ".lock"):  # of a run that was killed before its folder was described
        file.touch()
    render(plan.limit(1), fake.out, workers=1)
    assert not describing.exists()
    with hold_folder(fake.out):
        making.mkdir(parents=True)
        render(plan.limit(2), fake.out, workers=1)
        assert making.exists()
    assert not (fake.out / ".partial").exists()
    making.mkdir(parents=True)
    describing.touch()
    render(plan.limit(2), fake.out, workers=1)
    assert sorted(path.name for path in fake.out.iterdir()) == [
        *(".group-locks", ".lock", "SHA256SUMS", "dataset.json", "plan.parquet", "samples")
    ]


def test_only_unfinished_files_of_runs_are_removed(fake, plan):
    """Other files stay, in a foreign folder, which is refused, as well as in a folder of frames."""
    foreign = fake.out.with_name("foreign")
    render(plan.limit(1), fake.out, workers=1)
    for folder in (fake.out, foreign):
        for name in (".partial/mine", ".damaged/samples/mine", ".mine.partial/mine"):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).touch()
    (foreign / f".mine.h5.{'0' * 32}.partial").touch()
    before = {*fake.out.rglob("*"), *foreign.rglob("*")}
    render(plan.limit(1), fake.out, workers=1)
    with refused("expected an empty folder or a folder of frames; name another"):
        render(plan, foreign, workers=1)
    assert before <= {*fake.out.rglob("*"), *foreign.rglob("*")}
    assert not (foreign / "dataset.json").exists()


# ------------------------------------------------------------------------------------- folders and options


@pytest.mark.parametrize(
    ("block", "out", "reason"),
    [
        (lambda folder: folder.write_text("a file"), ".", "cannot be written: .*; name another"),
        (lambda folder: folder.write_text("a file"), "below", "cannot be written"),
        (lambda folder: (folder / ".lock").mkdir(parents=True), ".", r".*\.lock"),
        (lambda folder: (folder / ".group-locks").mkdir(parents=True), ".", r".*\.group-locks"),
        (lambda folder: folder.mkdir(), "x" * 300, "cannot be written: File name too long; name another"),
        pytest.param(
            lambda folder: folder.mkdir(mode=0o500), ".", "cannot be written: Permission denied",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere"),
        ),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_written_is_named_in_one_line(fake, plan, block, out, reason):
    block(fake.out)
    with refused(rf"^output folder {fake.out}.*: {reason}.*$"):
        render(plan, fake.out / out, workers=1)


def test_contradicting_options_are_refused_before_the_folder_is_made(fake, plan, monkeypatch):
    devices = candlelight.generators.engine.devices
    monkeypatch.setattr(devices, "find_devices", lambda: [Device("CPU", "EPYC")])
    for options, message in (
        ({"cluster": "slurm"}, "`cluster` slurm: expected `workers`, and no `scheduler`"),
        ({"cluster": "slurm", "workers": 2, "scheduler": "tcp://127.0.0.1:9"}, "and no `scheduler`"),
        ({"device": "cuda"}, "`device` cuda: expected a GPU .* Blender found: CPU"),
        ({"device": "gpu"}, "`device`: expected one of auto, cpu"),
    ):
        with refused(message):
            render(plan, fake.out, **options)
    assert not fake.out.exists()


def test_render_processes_take_different_gpus(fake, plan, monkeypatch):
    """With two GPUs there are two workers, whose render processes get different numbers."""
    gpus = tuple(Device("OPTIX", "L4", str(number)) for number in range(2))
    monkeypatch.setattr(candlelight.generators.engine.render_plan, "usable_devices", lambda device: gpus)
    folder = fake.out.parent / "slots"
    monkeypatch.setattr(candlelight.generators.engine.devices, "_slots_folder", lambda: folder)
    seen = set()
    begin = candlelight.generators.engine.render_process._Process.begin

    def note(process, settings):
        seen.add((settings.device.device, settings.device.slot))
        begin(process, settings)

    monkeypatch.setattr(candlelight.generators.engine.render_process._Process, "begin", note)
    assert render(plan, fake.out).written == 12
    assert seen == {("optix", 0), ("optix", 1)}


def test_default_workers_need_a_processor_and_memory_each(monkeypatch):
    # A batch system or a container may grant less than the machine has.
    monkeypatch.setattr("dask.system.cpu_count", lambda: 8)
    for available, limit, expected in ((100e9, 100e9, 8), (4.6e9, 100e9, 3), (0.1e9, 1e9, 1), (9e9, 3e9, 2)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda a=available: SimpleNamespace(available=a))
        monkeypatch.setattr("distributed.system.memory_limit", lambda a=limit: a)
        assert default_workers() == expected


def test_missing_packages_are_named(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused(r"rendering needs distributed, bpy, OpenEXR, pyoidn, .*`candlelight doctor`"):
        render(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
