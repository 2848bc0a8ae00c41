"""Write image sets as HDF5: one file per image set and split.

File attributes: ``format``, ``dataset`` (the text of ``dataset.json``), ``set``, ``split``, ``split_made``
(how its rows were chosen), ``splits`` (JSON: the names of all splits of the set) and ``sha256``
(`columns_sha256` of `candlelight.loaders.hdf5.hdf5_datasets`). Datasets, whose first axis is the row: each
layer under its name, ``id``, ``index``, ``caption``, ``factors/<name>`` (class index or value), ``unit``,
``counterfactual_of`` ("" for none), ``step`` (in sets with steps), ``intervened/<name>`` (place of the kind
in `INTERVENTION_KINDS`, 0 for no intervention) and ``metadata`` (the content of ``metadata.json`` in one
line). Strings are UTF-8 of a fixed length, padded with zeros. With `datasets` 4 or newer,
``load_dataset("hdf5", data_files=...)`` reads the same file.
"""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import BinaryIO

import h5py
import numpy as np

from candlelight.loaders.causal_columns import INTERVENTION_KINDS
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import sync
from candlelight.loaders.frames import DATASET
from candlelight.loaders.hdf5.filters import Compression, dataset_filters, encode_chunk
from candlelight.loaders.hdf5.hdf5_datasets import (
    HASH_ATTRIBUTE,
    HDF5_FORMAT,
    columns_sha256,
    encode_texts,
    hdf5_columns,
    write_attribute,
)
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.packs.pack_source import PackSource, open_sources, packed_info, prepare_rows
from candlelight.loaders.packs.split_plan import TRAIN, SplitPlan
from candlelight.loaders.packs.splits import PackSplit
from candlelight.loaders.packs.working_folder import open_working_folder
from candlelight.loaders.schema import DatasetInfo, layer

# HDF5 1.10 is the first version with checksums of all headers and chunk indices, and with attributes above
# 64 kB, which the text of dataset.json may need.
_HDF5 = ("v110", "v110")
_Encoded = tuple[bytes, list[tuple[int, bytes]]]  # metadata, and mask and bytes of the chunk of each layer


def pack_hdf5(
    root: Path | str,
    out_dir: Path | str,
    sets: Collection[str] | None = None,
    compression: Compression = "gzip",
    *,
    layers: Collection[str] | None = None,
    size: tuple[int, int] | None = None,
    plan: SplitPlan | None = None,
    threads: int | None = None,
) -> list[Path]:
    """Write the complete samples of a folder of frames as one HDF5 file per image set and split.

    Every frame is compared with its hashes. A file gets its name when it is finished; a file of an earlier
    call is replaced. The next call removes ``.<file>.partial``, which a killed call leaves in the folder.

    Args:
        root: folder of frames.
        out_dir: folder for ``<set>.h5``, or ``<set>-<split>.h5`` unless `train` is the only split; created if
            it is missing.
        sets: names of the sets; None for all.
        compression: "gzip" (level 4, with the shuffle filter for floats) can be read by every HDF5 library;
            "none" takes about three times the space and reads about ten times as fast; "zstd" and "blosc"
            need hdf5plugin for reading and writing.
        layers: names of the layers; None for all.
        size: width and height to average down to, in pixels; None for the size of the frames.
        plan: splits of each set; None for `train` alone.
        threads: number of compressing threads; None for one per processor.

    Returns:
        Paths of the files.

    Raises:
        InputError: a set, layer or compression is unknown, a set has no complete sample or does not fit
            ``plan`` or ``size``, a frame is damaged, ``out_dir`` holds other splits of a set from an earlier
            call, or another process is packing the same file.
    """
    root, out_dir = Path(root), Path(out_dir)
    dataset_filters(np.dtype("uint8"), compression)
    sources = open_sources(root, sets, layers, size, plan)
    info = packed_info(sources)
    jobs = {_path(out_dir, source, split): (source, split) for source in sources for split in source.splits}
    if len(jobs) < sum(len(source.splits) for source in sources):
        raise InputError(f"{out_dir}: two splits would get the same file; rename a set or a split")
    _refuse_other_splits(out_dir, jobs, {source.set_name for source in sources})
    for path, (source, split) in jobs.items():
        _pack_split(path, source, split, info, compression, threads)
    return list(jobs)


def _refuse_other_splits(folder: Path, paths: Collection[Path], sets: Collection[str]) -> None:
    """Refuse to pack image sets into a folder with other splits of these sets from an earlier pack.

    Args:
        folder: the folder.
        paths: files to be written; existing ones are replaced.
        sets: names of the image sets.

    Raises:
        InputError: the folder holds such a split, or frames, or a Hugging Face folder.
    """
    if (folder / DATASET).exists():
        raise InputError(
            f"{folder} holds frames or a Hugging Face folder; name another folder for HDF5 files"
        )
    for path in sorted(set(folder.glob("[!.]*.h5")) - set(paths)):
        try:
            name = HDF5Frames(path, layers=[]).set_name
        except InputError:  # damaged, or not written by `pack_hdf5`
            continue
        if name in sets:
            raise InputError(
                f"{path} belongs to an earlier pack of set `{name}` with other splits; delete it, or name "
                "another folder"
            )


