"""An image set held in memory, with the shape that every reader of frames has."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy import ndarray

from loaders.samples import Frame
from loaders.schema import DatasetInfo, FactorInfo, Metadata, RecipeRecord, SetInfo


class MemoryFrames:
    """Samples in a list, with their description."""

    def __init__(self, samples: Sequence[dict[str, Any]], set_info: SetInfo) -> None:
        self.samples = list(samples)
        self.set_info = set_info
        self.set_name = "memory"
        self.info = DatasetInfo(
            name="memory",
            description="",
            licence="CC0-1.0",
            recipe=RecipeRecord(name="none", sha256="0" * 64),
            seed=0,
            candlelight="0",
            sets={"memory": set_info},
        )
        self.indices = np.arange(len(self.samples))
        self.layers = set_info.layers

    @property
    def factor_table(self) -> ndarray:
        rows = [[sample["factors"][f.name] for f in self.set_info.factors] for sample in self.samples]
        return np.array(rows, dtype=np.float64).reshape(len(self.samples), len(self.set_info.factors))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.samples[row]

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        return [self.samples[row] for row in rows]

    def metadata(self, row: int) -> Metadata:
        raise NotImplementedError

    def frame(self, row: int) -> Frame:
        raise NotImplementedError


@pytest.fixture
def memory_frames() -> Callable[..., MemoryFrames]:
    """Make frames from layers, factor columns and factor descriptions.

    ``layers`` maps a layer to a tensor whose first axis is the sample.
    """

    def make(
        layers: dict[str, torch.Tensor],
        factors: dict[str, Sequence[float]] | None = None,
        infos: Sequence[FactorInfo] = (),
        objects: Sequence[Sequence[str]] | None = None,
        varies: Sequence[str] = (),
        exposure: float = 1.0,
    ) -> MemoryFrames:
        count, _, height, width = layers["image"].shape
        samples = [
            {
                "id": f"memory/{row:06d}",
                **{name: tensor[row] for name, tensor in layers.items()},
                "factors": {name: column[row] for name, column in (factors or {}).items()},
                "objects": [{"type": name} for name in (objects[row] if objects else ())],
            }
            for row in range(count)
        ]
        info = SetInfo(
            count=count,
            width=width,
            height=height,
            layers=tuple(layers),
            factors=tuple(infos),
            varies=tuple(varies),
            exposure=exposure,
        )
        return MemoryFrames(samples, info)

    return make
