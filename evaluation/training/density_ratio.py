"""Total correlation of codes by a discriminator, which FactorVAE minimises."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def density_ratio(logits: Float[Tensor, "batch 2"]) -> Float[Tensor, " batch"]:
    """Compute the discriminator's ``log D(z) - log(1 - D(z))``, whose mean estimates the total correlation.

    For the best discriminator it is ``log q(z) - sum_l log q(z_l)`` (Kim and Mnih, ICML 2018, eq. 3).
    FactorVAE minimises ``rec + KL + gamma TC``.

    Args:
        logits: output of the discriminator for codes of images: first that they are of one image, second that
            they are permuted.

    Returns:
        One value per image, in nats.

    Example:
        >>> density_ratio(torch.tensor([[2.0, -1.0]]))
        tensor([3.])
    """
    return logits[:, 0] - logits[:, 1]


def permute_codes(
    codes: Float[Tensor, "batch codes"], draws: torch.Generator
) -> Float[Tensor, "batch codes"]:
    """Permute each code among the images, independently of the other codes (Kim and Mnih, algorithm 1).

    Gradients do not flow through the result. The paper permutes the codes of a second batch;
    disentanglement_lib and this training permute those of the same batch.

    Args:
        codes: sampled codes.
        draws: stream of random numbers, on the CPU.

    Example:
        >>> permute_codes(torch.tensor([[1.0, 4.0], [2.0, 5.0]]), torch.Generator().manual_seed(1))
        tensor([[2., 4.],
                [1., 5.]])
    """
    order = torch.rand(codes.shape, generator=draws).argsort(0)
    return codes.detach().gather(0, order.to(codes.device))


def discriminator_loss(
    own: Float[Tensor, "batch 2"], permuted: Float[Tensor, "batch 2"]
) -> Float[Tensor, " batch"]:
    """Compute the cross-entropy of the discriminator, half for codes of one image, half for permuted ones.

    Args:
        own: logits of sampled codes; compute them from detached codes, because this loss must not move the
            encoder.
        permuted: logits of permuted codes.

    Returns:
        One loss per pair, >= 0; log 2 for a discriminator that tells nothing.

    Example:
        >>> discriminator_loss(torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([0.6931])
    """
    first, second = (torch.full((len(own),), number, device=own.device) for number in (0, 1))
    errors = [
        functional.cross_entropy(logits, label, reduction="none")
        for logits, label in ((own, first), (permuted, second))
    ]
    return (errors[0] + errors[1]) / 2
