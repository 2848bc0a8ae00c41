"""The command line without rendering: recipes, plans, and errors of one line with exit status 2."""

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.generators.commands.doctor import examine
from candlelight.generators.language.set_settings import settings
from candlelight.generators.planning.plan_table import load_plan
from candlelight.loaders.commands import command_line
from tests.command_line import refusal, run

PICTURE = str(Path(__file__).parents[1] / "docs" / "recipes" / "candle.jpg")


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_missing_package_is_named_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    told = 'Error: this needs torch, not installed here; run `pip install "candlelight[all]"`'
    assert refusal("demo", "--out", "demo").startswith(told)
    monkeypatch.setattr("sys.version_info", (3, 12, 1, "final", 0))
    monkeypatch.setattr("candlelight.generators.commands.doctor.find_spec", lambda name: None)
    found = {finding.item: finding.remedy for finding in examine()}
    assert found["bpy"].startswith("Blender needs Python 3.13 (bpy 5.2.3) or Python 3.11 (bpy 5.0.1): ")
    assert found["torch"] == 'run `pip install "candlelight[evaluate]"`'


def test_recipes_are_listed_and_a_shown_one_can_be_loaded(tmp_path):
    assert {"candle", "concepts", "negatives", "demo"} <= {
        line.split()[0] for line in run("recipes").splitlines()
    }
    (tmp_path / "mine.yaml").write_text(run("recipes", "show", "negatives"))
    told = run("recipes", "validate", "mine.yaml", "--set", "sets.negatives.draws=4")
    assert told == "negatives: valid, 4 samples from 4 traces\n"


def test_draws_of_each_combination_are_reported(tmp_path):
    (tmp_path / "own.yaml").write_text(
        "name: own\nlayers: [image]\nsets:\n  a: {draws: 3, factors: {shape: {values: [disc, ellipse]}}, "
        "layout: {dead_leaves: {shape: $shape}}}\n"
    )
    told = run("recipes", "validate", "own.yaml")
    assert told.startswith("own: valid, 6 samples")
    assert told.endswith("set a: 3 draws of each combination of shape\n")


def test_draws_that_show_the_same_scene_are_warned_of(tmp_path):
    (tmp_path / "own.yaml").write_text(
        "name: own\nsets:\n  a: {draws: 3, factors: {size: {values: [1, 2]}, x: {low: 0, high: 1}}, layout: "
        "{objects: [{type: cube, material: red, size: $size}], lights: [{azimuth: 3}], "
        "camera: {location: [0, 5, 3], look_at: [0, 0, 0]}}}\n"
        "  b: {counterfactual: {of: a, do: [{size: 2}]}}\n"
    )
    told = run("recipes", "validate", "own.yaml")
    warnings = [line for line in told.splitlines() if line.startswith("warning: ")]
    assert [line.split(",")[0] for line in warnings] == [
        f"warning: set {name}: the 3 draws of each combination show the same scene" for name in "ab"
    ]
    drawn = run("recipes", "validate", "own.yaml", "--set", "sets.a.layout.objects.0.rotation=$x")
    assert "warning" not in drawn


def test_a_plan_is_written_and_its_numbers_are_fixed(tmp_path):
    words = ("--set", "sets.negatives.draws=9", "--limit", 3, "--seed", 7, "--out", "plan.parquet")
    assert run("plan", "negatives", *words) == "plan.parquet: 3 samples from 3 traces\n"
    made = load_plan(Path("plan.parquet"))
    assert (len(made), made.recipe.seed) == (3, 7)
    fixed = "changes a recipe, but plan.parquet is a plan, whose numbers are fixed; plan again"
    for words, option in (
        ("render --seed 8", "--seed"),
        ("plan --seed 8", "--seed"),
        ("counterfactual --do count=1 --limit 1 --seed 8", "--seed"),
        ("render --preset draft", "--preset"),
        ("render --set seed=2", "--set"),
    ):
        command, *options = words.split()
        line = refusal(command, "plan.parquet", *options, "--out", "other.parquet")
        assert line == f"Error: {option} {fixed}"


def test_a_preset_is_planned():
    run("plan", "demo", "--limit", 1, "--preset", "draft", "--out", "plan.parquet")
    recipe = load_plan(Path("plan.parquet")).recipe
    assert {settings(recipe, name).render.preset for name in recipe.sets} == {"draft"}


