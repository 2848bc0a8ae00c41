"""Read and write frames on disk: one folder per sample, written atomically.

``ROOT/dataset.json`` describes the data set; ``ROOT/samples/<set>/<index // 1000>/<index>/`` holds a
sample's ``image.png`` (8-bit RGB), ``layers.npz`` (every other layer), ``metadata.json`` and the
``SHA256SUMS`` of these files. Samples are built under ``ROOT/.partial`` and then renamed, so any number of
writers can share a root and be killed at any time.
"""

import hashlib
import re
import shutil
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.json_records import read_record
from candlelight.loaders.files.layer_codecs import (
    REPAIR,
    decode_npz,
    decode_png,
    encode_npz,
    encode_png,
    png_size,
)
from candlelight.loaders.files.safe_writing import replacing, sync, write_synced
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import DatasetInfo, Metadata, array_sha256, check_layer, schema_order
from candlelight.loaders.verification.checksums import SUMS, matches_sums, sums_text

IMAGE, NPZ, METADATA, DATASET = "image.png", "layers.npz", "metadata.json", "dataset.json"
PLAN = "plan.parquet"
_PARTIAL = re.compile(r".+-\d{6,}-[0-9a-f]{32}")


def frame_path(root: Path, set_name: str, index: int) -> Path:
    """Return the path of a sample's folder, whether or not it exists.

    Args:
        root: folder of the data set.
        set_name: name of the image set: letters, digits and ``_``, and after the first also ``-`` and ``.``.
        index: number of the sample in its set.

    Raises:
        InputError: the name is not allowed, or the index is negative.

    Example:
        >>> frame_path(Path("frames"), "candle", 3541).as_posix()
        'frames/samples/candle/0003/003541'
    """
    if not re.fullmatch(r"\w[\w.-]*", set_name, re.ASCII):
        raise InputError(
            f"set name `{set_name}`: expected letters, digits and `_`, and after the first also `-` and `.`"
        )
    if index < 0:
        raise InputError(f"sample index must be 0 or more, got {index}")
    return root / "samples" / set_name / f"{index // 1000:04d}" / f"{index:06d}"


def is_complete(root: Path, set_name: str, index: int) -> bool:
    """Tell whether a sample has been written."""
    return (frame_path(root, set_name, index) / METADATA).is_file()


def complete_indices(root: Path, set_name: str) -> Int[ndarray, " n"]:
    """List the samples of a set that have been written.

    Returns:
        Sorted sample numbers; empty if there are none.
    """
    folder = frame_path(root, set_name, 0).parent.parent
    written = (path.parent for path in folder.glob("*/*/" + METADATA))
    numbered = (path for path in written if path.name.isdecimal())
    # A folder that was moved or renamed by hand lies at the wrong path, and cannot be read.
    found = [int(path.name) for path in numbered if path == frame_path(root, set_name, int(path.name))]
    return np.array(sorted(found), np.int64)


