"""Train intrinsic image networks: supervised, on several illuminations, or unsupervised."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from candlelight.evaluation.intrinsic.intrinsic_records import decomposition_errors
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.run.named_models import Decomposition
from candlelight.evaluation.training.concept_losses import style_content_loss
from candlelight.evaluation.training.intrinsic_data import (
    TrainingBatch,
    TrainingRows,
    draw_batches,
    log_image,
    masked_means,
    masked_pairs,
    mean_difference,
    pixel_steps,
    reconstruction_error,
)
from candlelight.evaluation.training.loop import (
    Optimisation,
    TrainingState,
    describe_rows,
    epoch_stream,
    split_training,
)
from candlelight.evaluation.views import Decompositions
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bars import progress_bar


def intrinsic_loss(
    prediction: Float[Tensor, "batch 3 height width"],
    target: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the training loss of one output: a half scale-invariant log error and a gradient error.

    ``mean(d^2) - mean(d)^2 / 2 + mean(|d_x|) + mean(|d_y|)`` with ``d = log(p + 0.01) - log(t + 0.01)`` and
    its differences d_x, d_y between neighbours. The first two terms are the scale-invariant loss of Eigen et
    al. 2014, eq. 4; the absolute gradient term keeps edges sharp.

    Args:
        prediction: predicted reflectance or shading, scene-linear, >= 0.
        target: ground truth, scene-linear, >= 0.
        mask: pixels that are scored.

    Returns:
        One loss per sample, >= 0, lower is better, differentiable; 0 for an empty mask.

    Example:
        >>> import torch
        >>> image = torch.rand(1, 3, 4, 4)
        >>> intrinsic_loss(image, image, torch.ones(1, 4, 4, dtype=torch.bool))
        tensor([0.])
    """
    error = log_image(prediction) - log_image(target)
    square, mean = masked_means(error.square(), mask), masked_means(error, mask)
    return square - mean.square() / 2 + mean_difference(error, mask)


# Weights of the terms. With these, the truth of rendered scenes has a lower loss than a constant reflectance,
# a constant shading, and the median image over the lights.
_RECONSTRUCTION, _CONSISTENCY, _SHADING, _SHADING_CHROMA, _REFLECTANCE = 2.0, 1.0, 1.0, 5.0, 1.0
# Difference of log chroma between neighbours above which their reflectances may differ.
_SAME_CHROMA = 0.03


