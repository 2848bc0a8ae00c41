import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from candlelight.evaluation.models.autoencoders import Posterior
from candlelight.evaluation.training import (
    bernoulli_error,
    density_ratio,
    dip_penalty,
    discriminator_loss,
    factor_targets,
    foreground_weights,
    gaussian_kl,
    permute_codes,
    share_posterior,
    supervised_codes_loss,
    total_correlation,
)
from candlelight.evaluation.training.causal_data import box_masks, mask_boxes
from candlelight.evaluation.training.losses import code_divergences
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused


def draws(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def some_posterior(seed: int = 0, batch: int = 5, codes: int = 3) -> Posterior:
    return Posterior(draws(seed, batch, codes), 0.3 * draws(seed + 100, batch, codes))


def leaves(seed: int = 0, batch: int = 5, codes: int = 3) -> Posterior:
    """Make a posterior that collects gradients."""
    return Posterior(*(values.requires_grad_() for values in some_posterior(seed, batch, codes)))


def cross_entropy(logit: float, target: float) -> float:
    share = 1 / (1 + math.exp(-logit))
    return -target * math.log(share) - (1 - target) * math.log(1 - share)


def log_density(value: float, mean: float, log_variance: float) -> float:
    deviation = math.exp(log_variance / 2)
    return -math.log(deviation * math.sqrt(2 * math.pi)) - ((value - mean) / deviation) ** 2 / 2


def test_bernoulli_error_is_the_sum_of_cross_entropies() -> None:
    logits, images, weights = draws(0, 2, 3, 4, 5), draws(1, 2, 3, 4, 5).sigmoid(), draws(2, 2, 1, 4, 5).abs()
    found, weighed = bernoulli_error(logits, images), bernoulli_error(logits, images, weights)
    for row in range(2):
        places = [(row, *place) for place in itertools.product(range(3), range(4), range(5))]
        errors = [cross_entropy(float(logits[place]), float(images[place])) for place in places]
        assert float(found[row]) == pytest.approx(sum(errors))
        weighted = [e * float(weights[r, 0, y, x]) for e, (r, _, y, x) in zip(errors, places, strict=True)]
        assert float(weighed[row]) == pytest.approx(sum(weighted))


def test_foreground_counts_once_more_for_each_extra_weight() -> None:
    """The authors' ``rec(x, s) + a rec(m x, m s)``, without its constant log 2 for each value outside."""
    logits, images = draws(0, 2, 3, 4, 4), draws(1, 2, 3, 4, 4).sigmoid()
    masks = torch.zeros(2, 4, 4, dtype=torch.float64)
    masks[0, 1:3, 2:] = 1
    found = bernoulli_error(logits, images, foreground_weights(masks, 2))
    inside = masks[:, None]
    theirs = bernoulli_error(logits, images) + 2 * (
        bernoulli_error(logits * inside, images * inside) - math.log(2) * 3 * (1 - masks).sum((1, 2))
    )
    assert torch.allclose(found, theirs)
    # With a weight of 0 outside, nothing outside has a gradient.
    logits.requires_grad_()
    bernoulli_error(logits, images, inside).sum().backward()
    assert ((logits.grad != 0) == inside.bool()).all()


def test_divergence_from_the_prior_is_that_of_torch() -> None:
    posterior = leaves()
    normal = torch.distributions.Normal(posterior.means, (posterior.log_variances / 2).exp())
    prior = torch.distributions.Normal(torch.zeros(()).double(), torch.ones(()).double())
    assert torch.allclose(gaussian_kl(posterior), torch.distributions.kl_divergence(normal, prior).sum(1))
    gaussian_kl(posterior).sum().backward()
    assert torch.allclose(posterior.means.grad, posterior.means)
    assert (gaussian_kl(Posterior(torch.zeros(2, 3), torch.zeros(2, 3))) == 0).all()


def test_total_correlation_is_the_mean_log_ratio_of_mixtures() -> None:
    posterior, codes = some_posterior(batch=4), draws(9, 4, 3)
    found = total_correlation(codes, posterior)
    for row in range(4):
        under = [
            [log_density(*map(float, (codes[row, c], posterior.means[j, c], posterior.log_variances[j, c])))
             for c in range(3)]
            for j in range(4)
        ]  # fmt: skip
        joint = math.log(sum(math.exp(sum(one)) for one in under) / 4)
        separate = sum(math.log(sum(math.exp(one[c]) for one in under) / 4) for c in range(3))
        assert float(found[row]) == pytest.approx(joint - separate)


@pytest.mark.parametrize("correlation", [0.0, -0.9])
def test_total_correlation_of_a_gaussian(correlation: float) -> None:
    """Posteriors whose mixture is a Gaussian with the correlation r: TC = -log(1 - r^2) / 2."""
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, correlation], [correlation, 1.0]])
    spread = 0.05  # variance of each posterior, below the least eigenvalue of the covariance
    means = torch.from_numpy(rng.multivariate_normal([0, 0], covariance - spread * np.eye(2), 1600))
    posterior = Posterior(means, torch.full_like(means, math.log(spread)))
    codes = posterior.sample(torch.from_numpy(rng.normal(size=means.shape)))
    truth = -math.log(1 - correlation**2) / 2
    assert float(total_correlation(codes, posterior).mean()) == pytest.approx(truth, abs=0.04)


