"""The branches of a decomposition, reflectance and shading, of a model or planted from the ground truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jaxtyping import Bool, Float, Float32
from torch import Tensor

from candlelight.evaluation.concepts.activations import output_gradient, pixel_loss
from candlelight.evaluation.concepts.probe import (
    LayerRows,
    Probe,
    hidden_gradients,
    hidden_rows,
    linear_images,
    probe_rows,
    resize_linear,
)
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BRANCHES
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, PlantedFault, stack_ground_truth
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.batches import Batch
from candlelight.evaluation.run.evaluate import on_device
from candlelight.evaluation.run.model_outputs import PREDICTED_LAYERS, checked_decomposition
from candlelight.evaluation.run.named_models import predict_decomposition
from candlelight.evaluation.run.predictions import Predictions
from candlelight.evaluation.views import DecomposedImage, Decompositions, Images
from candlelight.evaluation.views.view_colours import fill_unknown
from candlelight.loaders.errors import InputError, argument

_WHOLE = 0.999  # share of a pixel that is covered if all of it is, up to rounding
BranchLayers = tuple[str, str] | None  # of reflectance and shading; None for the outputs


def branch_activations(probe: Probe, layers: BranchLayers, images: Images) -> LayerRows:
    """Compute the activations of both branches, float32, on the device of the probe.

    A network stops after the last layer that is read. `branch_gradients` refuses layers that run twice.

    Args:
        probe: the model, and how it is read.
        layers: hidden layer of the reflectance and of the shading branch; None for the outputs.
        images: a view whose items are images, sRGB-encoded.

    Returns:
        Rows by branch.

    Raises:
        InputError: see `probe_rows`; a layer cannot be read, or an output is not finite.
    """

    def read(batch: Batch[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        image = linear_images(probe, batch)
        rows: tuple[Tensor, ...]
        if layers is None:
            rows = _outputs(probe, batch.ids, image)
        else:
            rows = hidden_rows(probe, layers, image, batch.ids)
        return image, dict(zip(BRANCHES, rows, strict=True))

    return probe_rows(probe, images, read)


def branch_gradients(probe: Probe, layers: BranchLayers, data: Decompositions) -> dict[str, LayerRows]:
    """Compute the gradients of the pixel loss of both branches at all rows, float32, for each alignment.

    The loss of the reflectance branch uses the true reflectance, the loss of the shading branch the true
    shading; both use the pixels inside the mask. Images are clipped at 1, like the concept images.

    Args:
        probe: the model, and how it is read.
        layers: as in `branch_activations`.
        data: images with their ground-truth decomposition.

    Returns:
        For each alignment of the loss, rows by branch.

    Raises:
        InputError: see `probe_rows`; a branch's loss does not depend on its layer, or an output or a gradient
            is not finite.
    """
    names = [(branch, alignment) for alignment in ALIGNMENTS for branch in BRANCHES]

    def read(batch: Batch[DecomposedImage]) -> tuple[Tensor, dict[str, Tensor]]:
        truth = _prepare(on_device(stack_ground_truth(batch.items), probe.device), probe)
        if layers is None:
            found = _output_gradients(truth, *_outputs(probe, batch.ids, truth.image))
        else:
            found = _hidden_gradients(probe, layers, batch.ids, truth)
        return truth.image, dict(zip(map(" ".join, names), found, strict=True))

    rows, size = probe_rows(probe, data, read, lambda item: item.image)
    return {
        alignment: LayerRows({branch: rows[f"{branch} {alignment}"] for branch in BRANCHES}, size)
        for alignment in ALIGNMENTS
    }


def _outputs(probe: Probe, ids: Sequence[str], image: Tensor) -> tuple[Tensor, Tensor]:
    reflectance, shading, failed, _ = predict_decomposition(probe.named, ids, image, None, probe.device)
    _refuse_failed(probe, ids, failed)
    return reflectance.float(), shading.float()


def _refuse_failed(probe: Probe, ids: Sequence[str], failed: Bool[Tensor, " batch"]) -> None:
    if bool(failed.any()):
        first = ids[int(failed.nonzero()[0])]
        raise InputError(
            f"model `{probe.name}` gives nan, inf or nothing for `{first}`: concept activation vectors need "
            "a finite output for every image"
        )


def _targets(truth: GroundTruth) -> tuple[Tensor, Tensor]:
    return truth.reflectance, truth.shading.expand_as(truth.reflectance)


def _output_gradients(
    truth: GroundTruth, reflectance: Float[Tensor, "batch 3 h w"], shading: Float[Tensor, "batch 3 h w"]
) -> list[Tensor]:
    """Compute the gradients of one batch by both outputs, for each alignment, in closed form."""
    found = []
    for alignment in ALIGNMENTS:
        aligned = alignment == ALIGNMENTS[0]
        targets = _targets(truth)
        found.append(output_gradient(reflectance, targets[0], truth.mask, aligned))
        filled = output_gradient(truth.comparable(shading), targets[1], truth.mask, aligned)
        found.append(_before_filling(filled.reshape(shading.shape), truth.shading_known))
    return found


def _hidden_gradients(
    probe: Probe, layers: tuple[str, str], ids: Sequence[str], truth: GroundTruth
) -> list[Tensor]:
    """Compute the gradients of one batch by a layer of each branch, for each alignment."""

    def gradient(branch: int, aligned: bool) -> Tensor:
        target = _targets(truth)[branch]

        def loss(output: object, image: Tensor, rows: slice) -> Tensor:
            *parts, failed = checked_decomposition(output, image, probe.name)
            _refuse_failed(probe, ids[rows], failed)
            part = parts[branch]
            if branch and truth.shading_known is not None:
                part = fill_unknown(part, truth.shading_known[rows].expand_as(part))
            return pixel_loss(part, target[rows], truth.mask[rows], aligned)

        return hidden_gradients(probe, layers[branch], truth.image, ids, loss)

    return [
        gradient(branch, alignment == ALIGNMENTS[0])
        for alignment in ALIGNMENTS
        for branch in range(len(BRANCHES))
    ]


def _before_filling(gradient: Tensor, known: Tensor | None) -> Tensor:
    """Turn a gradient by the result of `fill_unknown` into the gradient by its argument."""
    if known is None:
        return gradient
    nothing = gradient.new_zeros(())
    filled = gradient.where(~known, nothing).sum(1, keepdim=True) / known.sum(1, keepdim=True).clamp(min=1)
    return (gradient + filled).where(known, nothing)


def _prepare(truth: GroundTruth, probe: Probe) -> GroundTruth:
    """Resize images and ground truth; pixels that mix object and background are removed from the mask."""
    covered = resize_linear(truth.mask[:, None].float(), probe.size)[:, 0]
    resized = replace(
        truth,
        image=resize_linear(truth.image.clamp(max=1), probe.size),
        reflectance=resize_linear(truth.reflectance, probe.size),
        shading=resize_linear(truth.shading, probe.size),
        shading_known=None
        if truth.shading_known is None
        else resize_linear(truth.shading_known.float(), probe.size) > _WHOLE,
        mask=covered > _WHOLE,
    )
    if not bool(resized.mask.flatten(1).any(1).all()):
        raise InputError(
            f"a test frame has no pixel with an albedo above 0; remove it, or use a larger {argument('size')}"
        )
    return resized


FAULTS = {
    "ideal": PlantedFault(),
    "ideal, 1 % noise": PlantedFault(noise=0.01),
    "ideal, 10 % noise": PlantedFault(noise=0.1),
    "half leak": PlantedFault(noise=0.01, leak=0.5),
    "full leak": PlantedFault(noise=0.01, leak=1),
    "constant": PlantedFault(constant=True),
}


@dataclass(frozen=True, eq=False)
class PlantedDecompositions(Predictions):
    """Predictions made of the ground truth, which is read from views by id."""

    rows: Mapping[str, tuple[Decompositions, int]]
    fault: PlantedFault

    def read(
        self, name: str, layers: Sequence[str] = PREDICTED_LAYERS
    ) -> dict[str, Float32[Tensor, "3 height width"]]:
        """Make the decomposition of one image; equal ids give equal noise."""
        view, row = self.rows[name]
        truth = view[row]
        made = self.fault(truth.reflectance, truth.shading.expand_as(truth.reflectance), name)
        return {layer: one for layer, one in zip(PREDICTED_LAYERS, made, strict=True) if layer in layers}


def planted_decompositions(views: Sequence[Decompositions]) -> dict[str, NamedModel]:
    """Make decompositions with known faults for CSM, from the ground truth of all its images.

    With reflectance R, shading S and standard normal noise n in each pixel and channel:

    - "ideal": R and S. No gradient, so all sensitivities are 0.
    - "ideal, 1 % noise", "ideal, 10 % noise": R (1 + p n) and S (1 + p n).
    - "half leak": R S^0.5 and S R^0.5, with 1 % of noise.
    - "full leak": R S and S R, with 1 % of noise: both branches are the image.
    - "constant": 0.5 in both branches. No vectors, so all sensitivities are 0.

    Args:
        views: ground truth of the test frames, of all concept and control sets, and of the negatives.

    Raises:
        InputError: an id is in two views.

    Example:
        >>> list(planted_decompositions([]))
        ['ideal', 'ideal, 1 % noise', 'ideal, 10 % noise', 'half leak', 'full leak', 'constant']
    """
    rows: dict[str, tuple[Decompositions, int]] = {}
    for view in views:
        for row, identifier in enumerate(view.ids):
            if identifier in rows:
                raise InputError(
                    f"planted decompositions: `{identifier}` is in two data sets; render one of them with "
                    "another seed"
                )
            rows[identifier] = view, row
    files = {name: {"": Path()} for name in rows}  # the ids; nothing is read from them
    return {
        name: NamedModel(
            ModelIdentity(name, "planted"),
            PlantedDecompositions(Path("planted"), files, None, rows, fault),
            "linear",
        )
        for name, fault in FAULTS.items()
    }
