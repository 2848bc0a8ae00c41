"""The branches of a decomposition, reflectance and shading, of a model or planted from the ground truth."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from candlelight.evaluation.concepts.activations import (
    batch_gradients,
    output_gradient,
    pixel_loss,
)
from candlelight.evaluation.concepts.cav_diagnostics import (
    Probe,
    check_finite_rows,
    common_size,
    hidden_rows,
    resize_linear,
)
from candlelight.evaluation.concepts.rows import RowStorage, StoredRows
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BRANCHES
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.batches import Fingerprint, check_srgb_image, read_batches
from candlelight.evaluation.run.model_outputs import checked_decomposition, model_errors, run_in_halves
from candlelight.evaluation.run.named_models import decode, predict_decomposition, to_device
from candlelight.evaluation.run.predictions import Predictions
from candlelight.evaluation.views import Decompositions, View
from candlelight.evaluation.views.view_colours import fill_unknown
from candlelight.loaders.errors import InputError, argument

_WHOLE = 0.999  # share of a pixel that is covered if all of it is, up to rounding
BranchLayers = tuple[str, str] | None  # of reflectance and shading; None for the outputs


class Branches(NamedTuple):
    """One flattened row per image for each branch, and the height and width of the images."""

    reflectance: Float[Tensor, "images r_dim"] | StoredRows
    shading: Float[Tensor, "images s_dim"] | StoredRows
    size: tuple[int, int]


def branch_activations(
    probe: Probe,
    layers: BranchLayers,
    images: View[Tensor],
    rows: Sequence[int],
    fingerprint: Fingerprint,
) -> Branches:
    """Compute the activations of both branches for some rows, float32, on the device of the probe.

    A network stops after the last layer that is read. `branch_gradients` refuses layers that run twice.

    Args:
        probe: the model, and how it is read.
        layers: hidden layer of the reflectance and of the shading branch; None for the outputs.
        images: a view whose items are images, sRGB-encoded.
        rows: row numbers, at least one.
        fingerprint: the rows are added to it.

    Raises:
        InputError: the images have several sizes, a layer cannot be read, an output is not finite, or the
            temporary file cannot be written.
    """
    whole: Branches | None = None
    for start in range(0, len(rows), probe.batch_size):
        batch = rows[start : start + probe.batch_size]
        ids = [images.ids[row] for row in batch]
        pixels = [check_srgb_image(images[row]) for row in batch]
        for name, image in zip(ids, pixels, strict=True):
            fingerprint.add(name, image)
        part = _activations(probe, layers, ids, [decode(image) for image in pixels])
        whole = _filled(whole, part, start, len(rows), probe.storage)
    if whole is None:
        raise InputError("no images to read: concept sets and negatives need at least one each")
    return whole


def branch_gradients(
    probe: Probe, layers: BranchLayers, data: Decompositions, fingerprint: Fingerprint
) -> dict[str, Branches]:
    """Compute the gradients of the pixel loss of both branches at all rows, float32, for each alignment.

    The loss of the reflectance branch uses the true reflectance, the loss of the shading branch the true
    shading; both use the pixels inside the mask. Images are clipped at 1, like the concept images.

    Args:
        probe: the model, and how it is read.
        layers: as in `branch_activations`.
        data: images with their ground-truth decomposition.
        fingerprint: the rows are added to it.

    Raises:
        InputError: there is no row, rows have several sizes, a branch's loss does not depend on its layer, or
            an output or a gradient is not finite.
    """
    whole: dict[str, Branches] = {}
    for batch in read_batches(data, probe.batch_size, lambda item: item.image, fingerprint, "gradients"):
        truth = _prepare(stack_ground_truth(batch.items), probe)
        for name in ALIGNMENTS:
            part = _gradients(probe, layers, batch.ids, truth, name == "aligned")
            whole[name] = _filled(whole.get(name), part, batch.rows[0], len(data.ids), probe.storage)
    return whole


def _filled(whole: Branches | None, part: Branches, start: int, rows: int, storage: RowStorage) -> Branches:
    """Copy one batch to its place among all rows."""
    common_size([part.size] if whole is None else [part.size, whole.size])
    r, s = (
        storage.fill(None if whole is None else getattr(whole, name), getattr(part, name), start, rows)
        for name in BRANCHES
    )
    return Branches(r, s, part.size)


def _size(images: Tensor) -> tuple[int, int]:
    return images.shape[-2], images.shape[-1]


def _activations(
    probe: Probe, layers: BranchLayers, ids: Sequence[str], images: Sequence[Tensor]
) -> Branches:
    """Compute the activations of both branches for scene-linear images, which may differ in size."""
    resized = [resize_linear(image[None], probe.size) for image in images]
    size = common_size([_size(image) for image in resized])
    batch = torch.cat(resized)
    if layers is None:
        r, s = _outputs(probe, ids, batch)
    else:
        r, s = hidden_rows(probe, layers, batch)
        for layer, values in zip(layers, (r, s), strict=True):
            check_finite_rows(f"model `{probe.named.identity.name}`, layer `{layer}`", values, ids)
    return Branches(r.flatten(1).float().to(probe.device), s.flatten(1).float().to(probe.device), size)


def _outputs(probe: Probe, ids: Sequence[str], image: Tensor) -> tuple[Tensor, Tensor]:
    reflectance, shading, failed, _ = predict_decomposition(probe.named, ids, image, None, probe.device)
    _refuse_failed(probe, ids, failed)
    return reflectance, shading


def _refuse_failed(probe: Probe, ids: Sequence[str], failed: Bool[Tensor, " batch"]) -> None:
    if bool(failed.any()):
        first = ids[int(failed.nonzero()[0])]
        raise InputError(
            f"model `{probe.named.identity.name}` gives nan, inf or nothing for `{first}`: concept "
            "activation vectors need a finite output for every image"
        )


def _gradients(
    probe: Probe, layers: BranchLayers, ids: Sequence[str], truth: GroundTruth, aligned: bool
) -> Branches:
    """Compute the gradients of both branches for one batch."""
    targets = (truth.reflectance, truth.shading.expand_as(truth.reflectance))
    if layers is None:
        reflectance, shading = (output.float() for output in _outputs(probe, ids, truth.image))
        r = output_gradient(reflectance, targets[0], truth.mask, aligned)
        s = output_gradient(truth.comparable(shading), targets[1], truth.mask, aligned)
        s = _before_filling(s.reshape(shading.shape), truth.shading_known).flatten(1)
        return Branches(r.to(probe.device), s.to(probe.device), _size(truth.image))

    name = probe.named.identity.name

    def gradient(branch: int, layer: str) -> Tensor:
        def run(rows: slice) -> tuple[Tensor]:
            image = to_device(probe.named, truth.image[rows], probe.device)
            target, mask = targets[branch][rows].to(probe.device), truth.mask[rows].to(probe.device)
            known = None if truth.shading_known is None else truth.shading_known[rows].to(probe.device)

            def loss(output: object, _rows: slice) -> Tensor:
                reflectance, shading, failed = checked_decomposition(output, image, name)
                _refuse_failed(probe, ids[rows], failed)
                if known is not None:
                    shading = fill_unknown(shading, known.expand_as(shading))
                return pixel_loss(shading if branch else reflectance, target, mask, aligned)

            with model_errors(name, image):
                every, alone = slice(0, len(image)), probe.alone(layer, image)
                found = batch_gradients(probe.network(), layer, image, loss, every, alone).float()
            check_finite_rows(f"gradient of model `{name}`, layer `{layer}`", found, ids[rows])
            return (found,)

        return run_in_halves(run, len(truth.image))[0]

    return Branches(gradient(0, layers[0]), gradient(1, layers[1]), _size(truth.image))


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


@dataclass(frozen=True)
class _Fault:
    """Faults of a decomposition: noise, a leak of the other layer, or a constant."""

    noise: float = 0
    leak: float = 0
    constant: bool = False


FAULTS = {
    "ideal": _Fault(),
    "ideal, 1 % noise": _Fault(noise=0.01),
    "ideal, 10 % noise": _Fault(noise=0.1),
    "half leak": _Fault(noise=0.01, leak=0.5),
    "full leak": _Fault(noise=0.01, leak=1),
    "constant": _Fault(constant=True),
}


@dataclass(frozen=True, eq=False)
class PlantedDecompositions(Predictions):
    """Predictions made of the ground truth, which is read from views by id."""

    rows: Mapping[str, tuple[Decompositions, int]]
    fault: _Fault

    def read(
        self, name: str
    ) -> tuple[Float32[Tensor, "3 height width"], Float32[Tensor, "channels height width"]]:
        """Make the decomposition of one image; equal ids give equal noise."""
        view, row = self.rows[name]
        truth = view[row]
        layers = truth.reflectance, truth.shading.expand_as(truth.reflectance)
        if self.fault.constant:
            return torch.full_like(layers[0], 0.5), torch.full_like(layers[0], 0.5)
        drawn = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        made = []
        for own, other in (layers, layers[::-1]):
            factor = 1 + self.fault.noise * torch.randn(own.shape, generator=drawn)
            made.append(own * other.clamp(min=0) ** self.fault.leak * factor)
        return made[0], made[1]


def planted_decompositions(views: Sequence[Decompositions]) -> dict[str, NamedModel]:
    """Make decompositions with known faults for `score_concepts`, from the ground truth of all its images.

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
    files = dict.fromkeys(rows, (Path(), Path()))  # the ids; nothing is read from them
    return {
        name: NamedModel(
            ModelIdentity(name, "planted"),
            PlantedDecompositions(Path("planted"), files, None, rows, fault),
            "linear",
        )
        for name, fault in FAULTS.items()
    }