def test_total_correlation_of_few_narrow_codes_is_its_limit() -> None:
    """The stated blindness: independent codes, but 8 images and narrow posteriors."""
    means = draws(0, 8, 3)
    narrow = Posterior(means, torch.full_like(means, -20.0))
    assert total_correlation(means, narrow).numpy() == pytest.approx(2 * math.log(8))


def test_total_correlation_moves_codes_and_posteriors() -> None:
    posterior = leaves()
    total_correlation(posterior.sample(draws(7, 5, 3)), posterior).mean().backward()
    assert all((values.grad != 0).all() for values in posterior)


@pytest.mark.parametrize("kind", ["i", "ii"])
def test_dip_penalty_is_that_of_the_covariance_matrix(kind: str) -> None:
    posterior = leaves()
    covariance = np.cov(posterior.means.detach().numpy().T, bias=True)
    if kind == "ii":
        covariance += np.diag(posterior.log_variances.detach().exp().mean(0).numpy())
    expected = 0.0
    for one, other in itertools.product(range(3), range(3)):
        entry = covariance[one, other]
        expected += 5 * (entry - 1) ** 2 if one == other else 7 * entry**2
    found = dip_penalty(posterior, kind, off_diagonal=7, diagonal=5)
    assert float(found.detach()) == pytest.approx(expected)
    found.backward()
    assert (posterior.means.grad != 0).all()
    # Only DIP-VAE-II moves the variances.
    assert (posterior.log_variances.grad is None) == (kind == "i")


def test_discriminator_loss_is_the_cross_entropy_of_its_classes() -> None:
    own, permuted = draws(0, 4, 2), draws(1, 4, 2)
    expected = [
        (cross_entropy(float(own[row, 0] - own[row, 1]), 1)
         + cross_entropy(float(permuted[row, 0] - permuted[row, 1]), 0)) / 2
        for row in range(4)
    ]  # fmt: skip
    assert discriminator_loss(own, permuted).numpy() == pytest.approx(expected)
    assert torch.equal(density_ratio(own), own[:, 0] - own[:, 1])


def test_density_ratio_of_the_best_discriminator_is_the_total_correlation() -> None:
    """Codes of a Gaussian with the correlation 0.8; the discriminator's logits are their log densities."""
    rng = np.random.default_rng(0)
    covariance = np.array([[1, 0.8], [0.8, 1]])
    codes = torch.from_numpy(rng.multivariate_normal([0, 0], covariance, 20_000))
    joint = torch.distributions.MultivariateNormal(torch.zeros(2).double(), torch.from_numpy(covariance))
    alone = torch.distributions.Normal(torch.zeros(()).double(), torch.ones(()).double())
    logits = torch.stack([joint.log_prob(codes), alone.log_prob(codes).sum(1)], 1)
    assert float(density_ratio(logits).mean()) == pytest.approx(-math.log(1 - 0.64) / 2, abs=0.02)


def test_permuted_codes_keep_each_code_and_lose_their_dependence() -> None:
    codes = draws(0, 2000, 1).repeat(1, 3).requires_grad_()
    permuted = permute_codes(codes, torch.Generator().manual_seed(0))
    assert not permuted.requires_grad
    assert torch.equal(permuted.sort(0).values, codes.detach().sort(0).values)
    assert abs(np.corrcoef(permuted.numpy().T) - np.eye(3)).max() < 0.08
    assert not torch.equal(permuted, codes)


