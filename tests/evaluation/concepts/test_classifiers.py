"""Vectors of every classifier against explicit vectors of the full length, trained by scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.svm import LinearSVC

from candlelight.evaluation.concepts.cav import fit_cavs
from candlelight.evaluation.concepts.sensitivity import directional_derivatives
from tests.evaluation.concepts.conftest import generator

RUNS = 3
PENALTY = 0.03


def _rows(count, dim, shift=0.0, seed=0):
    """Draw rows far from the origin, whose first features tell the concept."""
    drawn = torch.randn(count, dim, generator=generator(seed)) * 3 + 20
    drawn[:, :5] += shift
    return drawn


def _unit(rows):
    """Compute the root mean squared distance of the rows from their mean."""
    return float((rows - rows.mean(0)).square().sum(1).mean().sqrt())


def _ridge(x, y, penalty, unit, seed):
    return Ridge(alpha=penalty * len(y)).fit(x, y).coef_


def _logistic(x, y, penalty, unit, seed):
    return LogisticRegression(C=1 / (penalty * len(y)), tol=1e-10, max_iter=1000).fit(x, y).coef_[0]


def _svm(x, y, penalty, unit, seed):
    # LinearSVC penalises the intercept; the penalty of a scaled intercept is close to none.
    model = LinearSVC(C=0.5 / (penalty * len(y)), dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=5000)
    return model.fit(x, y).coef_[0]


def _half_pattern(x, y, penalty, unit, seed):
    """Compute half the pattern CAV: the covariance of rows and label over the variance of the label."""
    label = (y + 1) / 2
    return x.T @ (label - label.mean()) / len(y) / label.var() / 2


def _sgd(x, y, penalty, unit, seed):
    model = SGDClassifier(alpha=penalty / unit**2, max_iter=1000, tol=1e-3, random_state=seed)
    return model.fit(x / unit, y).coef_[0] / unit


EXPLICIT = {"ridge": _ridge, "logistic": _logistic, "svm": _svm, "mean": _half_pattern, "sgd": _sgd}


def _explicit(concept, negatives, classifier):
    """Train the runs of `fit_cavs` on the centred rows of full length."""
    size, drawn = min(len(concept), len(negatives)), generator(7)
    sets = (concept.double(), negatives.double())
    orders = [torch.rand(RUNS, len(rows), generator=drawn).argsort(1)[:, :size] for rows in sets]
    seeds = torch.randint(1 << 31, (RUNS,), generator=drawn).tolist()
    unit = _unit(torch.cat(sets))
    vectors = []
    for run in range(RUNS):
        parts = [rows[order[run, round(size / 3) :]] for rows, order in zip(sets, orders, strict=True)]
        x = torch.cat(parts).numpy()
        y = np.repeat([1.0, -1.0], [len(part) for part in parts])
        vectors.append(EXPLICIT[classifier](x - x.mean(0), y, PENALTY * unit**2, unit, seeds[run]))
    return np.stack(vectors)


@pytest.mark.parametrize("sizes", [(24, 40), (40, 24)], ids=["few concepts", "few negatives"])
@pytest.mark.parametrize("dim", [400, 7], ids=["more features than rows", "fewer features"])
@pytest.mark.parametrize("classifier", EXPLICIT)
def test_derivatives_equal_those_of_explicit_vectors(classifier, dim, sizes):
    concept, negatives = _rows(sizes[0], dim, 1.5), _rows(sizes[1], dim, seed=1)
    cavs = fit_cavs(
        concept, negatives, generator=generator(7), runs=RUNS, classifier=classifier, regularisation=PENALTY
    )
    vectors = _explicit(concept, negatives, classifier)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    gradients = torch.randn(9, dim, generator=generator(3))
    gradients /= gradients.norm(dim=1, keepdim=True)
    expected = vectors @ gradients.double().numpy().T
    found = directional_derivatives(cavs, gradients).numpy()
    np.testing.assert_allclose(found / norms, expected / norms, atol=1e-5)
    unit = directional_derivatives(cavs, gradients, "cosine").numpy()
    np.testing.assert_allclose(unit, expected / norms, atol=1e-5)
