"""Distances of images, and how a text names one."""

from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.intrinsic.image_errors import mse
from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.intrinsic.lpips import open_lpips
from candlelight.evaluation.intrinsic.masked import PixelMask
from candlelight.evaluation.intrinsic.ssim import dssim, ms_ssim, ssim
from candlelight.evaluation.models.model_spec import (
    PUBLISHED_METHODS,
    ColourSpace,
    ModelIdentity,
    NamedModel,
    open_callable,
    split_spec,
)
from candlelight.evaluation.models.published_methods import decode_srgb
from candlelight.evaluation.run.batches import run_in_halves
from candlelight.evaluation.run.fingerprints import weights_sha256
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.files.python_files import exception_reason
from candlelight.loaders.verification.checksums import file_sha256
from candlelight.version import RELEASE

_Images = Float[Tensor, "batch 3 height width"]


def rmse_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute the root of the mean squared difference over pixels and channels.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair, >= 0; nan if a value is not finite. Blind to the places of the differences.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> rmse_distance(torch.zeros(1, 3, 2, 2), torch.full((1, 3, 2, 2), 0.5))
        tensor([0.5000])
    """
    return mse(transformed, reference, _everywhere(transformed, reference)).sqrt()


def ssim_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute 1 - `candlelight.evaluation.intrinsic.ssim`: Wang et al. 2004, eq. 13, with its constants.

    The mean over windows is taken for each channel of RGB, then over channels; the authors' program takes
    gray images, and first reduces large ones, which this does not.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair in [0, 2]; nan if a value is not finite. Blind to colour as such. Pixels near
        the border count less, because the windows lie wholly in the image.

    Raises:
        InputError: the shapes do not agree, or the images are below 11 x 11 pixels.

    Example:
        >>> images = torch.rand(1, 3, 16, 16)
        >>> ssim_distance(images, images)
        tensor([0.])
    """
    return 1 - ssim(transformed, reference, _everywhere(transformed, reference))


def ms_ssim_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute 1 - `intrinsic.ms_ssim`: Wang et al. 2003, eq. 7, with its five exponents.

    The product over scales is taken for each channel of RGB, then the mean over channels.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair in [0, 1]; nan if a value is not finite. Blind to colour as such, and nearly
        blind to luminance.

    Raises:
        InputError: the shapes do not agree, or the images are below 161 x 161 pixels.

    Example:
        >>> images = torch.rand(1, 3, 161, 161)
        >>> ms_ssim_distance(images, images)
        tensor([0.])
    """
    return 1 - ms_ssim(transformed, reference, _everywhere(transformed, reference))


def lmse_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute `candlelight.evaluation.intrinsic.lmse` of the mean of the channels, by Grosse et al. 2009.

    Args:
        transformed: scene-linear Rec.709; the prediction of `lmse`, whose scale in each window is free.
        reference: likewise; the truth.

    Returns:
        One distance per pair in [0, 1]; nan if a value is not finite or the reference is black. Not
        symmetric. Blind to colour, and to scale and sign in each window; so nearly blind to illuminants.

    Raises:
        InputError: the shapes do not agree, or the images are below 20 x 20 pixels.

    Example:
        >>> images = torch.rand(1, 3, 20, 20)
        >>> lmse_distance(0.5 * images, images).round(decimals=6), lmse_distance(0 * images, images)
        (tensor([0.]), tensor([1.]))
    """
    everywhere = _everywhere(transformed, reference)
    return lmse(gray(transformed), gray(reference), everywhere)


def dssim_distance(transformed: _Images, reference: _Images) -> Float[Tensor, " batch"]:
    """Compute `intrinsic.dssim`: (1 - SSIM) / 2 after the best scale of the transformed image.

    Args:
        transformed: sRGB-encoded in [0, 1].
        reference: likewise.

    Returns:
        One distance per pair in [0, 1]; nan if a value is not finite. Not symmetric. Blind to one factor on
        all values of the transformed image, and to what `ssim_distance` is blind to.

    Raises:
        InputError: the shapes do not agree, or the images are below 11 x 11 pixels.

    Example:
        >>> images = torch.rand(1, 3, 16, 16)
        >>> dssim_distance(0.5 * images, images).abs().round(decimals=6)
        tensor([0.])
    """
    return dssim(transformed, reference, _everywhere(transformed, reference))


