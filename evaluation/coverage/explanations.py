"""Explanations of images by concepts: of fitted methods, callables, files or masks; and their merging."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import Rank
from candlelight.evaluation.coverage.thresholds import Explanations
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.model_outputs import checked_heatmaps, describe_output
from candlelight.evaluation.run.named_models import run_model
from candlelight.evaluation.run.predictions import Heatmaps
from candlelight.evaluation.views import BACKGROUND_REGION
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

PartMasks = Mapping[str, Bool[Tensor, "height width"]]


class Explanation(NamedTuple):
    """Concepts by which a method explains the predictions for some images.

    Attributes:
        maps: one map for each image and concept, at the resolution of the explained layer; larger values
            mean more of the concept.
        concepts: number of each map's concept, among all concepts of the method: prototype 3 of two classes
            is two concepts. -1 marks a place without a concept, because methods may use fewer concepts for
            one class than for another; its map is 0.
        scores: response of each concept, the strength of its map for ``rank`` "score" of `merge_explanation`.
        predicted: class that the classifier predicts for each image; -1 if its logits or activations are not
            finite, and then the image has no concepts.
    """

    maps: Float[Tensor, "images concepts height width"]
    concepts: Int[Tensor, "images concepts"]
    scores: Float[Tensor, "images concepts"]
    predicted: Int[Tensor, " images"]


@runtime_checkable
class ExplanationMethod(Protocol):
    """A method that learns concepts of a trained classifier, and explains its predictions by them."""

    @property
    def name(self) -> str:
        """Name of the method in tables."""
        ...

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "ExplanationMethod":
        """Learn the concepts from training images, sRGB-encoded in [0, 1], and return the method itself."""
        ...

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images, sRGB-encoded in [0, 1]."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Collect the tensors that `fit` has learned."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> "ExplanationMethod":
        """Take the tensors of an earlier `fit`, and return the method itself."""
        ...


def merge_explanation(explanation: Explanation, k: int, rank: Rank = "sum") -> Explanations:
    """Merge the maps of the k strongest concepts of each image into its explanation heatmap.

    The maximum at each point over the k maps of largest strength (eq. 1 and 2 of "A Protocol for Evaluating
    Model Interpretation Methods from Visual Explanations"), as `explanation_heatmap`, for methods whose
    concepts have numbers and may be fewer for one image than for another.

    Args:
        explanation: maps and concepts of a batch of images.
        k: number of merged maps, at least 1; all maps of an image that has fewer.
        rank: strength of a map: its "sum" (eq. 1), or the method's own "score".

    Returns:
        Heatmaps, 0 for an image without concepts; and the numbers of the merged concepts, ascending, after a
        -1 for each map that lacks.

    Raises:
        InputError: the shapes do not agree, ``k`` is below 1, or ``rank`` is misspelt.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0]], [[0.0, 2.0]], [[0.0, 9.0]]]])
        >>> concepts = torch.tensor([[30, 7, -1]])
        >>> merge_explanation(Explanation(maps, concepts, torch.zeros(1, 3), torch.tensor([4])), 2)
        Explanations(heatmap=tensor([[[1., 2.]]]), members=tensor([[ 7, 30]]))
    """
    check_choice("rank", rank, Rank)
    check_shapes(
        maps=(explanation.maps, "images concepts height width"),
        concepts=(explanation.concepts, "images concepts"),
        scores=(explanation.scores, "images concepts"),
    )
    if k < 1:
        raise InputError(f"`k` must be at least 1, got {k}")
    maps, concepts = explanation.maps, explanation.concepts
    strength = maps.sum((2, 3), dtype=torch.float64) if rank == "sum" else explanation.scores.double()
    strength = strength.masked_fill(concepts < 0, -torch.inf)
    places = strength.argsort(dim=1, descending=True, stable=True)[:, :k]
    members = concepts.gather(1, places)
    merged = maps.gather(1, places[:, :, None, None].expand(-1, -1, *maps.shape[2:]))
    merged = merged.masked_fill((members < 0)[:, :, None, None], -torch.inf).amax(1)
    lacking = members.new_full((len(members), k - members.shape[1]), -1)
    heatmap = merged.masked_fill((members < 0).all(1)[:, None, None], 0)
    return Explanations(heatmap, torch.cat([lacking, members], 1).sort(1).values)


def explanation_heatmap(heatmaps: Real[Tensor, "images maps height width"], k: int) -> Explanations:
    """Merge the k strongest interpretation heatmaps of each image.

    The strength of a map is ``S_t = sum_uv r_t(u, v)``; the explanation heatmap is the maximum at each point
    over the k maps of largest strength (eq. 1 and 2 of "A Protocol for Evaluating Model Interpretation
    Methods from Visual Explanations").

    Blind to: the extent of a map. A weak response everywhere outranks a strong response in one spot, and maps
    of different scale are compared without normalisation.

    Args:
        heatmaps: interpretation heatmaps r_t, larger is more relevant; integers are converted to float32.
        k: number of merged maps, 1 to the number of maps; the paper does not give its value.

    Returns:
        Heatmaps, and the numbers of the merged maps; of equal maps the first is preferred.

    Raises:
        InputError: a dimension is missing, ``k`` is out of range, or heatmaps are not finite.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0]], [[0.0, 2.0]], [[0.0, 0.5]]]])
        >>> explanation_heatmap(maps, 2)
        Explanations(heatmap=tensor([[[1., 2.]]]), members=tensor([[0, 1]]))
    """
    check_shapes(heatmaps=(heatmaps, "images maps height width"))
    heatmaps = heatmaps if heatmaps.is_floating_point() else heatmaps.float()
    if not 1 <= k <= heatmaps.shape[1]:
        raise InputError(f"{argument('k')} must be 1 to {heatmaps.shape[1]}, the number of heatmaps, got {k}")
    total = heatmaps.sum((2, 3), dtype=torch.float64)
    if not bool(total.isfinite().all()):
        raise InputError("`heatmaps` must be finite, got nan or inf; check the method")
    return merge_explanation(explanation_of_maps(heatmaps, total.isnan()), k)


def explanation_of_maps(
    maps: Float[Tensor, "images maps height width"], lacking: Bool[Tensor, "images _"]
) -> Explanation:
    """Make an explanation of an unknown class by maps in their order, some or all of which an image lacks."""
    numbers = torch.arange(maps.shape[1], device=maps.device).expand(len(maps), -1).masked_fill(lacking, -1)
    return Explanation(maps, numbers, maps.sum((2, 3)), numbers.new_full((len(maps),), -1))


@dataclass(frozen=True)
class MaskControl:
    """An explanation that is made of the masks of an image.

    Attributes:
        draw: makes maps of the masks of the parts, of which there is at least one.
    """

    draw: Callable[[PartMasks], Float[Tensor, "maps height width"]]

    def __call__(self, masks: Sequence[PartMasks], size: tuple[int, int]) -> Explanation:
        """Explain images by their masks.

        Args:
            masks: masks of each image; the mask of the background is left out.
            size: height and width of the images.

        Returns:
            The maps, whose class is not known; an image without parts has no concepts.

        Example:
            >>> masks = {"head": torch.tensor([[True, False]]), "background": torch.tensor([[False, True]])}
            >>> whole = MaskControl(lambda parts: torch.stack([*parts.values()]).amax(0, True).float())
            >>> whole([masks], (1, 2)).maps
            tensor([[[[1., 0.]]]])
        """
        parts = [{name: mask for name, mask in one.items() if name != BACKGROUND_REGION} for one in masks]
        device = next((mask.device for one in masks for mask in one.values()), torch.device("cpu"))
        drawn = [self.draw(some) if some else torch.zeros(0, *size, device=device) for some in parts]
        count = max(1, *(len(maps) for maps in drawn))
        maps = torch.stack([torch.cat([some, some.new_zeros(count - len(some), *size)]) for some in drawn])
        shown = torch.tensor([len(some) for some in drawn], device=device)
        return explanation_of_maps(maps, torch.arange(count, device=device) >= shown[:, None])


def explain_images(
    named: NamedModel,
    ids: Sequence[str],
    linear: Tensor,
    masks: Sequence[PartMasks] = (),
) -> Explanation:
    """Explain scene-linear images by a method, on their device.

    Args:
        named: an `ExplanationMethod`, a callable from images to heatmaps, `Heatmaps` of another program, or a
            `MaskControl`; heatmaps are concepts in their order, of an unknown class.
        ids: names of the images.
        linear: the images, on the device of the method.
        masks: masks of each image at its size, for a `MaskControl` alone.

    Returns:
        The explanation; an image whose maps or scores are not finite has no concepts.

    Raises:
        InputError: the method raised an exception, or its output has another form.
    """
    name, size = named.identity.name, (linear.shape[2], linear.shape[3])
    if isinstance(named.model, MaskControl):
        return named.model(masks, size)
    if hasattr(named.model, "explain"):
        method = replace(named, model=named.model.explain)
        explained = Explanation(*run_model(method, linear, checked_explanation))
        check_axes(name, explained.maps, size)
        return explained
    if isinstance(named.model, Heatmaps):
        maps, failed = (part.to(linear.device) for part in named.model.read_batch(ids))
    else:
        maps, failed = run_model(named, linear, checked_heatmaps)
    check_axes(name, maps, size)
    if maps.shape[1:] == (3, *size) and not hasattr(named.model, "hidden_layer"):
        raise InputError(
            f"{name}: expected heatmaps of concepts, got {list(maps.shape[1:])} for images of {size[0]} x "
            f"{size[1]}, which looks like an attribution of each colour channel; merge the channels, as by "
            "maps.abs().sum(1), or change the resolution of three concepts"
        )
    return explanation_of_maps(maps, failed[:, None])


def check_axes(name: str, maps: Float[Tensor, "images maps rows columns"], size: tuple[int, int]) -> None:
    """Refuse heatmaps whose axes are in another order, which would give wrong scores without an error.

    Channels come last if the aspect ratio of the last two axes differs from the aspect ratio of the image by
    more than a factor of 2, but the first two axes have the aspect ratio of the image. Rows and columns are
    exchanged if a map is upright and the image is not, or the other way round, and the exchanged axes have
    the aspect ratio of the image.

    Args:
        name: name of the method for messages.
        maps: heatmaps of the method.
        size: height and width of the images.

    Raises:
        InputError: the channels seem to come last, or the columns first.

    Example:
        >>> check_axes("mine", torch.zeros(1, 60, 80, 4), (60, 80))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: mine: expected heatmaps [maps, rows, columns], got [60, 80, \
4] for images of 60 x 80, which looks like channels last; move them to the front
        >>> check_axes("mine", torch.zeros(1, 1, 80, 60), (60, 80))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: mine: expected heatmaps [maps, rows, columns], got [1, 80, \
60] for images of 60 x 80, which looks like columns first; exchange the last two axes
    """
    count, rows, columns = maps.shape[1:]
    if _stretch(rows, columns, size) > 2 and _stretch(count, rows, size) < 1.1:
        looks = "channels last; move them to the front"
    elif (rows - columns) * (size[0] - size[1]) < 0 and _stretch(columns, rows, size) < 1.1:
        looks = "columns first; exchange the last two axes"
    else:
        return
    raise InputError(
        f"{name}: expected heatmaps [maps, rows, columns], got {list(maps.shape[1:])} for images of "
        f"{size[0]} x {size[1]}, which looks like {looks}"
    )


def _stretch(rows: int, columns: int, size: tuple[int, int]) -> float:
    """Compute the factor, at least 1, between the aspect ratios of a map and an image."""
    ratio = rows * size[1] / (columns * size[0])
    return max(ratio, 1 / ratio)


def checked_explanation(output: object, batch: int, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Check the output of an `ExplanationMethod`; maps or scores that are not finite explain nothing.

    Concepts and predicted class of an image with such maps or scores become -1.

    Raises:
        InputError: the output is not an `Explanation` of this many images.
    """
    fits = isinstance(output, Explanation) and (
        output.maps.ndim == 4
        and output.maps.shape[:2] == output.concepts.shape == output.scores.shape
        and len(output.maps) == len(output.predicted) == batch
    )
    if not fits or not isinstance(output, Explanation):
        raise InputError(
            f"{name}: expected an `Explanation` with maps [{batch}, concepts, height, width], concepts and "
            f"scores [{batch}, concepts] and predicted [{batch}], got {describe_output(output)}"
        )
    maps = output.maps.detach().float()
    scores = output.scores.detach().masked_fill(output.concepts < 0, 0)
    failed = ~(maps.flatten(1).isfinite().all(1) & scores.isfinite().all(1))
    return (
        maps.masked_fill(failed[:, None, None, None], 0),
        output.concepts.masked_fill(failed[:, None], -1),
        scores.masked_fill(failed[:, None], 0),
        output.predicted.masked_fill(failed, -1),
    )
