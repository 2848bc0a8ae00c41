"""Estimates with a child that writes frames of a few bytes and says what they cost."""

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import generators.engine.render_plan
import generators.engine.render_process
import generators.reports.estimate
from candlelight import main
from generators.language.load_recipe import load_recipe
from generators.planning.plan import make_plan
from generators.reports.estimate import Cost, Estimate, SetCost, estimate, estimate_text
from loaders.errors import InputError

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

# The first group of a process takes 5 s, others 1 s, and 2 s where the surroundings are others.
SCRIPT = """#!{python}
import json, os, pathlib, sys
replies = os.fdopen(int(sys.argv[-1]), "w")
job = json.loads(sys.stdin.readline())
def say(**reply):
    print(json.dumps(reply), file=replies, flush=True)
if os.path.exists({broken!r}):
    sys.exit("ImportError: libGL.so.1 is missing")
say(ready=True)
last = None
for line in sys.stdin:
    for group in json.loads(line):
        place = (group[0]["trace"]["environment"] or {{}}).get("scene")
        cost = 5 if last is None else 1 if place == last[0] else 2
        last = (place,)
        if os.path.exists({poison!r}) and group[0]["index"] % 2:
            say(error="no such colour", fatal=False, cpu_seconds=cost)
            continue
        for sample in group:
            index = sample["index"]
            folder = pathlib.Path(job["root"]) / "samples" / sample["set"]
            folder = folder / ("%04d" % (index // 1000)) / ("%06d" % index)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "metadata.json").write_text("{{}}")
            (folder / "layers.npz").write_bytes(b"x" * 10000)
        say(written=[sample["id"] for sample in group], cpu_seconds=cost)
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Put the child of this file in place, and temporary files where they can be counted."""
    script, temporary = tmp_path / "child", tmp_path / "temporary"
    paths = {"poison": str(tmp_path / "poison"), "broken": str(tmp_path / "broken")}
    script.write_text(SCRIPT.format(python=sys.executable, **paths))
    script.chmod(0o755)
    temporary.mkdir()
    monkeypatch.setattr(generators.engine.render_process, "sys", SimpleNamespace(executable=str(script)))
    monkeypatch.setattr(generators.reports.estimate, "require_rendering", lambda recipe: None)
    monkeypatch.setattr(generators.reports.estimate, "default_workers", lambda: 1)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield tmp_path
    assert list(temporary.glob("*candlelight*")) == []
    assert [
        child for child in psutil.Process().children(recursive=True) if str(script) in child.cmdline()
    ] == []


@pytest.fixture
def plan(tiny):
    return make_plan(load_recipe(tiny, ["sets.cubes.draws=10"]))


def test_a_whole_plan_from_some_of_it(fake, plan):
    found = estimate(plan, seconds=0.5, planning=100.0)
    (cost,) = found.sets
    assert (found.samples, cost.groups) == (40, 40)
    assert 2 <= len(cost.timed) <= 40
    # Every trace but the first takes a second; the surplus of the first one is the start.
    assert (cost.mean[0], cost.deviation, found.start.cpu) == (1, 0, 4)
    assert 100 < found.planning < 110
    assert found.total(1).cpu == pytest.approx(found.planning + 40 + 4)
    assert found.total(3).cpu == pytest.approx(found.planning + 40 + 3 * 4)
    # A folder and two files, the larger of which fills some blocks.
    assert found.total(1).inodes == 40 * 3
    assert found.total(1).bytes >= 40 * 10000


def test_two_groups_of_every_set_are_timed_however_little_time_there_is(fake):
    told = []
    plan = make_plan(load_recipe("identifiable"), limit=20)
    found = estimate(plan, seconds=0, advance=told.append)
    assert [(one.name, one.groups, len(one.timed)) for one in found.sets] == [
        (name, 20, 2) for name in ("teapot", "shapes", "causal")
    ]
    assert told == sorted(told)


def test_environments_are_set_up_as_often_as_in_the_plan(fake):
    overrides = ["factors.scene.values=[garden, hall]", "factors.rotation.values=[0]"]
    plan = make_plan(load_recipe("candle", [f"sets.candle.{one}" for one in overrides]), limit=40)
    # 2 of 40 traces come after one in the other environment; a jump between the two costs as much as these.
    (cost,) = estimate(plan, seconds=1).sets
    assert set(cost.timed[:, 0]) <= {1, 2}
    assert 1 <= cost.mean[0] <= 1.25


def test_the_groups_timed_are_spread_over_a_set(fake, plan, monkeypatch):
    seen = []
    render = generators.engine.render_process.RenderChild.render
    monkeypatch.setattr(
        generators.engine.render_process.RenderChild,
        "render",
        lambda self, group: seen.append(group) or render(self, group),
    )
    found = estimate(plan, seconds=0.3)
    (timed,) = (len(one.timed) for one in found.sets)
    places = [list(plan.groups.values()).index(group) for group in seen[1:]]
    assert timed == len(places)
    quarters = [sum(10 * i <= place < 10 * i + 10 for place in places) for i in range(4)]
    assert max(quarters) - min(quarters) <= 2


