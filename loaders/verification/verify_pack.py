"""Check a pack for damage with the hashes that it contains."""

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from candlelight.loaders.causal_columns import INTERVENTION_KINDS, CausalRow
from candlelight.loaders.errors import DAMAGED, InputError
from candlelight.loaders.frames import DATASET, read_dataset_info
from candlelight.loaders.hdf5.hdf5_datasets import (
    HASH_ATTRIBUTE,
    columns_sha256,
    later_columns,
    open_file,
    read_attribute,
)
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames, describe_conflict
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST, Shard, pack_files, read_pack_manifest
from candlelight.loaders.samples import factor_number
from candlelight.loaders.schema import DatasetInfo, Metadata
from candlelight.loaders.verification.checksums import SUMS, find_changed_files, parse_sums
from candlelight.loaders.verification.pack_rows import StoredRow, check_rows, reason
from candlelight.loaders.verification.verify_frames import Damage, Findings

if TYPE_CHECKING:
    import pyarrow as pa

# Signals that end a process because of what it read, and not because somebody stopped it.
_CRASHES = {
    int(one): one.name
    for one in signal.Signals
    if one.name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV")
}


def is_pack(path: Path) -> bool:
    """Tell whether a path is a pack: an ``.h5`` file, a folder of them, or a Hugging Face folder."""
    if path.suffix == ".h5" or _is_hub(path):
        return True
    return not (path / DATASET).exists() and any(path.glob("*.h5"))


def verify_pack(
    path: Path, advance: Callable[[int], object] | None = None, *, apart: bool = False
) -> Findings:
    """Compare a pack with the hashes that it contains, and its rows with their metadata.

    A Hugging Face folder contains the hashes of all its files, so every flipped byte is found. An HDF5 file
    contains hashes of its layers and of all other columns, so every flipped byte that changes the read data
    is found. Missing splits of an image set, samples with two rows, nulls, and columns and layers that do not
    fit the metadata of their row count as damage too, also if the files fit their hashes.

    Args:
        path: an ``.h5`` file, a folder of them, or a Hugging Face folder.
        advance: called with the number of checked samples, for a progress bar.
        apart: whether each HDF5 file is read in a process of its own, so that a file on which HDF5 crashes
            counts as damaged. A script that passes True needs ``if __name__ == "__main__":``.

    Returns:
        Damaged files, files that a Hugging Face folder does not list, frames with light without albedo, and
        no missing samples.

    Raises:
        InputError: the file does not exist.

    Example:
        >>> verify_pack(Path("nowhere.h5"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere.h5 is missing; make it with `candlelight pack`
    """
    if _is_hub(path):
        return _verify_hub(path, advance)
    if path.suffix == ".h5":
        if not path.exists():
            raise InputError(f"{path} is missing; make it with `candlelight pack`")
        return _verify_hdf5(path, [path], advance, apart)
    return _verify_hdf5(path, sorted(path.glob("[!.]*.h5")), advance, apart)


# ------------------------------------------------------------------------------------------- Hugging Face


def _is_hub(path: Path) -> bool:
    return (path / PACK_MANIFEST).exists() or PACK_MANIFEST in _sums(path)


def _verify_hub(folder: Path, advance: Callable[[int], object] | None) -> Findings:
    shards, info, unlike = _description(folder)
    sums = _sums(folder)
    # Without a manifest, the sums may name any path; only files inside the folder count.
    names = pack_files(shards) | ({name for name in sums if _is_inside(name)} if not shards else set())
    names.remove(SUMS)
    unlike |= find_changed_files(folder, names)
    for shard in shards:  # readers compare with the manifest
        if shard.sha256 != sums.get(shard.path):
            unlike.setdefault(shard.path, f"differs from its line in {PACK_MANIFEST}")
    damaged = [Damage(folder, folder / name, reason) for name, reason in unlike.items()]
    unexplained: list[str] = []
    seen: dict[str, dict[str, str]] = {}
    for shard in shards:
        if info and not {PACK_MANIFEST, shard.path} & unlike.keys():
            for fault, light in _shard_rows(folder, shard, info, seen.setdefault(shard.set, {})):
                damaged += [Damage(folder, folder / shard.path, fault)] if fault else []
                unexplained += filter(None, [light])
        if advance:
            advance(shard.rows)
    there = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if not file.is_dir()}
    strangers = tuple(folder / name for name in sorted(there - names - {SUMS}))
    checked = sum(shard.rows for shard in shards)
    return Findings(checked, tuple(damaged), (), strangers, tuple(unexplained))


