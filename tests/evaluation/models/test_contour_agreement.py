import numpy as np
from scipy.special import expit

from candlelight.evaluation.models.tap05 import ContourAgreement, contour_cues, fit_agreement


def test_weights_of_drawn_pairs_are_recovered() -> None:
    rng = np.random.default_rng(0)
    count = 40_000
    cues = np.stack([np.ones(count), *rng.normal(size=(3, count))])
    true = np.array([1.0, 0.5, -0.8, 0.3])
    evidence = rng.normal(0, 2, (2, count))
    # Both labels of an isolated pair are drawn from the model: four labellings with their probabilities.
    agreement = expit(true @ cues)
    chances = np.stack(
        [np.where(a == b, agreement, 1 - agreement) * np.exp(evidence[0] * a + evidence[1] * b)
         for a in (0, 1) for b in (0, 1)]
    )  # fmt: skip
    drawn = (rng.random(count) > (chances / chances.sum(0)).cumsum(0)).sum(0)
    found = fit_agreement(cues, evidence, np.isin(drawn, (0, 3)), np.ones(count))
    np.testing.assert_allclose(found, true, atol=0.06)


def test_evidence_that_explains_the_labels_leaves_little_agreement() -> None:
    cues = np.concatenate([np.ones((1, 100)), np.zeros((3, 100))])
    equal = np.ones(100, bool)
    none, certain = (fit_agreement(cues, np.full((2, 100), odds), equal, np.ones(100)) for odds in (0.0, 9.0))
    assert none[0] > certain[0] > 0


def test_no_pairs_give_no_agreement() -> None:
    found = fit_agreement(np.zeros((4, 0)), np.zeros((2, 0)), np.zeros(0, bool), np.zeros(0))
    np.testing.assert_array_equal(found, np.zeros(4))


def test_contour_runs_along_the_edge() -> None:
    step = np.repeat([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 6).reshape(6, 6).T
    pixel, down, right = contour_cues(step)
    assert down[2, :, 3, 3].min() > 0.99
    assert max(right[2, :, 3, 3].max(), pixel[2, :, 3, 3].max()) < 0.01
    for cue, turned in zip((pixel, right, down), contour_cues(step.T), strict=True):
        np.testing.assert_allclose(cue.swapaxes(2, 3), turned, atol=1e-12)
    diagonal = np.add.outer(np.arange(6.0), np.arange(6.0))
    np.testing.assert_allclose(contour_cues(diagonal)[0][2, :, 3, 3], np.sqrt(0.5), atol=1e-3)


def test_agreement_lies_above_one_half_and_is_one_half_to_the_background() -> None:
    log_image = np.random.default_rng(0).normal(size=(5, 6))
    inside = np.random.default_rng(1).random((2, 5, 6)) < 0.7
    strong = ContourAgreement(np.array([[2.0, 0, 0, 0]] * 3)).agreements(log_image, inside)
    for axis, agreement in enumerate(strong):
        for place in np.ndindex(2, 5, 6):
            before = tuple(p - (a == axis) for a, p in enumerate(place))
            if min(before) >= 0:
                assert agreement[place] == (expit(2.0) if inside[place] and inside[before] else 0.5)
    opposed = ContourAgreement(np.array([[-2.0, 0, 0, 0]] * 3)).agreements(log_image, inside)
    assert all((agreement == 0.5).all() for agreement in opposed)
