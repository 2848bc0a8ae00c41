import math
from dataclasses import replace

import pytest
import torch

from candlelight.evaluation.concepts import (
    CAVs,
    concept_entanglement,
    directional_derivatives,
    fit_cavs,
    layer_consistency,
    mean_cav,
    run_consistency,
    run_cosines,
)
from candlelight.evaluation.concepts.rows import SharedRows
from tests.evaluation.concepts.conftest import generator, rows
from tests.refusals import refused


def fitted(runs=5):
    return fit_cavs(rows(12, shift=6), rows(30, seed=99), generator=generator(), runs=runs)


def given(*vectors):
    """Make vectors without training: each is the difference of two rows."""
    stacked = torch.stack([*vectors, torch.zeros(len(vectors[0]))]).double()
    weights = torch.eye(len(stacked), dtype=torch.float64)[:-1]
    weights[:, -1] = -1
    runs = torch.ones(len(vectors), dtype=torch.float64)
    return CAVs(weights, (stacked[:-1], stacked[-1:]), 0 * runs, runs, stacked[:-1].norm(dim=1))


def damaged():
    cavs = fitted()
    return replace(cavs, rows=(cavs.rows[0].log(), cavs.rows[1]))


def unit_vectors(cavs):
    vectors = cavs.weights @ torch.cat(cavs.rows).double()
    return vectors / vectors.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("far", [0.0, 1e3])
def test_mean_cav_is_the_mean_of_unit_vectors(far):
    cavs = fit_cavs(rows(12) + far + 3, rows(30, seed=1) + far, generator=generator(), runs=4)
    torch.testing.assert_close(mean_cav(cavs), unit_vectors(cavs).mean(0), rtol=0, atol=1e-5)


def test_consistency_is_the_mean_over_pairs_of_runs():
    cavs = fitted()
    gram, _ = SharedRows(cavs.rows[1]).stacked(cavs.rows[0])
    expected = unit_vectors(cavs)
    cosines = run_cosines(cavs.weights, gram)
    torch.testing.assert_close(cosines, expected @ expected.T, rtol=0, atol=1e-6)
    pairs = [float(cosines[i, j]) for i in range(5) for j in range(i)]
    assert float(run_consistency(cavs)) == pytest.approx(sum(pairs) / 10, abs=1e-6)


def test_consistency_of_known_vectors():
    one, other = torch.tensor([3.0, 0.0]), torch.tensor([2.0, 2.0])
    assert float(run_consistency(given(one, 5 * one))) == pytest.approx(1)
    assert float(run_consistency(given(one, -one))) == pytest.approx(-1)
    assert float(run_consistency(given(one, other))) == pytest.approx(math.sqrt(0.5))
    assert float(run_consistency(given(one, 0 * one))) == 0
    assert (mean_cav(given(0 * one)) == 0).all()


def test_layers_agree_where_one_vector_is_the_image_of_the_other():
    change = torch.randn(8, 6, generator=generator(), dtype=torch.float64)  # from the early to the late layer
    late_gradients = torch.randn(40, 6, generator=generator(1), dtype=torch.float64)
    vector = torch.randn(8, generator=generator(2), dtype=torch.float64)
    early = directional_derivatives(given(vector), late_gradients @ change.T)
    late = directional_derivatives(given(vector @ change), late_gradients)
    other = directional_derivatives(given(torch.randn(6, generator=generator(3))), late_gradients)
    found = layer_consistency([early, late, -3 * late, other])
    torch.testing.assert_close(found[:3, :3].abs(), torch.ones(3, 3, dtype=torch.float64))
    assert found[0, 2] == pytest.approx(-1)
    runs = torch.stack([early[0], late[0], -3 * late[0], other[0]])
    torch.testing.assert_close(found, torch.corrcoef(runs))


def test_layers_of_constant_derivatives_have_no_correlation():
    varied = torch.tensor([[1.0, 2.0, 4.0], [2.0, 2.0, 0.0]])
    found = layer_consistency([varied, torch.full((1, 3), 0.1)])
    assert found[0, 0] == pytest.approx(1)
    assert found[:, 1].isnan().all()


def test_entanglement_of_known_vectors():
    x, y = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 3.0])
    expected = torch.tensor([[1, 0, 0.5**0.5, -1], [0, 1, 0.5**0.5, 0], [0.5**0.5, 0.5**0.5, 1, -(0.5**0.5)]])
    found = concept_entanglement([given(x), given(y), given(x, y), given(-x)])
    torch.testing.assert_close(found[:3], expected.double())
    assert concept_entanglement([given(x), given(0 * x)]).tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run_consistency(fitted(runs=1)), "^consistency needs the vectors of at least 2 runs, got 1"),
        (lambda: run_consistency(damaged()), "^weights and activations must be finite"),
        (lambda: concept_entanglement([]), "^expected the vectors of at least one concept, got none"),
        (lambda: concept_entanglement([given(torch.ones(2)), fitted()]), r"got \[1, 2\]"),
        (lambda: concept_entanglement([damaged()]), "^activations must be finite"),
        (lambda: layer_consistency([]), r"at least 1 run and 3 inputs, got shapes \[\]"),
        (lambda: layer_consistency([torch.ones(1, 2)]), r"1 run and 3 inputs, got shapes \[\[1, 2\]\]"),
        (lambda: layer_consistency([torch.ones(1, 3), torch.ones(1, 4)]), r"^expected `derivatives\[0\]` \["),
        (lambda: layer_consistency([torch.tensor([[1.0, math.nan, 2.0]])]), "^derivatives must be finite"),
    ],
)
def test_refusals(call, message):
    with refused(message):
        call()
