"""The owner's end of a render child, against a child that speaks the protocol and renders nothing."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest

import generators.engine.limits
import generators.engine.render_process
from generators.engine.render_process import RenderProcess, RunSettings
from generators.engine.worker import _answers
from generators.language.load_recipe import load_recipe
from generators.planning.plan import make_plan
from loaders.frames import frame_path, read_metadata

psutil = pytest.importorskip("psutil")

# What the n-th sample of the set makes this child do; it counts its starts in the job's folder.
SCRIPT = """#!{python}
import json, os, signal, sys, time
replies = os.fdopen(int(sys.argv[-1]), "w")
job = json.loads(sys.stdin.readline())
root = job["root"]
with open(root + "/starts", "a") as starts:
    print(os.getpid(), job["threads"], file=starts)
if os.path.exists(root + "/broken"):
    print("chatter")
    sys.exit("ImportError: libGL.so.1 is missing")
print(json.dumps({{"ready": True}}), file=replies, flush=True)
for line in sys.stdin:
  for group in json.loads(line):
    what = group[0]["index"]
    print("tracing", group[0]["id"], flush=True)
    if what == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == 2:
        time.sleep(60)
    if what == 4:
        print("Blender quit", file=replies, flush=True)
    if what == 5:
        replies.close()
        time.sleep(60)
    if what == 3:
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
    script = tmp_path / "child"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setattr(generators.engine.render_process, "sys", SimpleNamespace(executable=str(script)))
    children = []

    def make(**job):
        children.append(RenderProcess(RunSettings(tmp_path, load_recipe(tiny), **job)))
        return children[-1]

    yield make
    for child in children:
        child.close()


@pytest.fixture
def groups(tiny):
    return [(sample,) for sample in make_plan(load_recipe(tiny)).samples]


def starts(folder):
    return (folder / "starts").read_text().splitlines()


def test_renders_group_after_group_with_one_child(start, groups, tmp_path):
    child = start(threads=3)
    for _ in range(3):
        receipt = child.render(groups[0])
        assert (receipt.written, receipt.cpu_seconds, receipt.error) == (("cubes-000000",), 0.5, "")
    (only,) = starts(tmp_path)
    assert only.split()[1] == "3"


def test_a_child_that_dies_is_told_and_replaced(start, groups, tmp_path):
    child = start()
    receipt = child.render(groups[1])
    assert (receipt.died, receipt.fatal, receipt.written) == (True, False, ())
    assert receipt.error == "the render child ended with signal 9"
    assert "tracing cubes-000001" in receipt.log
    assert child.render(groups[0]).written == ("cubes-000000",)
    assert len(starts(tmp_path)) == 2


def test_a_child_that_hangs_is_killed(start, groups, tmp_path):
    child = start(time_limit=0.3)
    receipt = child.render(groups[2])
    assert receipt.died
    assert receipt.error == "no answer within 0.3 s; the render child was stopped"
    assert not psutil.pid_exists(int(starts(tmp_path)[0].split()[0]))


def test_an_error_in_the_child_costs_no_child(start, groups, tmp_path):
    child = start()
    receipt = child.render(groups[3])
    assert (receipt.error, receipt.died, receipt.fatal) == ("no such colour", False, False)
    assert child.render(groups[0]).error == ""
    assert len(starts(tmp_path)) == 1


def test_a_child_that_does_not_start_is_fatal(start, groups, tmp_path):
    # Nothing else would fare better: one message, instead of three tries for each of thousands of groups.
    (tmp_path / "broken").touch()
    receipt = start().render(groups[0])
    assert (receipt.died, receipt.fatal) == (True, True)
    assert receipt.error == "the render child ended with status 1"
    assert receipt.log.endswith("ImportError: libGL.so.1 is missing\n")


def test_children_are_replaced_after_their_lifetime(start, groups, tmp_path):
    child = start(lifetime=2)
    for _ in range(5):
        assert child.render(groups[0]).error == ""
    assert len(starts(tmp_path)) == 3


def test_a_child_killed_from_outside_between_groups(start, groups, tmp_path):
    child = start()
    child.render(groups[0])
    victim = psutil.Process(int(starts(tmp_path)[0].split()[0]))
    victim.kill()
    assert child.render(groups[0]).died
    assert child.render(groups[0]).error == ""
    assert not victim.is_running()


def numbered(group, index):
    return (group[0].model_copy(update={"index": index}),)


def test_an_answer_that_is_none_costs_the_child(start, groups):
    receipt = start().render(numbered(groups[0], 4))
    assert receipt.died
    assert receipt.error == "the render child answered b'Blender quit', which is no receipt"


def test_a_child_that_closes_its_replies_and_stays_is_stopped(start, groups, tmp_path, monkeypatch):
    monkeypatch.setattr(generators.engine.limits, "END_LIMIT", 0.2)
    receipt = start().render(numbered(groups[0], 5))
    assert receipt.died
    assert receipt.error == "the render child stopped answering, and was stopped"
    assert not psutil.pid_exists(int(starts(tmp_path)[0].split()[0]))