def consistency_loss(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
    scenes: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """Compute a loss that needs images of scenes under several lights, but no ground truth.

    The sum of five mean absolute values: the log error of reflectance x shading against the image; the
    difference of log reflectance from its mean over the lights of the scene; the differences of gray
    log (image / reflectance) between neighbours; those of its chroma; and those of log reflectance between
    neighbours of equal chroma. For one reflectance of a scene the third term has its minimum where gradients
    of log reflectance are the medians of those of the log images over the lights, the estimator of Weiss
    2001. The terms are those of Li and Snavely, Learning Intrinsic Image Decomposition from Watching the
    World, CVPR 2018, in the simplest form.

    Args:
        reflectance: predicted, scene-linear, >= 0.
        shading: predicted, scene-linear, >= 0.
        image: scene-linear.
        mask: pixels that count.
        scenes: number of the scene of each image; images of one scene differ in the light alone.

    Returns:
        The loss, >= 0, lower is better, differentiable.

    Example:
        >>> gray = torch.full((2, 3, 4, 4), 0.5)
        >>> everywhere = torch.ones(2, 4, 4, dtype=torch.bool)
        >>> consistency_loss(gray, torch.ones_like(gray), gray, everywhere, torch.tensor([7, 7]))
        tensor(0.)
    """
    log_reflectance, log_pixels = log_image(reflectance), log_image(image)
    left = log_pixels - log_reflectance
    gray_left = left.mean(1, keepdim=True)
    together = scene_means(log_reflectance, scenes)
    errors = (
        _RECONSTRUCTION * reconstruction_error(reflectance, shading, image, mask)
        + _CONSISTENCY * masked_means((log_reflectance - together).abs(), mask)
        + _SHADING * mean_difference(gray_left, mask)
        + _SHADING_CHROMA * mean_difference(left - gray_left, mask)
        + _REFLECTANCE * _steps_in_equal_chroma(log_reflectance, log_pixels, mask, scenes)
    )
    return errors.mean()


def scene_means(
    values: Float[Tensor, "batch channels height width"], scenes: Int[Tensor, " batch"]
) -> Float[Tensor, "batch channels height width"]:
    """Replace the values of each image by their mean over the images of its scene.

    Example:
        >>> values = torch.tensor([1.0, 3.0, 8.0]).reshape(3, 1, 1, 1)
        >>> scene_means(values, torch.tensor([4, 4, 0])).flatten()
        tensor([2., 2., 8.])
    """
    same = (scenes[:, None] == scenes).to(values)
    return torch.einsum("ij,jchw->ichw", same / same.sum(1, keepdim=True), values)


def _steps_in_equal_chroma(
    log_reflectance: Tensor, log_pixels: Tensor, mask: Tensor, scenes: Tensor
) -> Tensor:
    """Measure differences of reflectance where the mean chroma over the lights has no edge."""
    chroma = scene_means(log_pixels - log_pixels.mean(1, keepdim=True), scenes)
    total = log_reflectance.new_zeros(len(mask))
    for step, edge, pairs in zip(
        pixel_steps(log_reflectance), pixel_steps(chroma), masked_pairs(mask), strict=True
    ):
        same = torch.exp(-edge.square().sum(1, keepdim=True) / (2 * _SAME_CHROMA**2))
        total = total + masked_means(same * step.abs(), pairs)
    return total


Regime = Literal["supervised", "multi-illumination", "unsupervised"]


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
    regime: Regime = "supervised",
    seed: int,
    epochs: int = 20,
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    batch_size: int = 6,
    lights: int = 2,
    rate: float = 3e-3,
    width: int = 10,
    device: str | torch.device = "cpu",
    state: str | Path | None = None,
) -> tuple[IntrinsicNet, History]:
    """Train a network to predict reflectance and shading.

    Adam minimises `regime_loss`, with a one-cycle learning rate; the images of a scene, a group of ``data``,
    are mirrored left to right with probability one half. Pixels without albedo, or with a value that is not
    finite, are ignored. On a GPU the network runs in bfloat16 where that is safe, and its loss in float32.

    Args:
        data: images with their ground-truth decomposition, all of one size (`SmallRows` scales them).
        regime: "supervised"; "multi-illumination", which reads only images, of scenes under several lights;
            or "unsupervised", which reads the images, and reflectance and shading of other scenes.
        seed: seed of the initial weights, the order, the mirroring and the losses. Equal seeds give equal
            weights on the same processor with the same number of threads, and nearly equal ones on a GPU.
        epochs: passes over the training rows.
        rows: row numbers to train on; all rows except ``validation`` by default.
        validation: row numbers that are held out. Choose whole groups (`hold_out` does so): a held-out frame
            that differs from a training frame only in its light does not test generalisation.
        batch_size: images per step.
        lights: most images of one scene in a step.
        rate: largest learning rate; with twice the default the output may become constant.
        width: channels of the network at full resolution, see `IntrinsicNet`.
        device: torch device for training; the network stays there.
        state: file that keeps the state after each epoch. If it exists, training goes on from there, and ends
            with the weights of an uninterrupted run. The caller deletes it.

    Returns:
        The network in evaluation mode after the last epoch, and the learning curves.

    Raises:
        InputError: a row does not exist or is in both lists, ground truth is missing, no pixel is known,
            images have several sizes or are too small to be scored, a number is below 1, ``rate`` is not
            finite and above 0, scenes are too few or have one light each although the regime needs more,
            ``state`` is of another training or of other data, or the training diverges: a loss or a weight
            becomes nan or infinite, and ``state`` is deleted.

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
    check_choice("regime", regime, Regime)
    _check_numbers(epochs=epochs, batch_size=batch_size, lights=lights)
    if not 0 < rate < math.inf:
        raise InputError(f"`rate` must be above 0 and finite, got {rate}")
    training, held_out = split_training(len(data), rows, validation)
    reader = TrainingRows(data)
    _check_scenes(regime, [reader.scenes[row] for row in training], batch_size, lights)
    reader.check_pixels(training, held_out)
    plan = [
        draw_batches(reader.scenes, training, batch_size, lights, epoch_stream(seed, "order", epoch))
        for epoch in range(epochs)
    ]
    run = _Run(regime, IntrinsicNet(width=width, seed=seed).to(device), rate, sum(map(len, plan)))
    used: dict[str, Any] = {"regime": regime, "seed": seed, "epochs": epochs, "batch_size": batch_size}
    used |= {"lights": lights, "rate": rate, "width": width}
    used |= describe_rows(data, training, held_out)
    used["content of the data"] = None if state is None else reader.sha256([*training, *held_out])
    kept = TrainingState(None if state is None else Path(state), used)
    losses, errors = run.restore(kept.read())
    bar = progress_bar(plan, desc="train", unit="epoch", initial=len(losses))
    for epoch in range(len(losses), epochs):
        batches = reader.mirrored(plan[epoch], epoch_stream(seed, "mirrors", epoch))
        if regime == "unsupervised":
            batches = reader.with_others(batches, training, epoch_stream(seed, "others", epoch))
        draws = epoch_stream(seed, "losses", epoch)
        losses.append(float(np.mean([run.step(batch, draws) for batch in batches])))
        run.optimisation.check_finite(losses[-1], f"epoch {epoch + 1}", kept)
        if held_out:
            errors.append(run.mean_lmse(reader, held_out, batch_size))
        kept.write(run.optimisation.state() | {"losses": losses, "errors": errors})
        bar.set_postfix(loss=losses[-1], refresh=False, **({"lmse": errors[-1]} if held_out else {}))
        bar.update()
    bar.close()
    return run.network.eval(), History(tuple(losses), tuple(errors))


class _Run:
    """A network and its optimisation under a regime."""

    def __init__(self, regime: Regime, network: IntrinsicNet, rate: float, steps: int) -> None:
        # In this order of memory a step takes about two thirds of the time on a CPU.
        self.regime, self.network = regime, network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.device = next(network.parameters()).device
        self.optimisation = Optimisation(self.network, rate, steps)

    def restore(self, state: dict[str, Any] | None) -> tuple[list[float], list[float]]:
        """Restore a state, and return its learning curves, which are empty without a state."""
        if state is None:
            return [], []
        self.optimisation.restore(state)
        return list(state["losses"]), list(state["errors"])

    def step(self, batch: TrainingBatch, draws: torch.Generator) -> float:
        """Take one step, and return its loss."""
        placed = batch.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            reflectance, shading = self.network(placed.truth.image)
        loss = regime_loss(self.regime, (reflectance.float(), shading.float()), placed, draws)
        self.optimisation.step(loss)
        return loss.item()

    @torch.no_grad()
    def mean_lmse(self, reader: TrainingRows, rows: list[int], batch_size: int) -> float:
        found = []
        for start in range(0, len(rows), batch_size):
            truth = reader.read(rows[start : start + batch_size])
            reflectance, shading = self.network(truth.image.to(self.device))
            predicted = Decomposition(
                reflectance.cpu(), shading.cpu(), truth.mask.new_zeros(len(truth.image))
            )
            found.append(decomposition_errors(predicted, truth)["lmse"].double())
        return float(torch.cat(found).nanmean())


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise InputError(f"`{name}` must be at least 1, got {value}")


def _check_scenes(regime: Regime, scenes: Sequence[int], batch_size: int, lights: int) -> None:
    """Refuse rows in which a regime finds nothing to learn from."""
    together = min(batch_size, lights, max(Counter(scenes).values()))
    if regime == "multi-illumination" and together < 2:
        raise InputError(
            "regime `multi-illumination`: expected scenes under several lights, and at least 2 of them in a "
            f"batch, got at most {together}; give other data, or larger `lights` and `batch_size`"
        )
