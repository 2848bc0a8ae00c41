import pytest
import torch

from candlelight.evaluation.concepts.cav import fit_cavs, random_cavs
from tests.evaluation.concepts.conftest import generator, rows
from tests.refusals import refused

CLASSIFIERS = ["svm", "logistic", "ridge", "mean", "sgd"]
of_all_classifiers = pytest.mark.parametrize("classifier", CLASSIFIERS)


def vectors_of(cavs):
    return cavs.weights @ torch.cat(cavs.rows).double()


@of_all_classifiers
def test_vectors_point_towards_the_concept_and_classify(classifier):
    concept, negatives = rows(30, shift=8), rows(40, seed=1)
    cavs = fit_cavs(concept, negatives, generator=generator(), runs=5, classifier=classifier)
    vectors = vectors_of(cavs)
    decision = torch.cat([concept, negatives]).double() @ vectors.T + cavs.intercept
    assert (vectors[:, 0] > 0).all()
    assert (decision[:30] > 0).all()
    assert (decision[30:] < 0).all()
    assert (cavs.accuracy == 1).all()
    torch.testing.assert_close(cavs.norm, vectors.norm(dim=1), rtol=1e-6, atol=0)
    assert cavs.rows[0] is concept
    assert cavs.rows[1] is negatives


def test_accuracy_is_measured_on_the_held_out_rows():
    concept, negatives = rows(12, shift=0.7), rows(12, seed=1)
    cavs = fit_cavs(concept, negatives, generator=generator(3), runs=4, classifier="ridge")
    decision = torch.cat([concept, negatives]).double() @ vectors_of(cavs).T + cavs.intercept
    for run in range(4):
        # With as many negatives as concept images every row is drawn: weight 0 marks the test.
        held_out = cavs.weights[run] == 0
        assert (held_out.sum(), held_out[:12].sum()) == (8, 4)
        right = (decision[:, run] > 0) == (torch.arange(24) < 12)
        assert cavs.accuracy[run] == right[held_out].double().mean()


@pytest.mark.parametrize(
    ("concepts", "negatives", "share", "trained"),
    [(9, 30, 1 / 3, 6), (30, 9, 1 / 3, 6), (2, 2, 0.9, 1), (3, 5, 0.01, 2)],
    ids=["few concepts", "few negatives", "one left to train", "one left to test"],
)
def test_training_sets_are_balanced(concepts, negatives, share, trained):
    options = {"generator": generator(), "runs": 7, "classifier": "mean", "test_share": share}
    used = fit_cavs(rows(concepts), rows(negatives, seed=1), **options).weights != 0
    assert (used[:, :concepts].sum(1) == trained).all()
    assert (used[:, concepts:].sum(1) == trained).all()


@pytest.mark.parametrize("classifier", ["svm", "sgd"])  # the latter draws its own seeds, too
def test_runs_differ_and_repeat_with_the_seed(classifier):
    def fit(seed):
        options = {"generator": generator(seed), "runs": 6, "classifier": classifier}
        return fit_cavs(rows(10), rows(40, seed=1), **options).weights

    assert torch.equal(fit(0), fit(0))
    assert not torch.equal(fit(0), fit(1))
    assert len(torch.unique(fit(0) != 0, dim=0)) == 6


def test_regularisation_is_relative_to_the_variance_of_the_rows():
    concept, negatives = rows(20, shift=1, dtype=torch.float64), rows(20, seed=1, dtype=torch.float64)
    plain = fit_cavs(concept, negatives, generator=generator(), runs=3)
    scaled = fit_cavs(1000 * concept + 5, 1000 * negatives + 5, generator=generator(), runs=3)
    torch.testing.assert_close(scaled.accuracy, plain.accuracy)
    torch.testing.assert_close(vectors_of(scaled) * 1000, vectors_of(plain), rtol=1e-5, atol=1e-7)


