"""Network dissection (Bau et al. 2017), and the effect of ablated filters."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import torch
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.filter_methods import (
    check_classes,
    check_logits,
    filter_maps,
    network_device,
)
from candlelight.evaluation.coverage.heatmap_streams import MaskStream, TensorSpool, row_chunks
from candlelight.evaluation.coverage.thresholds import quantiles
from candlelight.evaluation.coverage.waiou import count_pixels
from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.run.hidden_layers import evaluation_mode, run_recorded
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.errors import InputError

TOP_SHARE = 0.005  # share of a concept's responses above its threshold
DETECTOR_IOU = 0.04  # a concept with a larger IoU detects the part


class ConceptStream:
    """Maps of all concepts of one method for all images, appended batch by batch.

    Args:
        name: the method, for messages.

    Attributes:
        images: number of images so far.
        concepts: largest number of a concept so far, plus 1.

    Example:
        >>> stream = ConceptStream("layer4")
        >>> maps = torch.arange(402.0).reshape(1, 2, 1, 201)
        >>> stream.append(Explanation(maps, torch.tensor([[0, 1]]), maps.sum((2, 3)), torch.tensor([-1])))
        >>> stream.thresholds()
        tensor([199., 400.])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.images, self.concepts, self._batch = 0, 0, 0
        self._shape: tuple[int, ...] = ()
        self._maps = TensorSpool()  # the maps of one concept in one batch, [images, height, width], are one
        self._pieces: list[tuple[int, int, Int[Tensor, " images"]]] = []  # batch, concept and images of each

    def append(self, explanation: Explanation) -> None:
        """Append the concepts of the next images; places without a concept are skipped.

        For the units of a layer, the concepts of each image are 0, 1, 2, ...; scores and predictions are not
        read.

        Raises:
            InputError: the maps differ in size from the earlier ones, are not finite, or do not agree with
                ``concepts``.
        """
        maps, concepts = explanation.maps.float(), explanation.concepts
        check_shapes(maps=(maps, "images concepts height width"), concepts=(concepts, "images concepts"))
        shape = tuple(maps.shape[2:])
        self._shape = self._shape or shape
        if shape != self._shape:
            shapes = [list(self._shape), list(shape)]
            raise InputError(f"{self.name}: expected maps of one size, got {shapes}; resize them")
        rows, places = (concepts >= 0).nonzero(as_tuple=True)
        numbers, order = concepts[rows, places].sort(stable=True)
        rows, chosen = rows[order], maps[rows[order], places[order]]
        if not bool(chosen.isfinite().all()):
            raise InputError(f"{self.name}: `maps` must be finite, got nan or inf; check the method")
        owners, counts = torch.unique_consecutive(numbers, return_counts=True)
        sizes = counts.tolist() or [0]
        for owner, piece, images in zip(
            owners.tolist(), torch.split(chosen, sizes), torch.split(rows, sizes), strict=False
        ):
            self._maps.append(piece)
            self._pieces.append((self._batch, owner, images + self.images))
            self.concepts = max(self.concepts, owner + 1)
        self._batch += 1
        self.images += len(maps)

    def thresholds(self) -> Float32[Tensor, " concepts"]:
        """Find the response of each concept that a share `TOP_SHARE` of its responses exceeds.

        Returns:
            Linearly interpolated quantiles; nan for a number without maps.
        """
        of: dict[int, list[int]] = {}
        for number, (_, concept, _) in enumerate(self._pieces):
            of.setdefault(concept, []).append(number)
        thresholds = torch.full((self.concepts,), torch.nan, device=self._maps.device)
        for concept, numbers in of.items():
            points = sum(len(self._pieces[number][2]) for number in numbers) * math.prod(self._shape)
            thresholds[concept] = quantiles(partial(self._read, numbers), points, [1 - TOP_SHARE])[0]
        return thresholds

    def _read(self, numbers: Sequence[int]) -> Iterator[Float32[Tensor, " points"]]:
        return (self._maps[number].reshape(-1) for number in numbers)

    def batches(
        self,
    ) -> Iterator[tuple[Float32[Tensor, "maps height width"], Int[Tensor, " maps"], Int[Tensor, " maps"]]]:
        """Read all maps again, batch by batch, each with its concept and the number of its image."""
        for _, pieces in groupby(enumerate(self._pieces), key=lambda pair: pair[1][0]):
            numbers, found = zip(*pieces, strict=True)
            rows = [images for _, _, images in found]
            owners = [torch.full_like(images, concept) for _, concept, images in found]
            yield torch.cat([self._maps[number] for number in numbers]), torch.cat(owners), torch.cat(rows)


