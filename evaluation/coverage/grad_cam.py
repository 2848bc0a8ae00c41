"""Grad-CAM: maps of the places whose activations support the predicted class."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.models.vision import token_maps
from candlelight.evaluation.run.hidden_layers import check_images_first, run_recorded
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.errors import InputError


class WeightedFilters(NamedTuple):
    """Filters of a layer, and their weights for the predicted classes.

    Attributes:
        activations: output A of the layer.
        weights: mean gradient alpha of the predicted class's logit over the places of each filter.
        logits: output of the network.
        predicted: predicted class; -1 if logits, activations or gradients of the image are not finite, whose
            activations and weights are then 0.
    """

    activations: Float[Tensor, "images filters height width"]
    weights: Float[Tensor, "images filters"]
    logits: Float[Tensor, "images classes"]
    predicted: Int[Tensor, " images"]


def weigh_filters(
    network: nn.Module, layer: str, images: Float[Tensor, "images 3 height width"]
) -> WeightedFilters:
    """Weigh the filters of a layer by the gradient of the predicted class's logit.

    ``alpha_t = mean_uv d y_c / d A_t(u, v)`` (Selvaraju et al. 2017, eq. 1), for all images in one pass.

    Args:
        network: a classifier that gives logits [images, classes]; it runs in evaluation mode, and nothing in
            it changes.
        layer: name as ``network.named_modules()`` gives it; its output must be [images, filters, h, w], or
            [images, tokens, filters] of a transformer with square input. The logits must depend on these
            places: behind the last attention only the class token counts, and all weights are 0.
        images: input of the network, for classifiers of the commands sRGB-encoded in [0, 1]; they are moved
            to its device.

    Returns:
        Activations, weights and predictions, on the device of the network.

    Raises:
        InputError: the layer does not exist, does not run exactly once, gives no maps or does not lead to the
            logits, or the output is not [images, classes].

    Example:
        >>> network = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> found = weigh_filters(network, "0", torch.eye(3)[:1, :, None, None].expand(-1, -1, 1, 2))
        >>> found.predicted, found.weights
        (tensor([0]), tensor([[0.5000, 0.0000, 0.0000]]))
    """
    images = images.to(network_device(network, images))
    with torch.enable_grad():  # a caller may have switched gradients off
        output, recorded = run_recorded(network, [layer], images, differentiable=True)
        check_images_first(network, layer, recorded[layer], images)
        logits = check_logits(output, len(images))
        chosen = logits.argmax(1, keepdim=True)
        gradient = _gradient(logits.gather(1, chosen).sum(), recorded[layer], layer)
    activations, gradient = (filter_maps(some, layer) for some in (recorded[layer].detach(), gradient))
    weights, logits = gradient.mean((2, 3)), logits.detach()
    finite = torch.stack([some.flatten(1).isfinite().all(1) for some in (activations, weights, logits)])
    failed = ~finite.all(0)
    return WeightedFilters(
        activations.masked_fill(failed[:, None, None, None], 0),
        weights.masked_fill(failed[:, None], 0),
        logits,
        chosen[:, 0].masked_fill(failed, -1),
    )


def grad_cam(
    found: WeightedFilters, chosen: Bool[Tensor, "images filters"] | None = None
) -> Float[Tensor, "images height width"]:
    """Compute Grad-CAM, the weighted sum of the filters of each image.

    ``ReLU(sum_t alpha_t A_t)`` (Selvaraju et al. 2017, eq. 2), over all filters or the chosen ones.

    Blind to: where in a filter the gradient is large, because of its mean; and to evidence against the class.

    Args:
        found: filters and weights, from `weigh_filters`.
        chosen: filters of each image that take part; None for all.

    Returns:
        Maps of at least 0 at the resolution of the layer; larger values support the predicted class more.

    Raises:
        InputError: ``chosen`` is not boolean, or does not have one entry for each image and filter.

    Example:
        >>> activations = torch.tensor([[[[1.0, 2.0]], [[3.0, 0.0]]]])
        >>> found = WeightedFilters(
        ...     activations, torch.tensor([[1.0, -1.0]]), torch.ones(1, 1), torch.tensor([0])
        ... )
        >>> grad_cam(found), grad_cam(found, torch.tensor([[True, False]]))
        (tensor([[[0., 2.]]]), tensor([[[1., 2.]]]))
    """
    weights = found.weights
    if chosen is not None:
        check_shapes(weights=(weights, "images filters"), chosen=(chosen, "images filters"))
        check_bool(chosen=chosen)
        weights = weights.masked_fill(~chosen, 0)
    return torch.einsum("if,ifhw->ihw", weights, found.activations).relu()


def grad_cam_by_filter(
    found: WeightedFilters, numbers: Int[Tensor, "images places"]
) -> Float[Tensor, "images places height width"]:
    """Compute Grad-CAM of single filters, ``ReLU(alpha_t A_t)``.

    Args:
        found: filters and weights, from `weigh_filters`.
        numbers: numbers of the filters of each image; -1 marks a place without a filter.

    Returns:
        Maps of at least 0; 0 at places without a filter, and where a filter's activations and weight have
        opposite signs.

    Example:
        >>> activations = torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]])
        >>> found = WeightedFilters(
        ...     activations, torch.tensor([[2.0, -1.0]]), torch.ones(1, 1), torch.tensor([0])
        ... )
        >>> grad_cam_by_filter(found, torch.tensor([[-1, 0, 1]]))[0, :, 0]
        tensor([[0., 0.],
                [2., 4.],
                [0., 0.]])
    """
    index = numbers.clamp(min=0)
    weights = found.weights.gather(1, index).masked_fill(numbers < 0, 0)
    picked = found.activations.gather(1, index[:, :, None, None].expand(-1, -1, *found.activations.shape[2:]))
    return (weights[:, :, None, None] * picked).relu()


@dataclass(frozen=True)
class GradCAM:
    """Grad-CAM of all filters as an explanation method with one concept; there is nothing to learn.

    Attributes:
        network: see `weigh_filters`.
        layer: see `weigh_filters`.
        name: name of the method.

    Example:
        >>> network = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> GradCAM(network, "0").explain(torch.ones(1, 3, 1, 1))
        Explanation(maps=tensor([[[[1.]]]]), concepts=tensor([[0]]), scores=tensor([[1.]]), \
predicted=tensor([0]))
    """

    network: nn.Module
    layer: str
    name: str = "grad-cam"

    def fit(self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]) -> "GradCAM":
        """Return the method itself."""
        del images, labels
        return self

    def state(self) -> dict[str, Tensor]:
        """Collect nothing: Grad-CAM learns nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> "GradCAM":
        """Return the method itself."""
        del state
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images; the score is the sum of the map.

        Raises:
            InputError: as `weigh_filters`.
        """
        found = weigh_filters(self.network, self.layer, images)
        maps = grad_cam(found)[:, None]
        return Explanation(maps, found.predicted[:, None].clamp(max=0), maps.sum((2, 3)), found.predicted)


def filter_maps(output: Tensor, layer: str) -> Float[Tensor, "images filters height width"]:
    """Return the output of a layer as maps; the tokens of a transformer become square maps.

    Raises:
        InputError: the output has no maps.

    Example:
        >>> filter_maps(torch.zeros(1, 5, 7), "blocks.3").shape
        torch.Size([1, 7, 2, 2])
    """
    maps = token_maps(output) if output.ndim == 3 else output
    if maps.ndim != 4:
        raise InputError(
            f"layer `{layer}` gives no maps: expected [images, filters, h, w], got {list(output.shape)}"
        )
    return maps


def check_logits(output: object, images: int) -> Float[Tensor, "images classes"]:
    """Refuse an output of a classifier that is not one logit for each image and class.

    Raises:
        InputError: as described.
    """
    if isinstance(output, Tensor) and output.ndim == 2 and len(output) == images and output.shape[1]:
        return output
    found = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
    raise InputError(f"expected logits [{images}, classes] of the network, got {found}")


def network_device(network: nn.Module, images: Tensor) -> torch.device:
    """Return the device of a network's parameters; the device of the images if it has no parameters."""
    return next(network.parameters(), images).device


def _gradient(total: Tensor, recorded: Tensor, layer: str) -> Tensor:
    gradient = None
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, recorded, allow_unused=True)
    if gradient is None:
        raise InputError(f"layer `{layer}` has no gradient: the logits do not depend on it; choose another")
    return gradient
