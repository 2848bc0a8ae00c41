"""Train an `IntrinsicNet` on images with their ground-truth decomposition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm import tqdm

from evaluation.inputs.ground_truth import GroundTruth, stack_ground_truth
from evaluation.models.network import IntrinsicNet
from loaders.errors import InputError
from loaders.views import DecomposedImage, Decompositions

# Bytes of rows that are kept in memory; other rows are read again in each epoch.
CACHE_BYTES = 2 * 2**30
# Added before the logarithm, because darker values of an 8-bit image are quantised too coarsely.
_EPSILON = 0.01


@dataclass(frozen=True)
class History:
    """Mean loss per epoch, lower is better.

    Attributes:
        training: average over the steps of the epoch, during which the weights change.
        validation: loss after each epoch on the held-out rows; empty without held-out rows.
    """

    training: tuple[float, ...]
    validation: tuple[float, ...]


def train_intrinsic(
    data: Decompositions,
    *,
    seed: int,
    epochs: int = 20,
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    batch_size: int = 4,
    rate: float = 3e-3,
    width: int = 12,
    device: str | torch.device = "cpu",
) -> tuple[IntrinsicNet, History]:
    """Train a network to predict reflectance and shading.

    Adam minimises `intrinsic_loss` of both outputs, with a one-cycle learning rate; each image is mirrored
    left to right with probability one half. Pixels without albedo are ignored.

    Args:
        data: images with their ground-truth decomposition, all of one size.
        seed: seed of the initial weights, the order and the mirroring. Equal seeds give equal weights on the
            same processor with the same number of threads, and nearly equal weights on a GPU.
        epochs: passes over the training rows.
        rows: row numbers to train on; all rows except ``validation`` by default.
        validation: row numbers that are held out. Choose whole groups (`loaders.group_rows`): a held-out
            frame that differs from a training frame only in its light does not test generalisation.
        batch_size: images per step.
        rate: largest learning rate; with twice the default the output may become constant.
        width: channels of the network at full resolution, see `IntrinsicNet`.
        device: torch device for training; the network stays there.

    Returns:
        The network in evaluation mode after the last epoch, and the losses.

    Raises:
        InputError: a row does not exist or is in both lists, ground truth is missing, or ``epochs`` or
            ``batch_size`` is below 1.

    Example:
        >>> from loaders.views import DataIdentity
        >>> class Gray:
        ...     identity, explains = DataIdentity("gray", "memory"), "image"
        ...     ids, groups, known_ids = ("a",), ("a",), frozenset("a")
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         half = torch.full((3, 8, 8), 0.5)
        ...         return DecomposedImage(half * half, half, half, torch.ones(8, 8).bool())
        >>> network, history = train_intrinsic(Gray(), seed=0, epochs=10, width=2)
        >>> history.training[-1] < history.training[0]
        True
    """
    if min(epochs, batch_size) < 1:
        raise InputError(f"`epochs` and `batch_size` must be at least 1, got {epochs} and {batch_size}")
    training, held_out = _split(len(data), rows, validation)
    read = _reader(data, training[0])
    network = IntrinsicNet(width=width, seed=seed).to(device)
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    steps = epochs * -(-len(training) // batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    losses: list[float] = []
    validated: list[float] = []
    bar = tqdm(range(epochs), desc="train", unit="epoch", disable=None)
    for _ in bar:
        order = [training[place] for place in torch.randperm(len(training), generator=generator).tolist()]
        batches = (_mirror(read(some), generator) for some in _batches(order, batch_size))
        losses.append(float(np.mean([_step(network, truth, optimiser, schedule) for truth in batches])))
        if held_out:
            validated.append(_evaluate(network, read, held_out, batch_size))
        bar.set_postfix(loss=losses[-1])
    return network.eval(), History(tuple(losses), tuple(validated))


def intrinsic_loss(
    prediction: Float[Tensor, "batch 3 height width"],
    target: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the training loss of one output: a half scale-invariant log error and a gradient error.

    ``mean(d^2) - mean(d)^2 / 2 + mean(|d_y| + |d_x|)`` with ``d = log(p + 0.01) - log(t + 0.01)`` and its
    differences d_y, d_x between neighbours. The first two terms are the scale-invariant loss of Eigen et al.
    2014, eq. 4; the absolute gradient term keeps edges sharp.

    Args:
        prediction: predicted reflectance or shading, scene-linear, >= 0.
        target: ground truth, scene-linear, >= 0.
        mask: pixels that are scored.

    Returns:
        One loss per sample, >= 0, lower is better, differentiable; 0 for an empty mask.

    Example:
        >>> image = torch.rand(1, 3, 4, 4)
        >>> intrinsic_loss(image, image, torch.ones(1, 4, 4, dtype=torch.bool))
        tensor([0.])
    """
    weight = mask.unsqueeze(1).to(prediction)
    error = (prediction + _EPSILON).log() - (target + _EPSILON).log()
    error = torch.where(mask.unsqueeze(1), error, 0.0)
    down = error.diff(dim=2).abs() * weight[:, :, 1:] * weight[:, :, :-1]
    right = error.diff(dim=3).abs() * weight[..., 1:] * weight[..., :-1]
    count = 3 * weight.flatten(1).sum(1).clamp(min=1)
    square, mean, down_mean, right_mean = (
        values.flatten(1).sum(1) / count for values in (error.square(), error, down, right)
    )
    return square - mean.square() / 2 + down_mean + right_mean


