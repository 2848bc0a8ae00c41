"""The causal check on planted classifiers, whose logits depend on the colour of one region."""

import functools
import math
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.coverage.causal_effects import CausalStatistic, region_density, region_hits
from candlelight.evaluation.coverage.control_explainers import MASK_CONTROLS
from candlelight.evaluation.coverage.explained_images import ExplainedImages
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.filter_methods import GradCAM
from candlelight.evaluation.coverage.score_causal_check import moved_hits
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages
from tests.refusals import refused

SIZE = 12
PLACES = {
    "head": (slice(1, 5), slice(1, 5)),
    "tail": (slice(7, 11), slice(1, 5)),
    "wing": (slice(1, 5), slice(7, 11)),
}
SHADES = (0.3, 0.2, 0.1)  # of red, in these parts; other regions are black


def region_masks(shown=tuple(PLACES)):
    masks = {}
    for name in shown:
        masks[name] = torch.zeros(SIZE, SIZE, dtype=torch.bool)
        masks[name][PLACES[name]] = True
    return {**masks, BACKGROUND_REGION: ~torch.stack(list(masks.values())).any(0)}


def item(row, shown=tuple(PLACES)):
    """Make an image of red parts, and once more with each region recoloured, the background twice."""
    masks = region_masks(shown)
    image = torch.zeros(3, SIZE, SIZE)
    image[2] = 0.05 * row
    for name, shade in zip(PLACES, SHADES, strict=True):
        if name in masks:
            image[0, masks[name]] = shade
    changed = {}
    for name, mask in masks.items():
        values = (0.9, 0.6) if name == BACKGROUND_REGION else (1.0,)
        changed[name] = torch.stack([image.clone() for _ in values])
        for one, value in zip(changed[name], values, strict=True):
            one[:, mask] = value
    return CounterfactualImages(image, masks, None, changed)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    few = functools.partial(resampled_interval, resamples=10)
    module = import_module("candlelight.evaluation.coverage.score_causal_check")
    monkeypatch.setattr(module, "resampled_interval", few)


@pytest.fixture
def view(memory_view):
    return memory_view([item(row) for row in range(8)])


def check(methods, classifiers, view, labels=None, **options):
    data = ExplainedImages(view, classifiers, labels)
    return evaluate("causal-check", data, methods, device="cpu", **options)


def looks_at(**weights):
    """Make a classifier whose logits are weighted means of the green channel over regions, and 0."""
    masks = region_masks()

    def classify(images):
        means = [weight * images[:, 1, masks[name]].mean(1) for name, weight in weights.items()]
        return torch.stack([torch.zeros(len(images)), -sum(means) + 0.1], 1).flip(1)

    return classify


def points_at(**weights):
    masks = region_masks()

    def explain(images):
        heatmap = sum(weight * masks[name].float() for name, weight in weights.items())
        return heatmap.expand(len(images), 1, SIZE, SIZE)

    return explain


WEIGHTS = {"head": 3.0, "tail": 2.0, "wing": 1.0, BACKGROUND_REGION: 0.5}


def test_the_map_of_the_weights_agrees_and_the_reverse_disagrees(view):
    reverse = dict(zip(WEIGHTS, reversed(WEIGHTS.values()), strict=True))
    methods = {"right": points_at(**WEIGHTS), "reverse": points_at(**reverse)}
    results = check(methods, looks_at(**WEIGHTS), view)
    right, wrong = ({name: score.value for name, score in one.scores.items()} for one in results.values())
    names = ("agreement", "hit_rate", "hits_above_chance", "figure_ground", "mass_agreement")
    chances = [one.details["chance"] for one in results.values()]
    assert all(0 < chance < 0.5 for chance in chances)
    # The background is six times as large as a part: its mass is that of the head, or the largest.
    assert right == pytest.approx(dict(zip(names, (1, 1, 1 - chances[0], 1, 0.5 / 22.5**0.5), strict=True)))
    assert wrong == pytest.approx(dict(zip(names, (-1, 0, -chances[1], 0, -1), strict=True)))
    assert compare(*results.values()).difference.low == pytest.approx(2)
    assert results["right"].groups == view.ids
    assert not results["right"].failed


