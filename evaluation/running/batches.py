"""Batches of data, the identity of data, and the record of a run, for every evaluation."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from evaluation.models.model_spec import NamedModel
from evaluation.results.result import Provenance, package_versions
from loaders.errors import InputError
from loaders.views import View

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
    """SHA-256 of all rows that an evaluation read: ids, and every tensor and number of the items.

    Two results can be compared where their fingerprints agree, whatever the rows were stored in.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, name: str, item: object) -> None:
        """Take in one row."""
        self._hash.update(name.encode() + b"\0")
        self._add(item)

    def hexdigest(self) -> str:
        """SHA-256 of the rows so far."""
        return self._hash.hexdigest()

    def describe(self, view: View[Any]) -> dict[str, Any]:
        """Names of the data, number of rows and SHA-256: the ``data`` of a result."""
        known = {name: value for name, value in asdict(view.identity).items() if value is not None}
        return {**known, "rows": len(view.ids), "sha256": self.hexdigest()}

    def _add(self, value: object) -> None:
        if isinstance(value, Tensor):
            self._hash.update(f"{value.dtype}{tuple(value.shape)}".encode())
            self._hash.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                self._add(getattr(value, field.name))
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
                f"expected tensors, arrays, numbers and texts in rows of a view, got {type(value).__name__}"
            )


def read_batches(
    view: View[_Item], batch_size: int, image: Callable[[_Item], Tensor], fingerprint: Fingerprint, label: str
) -> Iterator[Batch[_Item]]:
    """Read all rows of a view in order, in batches whose images have one size.

    Args:
        view: the rows.
        batch_size: rows of a batch at most.
        image: the image of an item, whose shape the rows of a batch share.
        fingerprint: takes in every row.
        label: of the progress bar.

    Raises:
        InputError: there is no row, or the batch size is below 1.
    """
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")
    if not len(view) == len(view.ids) == len(view.groups):
        counts = f"{len(view)} rows, {len(view.ids)} ids and {len(view.groups)} groups"
        raise InputError(f"`{view.identity.name}`: expected an id and a group for each row, got {counts}")
    if not len(view.ids):
        raise InputError(f"no rows to read: `{view.identity.name}` is empty, or `rows` chooses none")
    pending: list[tuple[int, _Item]] = []
    for row, name in enumerate(tqdm(view.ids, desc=label, unit="row", disable=None)):
        item = view[row]
        fingerprint.add(name, item)
        if pending and (len(pending) == batch_size or image(pending[0][1]).shape != image(item).shape):
            yield _batch(view, pending)
            pending = []
        pending.append((row, item))
    yield _batch(view, pending)


def check_srgb_image(image: Tensor) -> Tensor:
    """Return an image that is what views of images hold.

    Raises:
        InputError: the image is not float32 [3, height, width] with sRGB-encoded values in [0, 1].

    Example:
        >>> check_srgb_image(torch.full((3, 1, 1), 128.0))
        Traceback (most recent call last):
        loaders.errors.InputError: expected images float32 [3, height, width], sRGB-encoded in [0, 1], got \
float32 [3, 1, 1] from 128 to 128
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
    """Hash the weights of a network by name, also of one whose layer a function reads; None of others."""
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
    better: Literal["lower", "higher"],
    named: NamedModel,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Provenance:
    """Make the record of a run; the weights of a network are hashed, whatever it was read from."""
    model = asdict(named.identity) | {"weights_sha256": weights_sha256(named.model)}
    model = {name: value for name, value in model.items() if value is not None}
    return Provenance(metric, version, better, model, dict(data), dict(settings), package_versions())