@of_all_classifiers
def test_two_images_are_one_to_train_on_and_one_to_test_on(classifier):
    options = {"generator": generator(), "runs": 6, "classifier": classifier}
    cavs = fit_cavs(rows(2, 30, shift=20.0), rows(25, 30, seed=1), **options)
    assert ((cavs.weights != 0).sum(1) == 2).all()
    # Two rows have one direction, whatever the classifier.
    pairs = cavs.weights / cavs.weights.abs().amax(1, keepdim=True)
    torch.testing.assert_close(pairs.abs().sum(1), torch.full((6,), 2.0, dtype=torch.float64))
    assert cavs.norm.isfinite().all()
    assert (cavs.norm > 0).all()


SAME = torch.rand(1, 9, generator=generator()).expand(6, -1)


@of_all_classifiers
@pytest.mark.parametrize(
    ("concept", "negatives", "separable"),
    [
        (SAME, SAME, False),
        (rows(12, 0), rows(12, 0), False),
        (rows(12, 1, shift=20.0), rows(12, 1, seed=1), True),
        (torch.full((9, 20), 6.0), rows(12, 20, seed=1), True),
    ],
    ids=["equal rows", "no features", "one feature", "constant concept"],
)
def test_rows_with_few_directions(classifier, concept, negatives, separable):
    options = {"generator": generator(), "runs": 3, "classifier": classifier}
    cavs = fit_cavs(concept, negatives, **options)
    assert (cavs.accuracy == (1 if separable else 0.5)).all()
    assert (cavs.intercept.isfinite() if separable else cavs.intercept == 0).all()
    vectors = vectors_of(cavs)
    assert (vectors.sum(1) > 0.5 * cavs.norm).all() if separable else (cavs.norm == 0).all()


def test_random_vectors_use_disjoint_halves_and_are_at_chance():
    cavs = random_cavs(rows(60, dim=10), generator=generator(), runs=200, classifier="mean")
    assert ((cavs.weights > 0).sum(1) == 20).all()
    assert ((cavs.weights < 0).sum(1) == 20).all()
    assert abs(float(cavs.accuracy.mean()) - 0.5) < 0.05
    small = random_cavs(rows(60), generator=generator(), runs=4, size=6, classifier="mean")
    assert ((small.weights != 0).sum(1) == 8).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"concept": rows(1)}, "`concept` needs at least 2 rows .* got 1"),
        ({"negatives": rows(1)}, "`negatives` needs at least 2 rows to train on and to test on, got 1"),
        ({"negatives": rows(5, dim=7)}, r"expected `concept` \[concepts, dim\].*got \[5, 6\], \[5, 7\]"),
        ({"runs": 0}, "`runs` must be at least 1, got 0"),
        ({"test_share": 1.0}, "`test_share` must lie between 0 and 1, got 1.0"),
        ({"regularisation": 0.0}, r"`regularisation` must be above 0 and at most 1e\+12, got 0.0"),
        ({"regularisation": torch.nan}, r"`regularisation` must be above 0 and at most 1e\+12, got nan"),
        ({"regularisation": 1e-30}, "`regularisation` is too small for the precision of these rows"),
        ({"classifier": "svn"}, "`classifier` must be one of: svm, .*; got svn"),
    ],
)
def test_refusals(change, message):
    with refused(message):
        fit_cavs(**{"concept": rows(5), "negatives": rows(5, seed=1), "generator": generator(), **change})


@pytest.mark.parametrize(
    ("negatives", "options", "message"),
    [
        (rows(3), {}, "`negatives` needs at least 4 rows"),
        (rows(9), {"size": 5}, "`size` must be 2 to 4, half of the negatives, got 5"),
        (rows(9), {"size": 1}, "`size` must be 2 to 4"),
        (rows(5)[:, 0], {}, r"expected `negatives` \[negatives, dim\], got \[5\]"),
        (rows(5), {"classifier": "SVM"}, "`classifier` must be one of: svm, .*; got SVM"),
    ],
)
def test_refusals_of_random_vectors(negatives, options, message):
    with refused(message):
        random_cavs(negatives, generator=generator(), **options)
