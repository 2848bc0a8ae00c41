import json
import pickle  # noqa: TID251 - a recipe goes to other processes

import pytest

from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.recipe_files import shipped_recipes
from candlelight.generators.planning.interventions import do
from candlelight.loaders.errors import InputError

ANY = ["seed=7", "render.samples=3", "layers=[image, depth]", "image={width: 24, height: 16}"]
OVERRIDES = {
    "candle": ["image.width=64", "sets.candle.factors.rotation.values=[0, 7.5]"],
    "concepts": ["sets.albedo.layout.lights.0.power=1250", "render.denoise=false", "do={temperature: 2500}"],
    "demo": [
        "layers=[image, depth]",
        "sets.tabletop.factors.light_azimuth={low: -1, high: 1, mean: 0, std: 2}",
    ],
    "dead-leaves": ["layers=[image, albedo]", "sets.dead_leaves.layout.dead_leaves.size=[0.02, 0.2]"],
    "negatives": ["seed=18446744073709551616", "sets.negatives.layout.environment.strength=0.3"],
}


@pytest.mark.parametrize("overridden", [False, True], ids=["as shipped", "overridden"])
@pytest.mark.parametrize("name", shipped_recipes())
def test_survives_json_and_pickle(name, overridden):
    recipe = load_recipe(name, OVERRIDES.get(name, ANY) if overridden else ())
    again = Recipe.model_validate(json.loads(json.dumps(recipe.model_dump(mode="json"))))
    assert again == recipe
    assert recipe_sha256(again) == recipe_sha256(recipe)
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe


def test_hash_sees_every_kind_of_change(tiny):
    texts = [
        "",
        "seed=1",
        "image.width=64",
        "exposure=2",
        "do.color=red",
        "sets.cubes.factors.size.values=[1, 2]",
    ]
    hashes = {recipe_sha256(load_recipe(tiny, [text] if text else [])) for text in texts}
    assert len(hashes) == len(texts)


