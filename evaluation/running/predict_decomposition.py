"""Decompositions of images, by a model or from the files of another program, behind one function."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from evaluation.inputs.predictions import Predictions
from evaluation.models.model_spec import NamedModel
from evaluation.running.model_outputs import checked_decomposition, run_intrinsic
from evaluation.running.named_models import to_device
from evaluation.running.out_of_memory import run_in_halves
from loaders.errors import InputError


def predict_decomposition(
    named: NamedModel,
    ids: Sequence[str],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    device: str,
) -> tuple[
    Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"], Bool[Tensor, " batch"]
]:
    """Split a batch of scene-linear images.

    Args:
        named: the model, on ``device``, or predictions, which are looked up by id.
        ids: of the images.
        image: scene-linear Rec.709, of which fewer are given at once where memory ends.
        mask: pixels that count; all if None.
        device: where the images are put for the model.

    Returns:
        Reflectance and shading on the CPU, scene-linear, and which rows have failed: predictions that are
        missing, or not finite inside the mask.

    Raises:
        InputError: the output is no decomposition of the images, or memory does not suffice for one image.
    """
    if isinstance(named.model, Predictions):
        return _look_up(named, ids, image, mask)

    def run(rows: slice) -> tuple[Tensor, ...]:
        given = to_device(named, image[rows], device)
        some = None if mask is None else mask[rows].clone().to(device)
        return tuple(values.cpu() for values in run_intrinsic(named.model, given, some))

    reflectance, shading, failed = run_in_halves(run, len(image))
    return reflectance, shading, failed


def _look_up(
    named: NamedModel, ids: Sequence[str], image: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    reflectance, shading = torch.zeros_like(image), torch.zeros_like(image)
    failed = torch.ones(len(ids), dtype=torch.bool)
    for row, name in enumerate(ids):
        if name not in named.model.files:
            continue
        pair = [layer[None] for layer in named.model.read(name)]
        for layer, values in zip(("reflectance", "shading"), pair, strict=True):
            if values.shape[2:] != image.shape[2:]:
                raise InputError(
                    f"{named.model.folder}: `{name}`: expected {layer} as large as its image, "
                    f"{list(image.shape[2:])}, got {list(values.shape[2:])}; resize it"
                )
        some = None if mask is None else mask[row : row + 1]
        parts = checked_decomposition(pair, image[row : row + 1], f"{named.identity.name}: {name}", some)
        reflectance[row], shading[row], failed[row] = (part[0] for part in parts)
    return reflectance, shading, failed