@pytest.mark.parametrize("looked_at", ["head", BACKGROUND_REGION])
def test_a_classifier_of_one_region_has_an_effect_there_alone(view, looked_at):
    others = [name for name in WEIGHTS if name != looked_at]
    methods = {"right": points_at(**{looked_at: 1.0}), "other": points_at(**{others[0]: 1.0})}
    results = check(methods, looks_at(**{looked_at: 2.0}), view, scale="logit", batch_size=5)
    described = {one["region"]: one for one in results["right"].details["regions"]}
    assert list(described) == [*sorted(PLACES), "all parts", BACKGROUND_REGION]
    size = {name: one["effect_size"][0] for name, one in described.items()}
    assert size.pop("all parts") == max(size[name] for name in PLACES)
    # The mean over both backgrounds, 0.9 and 0.6; the parts have one counterfactual each.
    assert size.pop(looked_at) == pytest.approx(1.5 if looked_at == BACKGROUND_REGION else 2.0, rel=1e-3)
    assert list(size.values()) == pytest.approx([0, 0, 0], abs=1e-6)
    assert described[looked_at]["effect"][0] < 0
    assert described[looked_at]["images"] == 8
    # Tied ranks: the three regions without an effect have equal densities, too.
    assert results["right"].scores["agreement"].value == pytest.approx(1.0)
    assert results["other"].scores["agreement"].value == pytest.approx(-1 / 3)
    area = (SIZE * SIZE - 48 if looked_at == BACKGROUND_REGION else 16) / SIZE**2
    assert described[looked_at]["density"][0] == pytest.approx(1 / area)
    assert described[looked_at]["share"][0] == 1


SIGNED = {"head": 2.0, "tail": -1.0, "wing": 0.25, BACKGROUND_REGION: 1.6}
AREAS = {**dict.fromkeys(PLACES, 16), BACKGROUND_REGION: SIZE**2 - 48}
# Evidence, what a change takes away from the logit: the mean over both backgrounds, 0.9 and 0.6.
EVIDENCE = {**SIGNED, BACKGROUND_REGION: 1.2}
IDEALS = {
    "agreement": {name: abs(value) for name, value in EVIDENCE.items()},
    "mass_agreement": {name: abs(value) / AREAS[name] for name, value in EVIDENCE.items()},
    "signed_agreement": EVIDENCE,
    "signed_mass_agreement": {name: value / AREAS[name] for name, value in EVIDENCE.items()},
}


def test_each_ideal_explanation_scores_one_by_its_own_convention(view):
    methods = {name: points_at(**values) for name, values in IDEALS.items()}
    results = check(methods, looks_at(**SIGNED), view, scale="logit")
    found = {
        name: {score: round(result.scores[score].value, 6) for score in IDEALS if score in result.scores}
        for name, result in results.items()
    }
    # Four ranks: 1 - 6 (sum of squared differences) / 60. Densities of maps with signs start at the tail.
    assert found == {
        "agreement": {"agreement": 1, "mass_agreement": 0.8},
        "mass_agreement": {"agreement": 0.4, "mass_agreement": 1},
        "signed_agreement": {
            **{"agreement": 0.8, "mass_agreement": 0.8},
            **{"signed_agreement": 1, "signed_mass_agreement": 0.8},
        },
        "signed_mass_agreement": {
            **{"agreement": 0.4, "mass_agreement": 1},
            **{"signed_agreement": 0.8, "signed_mass_agreement": 1},
        },
    }
    for result in results.values():  # at the resolution of the images
        oracle = dict(result.details["oracle"])
        above = oracle.pop("hits_above_chance")
        assert 0.5 < above < 1
        assert set(oracle.values()) == {1}


