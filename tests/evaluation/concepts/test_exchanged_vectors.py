import math
from inspect import unwrap

import numpy as np
import pytest
import torch
from scipy import stats

from candlelight.evaluation.concepts.permutation import (
    exchange_derivatives,
    exchanged_members,
    gram_exchange_derivatives,
)
from candlelight.evaluation.concepts.rows import SharedRows
from candlelight.evaluation.concepts.sensitivity import COSINE_FLOOR
from candlelight.evaluation.concepts.solvers import train_classifiers
from candlelight.loaders.errors import InputError


def _rows(rows, dim=40, seed=0, dtype=torch.float32):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _slow(concept, control, gradients, members, fit, length, regularisation):
    """Fit a vector of length dim for each row of members; ridge by the normal equations of the features."""
    rows = np.concatenate([concept.double().numpy(), control.double().numpy()])
    centred = rows - rows.mean(0)
    penalty = regularisation * (centred**2).sum(1).mean() * len(rows)
    derivatives = []
    for inside in members.numpy():
        difference = rows[inside].mean(0) - rows[~inside].mean(0)
        vector = difference
        if fit == "ridge":
            labels = np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())
            matrix = centred.T @ centred + penalty * np.eye(rows.shape[1])
            vector = np.linalg.solve(matrix, centred.T @ labels)
        if length == "unit":
            vector = vector / np.linalg.norm(vector)
        slopes = gradients.double().numpy()
        if length == "student":
            spreads = [
                (part @ slopes.mean(0)).var(ddof=1) / len(part) for part in (rows[inside], rows[~inside])
            ]
            vector = vector / sum(spreads) ** 0.5
        derivatives.append([float(gradient @ vector) for gradient in slopes])
    return np.array(derivatives)


@pytest.mark.parametrize("sizes", [(8, 8), (5, 12)], ids=["equal", "unequal"])
@pytest.mark.parametrize("length", ["student", "fitted", "unit"])
@pytest.mark.parametrize("fit", ["mean", "ridge"])
def test_derivatives_equal_vectors_that_are_fitted_one_by_one(fit, length, sizes):
    concept, control, gradients = _rows(sizes[0]) + 3, _rows(sizes[1], seed=1) + 3, _rows(6, seed=2)
    found = exchange_derivatives(
        concept, control, gradients, seed=4, permutations=15, fit=fit, length=length, regularisation=0.05
    )
    members = exchanged_members(*sizes, permutations=15, seed=4)
    slow = _slow(concept, control, gradients, members, fit, length, 0.05)
    np.testing.assert_allclose(found, slow, atol=1e-5 * np.abs(slow).max())


def test_ridge_is_the_classifier_of_cavs_on_all_images():
    concept, control, gradients = _rows(9), _rows(9, seed=1), _rows(5, seed=2)
    gram, (products,) = SharedRows(control, [gradients]).stacked(concept)
    gram = (gram + gram.T) / 2
    means = gram.mean(0)
    gram = gram - means - means[:, None] + means.mean()
    labels = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(9)
    penalty = 0.01 * float(gram.diagonal().mean())
    beta, _ = train_classifiers(gram, torch.arange(18)[None], labels, "ridge", penalty, torch.Generator())
    expected = (products @ beta[0]) / (beta[0] @ gram @ beta[0]).sqrt()
    options = {"seed": 0, "permutations": 2, "fit": "ridge", "length": "unit"}
    torch.testing.assert_close(exchange_derivatives(concept, control, gradients, **options)[0], expected)


def test_members_are_the_truth_and_exchanges_of_the_same_sizes():
    members = exchanged_members(3, 5, permutations=2000, seed=0)
    assert members[0].tolist() == [True] * 3 + [False] * 5
    assert (members.sum(1) == 3).all()
    # Each image is the concept's with a probability of 3/8, with a standard error of 0.011.
    np.testing.assert_allclose(members[1:].double().mean(0), 3 / 8, atol=0.045)
    assert len(members.unique(dim=0)) == 56  # all choices of 3 among 8


