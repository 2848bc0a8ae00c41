import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.concepts.csm import csm, csm_by_factor, table_factors
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BranchScore, Ratios, SetScore
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.loaders.errors import InputError

FRAMES = [f"frame {number}" for number in range(8)]


def one_set(concept, fixed, reflectance, shading, objects=None, passed=True):
    """A set with a sensitivity, or one for each test frame, of each branch; unaligned ones are half."""

    def branch(values):
        frames = tuple(np.broadcast_to(values, len(FRAMES)).astype(float).tolist())
        halves = tuple(value / 2 for value in frames)
        return {
            name: BranchScore(some, 0.1, 0.9, 0.001 if passed else 0.5)
            for name, some in zip(ALIGNMENTS, (frames, halves), strict=True)
        }

    branches = {"reflectance": branch(reflectance), "shading": branch(shading)}
    return SetScore(concept, fixed, 20, branches, objects)


def values(group, alignment="aligned"):
    return {name: score.value for name, score in group.scores[alignment].items()}


def test_by_hand():
    sets = [
        one_set("illumination", {"temperature": 6500}, 0.2, 0.8),
        one_set("illumination", {"temperature": 6500}, 0.5, 0.5),
        one_set("albedo", {"temperature": 6500}, 0.25, 0.5),
        one_set("albedo", {"temperature": 2500}, 0.6, 0.3),
    ]
    found = csm_by_factor(sets, ["temperature"], FRAMES)
    assert [(one.concept, one.values, one.sets) for one in found] == [
        ("albedo", {"temperature": 6500}, {"aligned": 1, "unaligned": 1}),
        ("albedo", {"temperature": 2500}, {"aligned": 1, "unaligned": 1}),
        ("illumination", {"temperature": 6500}, {"aligned": 2, "unaligned": 2}),
    ]
    assert values(found[0])["mean_of_ratios"] == values(found[0])["ratio_of_means"] == 0.5
    assert values(found[2]) == pytest.approx(
        {
            "mean_of_ratios": (0.8 / 0.2 + 1) / 2,
            "ratio_of_means": 1.3 / 0.7,
            "bounded_mean_of_ratios": (0.8 + 0.5) / 2,
            "bounded_ratio_of_means": 1.3 / 2,
            "wanted": 0.65,
            "unwanted": 0.35,
        }
    )
    assert values(found[2], "unaligned")["wanted"] == pytest.approx(0.325)
    assert values(found[2], "unaligned")["mean_of_ratios"] == pytest.approx(2.5)


@pytest.fixture
def random_sets():
    """Sets of both concepts, two scenes and two textures, with random sensitivities for each test frame."""
    drawn = np.random.default_rng(0)
    return [
        one_set(concept, {"scene": scene, "texturing": texturing}, *drawn.random((2, len(FRAMES))), objects)
        for concept in ("albedo", "illumination")
        for scene, objects in (("cube", 1), ("cube_sphere", 2), ("vase", 1))
        for texturing in ("rgb", "textured")
        for _ in range(2)
    ]


@pytest.mark.parametrize("reduce", ["mean_of_ratios", "ratio_of_means"])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_equals_csm_of_the_sets_of_a_group(random_sets, alignment, reduce):
    groups = csm_by_factor(random_sets, ["objects", "texturing"], FRAMES)
    assert len(groups) == 8
    assert sum(one.sets[alignment] for one in groups) == len(random_sets)
    for group in groups:
        members = [
            one
            for one in random_sets
            if one.concept == group.concept
            and one.objects == group.values["objects"]
            and one.fixed["texturing"] == group.values["texturing"]
        ]
        r, s = (
            torch.tensor([one.branches[name][alignment].sensitivity for one in members])
            for name in ("reflectance", "shading")
        )
        expected, found = csm(r, s, r, s, reduce), values(group, alignment)
        end = "s" if group.concept == "albedo" else "r"
        assert found[reduce] == pytest.approx(float(getattr(expected, f"csm_{end}")))
        assert found[f"bounded_{reduce}"] == pytest.approx(float(getattr(expected, f"bounded_{end}")))


