"""The language of recipes: each wrong field is refused in one line that names the field and its value."""

import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from tests.refusals import refused

RECIPE = """
name: trial
description: A factor of each kind.
sets:
  s:
    factors:
      kind: {assets: objects, values: [cube, sphere]}
      color: {values: [red, blue], assets: materials}
      tone: {values: [1, 2], given: kind, table: {cube: [1, 0], sphere: {1: 1, 2: 3}}}
      size: {low: 1, high: "1.5 if kind == 'cube' else 2"}
    variables:
      x: {low: 0, high: 1}
    layout:
      objects: [{type: $kind, material: $color, size: $size}]
      lights: [{}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.5]}
"""
HUGE = "1" + "0" * 400
SCATTER = "layout.scatter={count: 2, types: [cube], size: [0.5, 1], region: [-1, 1, -2, 2]}"
NAME = "expected lower-case letters, digits and _, starting with a letter"
MATERIAL, OBJECT = "layout.objects.0.material=", "layout.objects.0="
CHOICE = "layout.lights={choose: $kind, among: {cube: [{}], sphere: [{}]}}"


@pytest.fixture
def load(write_recipe):
    def read(*overrides):
        return load_recipe(write_recipe(RECIPE), overrides)

    return read


def check(load, override, message):
    with refused(rf"\A(?=.{{,600}}\Z).*{message}.*\Z"):
        make_plan(load(override))


