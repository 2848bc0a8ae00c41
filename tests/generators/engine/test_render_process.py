"""Render processes, seen from their owner; a script that renders nothing stands in for the process."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest

import candlelight.generators.engine.render_process
import candlelight.generators.engine.retry_limits
from candlelight.generators.engine.render_process import GroupStatus, RenderProcess, RunSettings
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.frames import frame_path, read_metadata

psutil = pytest.importorskip("psutil")

# The index of a group's first sample decides what the script does; it counts its starts in the folder.
SCRIPT = """#!{python}
import json, os, signal, sys, time
replies = os.fdopen(int(sys.argv[-1]), "w")
settings = json.loads(sys.stdin.readline())
root = settings["root"]
with open(root + "/starts", "a") as starts:
    print(os.getpid(), settings["threads"], file=starts)
if os.path.exists(root + "/broken"):
    print("chatter")
    sys.exit("ImportError: libGL.so.1 is missing")
print(json.dumps({{"ready": True}}), file=replies, flush=True)
for line in sys.stdin:
    group = json.loads(line)
    case = group[0]["index"]
    print("tracing", group[0]["id"], flush=True)
    if case == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if case == 2:
        time.sleep(60)
    if case == 4:
        print("Blender quit", file=replies, flush=True)
    if case == 5:
        replies.close()
        time.sleep(60)
    if case == 3:
        reply = {{"error": "no such colour", "fatal": False}}
    else:
        reply = {{"written": [sample["id"] for sample in group]}}
    text = json.dumps({{**reply, "cpu_seconds": 0.5}})
    replies.write(text[:7]); replies.flush()  # a reply may come in pieces
    time.sleep(0.01)
    print(text[7:], file=replies, flush=True)
