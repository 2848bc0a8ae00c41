"""Fine-tune a network so that a hidden layer follows a concept less, or more: Concept Distillation."""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.catalogue.record import make_options
from candlelight.evaluation.catalogue.training_options import ConceptMode, ConceptTuning
from candlelight.evaluation.concepts import columns_of, fit_cavs, layer_activations, mean_cav, pixel_loss
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth
from candlelight.evaluation.training.loop import Losses, Optimisation, Task, epoch_stream, train_task
from candlelight.evaluation.training.train_intrinsic import (
    RegimeBatches,
    TrainingBatch,
    TrainingRows,
    regime_loss,
)
from candlelight.evaluation.views import ConceptSets, Decompositions, Images, View
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError


def fit_prototypes(
    activations: Float[Tensor, "images dim"],
    count: int = 7,
    *,
    seed: int,
    previous: Float[Tensor, "count dim"] | None = None,
    momentum: float = 0.3,
) -> Float[Tensor, "count dim"]:
    """Compute prototypes: the centres of a K-means clustering of activations.

    Concept Distillation (Gupta et al. 2023) has 7 prototypes, and moves them with an exponential average
    while the network changes: ``(1 - momentum) * previous + momentum * centre``. The clustering starts at the
    previous prototypes, so that each moves towards the centre of its own cluster.

    Args:
        activations: one flattened row per image.
        count: number of prototypes K, from 1 to the number of images.
        seed: seed of the first clustering.
        previous: prototypes to move; None makes new ones.
        momentum: weight of the new centres, in (0, 1]; the authors' 0.3 by default.

    Returns:
        The prototypes, with the dtype and on the device of ``activations``, without a gradient.

    Raises:
        InputError: the count or the weight is out of range, activations are not finite, or shapes disagree.

    Example:
        >>> fit_prototypes(torch.tensor([[0.0], [2.0], [10.0], [10.0]]), 2, seed=0).sort(0).values
        tensor([[ 1.],
                [10.]])
    """
    check_shapes(activations=(activations, "images dim"))
    if previous is not None:
        check_shapes(activations=(activations, "images dim"), previous=(previous, "count dim"))
        count = len(previous)
    if not 1 <= count <= len(activations):
        raise InputError(f"expected 1 prototype to {len(activations)}, the number of images, got {count}")
    if not 0 < momentum <= 1:
        raise InputError(f"`momentum` must lie above 0 and at most at 1, got {momentum}")
    if not bool(activations.isfinite().all()):
        raise InputError("activations must be finite, got nan or inf; check the model on these images")
    from sklearn.cluster import KMeans  # here, because importing the losses should not import scikit-learn

    rows = activations.detach().double().cpu().numpy()
    if previous is None:
        clustering = KMeans(count, n_init=4, random_state=seed)
    else:
        clustering = KMeans(count, init=previous.detach().double().cpu().numpy(), n_init=1)
    centres = torch.from_numpy(clustering.fit(rows).cluster_centers_).to(activations)
    return centres if previous is None else torch.lerp(previous, centres, momentum)


def prototype_loss(
    activations: Float[Tensor, "batch dim"], prototypes: Float[Tensor, "count dim"]
) -> Float[Tensor, " batch"]:
    """Compute the mean squared distance of each image from the prototypes.

    ``mean over k and features of (f - p_k)^2``, the loss L_p of Concept Distillation (Gupta et al. 2023). It
    takes the place of the network's own loss, so that any layer can be probed.

    Blind to: the places of the prototypes, but for their mean. The loss is the squared distance from their
    mean plus a constant, so its gradient ``2 (f - mean) / dim`` is the same for all prototypes with one mean.

    Args:
        activations: one flattened row per image.
        prototypes: from `fit_prototypes`.

    Returns:
        Loss of each image, >= 0, twice differentiable.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> prototype_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
        tensor([1.5000])
    """
    check_shapes(activations=(activations, "batch dim"), prototypes=(prototypes, "count dim"))
    return (activations[:, None] - prototypes).square().mean((1, 2))