FACTORS = [
    ("Tone={count: 2}", rf"factors\.Tone: {NAME}; got 'Tone'$"),
    ("albedo={count: 2}", r"factors\.albedo: the name is taken by a column"),
    ("x={count: 2}", r"variables\.x: there is a factor of that"),
    ("pi={low: 0, high: 1}", "`pi` is a number in expressions"),
    # lists of values
    ("kind=3", r"kind: expected a list \(`values`, .*\), a range \(.*\) or text .*; got 3"),
    ("kind={}", r"factors\.kind: expected `values`, `count` or `assets`, got none"),
    ("kind={assets: meshes}", r"factors\.kind\.assets: .*'objects'.*got 'meshes'"),
    ("kind={count: 2, assets: objects}", "expected `count` or `assets`, got both"),
    ("kind={assets: code}", "kind: expected `values`, labels such as knots.py:trefoil, with `assets: code`"),
    ("kind={count: 0}", r"factors\.kind\.count: .*greater than or equal to 1; got 0"),
    ("kind={count: 1000000000000}", r"kind\.count: .*less than or equal to 1000000"),
    ("kind.count=3", r"factors\.kind: expected `values` or `count`, got both"),
    ("kind.values=[]", r"factors\.kind: expected distinct values, at least one, got \[\]"),
    ("kind.values=[1, a]", r"sets\.s\.factors\.kind: expected names or numbers"),
    ("color.values=[red, pink]", r"sets\.s: factors\.color: asset `pink` is not among the"),
    ("tone.values=['1', '01']", "tone: expected distinct values"),
    ("tone.values=[1, null]", r"tone\.values\.1: expected a name or a number, got None"),
    ("tone.values=[true, false]", r"tone\.values\.0: .* got True; put a name such as 'true' in quotes"),
    ("tone.values=[1, .nan]", r"tone\.values\.1: expected a finite number, got nan"),
    (f"tone.values=[1, {HUGE}]", r"tone\.values\.1: expected a whole number of at most 2\^53"),
    # weights and tables
    ("tone.weights=[red]", r"weights: expected a mapping .* got \['red'\]"),
    ("tone.weights={1: -1}", r"weights: expected finite weights of at least 0, got -1"),
    ("tone.weights=[1, 2, 3]", r"tone\.weights: expected 2 weights, one for each of 1, 2, got 3"),
    ("tone.weights=[1.0e+308, 1.0e+308]", "weights: expected finite weights of at least 0"),
    ("tone.table={null: [1]}", r"tone\.table: expected names or numbers as keys, got None"),
    ("tone.table={true: [1]}", r"tone\.table: expected names or numbers as keys, got True"),
    ("tone.table={2: [1], '2': [2]}", "expected distinct keys, got"),
    ("tone.table={cube: [1, 0]}", r"`tone`\.table: expected a row for kind=sphere, got none"),
    ("tone.table={cube: null}", r"table\.cube: expected a mapping from value to weight .* got None"),
    ("tone.table={cube: [[1]]}", r"table\.cube: expected finite weights of at least 0, got \[1\]"),
    ("tone.table={cube: [true]}", r"table\.cube: expected finite weights of at least 0, got True"),
    ("tone.table={cube: []}", r"table\.cube: expected weights with a sum above 0"),
    ("tone.table={cube: {1: 0}}", r"table\.cube: expected weights with a sum above 0"),
    ("tone.table={cube: {1: .nan}}", r"table\.cube: expected finite weights of at least 0, got nan"),
    ("tone.table={cube: {1: .inf}}", r"table\.cube: expected finite weights"),
    (f"tone.table={{cube: {{1: {HUGE}}}}}", r"table\.cube: expected finite weights"),
    ("tone.table={cube: {1: {2: 1}}}", r"expected finite weights of at least 0, got \{'2.0': 1\}"),
    ("tone.table.sphere={pink: 1}", r"tone\.table\.sphere: expected weights of values among .*pink"),
    ("tone.table=&a {cube: *a}", r"`overrides` .*table: expected a YAML value"),
    ("tone.table=" + "[" * 1200, r"`overrides` .*table: expected a YAML value, got `\[{60}`$"),
    ("tone.given=[kind, kind]", r"given: expected distinct names, got \['kind', 'kind'\]"),
    ("tone.given=[kind, size]", r"table\.cube: expected a row for each value of `size`, got \[1, 0\]"),
    ("tone.given=Kind", rf"given\.0: {NAME}, or previous\(NAME\); got 'Kind'$"),
    ("tone.given=cube", r"tone: `cube` is no factor or variable; expected one of: [^;]*$"),
    ("tone.given=size", r"tone\.given: expected categorical names, got `size`"),
    ("tone.strength=1.5", "strength.*less than or equal to 1"),
    ("kind={values: [a], given: tone, table: {1: [1], 2: [1]}}", "graph without cycles, got .*tone.*kind"),
    # ranges
    ("size={low: 1}", r"size: expected `low` and `high` together, or `value` with an expression alone"),
    ("size={low: 2, high: 1}", r"factors\.size: expected low <= high, got 2\.0 and 1"),
    ("size={low: 0, high: .inf}", r"factors\.size\.high: .*finite number, got inf"),
    ("size={low: -1.0e+308, high: 1.0e+308}", "`size`: expected a finite range"),
    ("size={low: 0, high: 1, mean: 3, std: 1}", r"expected the mean within \[0\.0, 1\.0\], got 3"),
    ("size={low: 0, high: 1, mean: 1, std: 0}", r"size\.std: expected more than 0, got 0"),
    ("size=uniform(1)", r"size: expected uniform\(low, high\), got `uniform\(1\)`"),
    ("size=uniform(1", r"expected `\)` at the end, got `uniform\(1`; inside \{\} the text stands in quotes"),
    ("size=normal(1, , 2)", r"size: expected expressions with commas between them, got `1, , 2`"),
    ("size=red", r"size: `red` is no factor or variable; expected one of"),
    ("size={mean: 0, std: 1}", r"expected a list .* a range \(`low`, `high`\) .*; got \['mean', 'std'\]"),
    ("size.values=[1]", r"size: expected a list .* a range .*; got \['low', 'high', 'values'\]"),
    ("size={low: 1, high: 2, values: [1], given: kind}", r"got \['low', 'high', 'values', 'given'\]$"),
    (
        "size={low: -80, high: 80, given: kind, strength: 0.8}",
        r"factors\.size: `given`, `table`, `strength` and `weights` belong to lists of values; a range "
        r"depends on others through expressions such as `mean: \"40 if style == 'a' else -40\"`",
    ),
    ("size.mean=1", r"factors\.size: expected `mean` and `std` together"),
    (f"size.low={HUGE}", r"size\.low: expected a whole number of at most 2\^53"),
    ("size.low=3", "`size`: expected low <= high, got 3"),
    ("size={low: 0, high: 1, mean: 0, std: 0 * x}", "`size`: std: expected more than 0"),
    ("size={low: 0, high: 1 + x, mean: 100, std: 1}", r"expected a normal distribution that reaches \[0, 1"),
    ("size.high=1 / (x - x)", r"`size`: `1 / \(x - x\)` cannot be evaluated"),
    ("size.high=import os", r"factors\.size\.high: expected an expression"),
    ("size.low=max", "size: `max` is no factor or variable"),
    ("size.high=2 if kind == 'cubee' else 3", r"size\.high: `kind` is compared with 'cubee'"),
    ("size.high=2 if 'a' != x else 3", r"`x` is compared with 'a'; expected one of numbers"),
    ("size.high=2 if tone == '1' else 3", r"`tone` is compared with '1'; expected one of 1, 2"),
    (
        "size.high=2 if kind == cube else 3",
        r"size: `cube` is no .*; names of values stand in quotes: 'cube'$",
    ),
    ("size.high=2 if kin == 'cube' else 3", r"size: `kin` is no factor .*expected one of: [^;]*$"),
]


