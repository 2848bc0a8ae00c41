"""The examples of docs/recipes.md: they plan as the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.captions import check_caption
from candlelight.loaders.files.plain_yaml import parse_yaml

PAGE = Path(__file__).parents[3] / "docs" / "recipes.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
WORKED, CHOICE, RING, CAPTION, LIGHTS, SURFACES, *_ = BLOCKS


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "mine.yaml"
    path.write_text(WORKED, encoding="utf-8")
    plan = make_plan(load_recipe(path))
    return {name: [s for s in plan.samples if s.set == name] for name in ("observed", "intervened")}


def test_the_worked_example_plans_two_sets_of_two_objects(samples):
    assert [len(some) for some in samples.values()] == [200, 200]
    for sample in samples["observed"]:
        first, second = sample.trace.objects
        assert first.type == sample.factors["shape"]
        assert (second.type, second.material.label) == ("sphere", "blue")
        assert sample.factors.keys() == {"shape", "color", "azimuth"}
        assert sample.exogenous.keys() == {"habit"}


def test_the_hidden_confounder_of_the_worked_example_has_the_strength_that_the_page_says(samples):
    a = [s.factors["shape"] for s in samples["observed"] if s.exogenous["habit"] == "a"]
    assert a.count("cube") / len(a) == pytest.approx(0.9, abs=0.08)
    assert sorted({s.propensity["shape"] for s in samples["observed"]}) == pytest.approx([0.1, 0.9])


def test_the_intervention_of_the_worked_example_breaks_the_dependence(samples):
    assert {s.factors["color"] for s in samples["observed"]} == {"red", "yellow"}
    assert {s.factors["color"] for s in samples["intervened"]} == {"red"}
    assert {s.factors["shape"] for s in samples["intervened"]} == {"cube", "cone"}


def test_the_example_of_a_choice_is_valid():
    fields = parse_yaml(CHOICE)
    fields["layout"]["camera"] = {"location": [0, 5, 3], "look_at": [0, 0, 0]}
    assert ImageSet.model_validate(fields).layout.choices().keys() == {"layout.objects", "layout.material"}


def test_the_views_of_the_example_share_the_draws_of_their_unit():
    samples = make_plan(load_recipe(parse_yaml(RING), ["draws=50"])).samples
    units: dict[str, set] = {}
    for sample in samples:
        scene = sample.trace.model_copy(update={"camera": None})
        units.setdefault(sample.unit, set()).add((scene, sample.group))
    assert len(samples) == 600
    assert len(units) == 50
    for views in units.values():
        assert len({scene for scene, _ in views}) == 1
        assert len({group for _, group in views}) == 12


def test_the_ring_of_the_example_is_twelve_views_of_one_scene():
    samples = list(make_plan(load_recipe(parse_yaml(RING))).samples)
    assert len({sample.trace.model_copy(update={"camera": None}) for sample in samples}) == 1
    places = np.array([sample.trace.camera.location for sample in samples])
    assert len(samples) == len(np.unique(places.round(3), axis=0)) == 12
    assert np.linalg.norm(places[:, :2], axis=1) == pytest.approx(3)


def test_the_example_of_a_caption_is_valid():
    check_caption(parse_yaml(CAPTION)["caption"], ["color", "shape", "size"])


@pytest.mark.parametrize(("block", "count"), [(LIGHTS, 4), (SURFACES, 8)], ids=["lights", "surfaces"])
def test_the_examples_of_lights_and_surfaces_plan(block, count):
    samples = make_plan(load_recipe({"name": "page", "sets": {"shown": parse_yaml(block)}})).samples
    assert len(samples) == count
    floors = {sample.trace.floor.material and sample.trace.floor.material.label for sample in samples}
    assert floors == ({None} if count == 4 else {"checker", "wood"})
