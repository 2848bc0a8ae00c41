"""Models, or result files in place of models: identify them, convert images for them, and run them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import interpolate

from candlelight.evaluation.models.model_protocols import IntrinsicModel
from candlelight.evaluation.models.model_spec import ColourSpace, ModelIdentity, NamedModel
from candlelight.evaluation.run.batches import run_in_halves
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.model_outputs import (
    LAYER_CHANNELS,
    PREDICTED_LAYERS,
    MissingLayer,
    checked_decomposition,
    checked_layers,
    model_errors,
    run_intrinsic,
)
from candlelight.evaluation.run.predictions import (
    Codes,
    Heatmaps,
    MissingResults,
    Predictions,
    codes_of_array,
    match_ids,
)
from candlelight.evaluation.views import View
from candlelight.evaluation.views.image_tensors import encode
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.verification.checksums import file_sha256

DecompositionModel = IntrinsicModel | NamedModel | Predictions


def identify_models(
    models: Mapping[str, Any],
    views: Sequence[View[Any]],
    default_space: ColourSpace,
    missing: MissingResults | None,
) -> dict[str, NamedModel]:
    """Make a `NamedModel` of each model, and match the ids of result files with the ids of the data.

    Args:
        models: by name: a `NamedModel`, any other callable, `Predictions`, `Heatmaps` or `Codes`, or an
            array of codes.
        views: the data that will be read; ids are not matched without any.
        default_space: colour space of the images for a callable without an attribute ``colour_space``.
        missing: see `match_ids`.

    Raises:
        InputError: no models, a model that is not callable, or ids that do not match.

    Example:
        >>> identify_models({"double": lambda image: 2 * image}, [], "srgb", None)["double"].colour_space
        'srgb'
    """
    if not models:
        raise InputError("expected at least one model, got none")
    return {name: _identify(name, model, views, default_space, missing) for name, model in models.items()}


def _identify(
    name: str,
    model: Any,
    views: Sequence[View[Any]],
    default_space: ColourSpace,
    missing: MissingResults | None,
) -> NamedModel:
    files = model.model if isinstance(model, NamedModel) else model
    if isinstance(files, Predictions | Heatmaps) and views:
        scored_ids = [name for view in views for name in view.ids]
        known_ids = frozenset[str]().union(*(view.known_ids for view in views))
        set_names = dict.fromkeys(view.identity.set_name or view.identity.name for view in views)
        label = f"{files.folder}, for {', '.join(set_names)}" if len(set_names) > 1 else str(files.folder)
        match_ids(files.ids, scored_ids, known_ids, missing, label)
    if isinstance(model, NamedModel):
        return replace(model, identity=replace(model.identity, name=name))
    if isinstance(model, Predictions | Heatmaps):
        identity = _files(name, model)
        held = replace(model, missing=missing) if isinstance(model, Predictions) else model
        return NamedModel(identity, held, "linear")
    if isinstance(model, np.ndarray | Tensor):
        model = codes_of_array(name, model)
    if isinstance(model, Codes):
        return NamedModel(ModelIdentity(name, "files", None, model.sha256), model, "linear")
    if not callable(model) and not hasattr(model, "explain"):
        cure = f'; name it in a list: ["{name}={model}"]' if isinstance(model, str) else ""
        raise InputError(f"model `{name}`: expected something callable, got {type(model).__name__}{cure}")
    kind = model if hasattr(model, "__qualname__") else type(model)
    version = f"{kind.__module__}:{kind.__qualname__}"
    return NamedModel(
        ModelIdentity(name, "callable", version), model, getattr(model, "colour_space", default_space)
    )


def _files(name: str, results: Predictions | Heatmaps) -> ModelIdentity:
    """Identify files by the hash of their ids and contents."""
    whole = hashlib.sha256()
    paths: Any
    for identifier, paths in sorted(results.files.items()):
        whole.update(identifier.encode() + b"\0")
        for path in (paths,) if isinstance(paths, Path) else paths.values():
            whole.update(file_sha256(path).encode())
    return ModelIdentity(name, "files", None, whole.hexdigest())


def models_of_layers(
    models: Mapping[str, NamedModel], layers: Sequence[str], make: Callable[[Any, str], Any]
) -> dict[str, NamedModel]:
    """Make a model of each hidden layer, which gives heatmaps or codes.

    Args:
        models: networks; other models have no hidden layers and stay as they are.
        layers: names of hidden layers; without any, the models themselves are returned.
        make: makes a model of a network and the name of a layer.

    Returns:
        Models named by model and layer.

    Raises:
        InputError: layers are given, but no model has hidden layers; or a layer is given twice.
    """
    option = argument("layer")
    if len(set(layers)) < len(layers):
        raise InputError(f"{option}: expected different layers, got {', '.join(layers)}")
    if layers and not models:
        raise InputError(f"{option}: needs a model that has the layer")
    if layers and not any(isinstance(one.model, nn.Module) for one in models.values()):
        names = ", ".join(f"`{name}`" for name in models)
        raise InputError(f"{option}: {names} has no hidden layers; omit {option}, or give a network")
    found = {}
    for name, named in models.items():
        if not layers or not isinstance(named.model, nn.Module):
            found[name] = named
            continue
        for layer in layers:
            identity = replace(named.identity, name=f"{name} {layer}")
            found[identity.name] = replace(named, identity=identity, model=make(named.model, layer))
    return found


def run_model(
    named: NamedModel,
    image: Float[Tensor, "batch 3 height width"],
    check: Callable[[object, int, str], tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """Run a model on scene-linear images, in evaluation mode and without gradients.

    Args:
        named: the model.
        image: scene-linear Rec.709, on the device of the model; the batch is halved when memory runs out.
        check: maps the output of the model, the number of images and the name of the model to tensors with
            one entry for each image.

    Returns:
        The tensors that ``check`` returned, on the device.

    Raises:
        InputError: the model raised an exception, or one image does not fit in memory.
    """
    name = named.identity.name

    def run(rows: slice) -> tuple[Tensor, ...]:
        with evaluation_mode(named.model), torch.no_grad(), model_errors(name, image[rows]):
            given = to_model_space(named, image[rows])
            return tuple(part.to(given.device) for part in check(named.model(given), len(given), name))

    return run_in_halves(run, len(image))


def to_device(
    named: NamedModel, image: Float[Tensor, "batch *lights 3 height width"], device: str
) -> Float[Tensor, "batch *lights 3 height width"]:
    """Convert scene-linear images to the colour space of a model, and copy them to a device.

    Raises:
        OutOfMemory: the images do not fit in the memory of the device.
    """
    with model_errors(named.identity.name, image):
        return to_model_space(named, image).to(device)


def to_model_space(named: NamedModel, image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Convert scene-linear images to the colour space of a model; a copy, as a model may work in place."""
    return image.clone() if named.colour_space == "linear" else encode(image)