@pytest.mark.parametrize(("override", "message"), FACTORS)
def test_wrong_factors(load, override, message):
    check(load, f"sets.s.factors.{override}", message)


def test_labels_of_assets_are_values_that_stand_in_quotes(load):
    factors = "kind: {assets: objects}, color: {count: 2}, size: {low: 0, high: 2 if kind == torus else 3}"
    check(load, f"sets.s.factors={{{factors}}}", r"size: `torus` is no factor .*stand in quotes: 'torus'$")


SETS = [
    ("colour=red", r"sets\.s\.colour: there is no such field"),
    ("draws=0", r"sets\.s\.draws: .*greater than or equal to 1; got 0"),
    ("grid=[size]", "grid: expected names of categorical factors, got `size`"),
    ("grid=[kind, kind]", r"grid: expected distinct factors, got \['kind', 'kind'\]"),
    ("unit_factors=[tone]", "unit_factors: expected factors of the grid, got `tone`"),
    ("unit_factors=[shape]", "unit_factors: expected names of categorical factors, got `shape`"),
    ("varies=[shape]", "varies: expected names of categorical factors, got `shape`"),
    ("layers=[image, albdo]", r"sets\.s\.layers: layer `albdo` is not known; expected one of"),
    ("layers=[image, all]", "layers: layer `all` is not known"),
    ("layers=[image, light/key]", r"layers: expected `light/\*`, .* got `light/key`"),
    ("layers=[depth]", r"sets\.s\.layers: expected distinct names, `image` among them"),
    ("layers=[image, depth, depth]", r"sets\.s\.layers: expected distinct names"),
    ("layers=image", r"s\.layers: expected a list of layers, or `all`; got 'image'"),
    ("image={width: 4}", r"sets\.s\.image\.width: .*greater than or equal to 8; got 4"),
    ("exposure=0", r"sets\.s\.exposure: .*greater than 0; got 0"),
    # rules
    ("rules=[{exclude: {tone: 1}}]", "rules.0: expected `target`.* or `selection: true`, got neither"),
    ("rules=[{exclude: {tone: 1}, target: tone, selection: true}]", "got both"),
    ("rules=[{exclude: {tone: 1}, target: kind}]", "target: expected one of tone, got `kind`"),
    (
        "rules=[{exclude: {size: 3}, selection: true}]",
        "rules.0.exclude: expected categorical names, got `size`",
    ),
    ("rules=[{exclude: {tone: '1'}, target: tone}]", r"exclude\.tone: expected some of 1, 2, got \['1'\]"),
    ("rules=[{exclude: {tone: []}, target: tone}]", r"rules\.0\.exclude\.tone: .* at least 1 item"),
    ("rules=[{exclude: {tone: null}, target: tone}]", r"exclude\.tone\.0: expected a name or a number"),
    ("rules=[{exclude: {}, selection: true}]", "at least 1"),
    ("rules=[{exclude: {kind: [cube, sphere]}, selection: true}]", "they leave no cell of the grid"),
    (
        "rules=[{exclude: {color: red, kind: cube}, target: color}, {exclude: {color: blue}, target: color}]",
        "leave no value of `color` where kind=cube",
    ),
    (
        "rules=[{exclude: {color: red, kind: cube}, target: color}, "
        "{exclude: {kind: sphere, color: blue}, target: kind}]",
        "expected a graph without cycles",
    ),
    # layouts
    ("layout.objects.0.type=blob", r"sets\.s: layout\.objects\.0\.type: asset `blob` is not among"),
    ("layout.objects.0.location=[0]", r"layout\.objects\.0\.location\.1: the field is required"),
    ("layout.lights.0.power=$watts", r"`\$watts` is no factor or variable; expected one of: kind, color"),
    ("layout.lights.0.power=strong", r"layout\.lights\.0\.power: expected a number or \$variable; got"),
    ("layout.lights.0.power=true", r"lights\.0\.power: expected a number or \$variable; got True"),
    (
        "layout.lights.0.power=$size * 2",
        r"layout\.lights\.0\.power: a layout takes plain \$names; make a variable with `value: size \* 2`, "
        r"and its `low` and `high`; got '\$size \* 2'$",
    ),
    (
        "layout.objects.0.location=[2 * $size + $size, 0]",
        r"objects\.0\.location\.0: a layout takes plain \$names; .* `value: 2 \* size \+ size`",
    ),
    ("layout.lights=[]", "layout: expected `lights` or an `environment`"),
    ("layout.lights.0={asset: left, power: 3}", r"a light asset decides .* expected no power with it"),
    ("layout.lights.0={asset: left, kind: spot}", "a light asset decides .* expected no kind"),
    (
        "layout.lights.0={temperature: 3000, color: [1, 1, 1]}",
        "one of `temperature`, .*got temperature, color",
    ),
    ("layout.lights.0={cone: 30}", r"lights\.0\.cone: belongs to `kind: spot`, got `kind: point`"),
    (
        "layout.lights.0={kind: sun, power: 5, aim: [0, 0, 1]}",
        r"0\.aim: a sun shines by azimuth and elevation",
    ),
    (
        "layout.lights.0={kind: sun, power: 5, distance: 9}",
        r"distance: belongs to `kind: point or spot or area`",
    ),
    (
        "layout.lights.0={kind: sun}",
        r"0\.power: expected the irradiance of the sun in W/m2, as in `power: 5`",
    ),
    (
        "layout.lights.0={kind: area, radius: 0.1}",
        r"radius: belongs to `kind: point or spot`, got `kind: area`",
    ),
    ("layout.lights.0={kind: area, size: [1]}", r"lights\.0\.size\.1: the field is required"),
    ("layout.lights.0={color: {saturation: 1}}", "hue"),
    ("layout.lights.0={kind: ring}", "'point', 'spot', 'area' or 'sun'"),
    ("layout.random_material={low: 0.9, high: 0.1}", r"random_material: expected low <= high, got 0\.9"),
    ("layout.random_material={textures: []}", r"random_material\.textures: .*at least 1 item.*got \[\]"),
    (
        "layout.floor={catcher: true, random_material: {}}",
        "a shadow catcher shows the environment and no mat",
    ),
    ("layout.floor={catcher: true, material: red}", "a shadow catcher .* expected no `material`"),
    (
        "layout.floor={material: red, random_material: {}}",
        "expected `material` or `random_material`, got both",
    ),
    (SCATTER, "layout: expected `objects` or `scatter`, got both"),
    (SCATTER.replace("-1, 1", "1, -1"), "region: expected x low <= x high"),
    (SCATTER.replace("-2, 2", "2, 1"), "region: expected x low <= x high and y low <= y high"),
    (SCATTER.replace("0.5, 1", "1, 0.5"), "size: expected 0 < low <= high"),
    (SCATTER.replace("0.5, 1", "0, 1"), "size: expected 0 < low <= high"),
    (SCATTER.replace("[cube]", "[]"), "at least 1 item"),
    (SCATTER.replace("{count", "{gap: -1, count"), "greater than or equal to 0"),
    # stated materials
    (f"{MATERIAL}3", "expected the label of a material, or a mapping such as .*; got 3"),
    (f"{MATERIAL}{{}}", "expected `base_color` alone, or `texture`, `color_a` and `color_b`"),
    (f"{MATERIAL}{{texture: dots, color_a: [1, 1, 1]}}", "expected `base_color` alone, or `texture`"),
    (f"{MATERIAL}{{base_color: [0, 0, 0], color_a: [1, 1, 1]}}", "expected `base_color` alone, or"),
    (f"{MATERIAL}{{base_color: [0, 0, 5]}}", "base_color: expected channels of 0 to 1, got"),
    *(
        (
            f"{MATERIAL}{{base_color: [0, 0, 1], {name}: {value}}}",
            rf"layout\.objects\.0\.material\.{name}: expected {limits}, got {value}",
        )
        for name, value, limits in (
            *((name, 1.2, "0 to 1") for name in ("roughness", "specular", "metallic", "transmission")),
            ("ior", 0.9, "1 to 3"),
        )
    ),
    (
        f"{MATERIAL}{{texture: dots, color_a: [1, 0, 0], color_b: [0, 0, 5]}}",
        "color_b: expected channels of 0",
    ),
    (f"{MATERIAL}{{texture: tartan, color_a: [1, 0, 0], color_b: [0, 0, 1]}}", "asset `tartan` is not among"),
    # own code
    (f"{OBJECT}{{}}", r"objects\.0: expected `type`, or `build` .*, got neither"),
    (f"{OBJECT}{{type: cube, build: a.py:f}}", r"objects\.0: expected `type`, or `build` .*, got both"),
    (f"{OBJECT}{{type: cube, numbers: {{x: 1}}}}", r"objects\.0\.numbers: expected `build` as well"),
    (f"{OBJECT}{{build: a.py}}", r"objects\.0\.build: expected FILE.py:FUNCTION or \$name, got `a.py`"),
    (
        f"{OBJECT}{{build: a.py:f, numbers: {{x y: 1}}}}",
        "expected names of a function's arguments, got 'x y'",
    ),
    (f"{OBJECT}{{build: a.py:f, numbers: {{x: true}}}}", r"numbers\.x: expected a number, a label or \$name"),
    (f"{OBJECT}{{build: a.py:f, numbers: {{x: $z}}}}", r"layout: `\$z` is no factor or variable"),
    (f"{OBJECT}{{build: a.py:f, numbers: {{x: $x * 2}}}}", r"a layout takes plain \$names"),
    (f"{OBJECT}{{build: a.py:f, anchor: center}}", r"objects\.0\.anchor: expected `base`, the origin of the"),
    (f"{OBJECT}{{build: a.py:f}}", r"build: `a.py:f` is Python code, which runs only if you allow it"),
    (f"{OBJECT}{{build: $kind}}", r"objects\.0\.build: expected FILE.py:FUNCTION, got `cube`"),
    (f"{MATERIAL}a.py:f", r"objects\.0\.material: `a.py:f` is Python code, which runs only if you allow it"),
    (f"{MATERIAL}{{build: a.py:f}}", r"material\.build: `a.py:f` is Python code"),
    (f"{MATERIAL}{{build: a.py:f, base_color: [1, 0, 0]}}", r"material\.base_color: there is no such field"),
    # choices
    (
        CHOICE.replace("sphere", "cone"),
        r"layout\.lights\.among: .* each value of `kind`, got none for sphere",
    ),
    ("layout.material={choose: $kind, among: {cube: null}}", r"layout\.material\.among: .*none for sphere"),
    (
        "layout.camera={choose: $kind, among: {cube: {}}}",
        r"layout\.camera\.among\.cube\.location: the field is",
    ),
    (
        "layout.camera={choose: $kind, among: {cube: {location: [0, 5, 2], look_at: [0, 0, 0]}}}",
        r"layout\.camera\.among: .* each value of `kind`, got none for sphere",
    ),
    (
        "layout.floor.material={choose: $kind, among: {cube: null}}",
        r"floor\.material\.among: .*none for sphere",
    ),
    (CHOICE.replace("[{}]", "[]", 1), r"lights\.among\.cube: "),
    (CHOICE.replace("$kind", "kind"), r"layout\.lights\.choose: expected `\$name`"),
    (CHOICE.replace("$kind", "$lantern"), r"layout: `\$lantern` is no factor or variable"),
    (CHOICE.replace("$kind", "$size"), "which has a range"),
    (CHOICE.replace("choose", "chose"), r"lights\.chose: there is no such field; .* did you mean `choose`"),
]


