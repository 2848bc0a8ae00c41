"""Scores of estimated effects on the shipped recipes, whose effects have a closed form, and on frames."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.evaluation import evaluate
from candlelight.evaluation.causal import naive_effect
from candlelight.evaluation.run.result import notes_of
from candlelight.generators import load_recipe, make_plan
from candlelight.generators.language.set_settings import set_graph
from candlelight.generators.planning.mechanisms import mechanisms_of
from candlelight.generators.planning.plan_table import save_plan
from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.drawn_tables import planned_tables
from candlelight.loaders.schema import FactorInfo
from tests.command_line import refusal, run
from tests.evaluation.noise_frames import write_frames
from tests.refusals import refused

HIDDEN = {"treatment": "color", "values": "blue,red", "outcome": "size", "adjust": ["shape"]}
OVERLAP = {"treatment": "lamp", "values": "dim,bright", "outcome": "power", "adjust": ["floor"]}


FLOORS = {0.2: 0.98, 0.35: 0.88, 0.5: 0.5, 0.65: 0.12, 0.8: 0.02}  # P(bright)


def draw_hidden(rng, count, done):
    """Draw rows of `effects-hidden` by its numbers alone: values, and propensities of the colour."""
    cube, a = rng.random((2, count)) < 0.5
    chance = 0.5 + 0.1 * np.where(cube, 1, -1) + 0.3 * np.where(a, 1, -1)
    red = rng.random(count) < chance if done is None else np.full(count, done == "red")
    size = 1.1 + 0.2 * red + 0.1 * cube - 0.5 * a + 0.2 * rng.random(count)
    factors = {
        "factor.shape": np.where(cube, "cube", "cylinder"),
        "factor.color": np.where(red, "red", "blue"),
        "factor.size": size,
        "drawn.maker": np.where(a, "a", "b"),
    }
    return factors, {"color": np.where(red, chance, 1 - chance)}


def draw_overlap(rng, count, done):
    """Draw rows of `effects-overlap` likewise."""
    floor = rng.choice(list(FLOORS), count)
    chance = np.vectorize(FLOORS.get)(floor)
    bright = rng.random(count) < chance if done is None else np.full(count, done == "bright")
    power = 300 + 200 * bright + 500 * floor + 100 * rng.random(count)
    lamp = np.where(bright, "bright", "dim")
    factors = {
        "factor.floor": floor,
        "factor.lamp": lamp,
        "factor.power": power,
        "drawn.x": rng.random(count),
    }
    return factors, {"lamp": np.where(bright, chance, 1 - chance)}


def write_plan(path, recipe, draw, treatment, sizes, seed=0):
    """Write the columns of a plan that effects need, with the graphs of a recipe."""
    tables, found = [], load_recipe(recipe)
    for place, (name, count) in enumerate(sizes.items()):
        done = name[3:] if name[:3] == "do_" else None
        factors, propensities = draw(np.random.default_rng([seed, place]), count, done)
        ids = [f"{name}-{row:06d}" for row in range(count)]
        columns = {"id": ids, "unit": ids, "set": [name] * count, **factors}
        columns |= {f"propensity.{one}": values for one, values in propensities.items()}
        columns[f"do.{treatment}"] = pa.array([done] * count, pa.string())
        tables.append(pa.table(columns))
    graphs = {name: set_graph(found, name).model_dump(mode="json") for name in sizes}
    about = {b"candlelight.graphs": json.dumps(graphs).encode()}
    pq.write_table(pa.concat_tables(tables).replace_schema_metadata(about), path)


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Write plans of both recipes, and one with more draws of interventional sets."""
    folder = tmp_path_factory.mktemp("plans")
    sets = {"observed": 2000, "do_blue": 1000, "do_red": 1000}
    write_plan(folder / "effects-hidden.parquet", "effects-hidden", draw_hidden, "color", sets)
    more = {"observed": 1, "do_blue": 30_000, "do_red": 30_000}
    write_plan(folder / "more-hidden.parquet", "effects-hidden", draw_hidden, "color", more, seed=1)
    sets, more = ({"observed": n, "do_dim": m, "do_bright": m} for n, m in ((2000, 1000), (1, 10_000)))
    write_plan(folder / "effects-overlap.parquet", "effects-overlap", draw_overlap, "lamp", sets)
    write_plan(folder / "more.parquet", "effects-overlap", draw_overlap, "lamp", more, seed=1)
    return folder


