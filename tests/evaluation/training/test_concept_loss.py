import math

import pytest
import torch

from candlelight.evaluation.training import concept_loss, fit_prototypes, prototype_loss
from tests.refusals import refused


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_loss_is_the_mean_absolute_cosine():
    gradient, vectors = draw(4, 6), draw(3, 6, seed=1)
    expected = []
    for g in gradient.numpy():
        cosines = [abs(g @ v) / math.sqrt((g @ g) * (v @ v)) for v in vectors.numpy()]
        expected.append(sum(cosines) / 3)
    torch.testing.assert_close(concept_loss(gradient, vectors).tolist(), expected)
    torch.testing.assert_close(
        1 - concept_loss(gradient, vectors), concept_loss(gradient, vectors, "sensitise")
    )


def test_signs_and_lengths_do_not_matter():
    gradient, vectors = draw(4, 6), draw(3, 6, seed=1)
    scales = torch.tensor([[-1e-6], [-1.0], [3.0], [1e6]], dtype=torch.float64)
    torch.testing.assert_close(concept_loss(gradient * scales, -7 * vectors), concept_loss(gradient, vectors))
    assert concept_loss(vectors[:1], -2 * vectors[:1]) == pytest.approx(1)


def test_one_sided_loss_counts_concepts_that_lower_the_loss():
    slopes = torch.tensor([[-3.0, 4.0], [3.0, 4.0]])
    vectors = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    assert concept_loss(slopes, vectors, "one-sided").tolist() == pytest.approx([0.3, 0])


@pytest.mark.parametrize("mode", ["desensitise", "sensitise", "one-sided"])
def test_derivatives_are_those_of_finite_differences(mode):
    vectors, weights = draw(3, 5), draw(5, 4, seed=1)

    def trained(weights):
        """The loss of a network's gradient: second derivatives of ``sum(tanh(x W)^2)``."""
        inputs = draw(2, 5, seed=2).requires_grad_()
        value = torch.tanh(inputs @ weights).square().sum()
        (gradient,) = torch.autograd.grad(value, inputs, create_graph=True)
        return concept_loss(gradient, vectors, mode).sum()

    assert torch.autograd.gradcheck(trained, weights.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda g: concept_loss(g, vectors, mode), draw(2, 5).requires_grad_())


def test_zeros_have_no_direction_and_no_derivative():
    gradient = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    vectors = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    loss = concept_loss(gradient, vectors)
    assert loss.tolist() == pytest.approx([0, 0.3])
    (slope,) = torch.autograd.grad(loss.sum(), gradient)
    assert slope.isfinite().all()
    assert (slope[0] == 0).all()
    assert (slope[1] != 0).any()
    assert concept_loss(gradient, vectors[:1], "sensitise").tolist() == [1, 1]


def test_nan_stays_in_its_image():
    gradient = torch.tensor([[math.nan, 0.0], [3.0, 4.0]])
    found = concept_loss(gradient, torch.tensor([[1.0, 0.0]]))
    assert found.isnan().tolist() == [True, False]
    assert concept_loss(gradient[1:], torch.tensor([[math.nan, 0.0]])).isnan().all()


def test_prototypes_are_the_centres_of_blobs():
    blobs = torch.cat([draw(20, 3) / 10, draw(30, 3, seed=1) / 10 + 5])
    found = fit_prototypes(blobs, 2, seed=0)
    found = found[found[:, 0].argsort()]
    torch.testing.assert_close(found, torch.stack([blobs[:20].mean(0), blobs[20:].mean(0)]))
    assert torch.equal(fit_prototypes(blobs, 5, seed=3), fit_prototypes(blobs, 5, seed=3))
    assert fit_prototypes(blobs.float(), 2, seed=0).dtype == torch.float32


def test_prototypes_move_towards_the_new_centres():
    before = torch.tensor([[0.0], [10.0]])
    moved = torch.tensor([[1.0], [3.0], [20.0], [20.0]])
    found = fit_prototypes(moved, seed=0, previous=before)
    torch.testing.assert_close(found, torch.tensor([[0.3 * 2], [10 + 0.3 * 10]]))
    found = fit_prototypes(moved, seed=0, previous=before, momentum=1)
    torch.testing.assert_close(found, torch.tensor([[2.0], [20.0]]))


def test_prototype_loss_and_its_gradient():
    features, prototypes = draw(3, 4).requires_grad_(), draw(5, 4, seed=1)
    expected = [
        [sum((f - p) ** 2 for f, p in zip(row, centre, strict=True)) / 4 for centre in prototypes.tolist()]
        for row in features.tolist()
    ]
    loss = prototype_loss(features, prototypes)
    assert loss.tolist() == pytest.approx([sum(row) / 5 for row in expected])
    (slope,) = torch.autograd.grad(loss.sum(), features)
    torch.testing.assert_close(slope, 2 * (features - prototypes.mean(0)).detach() / 4)


ONES = torch.ones(3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: concept_loss(ONES, torch.ones(1, 3)),
            r"^expected `gradient` \[batch, dim\], `vectors`",
        ),
        (lambda: concept_loss(ONES, ONES, "sensitize"), r"mode.*sensitise"),
        (lambda: fit_prototypes(ONES, 4, seed=0), "^expected 1 prototype to 3, the number of images, got 4"),
        (
            lambda: fit_prototypes(ONES, 1, seed=0, momentum=0),
            "^`momentum` must lie above 0 and at most at 1",
        ),
        (lambda: fit_prototypes(ONES * math.inf, 1, seed=0), "^activations must be finite"),
        (lambda: fit_prototypes(ONES, seed=0, previous=torch.ones(1, 3)), "previous"),
        (lambda: prototype_loss(ONES, torch.ones(1, 3)), "prototypes"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with refused(message):
        call()