@pytest.mark.parametrize(("override", "message"), SETS)
def test_wrong_fields_of_a_set(load, override, message):
    check(load, f"sets.s.{override}", message)


RECIPES = [
    ("imgae={width: 8}", "imgae: there is no such field"),
    ("image.width=wide", r"image\.width: .*integer.*; got 'wide'"),
    ("seed=-1", r"seed: .*greater than or equal to 0; got -1"),
    ("name=My Set", r"name: expected lower-case letters, digits and hyphens, .*; got 'My Set'"),
    ("render.preset=fine", r"render\.preset: input should be 'draft', 'standard' or 'ref"),
    ("render.preset=[draft]", r"render\.preset: input should be 'draft', 'standard' or 'ref"),
    ("assets.materials=x", r"`overrides` assets\.materials: expected `assets` KIND=FOLDER"),
    ("sets={}", "sets: .*at least 1 item"),
    ("sets.My Set.draws=1", "there is no set `My Set`; expected one of s"),
    # paths of overrides
    ("seed", "`overrides`: expected FIELD=VALUE as in image.width=64, got `seed`"),
    ("=3", "`overrides`: expected FIELD=VALUE"),
    ("seed=[1", r"`overrides` seed: expected a YAML value, got `\[1`"),
    ("sets.s.layout.lights.3.power=1", "expected a position from 0 to 0, got `3`"),
    ("sets.s.layout.lights.key.power=1", "expected a position from 0 to 0, got `key`"),
    ("sets.s.factors.tone.values.2=1", "expected a position from 0 to 1, got `2`"),
    ("sets.s.factors.tone.values.²=1", "expected a position from 0 to 1, got `²`"),
    ("sets.s.factors.tone.values.0.a=1", "expected fields above `a`, got the value 1"),
    ("sets.s.factors.tone.values.0.a.b=1", "expected fields above `a`, got the value 1"),
    # interventions
    ("do.shape=cube", "do: `shape` is no factor or variable of any set$"),
    ("do.colour=red", r"do: `colour` is no factor .*; did you mean `color`\?"),
    ("do.color=bleu", r"sets\.s: do\.color: expected one of red, blue, got 'bleu'; did you mean `blue`\?"),
    ("do.tone=3", r"sets\.s: do\.tone: expected one of 1, 2, got 3"),
    ("do.size=left", r"sets\.s: do: factors\.size: `left` is no factor or variable; expected one of"),
    ("do.x=true", r"do\.x: expected a name or a number, got True; put a name such as 'true' in quotes"),
    ("sets.s.do.colour=red", "do: `colour` is no factor or variable of this set; did you mean `color`"),
    # counterfactuals
    ("sets.t={counterfactual: 3}", r"t\.counterfactual\.of: expected one of s, got 3"),
    (
        "sets.t={counterfactual: {of: [], do: [{x: 1}]}}",
        r"t\.counterfactual\.of: expected one of s, got \[\]",
    ),
    ("sets.t={counterfactual: {of: t, do: [{x: 1}]}}", r"counterfactual\.of: expected one of s, got 't'"),
    ("sets.t={draws: 3, counterfactual: {of: s, do: [{x: 1}]}}", r"sets\.t"),
    (
        "sets.t={counterfactual: {of: s, do: [{size: 1}, {color: bleu}]}}",
        r"sets\.t: counterfactual\.do\.1\.color: expected .* did you mean `blue`\?",
    ),
]


