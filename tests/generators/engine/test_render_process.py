"""Render processes, seen from their owner; `fake` stands in for the process."""

import threading
import time

import pytest

import candlelight.generators.engine.render_process
from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.render_process import GroupStatus, RenderProcess, RunSettings
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.frames import frame_path, read_metadata

psutil = pytest.importorskip("psutil")
KILLED = "the render process ended with signal 9"


@pytest.fixture
def start(fake, tiny):
    processes = []

    def make(**settings):
        processes.append(RenderProcess(RunSettings(fake.out, load_recipe(tiny), **settings)))
        return processes[-1]

    yield make
    for process in processes:
        process.close()


@pytest.fixture
def groups(tiny):
    return [(sample,) for sample in make_plan(load_recipe(tiny)).samples]


def test_one_process_renders_several_groups(start, groups, fake):
    process = start(threads=3)
    for _ in range(3):
        result = process.render(groups[0])
        assert (result.written, result.cpu_seconds, result.error) == (("cubes-000000",), 0.25, "")
    [[_, threads]] = fake.starts()
    assert threads == 3


@pytest.mark.parametrize(
    ("act", "limit", "status", "error"),
    [
        ("crash", 60, GroupStatus.CRASHED, KILLED),
        ("hang", 0.3, GroupStatus.CRASHED, "no answer within 0.3 s; the render process was stopped"),
        (
            "chatter",
            60,
            GroupStatus.CRASHED,
            "the render process answered b'Blender quit', which is no result",
        ),
        ("close", 60, GroupStatus.CRASHED, "the render process stopped answering, and was stopped"),
        ("refuse", 60, GroupStatus.FAILED, "no such colour"),
    ],
)
def test_a_lost_process_is_reported_and_replaced(start, groups, fake, monkeypatch, act, limit, status, error):
    monkeypatch.setattr(retry_limits, "END_LIMIT", 0.2)
    fake.act(_1=act)
    process = start(time_limit=limit)
    result = process.render(groups[1])
    assert (result.status, result.error, result.written) == (status, error, ())
    assert "tracing cubes-000001" in result.log
    lost = status is GroupStatus.CRASHED
    assert psutil.pid_exists(fake.starts()[0][0]) == (not lost)
    process.settings = RunSettings(fake.out, process.settings.recipe)
    assert process.render(groups[0]).written == ("cubes-000000",)
    assert len(fake.starts()) == 1 + lost


def test_processes_are_replaced_after_their_lifetime(start, groups, fake):
    process = start(lifetime=2)
    for _ in range(5):
        assert process.render(groups[0]).error == ""
    assert len(fake.starts()) == 3


def test_a_process_killed_from_outside_between_groups(start, groups, fake):
    process = start()
    process.render(groups[0])
    victim = psutil.Process(fake.starts()[0][0])
    victim.kill()
    assert process.render(groups[0]).status is GroupStatus.CRASHED
    assert process.render(groups[0]).error == ""
    assert not victim.is_running()


def test_a_process_that_no_longer_reads_is_stopped_in_time(start, groups, fake):
    process, results = start(time_limit=0.5), []
    process.render(groups[0])
    psutil.Process(fake.starts()[0][0]).suspend()
    many = groups[0] * 1000  # more than a pipe holds
    thread = threading.Thread(target=lambda: results.append(process.render(many)), daemon=True)
    thread.start()
    thread.join(20)
    assert [(result.status, result.error) for result in results] == [(GroupStatus.CRASHED, KILLED)]


