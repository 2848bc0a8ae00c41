"""Recipes from files, mappings and overrides, and sets that extend others."""

import copy
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256, revise
from candlelight.generators.language.recipe_files import find_recipe, shipped_recipes
from candlelight.generators.language.set_settings import settings
from candlelight.loaders.files.plain_yaml import parse_yaml
from tests.refusals import refused


def own(fields: str = "") -> str:
    return f"name: own\ndescription: d\nsets:\n  own:\n    extends: concepts/albedo\n{fields}"


# ------------------------------------------------------------------------------------------------ files


def test_finds_by_name_and_by_path(tiny):
    assert {"candle", "concepts", "negatives", "demo"} <= shipped_recipes().keys()
    assert find_recipe("candle").name == "candle.yaml"
    assert find_recipe(tiny) == tiny
    with refused(r"recipe `nope.yaml` is neither a file nor shipped; .*candle, .*concepts"):
        load_recipe("nope.yaml")
    with refused("neither a file nor shipped"):
        load_recipe(tiny.parent)


HEAD = "name: x\ndescription: d\n"
LONG = "".join(f"  s{n}: {{extends: s{n + 1}}}\n" for n in range(1500))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sets: [1", "expected YAML"),
        ("[1, 2]", "expected a mapping of fields, got list"),
        ("", "expected a mapping of fields, got NoneType"),
        ("sets: &a {b: *a}", "expected fields of finite depth"),
        (f"{HEAD}sets:\n", "sets: expected a mapping; got None"),
        (f"{HEAD}sets: [1]\n", r"sets: expected a mapping; got \[1\]"),
        (f"{HEAD}sets: {{a: }}\n", r"sets\.a: expected a mapping of fields; got None"),
        (f"{HEAD}assets: [a]\nsets: {{}}\n", r"assets: expected a mapping; got \['a'\]"),
        ("3: 4\n", "recipe own.yaml: "),
        ("name: !!python/object/apply:os.getcwd []", "expected YAML"),
        (own("    draws: 2\n    draws: 3\n"), "expected each field once, got `draws` again in line 7"),
        (f"name: own\nsets:\n{LONG}", r"sets.s\d+.extends: expected at most 50 sets that extend one another"),
        ("name: own\n" + "# comment\n" * 1_000_000, "expected at most 2000000 characters, got 2000001"),
    ],
    ids=range(13),
)
def test_broken_files_give_one_line(write_recipe, text, message):
    with refused(rf"\A.*{message}.*\Z"):
        load_recipe(write_recipe(text))


def test_no_utf8(tmp_path):
    (tmp_path / "own.yaml").write_bytes(b"name: \xff\xfe")
    with refused(r"recipe own.yaml: expected YAML"):
        load_recipe(tmp_path / "own.yaml")


def test_mistyped_names_are_answered_with_the_nearest(write_recipe):
    with refused("did you mean `candle`"):
        load_recipe("candel")
    path = write_recipe("name: own\n")
    with refused(f"did you mean `{path.name}`"):
        load_recipe(path.with_name("onw.yaml"))
    with refused("there is no set `candel`; expected one of candle; did you mean"):
        load_recipe("candle", ["sets.candel.unit_factors=[color]"])


def test_asset_folders_are_relative_to_the_file_or_to_the_working_directory(tiny, tmp_path, monkeypatch):
    tiny.write_text(tiny.read_text() + "assets: {materials: mine}\n")
    monkeypatch.chdir(tmp_path)
    for path in (tiny, Path("tiny.yaml")):
        assert load_recipe(path).assets == {"materials": tmp_path / "mine"}
    assert recipe_sha256(load_recipe(tiny)) == recipe_sha256(load_recipe("tiny.yaml"))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert load_recipe(tiny, assets={"objects": Path("own")}).assets["objects"] == tmp_path / "below" / "own"


def test_revise_checks_the_changed_recipe(tiny):
    assert revise(load_recipe(tiny), seed=4).seed == 4
    with refused(r"seed: .*; got -4"):
        revise(load_recipe(tiny), seed=-4)


