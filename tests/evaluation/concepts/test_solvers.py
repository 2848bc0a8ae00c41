import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from candlelight.evaluation.concepts import solvers
from candlelight.evaluation.concepts.solvers import train_classifiers
from tests.refusals import refused


def _problem(seed, rows=30, dim=4, distance=1.0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    labels = torch.cat([torch.ones(rows // 2), -torch.ones(rows - rows // 2)]).double()
    features[:, 0] += distance * labels
    return features, labels


def _solve(features, labels, classifier, penalty):
    members = torch.arange(len(features))[None]
    beta, bias = train_classifiers(
        features @ features.T, members, labels, classifier, penalty, torch.Generator()
    )
    return (beta @ features)[0].numpy(), float(bias[0])


def _slow(features, labels, loss, penalty):
    """Solve the primal problem with a general minimiser."""
    x, y = features.numpy(), labels.numpy()

    def objective(point):
        margin = y * (x @ point[:-1] + point[-1])
        return penalty / 2 * point[:-1] @ point[:-1] + loss(margin).mean()

    found = minimize(objective, np.zeros(x.shape[1] + 1), method="BFGS", options={"gtol": 1e-9})
    return found.x[:-1], found.x[-1]


LOSSES = {
    "svm": lambda m: np.maximum(0, 1 - m) ** 2 / 2,
    "logistic": lambda m: np.logaddexp(0, -m),
    "ridge": lambda m: (1 - m) ** 2 / 2,
}


@pytest.mark.parametrize("penalty", [1.0, 0.01])
@pytest.mark.parametrize("distance", [0.2, 3.0], ids=["overlapping", "separable"])
@pytest.mark.parametrize("classifier", LOSSES)
def test_dual_equals_the_primal(classifier, distance, penalty):
    features, labels = _problem(0, distance=distance)
    weight, bias = _solve(features, labels, classifier, penalty)
    slow_weight, slow_bias = _slow(features, labels, LOSSES[classifier], penalty)
    np.testing.assert_allclose(weight, slow_weight, atol=2e-5)
    np.testing.assert_allclose(bias, slow_bias, atol=2e-5)
    # Neither the unit of the rows nor their origin matters.
    moved, _ = _solve(1e6 * features + 1e7, labels, classifier, 1e12 * penalty)
    np.testing.assert_allclose(1e6 * moved, weight, atol=1e-5)


@pytest.mark.parametrize("classifier", [*LOSSES, "mean"])
def test_batches_of_runs_equal_single_runs(monkeypatch, classifier):
    features, labels = _problem(4, rows=20)
    gram = features @ features.T
    generator = torch.Generator().manual_seed(0)
    members = torch.stack([torch.randperm(20, generator=generator)[:10] for _ in range(5)])
    labels = torch.cat([torch.ones(5), -torch.ones(5)]).double()
    together = train_classifiers(gram, members, labels, classifier, 0.1, generator)
    alone = [train_classifiers(gram, row[None], labels, classifier, 0.1, generator) for row in members]
    monkeypatch.setattr(solvers, "_BATCH_ELEMENTS", 250)
    split = train_classifiers(gram, members, labels, classifier, 0.1, generator)
    for other in (split, tuple(torch.cat(part) for part in zip(*alone, strict=True))):
        torch.testing.assert_close(other[0], together[0], atol=1e-7, rtol=1e-5)
        torch.testing.assert_close(other[1], together[1], atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("classifier", LOSSES)
@pytest.mark.parametrize("penalty", [1e-9, 1e9], ids=["next to none", "huge"])
def test_extreme_penalties(classifier, penalty):
    features, labels = _problem(6, rows=12, dim=40)
    weight, bias = _solve(features, labels, classifier, penalty)
    assert np.isfinite(weight).all()
    if penalty < 1:
        assert (np.sign(features.numpy() @ weight + bias) == labels.numpy()).all()
    else:
        assert np.linalg.norm(weight) < 1e-6


@pytest.mark.parametrize("classifier", LOSSES)
def test_equal_classes_give_a_tiny_vector(classifier):
    features, _ = _problem(8, rows=6)
    labels = torch.cat([torch.ones(6), -torch.ones(6)]).double()
    weight, bias = _solve(torch.cat([features, features]) - features.mean(0), labels, classifier, 0.01)
    assert np.linalg.norm(weight) < 1e-7
    assert abs(bias) < 1e-7


def test_no_convergence_is_reported(monkeypatch):
    monkeypatch.setattr(solvers, "_MAX_STEPS", 2)
    features, labels = _problem(7)
    with refused(r"`regularisation` is too small .* use a larger value"):
        _solve(features, labels, "logistic", 1e-6)