def test_a_child_that_no_longer_reads_is_stopped_in_time(start, groups, tmp_path):
    child, receipts = start(time_limit=0.5), []
    child.render(groups[0])
    psutil.Process(int(starts(tmp_path)[0].split()[0])).suspend()
    many = [groups[0]] * 1000  # more than a pipe holds
    thread = threading.Thread(target=lambda: receipts.extend(child.render_all(many)), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert [receipt.died for receipt in receipts] == [True]


def test_no_process_to_be_had_is_fatal(start, groups, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(generators.engine.render_process.subprocess, "Popen", fail)
    receipt = start().render(groups[0])
    assert receipt.fatal
    assert receipt.error == "no render child starts: [Errno 24] Too many open files"


def test_what_lies_in_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    """A folder of assets from somebody else may hold anything, a yaml.py too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yaml.py").write_text("open('taken', 'w').close()\nfrom nowhere import nothing\n")
    plan = make_plan(load_recipe("dead-leaves", ["image={width: 16, height: 16}"]), limit=1)
    child = RenderProcess(RunSettings(tmp_path, plan.recipe))
    receipt = child.render(plan.samples)
    child.close()
    assert (receipt.error, len(receipt.written)) == ("", 1)
    assert not (tmp_path / "taken").exists()


def test_close_ends_the_child_and_may_be_repeated(start, groups, tmp_path):
    child = start()
    child.render(groups[0])
    child.close()
    child.close()
    assert not psutil.pid_exists(int(starts(tmp_path)[0].split()[0]))
    assert child.render(groups[0]).error == ""


def test_a_retired_child_stops_at_once_and_for_good(start, groups, tmp_path):
    # A run that is interrupted retires its children while the workers' threads still wait for them.
    child, receipts = start(), []
    thread = threading.Thread(target=lambda: receipts.append(child.render(groups[2])), daemon=True)
    thread.start()
    while not (tmp_path / "starts").exists():
        time.sleep(0.01)
    time.sleep(0.2)
    child.retire()
    thread.join(10)
    assert not thread.is_alive()
    assert receipts[0].died
    again = child.render(groups[0])
    assert (again.error, again.died, again.written) == ("the run was stopped", False, ())
    assert len(starts(tmp_path)) == 1


# -------------------------------------------------------------------------------- several groups at a time


def outcomes(receipts):
    return [receipt.written or receipt.error for receipt in receipts]


def test_several_groups_are_answered_in_turn(start, groups, tmp_path):
    receipts = list(start().render_all([groups[0], groups[3], groups[0]]))
    assert outcomes(receipts) == [("cubes-000000",), "no such colour", ("cubes-000000",)]
    assert sum(receipt.seconds for receipt in receipts) >= 0.02
    assert len(starts(tmp_path)) == 1


def test_what_was_written_before_a_death_is_kept(start, groups, tmp_path):
    child = start()
    receipts = list(child.render_all([groups[0], groups[1], groups[0]]))
    assert outcomes(receipts) == [("cubes-000000",), "the render child ended with signal 9"]
    assert [receipt.died for receipt in receipts] == [False, True]


def test_only_the_group_that_kills_children_is_given_up(start, groups, tmp_path):
    receipts = _answers(start(), [groups[0], groups[1], groups[3], groups[0], groups[1]])
    assert outcomes(receipts) == [
        ("cubes-000000",),
        "the render child ended with signal 9",
        "no such colour",
        ("cubes-000000",),
        "the render child ended with signal 9",
    ]
    # Three children each by itself, besides the one that was lost over several groups; the last was alone.
    assert len(starts(tmp_path)) == 1 + 3 + 1 + 3


def test_one_group_costs_three_children_and_no_more(start, groups, tmp_path):
    (receipt,) = _answers(start(), [groups[1]])
    assert receipt.died
    assert len(starts(tmp_path)) == 3


def test_what_is_fatal_spares_the_groups_after_it(start, groups, tmp_path):
    (tmp_path / "broken").touch()
    receipts = _answers(start(), [groups[0]] * 5)
    assert [receipt.fatal for receipt in receipts] == [True] * 5
    assert len(starts(tmp_path)) == 1


def test_a_successor_is_started_before_it_is_needed(start, groups, tmp_path):
    child = start(lifetime=3)
    child.render(groups[0])
    list(child.render_all([groups[0]] * 2))
    while len(starts(tmp_path)) < 2:
        time.sleep(0.01)
    assert child.render(groups[0]).written
    assert len(starts(tmp_path)) == 2


@pytest.mark.blender
def test_what_cannot_be_shown_costs_no_child_and_leaves_nothing_behind(tiny, tmp_path):
    """The trace that fails halfway through is followed by one that is as if nothing had been before it."""
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
        child = RenderProcess(RunSettings(root, recipe))
        made = child.render_all([[one] for one in order])
        receipts = dict(zip((one.id for one in order), made, strict=True))
        child.close()
        assert "cannot be read as a .blend file" in receipts[bad.id].error
        assert not receipts[bad.id].died
        hashes.append(read_metadata(frame_path(root, good.set, good.index)).layers)
    assert hashes[0] == hashes[1]
