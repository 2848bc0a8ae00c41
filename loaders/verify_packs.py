"""Whether a pack still holds what was packed, as far as the hashes that it carries can tell."""

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from loaders.checksums import SUMS, find_unlike, parse_sums
from loaders.errors import InputError
from loaders.frames import DATASET
from loaders.hdf5 import HDF5Frames
from loaders.manifest import read_manifest
from loaders.schema import array_sha256
from loaders.verify import Damage, Findings

_MANIFEST = "manifest.json"


def is_pack(path: Path) -> bool:
    """Tell a pack from a folder of frames: an ``.h5`` file, a folder of them, or a Hugging Face folder."""
    if path.suffix == ".h5" or _is_hub(path):
        return True
    return not (path / DATASET).exists() and any(path.glob("*.h5"))


def verify_pack(path: Path, advance: Callable[[int], object] | None = None) -> Findings:
    """Compare a pack with the hashes that it carries.

    A Hugging Face folder carries those of all its files, so every flipped byte is found. An HDF5 file carries
    those of its layers: a flipped byte is found in them, and in the rest where it makes that unreadable.

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
        for reason in _check_rows(file):
            damaged += [Damage(path, file, reason)] if reason else []
            checked += 1
            if advance:
                advance(1)
    return Findings(checked, tuple(damaged), (), ())


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