DISTANCES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], ColourSpace]] = {
    "rmse": (rmse_distance, "srgb"),
    "ssim": (ssim_distance, "srgb"),
    "ms-ssim": (ms_ssim_distance, "srgb"),
    "lmse": (lmse_distance, "linear"),
    "dssim": (dssim_distance, "srgb"),
}
"""Distances that need no weights, with the colour space of their images."""


def _everywhere(transformed: Tensor, reference: Tensor) -> PixelMask:
    axes = "batch 3 height width"
    check_shapes(transformed=(transformed, axes), reference=(reference, axes))
    return torch.ones_like(transformed[:, 0], dtype=torch.bool)


_FORMS = "lpips:FOLDER, lpips:NETWORK:FOLDER, pyiqa:NAME, package.module:callable or file.py:callable"
_NOT_DISTANCES = ("hf", *PUBLISHED_METHODS)
_TRIAL = (1, 3, 192, 192)  # shape of the trial images; MS-SSIM needs 161 pixels
_NEAR = 1e-3  # distance of equal images up to which a metric counts as a distance


def open_distance(spec: str, device: str = "cpu", default_space: ColourSpace = "srgb") -> NamedModel:
    """Open the distance of images that a text names.

    Args:
        spec: ``[NAME=]SPEC``. SPEC is a name of `DISTANCES`; ``lpips:FOLDER`` or ``lpips:NETWORK:FOLDER``,
            with both files of weights of `load_lpips` in the folder under their own names, and NETWORK "alex"
            unless given; ``package.module:callable`` or ``file.py:callable``, the user's own code, which is
            run; or ``pyiqa:NAME``, a full-reference metric of the package pyiqa, if it is installed (it may
            download weights, and forbids commercial use). Where equal images have 1, pyiqa's score s becomes
            1 - s. A class, or a function without required arguments, is called to make the distance; any
            other callable is the distance.
        device: torch device of the weights, and of the images that will be compared.
        default_space: colour space of a callable without an attribute ``colour_space``.

    Returns:
        The distance; its ``model`` maps transformed and reference images, float32 [batch, 3, height, width],
        to one number per pair, see `pair_distances`. Images are sRGB-encoded in [0, 1], or scene-linear
        Rec.709 for ``lmse`` and for a callable whose attribute ``colour_space`` is "linear".

    Raises:
        InputError: the distance does not exist, cannot be read or imported, or is not callable; weights are
            missing; pyiqa is not installed; or its metric needs no reference or is not a distance.

    Example:
        >>> open_distance("mine=rmse").identity.name
        'mine'
        >>> open_distance("sism")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: distance `sism`: expected one of rmse, ssim, ms-ssim, lmse, \
dssim; or lpips:FOLDER, lpips:NETWORK:FOLDER, pyiqa:NAME, package.module:callable or file.py:callable; \
did you mean `ssim`?
    """
    name, text = split_spec(spec)
    kind, colon, place = text.partition(":")
    if text in DISTANCES:
        measure, space = DISTANCES[text]
        identity = ModelIdentity(name or text, "shipped", f"candlelight {RELEASE}")
        return NamedModel(identity, measure, space)
    if kind == "lpips" and place:
        return _lpips(name, place, device)
    if kind == "pyiqa" and place:
        return _pyiqa(name, place, device)
    if colon and kind not in _NOT_DISTANCES and text.rpartition(":")[2].isidentifier():
        return open_callable(name, text, device, default_space)
    raise InputError(
        f"distance `{text}`: expected one of {', '.join(DISTANCES)}; or {_FORMS}"
        f"{did_you_mean(text, DISTANCES)}"
    )


def is_rmse(named: NamedModel) -> bool:
    """Tell whether a distance is the shipped RMSE, whose square is the energy of a difference.

    Example:
        >>> is_rmse(open_distance("mine=rmse")), is_rmse(open_distance("ssim"))
        (True, False)
    """
    return named.model is rmse_distance