def check_rows(count: int, rows: Sequence[int], name: str = "rows") -> list[int]:
    """Check row numbers.

    Args:
        count: number of rows in the data.
        rows: row numbers from 0.
        name: name of the argument for messages.

    Raises:
        InputError: ``rows`` is empty, or a row does not exist.

    Example:
        >>> check_rows(3, (2, 0))
        [2, 0]
    """
    chosen = [int(row) for row in rows]
    if not chosen:
        raise InputError(f"`{name}` must name at least one row, got none of {count}")
    for row in chosen:
        if not 0 <= row < count:
            raise InputError(f"`{name}` must lie in 0..{count - 1}, got {row}")
    return chosen


def _split(count: int, rows: Sequence[int] | None, validation: Sequence[int]) -> tuple[list[int], list[int]]:
    held_out = check_rows(count, validation, "validation") if len(validation) else []
    if rows is None:
        rows = sorted(set(range(count)).difference(held_out))
    training = check_rows(count, rows)
    both = set(training).intersection(held_out)
    if both:
        raise InputError(f"`rows` and `validation` must share no row, got {min(both)} in both")
    return training, held_out


def _reader(data: Decompositions, row: int) -> Callable[[Sequence[int]], GroundTruth]:
    """Return a function that maps row numbers to their ground truth and caches rows in memory."""
    # Image, reflectance and shading as float32, three channels each, and the mask.
    size = (3 * 4 + 1) * data[row].image.numel()

    @lru_cache(maxsize=max(1, CACHE_BYTES // size))
    def sample(row: int) -> DecomposedImage:
        return data[row]

    return lambda rows: stack_ground_truth([sample(row) for row in rows])


def _batches(rows: list[int], batch_size: int) -> list[list[int]]:
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]


def _mirror(truth: GroundTruth, generator: torch.Generator) -> GroundTruth:
    """Flip a random half of the samples left to right."""
    flipped = torch.rand(len(truth.image), generator=generator) < 0.5
    layers = {}
    for name, values in ((field.name, getattr(truth, field.name)) for field in fields(truth)):
        if values is None:  # no images under other lights
            continue
        layers[name] = torch.where(flipped.reshape(-1, *[1] * (values.ndim - 1)), values.flip(-1), values)
    return GroundTruth(**layers)


def _loss(network: IntrinsicNet, truth: GroundTruth) -> Float[Tensor, " batch"]:
    device = next(network.parameters()).device
    shading = truth.shading.expand_as(truth.image).to(device)
    reflectance, mask = truth.reflectance.to(device), truth.mask.to(device)
    reflectance_out, shading_out = network(truth.image.to(device))
    return intrinsic_loss(reflectance_out, reflectance, mask) + intrinsic_loss(shading_out, shading, mask)


def _step(
    network: IntrinsicNet,
    truth: GroundTruth,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> float:
    loss = _loss(network, truth).mean()
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    # Dark batches have large gradients; clipping keeps one of them from undoing many steps.
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimiser.step()
    schedule.step()
    return loss.item()


@torch.no_grad()
def _evaluate(
    network: IntrinsicNet, read: Callable[[Sequence[int]], GroundTruth], rows: list[int], batch_size: int
) -> float:
    losses = [_loss(network, read(some)) for some in _batches(rows, batch_size)]
    return torch.cat(losses).mean().item()
