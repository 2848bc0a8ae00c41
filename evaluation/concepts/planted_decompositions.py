"""Decompositions made of the ground truth, with known faults, to hold scores of concepts against."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float32
from torch import Tensor

from candlelight.evaluation.inputs.predictions import Predictions
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import Decompositions


@dataclass(frozen=True)
class _Fault:
    """Faults of a decomposition: noise, a leak of the other layer, or a constant."""

    noise: float = 0
    leak: float = 0
    constant: bool = False


FAULTS = {
    "ideal": _Fault(),
    "ideal, 1 % noise": _Fault(noise=0.01),
    "ideal, 10 % noise": _Fault(noise=0.1),
    "half leak": _Fault(noise=0.01, leak=0.5),
    "full leak": _Fault(noise=0.01, leak=1),
    "constant": _Fault(constant=True),
}


@dataclass(frozen=True, eq=False)
class PlantedDecompositions(Predictions):
    """Predictions made of the ground truth, which is read from views by id."""

    rows: Mapping[str, tuple[Decompositions, int]]
    fault: _Fault

    def read(
        self, name: str
    ) -> tuple[Float32[Tensor, "3 height width"], Float32[Tensor, "channels height width"]]:
        """Make the decomposition of one image; equal ids give equal noise."""
        view, row = self.rows[name]
        truth = view[row]
        layers = truth.reflectance, truth.shading.expand_as(truth.reflectance)
        if self.fault.constant:
            return torch.full_like(layers[0], 0.5), torch.full_like(layers[0], 0.5)
        drawn = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        made = []
        for own, other in (layers, layers[::-1]):
            factor = 1 + self.fault.noise * torch.randn(own.shape, generator=drawn)
            made.append(own * other.clamp(min=0) ** self.fault.leak * factor)
        return made[0], made[1]


def planted_decompositions(views: Sequence[Decompositions]) -> dict[str, NamedModel]:
    """Make decompositions with known faults for `score_concepts`, from the ground truth of all its images.

    With reflectance R, shading S and standard normal noise n in each pixel and channel:

    - "ideal": R and S. No gradient, so all sensitivities are 0.
    - "ideal, 1 % noise", "ideal, 10 % noise": R (1 + p n) and S (1 + p n).
    - "half leak": R S^0.5 and S R^0.5, with 1 % of noise.
    - "full leak": R S and S R, with 1 % of noise: both branches are the image.
    - "constant": 0.5 in both branches. No vectors, so all sensitivities are 0.

    Args:
        views: ground truth of the test frames, of all concept and control sets, and of the negatives.

    Raises:
        InputError: an id is in two views.

    Example:
        >>> list(planted_decompositions([]))
        ['ideal', 'ideal, 1 % noise', 'ideal, 10 % noise', 'half leak', 'full leak', 'constant']
    """
    rows: dict[str, tuple[Decompositions, int]] = {}
    for view in views:
        for row, identifier in enumerate(view.ids):
            if identifier in rows:
                raise InputError(
                    f"planted decompositions: `{identifier}` is in two data sets; render one of them with "
                    "another seed"
                )
            rows[identifier] = view, row
    files = dict.fromkeys(rows, (Path(), Path()))  # the ids; nothing is read from them
    return {
        name: NamedModel(
            ModelIdentity(name, "planted"),
            PlantedDecompositions(Path("planted"), files, None, rows, fault),
            "linear",
        )
        for name, fault in FAULTS.items()
    }
