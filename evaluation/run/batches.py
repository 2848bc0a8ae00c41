"""Batches of rows, a hash of the rows that were read, the provenance of a result, and repeatable sums."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.result import Better, Provenance, package_versions
from candlelight.evaluation.views import View
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Batch(Generic[_Item]):
    """Neighbouring rows whose images have one size."""

    rows: tuple[int, ...]
    ids: tuple[str, ...]
    items: tuple[_Item, ...]

    def stack(self, pick: Callable[[_Item], Tensor]) -> Tensor:
        """Stack one tensor of each item.

        Example:
            >>> Batch((0, 1), ("a", "b"), (torch.zeros(2), torch.ones(2))).stack(lambda item: item).shape
            torch.Size([2, 2])
        """
        return torch.stack([pick(item) for item in self.items])


class Fingerprint:
    """SHA-256 of all rows that an evaluation read: their ids and every tensor, number and text of the items.

    Two results with equal fingerprints are of the same data, even if one read frames and the other a pack.
    Images under other lights, which few models take, have a hash of their own, so that results of models that
    took them can be compared with results of others.
    """

    def __init__(self) -> None:
        self._hash, self._lights = hashlib.sha256(), hashlib.sha256()

    def add(self, name: str, item: object) -> None:
        """Add one row to the hash."""
        self._hash.update(name.encode() + b"\0")
        self._add(item)

    def hexdigest(self) -> str:
        """Return the SHA-256 of the rows so far, without images under other lights."""
        return self._hash.hexdigest()

    def lights_hexdigest(self) -> str:
        """Return the SHA-256 of the images under other lights so far."""
        return self._lights.hexdigest()

    def describe(self, view: View[Any]) -> dict[str, Any]:
        """Describe the data of a result: names, number of rows and SHA-256."""
        known = {name: value for name, value in asdict(view.identity).items() if value is not None}
        return {**known, "rows": len(view.ids), "sha256": self.hexdigest()}

    def _add(self, value: object) -> None:
        if isinstance(value, Tensor):
            self._hash.update(f"{value.dtype}{tuple(value.shape)}".encode())
            if value.numel():  # torch refuses to view some empty tensors as bytes
                self._hash.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                part = getattr(value, field.name)
                if field.name == "shading_known" and part is None:
                    continue  # data whose channels are all known have the hash that they always had
                if field.name == "lights" and isinstance(part, Tensor):
                    self._lights.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
                    part = None
                self._add(part)
        elif isinstance(value, Mapping):
            for key in sorted(value):
                self._hash.update(str(key).encode() + b"\0")
                self._add(value[key])
        elif isinstance(value, np.ndarray):
            self._add(torch.from_numpy(np.array(value, order="C")))
        elif value is None or isinstance(value, str | bytes | int | float):
            self._hash.update(repr(value).encode() + b"\0")
        else:
            raise InputError(
                f"rows of a view must hold tensors, arrays, numbers and texts, got {type(value).__name__}"
            )


def read_batches(
    view: View[_Item], batch_size: int, image: Callable[[_Item], Tensor], fingerprint: Fingerprint, label: str
) -> Iterator[Batch[_Item]]:
    """Read all rows of a view in order, in batches whose images have one size.

    Args:
        view: the rows.
        batch_size: maximal number of rows in a batch.
        image: returns the image of an item; all images of a batch have one shape.
        fingerprint: every row is added to it.
        label: label of the progress bar.

    Raises:
        InputError: there is no row, or the batch size is below 1.
    """
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")
    if not len(view) == len(view.ids) == len(view.groups):
        counts = f"{len(view)} rows, {len(view.ids)} ids and {len(view.groups)} groups"
        raise InputError(f"`{view.identity.name}`: expected an id and a group for each row, got {counts}")
    if not len(view.ids):
        raise InputError(
            f"no rows to read: `{view.identity.name}` is empty, or {argument('rows')} chooses none"
        )
    pending: list[tuple[int, _Item]] = []
    shape: tuple[int, ...] = ()
    for row, name in enumerate(progress_bar(view.ids, desc=label, unit="row")):
        item = view[row]
        fingerprint.add(name, item)
        before, shape = shape, tuple(image(item).shape)  # of every row, because `image` may check it
        if pending and (len(pending) == batch_size or before != shape):
            yield _batch(view, pending)
            pending = []
        pending.append((row, item))
    yield _batch(view, pending)


def check_srgb_image(image: Tensor) -> Tensor:
    """Check that an image is float32, has three channels and lies in [0, 1], and return it.

    Raises:
        InputError: the image is not float32 [3, height, width] with sRGB-encoded values in [0, 1].

    Example:
        >>> check_srgb_image(torch.full((3, 1, 1), 128.0))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected images float32 [3, height, width], sRGB-encoded in \
[0, 1], got float32 [3, 1, 1] from 128 to 128
    """
    fits = isinstance(image, Tensor) and image.dtype == torch.float32 and image.ndim == 3 and len(image) == 3
    if not fits or not bool(((image >= 0) & (image <= 1)).all()):
        got = type(image).__name__
        if isinstance(image, Tensor):
            got = f"{str(image.dtype).removeprefix('torch.')} {list(image.shape)}"
            got += f" from {float(image.min()):g} to {float(image.max()):g}" if image.numel() else ""
        raise InputError(f"expected images float32 [3, height, width], sRGB-encoded in [0, 1], got {got}")
    return image


def _batch(view: View[_Item], read: Sequence[tuple[int, _Item]]) -> Batch[_Item]:
    rows = tuple(row for row, _ in read)
    return Batch(rows, tuple(view.ids[row] for row in rows), tuple(item for _, item in read))


def weights_sha256(model: object) -> str | None:
    """Hash the weights of a network by name.

    Args:
        model: a network, or a function whose attribute ``network`` is one, as `layer_codes` makes it.

    Returns:
        SHA-256 in hexadecimal; None for any other model.
    """
    network = model if isinstance(model, nn.Module) else getattr(model, "network", None)
    if not isinstance(network, nn.Module):
        return None
    fingerprint = Fingerprint()
    for name, values in sorted(network.state_dict().items()):
        fingerprint.add(name, values.detach().cpu() if isinstance(values, Tensor) else values)
    return fingerprint.hexdigest()


def make_provenance(
    metric: str,
    version: int,
    better: Better,
    named: NamedModel,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Provenance:
    """Make the provenance of a result; it includes a hash of the model's weights, if it is a network.

    Args:
        metric: name of the metric.
        version: version of the metric.
        better: whether lower or higher values are better, or neither.
        named: the model.
        data: description of the data, from `Fingerprint.describe`.
        settings: arguments of the evaluation that change the numbers.
    """
    model = asdict(named.identity) | {"weights_sha256": weights_sha256(named.model)}
    model = {name: value for name, value in model.items() if value is not None}
    return Provenance(metric, version, better, model, dict(data), dict(settings), package_versions())


@contextmanager
def repeatable(device: str | torch.device) -> Iterator[None]:
    """Let a GPU compute in full float32, and sum in the same order each time where torch can.

    By itself, cuDNN rounds the factors of convolutions to 10 bits (TF32), which changes scores by 0.1 %.
    """
    if torch.device(device).type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as cuBLAS needs it to repeat its sums
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    exact = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    with exact, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*deterministic", UserWarning)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
