from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.concepts.cav import fit_cavs, random_cavs
from candlelight.loaders.errors import InputError

CLASSIFIERS = ["svm", "logistic", "ridge", "mean", "sgd"]


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _rows(count, dim=6, shift=0.0, seed=0, dtype=torch.float32):
    rows = torch.randn(count, dim, generator=_generator(seed), dtype=dtype)
    rows[:, 0] += shift
    return rows


def _vectors(cavs):
    return cavs.weights @ torch.cat(cavs.rows).double()


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_vectors_point_towards_the_concept_and_classify(classifier):
    concept, negatives = _rows(30, shift=8), _rows(40, seed=1)
    cavs = fit_cavs(concept, negatives, generator=_generator(), runs=5, classifier=classifier)
    vectors = _vectors(cavs)
    decision = torch.cat([concept, negatives]).double() @ vectors.T + cavs.intercept
    assert (vectors[:, 0] > 0).all()
    assert (decision[:30] > 0).all()
    assert (decision[30:] < 0).all()
    assert (cavs.accuracy == 1).all()
    torch.testing.assert_close(cavs.norm, vectors.norm(dim=1), rtol=1e-6, atol=0)


def test_accuracy_is_measured_on_the_held_out_rows():
    concept, negatives = _rows(12, shift=0.7), _rows(12, seed=1)
    cavs = fit_cavs(concept, negatives, generator=_generator(3), runs=4, classifier="ridge")
    stacked = torch.cat([concept, negatives]).double()
    decision = stacked @ _vectors(cavs).T + cavs.intercept
    for run in range(4):
        # With as many negatives as concept images every row is drawn: weight 0 marks the test.
        held_out = cavs.weights[run] == 0
        assert held_out.sum() == 8
        assert held_out[:12].sum() == 4
        right = (decision[:, run] > 0) == (torch.arange(24) < 12)
        assert cavs.accuracy[run] == right[held_out].double().mean()


@pytest.mark.parametrize(
    ("concepts", "negatives", "share", "trained"),
    [(9, 30, 1 / 3, 6), (30, 9, 1 / 3, 6), (2, 2, 0.9, 1), (3, 5, 0.01, 2)],
    ids=["few concepts", "few negatives", "one left to train", "one left to test"],
)
def test_training_sets_are_balanced(concepts, negatives, share, trained):
    cavs = fit_cavs(
        _rows(concepts),
        _rows(negatives, seed=1),
        generator=_generator(),
        runs=7,
        classifier="mean",
        test_share=share,
    )
    used = cavs.weights != 0
    assert (used[:, :concepts].sum(1) == trained).all()
    assert (used[:, concepts:].sum(1) == trained).all()


def test_runs_differ_and_repeat_with_the_seed():
    def fit(seed):
        return fit_cavs(_rows(10), _rows(40, seed=1), generator=_generator(seed), runs=6).weights

    assert torch.equal(fit(0), fit(0))
    assert not torch.equal(fit(0), fit(1))
    assert len(torch.unique(fit(0) != 0, dim=0)) == 6


def test_regularisation_is_relative_to_the_variance_of_the_rows():
    concept, negatives = _rows(20, shift=1, dtype=torch.float64), _rows(20, seed=1, dtype=torch.float64)
    plain = fit_cavs(concept, negatives, generator=_generator(), runs=3)
    scaled = fit_cavs(1000 * concept + 5, 1000 * negatives + 5, generator=_generator(), runs=3)
    torch.testing.assert_close(scaled.accuracy, plain.accuracy)
    torch.testing.assert_close(_vectors(scaled) * 1000, _vectors(plain), rtol=1e-5, atol=1e-7)


def test_rows_are_kept_by_reference():
    concept, negatives = _rows(5), _rows(6, seed=1)
    cavs = fit_cavs(concept, negatives, generator=_generator(), runs=1)
    assert cavs.rows[0] is concept
    assert cavs.rows[1] is negatives


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_equal_rows_give_chance_accuracy(classifier):
    same = torch.rand(1, 9, generator=_generator()).expand(6, -1)
    cavs = fit_cavs(same, same, generator=_generator(), runs=3, classifier=classifier)
    assert (cavs.norm == 0).all()
    assert (cavs.accuracy == 0.5).all()
    assert (cavs.intercept == 0).all()


