"""The origin of a result: a hash of the rows that were read, of a network's weights, and the provenance."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.result import Directions, Provenance, package_versions
from candlelight.evaluation.views import View
from candlelight.loaders.errors import InputError


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
                if field.name == "changes":
                    # Images of one region are in `changed`, and have the hash that they always had.
                    for change in (one for one in part if len(one.regions) > 1):
                        self._add(change)
                    continue
                if field.name == "lights" and isinstance(part, Tensor):
                    self._lights.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
                    part = None
                self._add(part)
        elif isinstance(value, Mapping):
            for key in sorted(value):
                self._hash.update(str(key).encode() + b"\0")
                self._add(value[key])
        elif isinstance(value, tuple):
            for part in value:
                self._add(part)
        elif isinstance(value, np.ndarray):
            self._add(torch.from_numpy(np.array(value, order="C")))
        elif value is None or isinstance(value, str | bytes | int | float):
            self._hash.update(repr(value).encode() + b"\0")
        else:
            raise InputError(
                f"rows of a view must hold tensors, arrays, numbers and texts, got {type(value).__name__}"
            )


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
    better: Directions,
    named: NamedModel,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Provenance:
    """Make the provenance of a result; it includes a hash of the model's weights, if it is a network.

    Args:
        metric: name of the metric.
        version: version of the metric.
        better: whether lower or higher values are better, or neither; or that by column.
        named: the model.
        data: description of the data, from `Fingerprint.describe`.
        settings: arguments of the evaluation that change the numbers.
    """
    model = asdict(named.identity) | {"weights_sha256": weights_sha256(named.model)}
    model = {name: value for name, value in model.items() if value is not None}
    return Provenance(metric, version, better, model, dict(data), dict(settings), package_versions())
