"""One HDF5 file per image set and split: row-aligned datasets, everything global in attributes.

File attributes: ``dataset`` (the text of ``dataset.json``), ``set``, ``split``, ``split_made`` (how its
rows were chosen), ``splits`` (JSON: the names of all splits of the set) and ``sha256``
(`loaders.hdf5.content`). Datasets, first axis the row: each layer under its name, ``id``, ``index``,
``factors/<name>`` (class index or value), ``objects/*`` padded to the largest number of objects, with
``objects/count``, ``objects/parts/*`` padded to the largest number of parts besides, and ``metadata`` (the
text of ``metadata.json``). What is padded or absent is -1 in integers and nan in floats. Names of types,
materials and parts are numbered; their ``names`` attribute (JSON) lists them. With `datasets` 4 or newer,
``load_dataset("hdf5", data_files=...)`` reads the same file.
"""

import json
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from loaders.disk import sync
from loaders.errors import InputError
from loaders.hdf5.beside import refuse_other_splits
from loaders.hdf5.content import ATTRIBUTE, content_sha256
from loaders.hdf5.filters import Compression, dataset_filters, encode_chunk, encoder_versions
from loaders.hdf5.layout import columns
from loaders.hdf5.objects import create_objects, object_rows
from loaders.packs.packing import Source, open_sources, packed_info, prepared
from loaders.packs.parts import count_rows, keep_rows, read_parts
from loaders.packs.split_plan import TRAIN, SplitPlan
from loaders.packs.splits import Split
from loaders.packs.working import working
from loaders.records import parse_record
from loaders.samples import factor_number
from loaders.schema import DatasetInfo, Metadata, layer