def test_what_all_takes_follows_from_what_some_take():
    timed = np.array([Cost(2.0, 3.0, 1e6, 5.0), Cost(4.0, 5.0, 3e6, 5.0)])
    sets = (SetCost("a", 1000, timed), SetCost("b", 4000, timed[:1]))
    found = Estimate(10000, sets, Cost(5.0, 6.0), 7.0, 2, {}, 60.0)
    # Children are replaced after 2000 samples each: 5 of one worker, 2 each of four.
    assert found.total(1) == Cost(7 + 3000 + 8000 + 5 * 5, 7 + 4000 + 12000 + 5 * 6, 6e9, 25000)
    assert found.total(4).cpu == 7 + 11000 + 8 * 5
    assert found.total(4).seconds == 7 + (16000 + 8 * 6) / 4
    # Of `a` the standard error of the mean is 1; of `b`, where one was timed, it is taken to be all of it.
    assert found.uncertainty == pytest.approx(2 * np.hypot(1000, 8000))


def test_what_fails_is_named_and_counts_like_the_others(fake, plan):
    (fake / "poison").touch()
    found = estimate(plan, seconds=1)
    assert set(found.failed.values()) == {"no such colour"}
    assert found.sets[0].mean[0] == 1
    text = estimate_text(plan, found)
    assert f"{len(found.failed)} traces failed and count like the others, first cubes-" in text
    assert text.endswith(": no such colour")


def test_a_plan_of_which_nothing_renders_is_refused(fake, tiny):
    (fake / "poison").touch()
    plan = make_plan(load_recipe(tiny))
    odd = plan[next(sample.id for sample in plan.samples if sample.index % 2)]
    with pytest.raises(InputError, match=r"no trace of set `cubes` rendered, the first cubes-\d+: no such"):
        estimate(odd, seconds=0.1)


def test_children_that_do_not_start_end_it_with_their_reason(fake, plan):
    (fake / "broken").touch()
    with pytest.raises(InputError, match=r"ended with status 1.*ImportError: libGL") as e:
        estimate(plan, seconds=0.1)
    assert "\n" not in str(e.value)


def test_an_interruption_leaves_nothing(fake, plan):
    def interrupt(passed):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimate(plan, seconds=5, advance=interrupt)


def test_without_the_extra_it_says_what_to_install(plan, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"rendering needs .*bpy.*`candlelight doctor`"):
        estimate(plan, seconds=0.1)


# ------------------------------------------------------------------------------------ the command


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_planning_shows_how_far_it_is(fake, tiny, monkeypatch):
    shown = []

    @contextmanager
    def progress(total, *words):
        counted = []
        yield counted.append
        shown.append((total, *words, sum(counted)))

    monkeypatch.setattr("generators.commands.plan_commands.progress", progress)
    run("plan", tiny, "--estimate", "--seconds", 0.1)
    run("plan", tiny, "--estimate", "--seconds", 0.1, "--limit", 3)
    assert shown == [(4, "plan", "sample", 4), (None, "plan", "sample", 3)]


def test_the_command_prints_a_table(fake, tiny):
    result = run("plan", tiny, "--limit", 3, "--estimate", "--seconds", 0.1, "--workers", "1,64")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert text.startswith("tiny: 3 samples from 3 traces, planned and handed out in ")
    assert "  cubes: 3 traces of 1 CPU s (standard deviation 0) and 0.0" in text
    assert " GB on disk, 9 inodes\n" in text
    rows = [line.split()[0] for line in text.partition("workers  time")[2].splitlines()[1:3]]
    assert rows == ["1", "64"]
    assert "A worker is one render process" in text


def test_what_is_there_already_is_not_counted(fake, tiny):
    frames = fake / "frames"
    for index in range(3):
        folder = frames / "samples" / "cubes" / "0000" / f"{index:06d}"
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text("{}")
    result = run("plan", tiny, "--estimate", "--seconds", 0.1, "--frames", frames)
    assert "tiny: 1 samples from 1 traces" in result.stdout
    (frames / "samples" / "cubes" / "0000" / "000003").mkdir()
    (frames / "samples" / "cubes" / "0000" / "000003" / "metadata.json").write_text("{}")
    result = run("plan", tiny, "--estimate", "--frames", frames)
    assert result.stdout.endswith("nothing is left to render\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--estimate", "--workers", "4,none"], "expected numbers from 1 on as in 1,8,64, got 4,none"),
        (["--estimate", "--workers", "0"], "expected numbers from 1 on as in 1,8,64, got 0"),
        (["--workers", "4", "--report"], "--workers and --frames: expected --estimate beside them"),
        ([], "expected --out FILE.parquet, --report, --estimate, or several of them"),
        (["--estimate", "--seconds", "0"], "0"),
    ],
)
def test_bad_use_is_told_in_one_line(tiny, words, message):
    result = run("plan", tiny, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="render children need a POSIX system")
def test_dead_leaves_are_painted_for_it():
    size = "image={width: 16, height: 16}"
    result = run("plan", "dead-leaves", "--limit", 6, "--set", size, "--estimate", "--seconds", 1)
    assert result.exit_code == 0, result.output
    assert "dead-leaves: 6 samples from 6 traces" in result.stdout


@pytest.mark.blender
def test_a_tiny_recipe_is_rendered_for_it(tiny):
    plan = make_plan(load_recipe(tiny, ["image={width: 48, height: 36}", "render.samples=8"]), limit=4)
    found = estimate(plan, seconds=1)
    assert found.failed == {}
    assert found.start.cpu > 0.5  # importing Blender alone takes that long
    assert 0.01 < found.total(1).cpu < 100
    assert found.total(1).inodes >= 4 * 4  # a folder, image, layers and metadata each
    assert not list(Path(tempfile.gettempdir()).glob("candlelight-staging-*/samples/cubes"))
