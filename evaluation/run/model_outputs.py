"""Checks of the outputs of models.

Decompositions, heatmaps and codes.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor, nn
from torch.nn.functional import interpolate

from candlelight.evaluation.run.batches import OutOfMemory
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError, argument, is_out_of_memory


class MissingLayer(InputError):
    """Error: a model, or a folder of files, lacks a layer that is scored."""


ImageBatch = Float[Tensor, "batch 3 height width"]
Decomposed = tuple[
    Float32[Tensor, "batch 3 height width"], Float32[Tensor, "batch 3 height width"], Bool[Tensor, " batch"]
]
PREDICTED_LAYERS = ("reflectance", "shading")
LAYER_CHANNELS = {
    "reflectance": (3,),
    "shading": (3, 1),
    "residual": (3, 1),
    "normal": (3,),
    "depth": (1,),
    "roughness": (1,),
    "metallic": (1,),
}
"""Layers that a model or files may give, and their numbers of channels; `albedo` is `reflectance` too."""


def layer_name(name: str) -> str:
    """Return the name of a predicted layer: `albedo`, as frames call it, is `reflectance`.

    Example:
        >>> layer_name("albedo"), layer_name("depth")
        ('reflectance', 'depth')
    """
    return "reflectance" if name == "albedo" else name


_WHOLE = 0.999  # share of a pixel of another size that lies inside the mask
_WRAP = "name a hidden layer (--layer), or wrap the model so that it does"


def run_intrinsic(
    model: Callable[..., Any],
    image: ImageBatch,
    mask: Bool[Tensor, "batch height width"] | None = None,
    lights: Float[Tensor, "batch lights 3 height width"] | None = None,
    check: Callable[..., Any] | None = None,
) -> Any:
    """Decompose images by a model, in evaluation mode and without gradients.

    Args:
        model: called with ``image``, and with ``mask=`` and ``lights=`` if its signature has these
            parameters: without the mask, colour Retinex mistakes the outline of an object for a reflectance
            edge.
        image: in the colour space and on the device that the model expects.
        mask: pixels that are scored. None means all pixels, and no mask is passed to the model.
        lights: the same scenes under other lights, in the same colour space; None if there are none.
        check: is given the output, the images, the name of the model and the mask; `checked_decomposition`
            unless given.

    Returns:
        The result of ``check``.

    Raises:
        InputError: the output is not a decomposition of the images, the model raised an exception, or it
            takes ``lights`` and there are none.

    Example:
        >>> def gray(image):
        ...     return image, image.mean(1, keepdim=True)
        >>> reflectance, shading, failed = run_intrinsic(gray, torch.ones(1, 3, 2, 2))
        >>> shading.shape, failed
        (torch.Size([1, 3, 2, 2]), tensor([False]))
    """
    name = getattr(model, "__name__", type(model).__name__)
    options = {"mask": mask} if mask is not None and has_parameter(model, "mask") else {}
    if has_parameter(model, "lights"):
        if lights is None:
            raise InputError(
                f"model `{name}` takes images under several lights (`lights`): the data have none"
            )
        options["lights"] = lights
    with evaluation_mode(model), torch.no_grad(), model_errors(name, image):
        return (check or checked_decomposition)(model(image, **options), image, name, mask)


def checked_decomposition(
    output: object,
    image: ImageBatch,
    name: str,
    mask: Bool[Tensor, "batch height width"] | None = None,
    layers: Sequence[str] = PREDICTED_LAYERS,
) -> Decomposed:
    """Check the output of an intrinsic image model, and return reflectance, shading and failed rows.

    Args:
        output: reflectance and shading, as `checked_layers` takes them.
        image: the images that the model decomposed.
        name: name of the model for messages.
        mask: pixels that are scored; all if None.
        layers: layers that are scored; another layer is not read, and 0.

    Returns:
        Reflectance and shading, float32, of the shape of ``image``, and the failed rows, in which both are 0;
        see `checked_layers`.

    Raises:
        InputError: see `checked_layers`.

    Example:
        >>> image = torch.ones(2, 3, 1, 1)
        >>> pair = {"reflectance": image, "shading": torch.tensor([1.0, torch.nan]).reshape(2, 1, 1, 1)}
        >>> reflectance, shading, failed = checked_decomposition(pair, image, "mine")
        >>> shading[:, :, 0, 0].tolist(), failed.tolist()
        ([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], [False, True])
    """
    found, failed = checked_layers(output, image, name, mask, layers)
    unread = torch.zeros_like(image, dtype=torch.float32)
    return found.get("reflectance", unread), found.get("shading", unread), failed


def checked_layers(
    output: object,
    image: ImageBatch,
    name: str,
    mask: Bool[Tensor, "batch height width"] | None = None,
    layers: Sequence[str] = PREDICTED_LAYERS,
    optional: Sequence[str] = (),
    any_size: bool = False,
) -> tuple[dict[str, Float32[Tensor, "batch channels rows columns"]], Bool[Tensor, " batch"]]:
    """Check the layers that a model gives, and return those that are scored, and failed rows.

    Args:
        output: layers by name (`LAYER_CHANNELS`) in a mapping; reflectance and shading in this order; or
            reflectance alone. Floating-point tensors or numpy arrays [batch, channels, height, width];
            gray shading and residual may have one channel.
        image: the images that the model was given.
        name: name of the model for messages.
        mask: pixels that are scored; all if None.
        layers: layers that are scored. Another layer is not read, and cannot fail.
        optional: layers that are scored where the model gives them, and 0 elsewhere.
        any_size: whether layers may have another height and width than the images.

    Returns:
        The scored layers by name, float32 (gray ones repeated over three channels), on the device of
        ``image`` and with the gradients of the output; and a flag for each row: whether it failed, because a
        value inside the mask is not finite. A failed row is 0 in all layers. Values outside the mask that are
        not finite become 0; in a layer of another size, whose pixels count that lie wholly inside, they stay.

    Raises:
        MissingLayer: a scored layer is not there.
        InputError: a scored layer has another shape, or is no floating-point array.

    Example:
        >>> image = torch.ones(2, 3, 1, 1)
        >>> output = {"depth": image[:, :1], "normal": None}
        >>> found, failed = checked_layers(output, image, "net", None, ["depth"])
        >>> found["depth"].shape, failed.tolist()
        (torch.Size([2, 1, 1, 1]), [False, False])
    """
    given = _by_name(output)
    read = (*layers, *(layer for layer in optional if layer in given))
    missing = [layer for layer in layers if layer not in given]
    fits = {layer: _fits(given[layer], layer, image, any_size) for layer in read if layer in given}
    if missing or not all(fits.values()):
        size = ["height", "width"] if any_size else list(image.shape[2:])
        shapes = {
            layer: " or ".join(_shape(len(image), channels, size) for channels in LAYER_CHANNELS[layer])
            for layer in read
        }
        expected = " and ".join(f"{layer} {shape}" for layer, shape in shapes.items())
        pair = set(read) <= set(PREDICTED_LAYERS) and not isinstance(output, Mapping)
        names = ", ".join(f'"{layer}": {layer}' for layer in read)
        cure = f"({', '.join(PREDICTED_LAYERS)})" if pair else f"{{{names}}}"
        lacks = (given or isinstance(output, Mapping)) and all(fits.values())
        raise (MissingLayer if lacks else InputError)(
            f"{name}: expected {expected}, floating-point, got {describe_output(output)}; return {cure}"
        )
    found, failed = {}, torch.zeros(len(image), dtype=torch.bool, device=image.device)
    inside = None if mask is None else mask.to(image.device)
    for layer in read:
        part = given[layer].to(image.device, torch.float32)  # type: ignore[union-attr]
        part = part.expand(-1, LAYER_CHANNELS[layer][0], -1, -1)
        near = inside
        if inside is not None and part.shape[2:] != image.shape[2:]:
            near = interpolate(inside[:, None].float(), part.shape[2:], mode="area")[:, 0] > _WHOLE
        finite, wrong = _finite(part, near)
        found[layer] = finite if part.shape[2:] == image.shape[2:] else part
        failed = failed | wrong
    lost = failed[:, None, None, None]
    kept = {layer: found[layer].masked_fill(lost, 0) for layer in read}
    return {**{layer: torch.zeros_like(kept[layers[0]]) for layer in optional}, **kept}, failed


def checked_heatmaps(
    output: object, batch: int, name: str = "the method"
) -> tuple[Float32[Tensor, "batch maps height width"], Bool[Tensor, " batch"]]:
    """Check the output of an explanation method, and return heatmaps and failed rows.

    Args:
        output: floating-point tensor or numpy array [batch, maps, height, width] or [batch, height, width].
        batch: number of images.
        name: name of the method for messages.

    Returns:
        The heatmaps, float32, and a flag for each row: whether it failed, because a value is not finite. A
        failed row is 0 everywhere.

    Raises:
        InputError: the output is not an array of one of these shapes.

    Example:
        >>> maps, failed = checked_heatmaps(torch.ones(2, 4, 5), 2)
        >>> maps.shape, failed
        (torch.Size([2, 1, 4, 5]), tensor([False, False]))
    """
    part = _tensor(output)
    if (
        part is None
        or not part.is_floating_point()
        or part.ndim not in (3, 4)
        or len(part) != batch
        or not part.numel()
    ):
        raise InputError(
            f"{name}: expected heatmaps [{batch}, maps, height, width] or [{batch}, height, width], "
            f"floating-point, got {describe_output(output)}; {_WRAP}"
        )
    maps = part.detach().float()
    return _finite(maps if maps.ndim == 4 else maps[:, None], None)


def checked_codes(output: object, batch: int, name: str = "the encoder") -> Float[Tensor, "batch codes"]:
    """Check the output of an encoder, and return its codes.

    Args:
        output: real tensor or numpy array [batch, codes].
        batch: number of images.
        name: name of the encoder for messages.

    Returns:
        The codes in their floating-point dtype; integers become float64. Values that are not finite are kept;
        the metric decides how to treat them.

    Raises:
        InputError: the output has another shape, such as the feature maps of a convolutional encoder.

    Example:
        >>> checked_codes(torch.zeros(2, 8, 7, 7), 2)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: the encoder: expected codes [2, codes], real numbers, got \