@dataclass(frozen=True)
class NetworkDissection:
    """Parts that concepts detect.

    Attributes:
        score: number of parts that at least one concept detects.
        detectors: number of concepts that detect a part.
        labels: [concepts], part of largest IoU if that is above `DETECTOR_IOU`, otherwise -1.
        iou: [concepts, parts], in [0, 1], higher is better; nan if no image that the concept is scored on
            shows the part.
        images: [concepts], number of images that the concept is scored on.
        thresholds: [concepts], response above which a point is marked; nan for a number without maps.
    """

    score: int
    detectors: int
    labels: Int[Tensor, " concepts"]
    iou: Float64[Tensor, "concepts parts"]
    images: Int[Tensor, " concepts"]
    thresholds: Float32[Tensor, " concepts"]


def network_dissection(concepts: ConceptStream, masks: MaskStream, parts: Sequence[str]) -> NetworkDissection:
    """Compare each concept with each part over all images together.

    ``IoU_cj = sum of |A_c and M_j| / sum of |A_c or M_j|`` over images, where A_c are the points of the map
    of concept c, resized bilinearly, above its threshold: the 0.995 quantile of all its responses at the
    resolution of its maps (Bau et al., "Network Dissection: Quantifying Interpretability of Deep Visual
    Representations", CVPR 2017, sec. 2). A concept detects the part of largest IoU if that is above 0.04.

    As in the paper, the sums are over all images in which any part is annotated, with or without part j;
    other images count for the threshold only. A concept that has maps for some images only, as the prototypes
    of a class, has its threshold and its sums from these images. The authors' program differs slightly: it
    counts the marks of a unit only in images where they touch any part. As there, a point at the threshold
    is not marked, so a constant unit marks nothing.

    Blind to: parts that a concept covers in few images, as it marks 0.5 % of all points; and to the use of
    the concept by the classifier.

    Args:
        concepts: maps of all concepts for the images.
        masks: masks of the same images.
        parts: names of the parts.

    Returns:
        IoUs and labels of all concepts, on the device of the maps.

    Raises:
        InputError: concepts and masks have different numbers of images.

    Example:
        >>> stream, masks = ConceptStream("layer4"), MaskStream()
        >>> maps = torch.zeros(1, 1, 20, 20).index_fill_(3, torch.tensor([4]), 1.0)
        >>> maps[..., 0, 4] = 2
        >>> stream.append(Explanation(maps, torch.tensor([[0]]), maps.sum((2, 3)), torch.tensor([-1])))
        >>> masks.append({"head": maps[0, 0] > 0})
        >>> network_dissection(stream, masks, ["head"]).iou
        tensor([[0.0500]], dtype=torch.float64)
    """
    if concepts.images != len(masks.annotated):
        raise InputError(
            f"{concepts.name}: expected maps of {len(masks.annotated)} images, which have masks, got "
            f"{concepts.images}; append both for the same images"
        )
    thresholds = concepts.thresholds()
    # The last column is the whole image.
    shared = torch.zeros(concepts.concepts, len(parts) + 1, dtype=torch.int64, device=thresholds.device)
    sizes, images = torch.zeros_like(shared), shared.new_zeros(concepts.concepts)
    for maps, owner, rows in concepts.batches():
        # Interpolation of the difference keeps points at the threshold exactly at 0, also next to each other.
        above = maps - thresholds[owner, None, None]
        for row in torch.unique(rows).tolist():
            if not masks.annotated[row] or not bool(masks.read([row], masks.annotated[row]).any()):
                continue
            regions = functional.pad(masks.read([row], parts)[0], (0, 0, 0, 1), value=True)
            (present,) = (rows == row).nonzero(as_tuple=True)
            images[owner[present]] += 1
            sizes[owner[present]] += count_pixels(regions[:, None])
            marking = present[above[present].amax((1, 2)) > 0].tolist()
            for piece in row_chunks(marking, regions.shape[1]):
                shared[owner[piece]] += _overlap(above[piece], regions, masks.shape)
    both, marked, sizes = shared[:, :-1], shared[:, -1:], sizes[:, :-1]
    iou = (both.double() / (marked + sizes - both)).masked_fill(sizes == 0, torch.nan)
    known = functional.pad(iou.nan_to_num(0), (1, 0), value=DETECTOR_IOU)
    labels = known.argmax(1) - 1
    detected = labels[labels >= 0]
    return NetworkDissection(len(torch.unique(detected)), len(detected), labels, iou, images, thresholds)


