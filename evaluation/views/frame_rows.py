"""Open image sets for views: only the needed layers, with rows named by their metadata."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.views.chosen_rows import NamedRows, Request, choose_rows
from candlelight.evaluation.views.view_items import DataIdentity
from candlelight.loaders.choices import choose_name
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.frames import DATASET, read_dataset_info
from candlelight.loaders.open_frames import no_frames, open_frames, open_hdf5
from candlelight.loaders.packed_frames import PackedFrames
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST, read_pack_manifest
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.samples import Frames, factor_number
from candlelight.loaders.schema import SetInfo

LayersOf = Callable[[Collection[str]], tuple[str, ...]]
_MANY = 1000  # more rows than this get a progress bar


@dataclass(frozen=True, eq=False)
class FrameRows(NamedRows):
    """Chosen rows of an image set; ``table`` holds their rows of `Frames.factor_table`."""

    table: Float64[ndarray, "n k"]


def is_frames(path: Path) -> bool:
    """Say whether a path holds frames or a pack."""
    return path.is_file() or (path / DATASET).is_file() or (path.is_dir() and any(path.glob("[!.]*.h5")))


def open_frame_rows(place: Path | str, request: Request, layers_of: LayersOf) -> FrameRows:
    """Open an image set and choose rows.

    Args:
        place: a folder of frames, an HDF5 file or a folder of HDF5 files, or a folder from `pack_hub`.
        request: the set, split and rows.
        layers_of: chooses the layers to read from the layers of the set.

    Raises:
        InputError: the path holds no frames; there are several sets or splits, and none is named; or the
            set, split, layer or row does not exist.
    """
    path = local_folder(place)
    sets, splits = list_sets(path)
    name = choose_name(path, "set", list(sets), request.set_name)
    split = choose_name(path, "split", splits[name], request.split)
    with_path = f"{path}, set `{name}`"
    layers = _needed(with_path, sets[name].layers, layers_of)
    return name_frames(open_frames(path, name, split, layers), request, layers_of)


def name_frames(frames: Frames, request: Request, layers_of: LayersOf) -> FrameRows:
    """Choose rows of a reader of frames, and read their ids, units and factor values.

    Raises:
        InputError: a layer or row does not exist, or the metadata of a row are damaged.
    """
    _needed(f"set `{frames.set_name}`", frames.layers, layers_of)
    recipe = frames.info.recipe.sha256
    split = getattr(frames, "split", None)
    identity = DataIdentity(frames.info.name, "frames", frames.set_name, split, recipe)
    numbers = choose_rows(len(frames), request)
    ids, units, table = [], [], np.empty((len(numbers), len(frames.set_info.factors)))
    for place, metadata in enumerate(_metadata(frames, numbers)):
        ids.append(metadata.id)
        units.append(metadata.unit)
        table[place] = [factor_number(factor, metadata) for factor in frames.set_info.factors]

    def every_id() -> Iterable[str]:
        if len(numbers) == len(frames):
            return ids
        if isinstance(frames, PackedFrames):  # packs have a column of ids alone
            return [frames._id(row) for row in range(len(frames))]
        return [metadata.id for metadata in _metadata(frames, range(len(frames)))]

    return FrameRows(identity, frames, numbers, tuple(ids), tuple(units), every_id, table)


def all_layers(*names: str) -> LayersOf:
    """Require layers, whatever the set has."""

    def choose(available: Collection[str]) -> tuple[str, ...]:
        del available
        return names

    return choose


def _needed(where: str, available: Collection[str], layers_of: LayersOf) -> tuple[str, ...]:
    layers = layers_of(available)
    for name in layers:
        if name not in available:
            raise InputError(
                f"{where} has no `{name}` layer; expected {', '.join(layers)}: render the set with these "
                "layers, and do not leave them out when reading"
            )
    return layers


def _metadata(frames: Frames, rows: Collection[int]) -> Iterable[Any]:
    bar = progress_bar(rows, desc="metadata", unit="row", disable=len(rows) <= _MANY)
    return (frames.metadata(row) for row in bar)


def list_sets(path: Path) -> tuple[dict[str, SetInfo], dict[str, list[str]]]:
    """List the image sets at a path with their splits; frames outside a pack form the split `train`."""
    splits: dict[str, list[str]] = {}
    if files := open_hdf5(path):
        for name, split in files:
            splits.setdefault(name, []).append(split)
        return {name: files[name, found[0]].set_info for name, found in splits.items()}, splits
    if not (path / DATASET).is_file():
        raise no_frames(path)
    sets = read_dataset_info(path).sets
    packed = read_pack_manifest(path) if (path / PACK_MANIFEST).is_file() else None
    return sets, {name: packed.splits_of(name) if packed else ["train"] for name in sets}