def test_recipes_are_immutable(tiny):
    with pytest.raises(ValueError, match="frozen"):
        load_recipe(tiny).seed = 3


def test_the_hash_sees_every_kind_of_change(tiny):
    changes = [
        "seed=1",
        "image.width=64",
        "exposure=2",
        "do.color=red",
        "sets.cubes.factors.size.values=[1, 2]",
    ]
    recipes = [load_recipe(tiny), *(load_recipe(tiny, [change]) for change in changes)]
    assert len(set(map(recipe_sha256, recipes))) == len(recipes)


# ------------------------------------------------------------------------------------------------ mappings


def test_a_mapping_is_the_recipe_that_the_equal_file_is(write_recipe, monkeypatch, tmp_path):
    text = "name: own\nassets: {objects: o}\nsets:\n  a: {extends: concepts/albedo, layers: [image, depth]}\n"
    text += "  b: {extends: a}\n  c: {counterfactual: {of: b, do: [{material: 3}]}}\n"
    path, data = write_recipe(text), parse_yaml(text)
    data["sets"]["a"]["layers"] = ("image", "depth")
    (tmp_path / "o").mkdir()
    before = copy.deepcopy(data)
    monkeypatch.chdir(tmp_path)
    for changes in ([], ["image.width=64", "sets.a.layout.camera.field_of_view=11"]):
        ours = load_recipe(MappingProxyType(data), changes, "draft")
        assert ours == load_recipe(path, changes, "draft")
        assert recipe_sha256(ours) == recipe_sha256(load_recipe(path, changes, "draft"))
    assert data == before
    with refused(r"^recipe \(mapping\): image\.width: .*; got 'wide'"):
        load_recipe({**data, "image": {"width": "wide"}})
    with refused("neither a file nor shipped"):
        load_recipe(text * 20)
    data["sets"]["a"] = data
    with refused(r"^recipe \(mapping\): expected fields of finite depth"):
        load_recipe(data)


def as_numpy(value):
    """Write numbers as numpy does."""
    if isinstance(value, dict):
        return {key: as_numpy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_numpy(item) for item in value]
    return np.asarray(value)[()] if isinstance(value, int | float) else value


@pytest.mark.parametrize("name", ["demo", "candle-confounded-size"])
def test_a_mapping_may_hold_numbers_of_numpy(name):
    numbers = as_numpy(parse_yaml(shipped_recipes()[name].read_text()))
    assert recipe_sha256(load_recipe(numbers)) == recipe_sha256(load_recipe(name))
    arrays = load_recipe({**numbers, "image": {"width": np.array(64), "height": np.int32(48)}})
    assert (arrays.image.width, arrays.image.height) == (64, 48)


# ------------------------------------------------------------------------------------------------ overrides


def test_overrides_reach_nested_fields_and_lists(tiny):
    overrides = ["image.width=64", "sets.cubes.layout.lights.0.power=7", "sets.cubes.factors.size.values.1=3"]
    recipe = load_recipe(tiny, [*overrides, "description=a=b", "seed=1", "seed=2"])
    assert (recipe.image.width, recipe.description, recipe.seed) == (64, "a=b", 2)
    assert recipe.sets["cubes"].layout.lights[0].power == 7
    assert recipe.sets["cubes"].factors["size"].values == (1, 3)


def test_an_override_of_one_set_changes_no_set_that_shares_its_text():
    changed = load_recipe("concepts", ["sets.albedo.layout.camera.field_of_view=11"]).sets
    assert [changed[name].layout.camera.field_of_view for name in ("albedo", "illumination")] == [11, 34]