@pytest.mark.parametrize(
    ("score", "cell", "reached"),
    [
        *(("agreement", 6, 1), ("mass_agreement", 6, 0.8)),
        *(("signed_agreement", 2, 1), ("signed_mass_agreement", 2, 0.8)),
    ],
)
def test_the_oracle_is_the_score_of_the_ideal_at_the_resolution_of_the_method(view, score, cell, reached):
    def explain(images):
        return nn.functional.avg_pool2d(points_at(**IDEALS[score])(images), cell)

    result = check({"ideal": explain}, looks_at(**SIGNED), view, scale="logit")["ideal"]
    assert result.details["resolution"] == [SIZE // cell] * 2
    others = ("hit_rate", "hits_above_chance", "figure_ground") if score == "agreement" else ()
    for name in (score, *others):
        assert result.details["oracle"][name] == pytest.approx(result.scores[name].value), name
    assert result.details["oracle"][score] == pytest.approx(reached)


def test_controls_of_masks(view):
    methods = {name: MASK_CONTROLS[name] for name in ("object", "part areas")}
    result = check(methods, looks_at(**WEIGHTS), view)
    described = {one["region"]: one["density"][0] for one in result["object"].details["regions"]}
    assert described == {**dict.fromkeys([*PLACES, "all parts"], 3), BACKGROUND_REGION: 0}
    wide = item(0)
    wide.masks["tail"][7:11, 5:7] = True
    wide.masks[BACKGROUND_REGION][7:11, 5:7] = False
    areas = MASK_CONTROLS["part areas"]([wide.masks], (SIZE, SIZE)).maps[0, 0]
    assert {name: areas[mask].unique().tolist() for name, mask in wide.masks.items()} == {
        **{"head": [pytest.approx(16 / 144)], "tail": [pytest.approx(24 / 144)]},
        **{"wing": [pytest.approx(16 / 144)], BACKGROUND_REGION: [0]},
    }


def test_accuracies_of_the_networks_and_a_verdict_on_two_of_them(view):
    right, wrong = looks_at(head=1.0), lambda images: looks_at(head=1.0)(images).flip(1)
    methods = {"a": points_at(head=1.0), "b": points_at(head=1.0), "c": points_at(tail=1.0)}
    networks = {"a": right, "b": right, "c": wrong}
    results = check(methods, networks, view, labels=[0] * 6 + [1] * 2)
    found = {name: result.details["network"] for name, result in results.items()}
    assert found["a"] == found["b"]
    assert {name: (one["of"], one["accuracy"][0], one["chance"]) for name, one in found.items()} == {
        **{"a": ("a", 0.75, 0.75), "b": ("a", 0.75, 0.75), "c": ("c", 0.25, 0.75)},
    }
    verdict = str(compare(results["a"], results["c"])).splitlines()[0]
    assert verdict.endswith("; they explain different networks (accuracy a 0.75, c 0.25)")
    assert "networks" not in str(compare(results["a"], results["b"]))
    del methods["b"], networks["b"]
    unknown = check(methods, networks, view)
    assert unknown["a"].details["network"] == {"of": "a"}
    assert "different networks (of unknown accuracy)" in str(compare(unknown["a"], unknown["c"]))


def test_noise_hits_as_often_as_its_moved_maps():
    """Small parts win the mean of noise, so it hits a large one less often than a region drawn at random."""
    masks = {name: torch.zeros(SIZE, SIZE, dtype=torch.bool) for name in ("eye", "nose", "ear", "body")}
    for column, name in zip((1, 4, 7), masks, strict=False):
        masks[name][2, column] = True
    masks["body"][4:10, 2:9] = True
    effects = {"eye": (0.1, 0.1), "nose": (0.0, 0.0), "ear": (0.1, 0.1), "body": (-0.8, 0.8)}
    draws = torch.Generator().manual_seed(0)
    noise = torch.rand(300, SIZE, SIZE, generator=draws)
    regions, sizes = torch.stack(list(masks.values())), torch.tensor([[0.1, 0.0, 0.1, 0.8]])
    density = region_density(noise, regions.expand(300, -1, -1, -1))
    hits = region_hits(density, sizes.expand(300, -1)).hit.numpy()
    chance = np.array([moved_hits(one, masks, effects) for one in noise])
    for above, unbiased in ((hits - chance, True), (hits - 0.25, False)):
        error = above.std() / np.sqrt(len(above))
        assert (abs(above.mean()) < 3 * error) == unbiased


def test_object_and_background_are_compared(view):
    # Denser on the background than on the parts together, but densest on one of them.
    mostly_ground = points_at(**{BACKGROUND_REGION: 1.0, "wing": 1.5})
    methods = {"mostly": mostly_ground, "wing": points_at(wing=1.0)}
    confounded = check(methods, looks_at(**{BACKGROUND_REGION: 2.0}), view)
    scores = {
        name: (result.scores["hit_rate"].value, result.scores["figure_ground"].value)
        for name, result in confounded.items()
    }
    assert scores == {"mostly": (0, 1), "wing": (0, 0)}
    described = {one["region"]: one for one in confounded["mostly"].details["regions"]}
    mean = (SIZE**2 - 48 + 1.5 * 16) / SIZE**2
    assert described["all parts"]["density"][0] == pytest.approx(0.5 / mean)
    assert described[BACKGROUND_REGION]["density"][0] == pytest.approx(1 / mean)


def test_the_effects_themselves_tell_object_from_background(view):
    """Mean density of the object tells them apart wrongly: a third of the head's, less than the ground's."""
    weights = {"head": 1.0, BACKGROUND_REGION: 0.5}
    others = points_at(tail=1.0, wing=1.0, **{BACKGROUND_REGION: 0.1})
    methods = {"effects": points_at(**weights), "other parts": others}
    results = check(methods, looks_at(**weights), view)
    assert [result.scores["figure_ground"].value for result in results.values()] == [1, 0]


def test_images_without_parts_or_without_background(memory_view):
    items = [item(row) for row in range(8)]
    for one in items[:4]:
        del one.masks[BACKGROUND_REGION]
    for one in items[4:]:
        one.masks.clear()
        one.masks[BACKGROUND_REGION] = torch.ones(SIZE, SIZE, dtype=torch.bool)
    result = check({"map": points_at(**WEIGHTS)}, looks_at(**WEIGHTS), memory_view(items))["map"]
    assert result.scores["agreement"].value == 1
    assert result.details["undefined"] == 4
    assert math.isnan(result.scores["figure_ground"].value)


def test_effects_of_probabilities_are_smaller_than_one(view):
    sure = check({"map": points_at(head=1.0)}, looks_at(head=50.0), view)["map"]
    head = sure.details["regions"][0]
    assert head["region"] == "head"
    assert -1 < head["effect"][0] < -0.5
    assert sure.about.settings["scale"] == "probability"


def test_light_on_other_regions_counts_unless_the_region_alone_is_taken(memory_view):
    items = [item(row) for row in range(8)]
    for one in items:  # a new background lights the head
        one.changed[BACKGROUND_REGION][:, 1, one.masks["head"]] = 1.0
    methods, classify = {"map": points_at(head=1.0)}, looks_at(head=2.0)
    sizes = {}
    for pixels in ("all", "region"):
        how = {"scale": "logit", "pixels": pixels}
        result = check(methods, classify, memory_view(items), **how)["map"]
        sizes[pixels] = {one["region"]: one["effect_size"][0] for one in result.details["regions"]}
        assert result.about.settings["pixels"] == pixels
    assert sizes["all"][BACKGROUND_REGION] == pytest.approx(2, rel=1e-3)
    assert sizes["region"][BACKGROUND_REGION] == pytest.approx(0, abs=1e-6)
    assert sizes["all"]["head"] == sizes["region"]["head"] == pytest.approx(2, rel=1e-3)


def test_hidden_parts_and_sizes(memory_view):
    items = [item(row, ("head", "tail") if row % 2 else tuple(PLACES)) for row in range(8)]
    view = memory_view(items)
    # A part without pixels but with a counterfactual, as rendered from behind, is no region.
    items[1].masks["wing"] = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    items[1].changed["wing"] = items[1].image[None]
    results = {
        size: check({"map": points_at(**WEIGHTS)}, _resized(looks_at(head=1.0)), view, size=size)
        for size in (None, (24, 24))
    }
    for found in results.values():
        described = {one["region"]: one for one in found["map"].details["regions"]}
        assert {name: one["images"] for name, one in described.items()} == {
            **{"head": 8, "tail": 8, "wing": 4, "all parts": 8, BACKGROUND_REGION: 8},
        }
        assert found["map"].scores["hit_rate"].value == 1


def _resized(classify):
    return lambda images: classify(nn.functional.interpolate(images, (SIZE, SIZE), mode="nearest"))


def test_dead_maps_score_zero_and_are_listed(view):
    def sometimes(images):
        maps = points_at(**WEIGHTS)(images).clone()
        maps[0], maps[1, 0, 0, 0] = 1.0, torch.nan
        return maps

    result = check({"map": sometimes}, looks_at(**WEIGHTS), view, batch_size=8)["map"]
    assert result.failed == view.ids[:2]
    assert result.scores["agreement"].value == pytest.approx(6 / 8)
    assert result.scores["hit_rate"].value == pytest.approx(6 / 8)
    alive = check({"map": points_at(**WEIGHTS)}, looks_at(**WEIGHTS), view)["map"]
    assert result.details["chance"] == pytest.approx((2 / 4 + 6 * alive.details["chance"]) / 8)
    assert result.details["regions"][0]["density"][0] > 1


def test_a_classifier_that_depends_on_nothing_leaves_the_scores_undefined(view):
    result = check({"map": points_at(head=1.0)}, lambda images: images[:, :2, 0, 0] * 0, view)["map"]
    assert all(math.isnan(score.value) for score in result.scores.values())
    assert result.details["undefined"] == 8
    assert result.details["notes"] == ["8 of 8 images are left out: no two regions have different effects"]


def test_logits_that_are_not_finite_are_left_out(view):
    def broken(images):
        logits = looks_at(**WEIGHTS)(images)
        return torch.where(images[:, 2, 0, 0, None] < 1e-3, torch.nan, logits)

    result = check({"map": points_at(**WEIGHTS)}, broken, view)["map"]
    assert result.details["undefined"] == 1
    assert result.scores["agreement"].value == 1
    assert not result.failed


class _Planted:
    """An explanation by two concepts, of which the second has the larger map."""

    def explain(self, images):
        maps = torch.cat([points_at(tail=1.0)(images), 2 * points_at(head=1.0)(images)], 1)
        concepts = torch.tensor([0, 1]).expand(len(images), -1)
        return Explanation(maps, concepts, concepts.float(), torch.zeros(len(images), dtype=torch.int64))


def test_explanation_methods_and_their_own_classifiers(view):
    methods = {"planted": _Planted(), "tail": points_at(tail=1.0)}
    classifiers = {"planted": looks_at(head=1.0), "tail": looks_at(tail=1.0)}
    results = check(methods, classifiers, view)
    assert [result.scores["hit_rate"].value for result in results.values()] == [1, 1]
    shared = check(methods, looks_at(head=1.0), view)
    assert [result.scores["hit_rate"].value for result in shared.values()] == [1, 0]
    assert shared["planted"].about.model["version"].endswith("_Planted")


def test_grad_cam_of_a_network(view):
    network = nn.Sequential(nn.Conv2d(3, 2, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network[0].weight.data = torch.tensor([[1.0, 0, 0], [0, 0, 0]])[:, :, None, None]
    result = check({"cam": GradCAM(network, "0")}, network, view)["cam"]
    # The logit is the mean of red, so the less red a region has, the more its new colour changes.
    assert result.scores["agreement"].value == pytest.approx(-1)
    assert len(result.about.model["classifier_sha256"]) == 64


def test_the_statistic_of_drawn_images():
    density = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 2.0, np.nan], [1.0, 1.0, 1.0]])
    effect = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.1, 0.1, np.nan], [0.1, 0.2, 0.3]])
    chance, dead = np.full(4, 0.25), np.array([False] * 4)
    statistic = CausalStatistic(density, effect, chance, dead, density[:, 1:], effect[:, 1:])
    assert statistic(np.array([0, 0, 1]))["agreement"] == pytest.approx(1 / 3)
    assert statistic(np.array([0, 2]))["hit_rate"] == 1
    assert math.isnan(statistic(np.array([2, 2]))["agreement"])
    assert statistic(np.array([3]))["agreement"] == 0  # no ranking of regions is no agreement
    assert statistic(np.array([3]))["hits_above_chance"] == pytest.approx(1 / 3 - 1 / 4)
    assert math.isnan(statistic(np.array([2]))["hits_above_chance"])
    assert statistic.undefined == 1
    sides = [statistic(np.array([row]))["figure_ground"] for row in range(4)]
    assert sides == pytest.approx([1, 0, math.nan, 0.5], nan_ok=True)


METHODS = {"map": points_at(head=1.0)}


@pytest.mark.parametrize(
    ("methods", "classifiers", "message"),
    [
        ({}, looks_at(head=1.0), "expected at least one model"),
        (METHODS, {"other": looks_at(head=1.0)}, "got none for `map`"),
        (METHODS, lambda images: images[:5, 0, 0, 0], r"expected logits \[6, classes\] of .*, got \[5\]"),
    ],
)
def test_methods_and_classifiers_that_are_refused(view, methods, classifiers, message):
    with refused(message):
        check(methods, classifiers, view)


def test_counterfactuals_of_another_size_are_refused(memory_view):
    odd = item(0)
    odd.changed["head"] = torch.zeros(1, 3, 4, 4)
    with refused(r"counterfactuals of `head`: expected images of \[3, 12, 12\], got"):
        check(METHODS, looks_at(head=1.0), memory_view([odd]))
