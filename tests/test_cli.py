"""The command line without rendering: recipes, plans, and errors of one line with exit status 2."""

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.generators.commands.doctor import examine
from candlelight.generators.language.set_settings import settings
from candlelight.generators.planning.plan_table import load_plan
from candlelight.loaders.commands import command_line

PICTURE = str(Path(__file__).parents[1] / "docs" / "recipes" / "candle.jpg")


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(result):
    """Check the form of a refusal and return its line."""
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    errors = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, result.output
    return errors[0]


def test_the_commands_of_the_design_exist():
    assert set(main.commands) == {
        *("demo", "recipes", "assets", "plan", "render", "counterfactual", "export", "pack", "info"),
        *("evaluate", "perception", "train", "doctor", "push"),
    }
    perception = main.commands["perception"]
    assert isinstance(perception, click.Group)
    assert set(perception.commands) == {"experiment", "fit"}
    evaluate = main.commands["evaluate"]
    assert isinstance(evaluate, click.Group)
    scored = {
        "lmse",
        "whdr",
        "saw",
        "maw",
        "constancy",
        "methods",
        "protocols",
        "csm",
        "tcav",
        "coverage",
        "causal-check",
        "causal-table",
        "codes",
        "counterfactuals",
        "generativeness",
        "transforms",
        "moved-frames",
        "raid",
    }
    assert set(evaluate.commands) == {*scored, "report", "compare", "coverage-tables"}


@pytest.mark.parametrize(
    "words", [("render", "candle", "--out", "out"), ("assets", "add", "cube.obj", "--out", "out")]
)
def test_a_time_limit_of_zero_is_refused(words):
    assert "range x>0" in refused(run(*words, "--time-limit", "0"))


def test_a_missing_package_is_named_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    told = 'Error: this needs torch, not installed here; run `pip install "candlelight[all]"`'
    assert refused(run("demo", "--out", tmp_path)).startswith(told)
    monkeypatch.setattr("sys.version_info", (3, 12, 1, "final", 0))
    monkeypatch.setattr("candlelight.generators.commands.doctor.find_spec", lambda name: None)
    found = {finding.item: finding.remedy for finding in examine()}
    assert found["bpy"].startswith("Blender needs Python 3.13 (bpy 5.2.3) or Python 3.11 (bpy 5.0.1): ")
    assert found["torch"] == 'run `pip install "candlelight[evaluate]"`'


def test_recipes_are_listed():
    result = run("recipes")
    assert result.exit_code == 0
    for name in ("candle", "concepts", "negatives", "demo"):
        assert f"\n{name} " in f"\n{result.output}"


def test_a_shown_recipe_can_be_loaded(tmp_path):
    copy = tmp_path / "mine.yaml"
    copy.write_text(run("recipes", "show", "negatives").output)
    result = run("recipes", "validate", copy, "--set", "sets.negatives.draws=4")
    assert result.stdout == "negatives: valid, 4 samples from 4 traces\n"


def test_a_kind_of_assets_has_one_folder(tmp_path):
    twice = [f"--assets=materials={tmp_path}"] * 2
    assert "expected one folder of materials" in refused(run("recipes", "validate", "candle", *twice))


def test_draws_of_each_combination_are_reported(tmp_path):
    recipe = tmp_path / "own.yaml"
    recipe.write_text(
        "name: own\nlayers: [image]\nsets:\n  a: {draws: 3, factors: {shape: {values: [disc, ellipse]}}, "
        "layout: {dead_leaves: {shape: $shape}}}\n"
    )
    told = run("recipes", "validate", recipe).stdout
    assert told.startswith("own: valid, 6 samples")
    assert told.endswith("set a: 3 draws of each combination of shape\n")


def test_draws_that_show_the_same_scene_are_warned_of(tmp_path):
    recipe = tmp_path / "own.yaml"
    recipe.write_text(
        "name: own\nsets:\n  a: {draws: 3, factors: {size: {values: [1, 2]}, x: {low: 0, high: 1}}, layout: "
        "{objects: [{type: cube, material: red, size: $size}], lights: [{azimuth: 3}], "
        "camera: {location: [0, 5, 3], look_at: [0, 0, 0]}}}\n"
        "  b: {counterfactual: {of: a, do: [{size: 2}]}}\n"
    )
    told = run("recipes", "validate", recipe)
    assert told.exit_code == 0
    warnings = [line for line in told.stderr.splitlines() if line.startswith("warning: ")]
    assert [line.split(",")[0] for line in warnings] == [
        f"warning: set {name}: the 3 draws of each combination show the same scene" for name in "ab"
    ]
    drawn = run("recipes", "validate", recipe, "--set", "sets.a.layout.objects.0.rotation=$x")
    assert "warning" not in drawn.stderr