def concept_loss(
    gradient: Float[Tensor, "batch dim"],
    vectors: Float[Tensor, "vectors dim"],
    mode: ConceptMode = "desensitise",
) -> Float[Tensor, " batch"]:
    """Compute how far the gradient of each image points along concept vectors, whatever its length.

    ``|cos(g, v)|`` to desensitise and ``1 - |cos(g, v)|`` to sensitise (Gupta et al. 2023, Concept
    Distillation, sec. 3), with g the gradient of a loss by the activations of a layer. With several vectors
    the mean over them is taken, so that opposite effects of two vectors do not cancel.

    ``max(0, -cos(g, v))``, "one-sided", is not of the paper. It punishes the one sign that CSM counts: the
    concept lowers the loss. It is there to test that score: a network that learns the other sign gets a good
    score, and is not less sensitive.

    Blind to: the sign, but for "one-sided". Cosines that shrink towards 0 without a change of sign leave CSM
    as it is.

    Args:
        gradient: gradient of the loss of each image by the activations of a layer, flattened. Make it with
            ``create_graph=True`` to train the network through it.
        vectors: concept vectors of the same layer, such as `candlelight.evaluation.concepts.mean_cav`, of any
            length.
        mode: "desensitise", "sensitise" or "one-sided".

    Returns:
        Loss of each image in [0, 1], lower is better, twice differentiable where no cosine is 0. A gradient
        or vector of length 0 has cosine 0 and no derivative; nan stays nan.

    Raises:
        InputError: the shapes do not agree, or ``mode`` is misspelt.

    Example:
        >>> slopes = torch.tensor([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]])
        >>> concept_loss(slopes, torch.tensor([[5.0, 0.0]]))
        tensor([0.6000, 0.0000, 0.0000])
        >>> concept_loss(slopes, torch.tensor([[5.0, 0.0]]), "sensitise")
        tensor([0.4000, 1.0000, 1.0000])
    """
    check_choice("mode", mode, ConceptMode)
    check_shapes(gradient=(gradient, "batch dim"), vectors=(vectors, "vectors dim"))
    cosines = _unit(gradient) @ _unit(vectors.to(gradient)).T
    if mode == "one-sided":
        return (-cosines).clamp(min=0).mean(1)
    size = cosines.abs().mean(1)
    return size if mode == "desensitise" else 1 - size


