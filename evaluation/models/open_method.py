"""Open a published method by the text of the command line."""

from collections.abc import Callable
from pathlib import Path

from candlelight.evaluation.models.marigold import download_marigold, load_marigold
from candlelight.evaluation.models.published_methods import (
    AdaptedNetwork,
    load_bigtime,
    load_cgintrinsics,
    load_niid_net,
    load_usi3d,
)
from candlelight.loaders.errors import InputError

_CHECKOUTS: dict[str, Callable[[str, str, str], AdaptedNetwork]] = {
    "cgintrinsics": load_cgintrinsics,
    "bigtime": load_bigtime,
    "usi3d": load_usi3d,
    "niid-net": load_niid_net,
}


def open_method(method: str, place: str, device: str) -> AdaptedNetwork:
    """Open a published method.

    Args:
        method: one of `candlelight.evaluation.models.model_spec.PUBLISHED_METHODS`.
        place: ``CHECKOUT:WEIGHTS``; for ``marigold``, a folder or OWNER/NAME on the Hugging Face Hub.
        device: torch device.

    Raises:
        InputError: ``place`` has another form, or see the function of the method.

    Example:
        >>> open_method("usi3d", "USI3D", "cpu")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected usi3d:CHECKOUT:WEIGHTS, got usi3d:USI3D
    """
    if method == "marigold":
        if Path(place).exists() or place.count("/") != 1:
            return load_marigold(place, device)
        folder, commit = download_marigold(place)
        return load_marigold(folder, device, commit)
    checkout, _, weights = place.rpartition(":")
    if not checkout or not weights:
        raise InputError(f"expected {method}:CHECKOUT:WEIGHTS, got {method}:{place}")
    return _CHECKOUTS[method](checkout, weights, device)
