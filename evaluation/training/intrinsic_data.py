"""Images for the training of intrinsic image networks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.run.batches import Fingerprint
from candlelight.evaluation.views import Decompositions
from candlelight.loaders.errors import InputError, argument

# Added before the logarithm, because darker values of an 8-bit image are quantised too coarsely.
EPSILON = 0.01


def log_image(image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Compute ``log(image + EPSILON)`` of a scene-linear image.

    Example:
        >>> log_image(torch.tensor([0.99]))
        tensor([0.])
    """
    return (image + EPSILON).log()


def pixel_steps(
    image: Float[Tensor, "batch channels height width"],
) -> tuple[Float[Tensor, "batch channels height columns"], Float[Tensor, "batch channels rows width"]]:
    """Subtract each pixel from its right and from its lower neighbour."""
    return image.diff(dim=3), image.diff(dim=2)


def masked_pairs(
    mask: Bool[Tensor, "batch height width"],
) -> tuple[Bool[Tensor, "batch height columns"], Bool[Tensor, "batch rows width"]]:
    """Find the neighbours of `pixel_steps` that are both inside the mask."""
    return mask[..., 1:] & mask[..., :-1], mask[:, 1:] & mask[:, :-1]


def masked_means(
    values: Float[Tensor, "batch channels height width"], mask: Bool[Tensor, "batch height width"]
) -> Float[Tensor, " batch"]:
    """Compute the mean of each image over the pixels of its mask and its channels; 0 for an empty mask.

    Example:
        >>> masked_means(torch.tensor([[[[1.0, 3.0, 9.0]]]]), torch.tensor([[[True, True, False]]]))
        tensor([2.])
    """
    inside = torch.where(mask.unsqueeze(1), values, 0.0).flatten(1).sum(1)
    return inside / (values.shape[1] * mask.flatten(1).sum(1).clamp(min=1))


def mean_difference(
    image: Float[Tensor, "batch channels height width"], mask: Bool[Tensor, "batch height width"]
) -> Float[Tensor, " batch"]:
    """Add the mean absolute differences to the right and to the lower neighbour inside the mask.

    Example:
        >>> mean_difference(torch.tensor([[[[1.0, 3.0, 9.0]]]]), torch.tensor([[[True, True, False]]]))
        tensor([2.])
    """
    right, down = (
        masked_means(step.abs(), pairs)
        for step, pairs in zip(pixel_steps(image), masked_pairs(mask), strict=True)
    )
    return right + down


