"""The plan of `parts-removed`: classes, subsets of parts, and interventions that change one thing."""

from collections import Counter
from itertools import chain, combinations

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.colour import linear_to_srgb

SLOTS = ("beak", "crest", "wings", "tail", "feet")
DISTRACTORS = ("distractor_1", "distractor_2", "distractor_3")
SMALL = ["sets.original.draws=1", *(f"sets.{name}.draws=40" for name in ("whole", "train", "confounded"))]


@pytest.fixture(scope="module")
def plan():
    return make_plan(load_recipe("parts-removed", SMALL))


@pytest.fixture(scope="module")
def originals(plan):
    return {one.id: one for one in plan.samples.of_set("original")}


@pytest.fixture(scope="module")
def codes(originals):
    """Return the variants of each class."""
    found = {one.factors["class"]: tuple(one.factors[slot] for slot in SLOTS) for one in originals.values()}
    assert all(
        found[one.factors["class"]] == tuple(map(one.factors.get, SLOTS)) for one in originals.values()
    )
    return found


def present(sample):
    """Name the parts that are there."""
    return {part.name for part in sample.trace.objects[0].parts if part.material.label != "absent"}


def missing(sample):
    """Name the slots and distractors that are absent."""
    return frozenset(name for name in (*SLOTS, *DISTRACTORS) if sample.factors[name] == "absent")


def test_the_creature_has_four_variants_of_each_slot_in_colours_of_their_own():
    parts = {part["name"]: part["color"] for part in AssetLibrary().facts("objects", "creature")["parts"]}
    by_slot = {slot: [name for name in parts if name.startswith(slot)] for slot in SLOTS}
    assert [*parts] == ["body", *chain.from_iterable(by_slot.values())]
    new = np.array([(1, 0, 1), (0.5, 0.5, 0.5), (0, 0, 0)])  # css:magenta, css:gray, css:black
    for names in by_slot.values():
        assert len(names) == 4
        colours = [linear_to_srgb(np.array(parts[name])) for name in names]
        for a, b in combinations(colours, 2):
            assert np.abs(a - b).max() > 0.3
        for colour in colours:
            assert all(np.abs(colour - other).max() > 0.2 for other in new)


def test_classes_share_parts_and_no_slot_tells_them_apart(codes):
    assert len(set(codes.values())) == len(codes) == 8
    for slot in range(len(SLOTS)):
        used = Counter(code[slot] for code in codes.values())
        assert len(used) == 4
        assert "absent" not in used
    for name, code in codes.items():
        sharing = [other for other in codes.values() if other != code and set(other) & set(code)]
        assert len(sharing) >= 3, name
    apart = Counter(
        sum(a != b for a, b in zip(*pair, strict=True)) for pair in combinations(codes.values(), 2)
    )
    assert apart[1] == 3  # pairs of classes that one part tells apart


def test_all_parts_and_distractors_of_originals_are_there(originals, codes):
    for one in originals.values():
        assert not missing(one)
        assert present(one) == {"body", *codes[one.factors["class"]]}
        assert len(one.trace.objects) == 4


def test_each_original_has_every_subset_of_its_parts_and_nothing_else_changes(plan, originals, codes):
    subsets = {frozenset(some) for size in range(6) for some in combinations(SLOTS, size)}
    found = {name: {frozenset()} for name in originals}
    looks = {name: {original.trace.objects[0]} for name, original in originals.items()}
    for one in plan.samples.of_set("removed"):
        original = originals[one.counterfactual_of]
        assert one.intervention == dict.fromkeys(missing(one), "absent")
        found[original.id].add(missing(one))
        looks[original.id].add(one.trace.objects[0])
        kept = {original.factors[slot] for slot in SLOTS if slot not in missing(one)}
        assert present(one) == {"body", *kept}
        (before, *others), (after, *same) = original.trace.objects, one.trace.objects
        assert others == same
        assert before.model_copy(update={"parts": ()}) == after.model_copy(update={"parts": ()})
        assert differing(original, one) == {"objects"}
    assert all(some == subsets for some in found.values())
    assert all(len(some) == 32 for some in looks.values())


def test_other_counterfactuals_change_one_thing(plan, originals):
    for one in plan.samples.of_set("cleared"):
        assert one.trace.objects[0] == originals[one.counterfactual_of].trace.objects[0]
        gone = [placed.material.label == "absent" for placed in one.trace.objects[1:]]
        assert gone == [one.factors[name] == "absent" for name in DISTRACTORS]
        assert any(gone)
    for one in plan.samples.of_set("recoloured"):
        original = originals[one.counterfactual_of]
        ((name, colour),) = one.intervention.items()
        slot, wanted = name.removesuffix("_colour"), original.factors[name.removesuffix("_colour")]
        pairs = zip(original.trace.objects[0].parts, one.trace.objects[0].parts, strict=True)
        assert [part.name for its, part in pairs if its != part] == [wanted]
        assert (slot in SLOTS, colour) in {(True, f"css:{name}") for name in ("magenta", "gray", "black")}
        assert differing(original, one) == {"objects"}
    for one in plan.samples.of_set("scenes"):
        assert differing(originals[one.counterfactual_of], one) <= {"environment"}
    for one in plan.samples.of_set("relit"):
        assert differing(originals[one.counterfactual_of], one) == {"lights"}
        before, after = (azimuth(some) for some in (originals[one.counterfactual_of], one))
        assert after - before == pytest.approx(one.factors["light"], abs=0.01)


def test_training_sets_differ_in_what_is_absent(plan):
    absent = {
        name: {part: np.mean([part in missing(one) for one in plan.samples.of_set(name)]) for part in parts}
        for name, parts in {"train": (*SLOTS, *DISTRACTORS), "whole": (*SLOTS, *DISTRACTORS)}.items()
    }
    for part in SLOTS:
        assert absent["whole"][part] == 0
        assert absent["train"][part] == pytest.approx(0.4, abs=0.1)
    for part in DISTRACTORS:
        assert absent["whole"][part] == pytest.approx(0.5, abs=0.1)
        assert absent["train"][part] == pytest.approx(0.5, abs=0.1)


def test_the_cube_gives_the_class_away_where_the_set_is_confounded(plan):
    samples = list(plan.samples.of_set("confounded"))
    pairs = {(one.factors["class"], one.factors["distractor_1"]) for one in samples}
    assert len(pairs) == len({color for _, color in pairs}) == 8
    for slot in SLOTS:
        seen = Counter((one.factors["class"], one.factors[slot]) for one in samples)
        assert len(seen) == 8 * 4  # any variant occurs with any class
    assert not any(missing(one) & set(SLOTS) for one in samples)


def azimuth(sample):
    """Return the direction of the lamp from the origin, anticlockwise from above, in degrees."""
    x, y, _ = sample.trace.lights[0].location
    return np.degrees(np.arctan2(y, x))


def differing(original, changed):
    """Name the fields of the traces that differ."""
    before, after = original.trace.model_dump(), changed.trace.model_dump()
    return {field for field in before if before[field] != after[field]}
