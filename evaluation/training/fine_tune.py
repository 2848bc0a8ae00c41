"""Fine-tune a network so that a hidden layer follows a concept less, or more: Concept Distillation."""

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.concepts import columns_of, fit_cavs, layer_activations, mean_cav, pixel_loss
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth
from candlelight.evaluation.run.batches import check_srgb_image
from candlelight.evaluation.run.named_models import decode
from candlelight.evaluation.training.concept_losses import (
    ConceptMode,
    concept_loss,
    fit_prototypes,
    prototype_loss,
)
from candlelight.evaluation.training.intrinsic_data import TrainingBatch, TrainingRows, draw_batches
from candlelight.evaluation.training.loop import epoch_stream
from candlelight.evaluation.training.train_intrinsic import Regime, regime_loss
from candlelight.evaluation.views import ConceptSets, Decompositions, Images, View
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bars import progress_bar

ProbedLoss = Literal["pixels", "prototypes"]


@dataclass(frozen=True)
class TuningHistory:
    """Curves of a fine-tuning, one value per epoch.

    Attributes:
        regime: mean of the original loss.
        concept: mean of `concept_loss`, before it is weighted.
        accuracy: mean held-out accuracy of the concept vectors that the epoch used; 0.5 is chance.
    """

    regime: tuple[float, ...]
    concept: tuple[float, ...]
    accuracy: tuple[float, ...]


