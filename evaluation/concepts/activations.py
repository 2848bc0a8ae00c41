"""Activations of hidden layers, and gradients of the pixel loss by them: the inputs of CAVs and scores."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from candlelight.evaluation.concepts.rows import DEFAULT_STORAGE, RowStorage, StoredRows
from candlelight.evaluation.run.hidden_layers import (
    batch_axis,
    layer_outputs,
    record_layers,
    run_recorded,
)
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.errors import InputError

# A residual a p - t below this many machine epsilons of |a p| + |t| counts as rounding error. Each operation
# that computes p rounds by half an epsilon, and the fit of a by a few, which leaves room for about thirty
# operations. The quantisation steps of 8-bit and half-precision images are hundreds of times larger.
_ROUNDING = 8
# Mean squares below this value may have lost digits to the underflow of float32.
_SMALLEST = 1e-25


def pixel_loss(
    prediction: Float[Tensor, "batch channels height width"],
    target: Float[Tensor, "batch channels height width"],
    mask: Bool[Tensor, "batch height width"] | None = None,
    align_scale: bool = False,
) -> Float[Tensor, " batch"]:
    """Compute the mean squared error of each image over the pixels with ground truth.

    This is the loss L of Gupta et al. 2022, sec. 3.1: the mean of ``(a p - t)^2`` over pixels and channels.
    A residual ``a p - t`` within rounding error counts as 0, and its gradient too; otherwise the last digits
    of a prediction that is exact up to scale would decide its sensitivity.

    Blind to: the places of the errors. Without ``align_scale`` the loss includes the scale of the prediction,
    although the decomposition problem does not determine it.

    Args:
        prediction: scene-linear image of one branch.
        target: ground truth of the branch, same range.
        mask: pixels with ground truth; all if None. Other pixels are never read.
        align_scale: True uses the least-squares scale a of each image; False uses 1, as in the paper.

    Returns:
        Loss of each image, lower is better. It is 0 for an empty mask, and nan or inf if prediction or ground
        truth is nan or inf inside the mask.

    Raises:
        InputError: the shapes do not agree, or the mask is not boolean.

    Example:
        >>> one = torch.ones(1, 1, 1, 2)
        >>> pixel_loss(one, 3 * one), pixel_loss(one, 3 * one, align_scale=True)
        (tensor([4.]), tensor([0.]))
    """
    weight, _, residual = _residual(prediction, target, mask, align_scale)
    return (weight * residual**2).flatten(1).sum(1)


def output_gradient(
    prediction: Float[Tensor, "batch channels height width"],
    target: Float[Tensor, "batch channels height width"],
    mask: Bool[Tensor, "batch height width"] | None = None,
    align_scale: bool = False,
) -> Float[Tensor, "batch dim"]:
    """Compute the gradient of `pixel_loss` by the prediction in closed form, also for black-box models.

    The gradient is ``2 a (a p - t) / n``, where n is the number of values inside the mask. The derivative of
    the fitted scale a is 0 because a is optimal. The gradient is exactly 0 if the residual is within rounding
    error.

    Args:
        prediction: as in `pixel_loss`.
        target: as in `pixel_loss`.
        mask: as in `pixel_loss`.
        align_scale: as in `pixel_loss`.

    Returns:
        Gradient of each image, flattened; 0 outside the mask.

    Raises:
        InputError: as `pixel_loss`.

    Example:
        >>> one = torch.ones(1, 1, 1, 2)
        >>> output_gradient(one, 3 * one)
        tensor([[-2., -2.]])
    """
    weight, scale, residual = _residual(prediction, target, mask, align_scale)
    return (2 * scale * weight * residual).flatten(1)


def _residual(
    prediction: Tensor, target: Tensor, mask: Tensor | None, align_scale: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weight of each value, the scale a, and ``a p - t``, which is 0 within rounding error."""
    axes = "batch channels height width"
    shapes: dict[str, tuple[object, str]] = {"prediction": (prediction, axes), "target": (target, axes)}
    check_shapes(**shapes, **({} if mask is None else {"mask": (mask, "batch height width")}))
    weight = _weight(prediction, mask)
    prediction, target = torch.where(weight > 0, prediction, 0.0), torch.where(weight > 0, target, 0.0)
    scale = _scale(prediction, target, weight) if align_scale else prediction.new_ones(1)
    scaled = scale * prediction
    residual = scaled - target
    epsilon = torch.finfo(torch.promote_types(prediction.dtype, torch.float32)).eps
    rounding = _ROUNDING * epsilon * (scaled.detach().abs() + target.abs())
    return weight, scale, residual.masked_fill(residual.detach().abs() < rounding, 0)