def _overlap(
    above: Float32[Tensor, "maps h w"], regions: Bool[Tensor, "regions points"], size: tuple[int, int]
) -> Int64[Tensor, "maps regions"]:
    """Count the points of each region that are above 0 in each map, after resizing."""
    # With the maps as the last axis in memory, the interpolation takes a quarter of the time.
    maps = above[None].contiguous(memory_format=torch.channels_last)
    larger = functional.interpolate(maps, size, mode="bilinear", align_corners=False)[0]
    marked = (larger.permute(1, 2, 0) > 0).float().flatten(0, 1)
    # Sums of ones are exact in float32 up to 2^24, more than an image has pixels.
    return (regions.float() @ marked).T.long()


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
    sets = torch.stack([filters.cpu(), *_random_sets(filters.cpu(), draws, seed)])
    right = torch.zeros(len(sets) + 1, dtype=torch.int64, device=device)
    for batch in torch.split(torch.arange(len(images)), batch_size):
        some, classes = images[batch.to(images.device)].to(device), labels[batch.to(labels.device)].to(device)
        output, recorded = run_recorded(network, [layer], some)
        logits, activations = check_logits(output, len(some)), recorded[layer]
        check_classes(classes, logits.shape[1])
        if (found := filter_maps(activations, layer).shape[1]) != filters.shape[1]:
            raise InputError(
                f"`filters` has {filters.shape[1]} columns, but layer `{layer}` has {found} filters"
            )
        right[0] += _count_right(logits, classes)
        for number, off in enumerate(sets[:, batch].to(device), start=1):
            right[number] += _count_right(_ablated(network, layer, off, some, activations), classes)
    intact, ablated, *random = (right.cpu().double() / len(images)).tolist()
    drawn = torch.tensor(random, dtype=torch.float64)
    return FilterAblation(intact, ablated, drawn, (1 + int((drawn <= ablated).sum())) / (draws + 1))


def _random_sets(
    filters: Bool[Tensor, "images filters"], draws: int, seed: int
) -> Iterator[Bool[Tensor, "images filters"]]:
    """Draw random sets of as many filters as each image has, on the CPU so that devices agree."""
    stream = torch.Generator().manual_seed(seed)
    rows, members = torch.unique(filters, dim=0, return_inverse=True)
    for _ in range(draws):
        # The rank of random numbers is a random permutation; the filters of the lowest ranks are drawn.
        ranks = torch.rand(rows.shape, generator=stream).argsort(1).argsort(1)
        yield (ranks < rows.sum(1, keepdim=True))[members]


@torch.no_grad()
def _ablated(network: nn.Module, layer: str, off: Tensor, images: Tensor, activations: Tensor) -> Tensor:
    """Compute the logits without the filters that are off; the filters of tokens are in the last axis."""

    def silence(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return output.masked_fill(off[:, None] if output.ndim == 3 else off[:, :, None, None], 0)

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