@pytest.mark.parametrize(("override", "message"), RECIPES)
def test_wrong_fields_of_a_recipe(load, override, message):
    check(load, override, message)


def test_errors_of_a_recipe_name_it(load):
    with refused(r"\Arecipe own.yaml: sets\.s\.colour"):
        load("sets.s.colour=red")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("x", "{low: 0, high: 1}"),
        ("tone", "{values: [1, 2], given: kind, table: {cube: [1, 0], sphere: {1: 1, 2: 3}}}"),
    ],
)
def test_a_factor_or_variable_is_names_or_numbers_in_all_sets(write_recipe, name, field):
    # One column of a plan holds it for every set.
    second = RECIPE.split("  s:\n")[1].replace(field, "{values: [a, b]}")
    with refused(f"`{name}`: expected names in every set or numbers in every set, got both"):
        load_recipe(write_recipe(RECIPE + "  t:\n" + second))


def test_light_layers_and_catcher_exclude_each_other(load):
    light = "layers=[image, light/*]"
    load(light, "sets.s.layout.floor={}")
    with refused(r"sets\.s\.layers: light layers are black on a shadow catcher"):
        load(light, "sets.s.layout.floor={catcher: true}")


# -------------------------------------------------------------------------- accepted all the same


def test_tables_and_expressions_may_name_values_that_the_factor_lacks(load):
    plan = make_plan(load("sets.s.factors.kind.values=[sphere]", "sets.s.draws=40"))
    assert {sample.factors["tone"] for sample in plan.samples} == {1, 2}
    assert max(sample.factors["size"] for sample in plan.samples) > 1.5


def test_a_factor_may_be_called_like_a_function(load):
    recipe = load("sets.s.factors.max={low: 2, high: 3}", "sets.s.factors.size.high=max(max, 2.5)")
    assert recipe.sets["s"].causal_parents()["size"] == ("max",)
    assert all(sample.factors["size"] <= 3 for sample in make_plan(recipe).samples)


def test_an_override_finds_rows_of_numbers(load):
    table = "sets.s.factors.tone.table={cube: {1: 1, 2: 1}, sphere: [0, 1]}"
    rows = load(table, "sets.s.factors.tone.table.cube.2=5").sets["s"].factors["tone"].rows()
    assert rows["cube",] == {"1.0": 1.0, "2.0": 5.0}
