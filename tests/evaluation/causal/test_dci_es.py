import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.dci import _FEATURES, _PENALTIES, _features, dci_es

EVEN = torch.arange(300) % 2 == 0


def _uniform(samples=300, columns=2, seed=0):
    return 2 * torch.rand(samples, columns, generator=torch.Generator().manual_seed(seed)).double() - 1


def _ridge(rows, known, others):
    """Choose the penalty by explicit leave-one-out, and predict."""

    def fit(kept, penalty):
        centre, level = rows[kept].mean(0), known[kept].mean()
        centred = rows[kept] - centre
        gram = centred.T @ centred + penalty * np.eye(rows.shape[1])
        weights = np.linalg.solve(gram, centred.T @ (known[kept] - level))
        return lambda some: level + (some - centre) @ weights

    numbers = np.arange(len(rows))
    errors = [
        sum((fit(numbers != out, penalty)(rows[out]) - known[out]) ** 2 for out in numbers)
        for penalty in _PENALTIES
    ]
    return fit(numbers >= 0, _PENALTIES[int(np.argmin(errors))])(others)


@pytest.mark.parametrize("is_class", [False, True])
def test_equals_loops(is_class):
    factor = _uniform(24, 1)
    codes = torch.cat([(3 * factor).sin(), _uniform(24, 1, 1)], dim=1)
    factor = (2 * factor).round().long() if is_class else factor
    training = np.arange(24) % 3 > 0
    result = dci_es(codes, factor, torch.from_numpy(training))
    scaled = (codes - codes[training].mean(0)) / codes[training].std(0, correction=0)
    table, truth, losses = _features(scaled, 0).numpy(), factor[:, 0].numpy(), []
    for size in _FEATURES[:3]:
        rows = table[:, : 2 + size]
        targets = [truth == value for value in np.unique(truth)] if is_class else [truth]
        found = np.stack([_ridge(rows[training], one[training] * 1.0, rows[~training]) for one in targets])
        if is_class:
            loss = np.mean(np.unique(truth)[found.argmax(0)] != truth[~training])
        else:
            rest = truth[~training]
            loss = ((rest - found[0]) ** 2).sum() / ((rest - rest.mean()) ** 2).sum()
        losses.append(min(float(loss), *losses, float(result.baselines[0])))
    np.testing.assert_allclose(result.losses[:3, 0], losses)
    if is_class:
        counts = np.bincount(truth[~training] + 2)
        np.testing.assert_allclose(result.baselines[0], 1 - counts.max() / counts.sum())


def test_the_area_is_that_of_the_curve():
    factors = _uniform()
    result = dci_es((4 * factors).sin(), factors, EVEN)
    capacities, above = np.log(2 + np.array(_FEATURES)), (result.losses - result.losses[-1]).numpy()
    np.testing.assert_allclose(result.capacities, capacities)
    area = sum(
        (above[place] + above[place + 1]) / 2 * (capacities[place + 1] - capacities[place])
        for place in range(len(_FEATURES) - 1)
    )
    np.testing.assert_allclose(result.per_factor, 1 - 2 * area / (capacities[-1] - capacities[0]))
    np.testing.assert_allclose(result.informativeness, 1 - result.losses[-1].mean())
    assert (result.losses.diff(dim=0) <= 0).all()
    assert result.baselines.tolist() == [1, 1]


def test_linear_maps_are_explicit_and_curves_less():
    factors = _uniform()
    rotation = torch.linalg.qr(_uniform(2, 2, 3))[0]
    for codes in (factors, factors @ rotation, -100 * factors + 7):
        result = dci_es(codes, factors, EVEN)
        np.testing.assert_allclose([result.explicitness, result.informativeness], 1, atol=1e-3)
    scores = [float(dci_es((speed * factors).sin(), factors, EVEN).explicitness) for speed in (1, 2, 4)]
    assert scores[0] > scores[1] > scores[2]
    product = dci_es(factors, factors.prod(1, keepdim=True), EVEN)
    assert float(product.explicitness) < 0.75 < 0.95 < float(product.informativeness)


def test_random_codes_are_explicit_but_not_informative():
    result = dci_es(_uniform(seed=1), _uniform(), EVEN)
    assert float(result.explicitness) > 0.95
    assert float(result.informativeness) < 0.05
    constant = dci_es(torch.ones(300, 2), _uniform(), EVEN)
    np.testing.assert_allclose([constant.explicitness, constant.informativeness], [1, 0], atol=1e-12)


def test_classes():
    factors = torch.cartesian_prod(torch.arange(6), torch.arange(5), torch.arange(10))[:, :2]
    indicators = torch.nn.functional.one_hot(factors[:, 0], 6)
    assert dci_es(indicators, factors[:, :1], EVEN).losses.max() == 0
    numbers = dci_es(factors, factors, EVEN)
    np.testing.assert_allclose(numbers.baselines, [5 / 6, 4 / 5])
    # The line of a middle class is below one of the others everywhere.
    assert float(numbers.losses[0].min()) > 0.1
    assert float(numbers.informativeness) == 1
    listed = dci_es(factors, factors.double(), EVEN, categorical=[0])
    np.testing.assert_allclose(listed.losses[:, 0], numbers.losses[:, 0])
    np.testing.assert_allclose(listed.losses[0, 1], 0, atol=1e-6)


def test_size():
    factors = _uniform(columns=3)
    codes = torch.cat([factors, factors], dim=1)
    assert float(dci_es(codes, factors, EVEN).size) == 0.5
    assert float(dci_es(factors[:, :1], factors, EVEN).size) == 3


def test_constant_factors_are_left_out():
    factors = _uniform()
    more = torch.cat([torch.full((300, 1), 0.1), factors, EVEN[:, None].double()], dim=1)
    result, expected = dci_es(factors, more, EVEN), dci_es(factors, factors, EVEN)
    assert result.per_factor.isnan().tolist() == [True, False, False, True]
    assert result.losses[0].isnan().tolist() == [True, False, False, True]
    for part in ("explicitness", "informativeness", "size"):
        torch.testing.assert_close(getattr(result, part), getattr(expected, part))
