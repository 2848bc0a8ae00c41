import numpy as np
import pytest
import torch
from scipy import stats

from candlelight.evaluation.concepts.cav import CAVs, fit_cavs
from candlelight.evaluation.concepts.sensitivity import directional_derivatives, sensitivity, significant
from tests.evaluation.concepts.conftest import generator, rows
from tests.refusals import refused


@pytest.fixture
def cavs() -> CAVs:
    concept, negatives = (rows(count, 5, count, dtype=torch.float64) for count in (8, 9))
    return fit_cavs(concept + 1, negatives, generator=generator(2), runs=4)


def test_derivatives_equal_products_with_the_vectors(cavs):
    gradients = rows(6, 5, 3)
    vectors = cavs.weights.numpy() @ torch.cat(cavs.rows).numpy()
    slopes = gradients.double().numpy()
    slow = np.array(
        [[sum(v * g for v, g in zip(vector, slope, strict=True)) for slope in slopes] for vector in vectors]
    )
    np.testing.assert_allclose(directional_derivatives(cavs, gradients), slow, atol=1e-9)
    unit = slow / np.linalg.norm(vectors, axis=1)[:, None]
    np.testing.assert_allclose(directional_derivatives(cavs, gradients, "unit"), unit, atol=1e-9)
    cosine = directional_derivatives(cavs, gradients, "cosine")
    np.testing.assert_allclose(cosine, unit / np.linalg.norm(slopes, axis=1), atol=1e-9)
    assert (cosine.abs() <= 1 + 1e-12).all()


def test_sign_convention_by_hand():
    weights, zero = torch.tensor([[0.5, -0.5]]).double(), torch.zeros(1).double()
    axis = CAVs(weights, (torch.tensor([[1.0, 0.0], [-1.0, 0.0]]),), zero, zero, zero + 1)
    # Moving towards the concept (+x) lowers the loss at the first two inputs, and raises it at the third.
    gradients = torch.tensor([[-1.0, 5.0], [-0.1, 0.0], [2.0, 0.0], [0.0, 3.0]])
    assert sensitivity(axis, gradients).tolist() == [0.5]
    assert sensitivity(axis, gradients, "logit").tolist() == [0.25]


def test_opposite_gradients_give_the_complement_and_their_length_does_not_matter(cavs):
    gradients = rows(11, 5, 4)
    found = sensitivity(cavs, gradients)
    assert torch.equal(sensitivity(cavs, 1e-12 * gradients), found)
    torch.testing.assert_close(1 - sensitivity(cavs, -gradients), found)
    torch.testing.assert_close(sensitivity(cavs, -gradients, "logit"), found)


def test_gradients_orthogonal_to_every_vector_score_zero():
    # Rounding leaves derivatives of about 1e-8 of both lengths, of either sign.
    concept, negatives = rows(24, 300, 3) + 2, rows(40, 300, 4)
    cavs = fit_cavs(concept, negatives, generator=generator(), runs=20)
    span = torch.cat([concept, negatives]).double()
    basis = torch.linalg.qr((span - span.mean(0)).T)[0]
    gradients = rows(30, 300, 5, dtype=torch.float64)
    gradients = (gradients - (gradients @ basis) @ basis.T).float()
    assert sensitivity(cavs, gradients).tolist() == [0] * 20
    assert sensitivity(cavs, gradients, "logit").tolist() == [0] * 20
    moved = gradients + 1e-3 * (concept.mean(0) - negatives.mean(0))
    assert sensitivity(cavs, moved, "logit").tolist() == [1] * 20


def test_significance_is_the_equal_variance_t_test():
    concept, random = torch.rand(20, generator=generator(0)) + 0.2, torch.rand(30, generator=generator(1))
    expected = stats.ttest_ind(concept.double().numpy(), random.double().numpy()).pvalue
    for pair in ((concept, random), (random, concept)):
        result = significant(*pair)
        np.testing.assert_allclose(result.p_value, expected, rtol=1e-9)
        assert result.passed == (expected < 0.01)


@pytest.mark.parametrize("value", [0.1, 1 / 3])
def test_equal_constants_are_not_significant_for_any_number(value):
    # Means of equal numbers may differ in the last digit: 10 times 0.1 against 7 times 0.1 was significant.
    ten = torch.full((10,), value, dtype=torch.float64)
    for runs in (3, 7, 80):
        same = significant(ten, ten[:1].expand(runs))
        assert (same.p_value, same.passed) == (1, False)


def test_significance_depends_on_the_level():
    concept, random = torch.tensor([0.5, 0.7, 0.6]), torch.tensor([0.4, 0.5, 0.3])
    p_value = significant(concept, random).p_value
    assert significant(concept, random, p_value * 1.01).passed
    assert not significant(concept, random, p_value).passed
    assert significant(torch.ones(3), torch.zeros(3)).passed
    assert 0 < significant(torch.ones(3), torch.tensor([0.4, 0.6])).p_value < 0.05  # one constant group


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cavs: sensitivity(cavs, torch.ones(2, 4)), r"\[inputs, dim\].*got \[2, 4\], \[8, 5\]"),
        (lambda cavs: sensitivity(cavs, torch.ones(2, 5), "logits"), "one of: loss, logit; got logits"),
        (lambda cavs: directional_derivatives(cavs, torch.ones(5)), r"expected `gradients` \[inputs, dim\]"),
        (lambda cavs: directional_derivatives(cavs, torch.ones(2, 5), "cosin"), "vector, unit, cosine; got"),
        (lambda _: significant(torch.ones(2, 2), torch.ones(2)), r"expected `concept_scores` \[runs\]"),
        (lambda _: significant(torch.rand(1), torch.rand(3)), "at least 2 scores in each group, got 1 and 3"),
        (lambda _: significant(torch.rand(3), torch.rand(3), 1.0), "`p` must lie between 0 and 1, got 1"),
    ],
)
def test_refusals(cavs, call, message):
    with refused(message):
        call(cavs)
