"""Whether a pack still holds what was packed, as far as the hashes that it carries can tell."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import h5py

from loaders.errors import InputError
from loaders.frames import DATASET
from loaders.hdf5.content import ATTRIBUTE, content_sha256
from loaders.hdf5.heaps import check_heaps
from loaders.hdf5.reader import HDF5Frames
from loaders.packs.manifest import read_manifest
from loaders.schema import array_sha256
from loaders.verification.checksums import SUMS, find_unlike, parse_sums
from loaders.verification.verify import Damage, Findings

_MANIFEST = "manifest.json"


def is_pack(path: Path) -> bool:
    """Tell a pack from a folder of frames: an ``.h5`` file, a folder of them, or a Hugging Face folder."""
    if path.suffix == ".h5" or _is_hub(path):
        return True
    return not (path / DATASET).exists() and any(path.glob("*.h5"))


def verify_pack(path: Path, advance: Callable[[int], object] | None = None) -> Findings:
    """Compare a pack with the hashes that it carries.

    A Hugging Face folder carries those of all its files, so every flipped byte is found. An HDF5 file carries
    those of its layers and of all other columns, so every flipped byte is found that changes what is read. A
    folder of them lacks the file of a split if that of another split of its image set is there.

    Args:
        path: an ``.h5`` file, a folder of them, or a Hugging Face folder.
        advance: called with the number of samples checked, for a progress bar.

    Returns:
        Damaged files, files that a Hugging Face folder does not list, and no missing samples.
    """
    if _is_hub(path):
        return _verify_hub(path, advance)
    damaged: list[Damage] = []
    checked = 0
    for file in [path] if path.suffix == ".h5" else sorted(path.glob("[!.]*.h5")):
        if reason := _check_columns(file):
            damaged.append(Damage(path, file, reason))
        for reason in _check_rows(file):
            damaged += [Damage(path, file, reason)] if reason else []
            checked += 1
            if advance:
                advance(1)
    if path.suffix != ".h5":
        lost = (path / name for name in _lost(path))
        damaged += [Damage(path, file, "is missing") for file in lost if not file.exists()]
    return Findings(checked, tuple(damaged), (), ())


def _lost(folder: Path) -> Iterator[str]:
    """Name the files of splits that are not there while others of their image sets are."""
    splits: dict[str, list[str]] = {}
    there: set[tuple[str, str]] = set()
    for file in sorted(folder.glob("[!.]*.h5")):
        with suppress(InputError, OSError, KeyError, TypeError, ValueError):  # what is damaged has been named
            reader = HDF5Frames(file)
            there.add((reader.set_name, reader.split))
            with h5py.File(file, "r") as opened:
                splits[reader.set_name] = [str(name) for name in json.loads(str(opened.attrs["splits"]))]
    for name, every in splits.items():
        yield from (f"{name}-{split}.h5" for split in every if (name, split) not in there)


def _is_hub(path: Path) -> bool:
    return (path / _MANIFEST).exists() or _MANIFEST in _sums(path)


def _verify_hub(folder: Path, advance: Callable[[int], object] | None) -> Findings:
    try:
        manifest = read_manifest(folder).files
    except InputError:
        manifest = ()
    # A manifest that is damaged may name anything; what lies elsewhere is no file of this folder.
    listed = {file.path for file in manifest} or set(_sums(folder))
    names = {name for name in listed if _is_inside(name)} | {_MANIFEST, "README.md", DATASET}
    # Packs of earlier versions hold no pictures and no Croissant.
    names |= {name for name in _sums(folder) if name == "croissant.json" or _is_picture(name)}
    unlike = find_unlike(folder, names)
    there = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if not file.is_dir()}
    checked = sum(file.rows for file in manifest)
    if advance:
        advance(checked)
    return Findings(
        checked,
        tuple(Damage(folder, folder / name, reason) for name, reason in unlike.items()),
        (),
        tuple(folder / name for name in sorted(there - names - {SUMS})),
    )


def _sums(folder: Path) -> dict[str, str]:
    try:
        return parse_sums((folder / SUMS).read_bytes())
    except OSError:
        return {}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _is_picture(name: str) -> bool:
    return PurePosixPath(name).parent.name == "assets" and _is_inside(name)


def _check_columns(file: Path) -> str:
    """Say what is wrong with all of an HDF5 file but its layers, an empty text if nothing is."""
    try:
        check_heaps(file)
        with h5py.File(file, "r") as opened:
            listed, found = opened.attrs.get(ATTRIBUTE), content_sha256(opened)
    except Exception:  # whatever h5py raises on damaged bytes; reading rows says what is wrong
        return "" if _opens_not(file) else "columns beside the layers cannot be read"
    return "" if listed == found.encode() else "columns beside the layers differ from their hash"


def _opens_not(file: Path) -> bool:
    """Tell whether reading rows fails at once, and so names the file."""
    try:
        HDF5Frames(file)
    except InputError:
        return True
    return False


def _check_rows(file: Path) -> Iterator[str]:
    """Yield what is wrong with each row of an HDF5 file, an empty text if nothing is."""
    try:
        reader = HDF5Frames(file)
    except InputError as error:
        yield _without(file, error)
        return
    for row in range(len(reader)):
        try:
            frame = reader.frame(row)
        except InputError as error:
            yield f"row {row}: {_without(file, error)}"
            continue
        metadata = frame.metadata
        hashes = {name: array_sha256(array) for name, array in frame.layers.items()}
        bad = [name for name in hashes if hashes[name] != metadata.layers.get(name)]
        if bad:
            yield f"row {row} ({metadata.id}): layer `{bad[0]}` differs from its hash"
        elif (metadata.set, metadata.index) != (reader.set_name, reader.indices[row]):
            yield f"row {row} holds sample {metadata.id}, which does not belong there"
        else:
            yield ""


def _without(file: Path, error: InputError) -> str:
    """Say what an error says, without the file's name, which stands before it already."""
    return str(error).removeprefix(str(file)).lstrip(":, ")
