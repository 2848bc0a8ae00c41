"""Decompositions that are determined by the gradients of the log reflectance of a gray image.

The steps that all algorithms of R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset
and baseline evaluations for intrinsic image algorithms, ICCV 2009, section 4.3 share.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from evaluation.models.poisson import solve_poisson
from evaluation.models.retinex import FLOOR
from loaders.errors import InputError
from loaders.views import DecomposedImage

GradientEstimator = Callable[[ndarray, ndarray], ndarray]


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


def decompose(
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    estimate: GradientEstimator,
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Decompose each image on the CPU, from estimated gradients of the log reflectance.

    The reflectance is the least-squares image of the gradients (Grosse et al. 2009, eq. 10, p = 2).

    Args:
        image: scene-linear Rec.709 in [0, 1]; darker values are raised to `FLOOR`.
        mask: pixels of the object; other pixels are never read. All pixels by default.
        estimate: function from the log gray image, extended over the background, and the mask, both float64
            and bool [height width], to the gradients down and to the right, [2 height width].

    Returns:
        Reflectance in the colours of the image, scaled so that its largest value is 1, and gray shading
        repeated over the channels, on the device of the input; their product is the image raised to `FLOOR`.
        Both are 0 outside the mask, and nan inside it if a pixel there is not finite.

    Example:
        >>> image = torch.tensor([0.2, 0.4]).expand(1, 3, 1, 2)
        >>> _, shading = decompose(image, None, lambda log_image, mask: differences(log_image))
        >>> bool((shading - 0.4).abs().max() < 1e-6)
        True
    """
    pixels = np.maximum(image.detach().cpu().double().numpy(), FLOOR)
    everything = torch.ones(len(image), *image.shape[2:], dtype=torch.bool)
    masks = (everything if mask is None else mask).cpu().numpy()
    reflectance = np.zeros_like(pixels)
    shading = np.zeros_like(pixels)
    for row, inside in enumerate(masks):
        if not inside.any():
            continue
        if not np.isfinite(pixels[row][:, inside]).all():
            reflectance[row][:, inside] = shading[row][:, inside] = np.nan
            continue
        gray = pixels[row].mean(0)
        down, right = estimate(extend(np.log(gray), inside), inside)
        factor = np.exp(solve_poisson(down, right, inside))
        coloured = pixels[row][:, inside] * (factor / gray)[inside]
        reflectance[row][:, inside] = coloured / coloured.max()
        shading[row][:, inside] = (gray / factor)[inside] * coloured.max()
    return torch.from_numpy(reflectance).to(image), torch.from_numpy(shading).to(image)


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
    down = np.diff(values, axis=0, prepend=values[:1])
    return np.stack([down, np.diff(values, axis=1, prepend=values[:, :1])])


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
