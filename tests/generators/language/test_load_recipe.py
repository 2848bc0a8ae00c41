import copy
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256, revise
from candlelight.generators.language.recipe_files import find_recipe, shipped_recipes
from candlelight.generators.language.set_settings import settings
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.plain_yaml import parse_yaml


def test_the_recipes_in_the_documents_are_shipped():
    assert {"candle", "concepts", "negatives", "demo"} <= shipped_recipes().keys()
    for name in shipped_recipes():
        assert load_recipe(name).name == name


def test_finds_by_name_and_by_path(tiny):
    assert find_recipe("candle").name == "candle.yaml"
    assert find_recipe(tiny) == tiny
    with pytest.raises(
        InputError, match=r"recipe `nope.yaml` is neither a file nor shipped; .*candle, .*concepts"
    ):
        load_recipe("nope.yaml")
    with pytest.raises(InputError, match="neither a file nor shipped"):
        load_recipe(tiny.parent)


BROKEN = {
    "cut off": ("sets: [1", "expected YAML"),
    "tab": ("sets:\n\t- 1", "expected YAML"),
    "list": ("[1, 2]", "expected a mapping of fields, got list"),
    "nothing": ("", "expected a mapping of fields, got NoneType"),
    "inside itself": ("sets: &a {b: *a}", "expected fields of finite depth"),
    "no sets": ("name: x\ndescription: d\nsets:\n", r"sets: expected a mapping; got None"),
    "sets in a list": (
        "name: x\ndescription: d\nsets: [1]\n",
        r"sets: expected a mapping; got \[1\]",
    ),
    "empty set": (
        "name: x\ndescription: d\nsets: {a: }\n",
        r"sets\.a: expected a mapping of fields; got None",
    ),
    "assets in a list": (
        "name: x\ndescription: d\nassets: [a]\nsets: {}\n",
        r"assets: expected a mapping; got \['a'\]",
    ),
    "number for a name": ("3: 4\n", r"recipe own.yaml: "),
    "python object": ("name: !!python/object/apply:os.getcwd []", "expected YAML"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_give_one_line(write_recipe, case):
    text, message = BROKEN[case]
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(write_recipe(text))
    assert "\n" not in str(caught.value)


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
    with pytest.raises(InputError, match=r"^recipe \(mapping\): image\.width: .*; got 'wide'"):
        load_recipe({**data, "image": {"width": "wide"}})
    with pytest.raises(InputError, match="neither a file nor shipped"):
        load_recipe(text * 20)


def as_numpy(value):
    """Write numbers as numpy does."""
    if isinstance(value, dict):
        return {key: as_numpy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_numpy(item) for item in value]
    return np.asarray(value)[()] if isinstance(value, int | float) else value


@pytest.mark.parametrize("name", ["demo", "candle-confounded-size"])
def test_a_mapping_may_hold_numbers_of_numpy(name):
    shipped = load_recipe(name)
    numbers = as_numpy(parse_yaml(shipped_recipes()[name].read_text()))
    assert recipe_sha256(load_recipe(numbers)) == recipe_sha256(shipped)
    arrays = load_recipe({**numbers, "image": {"width": np.array(64), "height": np.int32(48)}})
    assert (arrays.image.width, arrays.image.height) == (64, 48)


def test_a_mapping_inside_itself_gives_one_line():
    data = {"name": "own", "sets": {}}
    data["sets"]["a"] = data
    with pytest.raises(InputError, match=r"^recipe \(mapping\): expected fields of finite depth"):
        load_recipe(data)


def test_no_utf8(tmp_path):
    (tmp_path / "own.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(InputError, match=r"recipe own.yaml: expected YAML"):
        load_recipe(tmp_path / "own.yaml")


def test_overrides_reach_nested_fields_and_lists(tiny):
    overrides = ["image.width=64", "sets.cubes.layout.lights.0.power=7", "sets.cubes.factors.size.values.1=3"]
    cubes = load_recipe(tiny, overrides).sets["cubes"]
    assert load_recipe(tiny, overrides).image.width == 64
    assert cubes.layout.lights[0].power == 7
    assert cubes.factors["size"].values == (1, 3)
    assert load_recipe(tiny, ["description=a=b"]).description == "a=b"
    assert load_recipe(tiny, ["seed=1", "seed=2"]).seed == 2


def test_an_override_of_one_set_changes_no_set_that_shares_its_text():
    field = "layout.camera.field_of_view"
    changed = load_recipe("concepts", [f"sets.albedo.{field}=11"]).sets
    assert [changed[name].layout.camera.field_of_view for name in ("albedo", "illumination")] == [11, 34]
    changed = load_recipe("demo", ["sets.tabletop.factors.count.values=[2]"]).sets
    assert changed["tabletop"].factors["count"].values == (2,)
    assert changed["tabletop_test"] == load_recipe("demo").sets["tabletop_test"]


def test_overrides_reach_keys_with_dots(tiny):
    chance = "sets.cubes.factors.color"
    table = (
        f"{chance}={{values: [red, blue], given: size, table: {{1: {{red: 1}}, 1.5: {{red: 1, blue: 3}}}}}}"
    )

    def rows(*overrides):
        return dict(load_recipe(tiny, [table, *overrides]).sets["cubes"].factors["color"].rows())

    before = rows()
    assert rows(f"{chance}.table.1.5.red=2") == {**before, ("1.5",): {"red": 2, "blue": 3}}
    assert rows(f"{chance}.table.1.5={{blue: 1}}") == {**before, ("1.5",): {"blue": 1}}
    assert rows(f"{chance}.table.1=[0, 1]") == {**before, ("1.0",): (0, 1)}
    objects = "sets.cubes.layout.objects"
    shown = "{choose: $color, among: {a.b: [{type: cube}], red: [], blue: []}}"
    cubes = load_recipe(tiny, [f"{objects}={shown}", f"{objects}.among.a.b.0.type=cone"])
    assert cubes.sets["cubes"].layout.objects.among["a.b"][0].type == "cone"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", r"`overrides`: expected FIELD=VALUE as in image.width=64, got `seed`"),
        ("=3", r"`overrides`: expected FIELD=VALUE"),
        ("seed=[1", r"`overrides` seed: expected a YAML value, got `\[1`"),
        ("sets.cubes.layout.lights.3.power=1", r"expected a position from 0 to 0, got `3`"),
        ("sets.cubes.layout.lights.key.power=1", r"expected a position from 0 to 0, got `key`"),
        ("sets.cubes.factors.size.values.2=1", r"expected a position from 0 to 1, got `2`"),
        ("sets.cubes.factors.size.values.²=1", r"expected a position from 0 to 1, got `²`"),
        ("sets.cubes.factors.size.values.0.a=1", r"expected fields above `a`, got the value 1"),
        ("sets.cubes.factors.size.values.0.a.b=1", r"expected fields above `a`, got the value 1"),
    ],
)
def test_override_errors(tiny, override, message):
    with pytest.raises(InputError, match=message):
        load_recipe(tiny, [override])


def test_asset_folders_are_relative_to_the_file_or_to_the_working_directory(tiny, tmp_path, monkeypatch):
    tiny.write_text(tiny.read_text() + "assets: {materials: mine}\n")
    monkeypatch.chdir(tmp_path)
    for path in (tiny, Path("tiny.yaml")):
        assert load_recipe(path).assets == {"materials": tmp_path / "mine"}
    assert recipe_sha256(load_recipe(tiny)) == recipe_sha256(load_recipe("tiny.yaml"))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert load_recipe(tiny, assets={"objects": Path("own")}).assets["objects"] == tmp_path / "below" / "own"


def own(fields: str) -> str:
    return f"name: own\ndescription: d\nsets:\n  own:\n    extends: concepts/albedo\n{fields}"


def test_extends_merges_field_by_field(write_recipe):
    base = load_recipe("concepts")
    recipe = load_recipe(write_recipe(own("    draws: 2\n    layout: {camera: {field_of_view: 20}}\n")))
    assert recipe.sets["own"].draws == 2
    assert recipe.sets["own"].layout.camera.field_of_view == 20
    assert recipe.sets["own"].layout.camera.location == base.sets["albedo"].layout.camera.location
    assert recipe.sets["own"].layout.objects == base.sets["albedo"].layout.objects
    # Fields of the base recipe for all of its sets are inherited.
    assert (recipe.sets["own"].render, recipe.sets["own"].exposure) == (base.render, base.exposure)


def test_fields_of_the_recipe_replace_fields_of_an_extended_recipe(write_recipe):
    fields = "description: d\nexposure: 0.7\nimage: {width: 48, height: 32}\n"
    text = own("").replace("description: d\n", fields)
    recipe = load_recipe(write_recipe(text), ["image.width=64"])
    assert settings(recipe, "own").exposure == 0.7
    assert settings(recipe, "own").image.width == 64
    assert settings(recipe, "own").render == load_recipe("concepts").render


def render_of(*words, **options):
    chosen = load_recipe(*words, **options).render
    return chosen.preset, chosen.samples, chosen.bounces, chosen.denoise


def test_presets_give_all_fields_that_the_recipe_does_not_give(write_recipe, tiny):
    assert render_of(tiny) == ("standard", 16, 4, True)
    assert render_of(tiny, ["render={preset: draft}"]) == ("draft", 4, 2, True)
    assert render_of(tiny, ["render={preset: reference, samples: 9}"]) == ("reference", 9, 4, False)
    assert render_of(tiny, ["render={samples: 9}"]) == ("standard", 9, 4, True)


def test_a_preset_by_override_replaces_other_fields_and_later_overrides_win():
    assert render_of("concepts") == ("standard", 32, 4, True)
    assert render_of("concepts", ["render.preset=draft"]) == ("draft", 4, 2, True)
    assert render_of("concepts", ["render.preset=draft", "render.samples=7"]) == ("draft", 7, 2, True)
    assert render_of("concepts", ["render.samples=7", "render.preset=draft"]) == ("draft", 4, 2, True)


def test_a_preset_by_argument_holds_for_every_set(write_recipe):
    path = write_recipe(own("    render: {samples: 5}\n"))
    assert settings(load_recipe(path), "own").render.samples == 5
    chosen = settings(load_recipe(path, ["render.bounces=3"], preset="reference"), "own").render
    assert (chosen.preset, chosen.samples, chosen.bounces) == ("reference", 2048, 3)


def test_a_set_extends_one_of_its_own_recipe(write_recipe):
    chain = (
        "sets:\n  first: {extends: second, shares_units: true, draws: 2}\n"
        "  second: {extends: candle/candle, unit_factors: [color]}\n"
    )
    first, second = load_recipe(write_recipe("name: own\n" + chain)).sets.values()
    assert (first.draws, first.unit_factors, second.draws, second.unit_factors) == (
        2,
        ("color",),
        1,
        ("color",),
    )
    assert (first.factors, first.shares_units, second.shares_units) == (second.factors, True, False)
    with pytest.raises(InputError, match="first extends second extends first, which never ends"):
        load_recipe(write_recipe("name: own\n" + chain.replace("candle/candle", "first")))


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
    assert {one.render.samples for one in chosen} == {load_recipe("concepts", preset="draft").render.samples}


def test_a_field_that_is_written_twice_is_refused(write_recipe):
    twice = "name: own\nsets:\n  a: {extends: concepts/albedo}\n  a: {extends: concepts/albedo, draws: 2}\n"
    with pytest.raises(InputError, match="expected each field once, got `a` again in line 4"):
        load_recipe(write_recipe(twice))


def test_mistyped_names_are_answered_with_the_nearest(write_recipe):
    with pytest.raises(InputError, match="did you mean `candle`"):
        load_recipe("candel")
    path = write_recipe("name: own\n")
    with pytest.raises(InputError, match=f"did you mean `{path.name}`"):
        load_recipe(path.with_name("onw.yaml"))
    with pytest.raises(InputError, match="there is no set `candel`; expected one of candle; did you mean"):
        load_recipe("candle", ["sets.candel.unit_factors=[color]"])


def test_a_preset_replaces_all_render_fields_of_the_extended_set(write_recipe):
    recipe = load_recipe(write_recipe(own("    render: {preset: draft}\n")))
    assert settings(recipe, "own").render.samples == 4


@pytest.mark.parametrize("preset", ["fine", "[draft]"])
def test_the_message_on_an_unknown_preset_names_its_field(tiny, preset):
    with pytest.raises(InputError, match=r"render\.preset: input should be 'draft', 'standard' or 'ref"):
        load_recipe(tiny, [f"render.preset={preset}"])


@pytest.mark.parametrize(
    "factor", ["{values: [1]}", "{count: 4}", "{low: 0, high: 1}", "{low: 0, high: 1, mean: 0, std: 1}"]
)
def test_extends_replaces_a_factor_whole(write_recipe, factor):
    field = f"    factors: {{temperature: {factor}}}\n"
    varied = load_recipe(write_recipe(own(field))).sets["own"].factors
    direct = load_recipe("concepts", [f"sets.albedo.factors.temperature={factor}"]).sets["albedo"].factors
    assert varied["temperature"] == direct["temperature"]
    assert list(varied) == list(direct)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (
            "nope/albedo",
            r"sets\.own\.extends: expected RECIPE/SET .* or FILE\.yaml/SET .* got `nope/albedo`",
        ),
        (
            "concepts/nope",
            r"extends: expected a set of `concepts` \(albedo, illumination\), got `concepts/nope`",
        ),
        (
            "concepts",
            r"extends: expected RECIPE/SET of a shipped recipe, FILE\.yaml/SET of your own, or a set",
        ),
        (
            "none.yaml/own",
            r"sets\.own\.extends: there is no file .*none\.yaml; expected its path relative to",
        ),
        ("own", r"extends: own extends own, which never ends"),
        ("[concepts]", r"extends: expected RECIPE/SET"),
    ],
)
def test_extends_errors(write_recipe, base, message):
    with pytest.raises(InputError, match=message):
        load_recipe(write_recipe(own("").replace("concepts/albedo", base)))


