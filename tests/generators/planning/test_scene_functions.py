"""Scenes made by a Python function: planned like others, the same at every call, run only where allowed."""

import subprocess
import sys

import numpy as np
import pytest

from candlelight.generators import counterfactual, do, load_recipe, make_plan, render
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.planning import repeat_scenes
from candlelight.generators.planning.plan import plan_samples
from candlelight.generators.planning.plan_table import load_plan, save_plan
from candlelight.loaders.frames import frame_path, read_frame
from candlelight.loaders.verification.verify_frames import verify
from tests.command_line import refusal, run
from tests.refusals import refused

VIEW = "{'location': [0, 4, 2], 'look_at': [0, 0, 0.3]}"
SCENES = f"""
import shapes
from candlelight.generators import Recipe

def table(factors, draw):
    stack = [shapes.cube(factors["shade"], 0.3 * level) for level in range(factors.height)]
    ball = {{"type": "sphere", "material": factors.color, "location": [draw("x").uniform(-1, 0), 0]}}
    light = {{"name": "key", "azimuth": -40, "temperature": factors.temperature, "power": 500}}
    return {{"objects": [*stack, ball], "lights": [light], "camera": {VIEW}, "floor": {{}}}}

recipe = Recipe(
    name="table", factors={{"height": [1, 3], "color": ["red", "#3080c0"]}}, scene=table,
    variables={{"temperature": {{"low": 3000, "high": 6500}}, "shade": {{"low": 0.2, "high": 0.8}}}},
    image={{"width": 24, "height": 16}}, render={{"preset": "draft"}})
"""
SHAPES = """
def cube(shade, z):
    return {"type": "cube", "size": 0.3, "location": [1.2, 0, z], "material": {"base_color": [shade] * 3}}
"""
RECIPE = """
name: table
factors: {height: [1, 3], color: [red, '#3080c0']}
variables:
  temperature: {low: 3000, high: 6500}
  shade: {low: 0.2, high: 0.8}
scene: scenes.py:table
image: {width: 24, height: 16}
render: {preset: draft}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    for name, text in (("scenes.py", SCENES), ("shapes.py", SHAPES), ("table.yaml", RECIPE)):
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def plan(folder):
    return make_plan(load_recipe(folder / "table.yaml", run_code=True))


@pytest.fixture
def own_scene(folder, tmp_path):
    """Return a function that loads the recipe with another scene function, given by its lines."""

    def load(*lines, overrides=()):
        text = "\n    ".join(["def scene(factors, draw):", *lines])
        (tmp_path / "own.py").write_text(f"import numpy as np\n\ncount = 0\n{text}\n")
        (tmp_path / "own.yaml").write_text(RECIPE.replace("scenes.py:table", "own.py:scene"))
        return load_recipe(tmp_path / "own.yaml", overrides, run_code=True)

    return load


def scene(objects="[]", extra=""):
    return f"return {{'objects': {objects}, 'camera': {VIEW}{extra}}}"


def test_each_sample_has_the_numbers_that_the_function_returns(plan):
    assert len(plan) == 4
    for sample in plan.samples:
        *stack, ball = sample.trace.objects
        assert [one.location for one in stack] == [
            (1.2, 0, pytest.approx(0.3 * level)) for level in range(sample.factors["height"])
        ]
        assert stack[0].material.base_color == (sample.exogenous["shade"],) * 3
        assert (ball.material.label == "red") is (sample.factors["color"] == "red")
        assert sample.lights[0].temperature == sample.exogenous["temperature"]
    assert len({sample.trace.objects[-1].location for sample in plan.samples}) == 4


def test_yaml_and_a_recipe_in_python_give_the_same_plan(folder, plan):
    in_python = make_plan(load_recipe(f"{folder / 'scenes.py'}:recipe"))
    assert (in_python.recipe, [*in_python.samples]) == (plan.recipe, [*plan.samples])


def test_interventions_keep_all_draws_and_change_the_scene(plan):
    changed = make_plan(do(plan.recipe, height=3))
    for was, now in zip(plan.samples, changed.samples, strict=True):
        assert len(now.trace.objects) == 4
        assert now.trace.objects[-1] == was.trace.objects[-1]
        assert (now.exogenous, now.lights, now.trace.cycles_seed) == (
            was.exogenous,
            was.lights,
            was.trace.cycles_seed,
        )
    [other] = counterfactual(plan["table-000000"], {"color": "#3080c0"}).samples
    assert other.trace.objects[:-1] == plan["table-000000"].samples[0].trace.objects[:-1]
    assert [*plan_samples(plan.recipe, ["table-000002"]).samples] == [*plan["table-000002"].samples]


def test_a_plan_file_is_planned_anew_with_its_code_alone(tmp_path):
    # Without the recipe in Python, which would tell this process the function.
    for name, text in (("scenes.py", SCENES.partition("recipe =")[0]), ("shapes.py", SHAPES + "# a copy\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "table.yaml").write_text(RECIPE)
    plan = make_plan(load_recipe(tmp_path / "table.yaml", run_code=True))
    save_plan(plan, tmp_path / "plan.parquet")
    read = load_plan(tmp_path / "plan.parquet")
    assert [*read.samples] == [*plan.samples]
    with refused("sets.table: `scenes.py:table` is Python code, which runs only if you allow it: `run_code`"):
        make_plan(read.recipe)
    again = make_plan(load_plan(tmp_path / "plan.parquet", {"code": tmp_path}).recipe)
    assert [*again.samples] == [*plan.samples]
    (tmp_path / "shapes.py").write_text(SHAPES)
    with refused(r"the recipe was planned with another `scenes.py` \(SHA-256 \w{12}, the file now \w{12}\)"):
        make_plan(load_plan(tmp_path / "plan.parquet", {"code": tmp_path}).recipe)


@pytest.mark.blender
def test_a_rendered_counterfactual_is_equal_where_nothing_changed(plan, tmp_path):
    other = counterfactual(plan["table-000000"], {"height": 3})
    for planned, name in ((plan["table-000000"], "was"), (other, "now")):
        assert render(planned, tmp_path / name, workers=1).written == 1
    code = tmp_path / "was" / "code"
    assert [*make_plan(load_plan(tmp_path / "was" / "plan.parquet", {"code": code}).recipe).samples] == [
        *plan.samples
    ]
    assert verify(tmp_path / "was").damaged == ()
    was, now = (
        read_frame(frame_path(tmp_path / name, one.set, one.index)).layers
        for name, one in (("was", plan.samples[0]), ("now", other.samples[0]))
    )
    ball = (was["object"] == 2) & (now["object"] == 4)
    assert ball.any()
    for layer in ("albedo", "depth"):
        np.testing.assert_array_equal(was[layer][ball], now[layer][ball])
    assert ((was["object"] == 0) & (now["object"] > 1)).any()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["global count; count += 1", scene("[{'type': 'cube', 'size': count}]")],
            r"own.py:4 \(scene\), sample table-000000: `objects.0.size` is \d+.0 at one call and \d+.0 at an",
        ),
        ([scene("[{'type': 'cube', 'size': np.random.rand()}]")], "`objects.0.size` is .* take random numb"),
        (
            [scene("[{'type': t} for t in {'cube', 'cone', 'torus', 'star', 'vase', 'bowl', 'gear'}]")],
            r"`objects.\d.type` is",
        ),
        (["x = 1", "return 1 / 0"], r"own.py:6 \(scene\), sample table-000000: ZeroDivisionError: division"),
        (["raise SystemExit(3)"], r"own.py:5 \(scene\), sample table-000000: SystemExit: 3"),
        (["raise BaseException('mine')"], r"own.py:5 \(scene\), sample table-000000: BaseException: mine"),
        (
            ["import os", "os._exit(0)"],
            "own.py:scene: the process that makes some scenes first ended with status 0; the function",
        ),
        (
            ["import os", scene("[{'type': 'cube', 'size': len(os.environ) / 50}]")],
            r"`objects.0.size` is .* the environment or np.random",
        ),
        (
            ["open('shapes.txt').close()", scene()],
            r"No such file .*only in a second process, .* name files from Path\(__file__\)",
        ),
        (["return factors.colour"], r"`colour` is no factor .* one of: height, color.*mean `color`\?"),
        (["pass"], "expected a scene or a mapping of its fields, got NoneType"),
        ([scene("[{'typ': 'cube'}]")], "objects.0.typ: there is no such field; .* mean `type`"),
        (
            [scene("[{'type': 'cubbe'}]")],
            r"own.py:4 \(scene\), .*layout.objects.0.type: asset `cubbe` is not",
        ),
        ([scene("[{'type': 'cube', 'size': '$siz'}]")], r"`\$siz` is no factor or variable"),
        (["return {'dead_leaves': {'shape': 'disc'}}"], "expected a scene to trace, got dead leaves"),
    ],
)
def test_faults_of_a_function_are_one_line(own_scene, lines, message, tmp_path, monkeypatch):
    (tmp_path / "shapes.txt").touch()
    monkeypatch.chdir(tmp_path)
    with refused(f"sets.table: scene own.py.*{message}" if not message.startswith("own") else message):
        make_plan(own_scene(*lines))


def test_a_function_that_never_returns_is_ended(own_scene, monkeypatch):
    monkeypatch.setattr(repeat_scenes, "_LONGEST", 1.0)
    with refused("sets.table: scene own.py:scene: .* took more than 1 s; look for a loop that never ends"):
        make_plan(own_scene("while True: pass"))


def test_the_last_samples_are_checked_too(own_scene):
    late = "size = np.random.rand() if draw('x').uniform() == 0 or factors.color != 'red' else 1"
    recipe = own_scene(
        late, scene("[{'type': 'cube', 'size': size}]"), overrides=["draws=50", "factors.color=[red, blue]"]
    )
    with refused("sample table-0000[1-9]\\d: `objects.0.size` is"):
        make_plan(recipe)


def test_light_layers_need_the_names_of_the_lights(own_scene, plan):
    layers = ["layers=[image, light/*]"]
    with refused("sets.table.layers: light layers need the same lights in every sample; name them in `scene"):
        own_scene(scene(), overrides=layers)
    named = ["scene={code: own.py:scene, lights: [key, environment]}", *layers]
    lights = ", 'lights': [{'name': 'key'}], 'environment': {'scene': 'studio'}"
    assert make_plan(own_scene(scene(extra=lights), overrides=named))
    for extra, message in (
        (", 'lights': [{'name': 'key'}]", "expected the lights key, environment, got key"),
        (
            f"{lights}, 'floor': {{'catcher': True}}",
            r"`light/\*` layers are black on a shadow catcher",
        ),
    ):
        with refused(message):
            make_plan(own_scene(scene(extra=extra), overrides=named))


def test_a_function_without_a_file_plans_and_says_that_it_cannot_be_planned_anew(tmp_path):
    code = f"""