def _unit(rows: Tensor) -> Tensor:
    """Scale rows to length 1; a row of zeros stays 0, and its derivative is 0 instead of nan."""
    zero = (rows == 0).all(1, keepdim=True)
    length = torch.linalg.vector_norm(rows.masked_fill(zero, 1), dim=1, keepdim=True)
    return rows.masked_fill(zero, 0) / length


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
    **options: Any,
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
        options: regime, epochs, learning rate, mode and weight of the concept loss, see `ConceptTuning`.

    Returns:
        A changed copy of the network in evaluation mode, and its curves.

    Raises:
        InputError: there are no concept sets, images differ in size, the layer cannot be read or does not
            influence the loss, an option is out of range or misspelt, or the training diverges.
    """
    how = make_options(ConceptTuning, options)
    if not len(data):
        raise InputError("expected training images, got none")
    reader = TrainingRows(data)
    rows = range(len(data))
    reader.check_pixels(rows, [])
    examples = reader.read([reader.scenes.index(scene) for scene in dict.fromkeys(reader.scenes)]).image
    sets, against = _read_sets(concepts), _read(negatives, range(len(negatives)))
    target = _Target(layer, sets, against, examples, how)
    tuned = copy.deepcopy(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    curves = train_task(_FineTuning(tuned, target, RegimeBatches(reader, rows, how, seed), how), seed)
    return tuned, TuningHistory(*(tuple(curves[name]) for name in ("regime", "concept", "accuracy")))


class _Target:
    """Concept vectors and prototypes of a layer, fitted anew while the network changes."""

    def __init__(
        self, layer: str, sets: list[Tensor], negatives: Tensor, examples: Tensor, how: ConceptTuning
    ) -> None:
        self.layer, self.sets, self.negatives, self.examples = layer, sets, negatives, examples
        self.how = how
        sizes = {tuple(images.shape[2:]) for images in (*sets, negatives, examples)}
        if len(sizes) > 1:
            raise InputError(
                f"expected training, concept and negative images of one size, got {sorted(sizes)}; scale them"
            )
        self.vectors: Tensor
        self.accuracy = math.nan
        self.prototypes: Tensor | None = None

    def fit(self, network: nn.Module, seed: int, epoch: int) -> None:
        """Fit a vector to each concept set, and the prototypes if the loss needs some."""
        against = self._activations(network, self.negatives)
        generator = epoch_stream(seed, "vectors", epoch)
        fits = [
            fit_cavs(self._activations(network, images), against, generator=generator, runs=self.how.runs)
            for images in self.sets
        ]
        if not any(bool(cavs.norm.any()) for cavs in fits):
            raise InputError(
                f"layer `{self.layer}` has equal activations for all concept images and negatives, so there "
                "is no concept vector; choose another layer"
            )
        self.vectors = torch.stack([mean_cav(cavs) for cavs in fits]).float()
        self.accuracy = float(torch.stack([cavs.accuracy.mean() for cavs in fits]).mean())
        if self.how.probed == "prototypes":
            rows = self._activations(network, self.examples)
            count = self.how.prototypes
            self.prototypes = fit_prototypes(rows, count, seed=seed, previous=self.prototypes)

    def _activations(self, network: nn.Module, images: Tensor) -> Tensor:
        return columns_of(layer_activations(network, [self.layer], images)[self.layer], slice(None))


class _FineTuning(Task[TrainingBatch]):
    """Lower the loss of a regime and the concept loss at a layer."""

    def __init__(
        self, network: nn.Module, target: _Target, batches: RegimeBatches, how: ConceptTuning
    ) -> None:
        self.network, self._target, self._data, self._how = network, target, batches, how
        self.ends = range(1, how.epochs + 1)
        self.optimisations = {"network": Optimisation(network, how.rate, clip=True)}
        self._draws: torch.Generator

    def batches(self, part: int) -> Iterator[TrainingBatch]:
        if part % self._how.refit == 0:
            self._target.fit(self.network, self._data.seed, part)
        self._draws = epoch_stream(self._data.seed, "losses", part)
        return self._data.read(part)

    def losses(self, batch: TrainingBatch) -> Losses:
        outputs: list[Tensor] = []
        module = self.network.get_submodule(self._target.layer)
        hook = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
        try:
            prediction = self.network(batch.truth.image)
        finally:
            hook.remove()
        original = regime_loss(self._how.regime, prediction, batch, self._draws)
        gradient = self._gradient(self._probed(prediction, outputs[0], batch), outputs)
        concept = concept_loss(gradient.flatten(1), self._target.vectors, self._how.mode).mean()
        return Losses(
            {"network": original + self._how.weight * concept}, {"regime": original, "concept": concept}
        )

    def validate(self) -> dict[str, float]:
        return {"accuracy": self._target.accuracy}

    def _probed(self, prediction: tuple[Tensor, Tensor], output: Tensor, batch: TrainingBatch) -> Tensor:
        if self._target.prototypes is None:
            return _pixel_losses(prediction, batch.truth)
        return prototype_loss(output.flatten(1), self._target.prototypes)

    def _gradient(self, probed: Tensor, outputs: list[Tensor]) -> Tensor:
        """Compute the gradient of the probed loss by the layer, differentiable by the weights."""
        if outputs[0].requires_grad:
            (gradient,) = torch.autograd.grad(probed.sum(), outputs, create_graph=True, allow_unused=True)
            if gradient is not None:
                return gradient
        raise InputError(
            f"no weight influences the loss through layer `{self._target.layer}`; choose a layer of a branch"
        )


def _pixel_losses(prediction: tuple[Tensor, Tensor], truth: GroundTruth) -> Float[Tensor, " batch"]:
    reflectance, shading = prediction
    pairs = ((reflectance, truth.reflectance), (truth.comparable(shading), truth.shading.expand_as(shading)))
    return torch.stack([pixel_loss(one, other, truth.mask, align_scale=True) for one, other in pairs]).sum(0)


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