def test_extends_takes_a_file_relative_to_the_file_that_names_it(tmp_path, monkeypatch):
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    base = "name: base\nexposure: 0.7\nassets: {materials: mine}\nsets:\n  first: {extends: rest.yml/last}\n"
    rest = (
        "name: rest\nsets:\n  last: {extends: candle/candle, draws: 3}\n  other: {extends: ../own.yaml/own}\n"
    )
    (tmp_path / "shared" / "base.yaml").write_text(base)
    (tmp_path / "shared" / "rest.yml").write_text(rest)
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nsets:\n  own: {extends: shared/base.yaml/first, unit_factors: [color]}\n")
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("own.yaml")
    assert (recipe.sets["own"].draws, settings(recipe, "own").exposure) == (3, 0.7)
    assert recipe.assets == {"materials": tmp_path / "shared" / "mine"}
    assert load_recipe(path, assets={"materials": tmp_path}).assets == {"materials": tmp_path}


def test_files_that_extend_each_other_are_refused(tmp_path):
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nsets:\n  s: {{extends: {other}.yaml/s}}\n")
    with pytest.raises(
        InputError, match=r"recipe b\.yaml: .*a\.yaml/s extends s extends a\.yaml/s, which never"
    ):
        load_recipe(tmp_path / "a.yaml")