CASES = {
    # A path below sets.cubes, its value, and a part of the message.
    "unknown field": ("colour", "red", r"sets\.cubes\.colour: there is no such field"),
    "half a place": (
        "layout.objects.0.location",
        "[0]",
        r"layout\.objects\.0\.location\.1: the field is required",
    ),
    "mixed values": (
        "factors.size.values",
        "[1, a]",
        r"sets\.cubes\.factors\.size: expected names or numbers",
    ),
    "truth values": ("factors.size.values", "[true, false]", r"factors\.size\.values\.0: .* got True; put"),
    "repeated values": (
        "factors.size.values",
        "[1, 1]",
        r"sets\.cubes\.factors\.size: expected distinct values",
    ),
    "no values": (
        "factors.size.values",
        "[]",
        r"factors\.size: expected distinct values, at least one, got \[\]",
    ),
    "values and count": ("factors.size.count", "3", r"factors\.size: expected `values` or `count`, got both"),
    "count and assets": (
        "factors.size",
        "{count: 2, assets: objects}",
        r"expected `count` or `assets`, got both",
    ),
    "count zero": (
        "factors.size",
        "{count: 0}",
        r"factors\.size\.count: .*greater than or equal to 1; got 0",
    ),
    "unknown kind of asset": (
        "factors.size",
        "{assets: meshes}",
        r"factors\.size\.assets: .*'objects'.*got 'meshes'",
    ),
    "no source": ("factors.size", "{}", r"factors\.size: expected `values`, `count` or `assets`, got none"),
    "no table": (
        "factors.size",
        "3",
        r"size: expected a list \(`values`, .*\) or a range \(.*\); got 3",
    ),
    "spread without bounds": (
        "factors.azimuth",
        "{mean: 0, std: 1}",
        r"azimuth: expected a list .* or a range \(`low`, `high`\); got \['mean', 'std'\]",
    ),
    "value without bounds": ("factors.azimuth", "{value: 1}", r"or a range .*; got \['value'\]"),
    "values and bounds": (
        "factors.azimuth.values",
        "[1, 2]",
        r"azimuth: expected a list .* or a range .*; got \['low', 'high', 'unit', 'values'\]",
    ),
    "low alone": ("factors.azimuth", "{low: 1}", r"factors\.azimuth\.high: the field is required"),
    "low over high": (
        "factors.azimuth",
        "{low: 2, high: 1}",
        r"factors\.azimuth: expected low <= high, got 2\.0 and 1",
    ),
    "infinite": (
        "factors.azimuth",
        "{low: 0, high: .inf}",
        r"factors\.azimuth\.high: .*finite number, got inf",
    ),
    "mean alone": ("factors.azimuth.mean", "1", r"factors\.azimuth: expected `mean` and `std` together"),
    "mean outside": (
        "factors.azimuth",
        "{low: 0, high: 1, mean: 3, std: 1}",
        r"expected the mean within \[0\.0, 1\.0\], got 3",
    ),
    "no spread": (
        "factors.azimuth",
        "{low: 0, high: 1, mean: 1, std: 0}",
        r"azimuth\.std: expected more than 0, got 0",
    ),
    "taken name": ("factors.albedo", "{count: 2}", r"factors\.albedo: the name is taken by a column"),
    "odd name": (
        "factors.Colour",
        "{count: 2}",
        r"factors\.Colour: expected lower-case letters, digits and _",
    ),
    "variable like a factor": (
        "variables.size",
        "{low: 0, high: 1}",
        r"variables\.size: there is a factor of that",
    ),
    "grid of a continuous factor": (
        "grid",
        "[azimuth]",
        r"grid: expected names of categorical factors, got `azimuth`",
    ),
    "grid twice": ("grid", "[size, size]", r"grid: expected distinct factors, got \['size', 'size'\]"),
    "unit outside the grid": ("unit_factors", "[color]", None),
    "unknown unit": (
        "unit_factors",
        "[shape]",
        r"unit_factors: expected names of categorical factors, got `shape`",
    ),
    "unknown varies": ("varies", "[shape]", r"varies: expected names of categorical factors, got `shape`"),
    "no draws": ("draws", "0", r"sets\.cubes\.draws: .*greater than or equal to 1; got 0"),
    "unknown reference": (
        "layout.lights.0.power",
        "$watts",
        r"layout: `\$watts` is no factor or variable; expected one of: size, color",
    ),
    "no number": (
        "layout.lights.0.power",
        "strong",
        r"layout\.lights\.0\.power: expected a number or \$variable; got",
    ),
    "expression in a layout": (
        "layout.lights.0.power",
        "$size * 2",
        r"layout\.lights\.0\.power: a layout takes plain \$names; make a variable with `value: size \* 2`, "
        r"and its `low` and `high`; got '\$size \* 2'$",
    ),
    "expression within a place": (
        "layout.objects.0.location",
        "[2 * $size + $size, 0]",
        r"objects\.0\.location\.0: a layout takes plain \$names; .* `value: 2 \* size \+ size`",
    ),
    "truth for a number": (
        "layout.lights.0.power",
        "true",
        r"lights\.0\.power: expected a number or \$variable; got True",
    ),
    "nothing lit": ("layout.lights", "[]", r"layout: expected `lights` or an `environment`"),
    "two kinds of objects": (
        "layout.scatter",
        "{count: 1, types: [cube], size: [1, 1], region: [0, 1, 0, 1]}",
        r"layout: expected `objects` or `scatter`, got both",
    ),
    "more than an asset": (
        "layout.lights.0",
        "{asset: left, power: 3}",
        r"lights\.0: a light asset decides .* expected no power with it",
    ),
    "unknown layer": (
        "layers",
        "[image, albdo]",
        r"sets\.cubes\.layers: layer `albdo` is not known; expected one of",
    ),
    "one light layer": ("layers", "[image, light/key]", r"layers: expected `light/\*`, .* got `light/key`"),
    "no image": ("layers", "[depth]", r"sets\.cubes\.layers: expected distinct names, `image` among them"),
    "layer twice": ("layers", "[image, depth, depth]", r"sets\.cubes\.layers: expected distinct names"),
    "one layer": (
        "layers",
        "image",
        r"cubes\.layers: expected a list of layers, or `all`; got 'image'",
    ),
    "too small": ("image", "{width: 4}", r"sets\.cubes\.image\.width: .*greater than or equal to 8; got 4"),
    "no exposure": ("exposure", "0", r"sets\.cubes\.exposure: .*greater than 0; got 0"),
    "colours out of order": (
        "layout.random_material",
        "{low: 0.9, high: 0.1}",
        r"random_material: expected low <= high, got 0\.9",
    ),
    "no textures": (
        "layout.random_material",
        "{textures: []}",
        r"random_material\.textures: .*at least 1 item.*got \[\]",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_name_field_and_value_in_one_line(tiny, case):
    field, value, message = CASES[case]
    overrides = [f"sets.cubes.{field}={value}"]
    if message is None:  # a factor that is drawn, not crossed, cannot make a unit
        overrides, message = (
            [*overrides, "sets.cubes.grid=[size]"],
            r"unit_factors: expected factors of the grid, got `color`",
        )
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(tiny, overrides)
    assert str(caught.value).startswith("recipe tiny.yaml: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


TOP = {
    "unknown field": ("imgae={width: 8}", r"imgae: there is no such field"),
    "wrong type": ("image.width=wide", r"image\.width: .*integer.*; got 'wide'"),
    "negative seed": ("seed=-1", r"seed: .*greater than or equal to 0; got -1"),
    "bad name": ("name=My Set", r"name: expected lower-case letters, digits and hyphens, .*; got 'My Set'"),
    "folder of assets": (
        "assets.materials=x",
        r"`overrides` assets\.materials: expected `assets` KIND=FOLDER",
    ),
    "do of nothing": ("do.shape=cube", r"do: `shape` is no factor or variable of any set$"),
    "do of a typo": ("do.colour=red", r"do: `colour` is no factor .*; did you mean `color`\?"),
    "do to a typo": (
        "do.color=bleu",
        r"sets\.cubes: do\.color: expected one of red, blue, got 'bleu'; did you mean `blue`\?",
    ),
    "twin with a typo": (
        "sets.twins={counterfactual: {of: cubes, do: [{size: 1}, {color: bleu}]}}",
        r"sets\.twins: counterfactual\.do\.1\.color: expected .* did you mean `blue`\?",
    ),
    "no set": ("sets={}", r"sets: .*at least 1 item"),
    "set name": ("sets.My Set.draws=1", r"there is no set `My Set`; expected one of cubes"),
    "new set": ("sets.other.draws=1", r"there is no set `other`; expected one of cubes"),
}


@pytest.mark.parametrize("case", TOP)
def test_errors_of_the_recipe_itself(tiny, case):
    override, message = TOP[case]
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(tiny, [override])
    assert "\n" not in str(caught.value)


def test_light_layers_and_catcher_exclude_each_other(tiny):
    light = ["layers=[image, light/*]"]
    load_recipe(tiny, [*light, "sets.cubes.layout.floor={}"])
    with pytest.raises(InputError, match=r"sets\.cubes\.layers: light layers are black on a shadow catcher"):
        load_recipe(tiny, [*light, "sets.cubes.layout.floor={catcher: true}"])


def test_a_factor_is_names_or_numbers_in_all_sets(tiny):
    # One column of a plan holds it for every set.
    text = tiny.read_text()
    other = (
        text[text.index("  cubes:") :].replace("cubes", "others").replace("values: [1, 1.5]", "values: [big]")
    )
    tiny.write_text(text + other)
    with pytest.raises(InputError, match=r"`size`: expected names in every set or numbers in every set"):
        load_recipe(tiny)


def test_recipes_are_immutable(tiny):
    recipe = load_recipe(tiny)
    with pytest.raises(ValueError, match="frozen"):
        recipe.seed = 3
    assert do(recipe, color="red") != recipe
    assert recipe.do == {}
