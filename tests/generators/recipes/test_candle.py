"""The recipes of CANDLE: selection and numbers as published, and tables of its confounded variants."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.sample_values import sample_values, unit_indices
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.selection.confounding import select_by_rules
from candlelight.loaders.selection.factor_index import FactorIndex
from tests.generators.recipes.geometry import margin

# The generator's order, in which the images are numbered.
FACTORS = {
    "scene": (
        *("indoor", "outdoor", "playground", "bridge", "city square", "hall", "grassland", "garage"),
        *("street", "beach", "station", "tunnel", "moonlit grass", "dusk city", "skywalk", "garden"),
    ),
    "lights": ("left", "middle", "right"),
    "object_type": ("cube", "sphere", "cylinder", "cone", "torus"),
    "color": ("red", "blue", "yellow", "purple", "orange"),
    "size": (1.5, 2, 2.5),
    "rotation": (0, 15, 30, 45, 60, 90),
}
MARGINALS = {
    "scene": {
        **dict.fromkeys(("indoor", "outdoor", "grassland", "street", "beach", "moonlit grass"), 990),
        **{"tunnel": 810, "bridge": 792, "city square": 792, "hall": 720, "skywalk": 630},
        **dict.fromkeys(("playground", "station", "dusk city"), 594),
        **{"garage": 540, "garden": 540},
    },
    "lights": dict.fromkeys(FACTORS["lights"], 4182),
    "object_type": {"cube": 2412, "sphere": 2232, "cylinder": 2412, "cone": 1872, "torus": 3618},
    "color": {"red": 2826, "blue": 2826, "purple": 2826, "yellow": 1836, "orange": 2232},
    "size": {1.5: 5220, 2: 6120, 2.5: 1206},
    "rotation": dict.fromkeys(FACTORS["rotation"], 2091),
}
# Mutual information in nats, worked out from the published set.
INFORMATION = {
    ("object_type", "size"): 0.133,
    ("scene", "color"): 0.087,
    ("scene", "size"): 0.056,
    ("scene", "object_type"): 0.045,
}
# Drawing takes most of the time, and the ids do not depend on what is drawn.
NOTHING_DRAWN = (
    "sets.candle.variables={}",
    "sets.candle.layout.objects.0.location=[0, 0]",
    "sets.candle.layout.camera.pitch=0",
    "sets.candle.layout.camera.yaw=0",
)
DRAWN_Y = {"indoor": (-15, 0), "hall": (-15, 0), "grassland": (-15, -2)}


def is_published(scene, lights, object_type, color, size, rotation):
    """Apply the filter of the authors' code, rule by rule."""
    del lights, rotation
    dropped = (
        size == 2.5 and object_type in ("cube", "sphere", "cylinder", "cone"),
        size == 1.5 and scene in ("garden", "garage"),
        color == "yellow" and scene in ("bridge", "city square"),
        size == 2.5 and scene == "hall",
        object_type == "cone" and scene in ("hall", "tunnel", "skywalk"),
        color in ("orange", "yellow") and scene in ("station", "dusk city", "playground"),
        size == 2.5
        and object_type in ("cube", "cylinder", "sphere")
        and scene in ("tunnel", "moonlit grass"),
        object_type == "sphere" and scene == "skywalk",
    )
    return not any(dropped)


@pytest.fixture(scope="module")
def published():
    """List the cells of all samples; their values are compared for every seventh, because that takes long."""
    recipe, library = load_recipe("candle-published", NOTHING_DRAWN), AssetLibrary()
    full, indices = list(itertools.product(*FACTORS.values())), unit_indices(recipe, "candle", library)
    some = {*indices[::7], 3541}
    rows = {row.index: row.values for row in sample_values(recipe, "candle", library, units=some)}
    assert {index: tuple(values[name] for name in FACTORS) for index, values in rows.items()} == {
        index: full[index] for index in some
    }
    return {index: full[index] for index in indices}


@pytest.fixture(scope="module")
def faithful():
    """List every 73rd row: 73 divides no factor's period, so all values occur about equally often."""
    return list(
        sample_values(load_recipe("candle-faithful"), "candle", AssetLibrary(), units=range(0, 21600, 73))
    )


# --------------------------------------------------------------------------------------------- published


def test_the_published_ids_agree_with_the_authors(published):
    full = dict(enumerate(itertools.product(*FACTORS.values())))
    assert len(full) == 21600
    assert published == {index: values for index, values in full.items() if is_published(*values)}
    assert len(published) == 12546
    assert published[3541] == ("playground", "middle", "torus", "blue", 2.5, 15)


def test_the_published_marginals(published):
    counted = {name: Counter(values[i] for values in published.values()) for i, name in enumerate(FACTORS)}
    assert counted == MARGINALS