def count_planned(root: Path, set_name: str) -> int:
    """Count the samples of a set in the plan of a folder of frames; 0 if the plan is missing or damaged."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import ArrowInvalid

    try:
        with (root / PLAN).open("rb") as file:  # pyarrow opens no path that is not UTF-8
            sets = pq.read_table(file, columns=["set"]).column("set")
    except (OSError, ArrowInvalid):
        return 0
    return int(pc.sum(pc.equal(sets, set_name)).as_py() or 0)


def write_frame(root: Path, frame: Frame) -> Path:
    """Write a sample atomically; of several writers the first wins, and the others' frames are dropped.

    Args:
        root: existing folder of the data set.
        frame: metadata, and every layer that the metadata lists.

    Returns:
        The sample's folder.

    Raises:
        InputError: a layer is missing or does not fit the schema, a hash in the metadata is not the array's,
            or an incomplete folder has the sample's name.
    """
    metadata = frame.metadata
    _check_frame(frame)
    final = frame_path(root, metadata.set, metadata.index)
    partial = root / ".partial" / f"{metadata.set}-{metadata.index:06d}-{uuid.uuid4().hex}"
    # No `parents`: if `root` was removed meanwhile, do not create it again without dataset.json.
    partial.parent.mkdir(exist_ok=True)
    partial.mkdir()
    try:
        for name, data in _encode(frame).items():
            write_synced(partial / name, data)
        sync(partial)
        final.parent.mkdir(parents=True, exist_ok=True)
        _rename(partial, final)
        sync(final.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return final


def clean_partial(root: Path) -> None:
    """Remove the partial samples of killed writers; call it only while nobody writes to ``root``."""
    making = root / ".partial"
    if making.is_symlink() or not making.is_dir():
        return
    for path in making.iterdir():
        if _PARTIAL.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)  # does not follow links
    with suppress(OSError):  # the folder holds other files
        making.rmdir()


def read_metadata(path: Path) -> Metadata:
    """Read the metadata of the sample in folder ``path``.

    Raises:
        InputError: ``metadata.json`` is missing, damaged or of another schema version.
    """
    return read_record(Metadata, path / METADATA, REPAIR)


def read_frame(
    path: Path,
    layers: Collection[str] | None = None,
    verify: bool = False,
    size: tuple[int, int] | None = None,
) -> Frame:
    """Read a sample. Only the requested layers are decoded.

    Args:
        path: the sample's folder.
        layers: names of the layers to read; None for all.
        verify: whether to compare arrays and metadata with their hashes.
        size: height and width that the frame must have, in pixels; None to accept any size.

    Raises:
        InputError: a file or layer is missing, damaged, or does not fit the schema or its hash.
    """
    for file in (path / IMAGE, path / NPZ, path / METADATA):
        if file.is_fifo():  # reading a pipe would wait for ever
            raise InputError(f"{file} is not a regular file; delete {path} and render again")
    metadata = read_metadata(path)
    names = schema_order(metadata.layers if layers is None else layers)
    for name in names:
        if name not in metadata.layers:
            has = ", ".join(metadata.layers)
            raise InputError(f"{path}: layer `{name}` is missing; this frame has {has}")
    height, width = png_size(path / IMAGE)
    if size not in (None, (height, width)):
        raise InputError(f"{path / IMAGE}: expected (height, width) {size}, got {(height, width)}")
    arrays = {"image": decode_png(path / IMAGE)} if "image" in names else {}
    if others := [name for name in names if name != "image"]:
        arrays |= decode_npz(path / NPZ, others, height, width)
    if verify:
        _check_hashes(str(path), metadata, arrays)
        if not matches_sums(path / METADATA):
            raise InputError(f"{path / METADATA} differs from its line in {SUMS}; {REPAIR}")
    return Frame(metadata, arrays)


def write_dataset_info(root: Path, info: DatasetInfo) -> None:
    """Write ``dataset.json`` atomically; create the folder if it is missing."""
    root.mkdir(parents=True, exist_ok=True)
    with replacing(root / DATASET) as partial:
        partial.write_text(info.to_json(), encoding="utf-8")


def read_dataset_info(root: Path) -> DatasetInfo:
    """Read ``dataset.json``.

    Raises:
        InputError: the file is missing, damaged or of another schema version.
    """
    return read_record(DatasetInfo, local_folder(root) / DATASET, "name a folder of rendered frames")


def _check_frame(frame: Frame) -> None:
    metadata = frame.metadata
    if "image" not in frame.layers or frame.layers.keys() != metadata.layers.keys():
        raise InputError(
            f"frame `{metadata.id}`: expected `image` and exactly the layers that its metadata lists "
            f"({', '.join(metadata.layers)}), got {', '.join(frame.layers)}"
        )
    height, width = frame.layers["image"].shape[:2]
    for name, array in frame.layers.items():
        check_layer(name, array, height, width)
    _check_hashes(f"frame `{metadata.id}`", metadata, frame.layers)


def _check_hashes(where: str, metadata: Metadata, arrays: dict[str, ndarray]) -> None:
    for name, array in arrays.items():
        if (found := array_sha256(array)) != metadata.layers[name]:
            raise InputError(
                f"{where}: layer `{name}` has hash {found[:12]}, the metadata says "
                f"{metadata.layers[name][:12]}; delete its folder and render again"
            )


def _encode(frame: Frame) -> dict[str, bytes]:
    others = {name: array for name, array in frame.layers.items() if name != "image"}
    files = {IMAGE: encode_png(frame.layers["image"])}
    if others:
        files[NPZ] = encode_npz(others)
    files[METADATA] = frame.metadata.to_json().encode()
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return files | {SUMS: sums_text(hashes).encode()}


def _rename(partial: Path, final: Path) -> None:
    try:
        partial.rename(final)
    except OSError:
        # Renaming onto a folder that is not empty fails: another writer was first.
        if not final.exists():
            raise
        if not (final / METADATA).is_file():
            raise InputError(
                f"{final} is incomplete: it has no {METADATA}; render it with `candlelight render --repair`"
            ) from None