class Decomposition(NamedTuple):
    """Predicted decompositions, on the device of the model.

    Attributes:
        reflectance: scene-linear Rec.709.
        shading: scene-linear.
        failed: rows whose prediction failed, because it is missing or not finite inside the mask.
        resized: rows whose prediction was read from a file of another size; None for a model.
    """

    reflectance: Float[Tensor, "batch 3 height width"]
    shading: Float[Tensor, "batch 3 height width"]
    failed: Bool[Tensor, " batch"]
    resized: Bool[Tensor, " batch"] | None = None


def predict_decomposition(
    named: NamedModel,
    ids: Sequence[str],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    device: str,
    lights: Float[Tensor, "batch lights 3 height width"] | None = None,
    layers: Sequence[str] = PREDICTED_LAYERS,
) -> Decomposition:
    """Decompose a batch of scene-linear images.

    Predictions in files that have another size than their image are resized to it: bilinearly, with the
    values averaged where they are made smaller, as scene-linear values.

    Args:
        named: a model on ``device``, or predictions, which are looked up by id.
        ids: ids of the images.
        image: scene-linear Rec.709; the batch is halved when memory runs out.
        mask: pixels that are scored; all if None.
        device: torch device of the model.
        lights: the same scenes under other lights, scene-linear; for a model that takes them.
        layers: layers that are scored; another layer may be missing, and cannot fail.

    Returns:
        Reflectance, shading and failed rows, on the device.

    Raises:
        InputError: the output is not a decomposition of the images, or one image does not fit in memory.
    """
    check = partial(checked_decomposition, layers=layers)
    if isinstance(named.model, Predictions):
        found, resized = _look_up(named, ids, image, mask, layers, check)
        reflectance, shading, failed = (torch.cat(parts) for parts in zip(*found, strict=True))
        return Decomposition(reflectance, shading, failed, resized)
    return Decomposition(*_run(named, image, mask, device, lights, check))


class PredictedLayers(NamedTuple):
    """Predicted layers of each image, in the size in which they were given.

    Attributes:
        rows: the layers of each image by name, [channels, height, width], on the device.
        failed: rows whose prediction failed, because it is missing or not finite inside the mask; 0 there.
        resized: rows whose prediction has another size than the image.
        control: whether they are of a control, which is in the axes of the truth whatever those of models.
    """

    rows: tuple[dict[str, Float[Tensor, "channels height width"]], ...]
    failed: Bool[Tensor, " batch"]
    resized: Bool[Tensor, " batch"]
    control: bool = False


