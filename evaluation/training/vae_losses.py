"""The evidence lower bound of a variational autoencoder: reconstruction and divergence from the prior."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.models.autoencoders.conv_vae import Posterior


def bernoulli_error(
    logits: Float[Tensor, "batch channels height width"],
    images: Float[Tensor, "batch channels height width"],
    weights: Float[Tensor, "batch 1 height width"] | None = None,
) -> Float[Tensor, " batch"]:
    """Compute the reconstruction loss: the sum over pixels and channels of the binary cross-entropy.

    ``sum w (-x log s - (1 - x) log(1 - s))`` with ``s = sigmoid(logits)``, in nats. For values x between 0
    and 1 its least value, at s = x, is their entropy, not 0.

    With ``w = 1 + a m`` for a mask m of the foreground it is the bounding-box loss of CANDLE's authors,
    ``rec(x, s) + a rec(m x, m s)``. Their loss counts a constant log 2 for each value outside m, ours 0.

    Args:
        logits: decoded images before the sigmoid.
        images: the images, in [0, 1].
        weights: weight of each pixel; None for 1.

    Returns:
        One loss per image, >= 0, lower is better.

    Example:
        >>> import torch
        >>> bernoulli_error(torch.zeros(1, 1, 1, 2), torch.tensor([[[[0.0, 1.0]]]]))
        tensor([1.3863])
    """
    error = functional.binary_cross_entropy_with_logits(logits, images, reduction="none")
    return (error if weights is None else error * weights).flatten(1).sum(1)


def gaussian_kl(posterior: Posterior) -> Float[Tensor, " batch"]:
    """Compute the divergence of the codes of each image from the standard normal prior.

    ``KL = 1/2 sum_l (mu_l^2 + sigma_l^2 - log sigma_l^2 - 1)`` (Kingma and Welling 2014, appendix B), in
    nats. The beta-VAE (Higgins et al., ICLR 2017, eq. 4) minimises ``rec + beta KL``.

    Args:
        posterior: means and log-variances.

    Returns:
        One divergence per image, >= 0.

    Example:
        >>> import torch
        >>> gaussian_kl(Posterior(torch.tensor([[0.0, 2.0]]), torch.zeros(1, 2)))
        tensor([2.])
    """
    means, log_variances = posterior
    return (means.square() + log_variances.exp() - log_variances - 1).sum(1) / 2