def test_sets_of_one_size_and_seed_are_exchanged_alike():
    assert torch.equal(exchanged_members(4, 6, 20, seed=1), exchanged_members(4, 6, 20, seed=1))
    assert torch.equal(exchanged_members(4, 6, 20, seed=1), exchanged_members(4, 6, 30, seed=1)[:21])
    assert not torch.equal(exchanged_members(4, 6, 20, seed=1), exchanged_members(4, 6, 20, seed=2))
    larger = exchanged_members(4, 7, 20, seed=1)[:, :10]
    assert not torch.equal(exchanged_members(4, 6, 20, seed=1)[1:], larger[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fit", ["mean", "ridge"])
def test_gradient_at_right_angles_to_all_images_scores_zero(fit, dtype):
    images = _rows(20, dim=4000, dtype=dtype) + 1
    images[:10] += 2 * _rows(1, dim=4000, seed=3, dtype=dtype)
    gradients = 1e3 * _rows(6, dim=4000, seed=1, dtype=torch.float64)
    basis = torch.linalg.qr((images - images.mean(0)).double().T).Q
    gradients = (gradients - (gradients @ basis) @ basis.T).to(dtype)
    derivatives = exchange_derivatives(images[:10], images[10:], gradients, seed=0, permutations=20, fit=fit)
    assert (derivatives == 0).all()
    # A cosine ten times the floor is not lost.
    vector = images[:10].mean(0) - images[10:].mean(0)
    weak = torch.nn.functional.normalize(gradients, dim=1).double()
    weak += 10 * COSINE_FLOOR * torch.nn.functional.normalize(vector, dim=0)
    found = exchange_derivatives(images[:10], images[10:], weak, seed=0, permutations=2, length="fitted")
    np.testing.assert_allclose(found[0], 10 * COSINE_FLOOR * vector.norm(), rtol=0.2)


def test_known_vector():
    control = _rows(10)
    control -= control.mean(0)
    v = torch.zeros(40)
    v[7] = 2.0
    options = {"seed": 0, "permutations": 2, "length": "fitted"}
    derivatives = exchange_derivatives(control + v, control, torch.eye(40)[6:8], **options)
    torch.testing.assert_close(derivatives[0], torch.tensor([0.0, 2.0], dtype=torch.float64))


@pytest.mark.parametrize("length", ["student", "fitted", "unit"])
@pytest.mark.parametrize("fit", ["mean", "ridge"])
def test_equal_images_and_zero_gradients_give_zero(fit, length):
    options = {"seed": 0, "permutations": 5, "fit": fit, "length": length}
    same = _rows(1).expand(6, -1)
    assert (exchange_derivatives(same, same, _rows(3), **options) == 0).all()
    assert (exchange_derivatives(_rows(6), _rows(6, seed=1), torch.zeros(3, 40), **options) == 0).all()


@pytest.mark.parametrize(("length", "kept"), [("student", 1), ("fitted", 1e-12), ("unit", 1e-12)])
def test_scale_of_gradients(length, kept):
    concept, control, gradients = _rows(6), _rows(7, seed=1), _rows(3, seed=2)
    options = {"seed": 0, "permutations": 5, "length": length}
    whole = exchange_derivatives(concept, control, gradients, **options)
    small = exchange_derivatives(concept, control, 1e-12 * gradients, **options)
    torch.testing.assert_close(small / kept, whole, rtol=1e-5, atol=1e-6)


def test_mean_of_student_derivatives_is_welchs_t():
    concept, control, gradients = 2 * _rows(6), _rows(9, seed=1), _rows(3, seed=2)
    along = gradients.mean(0).double()
    expected = stats.ttest_ind(concept.double() @ along, control.double() @ along, equal_var=False).statistic
    derivatives = exchange_derivatives(concept, control, gradients, seed=0, permutations=2)
    assert float(derivatives[0].mean()) == pytest.approx(expected, rel=1e-5)


def test_sets_without_spread_are_finite_and_significant():
    one, other = _rows(1), _rows(1, seed=1)
    derivatives = exchange_derivatives(one.expand(8, -1), other.expand(8, -1), _rows(3), seed=0)
    assert derivatives.isfinite().all()
    assert derivatives[0].mean().abs() > 1e3 * derivatives[1:].mean(1).abs().median()


def test_refusals():
    two = _rows(2)
    with pytest.raises(InputError, match="both sets need at least 2 images to exchange, got 1 and 2"):
        exchange_derivatives(_rows(1), two, two, seed=0)
    with pytest.raises(InputError, match="`permutations` must be at least 2, got 1; 999 is usual"):
        exchange_derivatives(two, two, two, seed=0, permutations=1)
    for penalty in (0, math.inf, math.nan):
        with pytest.raises(InputError, match=f"`regularisation` must be above 0 and finite, got {penalty}"):
            exchange_derivatives(two, two, two, seed=0, fit="ridge", regularisation=penalty)
    with pytest.raises(InputError, match="`gradients` needs at least one input, got none"):
        exchange_derivatives(two, two, two[:0], seed=0)
    for bad in (torch.nan, torch.inf):
        spoilt = two.clone()
        spoilt[0, 0] = bad
        for broken in ((spoilt, two, two), (two, spoilt, two), (two, two, spoilt)):
            with pytest.raises(InputError, match="must be finite, got nan or inf"):
                exchange_derivatives(*broken, seed=0, permutations=2)


def test_misspelt_options_and_shapes():
    two = _rows(2)
    with pytest.raises(InputError, match=r"expected `concept` \[concepts, dim\]"):
        unwrap(exchange_derivatives)(two, _rows(2, dim=3), two, seed=0)
    with pytest.raises(InputError, match=r"`gradients` \[inputs, dim\], got \[2, 40\], \[2, 40\], \[2, 3\]"):
        unwrap(exchange_derivatives)(two, two, _rows(2, dim=3), seed=0)
    gram = torch.eye(4, dtype=torch.float64)
    members = exchanged_members(2, 2, 2, seed=0)
    for option, choices in (("fit", "mean, ridge"), ("length", "student, fitted, unit")):
        with pytest.raises(InputError, match=f"`{option}` must be one of: {choices}; got svm"):
            unwrap(gram_exchange_derivatives)(gram, gram, torch.ones(4), members, **{option: "svm"})
    with pytest.raises(InputError, match="`members` must be boolean"):
        unwrap(gram_exchange_derivatives)(gram, gram, torch.ones(4), members.double())
    with pytest.raises(InputError, match=r"expected `gram` \[images, images\]"):
        unwrap(gram_exchange_derivatives)(gram, gram[:, :3], torch.ones(4), members)