def _weight(prediction: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weight of each value in the mean of its image; 0 outside the mask."""
    if mask is None:
        return torch.full_like(prediction, 1 / max(1, prediction.shape[1:].numel()))
    check_bool(mask=mask)
    inside = mask[:, None].to(prediction.dtype).expand_as(prediction)
    return inside / inside.flatten(1).sum(1).clamp(min=1)[:, None, None, None]


def _scale(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the least-squares scale of each image; 0 for a black prediction."""
    scale, square = _quotient(prediction.detach(), target, weight)
    lost = ~(square.isfinite() & (square > _SMALLEST))
    if bool(lost.any()):  # squares beyond the range of float32
        exact, _ = _quotient(*(values[lost].detach().double() for values in (prediction, target, weight)))
        scale[lost] = exact.to(scale.dtype)
    return scale.masked_fill(scale.isinf(), 0)[:, None, None, None]  # numbers below the smallest are black


def _quotient(prediction: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scale of each image, 0 for a black prediction, and the mean square of the prediction."""
    square = (weight * prediction**2).flatten(1).sum(1)
    product = (weight * prediction * target).flatten(1).sum(1)
    return torch.where(square > 0, product / square.clamp(min=torch.finfo(square.dtype).tiny), 0), square


def layer_activations(
    model: nn.Module,
    layers: Sequence[str],
    images: Float[Tensor, "images channels height width"],
    batch_size: int = 16,
    storage: RowStorage = DEFAULT_STORAGE,
) -> dict[str, Float[Tensor, "images _"] | StoredRows]:
    """Compute the outputs of hidden layers for many images, in evaluation mode.

    The first image runs through the whole network alone, to check that each layer runs once and to find the
    axis that counts the images (`batch_axis`). All passes after it stop after the last of the layers. On a
    CPU, batches of a few images are fastest for large activations.

    Args:
        model: the network.
        layers: names as ``model.named_modules()`` gives them, at least one; one forward pass reads them all.
        images: inputs of the network.
        batch_size: images per forward pass.
        storage: limit of the rows of one layer in memory; larger ones are kept in a temporary file.

    Returns:
        For each layer, one flattened row per image; `StoredRows` if the rows are too large for memory. CAVs,
        scores and Gram matrices take both.

    Raises:
        InputError: there is no image; or a layer does not exist, does not run exactly once, or gives no
            tensor with an axis that counts the images; or the temporary file cannot be written.

    Example:
        >>> layer_activations(nn.Sequential(nn.Flatten(), nn.ReLU()), ["1"], -torch.ones(2, 1, 1, 3))
        {'1': tensor([[0., 0., 0.],
                [0., 0., 0.]])}
    """
    _check_batches(images, batch_size)
    alone = layer_outputs(model, set(layers), images[:1])
    rows: dict[str, Tensor | StoredRows] = {}
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size]
        for name, values in record_layers(model, set(layers), batch).items():
            part = flatten_rows(name, values, len(batch), alone[name].alone)
            rows[name] = storage.fill(rows.get(name), part, start, len(images))
    return {name: rows[name] for name in layers}


def flatten_rows(
    layer: str, values: Tensor, images: int, alone: tuple[int, ...]
) -> Float[Tensor, "images _"]:
    """Flatten the output of a layer to one row per image.

    Args:
        layer: name of the layer, for the message.
        values: its output, or the gradient by it.
        images: number of the images.
        alone: shape of its output for one image.

    Raises:
        InputError: no axis counts the images.

    Example:
        >>> tokens_first = torch.ones(3, 2, 4)  # [tokens, batch, channels]
        >>> flatten_rows("attention", tokens_first, images=2, alone=(3, 1, 4)).shape
        torch.Size([2, 12])
    """
    axis = batch_axis(layer, values, images, alone)
    return values.movedim(axis, 0).reshape(images, -1)


def layer_gradients(
    model: nn.Module,
    layer: str,
    images: Float[Tensor, "images channels height width"],
    loss: Callable[[Any, slice], Float[Tensor, " batch"]],
    batch_size: int = 16,
    storage: RowStorage = DEFAULT_STORAGE,
) -> Float[Tensor, "images dim"] | StoredRows:
    """Compute the gradient of a loss by the output of a hidden layer, for many images.

    No ``.grad`` changes, and the parameters may be frozen.

    Args:
        model: the network.
        layer: name as ``model.named_modules()`` gives it.
        images: inputs of the network.
        loss: maps the model's output for a batch, and the slice of the batch in ``images``, to one loss per
            image, which must depend on this image alone.
        batch_size: images per pass.
        storage: as in `layer_activations`.

    Returns:
        One flattened row per image, as `layer_activations` gives them.

    Raises:
        InputError: see `layer_activations`; or the loss does not depend on the layer.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.ReLU())
        >>> layer_gradients(model, "0", torch.tensor([[[[-1.0, 2.0]]]]), lambda y, rows: (y**2).sum(1))
        tensor([[0., 4.]])
    """
    _check_batches(images, batch_size)
    alone = layer_outputs(model, [layer], images[:1])[layer].alone
    gradients: Tensor | StoredRows | None = None
    for start in range(0, len(images), batch_size):
        rows = slice(start, min(start + batch_size, len(images)))
        part = batch_gradients(model, layer, images, loss, rows, alone)
        gradients = storage.fill(gradients, part, start, len(images))
    assert gradients is not None
    return gradients


def batch_gradients(
    model: nn.Module,
    layer: str,
    images: Float[Tensor, "images channels height width"],
    loss: Callable[[Any, slice], Float[Tensor, " batch"]],
    rows: slice,
    alone: tuple[int, ...],
) -> Float[Tensor, "batch _"]:
    """Compute as `layer_gradients`, for the images of one batch, which ``rows`` selects.

    ``alone`` is the shape of the layer's output for one image, from `layer_outputs`.

    Example:
        >>> model, image = nn.Sequential(nn.Flatten(), nn.ReLU()), torch.tensor([[[[-1.0, 2.0]]]])
        >>> batch_gradients(model, "0", image, lambda y, rows: (y**2).sum(1), slice(0, 1), (1, 2))
        tensor([[0., 4.]])
    """
    output, recorded = run_recorded(model, [layer], images[rows], differentiable=True)
    with torch.enable_grad():
        total = loss(output, rows).sum()
    gradient = None
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, [recorded[layer]], allow_unused=True)
    if gradient is None:
        raise InputError(
            f"the loss or target does not depend on layer `{layer}`; choose a layer on its way, and detach "
            "nothing behind it"
        )
    return flatten_rows(layer, gradient, len(images[rows]), alone)


def _check_batches(images: Tensor, batch_size: int) -> None:
    check_shapes(images=(images, "images channels height width"))
    if len(images) == 0:
        raise InputError("`images` needs at least one image, got none")
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")