def fine_tune(
    network: nn.Module,
    data: Decompositions,
    concepts: ConceptSets,
    negatives: Images,
    *,
    layer: str,
    seed: int,
    mode: ConceptMode = "desensitise",
    weight: float = 1.0,
    epochs: int = 4,
    rate: float = 3e-4,
    probed: ProbedLoss = "pixels",
    regime: Regime = "supervised",
    refit: int = 1,
    runs: int = 10,
    prototypes: int = 7,
    batch_size: int = 6,
    lights: int = 2,
) -> tuple[nn.Module, TuningHistory]:
    """Fine-tune a network with ``regime_loss + weight * concept_loss`` at one layer.

    The loss of Concept Distillation (Gupta, Saini and Narayanan, NeurIPS 2023, arXiv 2311.15303) without its
    teacher: the concept vectors are those of the network itself. For each concept set one vector is the mean
    over ``runs`` linear SVMs against the negatives (`fit_cavs`, `mean_cav`). All vectors are fitted anew on
    the current network every ``refit`` epochs, because a network that has changed represents the concept
    along another direction. Vectors are kept whatever their accuracy; the authors drop those below 0.7.

    The gradient in the concept loss is that of one of two losses. "pixels" takes the loss of CSM, the squared
    error of reflectance and of shading after the best scale (`pixel_loss`; a layer of one branch gets the
    gradient of this branch alone): the error learns not to point along the concept. "prototypes" takes the
    squared distance from K-means centres of the layer (`prototype_loss`, the authors' choice): activations
    learn not to differ from their mean along the concept. The clustered images are one of each scene, and
    they are clustered again with the vectors. The gradient of the regime's own loss is not offered: most of
    it are signs of differences between neighbours, nearly orthogonal to vectors of light from the start.

    Adam with a constant rate minimises the sum over all weights of the network; scenes are mirrored and
    gradients clipped as by `train_intrinsic`.

    Blind to: sensitivity beyond the layer. A concept that no longer shows in one layer may reach the output
    around it, through skip connections. Fine-tuning changes scores even with weight 0: compare with that
    control. docs/concept-loss.md has a trial.

    Args:
        network: maps scene-linear images to reflectance and shading, on the CPU; it is not changed.
        data: images with their ground-truth decomposition, all of one size.
        concepts: concept sets of images of the same size.
        negatives: unrelated images of the same size, at least 2.
        layer: hidden layer whose gradient is trained; of the reflectance branch for illumination, of the
            shading branch for albedo.
        seed: seed of the order, the mirroring, the losses, the vectors and the prototypes. Equal seeds give
            equal weights on the same processor with the same number of threads.
        mode: "desensitise", "sensitise" or "one-sided", see `concept_loss`.
        weight: weight of the concept loss; 0 trains with the original loss alone, as a control.
        epochs: passes over the data.
        rate: learning rate.
        probed: "pixels" or "prototypes".
        regime: original loss, see `regime_loss`; "pixels" reads the ground truth under every regime.
        refit: epochs between two fits of the vectors and prototypes.
        runs: classifiers for each vector.
        prototypes: number of prototypes; unused by "pixels".
        batch_size: images per step.
        lights: most images of one scene in a step.

    Returns:
        A changed copy of the network in evaluation mode, and its curves.

    Raises:
        InputError: there are no concept sets, images differ in size, the layer cannot be read or does not
            influence the loss, a number is out of range, an option is misspelt, or the training diverges.
    """
    check_choice("mode", mode, ConceptMode)
    check_choice("probed", probed, ProbedLoss)
    check_choice("regime", regime, Regime)
    _check_numbers(rate, weight, epochs, refit, runs, batch_size, lights)
    if not len(data):
        raise InputError("expected training images, got none")
    reader = TrainingRows(data)
    rows = range(len(data))
    reader.check_pixels(rows, [])
    examples = reader.read([reader.scenes.index(scene) for scene in dict.fromkeys(reader.scenes)]).image
    target = _Target(layer, _read_sets(concepts), _read(negatives, range(len(negatives))), examples)
    tuned = copy.deepcopy(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(tuned.parameters(), lr=rate)
    curves = []
    for epoch in progress_bar(range(epochs), desc="fine-tune", unit="epoch"):
        if epoch % refit == 0:
            target.fit(tuned, seed, epoch, runs, prototypes if probed == "prototypes" else None)
        draws = epoch_stream(seed, "losses", epoch)
        plan = draw_batches(reader.scenes, rows, batch_size, lights, epoch_stream(seed, "order", epoch))
        batches: Iterable[TrainingBatch] = reader.mirrored(plan, epoch_stream(seed, "mirrors", epoch))
        if regime == "unsupervised":
            batches = reader.with_others(batches, rows, epoch_stream(seed, "others", epoch))
        steps = []
        for batch in batches:
            original, concept = _losses(tuned, target, batch, regime, mode, draws)
            steps.append((original.item(), concept.item()))
            _step(tuned, optimiser, original + weight * concept)
        means = np.mean(steps, 0).tolist()
        if not math.isfinite(sum(means)):
            raise InputError(f"the fine-tuning diverged in epoch {epoch + 1}; give a smaller `rate`")
        curves.append((*means, target.accuracy))
    return tuned.eval(), TuningHistory(*zip(*curves, strict=True))


class _Target:
    """Concept vectors and prototypes of a layer, fitted anew while the network changes."""

    def __init__(self, layer: str, sets: list[Tensor], negatives: Tensor, examples: Tensor) -> None:
        self.layer, self.sets, self.negatives, self.examples = layer, sets, negatives, examples
        sizes = {tuple(images.shape[2:]) for images in (*sets, negatives, examples)}
        if len(sizes) > 1:
            raise InputError(
                f"expected training, concept and negative images of one size, got {sorted(sizes)}; scale them"
            )
        self.vectors: Tensor
        self.accuracy = math.nan
        self.prototypes: Tensor | None = None

    def fit(self, network: nn.Module, seed: int, epoch: int, runs: int, prototypes: int | None) -> None:
        """Fit a vector to each concept set, and the prototypes if their number is not None."""
        against = self._activations(network, self.negatives)
        generator = epoch_stream(seed, "vectors", epoch)
        fits = [
            fit_cavs(self._activations(network, images), against, generator=generator, runs=runs)
            for images in self.sets
        ]
        if not any(bool(cavs.norm.any()) for cavs in fits):
            raise InputError(
                f"layer `{self.layer}` has equal activations for all concept images and negatives, so there "
                "is no concept vector; choose another layer"
            )
        self.vectors = torch.stack([mean_cav(cavs) for cavs in fits]).float()
        self.accuracy = float(torch.stack([cavs.accuracy.mean() for cavs in fits]).mean())
        if prototypes is not None:
            rows = self._activations(network, self.examples)
            self.prototypes = fit_prototypes(rows, prototypes, seed=seed, previous=self.prototypes)

    def _activations(self, network: nn.Module, images: Tensor) -> Tensor:
        return columns_of(layer_activations(network, [self.layer], images)[self.layer], slice(None))


def _losses(
    network: nn.Module,
    target: _Target,
    batch: TrainingBatch,
    regime: Regime,
    mode: ConceptMode,
    draws: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Compute the original loss and the concept loss of a batch, both differentiable by the weights."""
    outputs: list[Tensor] = []
    module = network.get_submodule(target.layer)
    hook = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    try:
        prediction = network(batch.truth.image)
    finally:
        hook.remove()
    original = regime_loss(regime, prediction, batch, draws)
    if target.prototypes is None:
        probed = _pixel_losses(prediction, batch.truth)
    else:
        probed = prototype_loss(outputs[0].flatten(1), target.prototypes)
    gradient = None
    if outputs[0].requires_grad:
        (gradient,) = torch.autograd.grad(probed.sum(), outputs, create_graph=True, allow_unused=True)
    if gradient is None:
        raise InputError(
            f"no weight influences the loss through layer `{target.layer}`; choose a layer of a branch"
        )
    return original, concept_loss(gradient.flatten(1), target.vectors, mode).mean()


def _pixel_losses(prediction: tuple[Tensor, Tensor], truth: GroundTruth) -> Float[Tensor, " batch"]:
    reflectance, shading = prediction
    pairs = (
        (reflectance, truth.reflectance),
        (truth.comparable(shading), truth.shading.expand_as(shading)),
    )
    return torch.stack([pixel_loss(one, other, truth.mask, align_scale=True) for one, other in pairs]).sum(0)


def _step(network: nn.Module, optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimiser.step()


def _read_sets(concepts: ConceptSets) -> list[Tensor]:
    if not concepts.sets:
        raise InputError("expected concept sets, got none")
    return [_read(concepts, chosen.rows) for chosen in concepts.sets]


def _read(images: View[Tensor], rows: Sequence[int]) -> Float[Tensor, "images 3 height width"]:
    """Read images of one size, scene-linear."""
    if not rows:
        raise InputError("expected at least 2 images in each concept set and 2 negatives, got none")
    linear = [decode(check_srgb_image(images[row])) for row in rows]
    if len(sizes := {tuple(image.shape[1:]) for image in linear}) != 1:
        raise InputError(f"expected images of one size, got {sorted(sizes)} (height, width)")
    return torch.stack(linear)


def _check_numbers(rate: float, weight: float, *counts: int) -> None:
    if min(counts) < 1:
        raise InputError("`epochs`, `refit`, `runs`, `batch_size` and `lights` must be at least 1")
    if not 0 < rate < math.inf:
        raise InputError(f"`rate` must be above 0 and finite, got {rate}")
    if not 0 <= weight < math.inf:
        raise InputError(f"`weight` must be at least 0 and finite, got {weight}")
