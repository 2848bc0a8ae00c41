"""Write frames as WebDataset: tar files in which the files of a sample follow one another."""

import io
import tarfile
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.export_loop import (
    ExportCounts,
    ExportFiles,
    ExportUnit,
    fitting_sets,
    layer_names,
    plain_name,
    samples_sha256,
    write_export,
)
from candlelight.loaders.files.layer_codecs import encode_npy
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import IMAGE, METADATA
from candlelight.loaders.samples import Frame

SHARD_SIZE = 1000  # samples


def export_webdataset(
    frames: Path | str,
    out: Path | str,
    set_name: str | None = None,
    shard_size: int = SHARD_SIZE,
    layers: Collection[str] | None = None,
) -> ExportCounts:
    """Write the complete samples of image sets as ``<set>-<number>.tar``, for sequential reading.

    A sample is ``<key>.image.png``, ``<key>.metadata.txt`` (JSON, the text of ``metadata.json``) and
    ``<key>.<layer>.npy`` for each other layer, ``light/left`` as ``light_left``. The key is the sample's id,
    with ``_`` in place of all characters but letters, digits, ``_`` and ``-``, because readers end the key
    at the first dot. Every frame is compared with its hashes. The bytes of a file depend on its samples
    alone. A file gets its name when it is complete: a second call finds it, and writes the others.

    Args:
        frames: folder of frames.
        out: folder to write: new, or started by the same export.
        set_name: the image set; None for all that have the layers.
        shard_size: samples in each file; the last file of a set may have fewer.
        layers: names of the layers; None for all.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: there is no such set or layer, two samples get one key, a frame is damaged, or the
            folder holds something else.

    Example:
        >>> export_webdataset(Path("nowhere"), Path("tar"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered \
frames
    """
    frames = Path(frames)
    if shard_size < 1:
        raise InputError(f"shard size: expected at least 1 sample, got {shard_size}")
    opened = [FrameFolder(frames, name, layers) for name in fitting_sets(frames, set_name, layers=layers)]
    units = [
        ExportUnit(name, partial(_shard_file, name, one, rows), len(rows))
        for one in opened
        for name, rows in _shards(one, shard_size)
    ]
    return write_export(
        Path(out),
        units,
        to="webdataset",
        sets=",".join(one.set_name for one in opened),
        layers=",".join(sorted({name for one in opened for name in one.layers})),
        shard_size=str(shard_size),
        # A sample rendered since would move other samples from file to file.
        samples=samples_sha256(opened),
        recipe=opened[0].info.recipe.sha256,
    )


def _shards(frames: FrameFolder, size: int) -> Iterator[tuple[str, range]]:
    for number, start in enumerate(range(0, len(frames), size)):
        yield f"{frames.set_name}-{number:06d}.tar", range(start, min(start + size, len(frames)))


def _shard_file(name: str, frames: FrameFolder, rows: range) -> ExportFiles:
    return {name: partial(_write_shard, frames=frames, rows=rows)}


def _write_shard(path: Path, frames: FrameFolder, rows: range) -> None:
    keys: dict[str, str] = {}
    names = layer_names(frames.layers)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for row in rows:
            frame = frames.frame(row, verify=True)
            sample, key = frame.metadata.id, plain_name(frame.metadata.id)
            if key in keys:
                raise InputError(f"samples `{keys[key]}` and `{sample}` would have one key; rename a set")
            keys[key] = sample
            for suffix, data in _files(frame, frames.path(row), names).items():
                # A new TarInfo has no owner and the time 1970, so the bytes do not change between runs.
                entry = tarfile.TarInfo(f"{key}.{suffix}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))


def _files(frame: Frame, folder: Path, names: dict[str, str]) -> dict[str, bytes]:
    """Return the files of a sample by suffix, the part of the name after the key."""
    files = {"image.png": (folder / IMAGE).read_bytes()} if "image" in frame.layers else {}
    # Text, not .json: `datasets` takes the types of JSON from five samples, and fails at later differences.
    files["metadata.txt"] = (folder / METADATA).read_bytes()
    others = {name: array for name, array in frame.layers.items() if name != "image"}
    return files | {f"{names[name]}.npy": encode_npy(array) for name, array in others.items()}