float32 [2, 8, 7, 7]; pool the maps: output.mean((2, 3))
    """
    part = _tensor(output)
    if part is None or part.is_complex() or part.ndim != 2 or len(part) != batch or not part.numel():
        shape = () if part is None else part.shape
        cures = {3: "pool the tokens: output.mean(1)", 4: "pool the maps: output.mean((2, 3))"}
        raise InputError(
            f"{name}: expected codes [{batch}, codes], real numbers, got {describe_output(output)}; "
            f"{cures.get(len(shape), _WRAP)}"
        )
    # Copied, because an encoder may reuse one output buffer for all batches.
    return part.detach().clone() if part.is_floating_point() else part.double()


@contextmanager
def model_errors(name: str, image: Tensor) -> Iterator[None]:
    """Turn an exception of a model into a one-line error that names the images and the line of code.

    Args:
        name: name of the model.
        image: the images that the model is called with.

    Raises:
        OutOfMemory: memory ran out; see `candlelight.evaluation.run.batches.run_in_halves`.
        InputError: replaces any other exception, which becomes its cause.

    Example:
        >>> with model_errors("mine", torch.zeros(1, 3, 2, 2)):
        ...     raise KeyError("gain")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: model `mine` raised KeyError: 'gain' (..., line ...), given \
float32 [1, 3, 2, 2] on cpu
    """
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise OutOfMemory(
                f"memory ran out while model `{name}` ran on {describe_output(image)} on {image.device}, "
                f"even with one image; resize the images, or choose another {argument('device')}"
            ) from error
        place = extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise InputError(
            f"model `{name}` raised {reason} ({Path(place.filename).name}, line {place.lineno}), given "
            f"{describe_output(image)} on {image.device}"
        ) from error


def has_parameter(model: Callable[..., Any], name: str) -> bool:
    """Tell whether the signature of a model has a parameter of this name.

    Example:
        >>> has_parameter(lambda image, mask: image, "mask")
        True
    """
    try:
        return name in inspect.signature(model.forward if isinstance(model, nn.Module) else model).parameters
    except (TypeError, ValueError):  # compiled code has no signature
        return False


def _by_name(output: object) -> dict[str, Tensor | None]:
    """Sort an output into layers by name; None stands for something that is no tensor."""
    if isinstance(output, Mapping):
        named = {layer_name(str(name)): part for name, part in output.items()}
        return {name: _tensor(part) for name, part in named.items() if name in LAYER_CHANNELS}
    parts = list(output) if isinstance(output, tuple | list) else [output]
    if len(parts) > len(PREDICTED_LAYERS):
        return {}
    return dict(zip(PREDICTED_LAYERS, map(_tensor, parts), strict=False))


def _fits(part: Tensor | None, layer: str, image: Tensor, any_size: bool) -> bool:
    if part is None or part.ndim != 4 or not part.is_floating_point() or not part.numel():
        return False
    right = len(part) == len(image) and part.shape[1] in LAYER_CHANNELS[layer]
    return right and (any_size or part.shape[2:] == image.shape[2:])


def _shape(batch: int, channels: int, size: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, (batch, channels, *size)))}]"


def _tensor(part: object) -> Tensor | None:
    if isinstance(part, np.ndarray) and part.dtype.kind in "fciub":
        return torch.from_numpy(np.array(part, order="C"))  # torch refuses negative strides
    if isinstance(part, Tensor) and part.layout == torch.strided and not part.is_meta:
        return part
    return None


def _finite(
    values: Float32[Tensor, "batch channels height width"], mask: Bool[Tensor, "batch height width"] | None
) -> tuple[Float32[Tensor, "batch channels height width"], Bool[Tensor, " batch"]]:
    """Set values that are not finite, and whole rows with such a value inside the mask, to 0."""
    wrong = ~values.isfinite()
    counted = wrong if mask is None else wrong & mask[:, None]
    failed = counted.flatten(1).any(1)
    return values.masked_fill(wrong | failed[:, None, None, None], 0), failed


def describe_output(output: object) -> str:
    """Describe an output by its types, dtypes and shapes.

    Example:
        >>> describe_output((torch.ones(2, 3), None))
        'tuple of float32 [2, 3], NoneType'
    """
    if isinstance(output, Tensor | np.ndarray):
        return f"{str(output.dtype).removeprefix('torch.')} {list(output.shape)}"
    if isinstance(output, Mapping):
        return "{" + ", ".join(f"{key}: {describe_output(value)}" for key, value in output.items()) + "}"
    if isinstance(output, tuple | list) and len(output) < 10:
        return f"{type(output).__name__} of {', '.join(map(describe_output, output)) or 'nothing'}"
    return type(output).__name__