def test_overrides_reach_keys_with_dots(tiny):
    chance = "sets.cubes.factors.color"
    table = "{1: {red: 1}, 1.5: {red: 1, blue: 3}}"

    def rows(*overrides):
        given = f"{chance}={{values: [red, blue], given: size, table: {table}}}"
        return dict(load_recipe(tiny, [given, *overrides]).sets["cubes"].factors["color"].rows())

    before = rows()
    assert rows(f"{chance}.table.1.5.red=2") == {**before, ("1.5",): {"red": 2, "blue": 3}}
    assert rows(f"{chance}.table.1.5={{blue: 1}}") == {**before, ("1.5",): {"blue": 1}}
    assert rows(f"{chance}.table.1=[0, 1]") == {**before, ("1.0",): (0, 1)}
    objects = "sets.cubes.layout.objects"
    shown = "{choose: $color, among: {a.b: [{type: cube}], red: [], blue: []}}"
    cubes = load_recipe(tiny, [f"{objects}={shown}", f"{objects}.among.a.b.0.type=cone"])
    assert cubes.sets["cubes"].layout.objects.among["a.b"][0].type == "cone"


# ------------------------------------------------------------------------------------------------ presets


@pytest.mark.parametrize(
    ("change", "placed"),
    [
        ("do.x.low=-0.5", "do"),
        ("targets.of.x.low=-0.5", "targets"),
        ("counterfactual.do.0.x.low=-0.5", "what_if"),
        ("factors.y.first.low=-0.5", "first"),
    ],
)
def test_an_override_of_a_field_keeps_the_rest_of_a_mechanism_that_is_a_text(change, placed):
    normal = "normal(0, 1, -2, 2)"
    ranges = {"x": "uniform(-9, 9)", "y": {"value": "previous(y)", "first": normal}}
    base = {"extends": "negatives/negatives", "factors": ranges}
    sets = {
        "s": {**base, "do": {"x": normal}},
        "t": {**base, "targets": {"of": {"x": normal}}},
        "w": {"counterfactual": {"of": "t", "do": [{"x": normal}]}},
    }
    name = {"targets": "t", "what_if": "w"}.get(placed, "s")
    one = load_recipe({"name": "own", "sets": sets}, [f"sets.{name}.{change}"]).sets[name]
    found = {
        "do": lambda: one.do["x"],
        "targets": lambda: one.targets.of["x"],
        "what_if": lambda: one.counterfactual.do[0]["x"],
        "first": lambda: one.factors["y"].first,
    }[placed]()
    assert found == {"mean": 0, "std": 1, "low": -0.5, "high": 2}


def test_an_override_makes_a_label_a_mechanism():
    change = {"extends": "candle/candle", "do": {"color": "red"}}
    overrides = ["sets.s.do.color.weights={red: 1, blue: 3}"]
    recipe = load_recipe({"name": "own", "sets": {"s": change}}, overrides)
    assert recipe.sets["s"].do == {"color": {"weights": {"red": 1, "blue": 3}}}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], ("standard", 16, 4, True)),
        (["render={preset: draft}"], ("draft", 4, 2, True)),
        (["render={preset: reference, samples: 9}"], ("reference", 9, 4, False)),
        (["render={samples: 9}"], ("standard", 9, 4, True)),
        # An override of the preset replaces other fields, and later overrides win.
        (["render={samples: 9}", "render.preset=draft"], ("draft", 4, 2, True)),
        (["render.preset=draft", "render.samples=7"], ("draft", 7, 2, True)),
    ],
)
def test_presets_give_all_fields_that_the_recipe_does_not_give(tiny, overrides, expected):
    render = load_recipe(tiny, overrides).render
    assert (render.preset, render.samples, render.bounces, render.denoise) == expected


def test_a_preset_by_argument_holds_for_every_set(write_recipe):
    path = write_recipe(own("    render: {samples: 5}\n"))
    assert settings(load_recipe(path), "own").render.samples == 5
    chosen = settings(load_recipe(path, ["render.bounces=3"], preset="reference"), "own").render
    assert (chosen.preset, chosen.samples, chosen.bounces) == ("reference", 2048, 3)


# ------------------------------------------------------------------------------------------------ extends


