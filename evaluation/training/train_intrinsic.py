"""Train intrinsic image networks: supervised, on several illuminations, or unsupervised."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.catalogue.record import make_options
from candlelight.evaluation.catalogue.training_options import IntrinsicTraining, Regime, RegimeTraining
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.intrinsic.intrinsic_records import decomposition_errors
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.run.evaluate import on_device
from candlelight.evaluation.run.named_models import Decomposition
from candlelight.evaluation.training.loop import (
    Losses,
    Task,
    epoch_stream,
    mixed_precision,
    one_cycle,
    train_task,
    training_state,
)
from candlelight.evaluation.training.losses import consistency_loss, intrinsic_loss, style_content_loss
from candlelight.evaluation.training.training_rows import KeptRows, split_training
from candlelight.evaluation.views import DecomposedImage, Decompositions
from candlelight.loaders.errors import InputError, argument


class SmallRows:
    """Rows of a view with the members of `candlelight.evaluation.views.Decompositions`.

    Args:
        data: images with their ground-truth decomposition.
        rows: row numbers; None for all.
        size: side of the squares that `shrink` makes; None leaves the images as they are.
    """

    def __init__(
        self, data: Decompositions, rows: Sequence[int] | None = None, size: int | None = None
    ) -> None:
        self._data, self._size = data, size
        self._rows = range(len(data)) if rows is None else rows
        self.identity = data.identity
        if size is not None:
            self.identity = replace(data.identity, image=f"scaled to squares of {size} pixels")
        self.ids = tuple(data.ids[row] for row in self._rows)
        self.groups = tuple(data.groups[row] for row in self._rows)
        self.known_ids, self.explains = data.known_ids, data.explains

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> DecomposedImage:
        item = self._data[self._rows[row]]
        return item if self._size is None else shrink(item, self._size)


def shrink(item: DecomposedImage, size: int) -> DecomposedImage:
    """Average a decomposition over larger pixels, and fill it up to a square outside the mask.

    Args:
        item: scene-linear layers.
        size: side of the square. The longer side of a larger image becomes as long; a smaller image keeps its
            pixels. A pixel stays in the mask if all of its parts are in it.

    Example:
        >>> import torch
        >>> item = DecomposedImage(*[torch.ones(3, 20, 40)] * 3, torch.ones(20, 40).bool())
        >>> small = shrink(item, 8)
        >>> small.image.shape, small.mask.sum()
        (torch.Size([3, 8, 8]), tensor(32))
    """
    height, width = item.mask.shape
    scale = min(1, size / max(height, width))
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    padding = (0, size - shape[1], 0, size - shape[0])

    def smaller(values: Tensor) -> Tensor:
        return functional.pad(functional.adaptive_avg_pool2d(values, shape), padding)

    image, reflectance, shading = map(smaller, (item.image, item.reflectance, item.shading))
    mask = smaller(item.mask[None].float())[0] == 1
    known = None if item.shading_known is None else smaller(item.shading_known.float()) == 1
    return DecomposedImage(image, reflectance, shading, mask, shading_known=known)


LMSE_WINDOW = 20  # pixels, of `candlelight.evaluation.intrinsic.LMSE`


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
        return on_device(self, str(device))


class TrainingRows:
    """Rows of a view as batches of ground truth.

    Args:
        data: images with their ground-truth decomposition.
    """

    def __init__(self, data: Decompositions) -> None:
        # Image, reflectance and shading as float32, three channels each, and the mask.
        self.kept = KeptRows(data, (3 * 4 + 1) * data[0].image.numel())
        numbers = {group: number for number, group in enumerate(dict.fromkeys(data.groups))}
        self.scenes = [numbers[group] for group in data.groups]

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
        items = [self.kept[row] for row in rows]
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


def regime_loss(
    regime: Regime,
    prediction: tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]],
    batch: TrainingBatch,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Compute the loss of a regime.

    Args:
        regime: "supervised" (`intrinsic_loss` of both parts), "multi-illumination" (`consistency_loss`, which
            reads the images alone) or "unsupervised" (`style_content_loss`, which reads the images, and the
            reflectance and shading of other scenes).
        prediction: reflectance and shading of the images, scene-linear.
        batch: the images, on the device of the prediction.
        generator: source of random numbers, on the CPU.
    """
    truth = batch.truth
    if regime == "supervised":
        reflectance, shading = prediction[0], truth.comparable(prediction[1])
        error = intrinsic_loss(reflectance, truth.reflectance, truth.mask)
        return (error + intrinsic_loss(shading, truth.shading.expand_as(shading), truth.mask)).mean()
    if regime == "multi-illumination":
        return consistency_loss(*prediction, truth.image, truth.mask, batch.scenes)
    assert batch.others is not None
    return style_content_loss(*prediction, truth.image, truth.mask, batch.others, generator)


@dataclass(frozen=True, eq=False)
class RegimeBatches:
    """The batches of each epoch under a regime.

    Attributes:
        reader: all rows.
        rows: rows to train on.
        how: regime, epochs, batch size and lights.
        seed: seed of the order, the mirroring and the rows of other scenes.
    """

    reader: TrainingRows
    rows: Sequence[int]
    how: RegimeTraining
    seed: int

    @cached_property
    def plan(self) -> list[list[list[int]]]:
        """The rows of each batch of each epoch."""
        orders = (epoch_stream(self.seed, "order", epoch) for epoch in range(self.how.epochs))
        return [
            draw_batches(self.reader.scenes, self.rows, self.how.batch_size, self.how.lights, order)
            for order in orders
        ]

    def read(self, epoch: int) -> Iterator[TrainingBatch]:
        """Read the batches of an epoch."""
        batches = self.reader.mirrored(self.plan[epoch], epoch_stream(self.seed, "mirrors", epoch))
        if self.how.regime != "unsupervised":
            return batches
        return self.reader.with_others(batches, self.rows, epoch_stream(self.seed, "others", epoch))


