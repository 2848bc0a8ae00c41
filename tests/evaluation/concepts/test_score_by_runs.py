import math

import numpy as np
import pytest

from candlelight.evaluation.concepts.csm import NUMBERS_OF_RUNS, score_by_runs
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BranchScore, SetScore
from candlelight.loaders.errors import InputError


def one_set(concept, reflectance, shading):
    def branch(runs):
        return dict.fromkeys(ALIGNMENTS, BranchScore((0.5,), 0.1, 0.9, 0.001, runs=tuple(runs)))

    return SetScore(concept, {}, 20, {"reflectance": branch(reflectance), "shading": branch(shading)})


def aligned(found, concept):
    return [one for one in found if (one.concept, one.alignment) == (concept, "aligned")]


def test_by_hand():
    sets = [
        one_set("albedo", (1.0, 0.5, 0.0), (0.5, 0.5, 0.5)),
        one_set("albedo", (0.5, 1.0, 0.0), (0.25, 0.25, 1.0)),
        one_set("illumination", (0.25, 0.25, 0.25), (0.5, 0.5, 0.5)),
    ]
    found = score_by_runs(sets, (1, 2, 50))
    assert [(one.concept, one.alignment, one.runs) for one in found] == [
        (concept, alignment, runs)
        for concept in ("albedo", "illumination")
        for alignment in ALIGNMENTS
        for runs in (1, 2, 3)
    ]
    one, two, three = aligned(found, "albedo")
    assert one.mean == {"reflectance": 0.75, "shading": 0.375}
    assert all(math.isnan(value) for value in one.spread.values())
    assert two.mean == {"reflectance": 0.75, "shading": 0.375}
    assert two.spread == {"reflectance": 0.0, "shading": 0.0}
    assert two.csm == (0.75 / 0.5 + 0.75 / 0.25) / 2
    assert three.mean["reflectance"] == 0.5
    assert three.spread["reflectance"] == pytest.approx(math.sqrt((0.25**2 * 2 + 0.5**2) / 2))
    assert [one.csm for one in aligned(found, "illumination")] == [2, 2, 2]


def test_the_last_number_is_that_of_the_runs_and_spread_converges():
    runs = np.random.default_rng(0).binomial(1, 0.3, (2, 300)).astype(float)
    found = aligned(score_by_runs([one_set("albedo", *runs)]), "albedo")
    assert [one.runs for one in found] == [*(number for number in NUMBERS_OF_RUNS if number < 300), 300]
    assert found[-1].mean["reflectance"] == pytest.approx(runs[0].mean())
    assert found[-1].spread["shading"] == pytest.approx(runs[1].std(ddof=1))


def test_zero_sensitivity():
    still = one_set("albedo", (0.0, 0.0), (0.0, 0.0))
    assert math.isnan(score_by_runs([still])[0].csm)
    half_still = one_set("illumination", (0.0, 0.0), (1.0, 0.0))
    assert score_by_runs([half_still])[0].csm == math.inf


def test_errors():
    with pytest.raises(InputError, match=r"the same number of runs in all sets, got \[0\]"):
        score_by_runs([one_set("albedo", (), ())])
    with pytest.raises(InputError, match=r"the same number of runs in all sets, got \[1, 2\]"):
        score_by_runs([one_set("albedo", (1.0, 0.5), (1.0, 0.5)), one_set("albedo", (1.0,), (1.0,))])
    with pytest.raises(InputError, match=r"the same number of runs in all sets, got \[\]"):
        score_by_runs([])
    with pytest.raises(InputError, match=r"`numbers` must be 1 or larger, got 0"):
        score_by_runs([one_set("albedo", (1.0,), (1.0,))], (0, 1))
