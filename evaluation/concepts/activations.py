"""What the CAVs are learnt on and scored with: activations, and gradients of the pixel loss there."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from evaluation.hidden import run_recorded
from loaders.errors import InputError


def pixel_loss(
    prediction: Float[Tensor, "batch channels height width"],
    target: Float[Tensor, "batch channels height width"],
    mask: Bool[Tensor, "batch height width"] | None = None,
    align_scale: bool = False,
) -> Float[Tensor, " batch"]:
    """Mean squared error of each image over the pixels that have ground truth.

    The loss L of Gupta et al. 2022, sec. 3.1: the mean of ``(a p - t)^2`` over pixels and channels.

    Blind to: where the error lies, and, unless ``align_scale``, it blames a prediction for its scale,
    which the problem leaves open.

    Args:
        prediction: scene-linear image of one branch.
        target: its ground truth, same range.
        mask: pixels with ground truth; all if None.
        align_scale: a is the least-squares scale of each image; 1, as in the paper, if False.

    Returns:
        Loss of each image, lower is better; 0 where the mask is empty.

    Example:
        >>> one = torch.ones(1, 1, 1, 2)
        >>> pixel_loss(one, 3 * one), pixel_loss(one, 3 * one, align_scale=True)
        (tensor([4.]), tensor([0.]))
    """
    weight = _weight(prediction, mask)
    scale = _scale(prediction, target, weight) if align_scale else 1.0
    return (weight * (scale * prediction - target) ** 2).flatten(1).sum(1)


def output_gradient(
    prediction: Float[Tensor, "batch channels height width"],
    target: Float[Tensor, "batch channels height width"],
    mask: Bool[Tensor, "batch height width"] | None = None,
    align_scale: bool = False,
) -> Float[Tensor, "batch dim"]:
    """Gradient of `pixel_loss` by the prediction, in closed form, so that a black box can be scored.

    ``2 a (a p - t) / n`` with n the number of values under the mask. The derivative of the fitted scale a
    drops out because a is optimal.

    Args:
        prediction: as in `pixel_loss`.
        target: as in `pixel_loss`.
        mask: as in `pixel_loss`.
        align_scale: as in `pixel_loss`.

    Returns:
        Gradient of each image, flattened.

    Example:
        >>> one = torch.ones(1, 1, 1, 2)
        >>> output_gradient(one, 3 * one)
        tensor([[-2., -2.]])
    """
    weight = _weight(prediction, mask)
    scale = _scale(prediction, target, weight) if align_scale else 1.0
    return (2 * scale * weight * (scale * prediction - target)).flatten(1)


def _weight(prediction: Tensor, mask: Tensor | None) -> Tensor:
    """Share of each value in its image's mean: 0 outside the mask."""
    if mask is None:
        return torch.full_like(prediction, 1 / prediction[0].numel())
    inside = mask[:, None].to(prediction.dtype).expand_as(prediction)
    return inside / inside.flatten(1).sum(1).clamp(min=1)[:, None, None, None]


def _scale(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Least-squares scale of each image; 0 for a black prediction."""
    fixed = prediction.detach()
    square = (weight * fixed**2).flatten(1).sum(1)
    product = (weight * fixed * target).flatten(1).sum(1)
    scale = torch.where(square > 0, product / square.clamp(min=torch.finfo(square.dtype).tiny), 0)
    return scale[:, None, None, None]


def layer_activations(
    model: nn.Module,
    layers: Sequence[str],
    images: Float[Tensor, "images channels height width"],
    batch_size: int = 16,
) -> dict[str, Float[Tensor, "images _"]]:
    """Outputs of hidden layers for many images, in evaluation mode.

    Args:
        model: the network.
        layers: names as ``model.named_modules()`` gives them; all are read in one forward pass.
        images: what the network takes.
        batch_size: images per forward pass.

    Returns:
        For each layer one flattened row per image.

    Raises:
        InputError: no such layer, one that does not run exactly once, or whose output is no tensor.

    Example:
        >>> layer_activations(nn.Sequential(nn.Flatten(), nn.ReLU()), ["1"], -torch.ones(2, 1, 1, 3))
        {'1': tensor([[0., 0., 0.],
                [0., 0., 0.]])}
    """
    parts = [run_recorded(model, set(layers), batch)[1] for batch in torch.split(images, batch_size)]
    return {name: torch.cat([part[name].flatten(1) for part in parts]) for name in layers}


def layer_gradients(
    model: nn.Module,
    layer: str,
    images: Float[Tensor, "images channels height width"],
    loss: Callable[[Any, slice], Float[Tensor, " batch"]],
    batch_size: int = 16,
) -> Float[Tensor, "images dim"]:
    """Gradient of a loss by the output of a hidden layer, for many images.

    Nothing accumulates in any ``.grad``; the parameters may be frozen.

    Args:
        model: the network.
        layer: name as ``model.named_modules()`` gives it.
        images: what the network takes.
        loss: from the model's output for a batch, and that batch's place in ``images``, to one loss per
            image that depends on that image alone.
        batch_size: images per pass.

    Returns:
        One flattened row per image.

    Raises:
        InputError: as `layer_activations`, or the loss does not depend on the layer.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.ReLU())
        >>> layer_gradients(model, "0", torch.tensor([[[[-1.0, 2.0]]]]), lambda y, rows: (y**2).sum(1))
        tensor([[0., 4.]])
    """
    parts = []
    for start in range(0, len(images), batch_size):
        rows = slice(start, min(start + batch_size, len(images)))
        output, found = run_recorded(model, [layer], images[rows], differentiable=True)
        with torch.enable_grad():
            total = loss(output, rows).sum()
        gradient = None
        if total.requires_grad:
            (gradient,) = torch.autograd.grad(total, [found[layer]], allow_unused=True)
        if gradient is None:
            raise InputError(f"the loss does not depend on layer `{layer}`; choose a layer of that branch")
        parts.append(gradient.flatten(1))
    return torch.cat(parts)