def reconstruction_error(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the mean absolute log error of reflectance times shading against the image inside the mask.

    Example:
        >>> half, whole = torch.full((1, 3, 2, 2), 0.5), torch.ones(1, 3, 2, 2)
        >>> reconstruction_error(half, whole, half, torch.ones(1, 2, 2).bool())
        tensor([0.])
    """
    return masked_means((log_image(reflectance * shading) - log_image(image)).abs(), mask)


# Bytes of rows that are kept in memory; other rows are read again in each epoch.
CACHE_BYTES = 2 * 2**30
LMSE_WINDOW = 20  # pixels, of `candlelight.evaluation.intrinsic.score_intrinsic`


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """Images of a step.

    Attributes:
        truth: the images, their ground truth and masks.
        scenes: number of the scene of each image; images of one scene differ in the light alone.
        others: as many rows of other scenes, whose reflectance and shading belong to none of the images; None
            if the regime does not use them.
    """

    truth: GroundTruth
    scenes: Int[Tensor, " batch"]
    others: GroundTruth | None = None

    def to(self, device: torch.device) -> "TrainingBatch":
        """Copy the batch to a device."""
        others = None if self.others is None else self.others.to(device)
        return TrainingBatch(self.truth.to(device), self.scenes.to(device), others)


class TrainingRows:
    """Rows of a view as batches of ground truth.

    Args:
        data: images with their ground-truth decomposition.
    """

    def __init__(self, data: Decompositions) -> None:
        # Image, reflectance and shading as float32, three channels each, and the mask.
        self._ids = data.ids
        row_bytes = (3 * 4 + 1) * data[0].image.numel()
        self._item = lru_cache(maxsize=max(1, CACHE_BYTES // row_bytes))(data.__getitem__)
        numbers = {group: number for number, group in enumerate(dict.fromkeys(data.groups))}
        self.scenes = [numbers[group] for group in data.groups]

    def sha256(self, rows: Sequence[int]) -> str:
        """Hash ids and contents of rows."""
        fingerprint = Fingerprint()
        for row in rows:
            fingerprint.add(self._ids[row], self._item(row))
        return fingerprint.hexdigest()

    def check_pixels(self, training: Sequence[int], held_out: Sequence[int]) -> None:
        """Refuse rows in which nothing can be learned or scored, before the first epoch.

        Raises:
            InputError: no training image has a known pixel, or held-out images are smaller than a window of
                LMSE.
        """
        if not any(bool(self.read([row]).mask.any()) for row in training):
            raise InputError("expected training images with known pixels, got none; give other data")
        if held_out and min(size := self.read(held_out[:1]).mask.shape[1:]) < LMSE_WINDOW:
            raise InputError(
                f"held-out images are scored in windows of {LMSE_WINDOW}x{LMSE_WINDOW} pixels, got images of "
                f"{size[0]}x{size[1]} (height x width); give a larger {argument('size', 'SmallRows')}, "
                f"or {argument('validation')} 0"
            )

    def read(self, rows: Sequence[int]) -> GroundTruth:
        """Read rows into a batch; pixels with a value that is not finite leave the mask and become 0.

        Raises:
            InputError: the images have different sizes.
        """
        items = [self._item(row) for row in rows]
        sizes = {tuple(item.image.shape[1:]) for item in items}
        if len(sizes) > 1:
            one, other = sorted(sizes)[:2]
            raise InputError(
                f"expected training images of one size, got {one[0]} x {one[1]} and {other[0]} x {other[1]}; "
                f"scale them ({argument('size', 'SmallRows')})"
            )
        return _known(stack_ground_truth(items))

    def mirrored(
        self, batches: Iterable[Sequence[int]], generator: torch.Generator
    ) -> Iterator[TrainingBatch]:
        """Read the rows of each batch, and flip a random half of the scenes left to right."""
        for rows in batches:
            scenes = torch.tensor([self.scenes[row] for row in rows])
            _, places = np.unique(scenes.numpy(), return_inverse=True)
            flipped = (torch.rand(len(rows), generator=generator) < 0.5)[places]
            yield TrainingBatch(_flip(self.read(rows), flipped), scenes)

    def with_others(
        self, batches: Iterable[TrainingBatch], rows: Sequence[int], generator: torch.Generator
    ) -> Iterator[TrainingBatch]:
        """Add to each batch rows of other scenes, drawn from ``rows`` for each image.

        Raises:
            InputError: all rows are of the scenes of a batch.
        """
        for batch in batches:
            present = set(batch.scenes.tolist())
            free = [row for row in rows if self.scenes[row] not in present]
            if not free:
                raise InputError(
                    f"expected rows of more scenes than the {len(present)} of a batch; give more scenes, or "
                    "a smaller batch size"
                )
            drawn = torch.randint(len(free), (len(batch.scenes),), generator=generator).tolist()
            yield replace(batch, others=self.read([free[place] for place in drawn]))


def draw_batches(
    scenes: Sequence[int], rows: Sequence[int], batch_size: int, lights: int, generator: torch.Generator
) -> list[list[int]]:
    """Shuffle rows into batches in which the images of a scene stand together.

    Args:
        scenes: number of the scene of each row of the data.
        rows: rows to use, each once.
        batch_size: images in a batch.
        lights: images of a scene in a batch; scenes with more images give several parts.
        generator: source of the order.

    Example:
        >>> draws = torch.Generator().manual_seed(0)
        >>> batches = draw_batches([0, 0, 1, 1, 2, 2], range(6), 4, 2, draws)
        >>> sorted(map(len, batches)), sorted(row for batch in batches for row in batch)
        ([2, 4], [0, 1, 2, 3, 4, 5])
    """
    shuffled = [rows[place] for place in torch.randperm(len(rows), generator=generator).tolist()]
    members: dict[int, list[int]] = {}
    for row in shuffled:
        members.setdefault(scenes[row], []).append(row)
    parts = [
        some[start : start + lights] for some in members.values() for start in range(0, len(some), lights)
    ]
    batches: list[list[int]] = [[]]
    for place in torch.randperm(len(parts), generator=generator).tolist():
        if batches[-1] and len(batches[-1]) + len(parts[place]) > batch_size:
            batches.append([])
        batches[-1] += parts[place]
    return batches


def _known(truth: GroundTruth) -> GroundTruth:
    """Remove values that are not finite: even outside the mask their gradient would be nan."""
    layers = torch.cat([truth.image, truth.reflectance, truth.shading], 1)
    mask = truth.mask & layers.isfinite().all(1)
    return replace(truth.map(lambda values: values.nan_to_num(0, 0, 0)), mask=mask)


def _flip(truth: GroundTruth, flipped: Tensor) -> GroundTruth:
    def flip(values: Tensor) -> Tensor:
        return torch.where(flipped.reshape(-1, *[1] * (values.ndim - 1)), values.flip(-1), values)

    return truth.map(flip)
