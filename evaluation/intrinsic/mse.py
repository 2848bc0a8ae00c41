"""Mean squared error over the pixels of a mask."""

from jaxtyping import Float
from torch import Tensor

from evaluation.intrinsic.masked import Mask, as_scores, check_masked, masked_double, result_dtype


def mse(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: Mask,
) -> Float[Tensor, " batch"]:
    """Compute the mean squared error of each sample.

    ``sum(m (t - p)^2) / sum(m)``, both sums over pixels and channels.

    Args:
        prediction: predicted values, scene-linear.
        target: ground truth in the same unit.
        mask: weight of each pixel, in [0, 1]. What lies where it is 0 is never read.

    Returns:
        One error per sample, >= 0, lower is better; nan where the prediction is not finite inside the mask
        (a failure: `is_failed` tells), the target is not finite there, or the mask is empty. Blind to where
        in the image the errors are; not blind to the scale of the prediction (`si_mse` is).

    Raises:
        InputError: shapes that do not agree, or a mask that is neither boolean nor weights in [0, 1].

    Example:
        >>> import torch
        >>> mse(torch.full((1, 2, 2), 0.5), torch.zeros(1, 2, 2), torch.ones(1, 2, 2))
        tensor([0.2500])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    predicted, weight = masked_double(prediction, mask)
    true, _ = masked_double(target, mask)
    squares = (weight * (true - predicted).square()).flatten(1).sum(1)
    return as_scores(squares / weight.flatten(1).sum(1), predicted, true, result_dtype(prediction))