def test_extends_merges_field_by_field(write_recipe):
    base = load_recipe("concepts")
    recipe = load_recipe(write_recipe(own("    draws: 2\n    layout: {camera: {field_of_view: 20}}\n")))
    merged, albedo = recipe.sets["own"], base.sets["albedo"]
    assert (merged.draws, merged.layout.camera.field_of_view) == (2, 20)
    assert merged.layout.camera.location == albedo.layout.camera.location
    assert merged.layout.objects == albedo.layout.objects
    # Fields of the base recipe for all of its sets are inherited, presets are replaced whole.
    assert (merged.render, merged.exposure) == (base.render, base.exposure)
    draft = load_recipe(write_recipe(own("    render: {preset: draft}\n")))
    assert settings(draft, "own").render.samples == 4


def test_fields_of_the_recipe_replace_fields_of_an_extended_recipe(write_recipe):
    fields = "description: d\nexposure: 0.7\nimage: {width: 48, height: 32}\n"
    recipe = load_recipe(write_recipe(own().replace("description: d\n", fields)), ["image.width=64"])
    chosen = settings(recipe, "own")
    assert (chosen.exposure, chosen.image.width) == (0.7, 64)
    assert chosen.render == load_recipe("concepts").render


def test_overrides_of_all_sets_reach_sets_that_extend_another_recipe(write_recipe):
    path = write_recipe(
        "name: own\nsets:\n  a: {extends: b}\n  b: {extends: concepts/albedo}\n"
        "  c: {extends: concepts/albedo, exposure: 0.7}\n"
    )
    recipe = load_recipe(path, ["image.width=64", "exposure=0.5", "render.preset=draft"])
    chosen = [settings(recipe, name) for name in recipe.sets]
    assert [(one.image.width, one.image.height, one.exposure) for one in chosen] == [
        *[(64, 256, 0.5)] * 2,
        (64, 256, 0.7),
    ]
    assert {one.render.samples for one in chosen} == {4}


def test_an_override_of_a_set_reaches_the_sets_that_extend_it(write_recipe):
    path = write_recipe(
        "name: own\nsets:\n  own: {extends: base, draws: 3}\n  base: {extends: candle/candle}\n"
        "  other: {extends: candle/candle}\n"
    )
    changes = ["sets.base.draws=2", "sets.base.factors.size.values=[1]", "sets.own.exposure=0.7"]
    own, base, other = load_recipe(path, changes).sets.values()
    assert (own.draws, base.draws, other.draws) == (3, 2, 1)
    assert [one.factors["size"].listed() == (1,) for one in (own, base, other)] == [True, True, False]
    assert (own.exposure, base.exposure) == (0.7, other.exposure)


def test_a_set_extends_one_of_its_own_recipe(write_recipe):
    chain = (
        "sets:\n  first: {extends: second, shares_units: true, draws: 2}\n"
        "  second: {extends: candle/candle, unit_factors: [color]}\n"
    )
    first, second = load_recipe(write_recipe("name: own\n" + chain)).sets.values()
    assert (first.draws, second.draws) == (2, 1)
    assert first.unit_factors == second.unit_factors == ("color",)
    assert (first.factors, first.shares_units, second.shares_units) == (second.factors, True, False)
    with refused("first extends second extends first, which never ends"):
        load_recipe(write_recipe("name: own\n" + chain.replace("candle/candle", "first")))


@pytest.mark.parametrize("factor", ["{count: 4}", "{low: 0, high: 1, mean: 0, std: 1}"])
def test_extends_replaces_a_factor_whole(write_recipe, factor):
    varied = load_recipe(write_recipe(own(f"    factors: {{temperature: {factor}}}\n"))).sets["own"].factors
    direct = load_recipe("concepts", [f"sets.albedo.factors.temperature={factor}"]).sets["albedo"].factors
    assert varied["temperature"] == direct["temperature"]
    assert list(varied) == list(direct)


