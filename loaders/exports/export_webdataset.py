"""Frames as WebDataset: tar files in which the files of a sample follow one another."""

import hashlib
import io
import re
import tarfile
from collections.abc import Collection
from pathlib import Path

from loaders.errors import InputError
from loaders.exports.export_candle import Exported
from loaders.exports.export_folder import claim
from loaders.files.atomic_files import replacing
from loaders.files.layer_codecs import encode_npy
from loaders.frame_folder import FrameFolder
from loaders.frames import IMAGE, METADATA, read_dataset_info
from loaders.samples import Frame

SHARD_SIZE = 1000  # samples


def export_webdataset(
    frames: Path | str,
    out: Path | str,
    set_name: str | None = None,
    shard_size: int = SHARD_SIZE,
    layers: Collection[str] | None = None,
) -> Exported:
    """Write the complete samples of image sets as ``<set>-<number>.tar``, for sequential reading.

    A sample is ``<key>.image.png``, ``<key>.metadata.txt`` (JSON, the text of ``metadata.json``) and
    ``<key>.<layer>.npy`` for each other layer, ``light/left`` as ``light_left``. The key is the sample's id,
    with ``_`` for what is no letter, digit, ``_`` or ``-``, because readers take the first dot for the end of
    the key. Every frame is compared with its hashes. The bytes of a file depend on its samples alone. A file
    appears when it is finished, so an export that was stopped goes on where it was.

    Args:
        frames: folder of frames.
        out: folder to write, new or one that the same export was started in.
        set_name: the image set; None for all.
        shard_size: samples in each file, fewer in the last of a set.
        layers: names of the layers; None for all.

    Returns:
        How many samples were written, and how many were there.

    Raises:
        InputError: no such set or layer, two samples of one key, a frame that is damaged, or a folder that
            holds something else.

    Example:
        >>> export_webdataset(Path("nowhere"), Path("tar"))
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered frames
    """
    frames, out = Path(frames), Path(out)
    if shard_size < 1:
        raise InputError(f"shard size: expected at least 1 sample, got {shard_size}")
    info = read_dataset_info(frames)
    names = list(info.sets) if set_name is None else [set_name]
    opened = [FrameFolder(frames, name, layers) for name in names]
    # Samples that were rendered since would move others from file to file.
    samples = hashlib.sha256(b"".join(one.indices.tobytes() for one in opened)).hexdigest()
    claim(
        out,
        to="webdataset",
        sets=",".join(names),
        layers=",".join(sorted({name for one in opened for name in one.layers})),
        shard_size=str(shard_size),
        samples=samples,
        recipe=info.recipe.sha256,
    )
    written = found = 0
    for one in opened:
        for number, start in enumerate(range(0, len(one), shard_size)):
            rows = range(start, min(start + shard_size, len(one)))
            target = out / f"{one.set_name}-{number:06d}.tar"
            if target.is_file():
                found += len(rows)
                continue
            with replacing(target) as partial:
                _write_shard(partial, one, rows)
            written += len(rows)
    return Exported(written, found)


def sample_key(sample_id: str) -> str:
    """Name a sample so that readers find its end at the first dot.

    Example:
        >>> sample_key("candle-000012"), sample_key("a.b/c")
        ('candle-000012', 'a_b_c')
    """
    return re.sub(r"[^\w-]", "_", sample_id, flags=re.ASCII)


def _write_shard(path: Path, frames: FrameFolder, rows: range) -> None:
    keys: dict[str, str] = {}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for row in rows:
            frame = frames.frame(row, verify=True)
            sample, key = frame.metadata.id, sample_key(frame.metadata.id)
            if key in keys:
                raise InputError(f"samples `{keys[key]}` and `{sample}` would have one key; rename a set")
            keys[key] = sample
            for name, data in _files(frame, frames.path(row)).items():
                # Owner and time are those that a TarInfo begins with: none, and 1970.
                entry = tarfile.TarInfo(f"{key}.{name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))


def _files(frame: Frame, folder: Path) -> dict[str, bytes]:
    """Make the files of a sample, by what follows the key."""
    files = {"image.png": (folder / IMAGE).read_bytes()} if "image" in frame.layers else {}
    # As text: of a .json `datasets` takes types from the first five samples, and fails at what differs later.
    files["metadata.txt"] = (folder / METADATA).read_bytes()
    for name, array in frame.layers.items():
        if name == "image":
            continue
        # Readers make small letters of it.
        file = f"{sample_key(name).lower()}.npy"
        if file in files:
            raise InputError(f"`{frame.metadata.id}`: two layers would be {file}; rename a light")
        files[file] = encode_npy(array)
    return files
