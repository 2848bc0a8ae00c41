"""Gradients of the log image: taken, thresholded, integrated, and those of training images."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from candlelight.evaluation.models.poisson import solve_poisson
from candlelight.evaluation.views import DecomposedImage
from candlelight.loaders.errors import InputError

# The benchmark raises images, whose white is 257, to at least 3 before the logarithm.
FLOOR = 3 / 257
_Made = TypeVar("_Made")


class Gradients(NamedTuple):
    """Differences from the pixel above (``down``) and from the pixel on the left (``right``).

    Both have the shape of the image; the first row of ``down`` and the first column of ``right`` are 0.
    """

    down: Float[ndarray, "*batch height width"]
    right: Float[ndarray, "*batch height width"]


def plain_gray(pixels: Float[ndarray, "*batch 3 height width"]) -> Float[ndarray, "*batch height width"]:
    """Compute the channel mean, the image that W and W+RET decompose; below 0 it is 0.

    Args:
        pixels: scene-linear Rec.709, white is 1.

    Example:
        >>> plain_gray(np.zeros((3, 1, 1)))
        array([[0.]])
    """
    gray: Float[ndarray, "*batch height width"] = np.maximum(pixels.mean(-3), 0.0)
    return gray


def raised_gray(pixels: Float[ndarray, "*batch 3 height width"]) -> Float[ndarray, "*batch height width"]:
    """Compute the channel mean and raise it to `FLOOR`: the image that GR-RET decomposes.

    Args:
        pixels: scene-linear Rec.709, white is 1.

    Example:
        >>> raised_gray(np.array([[[0.3]], [[0.0]], [[0.0]]])).round(3)
        array([[0.1]])
    """
    gray: Float[ndarray, "*batch height width"] = np.maximum(pixels.mean(-3), FLOOR)
    return gray


def gray_of_raised(pixels: Float[ndarray, "*batch 3 height width"]) -> Float[ndarray, "*batch height width"]:
    """Raise every channel to `FLOOR` and compute their mean: the image that COL-RET decomposes.

    Args:
        pixels: scene-linear Rec.709, white is 1.

    Example:
        >>> gray_of_raised(np.array([[[0.3]], [[0.0]], [[0.0]]])).round(3)
        array([[0.108]])
    """
    gray: Float[ndarray, "*batch height width"] = np.maximum(pixels, FLOOR).mean(-3)
    return gray


def backward_differences(image: Float[ndarray, "*batch height width"]) -> Gradients:
    """Compute the backward differences of images.

    Example:
        >>> backward_differences(np.array([[1.0, 3.0]])).right
        array([[0., 2.]])
    """
    return Gradients(
        np.diff(image, axis=-2, prepend=image[..., :1, :]), np.diff(image, axis=-1, prepend=image[..., :1])
    )


def keep_strong(gradients: Gradients, threshold: float) -> Gradients:
    """Keep gradients above a threshold: gray Retinex, Grosse et al. 2009, eq. 11.

    Args:
        gradients: of a log gray image.
        threshold: in natural log units; 1.0 keeps steps by a factor above 2.7.

    Example:
        >>> keep_strong(Gradients(np.zeros((1, 2)), np.array([[0.1, -0.5]])), 0.2).right
        array([[ 0. , -0.5]])
    """
    return Gradients(*(np.where(np.abs(part) > threshold, part, 0.0) for part in gradients))


class ColourGradients(NamedTuple):
    """Gradients of a log colour image, split for colour Retinex.

    Attributes:
        gray: of the log of the channel mean; these are kept or not.
        brightness: mean over the channels of the gradients of the log channels.
        chroma: norm over the channels of those gradients minus their brightness, >= 0.
    """

    gray: Gradients
    brightness: Gradients
    chroma: Gradients


def split_colour(pixels: Float[ndarray, "3 height width"]) -> ColourGradients:
    """Split the log gradients of a colour image into brightness and chroma: Grosse et al. 2009, 4.3.1.

    Args:
        pixels: scene-linear Rec.709, white is 1; darker values are raised to `FLOOR`.

    Example:
        >>> float(split_colour(np.ones((3, 2, 2))).chroma.down.max())
        0.0
    """
    channels = backward_differences(np.log(np.maximum(pixels, FLOOR)))
    brightness = Gradients(*(part.mean(0) for part in channels))
    pairs = zip(channels, brightness, strict=True)
    chroma = Gradients(*(np.sqrt(((part - mean) ** 2).sum(0)) for part, mean in pairs))
    return ColourGradients(backward_differences(np.log(gray_of_raised(pixels))), brightness, chroma)


def keep_strong_or_coloured(split: ColourGradients, brightness: float, chroma: float) -> Gradients:
    """Keep gradients whose brightness or chroma exceeds its threshold: Grosse et al. 2009, eq. 12.

    Args:
        split: gradients of a colour image.
        brightness: threshold in natural log units.
        chroma: threshold in natural log units.
    """
    kept = (
        np.where((colour > chroma) | (np.abs(mean) > brightness), gray, 0.0)
        for gray, mean, colour in zip(*split, strict=True)
    )
    return Gradients(*kept)


def median_over_lights(lights: Float[ndarray, "lights 3 height width"]) -> Gradients:
    """Compute the median over lights of the gradients of the log gray images.

    Y. Weiss: Deriving intrinsic images from image sequences, ICCV 2001, as in Grosse et al. 2009, 4.3.3. The
    median of an even number of lights is the mean of the middle two.

    Args:
        lights: the same object under several lights, scene-linear Rec.709, white is 1; see `raised_gray`.

    Example:
        >>> median_over_lights(np.ones((10, 3, 2, 2))).down.shape
        (2, 2)
    """
    with np.errstate(invalid="ignore"):  # light that is infinite outside the mask has no gradient
        gradients = backward_differences(np.log(raised_gray(lights)))
        return Gradients(*(np.median(part, axis=0) for part in gradients))


GradientEstimate = Callable[[int, ndarray, ndarray], Gradients]
GrayRule = Callable[[Float[ndarray, "3 height width"]], Float[ndarray, "height width"]]


def decompose_by_gradients(
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    estimate: GradientEstimate,
    gray: GrayRule = gray_of_raised,
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Decompose each image on the CPU; the results are on the device of the input.

    Args:
        image: scene-linear Rec.709 in [0, 1].
        mask: pixels of the object; other pixels, and edges to them, are ignored. All pixels by default.
        estimate: maps the number of a row, its image in float64 and its mask to the gradients of the log
            reflectance, which is their least-squares image: Grosse et al. 2009, eq. 10, p = 2. It is not
            called for an empty mask.
        gray: maps an image [3, height, width] to the gray image that is decomposed: a function of
            `candlelight.evaluation.models.gradients`.

    Returns:
        Reflectance in the colours of the image, scaled so that its largest value is 1, and gray shading
        repeated over the channels. The channel mean of their product is the gray image, and their product is
        the image where no value is below `candlelight.evaluation.models.gradients.FLOOR`; colours are
        those of the image with darker values raised to it. Both are 0 outside the mask, and nan inside it if
        a pixel there is not finite.

    Example:
        >>> from candlelight.evaluation.models.gradients import backward_differences
        >>> image = torch.tensor([0.2, 0.4]).expand(1, 3, 1, 2)
        >>> def all_of_them(row, pixels, mask):
        ...     return backward_differences(np.log(gray_of_raised(pixels)))
        >>> decompose_by_gradients(image, None, all_of_them)[0][0, 0]
        tensor([[0.5000, 1.0000]])
    """
    pixels = image.detach().cpu().double().numpy()
    everything = torch.ones(len(image), *image.shape[2:], dtype=torch.bool)
    masks = (everything if mask is None else mask).cpu().numpy()
    reflectance, shading = np.zeros_like(pixels), np.zeros_like(pixels)

    def decompose(row: int) -> None:
        inside = masks[row]
        if not inside.any():
            return
        if not np.isfinite(pixels[row][:, inside]).all():
            reflectance[row][:, inside] = shading[row][:, inside] = np.nan
            return
        known = np.where(inside, pixels[row], FLOOR)
        factor = np.exp(solve_poisson(*estimate(row, known, inside), inside)[inside])
        raised = np.maximum(known[:, inside], FLOOR)
        coloured = raised * factor / raised.mean(0)
        reflectance[row][:, inside] = coloured / coloured.max()
        shading[row][:, inside] = gray(known)[inside] / factor * coloured.max()

    for_rows(decompose, len(image))
    return torch.from_numpy(reflectance).to(image), torch.from_numpy(shading).to(image)