from pathlib import Path
from candlelight.generators import Recipe, make_plan
from candlelight.generators.planning.plan_table import save_plan
recipe = Recipe(name="cell", factors={{"size": [1, 2]}}, scene=lambda factors, draw: {{
    "objects": [{{"type": "cube", "size": factors.size}}], "camera": {VIEW}}})
save_plan(make_plan(recipe), Path("cell.parquet"))
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    plan = load_plan(tmp_path / "cell.parquet")
    assert [one.trace.objects[0].size for one in plan.samples] == [1, 2]
    with refused("`<lambda>` was a function without a file, such as a notebook's; its plan can be rendered"):
        make_plan(plan.recipe)


# ------------------------------------------------------------------------------------------ what may run


def test_a_recipe_cannot_allow_its_own_code(folder, tmp_path):
    (tmp_path / "mark.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    for line in ("", "assets: {code: .}\n"):
        (tmp_path / "own.yaml").write_text(RECIPE.replace("scenes.py", "mark.py") + line)
        for command in ("plan", "render"):
            message = refusal(command, tmp_path / "own.yaml", "--out", tmp_path / "out.parquet")
            assert message.endswith("--run-code")
    (tmp_path / "mine.py").write_text("recipe = {'name': 'mine', 'extends': 'own.yaml/table'}\n")
    (tmp_path / "own.yaml").write_text(
        "name: own\nsets: {table: {factors: {a: [1, 2]}, scene: mark.py:table}}\n"
    )
    with refused("`mark.py:table` is Python code, which runs only if you allow it"):
        make_plan(load_recipe(f"{tmp_path / 'mine.py'}:recipe"))
    assert not (tmp_path / "ran").exists()
    # A function that is passed gives no leave to code that another author's YAML names beside its file.
    (tmp_path / "theirs.yaml").write_text(
        "name: theirs\nsets:\n  s:\n    factors: {a: [1, 2]}\n    layout: {objects: [{build: 'mark.py:f'}], "
        f"camera: {VIEW}}}\n"
    )
    (tmp_path / "both.py").write_text(
        f"def own(factors, draw):\n    return {{'camera': {VIEW}}}\n\n"
        "recipe = {'name': 'both', 'sets': {'theirs': {'extends': 'theirs.yaml/s'}, "
        "'own': {'factors': {'a': [1, 2]}, 'scene': own}}}\n"
    )
    with refused("`mark.py:f` is Python code, which runs only if you allow it"):
        make_plan(load_recipe(f"{tmp_path / 'both.py'}:recipe"))
    # Nor does a Python file whose recipe comes from another author's YAML.
    (tmp_path / "theirs.yaml").write_text("name: theirs\nfactors: {a: [1, 2]}\nscene: mark.py:table\n")
    (tmp_path / "loaded.py").write_text(
        "from pathlib import Path\nfrom candlelight.generators import do, load_recipe\n"
        "recipe = do(load_recipe(Path(__file__).with_name('theirs.yaml')), a=1)\n"
    )
    with refused("`mark.py:table` is Python code, which runs only if you allow it"):
        make_plan(load_recipe(f"{tmp_path / 'loaded.py'}:recipe"))
    assert not (tmp_path / "ran").exists()
    with refused("own.py` in .*; did you mean|there is no file `own.py`"):
        make_plan(load_recipe(folder / "table.yaml", ["scene=own.py:table"], run_code=True))
    with refused("`../own.py:table` lies outside its folder|there is no file"):
        make_plan(load_recipe(folder / "table.yaml", ["scene=../own.py:table"], run_code=True))


def test_the_command_names_the_code_that_runs(folder, tmp_path):
    out = tmp_path / "plan.parquet"
    files = f"running Python code: {folder / 'scenes.py'}, {folder / 'shapes.py'}\n"
    for source in ([folder / "table.yaml", "--run-code"], [f"{folder / 'scenes.py'}:recipe"]):
        assert run("plan", *source, "--out", out) == f"{files}{out}: 4 samples from 4 traces\n"
    with refused("recipe scenes.py:recip: expected the name of a recipe in that file .recipe. or"):
        load_recipe(f"{folder / 'scenes.py'}:recip")
    with refused("expected a file of Python, there is no .*scene.py"):
        load_recipe(f"{folder / 'scene.py'}:recipe")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scene": None}, "sets.own: expected `layout`, or `scene` with a function, got neither"),
        ({"layout": {"camera": {"location": [0, 5, 3], "look_at": [0, 0, 0]}}}, "with a function, got both"),
    ],
)
def test_a_set_has_a_layout_or_a_scene(fields, message):
    fields = {"name": "own", "factors": {"a": [1, 2]}, "scene": print} | fields
    for make in (load_recipe, lambda fields: Recipe(**fields)):
        with refused(message):
            make(fields)


def test_fields_of_a_single_set_stand_beside_the_name():
    fields = {"factors": {"a": [1, 2]}, "scene": print}
    assert Recipe(name="my-own", **fields) == Recipe(name="my-own", sets={"my_own": fields})
    assert load_recipe({"name": "own", **fields}, ["draws=3", "factors.a=[4]"]).sets["own"].draws == 3