@pytest.mark.parametrize(
    ("recipe", "draw", "treatment", "outcome", "effect", "naive"),
    [
        ("effects-hidden", draw_hidden, "color", "size", 0.2, -0.08),
        ("effects-overlap", draw_overlap, "lamp", "power", 200, 39.2),
    ],
)
def test_recipes_have_the_effects_that_they_state(recipe, draw, treatment, outcome, effect, naive):
    found = load_recipe(recipe)
    library = AssetLibrary(found.assets)
    observed, *arms = found.sets
    changes = [{}, *(found.sets[name].do for name in arms)]
    samplers = [mechanisms_of(found.sets[observed], library, fixed=change) for change in changes]
    rows = [[one.sample(0, f"unit/{row}", {}) for one in samplers] for row in range(800)]
    # Of the same unit, the outcomes under both interventions differ by the effect.
    for _, (low, _), (high, _) in rows[:50]:
        assert high[outcome] - low[outcome] == pytest.approx(effect, abs=1e-6)
    treated = np.array([seen[treatment] == changes[2][treatment] for (seen, _), *_ in rows])
    values = np.array([seen[outcome] for (seen, _), *_ in rows])
    difference = naive_effect(values, treated.astype(int))
    assert difference.value == pytest.approx(naive, abs=4 * difference.error)
    own = draw(np.random.default_rng(0), 2000, None)[0]
    assert own[f"factor.{outcome}"].mean() == pytest.approx(values.mean(), rel=0.05)


def score(path, options, **more):
    return evaluate("effects", path, set_name="observed", device="cpu", **{**options, **more})


def bias(results, name):
    found = results[name].scores["bias"]
    return found.value, (found.high - found.low) / 2


def test_a_hidden_confounder_stays_whatever_is_adjusted_for(plans):
    found = score(plans / "effects-hidden.parquet", HIDDEN)
    truth = found["naive"].details["truth"]
    assert truth == pytest.approx(0.2, abs=0.04)  # the closed forms stand in the recipe
    for name, value in {"naive": -0.08, "ipw": -0.1125, "doubly robust": -0.1125, "oracle": truth}.items():
        wrong, reach = bias(found, name)
        assert truth + wrong == pytest.approx(value, abs=1.5 * reach), name
        coverage = found[name].scores["coverage"].value
        assert coverage >= 0.85 if name == "oracle" else coverage == 0, name
    assert found["zero effect"].scores["bias"].value == -truth
    assert "no factors close it, because of the hidden maker" in notes_of([found["naive"]])[3]
    assert found["oracle"].scores["bias"].value == 0  # the truth is the mean of its rows
    notes = notes_of([found["doubly robust"]])
    assert notes[0].startswith("true effect by the interventional sets of 1000 and 1000 rows: 0.2")
    assert notes[-1].endswith("narrow intervals; intervene on more rows, or plan them (`truth`)")
    exact = str(plans / "more-hidden.parquet")
    seen = score(plans / "effects-hidden.parquet", HIDDEN, adjust=["shape", "maker"], truth=exact)
    assert notes_of([seen["ipw"]])[2] == "propensities: recorded"
    for name in ("ipw", "doubly robust"):
        assert abs(bias(seen, name)[0]) < bias(seen, name)[1]
        assert seen[name].scores["coverage"].value >= 0.8


