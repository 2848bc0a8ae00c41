"""Decompositions of images, by a model or from the files of another program, behind one function."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from evaluation.harness import named
from evaluation.models.protocols import IntrinsicModel
from evaluation.models.specs import ModelIdentity, NamedModel
from evaluation.outputs import checked_decomposition, run_intrinsic
from evaluation.predictions import Missing, Predictions, match_ids
from loaders.colour import linear_to_srgb, srgb_to_linear
from loaders.errors import InputError
from loaders.views import View

Source = IntrinsicModel | NamedModel | Predictions


def intrinsic_sources(
    models: Mapping[str, Source], views: Sequence[View[Any]], missing: Missing = "error"
) -> dict[str, NamedModel]:
    """Say of each model or folder of predictions which it is, and match the ids of predictions.

    Args:
        models: by name.
        views: data that are going to be read.
        missing: see `evaluation.predictions.match_ids`.

    Raises:
        InputError: no models, one that is not callable, ids that do not fit.
    """
    if not models:
        raise InputError("expected at least one model, got none")
    found = {}
    for name, model in models.items():
        if isinstance(model, Predictions):
            wanted = [one for view in views for one in view.ids]
            known = frozenset().union(*(view.known_ids for view in views))
            match_ids(model.ids, wanted, known, missing, str(model.folder))
            found[name] = NamedModel(ModelIdentity(name, "predictions", None, None), model, "linear")
        else:
            found[name] = named(name, model, "linear")
    return found


def decompose(
    source: NamedModel,
    ids: Sequence[str],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    device: str,
) -> tuple[
    Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"], Bool[Tensor, " batch"]
]:
    """Split a batch of scene-linear images.

    Args:
        source: the model, on ``device``, or predictions, which are looked up by id.
        ids: of the images.
        image: scene-linear Rec.709.
        mask: pixels that count; all if None.
        device: where the images are put for the model.

    Returns:
        Reflectance and shading on the CPU, scene-linear, and which rows have failed: predictions that are
        missing, or not finite inside the mask.

    Raises:
        InputError: the output is no decomposition of the images.
    """
    if isinstance(source.model, Predictions):
        return _look_up(source, ids, image, mask)
    given = as_taken(source, image).to(device)
    found = run_intrinsic(source.model, given, None if mask is None else mask.to(device))
    reflectance, shading, failed = (values.cpu() for values in found)
    return reflectance, shading, failed


def as_taken(source: NamedModel, image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Bring scene-linear images to the colour space that a model takes."""
    return image if source.colour_space == "linear" else encode(image)


def decode(image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Take sRGB-encoded values in [0, 1] to scene-linear ones.

    Example:
        >>> decode(torch.tensor([0.0, 0.5, 1.0]))
        tensor([0.0000, 0.2140, 1.0000])
    """
    return torch.from_numpy(srgb_to_linear(image.numpy()))


def encode(image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Take scene-linear values to sRGB-encoded ones in [0, 1]; brighter ones are cut off.

    Example:
        >>> encode(torch.tensor([0.0, 0.214, 4.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return torch.from_numpy(linear_to_srgb(image.numpy()))


def _look_up(
    source: NamedModel, ids: Sequence[str], image: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    reflectance, shading = torch.zeros_like(image), torch.zeros_like(image)
    failed = torch.ones(len(ids), dtype=torch.bool)
    for row, name in enumerate(ids):
        if name not in source.model.ids:
            continue
        pair = [layer[None] for layer in source.model.read(name)]
        some = None if mask is None else mask[row : row + 1]
        parts = checked_decomposition(pair, image[row : row + 1], f"{source.identity.name}: {name}", some)
        reflectance[row], shading[row], failed[row] = (part[0] for part in parts)
    return reflectance, shading, failed
