"""True gradients of log reflectance and log shading, to train TAP-05 and TAP-06 on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.ndimage import distance_transform_edt

from candlelight.evaluation.models.log_gradients import FLOOR, backward_differences
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import DecomposedImage


class TrueGradients(NamedTuple):
    """A log gray image and the true gradients of its parts, down (0) and to the right (1).

    Attributes:
        log_image: log gray image, extended over the background as by `extend`.
        reflectance: backward differences of the true log reflectance.
        shading: backward differences of the true log shading.
        inside: pairs of neighbours that both lie in the mask; other differences have no meaning.
    """

    log_image: Float[ndarray, "height width"]
    reflectance: Float[ndarray, "2 height width"]
    shading: Float[ndarray, "2 height width"]
    inside: Bool[ndarray, "2 height width"]


def true_gradients(images: Sequence[DecomposedImage]) -> list[TrueGradients]:
    """Compute the gradients to train on.

    Args:
        images: images with their true decomposition; values below `FLOOR` are raised to it.

    Returns:
        One item for each image with a pair of neighbours in its mask whose true reflectance and shading
        differ by unequal factors.

    Raises:
        InputError: no image has such a pair, or a value inside a mask is not finite.

    Example:
        >>> import torch
        >>> half = torch.full((3, 1, 2), 0.5)
        >>> light = torch.tensor([[[0.2, 0.4]]])
        >>> image = DecomposedImage(half * light, half, light, torch.ones(1, 2).bool())
        >>> [example] = true_gradients([image])
        >>> example.shading[1].round(3).tolist(), example.reflectance[1].tolist()
        ([[0.0, 0.693]], [[0.0, 0.0]])
    """
    examples = []
    for row, image in enumerate(images):
        mask = image.mask.numpy()
        if not mask.any():
            continue
        layers = [getattr(image, name).double().numpy() for name in ("image", "reflectance", "shading")]
        if not all(np.isfinite(layer[:, mask]).all() for layer in layers):
            raise InputError(f"`images` must be finite inside their masks, got other values in row {row}")
        log_image, *logs = (extend(np.log(np.maximum(layer, FLOOR).mean(0)), mask) for layer in layers)
        reflectance, shading = map(differences, logs)
        inside = inside_pairs(mask)
        if (np.abs(reflectance) != np.abs(shading))[inside].any():
            examples.append(TrueGradients(log_image, reflectance, shading, inside))
    if not examples:
        raise InputError(
            "`images` must have one with edges or shading within its mask, to train on, "
            f"got {len(images)} without; pass more images"
        )
    return examples


def extend(
    values: Float[ndarray, "height width"], mask: Bool[ndarray, "height width"]
) -> Float[ndarray, "height width"]:
    """Replace the background by the nearest pixels of the mask, so that filters see no edge of the object.

    Example:
        >>> extend(np.array([[1.0, 2.0, np.nan]]), np.array([[True, True, False]])).tolist()
        [[1.0, 2.0, 2.0]]
    """
    rows, columns = distance_transform_edt(~mask, return_distances=False, return_indices=True)
    return values[rows, columns]


def differences(values: Float[ndarray, "height width"]) -> Float[ndarray, "2 height width"]:
    """Subtract from each pixel the one above (0) and the one on the left (1); 0 where there is none.

    Example:
        >>> differences(np.array([[1.0, 3.0], [6.0, 7.0]])).tolist()
        [[[0.0, 0.0], [5.0, 4.0]], [[0.0, 2.0], [0.0, 1.0]]]
    """
    return np.stack(backward_differences(values))


def inside_pairs(mask: Bool[ndarray, "height width"]) -> Bool[ndarray, "2 height width"]:
    """Tell which pixels lie in the mask together with the one above (0) and the one on the left (1).

    Example:
        >>> inside_pairs(np.array([[True, True], [False, True]])).tolist()
        [[[False, False], [False, True]], [[False, True], [False, False]]]
    """
    pairs = np.zeros((2, *mask.shape), bool)
    pairs[0, 1:] = mask[1:] & mask[:-1]
    pairs[1, :, 1:] = mask[:, 1:] & mask[:, :-1]
    return pairs


def draw_places(
    choices: Bool[ndarray, "..."], count: int, rng: np.random.Generator
) -> Int[ndarray, " drawn"]:
    """Draw flat places of true values without replacement, all of them if there are fewer.

    Example:
        >>> sorted(draw_places(np.array([True, False, True]), 5, np.random.default_rng(0)).tolist())
        [0, 2]
    """
    places = np.flatnonzero(choices)
    return rng.choice(places, min(count, places.size), replace=False)
