"""Ada-GVAE: pairs of images share the codes in which they differ least."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.models.autoencoders.conv_vae import Posterior


def code_divergences(first: Posterior, second: Posterior) -> Float[Tensor, "batch codes"]:
    """Compute the divergence ``KL(q(z_l | x1) || q(z_l | x2))`` of each code of each pair, in nats.

    Args:
        first: posteriors of the first images.
        second: posteriors of the second images.

    Returns:
        Divergences, >= 0.

    Example:
        >>> zero = torch.zeros(1, 1)
        >>> code_divergences(Posterior(zero, zero), Posterior(zero + 2, zero))
        tensor([[2.]])
    """
    log_ratio = first.log_variances - second.log_variances
    square = (first.means - second.means).square() * (-second.log_variances).exp()
    return (log_ratio.exp() + square - 1 - log_ratio) / 2


def shared_codes(first: Posterior, second: Posterior) -> Bool[Tensor, "batch codes"]:
    """Find the codes that the images of each pair share; which factors changed between them is unknown.

    Code l is shared if its divergence is below ``(max_l + min_l) / 2`` of the divergences of the pair
    (Locatello et al., ICML 2020).

    Example:
        >>> zero = torch.zeros(1, 3)
        >>> shared_codes(Posterior(zero, zero), Posterior(torch.tensor([[0.1, 2.0, 0.5]]), zero))
        tensor([[ True, False,  True]])
    """
    divergences = code_divergences(first, second)
    middle = (divergences.amax(1, keepdim=True) + divergences.amin(1, keepdim=True)) / 2
    return divergences < middle


def share_posterior(first: Posterior, second: Posterior) -> tuple[Posterior, Posterior]:
    """Replace the shared codes of each pair by their mean posterior.

    A shared code gets the mean of both means and the mean of both variances, the other codes stay as they are
    (Ada-GVAE of Locatello et al., "Weakly-supervised disentanglement without compromises", ICML 2020). The
    loss is the beta-VAE's of both images with these posteriors. With independent factors of which some,
    unknown ones, change in each pair, the factors are identified, each up to a function of its own (theorem 1
    of the paper, for its assumptions); no unsupervised model can identify them.

    Blind to: factors that always change together in pairs, which may share a code. In every pair
    the code with the greatest divergence counts as changed, even if nothing changed.

    Args:
        first: posteriors of the first images.
        second: posteriors of the second images.

    Returns:
        Posteriors of the first and of the second images. The choice of shared codes has no gradient; the
        means and variances have.

    Example:
        >>> zero = torch.zeros(1, 3)
        >>> pair = share_posterior(Posterior(zero, zero), Posterior(torch.tensor([[0.2, 2.0, 0.4]]), zero))
        >>> pair[1].means
        tensor([[0.1000, 2.0000, 0.2000]])
    """
    shared = shared_codes(first, second)
    means = (first.means + second.means) / 2
    log_variances = torch.logaddexp(first.log_variances, second.log_variances) - torch.log(
        means.new_tensor(2.0)
    )
    mixed = [
        Posterior(
            torch.where(shared, means, one.means), torch.where(shared, log_variances, one.log_variances)
        )
        for one in (first, second)
    ]
    return mixed[0], mixed[1]