def test_weak_overlap_widens_intervals_and_spares_the_doubly_robust(plans):
    found = score(plans / "effects-overlap.parquet", OVERLAP, truth=str(plans / "more.parquet"))
    assert found["naive"].details["truth"] == pytest.approx(200, abs=7)
    truth = found["naive"].details["truth"]
    assert truth + bias(found, "naive")[0] == pytest.approx(39.2, abs=10)
    scores = {name: found[name].scores for name in ("naive", "ipw", "doubly robust", "oracle")}
    assert scores["ipw"]["width"].value > 1.5 * scores["oracle"]["width"].value
    assert scores["ipw"]["rmse"].value > 3 * scores["doubly robust"]["rmse"].value
    assert scores["ipw"]["coverage"].value < scores["doubly robust"]["coverage"].value
    assert abs(bias(found, "doubly robust")[0]) < bias(found, "doubly robust")[1]
    fitted = score(plans / "effects-overlap.parquet", OVERLAP, estimate_propensities=True)
    assert notes_of([fitted["ipw"]])[2] == "propensities: estimated by logistic regression"
    assert fitted["ipw"].scores["rmse"].value != scores["ipw"]["rmse"].value


def test_replicates_are_every_twentieth_row_and_planted_files_land_where_they_must(plans, tmp_path):
    observed = planned_tables(plans / "effects-overlap.parquet")["observed"]
    arm = observed.rows_with("lamp", "bright").astype(int)
    power = observed.column("power")
    mine = np.array([naive_effect(power[k::20], arm[k::20]) for k in range(20)])[:, [0, 2, 3]]
    truth = score(plans / "effects-overlap.parquet", OVERLAP)["naive"].details["truth"]
    errors = np.random.default_rng(0).normal(size=20)[:, None] * [1, 1, 1] + [0, -2, 2]
    tables = {"mine": mine, "perfect": truth + errors, "biased": truth + 10 + errors}
    tables["narrow"] = truth + errors * [1, 0.01, 0.01] + errors[:, :1] * [0, 1, 1]
    for name, table in tables.items():
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("effect", "low", "high"), *table.tolist()])
    found = score(
        plans / "effects-overlap.parquet", OVERLAP, models=[str(tmp_path / f"{n}.csv") for n in tables]
    )
    assert list(found) == [*tables, "naive", "ipw", "doubly robust", "oracle", "zero effect"]
    np.testing.assert_allclose(found["mine"].details["estimates"], mine)
    assert found["mine"].scores == found["naive"].scores
    assert found["perfect"].scores["coverage"].value >= 0.85
    assert bias(found, "biased")[0] == pytest.approx(10, abs=1)
    assert found["biased"].scores["coverage"].value == 0
    assert found["narrow"].scores["coverage"].value <= 0.2
    assert found["narrow"].scores["bias"].value == pytest.approx(found["perfect"].scores["bias"].value)
    with refused("model `ipw`: the name is that of a control"):
        score(plans / "effects-overlap.parquet", OVERLAP, models=[f"ipw={tmp_path / 'mine.csv'}"])
    assert found["naive"].about.model["source"] == "control"
    with refused('expected something callable, got str; name it in a list: \\["mine=a.csv"\\]'):
        score(plans / "effects-overlap.parquet", OVERLAP, models={"mine": "a.csv"})
    with refused("estimates `mine`: expected 19 rows, one for each replicate .*, got 20"):
        score(plans / "effects-overlap.parquet", OVERLAP, models=[str(tmp_path / "mine.csv")], replicates=19)
    same = score(plans / "effects-overlap.parquet", OVERLAP, models={"mine": mine})
    assert same["mine"].scores == found["mine"].scores
    for wrong in (mine[:, :2], mine * np.nan, -mine, np.mean):
        with refused("`mine`: (expected rows of finite numbers, effect, low and high|.* must be finite)"):
            score(plans / "effects-overlap.parquet", OVERLAP, models={"mine": wrong})
    for text, message in {
        "effect,low\n1,2\n": "no column `high`; expected a CSV file with the columns effect,low,high",
        "effect,low,high\n1,2,1\n": "expected rows of finite numbers, effect, low and high, with low <= high",
        "effect,low,high\n": "expected rows of finite numbers|index",
        "effect,low,high\nmuch,2,3\n": "could not convert",
    }.items():
        (tmp_path / "wrong.csv").write_text(text)
        with refused(message):
            score(plans / "effects-overlap.parquet", OVERLAP, models=[str(tmp_path / "wrong.csv")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": "dim"}, "`values`: expected two values such as dim,bright, got dim"),
        ({"adjust": ["power"]}, "`power` stands twice among `treatment`, `outcome` and `adjust`"),
        ({"values": "dim,dark"}, "`lamp` is never dark in set `observed`; expected two of: bright, dim"),
        ({"outcome": "luminance"}, "luminance: a plan has no images"),
        ({"outcome": "brightness"}, "`outcome` brightness: expected one of: .*floor"),
        ({"treatment": "power", "outcome": "lamp", "adjust": []}, "`power` is continuous"),
        (
            {"treatment": "floor", "values": "0.2,0.5", "adjust": []},
            "one set of 4 rows or more under do.floor = 0.5. alone, got none",
        ),
        ({"interventions": "do_dim,do_dark"}, "set `do_dark` is not there; expected one of"),
        ({"replicates": 600}, "at least 4 rows in each of 600 replicates .*, got 3 of 2000 observed rows"),
        ({"truth": "effects-hidden.parquet"}, "do_dim|no factor or variable `lamp`|got none"),
    ],
)
def test_what_has_no_effect_is_refused(plans, changes, message):
    options = {**OVERLAP, **changes}
    if "truth" in options:
        options["truth"] = str(plans / options["truth"])
    with refused(message):
        score(plans / "effects-overlap.parquet", options)
    with refused("do_dim.*expected an observed set"):
        evaluate("effects", plans / "effects-overlap.parquet", set_name="do_dim", device="cpu", **OVERLAP)