def test_supervised_codes_are_the_first_ones() -> None:
    means, targets = draws(0, 4, 5).requires_grad_(), draws(1, 4, 2).sigmoid()
    found = supervised_codes_loss(means, targets)
    for row in range(4):
        errors = [cross_entropy(float(means.detach()[row, k]), float(targets[row, k])) for k in range(2)]
        assert float(found[row].detach()) == pytest.approx(sum(errors))
    found.sum().backward()
    assert (means.grad[:, :2] != 0).all()
    assert (means.grad[:, 2:] == 0).all()
    with refused("at least a code for each of 2 factors, got 1 codes"):
        supervised_codes_loss(means[:, :1], targets)


def test_targets_reach_zero_and_one(memory_view) -> None:
    infos = (
        FactorInfo(name="kind", kind="categorical", values=("a", "b", "c")),
        FactorInfo(name="angle", kind="continuous", low=0.0, high=90.0),
        FactorInfo(name="floor", kind="categorical", values=("plain", "textured")),
    )
    table = np.array([[0.0, 10, 1], [1, 30, 1], [2, 20, 1], [2, 50, 0]])
    view = memory_view([0] * 4, factors=infos, table=table)
    names, values = factor_targets(view, [0, 1, 2])
    assert names == ("kind", "angle")  # the floor does not vary among these rows
    assert values[:3].tolist() == [[0, 0], [0.5, 1], [1, 0.5]]
    assert values[3].tolist() == [1, 1]  # beyond the labelled extremes
    with refused("expected a factor with several values among the labelled"):
        factor_targets(view, [0])


def test_shared_codes_by_loops() -> None:
    first, second = leaves(0), leaves(1)
    mixed = share_posterior(first, second)
    for row in range(5):
        moments = [
            [
                (float(p.means.detach()[row, c]), float(p.log_variances.detach()[row, c]))
                for p in (first, second)
            ]
            for c in range(3)
        ]
        divergences = [
            math.log(math.sqrt(math.exp(lv2)) / math.sqrt(math.exp(lv1)))
            + (math.exp(lv1) + (m1 - m2) ** 2) / (2 * math.exp(lv2))
            - 0.5
            for (m1, lv1), (m2, lv2) in moments
        ]
        assert code_divergences(first, second)[row].detach().numpy() == pytest.approx(divergences)
        middle = (max(divergences) + min(divergences)) / 2
        for code, ((m1, lv1), (m2, lv2)) in enumerate(moments):
            expected = [(m1, lv1), (m2, lv2)]
            if divergences[code] < middle:
                mean = (m1 + m2) / 2, math.log((math.exp(lv1) + math.exp(lv2)) / 2)
                expected = [mean, mean]
            for one, (mean, log_variance) in zip(mixed, expected, strict=True):
                assert float(one.means[row, code].detach()) == pytest.approx(mean)
                assert float(one.log_variances[row, code].detach()) == pytest.approx(log_variance)
    mixed[0].means.sum().backward()
    # A shared code of the first image moves both images, another one the first image alone.
    shared = mixed[0].means == mixed[1].means
    assert shared.any()
    assert (~shared).any()
    assert torch.equal(first.means.grad, torch.where(shared, 0.5, 1.0).double())
    assert torch.equal(second.means.grad, torch.where(shared, 0.5, 0.0).double())


def test_equal_images_keep_their_posterior() -> None:
    posterior = some_posterior()
    for one in share_posterior(posterior, posterior):
        assert torch.allclose(one.means, posterior.means)
        assert torch.allclose(one.log_variances, posterior.log_variances)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=20, max_size=20))
def test_boxes_are_the_smallest_that_hold_the_mask(pixels: list[bool]) -> None:
    mask = torch.tensor(pixels).reshape(1, 4, 5)
    (left, top, right, bottom), *_ = mask_boxes(mask).tolist()
    filled = box_masks(mask_boxes(mask), 4, 5)
    places = mask[0].nonzero().tolist()
    if not places:
        assert (left, top, right, bottom) == (0, 0, 0, 0)
        assert not filled.any()
        return
    rows, columns = zip(*places, strict=True)
    assert (left, top, right, bottom) == (min(columns), min(rows), max(columns) + 1, max(rows) + 1)
    expected = torch.zeros_like(mask)
    expected[0, top:bottom, left:right] = True
    assert torch.equal(filled, expected)
