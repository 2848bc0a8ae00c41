"""Decompositions of images, predicted by a model or read from the files of another program."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.inputs.predictions import Predictions
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.running.model_outputs import checked_decomposition, run_intrinsic
from candlelight.evaluation.running.named_models import to_device
from candlelight.evaluation.running.out_of_memory import run_in_halves
from candlelight.loaders.errors import InputError


def predict_decomposition(
    named: NamedModel,
    ids: Sequence[str],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    device: str,
    lights: Float[Tensor, "batch lights 3 height width"] | None = None,
) -> tuple[
    Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"], Bool[Tensor, " batch"]
]:
    """Decompose a batch of scene-linear images.

    Args:
        named: a model on ``device``, or predictions, which are looked up by id.
        ids: ids of the images.
        image: scene-linear Rec.709; the batch is halved when memory runs out.
        mask: pixels that are scored; all if None.
        device: torch device of the model.
        lights: the same scenes under other lights, scene-linear; for a model that takes them.

    Returns:
        Reflectance and shading on the CPU, scene-linear, and a flag for each row: whether the prediction
        failed, because it is missing or not finite inside the mask.

    Raises:
        InputError: the output is not a decomposition of the images, or one image does not fit in memory.
    """
    if isinstance(named.model, Predictions):
        return _look_up(named, ids, image, mask)

    def run(rows: slice) -> tuple[Tensor, ...]:
        pixels = to_device(named, image[rows], device)
        inside = None if mask is None else mask[rows].clone().to(device)
        others = None if lights is None else to_device(named, lights[rows], device)
        return tuple(values.cpu() for values in run_intrinsic(named.model, pixels, inside, others))

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
                    f"{named.model.folder}: `{name}`: expected {layer} of the size of its image, "
                    f"{list(image.shape[2:])}, got {list(values.shape[2:])}; resize it"
                )
        inside = None if mask is None else mask[row : row + 1]
        parts = checked_decomposition(pair, image[row : row + 1], f"{named.identity.name}: {name}", inside)
        reflectance[row], shading[row], failed[row] = (part[0] for part in parts)
    return reflectance, shading, failed