def test_a_determined_treatment_is_refused(tmp_path):
    toys = make_plan(load_recipe("toy-confounded", ["sets.toys.draws=60"]))
    save_plan(toys, tmp_path / "toys.parquet")
    with refused(
        "positivity fails: by its mechanism, `color` is never (blue|red) where toy=[abc], .* above 0 there"
    ):
        evaluate("effects", tmp_path / "toys.parquet", treatment="color", values="blue,red", outcome="x")


def test_interventions_on_the_same_units_have_an_exact_truth(tmp_path):
    rng, count = np.random.default_rng(0), 200
    u, ids = rng.normal(size=count), [f"u{row}" for row in range(count)]
    parts = []
    for name, done in {"observed": None, "do_dim": "dim", "do_bright": "bright"}.items():
        lamps = rng.choice(["dim", "bright"], count) if done is None else np.full(count, done)
        columns = {"id": [f"{name}-{one}" for one in ids], "unit": ids, "set": [name] * count}
        columns |= {"factor.lamp": lamps, "factor.power": 5.0 * (lamps == "bright") + u}
        columns["do.lamp"] = pa.array([done] * count, pa.string())
        parts.append(pa.table(columns))
    pq.write_table(pa.concat_tables(parts), tmp_path / "paired.parquet")
    found = score(tmp_path / "paired.parquet", {**OVERLAP, "adjust": []}, replicates=10)
    notes = notes_of([found["oracle"]])
    assert notes[0].startswith(
        "true effect by the interventional sets of 200 and 200 rows: 5 (standard error "
    )
    assert float(notes[0].split()[-1][:-1]) < 1e-9
    assert "no causal graph tells whether the adjustment is valid" in notes
    # The arms of the oracle are of different units, so that its intervals are those of independent arms.
    oracle = found["oracle"].scores
    assert oracle["width"].value == pytest.approx(2 * 2.1 * (2 / 10) ** 0.5, rel=0.2)
    assert oracle["rmse"].value > 0.2
    with refused("paired.parquet: a plan has no splits"):
        score(tmp_path / "paired.parquet", OVERLAP, split="train")


