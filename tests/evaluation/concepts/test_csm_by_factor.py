"""Ratios of the sensitivities of concept sets: by rule, by control, by factor and by number of runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from candlelight.evaluation.concepts.csm import (
    NUMBERS_OF_RUNS,
    csm,
    csm_by_factor,
    score_by_runs,
    table_factors,
)
from candlelight.evaluation.concepts.set_scores import (
    ALIGNMENTS,
    BRANCHES,
    RULES,
    BranchScore,
    Ratios,
    SetScore,
    merge_controls,
)
from candlelight.evaluation.run.intervals import resampled_interval
from tests.refusals import refused

FRAMES = [f"frame {number}" for number in range(8)]


def one_set(concept, fixed, reflectance, shading, objects=None, passed=(True, True)):
    """A set with a sensitivity, or one for each test frame, of each branch; unaligned ones are half."""

    def branch(values, passed):
        frames = tuple(np.broadcast_to(values, len(FRAMES)).astype(float).tolist())
        halves = tuple(value / 2 for value in frames)
        return {
            name: BranchScore(some, 0.1, 0.9, 0.001 if passed else 0.5)
            for name, some in zip(ALIGNMENTS, (frames, halves), strict=True)
        }

    some = zip(BRANCHES, (reflectance, shading), passed, strict=True)
    return SetScore(concept, fixed, 20, {name: branch(*one) for name, *one in some}, objects)


# ----------------------------------------------------------------------------------------- rules and controls


def test_rules_keep_the_right_sets():
    sets = [
        one_set("albedo", {}, 0.8, 0.4),
        one_set("albedo", {}, 0.9, 0.1, passed=(True, False)),
        one_set("albedo", {}, 0.6, 0.6, passed=(False, True)),
        one_set("illumination", {}, 0.2, 0.8, passed=(False, True)),  # the unwanted branch is insensitive
    ]
    found = Ratios(sets)(np.arange(len(FRAMES)))
    assert found["csm_s aligned, all sets"] == pytest.approx((2 + 9 + 1) / 3)
    assert found["csm_s aligned, both branches"] == pytest.approx(2)
    assert found["csm_s aligned, wanted branch"] == pytest.approx((2 + 9) / 2)
    assert found["csm_r aligned, all sets"] == found["csm_r aligned, wanted branch"] == pytest.approx(4)
    assert math.isnan(found["csm_r aligned, both branches"])
    assert not any(name.startswith("csm_r") for name in Ratios(sets[:3])(np.arange(len(FRAMES))))
    assert Ratios([one_set("albedo", {}, [0, 1] * 4, [0.5, 0.25] * 4)])(np.array([1, 1])) == {
        f"csm_s {alignment}, {rule}": 4 for rule in RULES for alignment in ALIGNMENTS
    }


def test_intervals_against_controls_are_over_scenes_and_controls():
    def branch(significant, *shares):
        return {
            f"aligned against control {k}": BranchScore((share,) * 8, 0.1, 0.9, 0.001 if significant else 0.5)
            for k, share in enumerate(shares, 1)
        }

    made = [
        SetScore(
            "albedo",
            {"scene": scene},
            9,
            {"reflectance": branch(scene == "a", *r), "shading": branch(True, *s)},
        )
        for scene, r, s in (("a", (0.4, 0.8), (0.4, 0.2)), ("b", (0.6, 0.2), (0.4, 0.2)))
    ]
    ratios = Ratios([merge_controls(one) for one in made])
    name = "csm_s aligned against control, all sets"
    assert ratios(np.arange(8))[name] == pytest.approx(2.0 / 1.2)
    assert ratios.by_control() == {name: [pytest.approx(1.0 / 0.8), pytest.approx(1.0 / 0.4)]}
    scenes = {"all sets": 2, "both branches": 1, "wanted branch": 1}
    assert ratios.units() == {
        f"csm_s aligned against control, {rule}": {"scenes": count, "controls": 2}
        for rule, count in scenes.items()
    }
    # All frames are equal, so only scenes and controls can change the score.
    drawn = {round(ratios(np.array([row] * 8))[name], 6) for row in range(8)}
    assert len(drawn) > 2
    assert ratios(np.array([3] * 8)) == ratios(np.array([3] * 8))


# ---------------------------------------------------------------------------------------------------- groups


def values(group, alignment="aligned"):
    return {name: score.value for name, score in group.scores[alignment].items()}


def test_groups_by_hand():
    sets = [
        one_set("illumination", {"temperature": 6500}, 0.2, 0.8),
        one_set("illumination", {"temperature": 6500}, 0.5, 0.5),
        one_set("albedo", {"temperature": 6500}, 0.25, 0.5),
        one_set("albedo", {"temperature": 2500}, 0.6, 0.3),
    ]
    found = csm_by_factor(sets, ["temperature"], FRAMES)
    assert [(one.concept, one.values["temperature"], one.sets["aligned"]) for one in found] == [
        ("albedo", 6500, 1),
        ("albedo", 2500, 1),
        ("illumination", 6500, 2),
    ]
    assert values(found[0])["mean_of_ratios"] == values(found[0])["ratio_of_means"] == 0.5
    expected = {
        "mean_of_ratios": (0.8 / 0.2 + 1) / 2,
        "ratio_of_means": 1.3 / 0.7,
        "bounded_mean_of_ratios": (0.8 + 0.5) / 2,
        "bounded_ratio_of_means": 1.3 / 2,
        "wanted": 0.65,
        "unwanted": 0.35,
    }
    assert values(found[2]) == pytest.approx(expected)
    halves = {"wanted": 0.325, "unwanted": 0.175}
    assert values(found[2], "unaligned") == pytest.approx(expected | halves)


@pytest.fixture(scope="module")
def random_sets():
    """Sets of both concepts, three scenes and two textures, with random sensitivities for each test frame."""
    drawn = np.random.default_rng(0)
    return [
        one_set(concept, {"scene": scene, "texturing": texturing}, *drawn.random((2, len(FRAMES))), objects)
        for concept in ("albedo", "illumination")
        for scene, objects in (("cube", 1), ("cube_sphere", 2), ("vase", 1))
        for texturing in ("rgb", "textured")
        for _ in range(2)
    ]


def test_equals_csm_of_the_sets_of_a_group(random_sets):
    groups = csm_by_factor(random_sets, ["objects", "texturing"], FRAMES)
    assert len(groups) == 8
    for group in groups:
        members = [
            one
            for one in random_sets
            if (one.concept, one.objects) == (group.concept, group.values["objects"])
            and one.fixed["texturing"] == group.values["texturing"]
        ]
        end = "s" if group.concept == "albedo" else "r"
        for alignment in ALIGNMENTS:
            assert group.sets[alignment] == len(members)
            r, s = (
                torch.tensor([one.branches[name][alignment].sensitivity for one in members])
                for name in ("reflectance", "shading")
            )
            found = values(group, alignment)
            for reduce in ("mean_of_ratios", "ratio_of_means"):
                expected = csm(r, s, r, s, reduce)
                assert found[reduce] == pytest.approx(float(getattr(expected, f"csm_{end}")))
                assert found[f"bounded_{reduce}"] == pytest.approx(float(getattr(expected, f"bounded_{end}")))


def test_one_group_is_the_whole_with_its_interval(random_sets):
    sets = [replace(one, fixed={**one.fixed, "light": 20}) for one in random_sets]
    whole, _ = resampled_interval(Ratios(sets), FRAMES, seed=3, resamples=20)
    for group, metric in zip(csm_by_factor(sets, ["light"], FRAMES, seed=3), ("csm_s", "csm_r"), strict=True):
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
    with refused("no concept set fixes `light` and `material`; expected some of: scene, light, objects, mat"):
        csm_by_factor(sets, ["light", "material"], FRAMES)
    with refused("no concept set fixes `colour`; expected some of: none"):
        csm_by_factor([one_set("albedo", {}, 0.5, 0.5)], ["colour"], FRAMES)


def test_zero_sensitivity_of_a_model():
    still = one_set("albedo", {"scene": "cube"}, 0, 0)
    half_still = one_set("illumination", {"scene": "cube"}, 0, 0.7)
    albedo, illumination = csm_by_factor([still, half_still], ["scene"], FRAMES)
    undefined = dict.fromkeys(values(albedo), math.nan)
    assert values(albedo) == pytest.approx(undefined | {"wanted": 0, "unwanted": 0}, nan_ok=True)
    ratios = {"mean_of_ratios": math.inf, "ratio_of_means": math.inf}
    bounded = {"bounded_mean_of_ratios": 1, "bounded_ratio_of_means": 1}
    assert values(illumination) == pytest.approx(ratios | bounded | {"wanted": 0.7, "unwanted": 0})


def test_a_rule_that_keeps_no_set_leaves_an_undefined_group():
    sets = [
        one_set("albedo", {"scene": "cube"}, 0.8, 0.4),
        one_set("albedo", {"scene": "cube"}, 0.8, 0.1, passed=(False, False)),
        one_set("albedo", {"scene": "vase"}, 0.8, 0.4, passed=(False, False)),
    ]
    cube, vase = csm_by_factor(sets, ["scene"], FRAMES, rule="both branches")
    assert (cube.sets["aligned"], values(cube)["mean_of_ratios"]) == (1, 2)
    assert vase.sets == {"aligned": 0, "unaligned": 0}
    assert all(math.isnan(value) for value in values(vase).values())
    with refused("`rule` must be one of: all sets, both branches, wanted branch; got all"):
        csm_by_factor(sets, ["scene"], FRAMES, rule="all")


def test_factors_of_tables(random_sets):
    combined = ("objects", "texturing")
    assert table_factors(random_sets) == [combined, ("objects",), ("scene",), ("texturing",)]
    warm = [
        replace(one, fixed=one.fixed | {"temperature": kelvin})
        for one in random_sets
        for kelvin in (2500, 6500)
    ]
    assert table_factors(warm)[:2] == [combined, ("temperature", *combined)]
    assert table_factors([one_set("albedo", {"scene": "cube"}, 1, 1, objects=1)]) == []


# ------------------------------------------------------------------------------------------------------ runs


def runs_set(concept, reflectance, shading):
    """A set with a sensitivity for each run of each branch."""

    def branch(runs):
        return dict.fromkeys(ALIGNMENTS, BranchScore((0.5,), 0.1, 0.9, 0.001, runs=tuple(runs)))

    return SetScore(concept, {}, 20, {"reflectance": branch(reflectance), "shading": branch(shading)})


def aligned(found, concept):
    return [one for one in found if (one.concept, one.alignment) == (concept, "aligned")]


def test_numbers_of_runs_by_hand():
    sets = [
        runs_set("albedo", (1.0, 0.5, 0.0), (0.5, 0.5, 0.5)),
        runs_set("albedo", (0.5, 1.0, 0.0), (0.25, 0.25, 1.0)),
        runs_set("illumination", (0.25, 0.25, 0.25), (0.5, 0.5, 0.5)),
    ]
    found = score_by_runs(sets, (1, 2, 50))
    assert [(one.concept, one.alignment, one.runs) for one in found] == [
        (concept, alignment, runs)
        for concept in ("albedo", "illumination")
        for alignment in ALIGNMENTS
        for runs in (1, 2, 3)
    ]
    one, two, three = aligned(found, "albedo")
    assert one.mean == two.mean == {"reflectance": 0.75, "shading": 0.375}
    assert all(math.isnan(value) for value in one.spread.values())
    assert two.spread == {"reflectance": 0.0, "shading": 0.0}
    assert two.csm == (0.75 / 0.5 + 0.75 / 0.25) / 2
    assert three.mean["reflectance"] == 0.5
    assert three.spread["reflectance"] == pytest.approx(math.sqrt((0.25**2 * 2 + 0.5**2) / 2))
    assert [one.csm for one in aligned(found, "illumination")] == [2, 2, 2]
    many = score_by_runs([runs_set("albedo", (1.0,) * 300, (0.5,) * 300)])
    assert [one.runs for one in aligned(many, "albedo")] == [*(n for n in NUMBERS_OF_RUNS if n < 300), 300]


def test_zero_sensitivity_in_all_runs():
    assert math.isnan(score_by_runs([runs_set("albedo", (0.0, 0.0), (0.0, 0.0))])[0].csm)
    assert score_by_runs([runs_set("illumination", (0.0, 0.0), (1.0, 0.0))])[0].csm == math.inf


@pytest.mark.parametrize(
    ("runs", "numbers", "message"),
    [
        ([()], (1,), r"the same number of runs in all sets, got \[0\]"),
        ([(1.0, 0.5), (1.0,)], (1,), r"the same number of runs in all sets, got \[1, 2\]"),
        ([], (1,), r"the same number of runs in all sets, got \[\]"),
        ([(1.0,)], (0, 1), "`numbers` must be 1 or larger, got 0"),
    ],
)
def test_refused_runs(runs, numbers, message):
    with refused(message):
        score_by_runs([runs_set("albedo", one, one) for one in runs], numbers)
