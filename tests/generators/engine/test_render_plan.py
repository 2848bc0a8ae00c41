"""Rendering a plan; a script that writes metadata files stands in for the render process."""

import errno
import fcntl
import gc
import json
import os
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import candlelight.generators.engine.dataset_description
import candlelight.generators.engine.render_plan
import candlelight.generators.engine.render_process
from candlelight.generators.engine.dataset_description import dataset_info
from candlelight.generators.engine.output_locks import GroupLocks, hold_folder
from candlelight.generators.engine.render_plan import default_workers, render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import load_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import complete_indices, read_dataset_info
from candlelight.loaders.verification.checksums import NEXT_SUMS

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

# Files next to the output folder list the samples that crash (`poison`), stall (`slow`) or fail the process.
SCRIPT = """#!{python}
import json, os, pathlib, signal, sys, time
replies = os.fdopen(int(sys.argv[-1]), "w")
root = pathlib.Path(json.loads(sys.stdin.readline())["root"])
def has(name):
    path = root.parent / name
    return path.read_text().split() if path.exists() else []
def say(**reply):
    print(json.dumps(reply), file=replies, flush=True)
if has("broken"):
    sys.exit("ImportError: libGL.so.1 is missing")
say(ready=True)
for line in sys.stdin:
    group = json.loads(line)
    with open(root.parent / "asked", "a") as asked:
        print(*(sample["id"] for sample in group), file=asked)
    for sample in group:
        if sample["id"] in has("poison"):
            print("last words")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        folder = root / "samples" / sample["set"] / "0000" / ("%06d" % sample["index"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata.json").write_text("{{}}")
    time.sleep(float((has("pause") or ["0"])[0]))
    if group[0]["id"] in has("slow"):
        time.sleep(60)
    if group[0]["id"] in has("full"):
        say(error="[Errno 28] No space left on device", fatal=True, cpu_seconds=0)
    else:
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
    monkeypatch.setattr(candlelight.generators.engine.render_plan, "require_rendering", lambda recipe: None)
    yield tmp_path / "out"
    assert [one for one in psutil.Process().children(recursive=True) if str(script) in one.cmdline()] == []


@pytest.fixture
def plan(tiny):
    # Two sizes, two colours and three draws make 12 traces.
    return make_plan(load_recipe(tiny, ["sets.cubes.draws=3"]))


def grouped(plan):
    """The same samples, three to a trace."""
    return replace(
        plan, samples=compress_samples(replace_group(s, f"g{i // 3}") for i, s in enumerate(plan.samples))
    )


def replace_group(sample, name):
    return sample.model_copy(update={"group": name})


def asked(out):
    return (out.parent / "asked").read_text().splitlines()


@pytest.mark.parametrize("workers", [1, 2])
def test_renders_every_group_once(out, plan, workers):
    done = []
    outcome = render(grouped(plan), out, workers=workers, advance=done.append)
    assert (outcome.found, outcome.written, outcome.failed) == (0, 12, {})
    assert outcome.cpu_seconds == 1.0
    assert done == [0, 3, 3, 3, 3]
    assert sorted(asked(out)) == sorted(" ".join(s.id for s in g) for g in grouped(plan).groups.values())


def test_complete_samples_are_not_rendered_again(out, plan):
    render(condition(grouped(plan), size=1), out, workers=1)
    (out.parent / "asked").unlink()
    outcome = render(grouped(plan), out, workers=1)
    assert (outcome.found, outcome.written) == (6, 6)
    assert sum(len(line.split()) for line in asked(out)) == 6
    (out.parent / "asked").unlink()
    outcome = render(grouped(plan), out, workers=2)
    assert (outcome.found, outcome.written) == (12, 0)
    assert not (out.parent / "asked").exists()


def test_all_shards_together_make_the_data_set(out, plan):
    written = [render(grouped(plan), out, workers=1, shard=(i, 3)).written for i in (1, 2, 3)]
    assert sum(written) == 12
    assert complete_indices(out, "cubes").tolist() == list(range(12))
    assert read_dataset_info(out).sets["cubes"].count == 12


def test_a_group_that_crashes_the_process_fails_and_the_run_goes_on(out, plan):
    (out.parent / "poison").write_text("cubes-000004")
    outcome = render(grouped(plan), out, workers=1)
    assert outcome.failed == {
        name: "the render process ended with signal 9" for name in ("cubes-000004", "cubes-000005")
    }
    # The sample of its group that was written before the crash is whole, and counted.
    assert (outcome.written, complete_indices(out, "cubes").tolist()) == (
        10,
        [0, 1, 2, 3, 6, 7, 8, 9, 10, 11],
    )
    assert sum("cubes-000004" in line for line in asked(out)) == 3
    log = (out / "failed" / "cubes-000004.log").read_text()
    assert log.startswith("the render process ended with signal 9\n")
    assert "last words" in log
    # Without the cause, another run renders the rest and removes the logs.
    (out.parent / "poison").unlink()
    outcome = render(grouped(plan), out, workers=1)
    assert (outcome.found, outcome.written, outcome.failed) == (10, 2, {})
    assert list((out / "failed").iterdir()) == []


def test_a_group_that_takes_too_long_fails(out, plan):
    (out.parent / "slow").write_text("cubes-000000")
    outcome = render(plan.limit(3), out, workers=1, time_limit=0.4)
    assert outcome.failed == {} or set(outcome.failed.values()) == {
        "no answer within 0.4 s; the render process was stopped"
    }
    assert outcome.written == 3 - len(outcome.failed)


def test_a_full_disk_ends_the_run_with_one_line(out, plan):
    (out.parent / "full").write_text("cubes-000003")
    with pytest.raises(
        InputError, match=r"No space left on device; finished samples are whole, run again"
    ) as e:
        render(grouped(plan), out, workers=2)
    assert "\n" not in str(e.value)
    (out.parent / "full").unlink()
    assert render(grouped(plan), out, workers=2).failed == {}
    assert len(complete_indices(out, "cubes")) == 12


def test_a_process_that_does_not_start_ends_the_run_with_its_reason(out, plan):
    (out.parent / "broken").write_text("yes")
    with pytest.raises(
        InputError, match=r"ended with status 1 \(ImportError: libGL\.so\.1 is missing\)"
    ) as e:
        render(plan, out, workers=2)
    assert "\n" not in str(e.value)
    assert not (out / "failed").exists()


def test_finished_samples_are_not_kept_in_memory(out, tiny):
    """dask by default keeps its last thousand messages, which contain the samples of every task."""
    plan = make_plan(load_recipe(tiny, ["sets.cubes.draws=100"]))
    before = set(map(id, _samples_in_memory()))
    done, held = 0, []

    def look(count):
        nonlocal done
        done += count
        if done == len(plan):
            gc.collect()
            held.extend(one for one in _samples_in_memory() if id(one) not in before)

    render(plan, out, workers=1, advance=look)
    assert done == len(plan) == 400
    assert len(held) < 300  # of the last two tasks


def _samples_in_memory():
    # Not isinstance: it reads `__class__`, and objects of some packages then warn.
    return [one for one in gc.get_objects() if type(one) is SamplePlan]


def test_no_port_is_open_to_other_machines(out, plan):
    heard = set()

    def listen(count):
        del count
        connections = psutil.Process().net_connections("inet")
        heard.update(c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN)

    render(plan, out, workers=2, advance=listen)
    assert heard <= {"127.0.0.1", "::1"}


def test_two_runs_at_once_share_the_groups(out, plan):
    """No group is rendered twice, and both runs end when all samples are complete."""
    (out.parent / "pause").write_text("0.05")
    outcomes = []
    runs = [threading.Thread(target=lambda: outcomes.append(render(plan, out, workers=1))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert sorted(asked(out)) == sorted(sample.id for sample in plan.samples)
    assert [outcome.failed for outcome in outcomes] == [{}, {}]
    assert sum(outcome.written for outcome in outcomes) == len(plan)
    assert all(outcome.found + outcome.written == len(plan) for outcome in outcomes)


def test_the_end_of_a_run_does_not_disturb_another_run_of_its_process(out, plan):
    (out.parent / "pause").write_text("0.05")
    outcomes = []
    other = threading.Thread(target=lambda: outcomes.append(render(plan, out.parent / "other", workers=1)))
    other.start()
    while not (out.parent / "asked").exists():
        time.sleep(0.01)
    render(plan.limit(1), out, workers=1)
    other.join(60)
    assert [(outcome.written, outcome.failed) for outcome in outcomes] == [(len(plan), {})]


def test_rendering_works_on_a_file_system_without_locks(out, plan, monkeypatch):
    def refuse(handle, how):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    render(plan.limit(1), out, workers=1)
    (making := out / ".partial" / f"cubes-000000-{'0' * 32}").mkdir(parents=True)
    assert render(plan, out, workers=1).written == len(plan) - 1
    assert making.exists()


def test_a_run_waits_for_locked_groups_and_renders_them_when_they_are_free(out, plan, caplog):
    out.mkdir()
    locks = GroupLocks(out)
    groups = list(plan.groups)
    assert locks.try_lock(groups[1])
    assert locks.try_lock(groups[2])
    outcomes = []
    run = threading.Thread(target=lambda: outcomes.append(render(plan, out, workers=2)))
    run.start()
    while len(complete_indices(out, "cubes")) < 10:
        time.sleep(0.05)
    time.sleep(0.5)
    assert len(complete_indices(out, "cubes")) == 10
    locks.close()
    run.join(60)
    assert outcomes[0].failed == {}
    assert len(complete_indices(out, "cubes")) == 12
    messages = [record.getMessage() for record in caplog.records if record.name == "candlelight"]
    assert messages == ["waiting for another run, which has locked 2 trace groups"]


# ------------------------------------------------------------------------------------------ the folder


def test_the_folder_describes_the_samples_of_all_its_runs(out, plan):
    red, blue = condition(plan, color="red"), condition(plan, color="blue")
    render(red, out, workers=1)
    assert load_plan(out / "plan.parquet") == red
    render(blue, out, workers=1)
    assert load_plan(out / "plan.parquet") == plan
    assert read_dataset_info(out) == dataset_info(plan)
    before = {name: (out / name).read_bytes() for name in ("plan.parquet", "dataset.json")}
    render(plan.limit(1), out, workers=1)
    assert {name: (out / name).read_bytes() for name in before} == before


def test_the_next_run_completes_the_description_of_a_killed_run(out, plan):
    out.mkdir()
    (out / ".lock").touch()
    (out / f".dataset.json.{'0' * 32}.partial").write_text("{")
    render(plan, out, workers=1)
    assert sorted(path.name for path in out.iterdir()) == [
        *(".group-locks", ".lock", "SHA256SUMS", "dataset.json", "plan.parquet", "samples")
    ]
    # After a kill between the two files the plan is missing, and the checksums still have their first name.
    (out / "plan.parquet").unlink()
    (out / "SHA256SUMS").rename(out / NEXT_SUMS)
    (out / f".plan.parquet.{'0' * 32}.partial").write_text("PAR1")
    render(plan, out, workers=1)
    assert load_plan(out / "plan.parquet") == plan
    assert not list(out.glob(".*.partial"))


def test_another_recipe_is_refused(out, plan, tiny):
    render(plan.limit(1), out, workers=1)
    before = (out / "dataset.json").read_bytes()
    other = make_plan(load_recipe(tiny, ["seed=1"]))
    with pytest.raises(
        InputError, match=r"output folder .*out: holds frames of another recipe \(tiny, \w{12}\)"
    ) as e:
        render(other, out, workers=1)
    assert "\n" not in str(e.value)
    assert (out / "dataset.json").read_bytes() == before


def test_frames_of_another_blender_are_refused(out, plan, monkeypatch):
    monkeypatch.setattr(candlelight.generators.engine.dataset_description, "blender_version", lambda: "5.0.1")
    render(plan.limit(1), out, workers=1)
    assert read_dataset_info(out).blender == "5.0.1"
    monkeypatch.setattr(candlelight.generators.engine.dataset_description, "blender_version", lambda: "5.2.3")
    with pytest.raises(
        InputError, match=r"out: holds frames of Blender 5\.0\.1, and this is Blender 5\.2\.3; name another"
    ):
        render(plan, out, workers=1, repair=True)


def test_a_foreign_folder_is_refused_and_left_alone(out, plan):
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="expected an empty folder or a folder of frames; name another"):
        render(plan, out, workers=1)
    assert (out / "thesis.txt").read_text() == "mine"
    assert not (out / "dataset.json").exists()


def test_a_damaged_description_is_reported(out, plan):
    out.mkdir()
    (out / "dataset.json").write_text("{")
    (out / "plan.parquet").write_text("PAR1")
    with pytest.raises(InputError, match=r"dataset\.json"):
        render(plan, out, workers=1)


def test_a_file_in_place_of_the_folder(out, plan):
    out.write_text("a file")
    with pytest.raises(InputError, match=r"output folder .*out: cannot be written: .*; name another") as e:
        render(plan, out, workers=1)
    assert "\n" not in str(e.value)
    with pytest.raises(InputError, match="cannot be written"):
        render(plan, out / "below", workers=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(out, plan):
    out.mkdir()
    out.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written: Permission denied"):
        render(plan, out, workers=1)


def test_two_runs_share_a_folder(out, plan):
    """A second run in the same folder does not wait, and does not remove unfinished samples of the first."""
    render(plan.limit(1), out, workers=1)
    making = out / ".partial" / f"cubes-000000-{'0' * 32}"
    with hold_folder(out):
        making.mkdir(parents=True)
        render(plan.limit(2), out, workers=1)
        assert making.exists()
    assert not (out / ".partial").exists()
    making.mkdir(parents=True)
    render(plan, out, workers=1)
    assert not (out / ".partial").exists()


def test_only_unfinished_files_of_runs_are_removed(out, plan):
    """Other files stay, in a foreign folder, which is refused, as well as in a folder of frames."""
    foreign = out.with_name("foreign")
    render(plan.limit(1), out, workers=1)
    for folder in (out, foreign):
        for name in (".partial/mine", ".damaged/samples/mine", ".mine.partial/mine"):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).touch()
    (making := foreign / f".mine.h5.{'0' * 32}.partial").touch()
    before = {*out.rglob("*"), *foreign.rglob("*")}
    render(plan.limit(1), out, workers=1)
    with pytest.raises(InputError, match="expected an empty folder or a folder of frames"):
        render(plan, foreign, workers=1)
    assert making in before
    assert before <= {*out.rglob("*"), *foreign.rglob("*")}


# ------------------------------------------------------------------------------------- description


def test_dataset_info_counts_the_planned_samples(plan):
    info = dataset_info(condition(plan, color="red"))
    assert info.sets["cubes"].count == 6
    assert [factor.name for factor in info.sets["cubes"].factors] == ["size", "color", "azimuth"]
    assert info.sets["cubes"].layers == (
        "image",
        "radiance",
        "albedo",
        "shading",
        "residual",
        "depth",
        "normal",
        "object",
    )
    assert json.loads(info.to_json())["recipe"]["name"] == "tiny"


def test_sets_without_samples_are_not_described():
    factors = [
        *("sets.albedo.factors.material.count=1", "sets.illumination.factors.light_azimuth.values=[10]"),
        *(f"sets.{name}.factors.scene.values=[cube]" for name in ("albedo", "illumination")),
    ]
    plan = make_plan(load_recipe("concepts", factors))
    assert dataset_info(plan).sets.keys() == {"albedo", "illumination"}
    assert dataset_info(condition(plan, light_azimuth=-60)).sets.keys() == {"albedo"}


def test_default_workers_need_a_processor_and_memory_each(monkeypatch):
    # A batch system or a container may grant less than the machine has.
    monkeypatch.setattr("dask.system.cpu_count", lambda: 8)
    for available, limit, expected in ((100e9, 100e9, 8), (4.6e9, 100e9, 3), (0.1e9, 1e9, 1), (9e9, 3e9, 2)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda a=available: SimpleNamespace(available=a))
        monkeypatch.setattr("distributed.system.memory_limit", lambda a=limit: a)
        assert default_workers() == expected


def test_missing_packages_are_named(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"rendering needs distributed, bpy, OpenEXR, pyoidn, .*`candlelight doctor`"
    ):
        render(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
