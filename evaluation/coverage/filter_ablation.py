"""Ablation of filters: does a classifier need them more than random filters?"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from candlelight.evaluation.coverage.grad_cam import check_logits, filter_maps, network_device
from candlelight.evaluation.coverage.vebi import check_classes
from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.running.hidden_layers import evaluation_mode, run_recorded
from candlelight.loaders.errors import InputError


@dataclass(frozen=True)
class FilterAblation:
    """Accuracies of a classifier without some of its filters.

    Attributes:
        intact: accuracy with all filters.
        ablated: accuracy without the given filters; lower means that the network needs them more.
        random: accuracy without as many random filters, for each draw.
        p_value: share of all draws, the given filters included, with an accuracy of at most ``ablated``.
    """

    intact: float
    ablated: float
    random: Float[Tensor, " draws"]
    p_value: float


def ablate_filters(
    network: nn.Module,
    layer: str,
    filters: Bool[Tensor, "images filters"],
    images: Float[Tensor, "images 3 height width"],
    labels: Int[Tensor, " images"],
    *,
    seed: int,
    draws: int = 199,
    batch_size: int = 32,
) -> FilterAblation:
    """Set filters to 0 and compare the accuracy with that without as many random filters.

    Null hypothesis: the filters are a random set of their number. Images with the same filters share a random
    set in each draw. The p-value is ``(1 + count) / (draws + 1)`` with the draws that lower the accuracy at
    least as much (Phipson and Smyth 2010).

    Blind to: the reason for a loss of accuracy. Random sets contain dead and weak filters, so a low p-value
    says that the filters matter more than average ones, not that they matter for their class. An activation
    of 0 may also be unusual for the following layers.

    Args:
        network: a classifier that gives logits [images, classes]; it runs in evaluation mode.
        layer: see `weigh_filters`.
        filters: filters to set to 0 for each image, such as ``method.chosen[labels]`` of `VEBI`.
        images: test images, on any device; batches are moved to the device of the network.
        labels: true class of each image.
        seed: seed of the random sets.
        draws: number of random sets, at least 1; each needs a pass over all images.
        batch_size: images per pass.

    Returns:
        Accuracies in [0, 1], and the p-value.

    Raises:
        InputError: there are no images or draws, a label is no class of the network, shapes do not agree,
            ``filters`` is not boolean, or as `weigh_filters`.

    Example:
        >>> network = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> images, labels = torch.eye(3)[1:, :, None, None], torch.tensor([1, 2])
        >>> filters = torch.tensor([[False, True, True]]).expand(2, -1)
        >>> found = ablate_filters(network, "0", filters, images, labels, seed=0, draws=9)
        >>> found.intact, found.ablated, found.random.unique()
        (1.0, 0.0, tensor([0.0000, 0.5000], dtype=torch.float64))
    """
    check_shapes(
        filters=(filters, "images filters"),
        images=(images, "images 3 height width"),
        labels=(labels, "images"),
    )
    check_bool(filters=filters)
    if not len(images) or draws < 1:
        raise InputError(f"expected images and draws, got {len(images)} images and {draws} draws")
    device = network_device(network, images)
    rows, members = torch.unique(filters.cpu(), dim=0, return_inverse=True)
    sets = [filters.cpu(), *(some[members] for some in _random_sets(rows, draws, seed))]
    right = torch.zeros(len(sets) + 1, dtype=torch.int64, device=device)
    for batch in torch.split(torch.arange(len(images)), batch_size):
        some, classes = images[batch.to(images.device)].to(device), labels[batch.to(labels.device)].to(device)
        logits, activations = _intact(network, layer, some, classes, filters.shape[1])
        right[0] += _count_right(logits, classes)
        for number, off in enumerate(sets):
            logits = _ablated(network, layer, off[batch].to(device), some, activations)
            right[number + 1] += _count_right(logits, classes)
    counts = right.cpu()
    count = int((counts[2:] <= counts[1]).sum())
    intact, ablated, *random = (counts.double() / len(images)).tolist()
    return FilterAblation(
        intact, ablated, torch.tensor(random, dtype=torch.float64), (1 + count) / (draws + 1)
    )


def _random_sets(
    rows: Bool[Tensor, "rows filters"], draws: int, seed: int
) -> list[Bool[Tensor, "rows filters"]]:
    """Draw random sets of as many filters as each row has, on the CPU so that devices agree."""
    stream = torch.Generator().manual_seed(seed)
    sizes = rows.sum(1, keepdim=True)
    # The rank of random numbers is a random permutation; the filters of the lowest ranks are drawn.
    ranks = (torch.rand(rows.shape, generator=stream).argsort(1).argsort(1) for _ in range(draws))
    return [rank < sizes for rank in ranks]


def _intact(
    network: nn.Module, layer: str, images: Tensor, labels: Tensor, filters: int
) -> tuple[Tensor, Tensor]:
    """Compute the logits with all filters and the output of the layer, and check the layer and the labels."""
    output, recorded = run_recorded(network, [layer], images)
    logits = check_logits(output, len(images))
    check_classes(labels, logits.shape[1])
    found = filter_maps(recorded[layer], layer).shape[1]
    if found != filters:
        raise InputError(f"`filters` has {filters} columns, but layer `{layer}` has {found} filters")
    return logits, recorded[layer]


@torch.no_grad()
def _ablated(network: nn.Module, layer: str, off: Tensor, images: Tensor, activations: Tensor) -> Tensor:
    """Compute the logits without the filters that are off."""
    silence = _silencer(off)
    with evaluation_mode(network):
        if isinstance(network, Backbone) and layer == network.explained_layer:
            # The layers before are not run again for each set, which saves nearly all of the time.
            return network.logits(silence(network, images, activations))
        handle = network.get_submodule(layer).register_forward_hook(silence)
        try:
            return network(images)
        finally:
            handle.remove()


def _count_right(logits: Tensor, labels: Tensor) -> Tensor:
    """Count right predictions; logits that are not finite predict nothing."""
    return ((logits.argmax(1) == labels) & logits.isfinite().all(1)).sum()


def _silencer(off: Bool[Tensor, "images filters"]) -> Callable[[nn.Module, object, Tensor], Tensor]:
    """Make a forward hook that sets filters to 0; the filters of tokens are in the last axis."""

    def silence(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return output.masked_fill(off[:, None] if output.ndim == 3 else off[:, :, None, None], 0)

    return silence
