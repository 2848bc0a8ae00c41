"""Explain images by a method: a fitted one, a callable, files of heatmaps, or the masks themselves."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.control_explainers import MaskControl, PartMasks
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.model_outputs import checked_heatmaps, describe_output
from candlelight.evaluation.run.named_models import run_model
from candlelight.evaluation.run.predictions import Heatmaps
from candlelight.loaders.errors import InputError


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
    numbers = torch.arange(maps.shape[1], device=maps.device).expand(len(maps), -1)
    numbers = numbers.masked_fill(failed[:, None], -1)
    maps = maps.masked_fill(failed[:, None, None, None], 0)
    return Explanation(maps, numbers, maps.sum((2, 3)), numbers.new_full((len(maps),), -1))


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