def for_rows(function: Callable[[int], _Made], count: int) -> list[_Made]:
    """Call a function of numpy, scipy or Pillow for each row, in as many threads as torch takes.

    Example:
        >>> for_rows(lambda row: row**2, 3)
        [0, 1, 4]
    """
    from threadpoolctl import threadpool_limits  # comes with the extra `evaluate`; data are read without

    # Threads of a BLAS beside them would wait for each other.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return list(pool.map(function, range(count)))


class GradientModel(ABC):
    """An `IntrinsicModel` that estimates the gradients of the log reflectance of each image."""

    def __call__(
        self,
        image: Float[Tensor, "batch 3 height width"],
        mask: Bool[Tensor, "batch height width"] | None = None,
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose each image; see `decompose_by_gradients`."""
        return decompose_by_gradients(image, mask, self._gradients, self._gray)

    def _gray(self, pixels: Float[ndarray, "3 height width"]) -> Float[ndarray, "height width"]:
        return gray_of_raised(pixels)

    @abstractmethod
    def _gradients(
        self, row: int, pixels: Float[ndarray, "3 height width"], mask: Bool[ndarray, "height width"]
    ) -> Gradients: ...


def check_thresholds(**thresholds: float) -> None:
    """Refuse thresholds below 0.

    Raises:
        InputError: a threshold is negative or nan.

    Example:
        >>> check_thresholds(chroma=-1.0)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `chroma` must be a threshold of at least 0, got -1.0
    """
    for name, value in thresholds.items():
        if not value >= 0:
            raise InputError(f"`{name}` must be a threshold of at least 0, got {value}")


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