def predict_layers(
    named: NamedModel,
    ids: Sequence[str],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    device: str,
    layers: Sequence[str],
    optional: Sequence[str] = (),
) -> PredictedLayers:
    """Predict layers of a batch of scene-linear images.

    Args:
        named: a model on ``device``, or predictions, which are looked up by id.
        ids: ids of the images.
        image: scene-linear Rec.709; the batch is halved when memory runs out.
        mask: pixels that are scored; all if None.
        device: torch device of the model.
        layers: names of layers, as `candlelight.evaluation.run.model_outputs.LAYER_CHANNELS`.
        optional: layers that are 0 where the model does not give them.

    Raises:
        MissingLayer: the model, or the folder of files, lacks a layer.
        InputError: a layer has another shape, or one image does not fit in memory.
    """
    names = (*layers, *optional)

    def check(output: object, image: Tensor, name: str, mask: Tensor | None) -> tuple[Tensor, ...]:
        found, failed = checked_layers(output, image, name, mask, layers, optional, any_size=True)
        return *(found[name] for name in names), failed

    if isinstance(named.model, Predictions):
        parts, _ = _look_up(named, ids, image, mask, names, check, fit=False)
    else:
        together = _run(named, image, mask, device, None, check)
        parts = [tuple(part[row : row + 1] for part in together) for row in range(len(image))]
    rows = tuple(dict(zip(names, (one[0] for one in some), strict=False)) for *some, _ in parts)
    other = [any(layer.shape[1:] != image.shape[2:] for layer in row.values()) for row in rows]
    return PredictedLayers(rows, torch.cat([failed for *_, failed in parts]), torch.tensor(other))


def _run(
    named: NamedModel,
    image: Tensor,
    mask: Tensor | None,
    device: str,
    lights: Tensor | None,
    check: Callable[..., tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    def run(rows: slice) -> tuple[Tensor, ...]:
        pixels = to_device(named, image[rows], device)
        inside = None if mask is None else mask[rows].clone().to(device)
        others = None if lights is None else to_device(named, lights[rows], device)
        made: tuple[Tensor, ...] = run_intrinsic(named.model, pixels, inside, others, check)
        return made

    return run_in_halves(run, len(image))


def _look_up(
    named: NamedModel,
    ids: Sequence[str],
    image: Tensor,
    mask: Tensor | None,
    layers: Sequence[str],
    check: Callable[..., tuple[Tensor, ...]],
    fit: bool = True,
) -> tuple[list[tuple[Tensor, ...]], Bool[Tensor, " batch"]]:
    """Read and check the layers of each image; those of a missing file are 0, and the row has failed."""
    found = []
    resized = torch.zeros(len(ids), dtype=torch.bool, device=image.device)
    for row, name in enumerate(ids):
        one = image[row : row + 1]
        if named.model.fails(name, layers):
            zeros = {layer: torch.zeros_like(one[:, : LAYER_CHANNELS[layer][0]]) for layer in layers}
            *parts, failed = check(zeros, one, named.identity.name, None)
            found.append((*parts, ~failed))
            continue
        read = named.model.read(name, layers)
        given = {layer: values[None].to(image.device) for layer, values in read.items()}
        inside = None if mask is None else mask[row : row + 1]
        if fit:
            where = f"{named.model.folder}: `{name}`"
            resized[row] = any(layer.shape[2:] != image.shape[2:] for layer in given.values())
            lost = checked_layers(given, one, where, inside, tuple(given), any_size=True)[1]
            given = {layer: _fit(values, image.shape[2:], where) for layer, values in given.items()}
            given = {layer: values.masked_fill(lost, torch.nan) for layer, values in given.items()}
        try:
            found.append(check(given, one, f"{named.identity.name}: {name}", inside))
        except MissingLayer:
            got = f"the files of `{name}` have {' and '.join(read) or 'none of them'}"
            raise MissingLayer(
                f"{named.identity.name}: expected {' and '.join(layers)}, {got}; add the layer"
            ) from None
    return found, resized


def _fit(layer: Float[Tensor, "1 channels height width"], size: Sequence[int], where: str) -> Tensor:
    """Resize a prediction to the size of its image, unless the proportions differ by more than a pixel."""
    if layer.shape[2:] == tuple(size):
        return layer
    check_proportions(layer.shape[2:], size, where)
    finite = layer.isfinite().all(1, keepdim=True)  # of the others, such as outside a mask, nothing is read
    kept = torch.cat([layer.masked_fill(~finite, 0), finite.to(layer)], 1)
    made = interpolate(kept, tuple(size), mode="bilinear", antialias=True, align_corners=False)
    return made[:, :-1] / made[:, -1:]


def check_proportions(given: Sequence[int], size: Sequence[int], where: str) -> None:
    """Refuse a prediction whose proportions differ from those of its image by more than a pixel.

    Args:
        given: height and width of the prediction.
        size: height and width of the image.
        where: description of the prediction for the message.

    Raises:
        InputError: the proportions differ.

    Example:
        >>> check_proportions((30, 40), (60, 80), "mine")
    """
    if abs(given[0] * size[1] - given[1] * size[0]) > max(*given, *size):
        raise InputError(
            f"{where}: expected the proportions of its image, {list(size)}, got {list(given)}; resize it"
        )