def test_a_plan_is_written_and_can_be_limited(tmp_path):
    path = tmp_path / "plan.parquet"
    result = run("plan", "negatives", "--set", "sets.negatives.draws=9", "--limit", "3", "--out", path)
    assert result.stdout == f"{path}: 3 samples from 3 traces\n"
    assert len(load_plan(path)) == 3


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("recipes", "validate", "candle", "--set", "image.width=wide"), "image.width"),
        (("recipes", "validate", "candle", "--set", "image.width"), "FIELD=VALUE"),
        (("recipes", "validate", "candle", "--set", "nonsense=1"), "nonsense: there is no such field"),
        (
            ("recipes", "validate", "candle", "--set", "sets.candle.factors.color.values=[pink]"),
            "asset `pink`",
        ),
        (("recipes", "show", "nothing"), "neither a file nor shipped"),
        (("recipes", "show", PICTURE), "recipe candle.jpg: expected YAML in UTF-8, got something else"),
        (("recipes", "show", __file__), "recipe test_cli.py: expected "),
        (("render", PICTURE, "--out", "frames"), "recipe candle.jpg: expected YAML"),
        (("plan", "candle", "--out", "/proc/none/plan.parquet"), "/proc/none"),
        (("plan", "candle", "--out", "plan.html", "--report"), "--out: expected FILE.parquet"),
        (("plan", "candle", "--out", "."), "--out: expected FILE.parquet"),
        (("plan", "candle", "--sets", "candel", "--report"), "set `candel` is not in the recipe; expected"),
        (
            ("plan", "candle", "--sets", "", "--report"),
            "set `` is not in the recipe; expected one of: candle",
        ),
        (
            ("counterfactual", "candle", "--do", "color=red", "--out", "o"),
            "expected --sample ID, or --limit N",
        ),
        (
            *(
                (
                    "counterfactual",
                    "candle",
                    "--sample",
                    "a",
                    "--limit",
                    "2",
                    "--do",
                    "color=red",
                    "--out",
                    "o",
                ),
            ),
            "and not both",
        ),
        *(
            (("counterfactual", "candle", "--sample", "candle-000000", "--do", change, "--out", "o"), message)
            for change, message in {
                "color=[": "expected names or numbers as values, 'true' in quotes, got 'color=['",
                "color=!!python/object:os.system a": "expected names or numbers as values",
                "color=\0": "expected names or numbers as values",
                "color": "expected FACTOR=VALUE",
                "color=red,color=blue": "expected each factor once",
                "color=true": "got 'color=true'",
                "color=null": "got 'color=null'",
                "color=pink": "color: expected one of red, blue, yellow, purple, orange, got 'pink'",
                "colour=red": "got ['colour']",
            }.items()
        ),
        (
            ("counterfactual", "candle", "--sample", "candle-999999", "--do", "color=red", "--out", "o"),
            "sample `candle-999999` is not in the plan; expected an id from candle-000000 to candle-021599",
        ),
        (("render", "nothing.parquet", "--out", "frames"), "there is no such file"),
        (("render", "candle", "--out", "frames", "--shard", "3"), "I/N"),
        (("render", "candle", "--out", "frames", "--shard", "²/3"), "I/N"),
        (
            ("render", "negatives", "--set", "sets.negatives.draws=2", "--out", "frames", "--shard", "3/2"),
            "3/2",
        ),
        (("info", "nowhere"), "nowhere: does not exist; expected a folder of frames"),
        (("pack", "nowhere", "--to", "hub", "--out", "pack"), "nowhere"),
        (("pack", "nowhere", "--to", "zip", "--out", "pack"), "zip"),
        (("evaluate", "lmse", "nowhere", "--model", "retinex"), "nowhere"),
        (("evaluate", "lmse", "nowhere", "--model", "genius"), "genius"),
        (("evaluate", "codes", "nowhere", "--model", "retinex", "--layer", "a"), "hidden layers"),
        (("evaluate", "lmse", "nowhere", "--model", "retinex", "--device", "toaster"), "toaster"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_use_gets_one_line_and_status_two(words, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert part in refused(run(*words))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_overrides_do_not_change_a_plan(tmp_path):
    path = tmp_path / "plan.parquet"
    run("plan", "negatives", "--set", "sets.negatives.draws=1", "--out", path)
    assert "plan again" in refused(run("render", path, "--set", "seed=2", "--out", tmp_path / "frames"))


def test_a_seed_replaces_that_of_the_recipe_and_changes_no_plan(tmp_path):
    path = tmp_path / "plan.parquet"
    run("plan", "negatives", "--set", "sets.negatives.draws=1", "--seed", "7", "--out", path)
    assert load_plan(path).recipe.seed == 7
    for command in (
        ["render", path],
        ["plan", path],
        ["counterfactual", path, "--do", "count=1", "--limit", 1],
    ):
        line = refused(run(*command, "--seed", "8", "--out", tmp_path / "other.parquet"))
        assert (
            line
            == f"Error: --seed changes a recipe, but {path} is a plan, whose numbers are fixed; plan again"
        )


def test_a_preset_is_planned_and_changes_no_plan(tmp_path):
    path = tmp_path / "plan.parquet"
    run("plan", "demo", "--limit", "1", "--preset", "draft", "--out", path)
    recipe = load_plan(path).recipe
    assert {settings(recipe, name).render.preset for name in recipe.sets} == {"draft"}
    assert "--preset changes a recipe" in refused(
        run("render", path, "--preset", "draft", "--out", tmp_path / "frames")
    )


def test_a_file_that_is_no_plan_is_refused(tmp_path):
    path = tmp_path / "plan.parquet"
    path.write_bytes(b"PAR1 but not really PAR1")
    assert "expected a file written by `candlelight plan`" in refused(
        run("render", path, "--out", tmp_path / "f")
    )


def test_doctor_lists_the_items_of_the_page(shown_block):
    result = run("doctor")
    assert result.exit_code in (0, 2)
    items = [
        re.findall(r"^(?:ok|missing) +(.*?): ", text, re.M)
        for text in (shown_block("installing.md", "ok "), result.output)
    ]
    assert items[0] == items[1]


# ------------------------------------------------------------------------------------------------- Ctrl-C


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
        (["render", "demo", "--out", "frames"], "interrupted; run the same command again to continue"),
        (["plan", "demo", "--out", "plan.parquet"], "interrupted"),
    ],
)
def test_ctrl_c_is_one_line(monkeypatch, words, line):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("candlelight.generators.language.load_recipe.find_recipe", stop)
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.output) == (130, line + "\n")
