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

from candlelight.evaluation.run.batches import OutOfMemory
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError, argument, is_out_of_memory


class MissingLayer(InputError):
    """Error: a model, or a file, has reflectance alone, and shading is scored."""


ImageBatch = Float[Tensor, "batch 3 height width"]
Decomposed = tuple[
    Float32[Tensor, "batch 3 height width"], Float32[Tensor, "batch 3 height width"], Bool[Tensor, " batch"]
]
PREDICTED_LAYERS = ("reflectance", "shading")
_WRAP = "name a hidden layer (--layer), or wrap the model so that it does"


def run_intrinsic(
    model: Callable[..., Any],
    image: ImageBatch,
    mask: Bool[Tensor, "batch height width"] | None = None,
    lights: Float[Tensor, "batch lights 3 height width"] | None = None,
    layers: Sequence[str] = PREDICTED_LAYERS,
) -> Decomposed:
    """Decompose images by a model, in evaluation mode and without gradients.

    Args:
        model: called with ``image``, and with ``mask=`` and ``lights=`` if its signature has these
            parameters: without the mask, colour Retinex mistakes the outline of an object for a reflectance
            edge.
        image: in the colour space and on the device that the model expects.
        mask: pixels that are scored. None means all pixels, and no mask is passed to the model.
        lights: the same scenes under other lights, in the same colour space; None if there are none.
        layers: see `checked_decomposition`.

    Returns:
        See `checked_decomposition`.

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
        return checked_decomposition(model(image, **options), image, name, mask, layers)


def checked_decomposition(
    output: object,
    image: ImageBatch,
    name: str,
    mask: Bool[Tensor, "batch height width"] | None = None,
    layers: Sequence[str] = PREDICTED_LAYERS,
) -> Decomposed:
    """Check the output of an intrinsic image model, and return reflectance, shading and failed rows.

    Args:
        output: reflectance and shading, in this order or under these names in a mapping: floating-point
            tensors or numpy arrays of the shape of ``image``. Gray shading may have one channel. It may be
            reflectance alone if shading is not among ``layers``.
        image: the images that the model decomposed.
        name: name of the model for messages.
        mask: pixels that are scored; all if None.
        layers: layers that are scored; another layer cannot fail.

    Returns:
        Reflectance and shading (gray shading is repeated over the channels; 0 if there is none), both
        float32, on the device of ``image`` and with the gradients of the output; and a flag for each row:
        whether it failed, because a value of ``layers`` inside the mask is not finite. In a row where a layer
        has such a value, the layer is 0 everywhere; so are both in a failed row. Values outside the mask that
        are not finite become 0.

    Raises:
        MissingLayer: the output is reflectance alone, and shading is scored.
        InputError: the output is not a pair of images of these shapes.

    Example:
        >>> image = torch.ones(2, 3, 1, 1)
        >>> pair = {"reflectance": image, "shading": torch.tensor([1.0, torch.nan]).reshape(2, 1, 1, 1)}
        >>> reflectance, shading, failed = checked_decomposition(pair, image, "mine")
        >>> shading[:, :, 0, 0].tolist(), failed.tolist()
        ([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], [False, True])
    """
    reflectance, shading = _pair(output)
    shape, gray = list(image.shape), [len(image), 1, *image.shape[2:]]
    right = reflectance is not None and _is_float(reflectance) and list(reflectance.shape) == shape
    fits = right and shading is not None and _is_float(shading) and list(shading.shape) in (shape, gray)
    alone = right and shading is None
    if reflectance is None or not (fits or (alone and "shading" not in layers)):
        raise (MissingLayer if alone else InputError)(
            f"{name}: expected reflectance {shape} and shading {shape} or {gray}, floating-point, "
            f"got {describe_output(output)}; return (reflectance, shading)"
        )
    inside = None if mask is None else mask.to(image.device)
    found = [
        _finite(_float32(part, image.device).expand_as(image), inside)
        for part in (reflectance, image.new_zeros(()) if shading is None else shading)
    ]
    wrong = [flags for layer, (_, flags) in zip(PREDICTED_LAYERS, found, strict=True) if layer in layers]
    failed = torch.stack(wrong).any(0)
    lost = failed[:, None, None, None]
    return found[0][0].masked_fill(lost, 0), found[1][0].masked_fill(lost, 0), failed


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
        or not _is_float(part)
        or part.ndim not in (3, 4)
        or len(part) != batch
        or not part.numel()
    ):
        raise InputError(
            f"{name}: expected heatmaps [{batch}, maps, height, width] or [{batch}, height, width], "
            f"floating-point, got {describe_output(output)}; {_WRAP}"
        )
    maps = _float32(part.detach(), part.device)
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


def _pair(output: object) -> tuple[Tensor | None, Tensor | None]:
    """Split an output into reflectance and shading; shading is None if there is reflectance alone."""
    if isinstance(output, Mapping):
        output = [output[layer] for layer in PREDICTED_LAYERS if layer in output]
    if not isinstance(output, tuple | list):
        return _tensor(output), None
    if len(output) not in (1, 2):
        return None, None
    reflectance, *rest = map(_tensor, output)
    if any(part is None for part in rest):  # given, and no tensor
        return None, None
    return reflectance, rest[0] if rest else None


def _tensor(part: object) -> Tensor | None:
    if isinstance(part, np.ndarray) and part.dtype.kind in "fciub":
        return torch.from_numpy(np.array(part, order="C"))  # torch refuses negative strides
    if isinstance(part, Tensor) and part.layout == torch.strided and not part.is_meta:
        return part
    return None


def _is_float(*parts: Tensor) -> bool:
    return all(part.is_floating_point() for part in parts)


def _float32(part: Tensor, device: torch.device) -> Tensor:
    return part.to(device, torch.float32)


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
