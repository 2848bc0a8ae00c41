"""Vectors of images that are exchanged between a concept and its control, one by one or by scenes."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from candlelight.evaluation.concepts.permutation import (
    exchange_derivatives,
    exchanged_members,
    gram_exchange_derivatives,
)
from candlelight.evaluation.concepts.sensitivity import COSINE_FLOOR
from tests.evaluation.concepts.conftest import rows
from tests.refusals import refused

DIM = 40
of_all_vectors = pytest.mark.parametrize(
    ("fit", "length"),
    [(fit, length) for fit in ("mean", "ridge") for length in ("student", "fitted", "unit")],
)


def _slow(concept, control, gradients, members, fit, length, regularisation):
    """Fit a vector of length dim for each row of members; ridge by the normal equations of the features."""
    both = np.concatenate([concept.double().numpy(), control.double().numpy()])
    centred = both - both.mean(0)
    penalty = regularisation * (centred**2).sum(1).mean() * len(both)
    derivatives = []
    for inside in members.numpy():
        vector = both[inside].mean(0) - both[~inside].mean(0)
        if fit == "ridge":
            labels = np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())
            matrix = centred.T @ centred + penalty * np.eye(both.shape[1])
            vector = np.linalg.solve(matrix, centred.T @ labels)
        if length == "unit":
            vector = vector / np.linalg.norm(vector)
        slopes = gradients.double().numpy()
        if length == "student":
            spreads = [
                (part @ slopes.mean(0)).var(ddof=1) / len(part) for part in (both[inside], both[~inside])
            ]
            vector = vector / sum(spreads) ** 0.5
        derivatives.append([float(gradient @ vector) for gradient in slopes])
    return np.array(derivatives)


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [((8, 8), None), ((5, 12), None), ((8, 8), (list("aabbccdd"), list("eeffgghh")))],
    ids=["equal", "unequal", "in groups"],
)
@of_all_vectors
def test_derivatives_equal_vectors_that_are_fitted_one_by_one(fit, length, sizes, groups):
    concept, control, gradients = rows(sizes[0], DIM) + 3, rows(sizes[1], DIM, 1) + 3, rows(6, DIM, 2)
    options = {"fit": fit, "length": length, "regularisation": 0.05, "groups": groups}
    found = exchange_derivatives(concept, control, gradients, seed=4, permutations=15, **options)
    members = exchanged_members(*sizes, 15, 4, groups)
    slow = _slow(concept, control, gradients, members, fit, length, 0.05)
    np.testing.assert_allclose(found, slow, atol=1e-5 * np.abs(slow).max())


def test_mean_of_student_derivatives_is_welchs_t():
    concept, control, gradients = 2 * rows(6, DIM), rows(9, DIM, 1), rows(3, DIM, 2)
    along = gradients.mean(0).double()
    expected = stats.ttest_ind(concept.double() @ along, control.double() @ along, equal_var=False).statistic
    derivatives = exchange_derivatives(concept, control, gradients, seed=0, permutations=2)
    assert float(derivatives[0].mean()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fit", ["mean", "ridge"])
def test_gradient_at_right_angles_to_all_images_scores_zero(fit, dtype):
    images = rows(20, 4000, dtype=dtype) + 1
    images[:10] += 2 * rows(1, 4000, 3, dtype=dtype)
    gradients = 1e3 * rows(6, 4000, 1, dtype=torch.float64)
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


@of_all_vectors
def test_equal_images_and_gradients_of_any_scale(fit, length):
    options = {"seed": 0, "permutations": 5, "fit": fit, "length": length}
    same = rows(1).expand(6, -1)
    assert (exchange_derivatives(same, same, rows(3), **options) == 0).all()
    concept, control, gradients = rows(6, DIM), rows(7, DIM, 1), rows(3, DIM, 2)
    assert (exchange_derivatives(concept, control, 0 * gradients, **options) == 0).all()
    whole = exchange_derivatives(concept, control, gradients, **options)
    small = exchange_derivatives(concept, control, 1e-12 * gradients, **options)
    torch.testing.assert_close(small / (1 if length == "student" else 1e-12), whole, rtol=1e-5, atol=1e-6)


def test_sets_without_spread_are_finite_and_significant():
    one, other = rows(1, DIM), rows(1, DIM, 1)
    derivatives = exchange_derivatives(one.expand(8, -1), other.expand(8, -1), rows(3, DIM), seed=0)
    assert derivatives.isfinite().all()
    assert derivatives[0].mean().abs() > 1e3 * derivatives[1:].mean(1).abs().median()


def test_members_are_the_truth_and_exchanges_of_the_same_sizes():
    members = exchanged_members(3, 5, permutations=2000, seed=0)
    assert members[0].tolist() == [True] * 3 + [False] * 5
    assert (members.sum(1) == 3).all()
    # Each image is the concept's with a probability of 3/8, with a standard error of 0.011.
    np.testing.assert_allclose(members[1:].double().mean(0), 3 / 8, atol=0.045)
    assert len(members.unique(dim=0)) == 56  # all choices of 3 among 8


def test_sets_of_one_size_and_seed_are_exchanged_alike():
    drawn = exchanged_members(4, 6, 20, seed=1)
    assert torch.equal(drawn, exchanged_members(4, 6, 30, seed=1)[:21])
    assert not torch.equal(drawn, exchanged_members(4, 6, 20, seed=2))
    assert not torch.equal(drawn[1:], exchanged_members(4, 7, 20, seed=1)[1:, :10])


def test_groups_of_one_set_are_exchanged_whole_and_keep_their_number():
    scenes = [[f"{name}{scene}" for scene in range(4) for _ in range(8)] for name in ("concept", "control")]
    members = exchanged_members(32, 32, 50, 0, tuple(scenes)).reshape(51, 8, 8)
    assert torch.equal(members.all(2), members.any(2))
    assert (members.all(2).sum(1) == 4).all()
    assert members[0, :4].all()
    assert len(torch.unique(members[1:, :, 0], dim=0)) > 20


def test_images_of_a_shared_group_are_exchanged_within_it():
    groups = (["a"] * 6 + ["b"] * 3, ["b"] * 5 + ["a"] * 7)
    members = exchanged_members(9, 12, 50, 0, groups)
    in_a = torch.tensor([name == "a" for name in (*groups[0], *groups[1])])
    assert (members[:, in_a].sum(1) == 6).all()
    assert (members[:, ~in_a].sum(1) == 3).all()
    assert len(torch.unique(members, dim=0)) == 51
    # One shared group is no restriction.
    free, shared = (exchanged_members(5, 6, 9, 1, groups) for groups in (None, (["a"] * 5, ["a"] * 6)))
    assert torch.equal(free, shared)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((list("aabbcc"), list("ddeeff")), "groups allow 20 different exchanges, so no p-value is possible"),
        ((["a"] * 6, ["b"] * 6), "groups allow 1 different exchanges"),
        ((["a"] * 6, [*"bcdefg"]), "groups allow 1 different exchanges"),  # one scene against many
        ((["a"] * 5, ["a"] * 6), "expected groups of 6 and 6 images, got 5 and 6"),
    ],
)
def test_groups_that_allow_no_test(groups, message):
    with refused(message):
        exchanged_members(6, 6, 9, 0, groups)


TWO = rows(2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"concept": rows(1)}, "both sets need at least 2 images to exchange, got 1 and 2"),
        ({"concept": rows(2, 3)}, r"expected `concept` \[concepts, dim\]"),
        ({"permutations": 1}, "`permutations` must be at least 2, got 1; 999 is usual"),
        ({"fit": "ridge", "regularisation": 0}, "`regularisation` must be above 0 and finite, got 0"),
        ({"fit": "ridge", "regularisation": math.inf}, "must be above 0 and finite, got inf"),
        ({"gradients": TWO[:0]}, "`gradients` needs at least one input, got none"),
        ({"gradients": rows(2, 3)}, r"`gradients` \[inputs, dim\], got \[2, 6\], \[2, 6\], \[2, 3\]"),
        ({"concept": TWO * math.inf}, "must be finite, got nan or inf"),
        ({"gradients": TWO * math.inf}, "must be finite, got nan or inf"),
    ],
)
def test_refusals(change, message):
    with refused(message):
        exchange_derivatives(**{"concept": TWO, "control": TWO, "gradients": TWO, "seed": 0, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fit": "svm"}, "`fit` must be one of: mean, ridge; got svm"),
        ({"length": "svm"}, "`length` must be one of: student, fitted, unit; got svm"),
        ({"members": exchanged_members(2, 2, 2, seed=0).double()}, "`members` must be boolean"),
        ({"products": torch.eye(4, 3).double()}, r"expected `gram` \[images, images\]"),
    ],
)
def test_refusals_of_a_gram_matrix(change, message):
    gram, members = torch.eye(4, dtype=torch.float64), exchanged_members(2, 2, 2, seed=0)
    given = {"gram": gram, "products": gram, "lengths": torch.ones(4), "members": members}
    with refused(message):
        gram_exchange_derivatives(**{**given, **change})