def test_files_that_bring_different_folders_of_one_kind_are_refused(tmp_path):
    for name in ("a", "b"):
        text = f"name: {name}\nassets: {{objects: {name}}}\nsets:\n  s: {{extends: candle/candle}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nsets:\n  one: {extends: a.yaml/s}\n  two: {extends: b.yaml/s}\n")
    with pytest.raises(
        InputError, match=r"sets\.two\.extends: b\.yaml has objects in .*b, another file .* in .*a;"
    ):
        load_recipe(path)


def test_revise_checks_the_changed_recipe(tiny):
    assert revise(load_recipe(tiny), seed=4).seed == 4
    with pytest.raises(InputError, match=r"seed: .*; got -4"):
        revise(load_recipe(tiny), seed=-4)


def test_a_long_chain_of_sets_is_refused(write_recipe):
    sets = "".join(f"  s{n}: {{extends: s{n + 1}}}\n" for n in range(1500))
    recipe = write_recipe(f"name: own\nsets:\n{sets}  s1500: {{extends: concepts/albedo}}\n")
    with pytest.raises(
        InputError, match=r"sets.s\d+.extends: expected at most 50 sets that extend one another"
    ):
        load_recipe(recipe)


def test_a_recipe_of_many_megabytes_is_refused_at_once(write_recipe):
    recipe = write_recipe("name: own\n" + "# comment\n" * 1_000_000)
    with pytest.raises(InputError, match="expected at most 2000000 characters, got 2000001"):
        load_recipe(recipe)
