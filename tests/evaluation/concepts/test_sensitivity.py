from inspect import unwrap

import numpy as np
import pytest
import torch
from scipy import stats

from candlelight.evaluation.concepts.cav import CAVs, fit_cavs
from candlelight.evaluation.concepts.sensitivity import directional_derivatives, sensitivity, significant
from candlelight.loaders.errors import InputError


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def cavs() -> CAVs:
    concept = torch.randn(8, 5, generator=_generator(0), dtype=torch.float64) + 1
    negatives = torch.randn(9, 5, generator=_generator(1), dtype=torch.float64)
    return fit_cavs(concept, negatives, generator=_generator(2), runs=4)


def _vectors(cavs):
    return cavs.weights.numpy() @ torch.cat(cavs.rows).double().numpy()


def _axis(direction):
    """One vector along ``direction``, from two rows on either side of the origin."""
    rows = torch.tensor([direction, [-x for x in direction]])
    weights = torch.tensor([[0.5, -0.5]], dtype=torch.float64)
    norm = torch.tensor([float(np.linalg.norm(direction))], dtype=torch.float64)
    zero = torch.zeros(1, dtype=torch.float64)
    return CAVs(weights, (rows,), zero, zero, norm)


def test_derivatives_equal_products_with_the_vectors(cavs):
    gradients = torch.randn(6, 5, generator=_generator(3))
    vectors, slopes = _vectors(cavs), gradients.double().numpy()
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
    # Moving towards the concept (+x) lowers the loss at the first two inputs, and raises it at the third.
    gradients = torch.tensor([[-1.0, 5.0], [-0.1, 0.0], [2.0, 0.0], [0.0, 3.0]])
    assert sensitivity(_axis([1.0, 0.0]), gradients).tolist() == [0.5]
    assert sensitivity(_axis([1.0, 0.0]), gradients, "logit").tolist() == [0.25]


def test_derivatives_of_zero_do_not_count():
    cavs = _axis([1.0, 0.0])
    assert sensitivity(cavs, torch.zeros(3, 2)).tolist() == [0]
    assert sensitivity(cavs, torch.zeros(3, 2), "logit").tolist() == [0]


def test_constant_branch_is_sensitive_to_nothing():
    same = torch.rand(1, 50, generator=_generator()).expand(6, -1)
    cavs = fit_cavs(same, same, generator=_generator(), runs=3, classifier="mean")
    gradients = torch.randn(7, 50, generator=_generator(1))
    assert (sensitivity(cavs, gradients) == 0).all()
    assert (directional_derivatives(cavs, gradients, "cosine") == 0).all()


def test_opposite_gradients_give_the_complement(cavs):
    gradients = torch.randn(11, 5, generator=_generator(4))
    torch.testing.assert_close(sensitivity(cavs, gradients), 1 - sensitivity(cavs, -gradients))
    torch.testing.assert_close(sensitivity(cavs, gradients), sensitivity(cavs, -gradients, "logit"))


def test_scale_of_gradients_does_not_matter(cavs):
    gradients = torch.randn(11, 5, generator=_generator(5))
    assert torch.equal(sensitivity(cavs, gradients), sensitivity(cavs, 1e-12 * gradients))


def test_gradients_that_cannot_be_used(cavs):
    with pytest.raises(InputError, match="`gradients` needs at least one input"):
        sensitivity(cavs, torch.zeros(0, 5))
    with pytest.raises(InputError, match="`gradients` must be finite"):
        sensitivity(cavs, torch.full((1, 5), torch.nan))


def test_significance_is_the_equal_variance_t_test():
    concept, random = torch.rand(20, generator=_generator(0)) + 0.2, torch.rand(30, generator=_generator(1))
    expected = stats.ttest_ind(concept.double().numpy(), random.double().numpy()).pvalue
    for pair in ((concept, random), (random, concept)):
        result = significant(*pair)
        np.testing.assert_allclose(result.p_value, expected, rtol=1e-9)
        assert result.passed == (expected < 0.01)


