"""The loss of full supervision: log errors and gradient errors of one output against its ground truth."""

from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.training.log_images import log_image, masked_means, mean_difference


def intrinsic_loss(
    prediction: Float[Tensor, "batch 3 height width"],
    target: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the training loss of one output: a half scale-invariant log error and a gradient error.

    ``mean(d^2) - mean(d)^2 / 2 + mean(|d_x|) + mean(|d_y|)`` with ``d = log(p + 0.01) - log(t + 0.01)`` and
    its differences d_x, d_y between neighbours. The first two terms are the scale-invariant loss of Eigen et
    al. 2014, eq. 4; the absolute gradient term keeps edges sharp.

    Args:
        prediction: predicted reflectance or shading, scene-linear, >= 0.
        target: ground truth, scene-linear, >= 0.
        mask: pixels that are scored.

    Returns:
        One loss per sample, >= 0, lower is better, differentiable; 0 for an empty mask.

    Example:
        >>> import torch
        >>> image = torch.rand(1, 3, 4, 4)
        >>> intrinsic_loss(image, image, torch.ones(1, 4, 4, dtype=torch.bool))
        tensor([0.])
    """
    error = log_image(prediction) - log_image(target)
    square, mean = masked_means(error.square(), mask), masked_means(error, mask)
    return square - mean.square() / 2 + mean_difference(error, mask)