def pair_distances(
    named: NamedModel,
    transformed: Float[Tensor, "batch 3 height width"],
    reference: Float[Tensor, "batch 3 height width"],
) -> Float64[Tensor, " batch"]:
    """Compute the distance of each pair of images; in halves where memory runs out.

    Args:
        named: from `open_distance`, on the device of the images.
        transformed: sRGB-encoded in [0, 1]; decoded for a distance of scene-linear images.
        reference: likewise.

    Returns:
        One distance per pair as the distance computed it, on the device of the images. nan stays nan: the
        distance is undefined there.

    Raises:
        OutOfMemory: memory is too small for a single pair.
        InputError: the shapes do not agree, the distance fails, or its result is not one number per pair.

    Example:
        >>> images = torch.rand(2, 3, 20, 20)
        >>> pair_distances(open_distance("lmse"), 0.0 * images, images)
        tensor([1., 1.], dtype=torch.float64)
    """
    axes = "batch 3 height width"
    check_shapes(transformed=(transformed, axes), reference=(reference, axes))

    def compare(rows: slice) -> tuple[Tensor]:
        images = transformed[rows], reference[rows]
        if named.colour_space == "linear":
            images = decode_srgb(images[0]), decode_srgb(images[1])
        with torch.no_grad(), model_errors(named.identity.name, images[0]):
            found = named.model(*images)
        numbers = found.flatten() if isinstance(found, Tensor) else found
        count = len(images[1])
        if not isinstance(numbers, Tensor) or len(numbers) != count or numbers.is_complex():
            got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"distance `{named.identity.name}`: expected one number for each of {count} pairs, got "
                f"{got}; return a tensor [batch]"
            )
        return (numbers.double(),)

    return run_in_halves(compare, len(reference))[0]


def check_distance(named: NamedModel, images: Float[Tensor, "batch 3 height width"]) -> None:
    """Refuse a similarity: a distance of equal images must be 0 (within 0.001).

    Args:
        named: from `open_distance`, on the device of the images.
        images: sRGB-encoded in [0, 1].

    Raises:
        InputError: the distance of an image from itself is not 0; nan is allowed, and means undefined.

    Example:
        >>> def similarity(transformed, reference):
        ...     return 1 - (transformed - reference).abs().mean((1, 2, 3))
        >>> named = NamedModel(ModelIdentity("mine", "callable"), similarity, "srgb")
        >>> check_distance(named, torch.rand(1, 3, 4, 4))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: distance `mine`: expected 0 for equal images, got 1; return 1 \
- similarity
    """
    farthest = pair_distances(named, images, images).abs().nan_to_num(nan=0.0).max()
    if farthest > _NEAR:
        raise InputError(
            f"distance `{named.identity.name}`: expected 0 for equal images, got {float(farthest):g}; return "
            "1 - similarity"
        )


def _lpips(name: str | None, place: str, device: str) -> NamedModel:
    distance, files = open_lpips(place, device)

    def measure(transformed: Tensor, reference: Tensor) -> Tensor:
        return distance(transformed, reference, torch.ones_like(reference[:, 0]))

    both = sha256("".join(map(file_sha256, files)).encode()).hexdigest()
    identity = ModelIdentity(name or f"lpips-{files[1].stem}", "weights", "LPIPS 0.1", both)
    return NamedModel(identity, measure, "srgb")


def _pyiqa(name: str | None, metric: str, device: str) -> NamedModel:
    try:
        pyiqa: Any = import_module("pyiqa")
    except ImportError as error:
        raise InputError(
            f"distance `pyiqa:{metric}`: cannot import pyiqa: {error}; install it (pip install pyiqa; not "
            "for commercial use), or name your own code: file.py:callable"
        ) from None
    try:
        model = pyiqa.create_metric(metric, device=torch.device(device))
    except Exception as error:  # the package raises errors of many kinds
        raise InputError(f"distance `pyiqa:{metric}`: cannot be made: {exception_reason(error)}") from None
    if model.metric_mode != "FR":
        raise InputError(
            f"distance `pyiqa:{metric}`: expected a full-reference metric, got one that takes no reference"
        )
    images = torch.rand(_TRIAL, generator=torch.Generator().manual_seed(0)).to(device)
    with torch.no_grad():
        same = float(model(images, images).double().mean())
    if min(abs(same), abs(same - 1)) > _NEAR:
        raise InputError(
            f"distance `pyiqa:{metric}`: expected 0 or 1 for equal images, got {same:g}; make a distance "
            "of it in your own code: file.py:callable"
        )

    def measure(transformed: Tensor, reference: Tensor) -> Tensor:
        score: Tensor = model(transformed, reference)
        return score if abs(same) <= _NEAR else 1 - score

    about = f"{metric} of pyiqa {getattr(pyiqa, '__version__', 'without version')}"
    identity = ModelIdentity(name or f"pyiqa-{metric}", "pyiqa", about, weights_sha256(model))
    return NamedModel(identity, measure, "srgb")