class _Decomposition(Task[TrainingBatch]):
    """Train a network to decompose images under a regime."""

    def __init__(
        self, network: IntrinsicNet, batches: RegimeBatches, held_out: Sequence[int], rate: float
    ) -> None:
        # In this order of memory a step takes about two thirds of the time on a CPU.
        self.network: IntrinsicNet = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._data, self._held_out = batches, held_out
        self.ends = range(1, batches.how.epochs + 1)
        self.optimisations = {"network": one_cycle(self.network, rate, sum(map(len, batches.plan)))}
        self._draws: torch.Generator

    def batches(self, part: int) -> Iterator[TrainingBatch]:
        self._draws = epoch_stream(self._data.seed, "losses", part)
        return self._data.read(part)

    def losses(self, batch: TrainingBatch) -> Losses:
        placed = batch.to(self.device)
        with mixed_precision(self.device):
            reflectance, shading = self.network(placed.truth.image)
        loss = regime_loss(self._data.how.regime, (reflectance.float(), shading.float()), placed, self._draws)
        return Losses({"network": loss}, {"loss": loss})

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        if not self._held_out:
            return {}
        found, size = [], self._data.how.batch_size
        for start in range(0, len(self._held_out), size):
            truth = on_device(self._data.reader.read(self._held_out[start : start + size]), str(self.device))
            reflectance, shading = self.network(truth.image)
            predicted = Decomposition(reflectance, shading, truth.mask.new_zeros(len(truth.image)))
            found.append(decomposition_errors(predicted, truth)["lmse"].double())
        return {"lmse": float(torch.cat(found).nanmean())}


@dataclass(frozen=True)
class History:
    """Learning curves, one value per epoch, lower is better.

    Attributes:
        training: mean loss over the steps of the epoch, during which the weights change; the losses of
            different regimes are not comparable.
        validation: mean LMSE (`candlelight.evaluation.intrinsic.LMSE`) on the held-out rows after each
            epoch; empty without them.
    """

    training: tuple[float, ...]
    validation: tuple[float, ...]


def train_intrinsic(
    data: Decompositions,
    *,
    seed: int,
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    device: str | torch.device = "cpu",
    state: str | Path | None = None,
    **options: Any,
) -> tuple[IntrinsicNet, History]:
    """Train a network to predict reflectance and shading.

    Adam minimises `regime_loss`, with a one-cycle learning rate; the images of a scene, a group of ``data``,
    are mirrored left to right with probability one half. Pixels without albedo, or with a value that is not
    finite, are ignored. On a GPU the network runs in bfloat16 where that is safe, and its loss in float32.

    Args:
        data: images with their ground-truth decomposition, all of one size (`SmallRows` scales them).
        seed: seed of the initial weights, the order, the mirroring and the losses. Equal seeds give equal
            weights on the same processor with the same number of threads, and nearly equal ones on a GPU.
        rows: row numbers to train on; all rows except ``validation`` by default.
        validation: row numbers that are held out. Choose whole groups (`hold_out` does so): a held-out frame
            that differs from a training frame only in its light does not test generalisation.
        device: torch device for training; the network stays there.
        state: file that keeps the state after each epoch. If it exists, training goes on from there, and ends
            with the weights of an uninterrupted run. The caller deletes it.
        options: regime, epochs, batch size, learning rate and size of the network, see `IntrinsicTraining`.

    Returns:
        The network in evaluation mode after the last epoch, and the learning curves.

    Raises:
        InputError: an option is out of range, a row does not exist or is in both lists, ground truth is
            missing, no pixel is known, images have several sizes or are too small to be scored, scenes are
            too few or have one light each although the regime needs more, ``state`` is of another training or
            of other data, or the training diverges: a loss or a weight becomes nan or infinite, and ``state``
            is deleted.

    Example:
        >>> from candlelight.evaluation.views import DataIdentity, DecomposedImage
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
    how = make_options(IntrinsicTraining, options)
    split = training, held_out = split_training(len(data), rows, validation)
    reader = TrainingRows(data)
    _check_scenes(how, [reader.scenes[row] for row in training])
    reader.check_pixels(training, held_out)
    batches = RegimeBatches(reader, training, how, seed)
    network = IntrinsicNet(width=how.width, seed=seed).to(device)
    settings = {**asdict(how), "seed": seed}
    kept = training_state(state, settings, data, split, lambda: reader.kept.sha256([*training, *held_out]))
    curves = train_task(_Decomposition(network, batches, held_out, how.rate), seed, kept)
    return network, History(tuple(curves["loss"]), tuple(curves["lmse"]))


def _check_scenes(how: IntrinsicTraining, scenes: Sequence[int]) -> None:
    """Refuse rows in which a regime finds nothing to learn from."""
    together = min(how.batch_size, how.lights, max(Counter(scenes).values()))
    if how.regime == "multi-illumination" and together < 2:
        raise InputError(
            "regime `multi-illumination`: expected scenes under several lights, and at least 2 of them in a "
            f"batch, got at most {together}; give other data, or larger `lights` and `batch_size`"
        )