def _shard_rows(
    folder: Path, shard: Shard, info: DatasetInfo, seen: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the damage of each row of a Parquet file and its `unexplained_light`, "" if there is none."""
    from candlelight.loaders.hub.arrow_tables import ArrowRow, arrow_columns, layer_column, unfit_columns
    from candlelight.loaders.hub.set_facts import decode_frame, read_footer, read_rows

    try:
        set_info, footer = info.set(shard.set), read_footer(folder / shard.path)
        if unfit := unfit_columns(footer.schema.to_arrow_schema(), set_info):
            raise InputError(f"columns do not fit {DATASET}: {', '.join(unfit)}")
        if footer.num_rows != shard.rows:
            raise InputError(f"expected {shard.rows} rows, as {PACK_MANIFEST} says, got {footer.num_rows}")
        there = footer.schema.to_arrow_schema().names
        every = arrow_columns(set_info, steps="step" in there)
        columns = {column.name: column for column in every if column.name in there}
        tables = read_rows(folder, [shard], range(shard.rows), list(columns))
        # Another version of candlelight may word captions otherwise; their hash finds changed ones.
        skipped = {"metadata", "caption", *map(layer_column, set_info.layers)}
        plain = [name for name in columns if name not in skipped]

        def read(table: "pa.Table") -> StoredRow:
            frame = decode_frame(table, set_info.layers, set_info)
            due = {name: columns[name].encode([ArrowRow(frame, {})])[0].as_py() for name in plain}
            return frame, {name: table[name][0].as_py() for name in plain}, due

        yield from check_rows((partial(read, table) for table in tables), folder / shard.path, seen)
    except InputError as error:
        yield str(error), ""
    except DAMAGED as error:
        yield f"cannot be read: {error}", ""


def _description(folder: Path) -> tuple[tuple[Shard, ...], DatasetInfo | None, dict[str, str]]:
    """Read the list of shards and the data set, with a reason for each unreadable description file."""
    shards: tuple[Shard, ...] = ()
    info, unreadable = None, {}
    try:
        shards = read_pack_manifest(folder).files
    except InputError as error:
        unreadable[PACK_MANIFEST] = reason(error, folder / PACK_MANIFEST)
    try:
        info = read_dataset_info(folder)
        if shards and (lost := info.sets.keys() - {shard.set for shard in shards}):
            unreadable[PACK_MANIFEST] = f"names no file of set `{min(lost)}`"
    except InputError as error:
        unreadable[DATASET] = reason(error, folder / DATASET)
    return shards, info, unreadable


def _sums(folder: Path) -> dict[str, str]:
    try:
        return parse_sums((folder / SUMS).read_bytes())
    except OSError:
        return {}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


# --------------------------------------------------------------------------------------------------- HDF5


@dataclass(frozen=True)
class _Checked:
    """Findings of one HDF5 file; ``reader`` is its reader, closed, and None if it cannot be opened."""

    rows: int
    reader: HDF5Frames | None
    reasons: tuple[str, ...]
    unexplained: tuple[str, ...] = ()


def _verify_hdf5(
    path: Path, files: Iterable[Path], advance: Callable[[int], object] | None, apart: bool
) -> Findings:
    found = {file: (_check_apart if apart else _check_file)(file, advance) for file in files}
    damaged = [Damage(path, file, reason) for file, checked in found.items() for reason in checked.reasons]
    readers = {file: checked.reader for file, checked in found.items() if checked.reader is not None}
    if mixed := describe_conflict(readers.values()):
        damaged.append(Damage(path, path, mixed))
    if path.suffix != ".h5":
        splits = {file: (reader.set_name, reader.split) for file, reader in readers.items()}
        lost = (path / name for name in _lost(splits))
        damaged += [Damage(path, file, "is missing") for file in lost if not file.exists()]
    unexplained = tuple(light for checked in found.values() for light in checked.unexplained)
    return Findings(sum(checked.rows for checked in found.values()), tuple(damaged), (), (), unexplained)


def _check_file(file: Path, advance: Callable[[int], object] | None) -> _Checked:
    try:
        reader = HDF5Frames(file)
    except InputError as error:
        return _Checked(0, None, (reason(error, file),))
    reasons, unexplained = [_check_columns(reader)], list[str]()
    with closing(reader):
        for fault, light in _check_rows(reader):
            reasons.append(fault)
            unexplained += filter(None, [light])
            if advance:
                advance(1)
    return _Checked(len(reader), reader, tuple(filter(None, reasons)), tuple(unexplained))


def _check_apart(file: Path, advance: Callable[[int], object] | None) -> _Checked:
    """Check a file in a process of its own: a file on which a library crashes is damaged."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_checked, args=(file, sender), daemon=True)
    process.start()
    sender.close()  # so that reading ends when the process does
    try:
        while isinstance(message := receiver.recv(), int):
            if advance:
                advance(message)
    except EOFError:
        process.join()
        crash = _CRASHES.get(-(process.exitcode or 0))
        if not crash:
            raise InputError(
                f"{file}: checking was interrupted (status {process.exitcode}); try again"
            ) from None
        return _Checked(0, None, (f"crashes the library that reads it ({crash})",))
    process.join()
    checked: _Checked = message
    return checked


def _send_checked(file: Path, sender: Connection) -> None:
    sender.send(_check_file(file, sender.send))


def _check_columns(reader: HDF5Frames) -> str:
    """Check the attributes and columns of an HDF5 file except its layers; return the damage, "" if none."""
    try:
        with open_file(reader.path) as opened:
            listed, found = opened.attrs.get(HASH_ATTRIBUTE), columns_sha256(opened, reader.set_info)
    except DAMAGED:
        return "other columns than layers cannot be read"
    return "" if listed == found.encode() else "other columns than layers differ from their hash"


def _check_rows(reader: HDF5Frames) -> Iterator[tuple[str, str]]:
    """Yield the damage of each row of an HDF5 file and its `unexplained_light`, "" if there is none."""
    factors = reader.set_info.factors
    names = ["id", "index", *(f"factors/{factor.name}" for factor in factors)]
    shares = reader.set_info.propensity_names
    names += [f"propensity/{name}" for name in shares]
    with open_file(reader.path) as opened:
        later = [name for name in later_columns(opened, len(reader)) if name != "caption"]
        names += later
        columns = {name: opened[name][:].tolist() for name in names}

    def read(number: int) -> StoredRow:
        frame = reader.frame(number)
        metadata = frame.metadata
        values = [metadata.id.encode(), metadata.index, *(factor_number(one, metadata) for one in factors)]
        values += [metadata.propensity[name] for name in shares]
        found = {name: column[number] for name, column in columns.items()}
        due = dict(zip(names, values, strict=False)) | {name: _causal_value(name, metadata) for name in later}
        return frame, found, due

    return check_rows((partial(read, number) for number in range(len(reader))), reader.path, {})


def _causal_value(name: str, metadata: Metadata) -> object:
    """Return the value of one of `later_columns` that fits the metadata of its row."""
    row, (column, _, variable) = CausalRow.of(metadata), name.partition("/")
    if variable:
        return INTERVENTION_KINDS.index(row.kinds.get(variable, ""))
    value = getattr(row, column)
    return value.encode() if isinstance(value, str) else value


def _lost(there: Mapping[Path, tuple[str, str]]) -> Iterator[str]:
    """Name the missing split files of the image sets that have at least one split file."""
    splits: dict[str, list[str]] = {}
    for file, (name, _) in there.items():
        with suppress(OSError, KeyError, TypeError, ValueError):  # damaged files are already reported
            with open_file(file) as opened:
                splits[name] = [str(split) for split in json.loads(read_attribute(opened, "splits", "S"))]
    for name, every in splits.items():
        yield from (f"{name}-{split}.h5" for split in every if (name, split) not in there.values())
