"""Check a pack for damage with the hashes that it contains."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

import h5py

from candlelight.loaders.errors import DAMAGED, InputError
from candlelight.loaders.frames import DATASET, read_dataset_info
from candlelight.loaders.hdf5.content_hash import HASH_ATTRIBUTE, columns_sha256
from candlelight.loaders.hdf5.hdf5_datasets import read_attribute
from candlelight.loaders.hdf5.neighbour_files import describe_conflict
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST, Shard, pack_files, read_pack_manifest
from candlelight.loaders.schema import array_sha256
from candlelight.loaders.verification.checksums import SUMS, find_changed_files, parse_sums
from candlelight.loaders.verification.verify_frames import Damage, Findings


def is_pack(path: Path) -> bool:
    """Tell whether a path is a pack: an ``.h5`` file, a folder of them, or a Hugging Face folder."""
    if path.suffix == ".h5" or _is_hub(path):
        return True
    return not (path / DATASET).exists() and any(path.glob("*.h5"))


def verify_pack(path: Path, advance: Callable[[int], object] | None = None) -> Findings:
    """Compare a pack with the hashes that it contains.

    A Hugging Face folder contains the hashes of all its files, so every flipped byte is found. An HDF5 file
    contains hashes of its layers and of all other columns, so every flipped byte that changes the read data
    is found. In a folder of HDF5 files, missing splits of an image set and samples in two splits count as
    damage. A file that fits its hashes but cannot be read as a pack is damaged too.

    Args:
        path: an ``.h5`` file, a folder of them, or a Hugging Face folder.
        advance: called with the number of checked samples, for a progress bar.

    Returns:
        Damaged files, files that a Hugging Face folder does not list, and no missing samples.

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
        return _verify_hdf5(path, [path], advance)
    return _verify_hdf5(path, sorted(path.glob("[!.]*.h5")), advance)


# ------------------------------------------------------------------------------------------- Hugging Face


def _is_hub(path: Path) -> bool:
    return (path / PACK_MANIFEST).exists() or PACK_MANIFEST in _sums(path)


def _verify_hub(folder: Path, advance: Callable[[int], object] | None) -> Findings:
    shards, unreadable = _description(folder)
    sums = _sums(folder)
    # Without a manifest, the sums may name any path; only files inside the folder count.
    names = pack_files(shards) | ({name for name in sums if _is_inside(name)} if not shards else set())
    names.remove(SUMS)
    unlike = unreadable | find_changed_files(folder, names)
    for shard in shards:  # readers compare with the manifest
        if shard.sha256 != sums.get(shard.path):
            unlike.setdefault(shard.path, f"differs from its line in {PACK_MANIFEST}")
    there = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if not file.is_dir()}
    checked = sum(shard.rows for shard in shards)
    if advance:
        advance(checked)
    return Findings(
        checked,
        tuple(Damage(folder, folder / name, reason) for name, reason in unlike.items()),
        (),
        tuple(folder / name for name in sorted(there - names - {SUMS})),
    )


def _description(folder: Path) -> tuple[tuple[Shard, ...], dict[str, str]]:
    """Read the list of shards, and return it with a reason for each unreadable description file."""
    shards: tuple[Shard, ...] = ()
    unreadable = {}
    try:
        shards = read_pack_manifest(folder).files
    except InputError as error:
        unreadable[PACK_MANIFEST] = _without(folder / PACK_MANIFEST, error)
    try:
        lost = read_dataset_info(folder).sets.keys() - {shard.set for shard in shards}
        if shards and lost:
            unreadable[PACK_MANIFEST] = f"names no file of set `{min(lost)}`"
    except InputError as error:
        unreadable[DATASET] = _without(folder / DATASET, error)
    return shards, unreadable


def _sums(folder: Path) -> dict[str, str]:
    try:
        return parse_sums((folder / SUMS).read_bytes())
    except OSError:
        return {}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


# --------------------------------------------------------------------------------------------------- HDF5


def _verify_hdf5(path: Path, files: Iterable[Path], advance: Callable[[int], object] | None) -> Findings:
    damaged: list[Damage] = []
    splits: dict[Path, tuple[str, str]] = {}
    checked = 0
    for file in files:
        try:
            reader = HDF5Frames(file)
        except InputError as error:
            damaged.append(Damage(path, file, _without(file, error)))
            continue
        if reason := _check_columns(reader):
            damaged.append(Damage(path, file, reason))
        splits[file] = reader.set_name, reader.split
        checked += len(reader)
        for reason in _check_rows(reader):
            damaged += [Damage(path, file, reason)] if reason else []
            if advance:
                advance(1)
    if mixed := describe_conflict(map(HDF5Frames, splits)):
        damaged.append(Damage(path, path, mixed))
    if path.suffix != ".h5":
        lost = (path / name for name in _lost(splits))
        damaged += [Damage(path, file, "is missing") for file in lost if not file.exists()]
    return Findings(checked, tuple(damaged), (), ())


def _check_columns(reader: HDF5Frames) -> str:
    """Check the attributes and columns of an HDF5 file except its layers; return the damage, "" if none."""
    try:
        with h5py.File(reader.path, "r") as opened:
            listed, found = opened.attrs.get(HASH_ATTRIBUTE), columns_sha256(opened, reader.set_info)
    except DAMAGED:
        return "other columns than layers cannot be read"
    return "" if listed == found.encode() else "other columns than layers differ from their hash"


def _check_rows(reader: HDF5Frames) -> Iterator[str]:
    """Yield the damage of each row of an HDF5 file, "" if there is none."""
    for row in range(len(reader)):
        try:
            frame = reader.frame(row)
        except InputError as error:
            yield f"row {row}: {_without(reader.path, error)}"
            continue
        metadata = frame.metadata
        hashes = {name: array_sha256(array) for name, array in frame.layers.items()}
        bad = [name for name in hashes if hashes[name] != metadata.layers.get(name)]
        if bad:
            yield f"row {row} ({metadata.id}): layer `{bad[0]}` differs from its hash"
        else:
            yield ""


def _lost(there: Mapping[Path, tuple[str, str]]) -> Iterator[str]:
    """Name the missing split files of the image sets that have at least one split file."""
    splits: dict[str, list[str]] = {}
    for file, (name, _) in there.items():
        with suppress(OSError, KeyError, TypeError, ValueError):  # damaged files are already reported
            with h5py.File(file, "r") as opened:
                splits[name] = [str(split) for split in json.loads(read_attribute(opened, "splits", "S"))]
    for name, every in splits.items():
        yield from (f"{name}-{split}.h5" for split in every if (name, split) not in there.values())


def _without(file: Path, error: InputError) -> str:
    """Return the message of an error without the file's name, which `Damage` prints already."""
    return str(error).removeprefix(str(file)).lstrip(":, ")
