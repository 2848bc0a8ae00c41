"""Say what a folder of frames, an HDF5 file or a Hugging Face folder holds, and open its image sets."""

from collections.abc import Mapping
from pathlib import Path

from loaders.errors import InputError
from loaders.frames import DATASET, FrameFolder, complete_indices, read_dataset_info
from loaders.hdf5 import HDF5Frames
from loaders.hub_frames import HubFrames
from loaders.manifest import read_manifest
from loaders.records import parse_record
from loaders.samples import Frames
from loaders.schema import DatasetInfo, FactorInfo, SetInfo
from loaders.stores import Store, open_store
from loaders.urls import is_elsewhere, local_folder

_EXPECTED = "expected a folder of frames, an .h5 file or a folder of them, or a Hugging Face folder"


def describe(path: Path | str) -> str:
    """Say what is at a path: origin, image sets with their samples, layers and factors, bytes on disk.

    Args:
        path: a folder of frames, an ``.h5`` file or a folder of them, or a folder that `pack_hub` made; or
            the URL of a folder of frames.

    Returns:
        Several lines of text.

    Raises:
        InputError: there is nothing of the kind, or it is damaged.
    """
    if is_elsewhere(path):
        return _describe_store(open_store(str(path)))
    path = local_folder(path)
    if readers := _hdf5_readers(path):
        kind, info = "HDF5", next(iter(readers.values())).info
        counts = {name: len(reader) for name, reader in readers.items()}
    elif (path / "manifest.json").is_file():
        kind, info, manifest = "Hugging Face folder", read_dataset_info(path), read_manifest(path)
        counts = {name: sum(shard.rows for shard in manifest.of_set(name)) for name in info.sets}
    elif (path / "dataset.json").is_file():
        kind, info = "folder of frames", read_dataset_info(path)
        counts = {name: len(complete_indices(path, name)) for name in info.sets}
    else:
        raise InputError(f"{path}: {_EXPECTED}")
    return "\n".join(_lines(kind, info, counts, _bytes(path)))


def open_frames(path: Path | str, set_name: str | None = None) -> Frames:
    """Open an image set, whichever way it is stored.

    Args:
        path: a folder of frames, an ``.h5`` file or a folder of them, or a folder that `pack_hub` made.
        set_name: name of the image set; may be left out where there is only one.

    Raises:
        InputError: there is nothing of the kind, no such set, or several to choose from.
    """
    path = local_folder(path)
    if readers := _hdf5_readers(path):
        return readers[_choose(path, list(readers), set_name)]
    if not (path / "dataset.json").is_file():
        raise InputError(f"{path}: {_EXPECTED}")
    name = _choose(path, list(read_dataset_info(path).sets), set_name)
    return HubFrames(path, name) if (path / "manifest.json").is_file() else FrameFolder(path, name)


def _describe_store(store: Store) -> str:
    if (data := store.read(DATASET)) is None:
        raise InputError(f"{store.name}: expected a folder of frames; {DATASET} is missing")
    info = parse_record(DatasetInfo, data, f"{store.name}/{DATASET}", "name a folder of rendered frames")
    sizes = {name: store.complete(name) for name in info.sets}
    counts = {name: len(found) for name, found in sizes.items()}
    size = sum(sum(found.values()) for found in sizes.values())
    return "\n".join(_lines("folder of frames", info, counts, size))


def _hdf5_readers(path: Path) -> dict[str, HDF5Frames]:
    """Open an ``.h5`` file, or all of a folder, by set name; nothing if the path is something else."""
    files = [path] if path.suffix == ".h5" else []
    if path.is_dir() and not (path / "dataset.json").exists():
        files = sorted(path.glob("[!.]*.h5"))
    readers = {reader.set_name: reader for reader in map(HDF5Frames, files)}
    origins = {reader.info.to_json() for reader in readers.values()}
    if len(readers) < len(files) or len(origins) > 1:
        raise InputError(f"{path} holds HDF5 files of several data sets; name one file")
    return readers


def _choose(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted not in names:
        asked = "choose a set" if wanted is None else f"set `{wanted}` is not there"
        raise InputError(f"{path}: {asked}; expected one of: {', '.join(names)}")
    return wanted


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _lines(kind: str, info: DatasetInfo, counts: Mapping[str, int], size: int) -> list[str]:
    lines = [
        f"{info.name} ({kind}, {_human_bytes(size)})",
        info.description,
        f"licence {info.licence}; made by candlelight {info.candlelight}, schema {info.schema_version}",
        f"recipe {info.recipe.name} (SHA-256 {info.recipe.sha256}), seed {info.seed}",
    ]
    for name, count in counts.items():
        lines += ["", *_set_lines(name, info.sets[name], count)]
    return lines


def _set_lines(name: str, set_info: SetInfo, count: int) -> list[str]:
    factors = (f"  factor {factor.name}: {_values(factor)}" for factor in set_info.factors)
    varies = [f"  changes within a concept set: {', '.join(set_info.varies)}"] if set_info.varies else []
    return [
        f"set {name}: {count} of {set_info.count} samples, {set_info.width} x {set_info.height} pixels, "
        f"exposure {set_info.exposure:g}",
        f"  layers: {', '.join(set_info.layers)}",
        *factors,
        *varies,
    ]


def _values(factor: FactorInfo) -> str:
    unit = f" {factor.unit}" if factor.unit else ""
    if factor.kind == "continuous":
        ends = (factor.low, factor.high)
        return ("depends on others" if None in ends else f"{factor.low} to {factor.high}") + unit
    return ", ".join(map(str, factor.values or ())) + unit


def _human_bytes(size: int) -> str:
    """Write a size with three digits.

    Example:
        >>> _human_bytes(0), _human_bytes(1536), _human_bytes(3 * 10**9)
        ('0 B', '1.54 kB', '3 GB')
    """
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