DO = "counterfactual candle --sample candle-000000 --out o --do"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("recipes validate candle --set image.width=wide", "image.width"),
        ("recipes validate candle --set image.width", "FIELD=VALUE"),
        ("recipes validate candle --set nonsense=1", "nonsense: there is no such field"),
        ("recipes validate candle --set sets.candle.factors.color.values=[pink]", "asset `pink`"),
        (
            "recipes validate candle --assets materials=. --assets materials=.",
            "expected one folder of materials",
        ),
        ("recipes show nothing", "neither a file nor shipped"),
        (f"recipes show {PICTURE}", "recipe candle.jpg: expected YAML in UTF-8, got something else"),
        (f"recipes show {__file__}", "expected FILE.py:NAME"),
        (f"render {PICTURE} --out frames", "recipe candle.jpg: expected YAML"),
        ("plan candle --out /proc/none/plan.parquet", "/proc/none"),
        ("plan candle --out plan.html --report", "--out: expected FILE.parquet"),
        ("plan candle --out .", "--out: expected FILE.parquet"),
        ("plan candle --sets candel --report", "set `candel` is not in the recipe; expected one of: candle"),
        ("plan candle --sets  --report", "set `` is not in the recipe; expected one of: candle"),
        ("counterfactual candle --do color=red --out o", "expected --sample ID, or --limit N"),
        ("counterfactual candle --sample a --limit 2 --do color=red --out o", "and not both"),
        (
            "counterfactual candle --sample a --do color=red --out o",
            "sample `a` is not in the plan; expected an ",
        ),
        (f"{DO} color=[", "expected names, numbers or mechanisms as values, 'true' in quotes, got 'color=['"),
        (f"{DO} color=!!python/object:os.system", "expected names, numbers or mechanisms as values"),
        (f"{DO} color=\0", "expected names, numbers or mechanisms as values"),
        (f"{DO} color", "expected FACTOR=VALUE"),
        (f"{DO} color=red,color=blue", "expected each factor once"),
        (f"{DO} color=null", "got 'color=null'"),
        (f"{DO} color=pink", "color: expected one of red, blue, yellow, purple, orange, got 'pink'"),
        (f"{DO} colour=red", "got ['colour']"),
        ("render nothing.parquet --out frames", "there is no such file"),
        ("render damaged.parquet --out frames", "expected a file written by `candlelight plan`"),
        ("render candle --out frames --shard 3", "I/N"),
        ("render candle --out frames --shard ²/3", "I/N"),
        ("render negatives --set sets.negatives.draws=2 --out frames --shard 3/2", "3/2"),
        ("render candle --out frames --time-limit 0", "range x>0"),
        ("assets add cube.obj --out out --time-limit 0", "range x>0"),
        ("info nowhere", "nowhere: does not exist; expected a folder of frames"),
        ("pack nowhere --to hub --out pack", "nowhere"),
        ("pack nowhere --to zip --out pack", "zip"),
        ("evaluate codes nowhere --model retinex --layer a", "hidden layers"),
    ],
)
def test_bad_use_gets_one_line_and_leaves_nothing(words, part, tmp_path):
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 but not really PAR1")
    assert part in refusal(*words.split(" "))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["damaged.parquet"]


def test_doctor_lists_the_items_of_the_page(shown_block):
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code in (0, 2)
    items = [
        re.findall(r"^(?:ok|missing) +(.*?): ", text, re.M)
        for text in (shown_block("installing.md", "ok "), result.output)
    ]
    assert items[0] == items[1]


def test_ctrl_c_while_the_program_imports_ends_it_without_a_message(tmp_path):
    (tmp_path / "click.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n")
    program = str(Path(sys.executable).with_name("candlelight"))
    # A shell starts background jobs with Ctrl-C ignored, and their children inherit this.
    restore = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    restore += f"os.execv({program!r}, {[program, 'info']})"
    done = subprocess.run(
        [sys.executable, "-c", restore],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_ctrl_c_while_a_command_imports_ends_it(tmp_path, monkeypatch):
    """The process ends even if the imported library swallows exceptions, as numpy and h5py do."""
    ended = []
    monkeypatch.setattr(command_line.os, "_exit", ended.append)
    monkeypatch.syspath_prepend(tmp_path)
    text = "import sys\nfrom candlelight.loaders.commands.command_line import interrupt\n"
    text += "try:\n interrupt(2, sys._getframe())\n"
    (tmp_path / "interrupted_import.py").write_text(text + "except BaseException:\n pass\n")
    importlib.import_module("interrupted_import")
    assert set(ended) == {130}
    ended.clear()
    with pytest.raises(KeyboardInterrupt):
        command_line.interrupt(2, None)
    assert not ended


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("render demo --out frames", "interrupted; run the same command again to continue"),
        ("plan demo --out plan.parquet", "interrupted"),
    ],
)
def test_ctrl_c_is_one_line(monkeypatch, words, line):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("candlelight.generators.language.load_recipe.find_recipe", stop)
    assert run(*words.split(), code=130) == line + "\n"
