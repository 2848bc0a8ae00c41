"""All shipped recipes: hashes and samples that never change, units, groups, and files of recipe and plan."""

import hashlib
import json
import pickle  # noqa: TID251 - a recipe goes to other processes
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators import load_recipe, make_plan
from candlelight.generators.language.load_recipe import recipe_as_fields, recipe_sha256
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.recipe_files import shipped_recipes
from candlelight.generators.language.set_settings import set_graph
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.plan_table import load_plan, planned_traces, save_plan
from candlelight.loaders.causal_graphs import CausalGraph

# Another hash of a recipe refuses folders of frames that were begun with the old one, and another hash of its
# samples means other images. A change that intends either changes the entry:
# `python tests/generators/recipes/test_all_recipes.py` prints all.
GOLDEN = json.loads((Path(__file__).parent / "golden_plans.json").read_text())
SCANS = (
    "happy",
    "homer",
    "max-planck",
    "nefertiti",
    "spot",
    "stanford-bunny",
)  # objects that are not shipped
COUNT = 20
# Recipes of many sets or many counterfactuals; their plans take longest.
LIMITS = {"parts-recoloured": 4, "parts-removed": 2, "invariance": 8, "concepts-controls": 8}
CHANGES = [
    "seed=18446744073709551616",
    "layers=[image, albedo]",
    "image={width: 24, height: 16}",
    "exposure=0.1",
]


def plan_of(name: str, scans: Path) -> Plan:
    for label in SCANS:
        (scans / f"{label}.blend").touch()
    recipe = load_recipe(name, assets={"objects": scans} if name == "concepts-scans" else None)
    return make_plan(recipe, LIMITS.get(name, COUNT))


def hashes(plan: Plan) -> dict[str, str]:
    """Hash a recipe, and the JSON of twenty of its samples, spread over all sets."""
    some = plan.samples.take(np.linspace(0, len(plan) - 1, COUNT).round().astype(int).tolist())
    lines = b"\n".join(line for _, line in some.lines())
    return {"recipe": recipe_sha256(plan.recipe), "samples": hashlib.sha256(lines).hexdigest()}


@pytest.fixture(scope="module", params=shipped_recipes())
def plan(request, tmp_path_factory) -> Plan:
    """Plan some samples of each set."""
    made = plan_of(request.param, tmp_path_factory.mktemp("scans"))
    assert made.recipe.name == request.param
    return made


def test_hashes_of_recipe_and_samples_are_those_of_before(plan):
    assert hashes(plan) == GOLDEN[plan.recipe.name]


def test_plain_fields_and_graphs_are_read_back(plan):
    # The fields and graphs in `dataset.json` are enough to plan the set anew. Earlier packs have all fields
    # of a set of counterfactuals.
    fields = json.loads(json.dumps(recipe_as_fields(plan.recipe)))
    earlier = plan.recipe.model_dump(mode="json", exclude_unset=True, exclude={"assets"})
    for stored in (fields, earlier):
        again = load_recipe(stored, assets=plan.recipe.assets)
        assert recipe_sha256(again) == recipe_sha256(plan.recipe)
    for name, image_set in plan.recipe.sets.items():
        graph = set_graph(plan.recipe, name)
        assert CausalGraph.from_json(graph.to_json()) == graph
        assert {*graph.names} == {*image_set.mechanisms()}
        assert (image_set.counterfactual is None) == ("factors" in fields["sets"][name])
        assert not np.tril(graph.adjacency()).any()


def test_ids_units_and_groups_are_consistent(plan):
    samples = list(plan.samples)
    assert len({sample.id for sample in samples}) == len(plan)
    sets, units = plan.recipe.sets, {}
    graphs = {name: image_set.causal_parents() for name, image_set in sets.items()}
    for one in samples:
        free = {name for name in one.exogenous.keys() - one.intervention.keys() if not graphs[one.set][name]}
        once = sorted(name for name in free if not sets[one.set].renewed(name))
        draws = tuple((name, one.exogenous[name]) for name in once)
        units.setdefault((one.set, one.unit), set()).add(draws)
    assert {len(drawn) for drawn in units.values()} == {1}
    assert len({(one.unit, one.trace.cycles_seed) for one in samples}) == len({one.unit for one in samples})
    assert len({(one.set, one.trace) for one in samples}) == len(plan.groups)
    for group in plan.groups.values():
        assert len({(one.set, one.trace) for one in group}) == 1


def test_sets_with_units_share_them(plan):
    # The draws depend on these names; other names would change every frame.
    for name, image_set in plan.recipe.sets.items():
        if image_set.unit_factors is not None and plan.recipe.name != "relit":
            assert image_set.shares_units
            assert all(one.unit.startswith(("scene=", "item=")) for one in plan.samples.of_set(name))


@pytest.mark.parametrize("changes", [[], CHANGES], ids=["as shipped", "changed"])
def test_a_recipe_survives_json_and_pickle(plan, changes):
    recipe = load_recipe(plan.recipe.name, changes)
    again = Recipe.model_validate(json.loads(json.dumps(recipe.model_dump(mode="json"))))
    assert again == recipe
    assert recipe_sha256(again) == recipe_sha256(recipe)
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe


def test_a_plan_file_holds_the_plan(plan, tmp_path):
    plan, path = plan.limit(5), tmp_path / "plan.parquet"
    save_plan(plan, path)
    assert [file.name for file in tmp_path.iterdir()] == ["plan.parquet"]
    again = load_plan(path)
    assert again.samples == plan.samples
    assert recipe_sha256(again.recipe) == recipe_sha256(plan.recipe)
    # Numbers are equal to the digit: 15 does not become 15.0.
    assert list(again.samples.lines()) == list(plan.samples.lines())
    assert again.groups == plan.groups
    assert planned_traces(path) == {sample.id: (sample.group, sample.gain) for sample in plan.samples}


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        plans = {name: plan_of(name, Path(folder)) for name in shipped_recipes()}
        print(json.dumps({name: hashes(plan) for name, plan in plans.items()}, indent=1))