def test_a_lack_of_file_handles_is_fatal(start, groups, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(candlelight.generators.engine.render_process.subprocess, "Popen", fail)
    result = start().render(groups[0])
    assert result.status is GroupStatus.FATAL
    assert result.error == "no render process starts: [Errno 24] Too many open files"


def test_modules_in_the_current_folder_are_not_imported(tmp_path, monkeypatch):
    """A folder of foreign assets may hold any file, for example a yaml.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yaml.py").write_text("open('taken', 'w').close()\nfrom nowhere import nothing\n")
    plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=1)
    process = RenderProcess(RunSettings(tmp_path, plan.recipe))
    result = process.render(plan.samples)
    process.close()
    assert (result.error, len(result.written)) == ("", 1)
    assert not (tmp_path / "taken").exists()


def test_close_ends_the_process_and_may_be_repeated(start, groups, fake):
    process = start()
    process.render(groups[0])
    process.close()
    process.close()
    assert not psutil.pid_exists(fake.starts()[0][0])
    assert process.render(groups[0]).error == ""


def test_a_retired_process_stops_at_once_and_for_good(start, groups, fake):
    # An interrupted run retires its processes while threads of workers still wait for them.
    fake.act(_2="hang")
    process, results = start(), []
    thread = threading.Thread(target=lambda: results.append(process.render(groups[2])), daemon=True)
    thread.start()
    while not fake.asked():
        time.sleep(0.01)
    process.retire()
    thread.join(10)
    assert [result.status for result in results] == [GroupStatus.CRASHED]
    again = process.render(groups[0])
    assert (again.status, again.error, again.written) == (GroupStatus.FATAL, "the run was stopped", ())
    assert len(fake.starts()) == 1


# -------------------------------------------------------------------------------- several groups at a time


def test_only_a_group_that_crashes_processes_is_given_up(start, groups, fake):
    fake.act(_1="crash", _3="refuse")
    results = start().render_all([groups[0], groups[1], groups[3], groups[0], groups[1]])
    assert [result.written or result.error for _, result in results] == [
        ("cubes-000000",), KILLED, "no such colour", ("cubes-000000",), KILLED,
    ]  # fmt: skip
    # Three over the second group, of which the first had another group as well, and three over the last.
    assert len(fake.starts()) == 3 + 3


def test_a_group_whose_process_was_killed_by_chance_is_rendered_by_another(start, groups, fake, monkeypatch):
    fake.act(_1="crash")
    run = start().render_all([groups[0], groups[1], groups[2]])
    assert next(run)[1].written == ("cubes-000000",)
    fake.act()
    assert [result.written for _, result in run] == [("cubes-000001",), ("cubes-000002",)]


def test_a_process_that_does_not_start_is_fatal_for_all_groups(start, groups, fake):
    # No other group would succeed: one message, instead of three tries for each of thousands of groups.
    fake.act(start="fail")
    ((_, result),) = start().render_all([groups[0]] * 5)
    assert result.status is GroupStatus.FATAL
    assert result.error == "the render process ended with status 1 (ImportError: libGL.so.1 is missing)"
    assert len(fake.starts()) == 1


@pytest.mark.blender
def test_a_broken_asset_does_not_end_the_process_or_change_the_next_frame(tiny, tmp_path):
    """A trace after a trace that failed halfway gives the same bytes as a trace in a fresh process."""
    (tmp_path / "materials").mkdir()
    (tmp_path / "materials" / "bad.blend").write_bytes(b"no Blender file")
    (tmp_path / "materials" / "cut.blend").write_bytes(b"BLENDER-v500 and then nothing")
    size = ["image={width: 24, height: 18}", "render={samples: 4}"]
    changes = ["sets.cubes.factors.color.values=[bad, cut, red]", "sets.cubes.factors.size.values=[1]", *size]
    recipe = load_recipe(tiny, changes, assets={"materials": tmp_path / "materials"})
    bad, cut, good = make_plan(recipe).samples
    hashes = []
    for order in ([bad, cut, good], [good]):
        root = tmp_path / order[0].id
        root.mkdir()
        process = RenderProcess(RunSettings(root, recipe))
        results = {one.id: result for (one,), result in process.render_all([[one] for one in order])}
        forged = process.render([good.model_copy(update={"group": "0" * 16})])
        process.close()
        assert forged.status is GroupStatus.FATAL
        assert f"assets of `{good.id}` differ from the plan of its trace group" in forged.error
        for broken in order[:-1]:
            assert "cannot be read as a .blend file" in results[broken.id].error
            assert results[broken.id].status is GroupStatus.FAILED
        hashes.append(read_metadata(frame_path(root, good.set, good.index)).layers)
    assert hashes[0] == hashes[1]