def test_the_published_factors_depend_on_each_other_as_counted(published):
    columns = dict(zip(FACTORS, zip(*published.values(), strict=True), strict=True))
    for first, second in itertools.combinations(FACTORS, 2):
        joint = Counter(zip(columns[first], columns[second], strict=True))
        information = sum(
            count / 12546 * math.log(count * 12546 / (MARGINALS[first][a] * MARGINALS[second][b]))
            for (a, b), count in joint.items()
        )
        stated = INFORMATION.get((first, second), 0.0)
        assert information == pytest.approx(stated, abs=0.001 if stated else 0.02), (first, second)


def test_a_selection_of_samples_takes_the_rules_of_the_recipe(published):
    image_set = load_recipe("candle-published").sets["candle"]
    names = image_set.crossed()
    index = FactorIndex.of(FactorSpace(names, tuple(image_set.factors[name].values for name in names)))
    selected = select_by_rules(index, [rule.exclude for rule in image_set.rules])
    assert selected.tolist() == list(published)


# ---------------------------------------------------------------------------------------------- faithful


def test_faithful_keeps_the_whole_grid_and_its_numbers(faithful):
    values = {row.index: tuple(row.values[name] for name in FACTORS) for row in faithful}
    full = enumerate(itertools.product(*FACTORS.values()))
    assert values == {index: cell for index, cell in full if index % 73 == 0}


def test_faithful_takes_degrees_for_radians(faithful):
    turns = {row.values["rotation"]: row.values["turned"] for row in faithful}
    expected = {0: 0.0, 15: 139.44, 30: 278.87, 45: 58.31, 60: 197.75, 90: 116.62}
    assert turns == pytest.approx(expected, abs=0.005)


def test_faithful_draws_places_from_the_published_ranges(faithful):
    for scene in FACTORS["scene"]:
        rows = [row.values for row in faithful if row.values["scene"] == scene]
        for name, (low, high) in (("x", (-4.5, 4.5)), ("y", DRAWN_Y.get(scene, (-20, 0)))):
            drawn = np.sort([row[name] for row in rows])
            assert low <= drawn[0]
            assert drawn[-1] <= high
            # Kolmogorov and Smirnov's distance from the uniform; 0.0005 of all sets would exceed 2 / sqrt(n).
            uniform = (drawn - low) / (high - low)
            distance = np.abs(uniform - (np.arange(len(drawn)) + 0.5) / len(drawn)).max()
            assert distance < 2 / math.sqrt(len(drawn)), (scene, name)


def test_faithful_has_the_published_jitter(faithful):
    for name in ("pitch", "yaw"):
        drawn = np.array([row.values[name] for row in faithful])
        assert np.abs(drawn).max() <= 0.5
        assert drawn.std() == pytest.approx(1 / math.sqrt(12), rel=0.07)


@pytest.mark.parametrize("scene", ["garden", "indoor"])
@pytest.mark.parametrize("x", [-4.5, 4.5])
def test_faithful_keeps_the_nearest_and_widest_objects_in_the_picture(scene, x):
    widest = ("object_type.values=[cube, torus]", "size.values=[2.5]", "lights.values=[left]")
    corner = ("x.low={x}", "x.high={x}", "y.low=0", "y.high=0")
    changes = [
        f"sets.candle.factors.{text}" for text in (*widest, "color.values=[red]", f"scene.values=[{scene}]")
    ]
    changes += [f"sets.candle.variables.{text.format(x=x)}" for text in corner]
    plan = make_plan(load_recipe("candle-faithful", changes))
    assert len(plan) == 2 * 6
    for sample in plan.samples:
        (placed,) = sample.trace.objects
        for pitch, yaw in itertools.product((-0.5, 0.5), repeat=2):
            camera = sample.trace.camera.model_copy(update={"pitch": pitch, "yaw": yaw})
            assert margin(AssetLibrary(), placed, camera, 320, 240) > 0


# -------------------------------------------------------------------------------------------- confounded

COLORS = ("red", "blue", "yellow", "purple", "orange", "red")


@pytest.mark.parametrize(
    ("name", "factor", "table"),
    [
        (
            "candle-confounded-color",
            "color",
            {kind: set(COLORS[i : i + 2]) for i, kind in enumerate(FACTORS["object_type"])},
        ),
        (
            "candle-confounded-size",
            "size",
            {"cube": {1.5}, "sphere": {1.5}, "cylinder": {1.5}, "cone": {2.5}, "torus": {2.5}},
        ),
        ("toy-confounded", "color", {"cylinder": {"red"}, "cone": {"green"}, "cube": {"blue"}}),
    ],
)
def test_the_supplements_tables_are_followed(name, factor, table):
    seen = {}
    for sample in make_plan(load_recipe(name), 150).samples:
        seen.setdefault(sample.factors["object_type"], set()).add(sample.factors[factor])
    assert seen == table
