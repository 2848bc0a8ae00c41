"""Explain all images of a data set by several methods, batch by batch, and read the masks of their parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.control_explainers import MaskControl, PartMasks
from candlelight.evaluation.coverage.explanations import Explanation, Rank, merge_explanation
from candlelight.evaluation.coverage.heatmap_streams import ExplanationStream, MaskStream
from candlelight.evaluation.coverage.network_dissection import ConceptStream
from candlelight.evaluation.coverage.thresholds import Explanations, check_masks, resize_images, resize_mask
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Fingerprint, check_srgb_image, read_batches
from candlelight.evaluation.run.model_outputs import checked_heatmaps, describe_output
from candlelight.evaluation.run.named_models import decode, run_model
from candlelight.evaluation.run.predictions import Heatmaps
from candlelight.evaluation.run.steps import FinishedSteps, batch_key, model_key
from candlelight.evaluation.views import Parts
from candlelight.loaders.errors import InputError, argument

Merge = tuple[int, Rank]  # k and rank of `merge_explanation`


@dataclass
class ReadExplanations:
    """Explanation heatmaps of several methods and masks of the same images.

    Attributes:
        merges: how the maps of each image were merged.
        streams: heatmaps by method and merge; see `stream`.
        predicted: class of each image, by method; -1 where it is not known.
        masks: masks of the parts.
        concepts: maps of all concepts, by method; None if they are not kept.
    """

    merges: Sequence[Merge]
    streams: dict[tuple[str, Merge], ExplanationStream] = field(default_factory=dict)
    predicted: dict[str, list[int]] = field(default_factory=dict)
    masks: MaskStream = field(default_factory=MaskStream)
    concepts: dict[str, ConceptStream] | None = None

    def stream(self, name: str, merge: Merge) -> ExplanationStream:
        """Look up the heatmaps of a method; a method with one map has the same ones for all merges."""
        return self.streams.get((name, merge)) or self.streams[name, self.merges[0]]

    def append(self, name: str, step: Mapping[str, Tensor]) -> None:
        """Append a step of `_explain_batch`."""
        self.predicted.setdefault(name, []).extend(step["predicted"].tolist())
        for merge in self.merges:
            key = _field(merge)
            if f"heatmap {key}" in step:
                stream = self.streams.setdefault((name, merge), ExplanationStream(name))
                stream.append(Explanations(step[f"heatmap {key}"], step[f"members {key}"]))
        if self.concepts is not None:
            maps, numbers = step["maps"], step["concepts"]
            kept = Explanation(maps, numbers, maps.sum((2, 3)), step["predicted"])
            self.concepts.setdefault(name, ConceptStream(name)).append(kept)


def read_explanations(
    named_models: Mapping[str, NamedModel],
    data: Parts,
    merges: Sequence[Merge],
    *,
    dissect: bool,
    size: tuple[int, int] | None,
    batch_size: int,
    device: str,
    fingerprint: Fingerprint,
    steps: FinishedSteps,
    run: Mapping[str, Any],
) -> ReadExplanations:
    """Explain the images of a view by each method, and read their masks.

    Args:
        named_models: the methods, see `explain_images`.
        data: images with masks.
        merges: how maps are merged; the first is that of methods with one map.
        dissect: keep the maps of all concepts.
        size: see `score_coverage`.
        batch_size: images per pass.
        device: torch device of the methods.
        fingerprint: gets the content of the data.
        steps: keeps finished batches.
        run: settings that a finished batch depends on, such as the version of the metric.

    Raises:
        InputError: images or heatmaps have several sizes, a mask does not fit its image, or a method fails.
    """
    read = ReadExplanations(merges, concepts={} if dissect else None)
    settings = {**run, "merges": list(merges), "dissect": dissect, "size": size}
    keys = [model_key(named, device, **settings) for named in named_models.values()]
    shape: tuple[int, ...] | None = size
    for batch in read_batches(
        data, batch_size, lambda item: check_srgb_image(item.image), fingerprint, "heatmaps"
    ):
        check_masks(batch.ids, batch.items)
        linear = resize_images(decode(batch.stack(lambda item: item.image)), size)
        shape = shape or tuple(linear.shape[2:])
        if tuple(linear.shape[2:]) != shape:
            sizes = [shape, tuple(linear.shape[2:])]
            raise InputError(
                f"images have several sizes, {sizes}; give one {argument('size')} to resize them to"
            )
        masks = [{name: resize_mask(mask, size) for name, mask in item.masks.items()} for item in batch.items]
        for one in masks:
            read.masks.append(one)
        for (name, named), key in zip(named_models.items(), keys, strict=True):
            explain = partial(_explain_batch, named, batch.ids, linear, masks, device, merges, dissect)
            read.append(name, steps.get_or_compute(batch_key(key, batch, fingerprint), explain))
    return read


def _explain_batch(
    named: NamedModel,
    ids: Sequence[str],
    linear: Tensor,
    masks: Sequence[PartMasks],
    device: str,
    merges: Sequence[Merge],
    dissect: bool,
) -> dict[str, Tensor]:
    explanation = explain_images(named, ids, linear, device, masks)
    step = {"predicted": explanation.predicted}
    if dissect:
        step |= {"maps": explanation.maps, "concepts": explanation.concepts}
    for merge in merges if explanation.maps.shape[1] > 1 else merges[:1]:
        merged = merge_explanation(explanation, *merge)
        step |= {f"heatmap {_field(merge)}": merged.heatmap, f"members {_field(merge)}": merged.members}
    return step


def _field(merge: Merge) -> str:
    return f"{merge[0]} {merge[1]}"


def explain_images(
    named: NamedModel,
    ids: Sequence[str],
    linear: Tensor,
    device: str,
    masks: Sequence[PartMasks] | None = None,
) -> Explanation:
    """Explain scene-linear images by a method; the result is on the CPU.

    Args:
        named: an `ExplanationMethod`, a callable from images to heatmaps, `Heatmaps` of another program, or a
            `MaskControl`; heatmaps are concepts in their order, of an unknown class.
        ids: names of the images.
        linear: the images.
        device: torch device of the method.
        masks: masks of each image at its size, for a `MaskControl` alone.

    Returns:
        The explanation; an image whose maps or scores are not finite has no concepts.

    Raises:
        InputError: the method raised an exception, or its output has another form.
    """
    name, size = named.identity.name, (linear.shape[2], linear.shape[3])
    if isinstance(named.model, MaskControl):
        assert masks is not None  # for the type checker: all callers with controls give them
        return named.model(masks, size)
    if hasattr(named.model, "explain"):
        method = replace(named, model=named.model.explain)
        explained = Explanation(*run_model(method, linear, device, checked_explanation))
        check_axes(name, explained.maps, size)
        return explained
    if isinstance(named.model, Heatmaps):
        maps, failed = named.model.read_batch(ids)
    else:
        maps, failed = run_model(named, linear, device, checked_heatmaps)
    check_axes(name, maps, size)
    if maps.shape[1:] == (3, *size) and not hasattr(named.model, "hidden_layer"):
        raise InputError(
            f"{name}: expected heatmaps of concepts, got {list(maps.shape[1:])} for images of {size[0]} x "
            f"{size[1]}, which looks like an attribution of each colour channel; merge the channels, as by "
            "maps.abs().sum(1), or change the resolution of three concepts"
        )
    numbers = torch.arange(maps.shape[1]).expand(len(maps), -1).masked_fill(failed[:, None], -1)
    maps = maps.masked_fill(failed[:, None, None, None], 0)
    return Explanation(maps, numbers, maps.sum((2, 3)), torch.full((len(maps),), -1))


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
