"""Total correlation of codes, estimated from a batch, which beta-TCVAE minimises."""

import math

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.models.autoencoders.conv_vae import Posterior


def total_correlation(codes: Float[Tensor, "batch codes"], posterior: Posterior) -> Float[Tensor, " batch"]:
    """Estimate the total correlation of codes, with the posteriors of the batch as their distribution.

    With ``q(z) = 1/M sum_j q(z | x_j)`` over the M images of the batch, the value of image i is
    ``log q(z_i) - sum_l log q(z_il)``, whose mean estimates ``TC = KL(q(z) || prod_l q(z_l))`` (Chen et al.,
    NeurIPS 2018, eq. 2). The beta-TCVAE minimises ``rec + KL + (beta - 1) TC``, as disentanglement_lib does;
    their estimate lacks the constant ``(codes - 1) log M``, which has no gradient.

    Blind to: dependence that M images do not show. Image i is one of the M, which raises the joint density
    more than its factors: of few images and many narrow codes the estimate tends to ``(codes - 1) log M``
    even if the codes are independent.

    Args:
        codes: sampled codes of the images.
        posterior: means and log-variances of the same images.

    Returns:
        One value per image, in nats; their mean is the estimate.

    Example:
        >>> import torch
        >>> means = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])  # two equal codes, which share log 2
        >>> total_correlation(means, Posterior(means, torch.full((2, 2), -9.0)))
        tensor([0.6931, 0.6931])
    """
    means, log_variances = posterior
    squares = (codes[:, None] - means).square() * (-log_variances).exp()
    log_densities = -(squares + log_variances + math.log(2 * math.pi)) / 2  # of code l of i under image j
    joint = log_densities.sum(2).logsumexp(1)
    separate = log_densities.logsumexp(1).sum(1)
    return joint - separate + (codes.shape[1] - 1) * math.log(len(codes))