"""


@pytest.fixture
def start(tmp_path, tiny, monkeypatch):
    script = tmp_path / "process"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setattr(
        candlelight.generators.engine.render_process, "sys", SimpleNamespace(executable=str(script))
    )
    processes = []

    def make(**settings):
        processes.append(RenderProcess(RunSettings(tmp_path, load_recipe(tiny), **settings)))
        return processes[-1]

    yield make
    for process in processes:
        process.close()


@pytest.fixture
def groups(tiny):
    return [(sample,) for sample in make_plan(load_recipe(tiny)).samples]


def starts(folder):
    return (folder / "starts").read_text().splitlines()


def test_one_process_renders_several_groups(start, groups, tmp_path):
    process = start(threads=3)
    for _ in range(3):
        result = process.render(groups[0])
        assert (result.written, result.cpu_seconds, result.error) == (("cubes-000000",), 0.5, "")
    (only,) = starts(tmp_path)
    assert only.split()[1] == "3"


def test_a_process_that_crashes_is_reported_and_replaced(start, groups, tmp_path):
    process = start()
    result = process.render(groups[1])
    assert (result.status, result.written) == (GroupStatus.CRASHED, ())
    assert result.error == "the render process ended with signal 9"
    assert "tracing cubes-000001" in result.log
    assert process.render(groups[0]).written == ("cubes-000000",)
    assert len(starts(tmp_path)) == 2


def test_a_process_that_hangs_is_killed(start, groups, tmp_path):
    process = start(time_limit=0.3)
    result = process.render(groups[2])
    assert result.status is GroupStatus.CRASHED
    assert result.error == "no answer within 0.3 s; the render process was stopped"
    assert not psutil.pid_exists(int(starts(tmp_path)[0].split()[0]))


def test_an_error_of_the_renderer_does_not_end_the_process(start, groups, tmp_path):
    process = start()
    result = process.render(groups[3])
    assert (result.status, result.error) == (GroupStatus.FAILED, "no such colour")
    assert process.render(groups[0]).error == ""
    assert len(starts(tmp_path)) == 1


def test_a_process_that_does_not_start_is_fatal(start, groups, tmp_path):
    # No other group would succeed: one message, instead of three tries for each of thousands of groups.
    (tmp_path / "broken").touch()
    result = start().render(groups[0])
    assert result.status is GroupStatus.FATAL
    assert result.error == "the render process ended with status 1 (ImportError: libGL.so.1 is missing)"


def test_processes_are_replaced_after_their_lifetime(start, groups, tmp_path):
    process = start(lifetime=2)
    for _ in range(5):
        assert process.render(groups[0]).error == ""
    assert len(starts(tmp_path)) == 3


def test_a_process_killed_from_outside_between_groups(start, groups, tmp_path):
    process = start()
    process.render(groups[0])
    victim = psutil.Process(int(starts(tmp_path)[0].split()[0]))
    victim.kill()
    assert process.render(groups[0]).status is GroupStatus.CRASHED
    assert process.render(groups[0]).error == ""
    assert not victim.is_running()


def numbered(group, index):
    return (group[0].model_copy(update={"index": index}),)


def test_an_invalid_answer_counts_as_a_crash(start, groups):
    result = start().render(numbered(groups[0], 4))
    assert result.status is GroupStatus.CRASHED
    assert result.error == "the render process answered b'Blender quit', which is no result"


def test_a_process_that_closes_its_replies_is_stopped(start, groups, tmp_path, monkeypatch):
    monkeypatch.setattr(candlelight.generators.engine.retry_limits, "END_LIMIT", 0.2)
    result = start().render(numbered(groups[0], 5))
    assert result.status is GroupStatus.CRASHED
    assert result.error == "the render process stopped answering, and was stopped"
    assert not psutil.pid_exists(int(starts(tmp_path)[0].split()[0]))


def test_a_process_that_no_longer_reads_is_stopped_in_time(start, groups, tmp_path):
    process, results = start(time_limit=0.5), []
    process.render(groups[0])
    psutil.Process(int(starts(tmp_path)[0].split()[0])).suspend()
    many = groups[0] * 1000  # more than a pipe holds
    thread = threading.Thread(target=lambda: results.append(process.render(many)), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert [(result.status, result.error) for result in results] == [
        (GroupStatus.CRASHED, "the render process ended with signal 9")
    ]


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


def test_close_ends_the_process_and_may_be_repeated(start, groups, tmp_path):
    process = start()
    process.render(groups[0])
    process.close()
    process.close()
    assert not psutil.pid_exists(int(starts(tmp_path)[0].split()[0]))
    assert process.render(groups[0]).error == ""


def test_a_retired_process_stops_at_once_and_for_good(start, groups, tmp_path):
    # An interrupted run retires its processes while threads of workers still wait for them.
    process, results = start(), []
    thread = threading.Thread(target=lambda: results.append(process.render(groups[2])), daemon=True)
    thread.start()
    while not (tmp_path / "starts").exists():
        time.sleep(0.01)
    time.sleep(0.2)
    process.retire()
    thread.join(10)
    assert not thread.is_alive()
    assert results[0].status is GroupStatus.CRASHED
    again = process.render(groups[0])
    assert (again.status, again.error, again.written) == (GroupStatus.FATAL, "the run was stopped", ())
    assert len(starts(tmp_path)) == 1


# -------------------------------------------------------------------------------- several groups at a time


def written_or_error(results):
    return [result.written or result.error for _, result in results]


def test_several_groups_are_answered_in_turn(start, groups, tmp_path):
    results = list(start().render_all([groups[0], groups[3], groups[0]]))
    assert written_or_error(results) == [("cubes-000000",), "no such colour", ("cubes-000000",)]
    assert len(starts(tmp_path)) == 1


def test_only_a_group_that_crashes_processes_is_given_up(start, groups, tmp_path):
    results = start().render_all([groups[0], groups[1], groups[3], groups[0], groups[1]])
    assert written_or_error(results) == [
        ("cubes-000000",),
        "the render process ended with signal 9",
        "no such colour",
        ("cubes-000000",),
        "the render process ended with signal 9",
    ]
    # Three over the second group, of which the first had another group as well, and three over the last.
    assert len(starts(tmp_path)) == 3 + 3


def test_one_group_costs_no_more_than_three_processes(start, groups, tmp_path):
    ((_, result),) = start().render_all([groups[1]])
    assert result.status is GroupStatus.CRASHED
    assert len(starts(tmp_path)) == 3


def test_after_a_fatal_error_no_other_group_is_tried(start, groups, tmp_path):
    (tmp_path / "broken").touch()
    ((_, result),) = start().render_all([groups[0]] * 5)
    assert result.status is GroupStatus.FATAL
    assert len(starts(tmp_path)) == 1


@pytest.mark.blender
def test_a_broken_asset_does_not_end_the_process_or_change_the_next_frame(tiny, tmp_path):
    """A trace after a trace that failed halfway gives the same bytes as a trace in a fresh process."""
    (tmp_path / "materials").mkdir()
    (tmp_path / "materials" / "bad.blend").write_bytes(b"no Blender file")
    size = ["image={width: 24, height: 18}", "render={samples: 4}"]
    changes = ["sets.cubes.factors.color.values=[bad, red]", *size]
    recipe = load_recipe(tiny, changes, assets={"materials": tmp_path / "materials"})
    bad, good = make_plan(recipe).samples[:2]
    hashes = []
    for order in ([bad, good], [good, bad]):
        root = tmp_path / order[0].id
        root.mkdir()
        process = RenderProcess(RunSettings(root, recipe))
        made = process.render_all([[one] for one in order])
        results = {one.id: result for (one,), result in made}
        process.close()
        assert "cannot be read as a .blend file" in results[bad.id].error
        assert results[bad.id].status is GroupStatus.FAILED
        hashes.append(read_metadata(frame_path(root, good.set, good.index)).layers)
    assert hashes[0] == hashes[1]
