"""Read the content of a data set (`looking.contents`) from each kind of storage, and describe it as text."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.errors import DAMAGED, InputError, blame
from candlelight.loaders.files.json_records import parse_record
from candlelight.loaders.files.object_stores import Store, open_store
from candlelight.loaders.files.urls import is_elsewhere, local_folder
from candlelight.loaders.foreign_text import printable
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import (
    DATASET,
    METADATA,
    PLAN,
    complete_indices,
    frame_path,
    read_dataset_info,
)
from candlelight.loaders.hdf5.hdf5_datasets import open_file
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.looking.contents import (
    Contents,
    SetContents,
    bytes_below,
    content_lines,
    make_contents,
    make_set_contents,
    some_metadata,
    spread_rows,
)
from candlelight.loaders.open_frames import no_frames, open_hdf5
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST, Shard, read_pack_manifest
from candlelight.loaders.schema import DatasetInfo, FactorInfo, Metadata, SetInfo

_FOLDER_COMPRESSION = "image as PNG, other layers deflated"


def look(path: Path | str) -> Contents:
    """Read the content of a data set, without pixels.

    The function reads the description, the factors of all rows and the metadata of at most 64 samples of each
    set, at a URL of one. The factors of a folder of frames come from its plan. Without a plan, they come from
    the metadata of all samples, which takes longer; at a URL they are then unknown.

    Args:
        path: a folder of frames, an ``.h5`` file or a folder of them, or a folder that `pack_hub` made; or
            the URL of a folder of frames.

    Raises:
        InputError: the path holds no image set, or is damaged.

    Example:
        >>> look("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: does not exist; expected a folder of frames, an .h5 \
file or a folder of them, or a Hugging Face folder
    """
    if is_elsewhere(path):
        return _look_at_store(open_store(str(path)))
    path = local_folder(path)
    if files := open_hdf5(path):
        return _look_at_hdf5(path, files)
    if not (path / DATASET).is_file():
        raise no_frames(path)
    return _look_at_hub(path) if (path / PACK_MANIFEST).is_file() else _look_at_folder(path)


def describe(path: Path | str) -> str:
    """Describe a data set: origin, image sets with their samples, layers and factors, bytes on disk.

    Args:
        path: a folder of frames, an ``.h5`` file or a folder of them, or a folder that `pack_hub` made; or
            the URL of a folder of frames.

    Returns:
        Several lines of text.

    Raises:
        InputError: the path holds no image set, or is damaged.
    """
    return "\n".join(map(printable, content_lines(look(path))))


def read_graphs(path: Path | str) -> dict[str, CausalGraph]:
    """Read the causal graph of each image set.

    Args:
        path: as of `describe`, on this machine.

    Raises:
        InputError: the path holds no image set, or sets made before data sets held their graphs.
    """
    root = local_folder(path)
    if files := open_hdf5(root):
        sets = {name: reader.set_info for (name, _), reader in files.items()}
    elif (root / DATASET).is_file():
        sets = read_dataset_info(root).sets
    else:
        raise no_frames(root)
    graphs = {name: one.graph for name, one in sets.items() if one.graph is not None}
    if not graphs:
        raise InputError(f"{path}: expected the causal graph of a set, got a data set of an earlier version")
    return graphs


def _look_at_folder(root: Path) -> Contents:
    info = read_dataset_info(root)
    plan = (root / PLAN).read_bytes() if (root / PLAN).is_file() else None
    found = {}
    for name, set_info in info.sets.items():
        indices = complete_indices(root, name)
        table = _planned_factors(plan, name, set_info, indices)
        if table is None:
            empty = np.empty((0, len(set_info.factors)))
            table = FrameFolder(root, name).factor_table if len(indices) else empty
        size = bytes_below(frame_path(root, name, 0).parents[1])
        some = some_metadata(root, name, indices)
        splits = {"train": len(indices)}
        found[name] = make_set_contents(set_info, splits, size, _FOLDER_COMPRESSION, table, some)
    return make_contents("folder of frames", info, found, bytes_below(root))


def _look_at_store(store: Store) -> Contents:
    if (data := store.read(DATASET)) is None:
        raise InputError(f"{store.name}: expected a folder of frames; {DATASET} is missing")
    info = parse_record(DatasetInfo, data, f"{store.name}/{DATASET}", "name a folder of rendered frames")
    plan = store.read(PLAN)
    found = {}
    for name, set_info in info.sets.items():
        sizes = store.complete(name)
        indices = np.array(list(sizes), np.int64)
        table = _planned_factors(plan, name, set_info, indices)
        first = _first_of_store(store, name, int(indices[0])) if len(indices) else None
        size = sum(sizes.values())
        splits = {"train": len(sizes)}
        found[name] = make_set_contents(set_info, splits, size, _FOLDER_COMPRESSION, table, first=first)
    return make_contents("folder of frames", info, found, sum(one.bytes for one in found.values()))


def _first_of_store(store: Store, set_name: str, index: int) -> Metadata | None:
    name = f"{frame_path(Path(), set_name, index).as_posix()}/{METADATA}"
    if (data := store.read(name)) is None:
        return None
    return parse_record(Metadata, data, f"{store.name}/{name}", "render it again with --repair")


def _planned_factors(
    plan: bytes | None, set_name: str, set_info: SetInfo, indices: Int[ndarray, " n"]
) -> Float64[ndarray, "n k"] | None:
    """Look up the factors of samples in a plan; None if the plan lacks a sample or a factor."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names = [f"factor.{factor.name}" for factor in set_info.factors]
    if plan is None:
        return None
    try:
        rows = pq.read_table(pa.BufferReader(plan), columns=["set", "index", *names])
        rows = rows.filter(pc.equal(rows["set"], set_name))
        rows = rows.take(pc.index_in(pa.array(indices), rows["index"]))  # null for a sample that is not there
        table = np.empty((len(indices), len(names)))
        for place, (factor, name) in enumerate(zip(set_info.factors, names, strict=True)):
            table[:, place] = _numbers(factor, rows[name].to_pylist())
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        return None
    return table


def _numbers(factor: FactorInfo, values: list[Any]) -> list[float]:
    if factor.kind == "continuous":
        return [float(value) for value in values]
    known = {value: float(number) for number, value in enumerate(factor.values or ())}
    return [known[value] for value in values]


def _look_at_hdf5(path: Path, files: Mapping[tuple[str, str], HDF5Frames]) -> Contents:
    found = {}
    for name in dict.fromkeys(name for name, _ in files):
        readers = [reader for (owner, _), reader in files.items() if owner == name]
        found[name] = make_set_contents(
            readers[0].set_info,
            {reader.split: len(reader) for reader in readers},
            sum(reader.path.stat().st_size for reader in readers),
            _hdf5_compression(readers[0]),
            np.concatenate([reader.factor_table for reader in readers]),
            list(_some_metadata(readers)),
        )
    info = next(iter(files.values())).info
    return make_contents("HDF5", info, found, bytes_below(path))


def _some_metadata(readers: Sequence[HDF5Frames]) -> Iterator[Metadata]:
    """Read the metadata of rows that are spread evenly over the splits of an image set."""
    starts = list(accumulate(map(len, readers), initial=0))
    for row in spread_rows(starts[-1]):
        place = bisect_right(starts, row) - 1
        yield readers[place].metadata(row - starts[place])


def _hdf5_compression(reader: HDF5Frames) -> str:
    """Name the filters of all layers."""
    names = {1: "gzip", 2: "shuffle", 32000: "lzf", 32001: "blosc", 32015: "zstd"}
    used: dict[str, None] = {}
    with open_file(reader.path) as file:
        for layer in reader.layers:
            filters = file[layer].id.get_create_plist()
            for number in range(filters.get_nfilters()):
                code, _, values, _ = filters.get_filter(number)
                level = f" {values[0]}" if code == 1 and values else ""
                used[f"{names.get(code, f'filter {code}')}{level}"] = None
    ordered = sorted(used, key=lambda name: name == "shuffle")
    return ", ".join("shuffle for floats" if name == "shuffle" else name for name in ordered) or "none"


def _look_at_hub(path: Path) -> Contents:
    info, manifest = read_dataset_info(path), read_pack_manifest(path)
    found = {}
    for name, set_info in info.sets.items():
        shards = manifest.of_set(name)
        if not shards:
            raise InputError(f"{path / PACK_MANIFEST} names no file of set `{name}`; pack it again")
        found[name] = _look_at_shards(path, set_info, shards)
    return make_contents("Hugging Face folder", info, found, bytes_below(path))


def _look_at_shards(path: Path, set_info: SetInfo, shards: list[Shard]) -> SetContents:
    from candlelight.loaders.hub.set_facts import metadata_of_rows, read_facts, read_footer

    try:
        table = read_facts(path, set_info, shards).table
        some = list(metadata_of_rows(path, shards, spread_rows(len(table))))
        group = read_footer(path / shards[0].path).row_group(0)
        columns = [group.column(place) for place in range(group.num_columns)]
    except InputError as error:
        raise InputError(f"{path}, `{shards[0].set}`: {error}") from None
    except DAMAGED as error:
        raise blame(f"{path}, `{shards[0].set}` cannot be read", error, "pack it again") from None
    splits = Counter[str]()
    for shard in shards:
        splits[shard.split] += shard.rows
    if len(table) != splits.total():
        raise InputError(
            f"{path}, `{shards[0].set}`: expected {splits.total()} rows, got {len(table)}; pack it again"
        )
    codecs = {column.compression.lower() for column in columns}
    named = "PNG for 8-bit layers, " + ", ".join(sorted(codecs - {"uncompressed"}))
    size = sum(shard.bytes for shard in shards)
    return make_set_contents(set_info, dict(splits), size, named, table, some)
