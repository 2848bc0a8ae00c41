from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.factor_values import values_of
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.language.recipe import Categorical
from candlelight.generators.language.set_settings import factor_infos, light_names, settings, stored_layers
from candlelight.loaders.schema import LAYERS
from tests.refusals import refused

LIGHTS = "sets.cubes.layout.lights=[{name: key}, {asset: left}, {azimuth: 3}]"
ENVIRONMENT = "sets.cubes.layout.environment={scene: garden}"
ALL = "layers=[depth, image, light/*, albedo]"


def test_fields_of_a_set_replace_fields_of_the_recipe(tiny):
    own = ["sets.cubes.image={width: 32, height: 24}", "sets.cubes.exposure=2", "sets.cubes.layers=[image]"]
    shared = ["image={width: 64, height: 48}", "exposure=3", "render.samples=5"]
    mixed = settings(load_recipe(tiny, [*own, *shared]), "cubes")
    assert (mixed.image.width, mixed.exposure, mixed.layers, mixed.render.samples) == (32, 2, ("image",), 5)
    plain = settings(load_recipe(tiny, shared), "cubes")
    assert (plain.image.width, plain.exposure) == (64, 3)


def test_light_layers_are_spelled_out_in_order(tiny):
    recipe = load_recipe(tiny, [ALL, LIGHTS, ENVIRONMENT])
    assert light_names(recipe, "cubes") == ("key", "left", "light", "environment")
    lights = ("light/key", "light/left", "light/light", "light/environment")
    assert stored_layers(recipe, "cubes") == ("image", "albedo", "depth", *lights)
    plain = load_recipe(tiny, [LIGHTS])
    assert light_names(plain, "cubes") == ()
    assert not any(name.startswith("light/") for name in stored_layers(plain, "cubes"))


def test_all_layers_are_those_that_a_set_can_have(tiny):
    def stored(*overrides):
        return stored_layers(load_recipe(tiny, ["layers=all", *overrides]), "cubes")

    assert stored() == (*LAYERS, "light/light")
    assert stored("sets.cubes.layout.floor={catcher: true}", ENVIRONMENT) == (*LAYERS,)
    assert stored("sets.cubes.layout.lights=[{name: $color}]") == (*LAYERS,)
    assert stored("layers=[image]", "sets.cubes.layers=all") == (*LAYERS, "light/light")
    leaves = load_recipe("dead-leaves", ["layers=all"])
    assert stored_layers(leaves, "dead_leaves") == ("image", "radiance", "albedo", "shading", "residual")


def test_a_light_that_a_factor_chooses_needs_a_name(tiny):
    chosen = [
        ALL,
        "sets.cubes.factors.color={values: [left, right], assets: lights}",
        "sets.cubes.layout.objects.0.material=red",
    ]
    with refused(r"layout\.lights: light layers need a name that is the same in every"):
        light_names(load_recipe(tiny, [*chosen, "sets.cubes.layout.lights=[{asset: $color}]"]), "cubes")
    # A light has a name in each entry of a choice too.
    lights = "sets.cubes.layout.lights={choose: $color, among: {left: [{}], right: [{}, {name: fill}]}}"
    with refused(r"layout\.lights: light layers need a name that is the same in every"):
        light_names(load_recipe(tiny, [*chosen, lights]), "cubes")
    alike = load_recipe(tiny, [*chosen, lights.replace(", {name: fill}", "")])
    assert light_names(alike, "cubes") == ("light",)
    named = load_recipe(tiny, [*chosen, "sets.cubes.layout.lights=[{asset: $color, name: sun}]"])
    assert light_names(named, "cubes") == ("sun",)


def test_values_of_each_kind_of_factor(tmp_path):
    library = AssetLibrary()
    assert values_of(Categorical(count=3), library) == (0, 1, 2)
    assert values_of(Categorical(values=(2, 1.5)), library) == (2, 1.5)
    assert values_of(Categorical(assets="lights"), library) == ("left", "middle", "right")
    assert values_of(Categorical(assets="lights", values=("right", "left")), library) == ("right", "left")
    with refused("asset `back` is not among the lights; expected one of: left, middle"):
        values_of(Categorical(assets="lights", values=("back",)), library)
    (tmp_path / "pink.blend").touch()
    own = AssetLibrary({"materials": tmp_path})
    assert values_of(Categorical(assets="materials"), own) == ("pink",)
    assert values_of(Categorical(assets="materials", values=("red", "pink")), own) == ("red", "pink")


def test_factor_infos_describe_in_the_recipes_order(tiny):
    size, color, azimuth = factor_infos(load_recipe(tiny).sets["cubes"])
    assert (size.kind, size.values, size.unit) == ("categorical", (1, 1.5), "m")
    assert (color.name, color.values, color.low) == ("color", ("red", "blue"), None)
    assert (azimuth.kind, azimuth.low, azimuth.high, azimuth.values) == ("continuous", -60, 60, None)


def test_names_of_lights_that_blender_changes_are_refused(tiny):
    for name in ("key.left", "k" * 55):
        recipe = load_recipe(tiny, [ALL, f"sets.cubes.layout.lights=[{{name: {name}}}]"])
        with refused(r"names of lights without dots, of at most 54 bytes, got `k"):
            light_names(recipe, "cubes")
