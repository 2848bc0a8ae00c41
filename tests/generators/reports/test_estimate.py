"""Estimates with a fake render process, which writes small files and reports a fixed cost."""

import os
import re
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import candlelight.generators.reports.estimate as estimates
from candlelight.cli import main
from candlelight.generators.engine import render_process
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.reports.estimate import Cost, Estimate, SetCost, estimate, estimate_text
from tests.refusals import refused

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

# The first group of a process costs 5 s, other groups 1 s, or 2 s if the environment changes.
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
    group = json.loads(line)
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
    """Replace the render process by the script above, and put temporary files into a folder of the test."""
    script, temporary = tmp_path / "child", tmp_path / "temporary"
    paths = {"poison": str(tmp_path / "poison"), "broken": str(tmp_path / "broken")}
    script.write_text(SCRIPT.format(python=sys.executable, **paths))
    script.chmod(0o755)
    temporary.mkdir()
    monkeypatch.setattr(render_process, "sys", SimpleNamespace(executable=str(script)))
    monkeypatch.setattr(estimates, "require_rendering", lambda recipe: None)
    monkeypatch.setattr(estimates, "default_workers", lambda: 1)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield tmp_path
    assert list(temporary.glob("*candlelight*")) == []
    assert [
        child for child in psutil.Process().children(recursive=True) if str(script) in child.cmdline()
    ] == []


@pytest.fixture
def plan(tiny):
    return make_plan(load_recipe(tiny, ["sets.cubes.draws=10"]))


def test_the_cost_of_a_plan_follows_from_some_of_its_groups(fake, plan):
    found = estimate(plan, seconds=0.5, planning=100.0)
    (cost,) = found.sets
    assert (found.samples, cost.groups) == (40, 40)
    assert 2 <= len(cost.timed) <= 40
    # Every trace but the first takes 1 s; the rest of the first is the cost of starting.
    assert (cost.mean[0], cost.deviation, found.start.cpu) == (1, 0, 4)
    assert 100 < found.planning < 110
    assert found.total(1).cpu == pytest.approx(found.planning + 40 + 4)
    assert found.total(3).cpu == pytest.approx(found.planning + 40 + 3 * 4)
    # A frame is a folder and two files.
    assert found.total(1).inodes == 40 * 3
    assert found.total(1).bytes >= 40 * 10000


def test_at_least_two_groups_of_every_set_are_timed(fake):
    told = []
    plan = make_plan(load_recipe("identifiable"), limit=20)
    found = estimate(plan, seconds=0, advance=told.append)
    assert [(one.name, one.groups, len(one.timed)) for one in found.sets] == [
        (name, 20, 2) for name in ("teapot", "shapes", "causal")
    ]
    assert told == sorted(told)


def test_environments_change_as_often_as_in_the_plan(fake):
    overrides = ["factors.scene.values=[garden, hall]", "factors.rotation.values=[0]"]
    plan = make_plan(load_recipe("candle", [f"sets.candle.{one}" for one in overrides]), limit=40)
    # In the plan only 2 of 40 traces change the environment, and cost 2 s.
    (cost,) = estimate(plan, seconds=1).sets
    assert set(cost.timed[:, 0]) <= {1, 2}
    assert 1 <= cost.mean[0] <= 1.25


def test_timed_groups_are_spread_over_a_set(fake, plan, monkeypatch):
    seen = []
    process, render = render_process.RenderProcess, render_process.RenderProcess.render
    monkeypatch.setattr(process, "render", lambda self, group: seen.append(group) or render(self, group))
    found = estimate(plan, seconds=0.3)
    (timed,) = (len(one.timed) for one in found.sets)
    places = [list(plan.groups.values()).index(group) for group in seen[1:]]
    assert timed == len(places)
    quarters = [sum(10 * i <= place < 10 * i + 10 for place in places) for i in range(4)]
    assert max(quarters) - min(quarters) <= 2


def test_the_total_follows_from_the_timed_groups():
    timed = np.array([Cost(2.0, 3.0, 1e6, 5.0), Cost(4.0, 5.0, 3e6, 5.0)])
    sets = (SetCost("a", 1000, timed), SetCost("b", 4000, timed[:1]))
    found = Estimate(10000, sets, Cost(5.0, 6.0), 7.0, 2, {}, 60.0)
    # A render process ends after 2000 samples: one worker needs 5 processes, four workers 2 each.
    assert found.total(1) == Cost(7 + 3000 + 8000 + 5 * 5, 7 + 4000 + 12000 + 5 * 6, 6e9, 25000)
    assert found.total(4).cpu == 7 + 11000 + 8 * 5
    assert found.total(4).seconds == 7 + (16000 + 8 * 6) / 4
    # The standard error of the mean is 1 for `a`; for `b`, with one timed group, it is the mean itself.
    assert found.uncertainty == pytest.approx(2 * np.hypot(1000, 8000))