def test_one_group_is_the_whole_with_its_interval(random_sets):
    sets = [
        SetScore(one.concept, {**one.fixed, "light": 20}, one.images, one.branches) for one in random_sets
    ]
    whole, _ = resampled_interval(Ratios(sets), FRAMES, seed=3)
    albedo, illumination = csm_by_factor(sets, ["light"], FRAMES, seed=3)
    for group, metric in ((albedo, "csm_s"), (illumination, "csm_r")):
        for alignment in ALIGNMENTS:
            expected = whole[f"{metric} {alignment}, all sets"]
            assert math.isfinite(expected.low)
            found = group.scores[alignment]["mean_of_ratios"]
            assert (found.value, found.low, found.high) == pytest.approx(
                (expected.value, expected.low, expected.high)
            )


def test_only_the_sets_that_fix_a_factor_are_grouped():
    sets = [
        one_set("albedo", {"scene": "cube", "light": -20}, 0.5, 0.5),
        one_set("illumination", {"scene": "cube", "material": 0}, 0.5, 0.5, objects=1),
    ]
    assert [one.concept for one in csm_by_factor(sets, ["light"], FRAMES)] == ["albedo"]
    assert [one.concept for one in csm_by_factor(sets, ["objects"], FRAMES)] == ["illumination"]
    message = (
        r"no concept set fixes `light` and `material`; expected some of: scene, light, objects, material"
    )
    with pytest.raises(InputError, match=message):
        csm_by_factor(sets, ["light", "material"], FRAMES)
    with pytest.raises(InputError, match=r"no concept set fixes `colour`; expected some of: none"):
        csm_by_factor([one_set("albedo", {}, 0.5, 0.5)], ["colour"], FRAMES)


def test_zero_sensitivity_of_a_model():
    still = one_set("albedo", {"scene": "cube"}, 0, 0)
    half_still = one_set("illumination", {"scene": "cube"}, 0, 0.7)
    albedo, illumination = csm_by_factor([still, half_still], ["scene"], FRAMES)
    assert values(albedo) == pytest.approx(
        dict.fromkeys(
            (
                "mean_of_ratios",
                "ratio_of_means",
                "bounded_mean_of_ratios",
                "bounded_ratio_of_means",
            ),
            math.nan,
        )
        | {"wanted": 0, "unwanted": 0},
        nan_ok=True,
    )
    found = values(illumination)
    assert found["mean_of_ratios"] == found["ratio_of_means"] == math.inf
    assert found["bounded_mean_of_ratios"] == found["bounded_ratio_of_means"] == 1


def test_a_rule_that_keeps_no_set_leaves_an_undefined_group():
    sets = [
        one_set("albedo", {"scene": "cube"}, 0.8, 0.4),
        one_set("albedo", {"scene": "cube"}, 0.8, 0.1, passed=False),
        one_set("albedo", {"scene": "vase"}, 0.8, 0.4, passed=False),
    ]
    cube, vase = csm_by_factor(sets, ["scene"], FRAMES, rule="both branches")
    assert (cube.sets["aligned"], values(cube)["mean_of_ratios"]) == (1, 2)
    assert vase.sets == {"aligned": 0, "unaligned": 0}
    assert all(math.isnan(value) for value in values(vase).values())
    with pytest.raises(
        InputError, match=r"`rule` must be one of: all sets, both branches, wanted branch; got all"
    ):
        csm_by_factor(sets, ["scene"], FRAMES, rule="all")


def test_factors_of_tables(random_sets):
    combined = ("objects", "texturing")
    assert table_factors(random_sets) == [combined, ("objects",), ("scene",), ("texturing",)]
    warm = [
        SetScore(one.concept, one.fixed | {"temperature": kelvin}, one.images, one.branches, one.objects)
        for one in random_sets
        for kelvin in (2500, 6500)
    ]
    assert table_factors(warm)[:2] == [combined, ("temperature", *combined)]
    assert table_factors([one_set("albedo", {"scene": "cube"}, 1, 1, objects=1)]) == []
