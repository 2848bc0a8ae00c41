import numpy as np
import pytest
import torch

from candlelight.evaluation.perception import fit_psychometric, psychometric
from candlelight.evaluation.perception.experiment import ExperimentAnswers, fit_answers
from candlelight.evaluation.perception.perception_report import draw_answers, share_points


def simulate(names, observers, count, seed=0, threshold=0.45, span=(0.1, 0.9)):
    """Draw answers of simulated observers, guess rate 0.5 and lapse rate 0.02."""
    rng = np.random.default_rng(seed)
    total = len(names) * len(observers) * count
    levels = np.tile(np.linspace(*span, 10), total // 10)
    slope = 12 / (span[1] - span[0])
    chances = psychometric(torch.from_numpy(levels), threshold, slope, lapse=0.02).numpy()
    repeated = [(name, one) for name in names for one in observers for _ in range(count)]
    return ExperimentAnswers(
        magnitudes=levels,
        correct=rng.random(total) < chances,
        seconds=np.ones(total),
        kind=tuple("rated" if name is None else "transform" for name, _ in repeated),
        transform=tuple(name for name, _ in repeated),
        image=("a",) * total,
        observer=tuple(one for _, one in repeated),
        settings={},
    )


def direct(answers, rows):
    levels = torch.from_numpy(answers.magnitudes[rows])
    correct = torch.from_numpy(answers.correct[rows]).long()
    return fit_psychometric(levels, correct, torch.ones_like(correct))


def test_rated_answers_give_d_t(check_shown, shown_block):
    answers = simulate([None], ["ann"], 300)
    [found] = fit_answers(answers)
    assert (found.name, found.observer, found.unit) == ("D_T", None, "")
    assert found.fit == direct(answers, slice(None))
    fit = found.fit
    assert str(found) == (
        f"D_T (300 answers): {fit.score:.4g} (95 % interval {fit.low:.4g} to {fit.high:.4g}; quartiles "
        f"{fit.quartiles[0]:.4g} to {fit.quartiles[2]:.4g}), lapse rate {fit.lapse:.2g}; the paper's 0.445 "
        "lies in the interval"
    )
    check_shown(shown_block("experiment.md", "D_T"), str(found))


def test_each_transform_and_observer_has_a_fit():
    answers = simulate(["scale", "rotation"], ["bob", "ann"], 40, span=(1, 9), threshold=5)
    found = fit_answers(answers)
    assert [(one.name, one.observer, one.unit) for one in found] == [
        *((("rotation", None, "degrees")), ("rotation", "ann", "degrees"), ("rotation", "bob", "degrees")),
        *((("scale", None, "factor")), ("scale", "ann", "factor"), ("scale", "bob", "factor")),
    ]
    for one in found:
        rows = np.array([name == one.name for name in answers.transform])
        rows &= np.array([one.observer in (None, name) for name in answers.observer])
        np.testing.assert_array_equal(one.rows, rows)
        assert one.fit == direct(answers, rows)
    assert str(found[1]).startswith("rotation, ann (40 answers): ")
    assert str(found[0]).endswith("; above the paper's 3.6")


def test_a_partial_log_says_what_is_missing():
    few = simulate(["illuminant 611"], ["ann"], 10)

    def first(count):
        columns = (few.kind, few.transform, few.image, few.observer)
        numbers = few.magnitudes[:count], few.magnitudes[:count] < 0, few.seconds[:count]
        return ExperimentAnswers(*numbers, *(column[:count] for column in columns), {})

    assert fit_answers(first(0)) == ()
    [found] = fit_answers(first(1))
    assert str(found) == "illuminant 611 (1 answer): no fit, answers at two or more levels are needed"
    assert found.published == 1.955  # of the paper's observers, in steps
    [found] = fit_answers(first(10))
    assert str(found).startswith("illuminant 611 (10 answers): no threshold, the fit did not converge: ")


@pytest.mark.parametrize(
    ("name", "published"),
    [
        (None, 0.445),
        *(("translation y", 0.23), ("parallax x", 0.23), ("rotation", 3.6), ("scale", 1.026)),
        *(("illuminant -510", 1.383), ("illuminant 533", None)),
    ],
)
def test_the_thresholds_of_the_paper(name, published):
    [found] = fit_answers(simulate([name], ["ann"], 20))
    assert found.published == published


def test_points_are_levels_or_groups_of_neighbours():
    magnitudes = np.random.default_rng(0).permutation(np.arange(200.0))
    places, shares = share_points(magnitudes, magnitudes >= 100)
    np.testing.assert_allclose(places, np.arange(20) * 10 + 4.5)
    np.testing.assert_array_equal(shares, np.arange(20) >= 10)
    places, shares = share_points(magnitudes[:55], magnitudes[:55] >= 0)
    assert len(places) == 5
    np.testing.assert_array_equal(shares, 1)


def test_the_plot_has_a_panel_for_each_transform():
    answers = simulate(["rotation", "illuminant 611"], ["ann", "bob"], 50)
    fits = fit_answers(answers)
    drawn = draw_answers(answers, fits, "svg")
    assert draw_answers(answers, fits, "svg") == drawn
    for text in (b"<?xml", b"rotation (degrees)", b"illuminant 611 (steps)", b"share correct", b"paper: 3.6"):
        assert text in drawn
    assert draw_answers(answers, fits, "pdf").startswith(b"%PDF")