def test_failed_groups_are_named_and_counted_like_the_others(fake, plan):
    (fake / "poison").touch()
    found = estimate(plan, seconds=0.3)
    assert set(found.failed.values()) == {"no such colour"}
    assert found.sets[0].mean[0] == 1
    text = estimate_text(plan, found)
    assert f"{len(found.failed)} traces failed and are counted like the others, the first cubes-" in text
    assert text.endswith(": no such colour")
    odd = plan[next(key.id for key in plan.samples.keys if key.index % 2)]
    with refused(r"no trace of set `cubes` rendered, the first cubes-\d+: no such"):
        estimate(odd, seconds=0.1)


def test_render_processes_that_do_not_start_give_their_reason(fake, plan):
    (fake / "broken").touch()
    with refused(r"\A.*ended with status 1.*ImportError: libGL.*\Z"):
        estimate(plan, seconds=0.1)


def test_an_interruption_leaves_no_files(fake, plan):
    def interrupt(passed):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimate(plan, seconds=5, advance=interrupt)


def test_missing_packages_are_named(plan, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused(r"rendering needs .*bpy.*`candlelight doctor`"):
        estimate(plan, seconds=0.1)


# ------------------------------------------------------------------------------------ the command


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_planning_shows_progress(fake, tiny, monkeypatch):
    shown = []

    @contextmanager
    def progress(total, *words):
        counted = []
        yield counted.append
        shown.append((total, *words, sum(counted)))

    monkeypatch.setattr("candlelight.generators.commands.plan_commands.progress", progress)
    run("plan", tiny, "--estimate", "--seconds", 0.1)
    run("plan", tiny, "--estimate", "--seconds", 0.1, "--limit", 3)
    assert shown == [(4, "plan", "sample", 4), (None, "plan", "sample", 3)]


def test_the_command_prints_a_table(fake, tiny, check_shown, shown_block):
    result = run("plan", tiny, "--limit", 3, "--estimate", "--seconds", 0.1, "--workers", "1,64")
    assert result.exit_code == 0, result.output
    text = result.stdout
    shown = shown_block("scaling.md", "candle:").replace("candle:", "tiny:", 1).replace("candle:", "cubes:")
    check_shown(*(re.sub(r"(\d) +(?:h|min|s)\b", r"\1 s", one) for one in (shown, text)))
    assert text.startswith("tiny: 3 samples from 3 traces")
    assert "  cubes: 3 traces of 1 CPU s (standard deviation 0) and 0.0" in text
    assert " GB on disk, 9 inodes\n" in text
    rows = [line.split()[0] for line in text.partition("workers  time")[2].splitlines()[1:3]]
    assert rows == ["1", "64"]
    assert "A worker is one render process" in text


def test_finished_frames_are_not_counted(fake, tiny):
    frames = fake / "frames"
    for index in range(4):
        folder = frames / "samples" / "cubes" / "0000" / f"{index:06d}"
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text("{}")
        if index == 2:
            result = run("plan", tiny, "--estimate", "--seconds", 0.1, "--frames", frames)
            assert "tiny: 1 samples from 1 traces" in result.stdout
    result = run("plan", tiny, "--estimate", "--frames", frames)
    assert result.stdout.endswith("all frames are rendered\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--estimate", "--workers", "4,none"], "expected numbers from 1 on as in 1,8,64, got 4,none"),
        (["--estimate", "--workers", "0"], "expected numbers from 1 on as in 1,8,64, got 0"),
        (["--workers", "4", "--report"], "--workers and --frames: expected together with --estimate"),
        ([], "expected --out FILE.parquet, --report, --estimate, or several of them"),
        (["--estimate", "--seconds", "0"], "0"),
    ],
)
def test_bad_use_gives_one_line(tiny, words, message):
    result = run("plan", tiny, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="render processes need a POSIX system")
def test_an_estimate_renders_dead_leaves():
    size = "image={width: 16, height: 16}"
    result = run("plan", "dead-leaves", "--limit", 6, "--set", size, "--estimate", "--seconds", 0.1)
    assert result.exit_code == 0, result.output
    assert "dead-leaves: 6 samples from 6 traces" in result.stdout


@pytest.mark.blender
def test_an_estimate_renders_with_blender(tiny):
    plan = make_plan(load_recipe(tiny, ["image={width: 48, height: 36}", "render.samples=8"]), limit=4)
    found = estimate(plan, seconds=0.1)
    assert found.failed == {}
    assert found.start.cpu > 0.5  # importing Blender alone takes that long
    assert 0.01 < found.total(1).cpu < 100
    assert found.total(1).inodes >= 4 * 4  # a folder, image, layers and metadata each
    assert not list(Path(tempfile.gettempdir()).glob("candlelight-staging-*/samples/cubes"))