def test_adjusting_for_an_effect_is_told(plans):
    found = score(plans / "effects-overlap.parquet", OVERLAP, outcome="x", adjust=["floor", "power"])
    assert "adjustment fails: `power` depends on `lamp`; leave it out" in notes_of([found["ipw"]])


def write_rooms(root):
    """Write frames of noise, the brighter the brighter the lamp is."""
    nodes = (
        CausalNode(name="copy", kind="factor", type="categorical", mechanism=""),
        CausalNode(name="sky", kind="hidden", type="continuous", mechanism=""),
        CausalNode(name="lamp", kind="factor", type="categorical", mechanism="", parents=("sky",)),
    )
    graphs = {
        name: CausalGraph(nodes=(*nodes[:2], nodes[2].model_copy(update={"intervened": kind})))
        for name, kind in {"observed": "none", "do_dim": "all", "do_bright": "all"}.items()
    }
    copies = FactorInfo(name="copy", kind="categorical", values=tuple(range(12)))
    sets = {
        name: {
            "graph": graph,
            "factors": (
                FactorInfo(
                    name="lamp",
                    kind="categorical",
                    values=(name[3:],) if name[:3] == "do_" else ("dim", "bright"),
                ),
                copies,
            ),
        }
        for name, graph in graphs.items()
    }

    def change(name, index, metadata):
        done = {"lamp": name[3:]} if name[:3] == "do_" else {}
        return metadata.model_copy(update={"intervention": done, "unit": f"{name}/{index}"})

    write_frames(root, sets, ("image",), change=change)


@pytest.fixture
def rooms(tmp_path, monkeypatch):
    write_rooms(tmp_path / "rooms")
    (tmp_path / "own.py").write_text(
        "def mean(images):\n    return images.mean((1, 2, 3))\n\ndef maps(images):\n    return images\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path / "rooms"


WORDS = (
    "evaluate effects rooms --set observed --treatment lamp --values dim,bright --replicates 3 --device cpu"
)


def test_outcomes_of_images(rooms):
    printed = run(*WORDS.split(), "--outcome", "luminance", "--out", "a.json", "--report", "a.html")
    assert "3 replicates of 8 of 24 observed rows" in printed
    assert "adjustment fails if all factors and variables change the image: a backdoor path" in printed
    assert "propensities: estimated by logistic regression" in printed
    page = (rooms.parent / "a.html").read_text()
    assert page.count("<svg") >= 1
    assert "Each dot is the estimate of one replicate" in page
    own = run(*WORDS.split(), "--outcome", "own.py:mean")
    assert "oracle" in own
    assert "own.py:maps: expected one finite number for each image" in refusal(
        *WORDS.split(), "--outcome", "own.py:maps"
    )


def test_luminance_is_that_of_linear_light(rooms):
    from candlelight.evaluation.views import open_data

    means = {}
    for name in ("do_dim", "do_bright"):
        images = open_data("images", str(rooms), set_name=name)
        linear = [
            np.where(i <= 0.04045, i / 12.92, ((i + 0.055) / 1.055) ** 2.4) for i in map(np.asarray, images)
        ]
        means[name] = np.mean([np.tensordot([0.2126, 0.7152, 0.0722], one, 1).mean() for one in linear])
    found = evaluate(
        *("effects", str(rooms)),
        **{"set_name": "observed", "device": "cpu", "treatment": "lamp", "values": "dim,bright"},
        **{"outcome": "luminance", "replicates": 3},
    )
    assert found["naive"].details["truth"] == pytest.approx(means["do_bright"] - means["do_dim"], abs=1e-6)


def test_few_rows_have_no_estimate_and_a_smaller_oracle(plans):
    options = {**OVERLAP, "adjust": []}
    found = score(plans / "effects-overlap.parquet", options, limit=200, replicates=50)
    assert any(one.startswith("naive: no estimate in ") for one in notes_of([found["naive"]]))
    assert found["naive"].scores["coverage"].value < 1
    large = score(plans / "effects-overlap.parquet", options, replicates=2)
    assert not [one for one in notes_of([large["oracle"]]) if "are enough for" in one]
