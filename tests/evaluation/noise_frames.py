"""Frames of noise in the layout of rendered ones, for tests of commands and pages."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import DatasetInfo, SetInfo

TESTS = Path(__file__).parents[1]


def load_builders(file: str) -> ModuleType:
    """Import the builders of tiny data from a file of another folder anew, to change their sizes."""
    path = TESTS / file
    spec = importlib.util.spec_from_file_location(f"builders_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_frames(
    root: Path,
    sets: Mapping[str, Mapping[str, Any]],
    layers: Sequence[str],
    height: int | None = None,
    change: Callable[..., Any] = lambda name, index, metadata: metadata,
) -> None:
    """Write a frame for each combination of factors of each set, which are those of `GRID` unless given."""
    made = load_builders("loaders/conftest.py")
    made.HEIGHT = height or made.HEIGHT
    layers = [name for name in made.LAYERS if name in layers]
    common = {"width": made.WIDTH, "height": made.HEIGHT, "layers": layers, "factors": made.GRID}
    infos = {}
    for name, members in sets.items():
        factors = members.get("factors", made.GRID)
        rows = list(product(*(factor.values for factor in factors)))
        infos[name] = SetInfo(**{**common, **members, "count": len(rows)})
    record = {"name": "tiny", "sha256": "a" * 64}
    about = {"description": "Noise.", "licence": "CC-BY-4.0", "seed": 3, "candlelight": "0.1.0"}
    write_dataset_info(root, DatasetInfo(name="demo", recipe=record, sets=infos, **about))
    for name, info in infos.items():
        for index, row in enumerate(product(*(factor.values for factor in info.factors))):
            values = dict(zip((factor.name for factor in info.factors), row, strict=True))
            drawn = made._layers(np.random.default_rng([len(name), index]))
            arrays = {layer: drawn[layer] for layer in layers}
            metadata = change(name, index, made._metadata(name, index, values, arrays))
            write_frame(root, Frame(metadata, arrays))