def test_random_vectors_use_disjoint_halves_and_are_at_chance():
    cavs = random_cavs(_rows(60, dim=10), generator=_generator(), runs=200, classifier="mean")
    assert ((cavs.weights > 0).sum(1) == 20).all()
    assert ((cavs.weights < 0).sum(1) == 20).all()
    assert abs(float(cavs.accuracy.mean()) - 0.5) < 0.05


def test_size_of_random_vectors():
    cavs = random_cavs(_rows(60), generator=_generator(), runs=4, size=6, classifier="mean")
    assert ((cavs.weights != 0).sum(1) == 8).all()


def test_a_million_features_need_little_memory():
    concept = torch.zeros(4, 1_000_000, dtype=torch.float16)
    concept[:, 7] = 1
    cavs = fit_cavs(concept, torch.zeros(4, 1_000_000, dtype=torch.float16), generator=_generator(), runs=2)
    assert cavs.weights.shape == (2, 8)
    assert (cavs.accuracy == 1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"concept": _rows(1)}, "`concept` needs at least 2 rows .* got 1"),
        ({"negatives": _rows(1)}, "`negatives` needs at least 2 rows .* got 1"),
        ({"runs": 0}, "`runs` must be at least 1, got 0"),
        ({"test_share": 1.0}, "`test_share` must lie between 0 and 1, got 1.0"),
        ({"regularisation": 0.0}, r"`regularisation` must be above 0 and at most 1e\+12, got 0.0"),
        ({"regularisation": 1e300}, r"`regularisation` must be above 0 and at most 1e\+12, got 1e\+300"),
        ({"regularisation": torch.nan}, r"`regularisation` must be above 0 and at most 1e\+12, got nan"),
        ({"regularisation": 1e-30}, "`regularisation` is too small for the precision of these rows"),
        ({"concept": torch.full((3, 6), torch.nan)}, "activations must be finite"),
        ({"negatives": torch.full((3, 6), torch.inf)}, "activations must be finite"),
    ],
    ids=["concept", "negatives", "runs", "test_share", "zero", "huge", "no number", "tiny", "nan", "inf"],
)
def test_invalid_arguments_are_refused(change, message):
    arguments = {"concept": _rows(5), "negatives": _rows(5, seed=1), "generator": _generator(), **change}
    with pytest.raises(InputError, match=message):
        fit_cavs(arguments.pop("concept"), arguments.pop("negatives"), **arguments)


@pytest.mark.parametrize(
    ("rows", "size", "message"), [(3, None, "at least 4"), (9, 5, "2 to 4, half"), (9, 1, "2 to 4")]
)
def test_random_vectors_need_two_halves(rows, size, message):
    with pytest.raises(InputError, match=message):
        random_cavs(_rows(rows), generator=_generator(), size=size)


def test_features_far_from_the_origin():
    """The held-out decisions do not change if float32 features lie far from the origin."""
    concept, negatives = _rows(20, shift=2), _rows(20, seed=1)
    near = fit_cavs(concept, negatives, generator=_generator(), runs=3)
    far = fit_cavs(concept + 512, negatives + 512, generator=_generator(), runs=3)
    np.testing.assert_allclose(far.accuracy, near.accuracy)
    np.testing.assert_allclose(_vectors(far), _vectors(near), atol=1e-3)


def test_rows_of_different_lengths():
    with pytest.raises(InputError, match=r"expected `concept` \[concepts, dim\].*got \[5, 6\], \[5, 7\]"):
        unwrap(fit_cavs)(_rows(5), _rows(5, dim=7), generator=_generator())
    with pytest.raises(InputError, match=r"expected `negatives` \[negatives, dim\], got \[5\]"):
        unwrap(random_cavs)(_rows(5)[:, 0], generator=_generator())


@pytest.mark.parametrize("classifier", ["SVM", "svn", "lasso"])
def test_misspelt_classifier(classifier):
    with pytest.raises(InputError, match=f"`classifier` must be one of: svm, .*; got {classifier}"):
        unwrap(fit_cavs)(_rows(5), _rows(5), generator=_generator(), classifier=classifier)
    with pytest.raises(InputError, match=f"`classifier` must be one of: svm, .*; got {classifier}"):
        unwrap(random_cavs)(_rows(5), generator=_generator(), classifier=classifier)