def test_extends_replaces_an_intervention_whole():
    base = {
        "do": {"color": {"weights": {"red": 1}}, "size": 2},
        "targets": {"of": {"scene": {"every": "step"}}},
    }
    change = {"do": {"color": {"weights": {"blue": 1}}}, "targets": {"of": {"scene": {"strength": 1}}}}
    sets = {"s": {"extends": "candle/candle", **base}, "t": {"extends": "s", **change}}
    merged = load_recipe({"name": "own", "sets": sets}).sets["t"]
    assert merged.do == {"color": {"weights": {"blue": 1}}, "size": 2}
    assert merged.targets.of == {"scene": {"strength": 1}}


def test_a_set_that_gives_all_factors_gives_their_order(write_recipe):
    def order(names):
        given = "".join(f"      {name}: {{values: [cube]}}\n" for name in names)
        return [*load_recipe(write_recipe(own("    factors:\n" + given))).sets["own"].factors]

    base = [*load_recipe("concepts").sets["albedo"].factors]
    assert order(base[:0:-1]) == base
    assert order(["more", *base[::-1]]) == ["more", *base[::-1]]


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("nope/albedo", r"sets\.own\.extends: expected RECIPE/SET .* or FILE\.yaml/SET .* got `nope/albedo`"),
        ("concepts/nope", r"expected a set of `concepts` \(albedo, illumination\), got `concepts/nope`"),
        ("concepts", r"expected RECIPE/SET of a shipped recipe, FILE\.yaml/SET of your own, or a set"),
        ("none.yaml/own", r"own\.extends: there is no file .*none\.yaml; expected its path relative to"),
        ("own", r"extends: own extends own, which never ends"),
        ("[concepts]", r"extends: expected RECIPE/SET"),
    ],
)
def test_extends_errors(write_recipe, base, message):
    with refused(message):
        load_recipe(write_recipe(own().replace("concepts/albedo", base)))


def test_extends_takes_a_file_relative_to_the_file_that_names_it(tmp_path, monkeypatch):
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    files = {
        "shared/base.yaml": "name: base\nexposure: 0.7\nassets: {materials: mine}\n"
        "sets:\n  first: {extends: rest.yml/last}\n",
        "shared/rest.yml": "name: rest\n"
        "sets:\n  last: {extends: candle/candle, draws: 3}\n  other: {extends: ../own.yaml/own}\n",
        "own.yaml": "name: own\nsets:\n  own: {extends: shared/base.yaml/first, unit_factors: [color]}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("own.yaml")
    assert (recipe.sets["own"].draws, settings(recipe, "own").exposure) == (3, 0.7)
    assert recipe.assets == {"materials": tmp_path / "shared" / "mine"}
    assert load_recipe("own.yaml", assets={"materials": tmp_path}).assets == {"materials": tmp_path}


def test_files_that_extend_each_other_or_bring_different_folders_are_refused(tmp_path):
    for name, other in (("a", "b"), ("b", "a")):
        text = f"name: {name}\nassets: {{objects: {name}}}\n"
        text += f"sets:\n  s: {{extends: candle/candle}}\n  t: {{extends: {other}.yaml/t}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    with refused(r"recipe b\.yaml: .*a\.yaml/t extends t extends a\.yaml/t, which never"):
        load_recipe(tmp_path / "a.yaml")
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nsets:\n  one: {extends: a.yaml/s}\n  two: {extends: b.yaml/s}\n")
    with refused(r"sets\.two\.extends: b\.yaml has objects in .*b, another file .* in .*a;"):
        load_recipe(path)


def test_recipes_check_their_captions_and_keep_their_hash():
    recipe = load_recipe("toy-confounded")
    captioned = load_recipe("toy-confounded", ["caption=a {color} {object_type}"])
    assert captioned.sets["toys"].caption == "a {color} {object_type}"
    assert recipe_sha256(captioned) == recipe_sha256(recipe)
    with refused(r"sets.toys.caption: `colour` is no factor of this set; did you mean `color`\?"):
        load_recipe("toy-confounded", ["caption=a {colour}"])