@pytest.mark.parametrize(
    ("concept", "random", "p_value"),
    [([0.5, 0.5], [0.5, 0.5], 1.0), ([1.0, 1.0], [0.5, 0.5], 0.0), ([1.0, 1.0, 1.0], [0.4, 0.6], None)],
    ids=["equal constants", "different constants", "one constant"],
)
def test_scores_without_variance(concept, random, p_value):
    result = significant(torch.tensor(concept), torch.tensor(random))
    if p_value is None:
        assert 0 < result.p_value < 0.05
    else:
        assert result.p_value == p_value
        assert result.passed == (p_value < 0.01)


def test_significance_depends_on_the_level():
    concept, random = torch.tensor([0.5, 0.7, 0.6]), torch.tensor([0.4, 0.5, 0.3])
    p_value = significant(concept, random).p_value
    assert significant(concept, random, p_value * 1.01).passed
    assert not significant(concept, random, p_value).passed


def test_significance_refuses():
    with pytest.raises(InputError, match="at least 2 scores in each group, got 1 and 3; use more `runs`"):
        significant(torch.rand(1), torch.rand(3))
    with pytest.raises(InputError, match="`p` must lie between 0 and 1, got 1"):
        significant(torch.rand(3), torch.rand(3), 1.0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_scores_that_are_not_finite_are_not_significant_but_refused(bad):
    good, spoilt = torch.tensor([0.5, 0.6, 0.4]), torch.tensor([0.5, bad, 0.4])
    for pair in ((good, spoilt), (spoilt, good)):
        with pytest.raises(InputError, match="scores must be finite, got nan or inf; check the gradients"):
            significant(*pair)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7])
def test_equal_constants_are_not_significant_for_any_number(value):
    # Means of equal numbers may differ in the last digit: 10 times 0.1 against 7 times 0.1 was significant.
    ten = torch.full((10,), value, dtype=torch.float64)
    for runs in (3, 7, 80):
        same = significant(ten, ten[:1].expand(runs))
        assert (same.p_value, same.passed) == (1, False)


def test_gradients_of_another_length(cavs):
    for width in (4, 6):
        with pytest.raises(InputError, match=rf"`gradients` \[inputs, dim\].*got \[2, {width}\], \[8, 5\]"):
            sensitivity(cavs, torch.ones(2, width))
    with pytest.raises(InputError, match=r"expected `gradients` \[inputs, dim\]"):
        unwrap(directional_derivatives)(cavs, torch.ones(5))
    with pytest.raises(InputError, match="`gradients` must be a torch tensor, got ndarray"):
        unwrap(directional_derivatives)(cavs, np.ones((2, 5)))
    with pytest.raises(InputError, match=r"expected `concept_scores` \[runs\]"):
        unwrap(significant)(torch.ones(2, 2), torch.ones(2))


def test_misspelt_options(cavs):
    gradients = torch.ones(2, 5)
    with pytest.raises(InputError, match="`scale` must be one of: vector, unit, cosine; got cosin"):
        unwrap(directional_derivatives)(cavs, gradients, "cosin")
    with pytest.raises(InputError, match="`gradient_of` must be one of: loss, logit; got logits"):
        unwrap(sensitivity)(cavs, gradients, "logits")


def test_gradients_orthogonal_to_every_vector_score_zero():
    # Rounding leaves derivatives of about 1e-8 of both lengths, of either sign.
    generator = torch.Generator().manual_seed(3)
    concept = torch.randn(24, 300, generator=generator) + 2
    negatives = torch.randn(40, 300, generator=generator)
    cavs = fit_cavs(concept, negatives, generator=generator, runs=20)
    span = torch.cat([concept, negatives]).double()
    basis = torch.linalg.qr((span - span.mean(0)).T)[0]
    gradients = torch.randn(30, 300, generator=generator, dtype=torch.float64)
    gradients = (gradients - (gradients @ basis) @ basis.T).float()
    assert sensitivity(cavs, gradients).tolist() == [0] * 20
    assert sensitivity(cavs, gradients, "logit").tolist() == [0] * 20
    moved = gradients + 1e-3 * (concept.mean(0) - negatives.mean(0))
    assert sensitivity(cavs, moved, "logit").tolist() == [1] * 20