# To be counted up when the same frames come to lie otherwise in a file.
_LAYOUT = 2
# Rows whose small columns are written at once; part of the layout, as it decides where texts come to lie.
_BLOCK = 256


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

    Every frame is compared with its hashes. A file appears under its name when it is finished; one of an
    earlier call is replaced. What a call that was killed had finished lies in ``.<file>.partial`` beside it:
    the next call goes on from there, if frames and options are the same, and the file has the same bytes.

    Args:
        root: folder of frames.
        out_dir: folder for ``<set>.h5``, or ``<set>-<split>.h5`` unless `train` is the only split; made if
            need be.
        sets: names of the sets; None for all.
        compression: "gzip" (level 4, with the shuffle filter for floats) reads everywhere; "none" takes
            about three times the space and reads about ten times as fast; "zstd" and "blosc" need
            hdf5plugin, to read as well as to write.
        layers: names of the layers; None for all.
        size: width and height to average down to, in pixels; None for those of the frames.
        plan: how to split each set; None for `train` alone.
        threads: how many compress; None for one per processor.

    Returns:
        The files.

    Raises:
        InputError: a set, layer or compression is unknown, a set has no complete sample or cannot be split
            or averaged so, a frame is damaged, ``out_dir`` holds other splits of a set from an earlier
            call, or another process is packing the same file.
    """
    root, out_dir = Path(root), Path(out_dir)
    dataset_filters(np.dtype("uint8"), compression)
    sources = open_sources(root, sets, layers, size, plan)
    info = packed_info(sources)
    jobs = {_path(out_dir, source, split): (source, split) for source in sources for split in source.splits}
    if len(jobs) < sum(len(source.splits) for source in sources):
        raise InputError(f"{out_dir}: two splits would have one file; give a set or a split another name")
    refuse_other_splits(out_dir, jobs, {source.set_name for source in sources})
    for path, (source, split) in jobs.items():
        _pack_split(path, source, split, info, compression, threads)
    return list(jobs)


def _path(out_dir: Path, source: Source, split: Split) -> Path:
    alone = [split.name for split in source.splits] == [TRAIN]
    return out_dir / f"{source.set_name}{'' if alone else '-' + split.name}.h5"


def _pack_split(
    path: Path,
    source: Source,
    split: Split,
    info: DatasetInfo,
    compression: Compression,
    threads: int | None,
) -> None:
    def encode(row: int) -> list[bytes]:
        frame = source.frame(row)
        coded = [encode_chunk(frame.layers[name], compression) for name in source.set_info.layers]
        masks = np.array([mask for mask, _ in coded], "<u4")
        return [frame.metadata.to_json().encode(), masks.tobytes(), *(chunk for _, chunk in coded)]

    attributes = {"dataset": info.to_json(), "set": source.set_name}
    attributes |= {"split": split.name, "split_made": split.made}
    attributes["splits"] = json.dumps([one.name for one in source.splits])
    made_of = {
        "layout": [_LAYOUT, *encoder_versions(compression)],
        "attributes": attributes,
        "options": [source.factor, compression],
        "rows": source.digest(split.rows),
    }
    with working(path, made_of) as folder:
        done, total = count_rows(folder), len(split.rows)
        todo = split.rows[done:].tolist()
        new = prepared(source, todo, encode, f"packing {path.stem}", threads, total)
        old = read_parts(folder, 2 + len(source.set_info.layers))
        whole = folder / ".whole.h5"
        with h5py.File(whole, "w") as file:
            file.attrs.update(attributes)
            _create(file, source, total, compression)
            _fill(file, source, chain(old, keep_rows(folder, done, new)))
            file.attrs[ATTRIBUTE] = np.bytes_(content_sha256(file))
        sync(whole)
        whole.replace(path)
        sync(path.parent)


def _create(file: h5py.File, source: Source, rows: int, compression: Compression) -> None:
    """Create every dataset, with its filters and attributes."""
    set_info, survey = source.set_info, source.survey
    for name, (shape, dtype) in columns(set_info, rows).items():
        # One image per chunk: a larger one would be unpacked whole for every row that is read from it.
        filters: dict[str, Any] = {"chunks": (1, *shape[1:])} if len(shape) > 1 else {}
        if len(shape) > 1:
            filters |= dataset_filters(dtype, compression)
        file.create_dataset(name, shape, dtype, **filters)
    for name in set_info.layers:
        spec = layer(name)
        file[name].attrs.update(unit=spec.unit, colour_space=spec.colour_space, meaning=spec.meaning)
    for factor in set_info.factors:
        file[f"factors/{factor.name}"].attrs.update(unit=factor.unit, values=json.dumps(factor.values))
    create_objects(file, rows, survey.most_objects, survey.most_parts, survey.names)


def _fill(file: h5py.File, source: Source, rows: Iterator[list[bytes]]) -> None:
    """Write all rows: chunks as they are, and what the metadata say in blocks of rows."""
    datasets = [file[name] for name in source.set_info.layers]
    texts: list[str] = []
    first = 0
    for number, (text, masks, *chunks) in enumerate(rows):
        if len(texts) == _BLOCK:
            _fill_columns(file, source, first, texts)
            first, texts = number, []
        texts.append(text.decode())
        for dataset, mask, chunk in zip(datasets, np.frombuffer(masks, "<u4"), chunks, strict=True):
            dataset.id.write_direct_chunk((number, *[0] * (dataset.ndim - 1)), chunk, int(mask))
    _fill_columns(file, source, first, texts)


def _fill_columns(file: h5py.File, source: Source, first: int, texts: list[str]) -> None:
    survey, rows = source.survey, slice(first, first + len(texts))
    metadata = [parse_record(Metadata, text, str(file.filename), "pack it again") for text in texts]
    file["metadata"][rows] = texts
    file["id"][rows] = [sample.id for sample in metadata]
    file["index"][rows] = [sample.index for sample in metadata]
    for factor in source.set_info.factors:
        file[f"factors/{factor.name}"][rows] = [factor_number(factor, sample) for sample in metadata]
    arrays = object_rows(metadata, survey.most_objects, survey.most_parts, survey.names)
    for name, array in arrays.items():
        file[f"objects/{name}"][rows] = array
