"""The penalty of DIP-VAE, which makes codes uncorrelated and of variance 1."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.models.autoencoders.conv_vae import Posterior
from candlelight.loaders.check_choice import check_choice

DIPKind = Literal["i", "ii"]


def dip_penalty(
    posterior: Posterior, kind: DIPKind, *, off_diagonal: float, diagonal: float
) -> Float[Tensor, ""]:
    """Compute the penalty on the covariance C of the codes of a batch.

    ``off_diagonal sum_{k != l} C_kl^2 + diagonal sum_k (C_kk - 1)^2`` (Kumar, Sattigeri and Balakrishnan,
    ICLR 2018, eq. 6 and 7). C is the covariance of the means in DIP-VAE-I; DIP-VAE-II adds the mean variances
    to its diagonal, which makes C the covariance of sampled codes. The loss is ``rec + KL`` plus the penalty.

    Args:
        posterior: means and log-variances of a batch.
        kind: "i" or "ii".
        off_diagonal: weight of the covariances, the paper's lambda_od.
        diagonal: weight of the variances, the paper's lambda_d.

    Returns:
        The penalty, >= 0.

    Raises:
        InputError: ``kind`` is misspelt.

    Example:
        >>> equal = Posterior(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), torch.zeros(2, 2))
        >>> dip_penalty(equal, "i", off_diagonal=10, diagonal=100)
        tensor(20.)
        >>> dip_penalty(equal, "ii", off_diagonal=10, diagonal=100)
        tensor(220.)
    """
    check_choice("kind", kind, DIPKind)
    centred = posterior.means - posterior.means.mean(0)
    covariance = centred.T @ centred / len(centred)
    variances = covariance.diagonal()
    covariances = covariance - torch.diag(variances)
    if kind == "ii":
        variances = variances + posterior.log_variances.exp().mean(0)
    return off_diagonal * covariances.square().sum() + diagonal * (variances - 1).square().sum()