def _path(out_dir: Path, source: PackSource, split: PackSplit) -> Path:
    alone = [split.name for split in source.splits] == [TRAIN]
    return out_dir / f"{source.set_name}{'' if alone else '-' + split.name}.h5"


def _pack_split(
    path: Path,
    source: PackSource,
    split: PackSplit,
    info: DatasetInfo,
    compression: Compression,
    threads: int | None,
) -> None:
    def encode(row: int) -> _Encoded:
        frame = source.frame(row)
        chunks = [encode_chunk(frame.layers[name], compression) for name in source.set_info.layers]
        return frame.metadata.model_dump_json(by_alias=True).encode(), chunks

    attributes = {"dataset": info.to_json(), "set": source.set_name}
    attributes |= {"split": split.name, "split_made": split.made}
    attributes["splits"] = json.dumps([one.name for one in source.splits])
    with open_working_folder(path) as folder:
        rows = prepare_rows(split.rows, encode, f"packing {path.stem}", threads)
        whole = folder / path.name
        with h5py.File(whole, "w", libver=_HDF5) as file:
            file.attrs["format"] = HDF5_FORMAT
            for name, text in attributes.items():
                write_attribute(file, name, text)
            _write_columns(file, source, split, compression)
            with (folder / "texts").open("w+b") as lines:
                longest = _write_layers(file, source, rows, lines)
                _write_metadata(file, lines, len(split.rows), longest, compression)
            write_attribute(file, HASH_ATTRIBUTE, columns_sha256(file, source.set_info))
        sync(whole)
        whole.replace(path)
        sync(path.parent)


def _write_columns(file: h5py.File, source: PackSource, split: PackSplit, compression: Compression) -> None:
    """Create the datasets of the layers, and write all other columns but `metadata`."""
    set_info = source.set_info
    known = hdf5_columns(set_info, len(split.rows))
    for name in known:
        # Created here, because HDF5 would store the time in groups that it creates itself.
        file.require_group(name.rpartition("/")[0] or "/")
    for name in set_info.layers:
        spec, (shape, dtype) = layer(name), known[name]
        # One image per chunk: reading a row decompresses its whole chunk.
        filters = dataset_filters(dtype, compression)
        dataset = file.create_dataset(name, shape, dtype, chunks=(1, *shape[1:]), **filters)
        for key in ("unit", "colour_space", "meaning"):
            write_attribute(dataset, key, getattr(spec, key))
    file["id"] = encode_texts([source.causal.ids[row] for row in split.rows])
    file["caption"] = encode_texts([source.captions[row] for row in split.rows])
    _write_causal(file, source, split)
    file["index"] = source.frames.indices[split.rows].astype("int64")
    for column, factor in enumerate(set_info.factors):
        name = f"factors/{factor.name}"
        file[name] = source.rows.table[split.rows, column].astype(known[name][1])
        write_attribute(file[name], "unit", factor.unit)
        write_attribute(file[name], "values", json.dumps(factor.values))
    for variable, propensity in source.propensities.items():
        file[f"propensity/{variable}"] = propensity[split.rows]


def _write_causal(file: h5py.File, source: PackSource, split: PackSplit) -> None:
    causal = source.causal
    for name, texts in (("unit", causal.units), ("counterfactual_of", causal.counterfactual_of)):
        file[name] = encode_texts([texts[row] for row in split.rows])
    if causal.steps is not None:
        file["step"] = causal.steps[split.rows]
    file.require_group("intervened")
    for name, kinds in causal.kinds.items():
        file[f"intervened/{name}"] = kinds[split.rows]
        write_attribute(file[f"intervened/{name}"], "values", json.dumps(INTERVENTION_KINDS))


def _write_layers(file: h5py.File, source: PackSource, rows: Iterable[_Encoded], lines: BinaryIO) -> int:
    """Write encoded chunks to the datasets and metadata to a text file; return the longest line's length."""
    datasets = [file[name] for name in source.set_info.layers]
    longest = 0
    for number, (text, chunks) in enumerate(rows):
        lines.write(text + b"\n")
        longest = max(longest, len(text))
        for dataset, (mask, chunk) in zip(datasets, chunks, strict=True):
            dataset.id.write_direct_chunk((number, *[0] * (dataset.ndim - 1)), chunk, mask)
    return longest


def _write_metadata(
    file: h5py.File, lines: BinaryIO, rows: int, longest: int, compression: Compression
) -> None:
    """Write column `metadata` from the text file, one chunk per row."""
    dtype = h5py.string_dtype("utf-8", longest)
    filters = dataset_filters(dtype, compression)
    dataset = file.create_dataset("metadata", (rows,), dtype, chunks=(1,), **filters)
    lines.seek(0)
    for row, line in enumerate(lines):
        dataset[row] = np.array(line[:-1], dtype)
