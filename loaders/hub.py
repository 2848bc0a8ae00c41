"""A folder of Parquet files that is a Hugging Face data set as it stands: publishing is one upload.

``<set>/train-00000-of-0000N.parquet`` (one configuration per image set, split `train`), ``README.md`` (the
card), ``dataset.json``, ``manifest.json`` (rows, bytes and SHA-256 of each Parquet file) and ``SHA256SUMS``.
"""

import hashlib
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from loaders.checksums import SUMS, file_sha256, sums_text
from loaders.disk import partial_name, sync
from loaders.errors import InputError
from loaders.frames import FrameFolder
from loaders.manifest import Manifest, Shard, read_manifest
from loaders.packing import open_sets, whole_frames

if TYPE_CHECKING:
    import pyarrow as pa

    from loaders.hub_table import Column, Row

# The Hub's viewer gives up on row groups of 286 MB in memory, and advises 100 to 300.
ROW_GROUP_BYTES = 100 * 2**20
SHARD_BYTES = 500 * 2**20
_OWN_FILES = frozenset({"README.md", "dataset.json", "manifest.json", SUMS})


def pack_hub(root: Path, out_dir: Path, sets: Collection[str] | None = None) -> Path:
    """Write the complete samples of a folder of frames as a Hugging Face data set.

    Every frame is compared with its hashes. The folder is built beside ``out_dir`` and renamed when it is
    finished; what an earlier call made there is replaced.

    Args:
        root: folder of frames.
        out_dir: folder to make.
        sets: names of the sets; None for all.

    Returns:
        ``out_dir``, which `HubFrames` and `datasets.load_dataset(out_dir, set, split="train")` read.

    Raises:
        InputError: a set is unknown or has no complete sample, a frame is damaged, or ``out_dir`` holds
            something that no earlier call made.
    """
    opened = open_sets(root, sets)
    final = out_dir.resolve()
    _refuse_foreign(final)
    partial = partial_name(final)
    partial.mkdir(parents=True)
    try:
        shards = [shard for frames in opened for shard in _write_set(frames, partial)]
        _write_texts(partial, opened, Manifest(files=tuple(shards)))
        for path in partial.rglob("*"):
            sync(path)
        sync(partial)
        _swap(partial, final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out_dir


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder that is new or empty")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    ours: set[str] = set()
    if "manifest.json" in found:
        ours = {*_OWN_FILES, *(shard.path for shard in read_manifest(folder).files)}
    if foreign := sorted(found - ours):
        raise InputError(
            f"{folder} holds `{foreign[0]}`, which `candlelight pack` did not write; name a folder that is "
            "new, empty, or made by it"
        )


def _swap(partial: Path, final: Path) -> None:
    # No system call replaces a folder that is not empty, hence two renames with the old one put aside.
    old = partial_name(final)
    if final.exists():
        final.rename(old)
    try:
        partial.rename(final)
    except OSError:
        if old.exists():
            old.rename(final)
        raise
    shutil.rmtree(old, ignore_errors=True)
    sync(final.parent)


def _write_set(frames: FrameFolder, folder: Path) -> list[Shard]:
    """Write the shards of one image set, then give them names that say how many there are."""
    from loaders.hub_table import arrow_table, columns

    (folder / frames.set_name).mkdir()
    every = columns(frames.set_info)
    tables = (arrow_table(every, group) for group in _row_groups(frames))
    written = list(_write_shards(every, tables, folder / frames.set_name))
    shards = []
    for number, (path, rows, arrow_bytes) in enumerate(written):
        path = path.rename(path.with_name(f"train-{number:05d}-of-{len(written):05d}.parquet"))
        shards.append(
            Shard(
                path=path.relative_to(folder).as_posix(),
                set=frames.set_name,
                rows=rows,
                bytes=path.stat().st_size,
                arrow_bytes=arrow_bytes,
                sha256=file_sha256(path),
            )
        )
    return shards


def _row_groups(frames: FrameFolder) -> Iterator[list["Row"]]:
    """Read rows in groups that fit `ROW_GROUP_BYTES` (but one row at least)."""
    from loaders.hub_table import Row

    group: list[Row] = []
    size = 0
    for number, frame in whole_frames(frames):
        row = Row(frame, (frames.path(number) / "image.png").read_bytes())
        if group and size + row.nbytes > ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(row)
        size += row.nbytes
    yield group


def _write_shards(
    every: list["Column"], tables: Iterator["pa.Table"], folder: Path
) -> Iterator[tuple[Path, int, int]]:
    """Write each table as a row group, in files of at most `SHARD_BYTES`; give path, rows and Arrow bytes."""
    import pyarrow.parquet as pq

    from loaders.hub_table import arrow_schema, writer_options

    schema, options = arrow_schema(every), writer_options(every)
    table, number = next(tables, None), 0
    while table is not None:
        path, rows, arrow_bytes = folder / f"{number}.parquet", 0, 0
        with path.open("wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
            # What a table takes in memory bounds what it adds to the file.
            while table is not None and (rows == 0 or file.tell() + table.nbytes <= SHARD_BYTES):
                writer.write_table(table, row_group_size=len(table))
                rows += len(table)
                arrow_bytes += table.nbytes
                table = next(tables, None)
        yield path, rows, arrow_bytes
        number += 1


def _write_texts(folder: Path, opened: list[FrameFolder], manifest: Manifest) -> None:
    from loaders.hub_card import card

    info = opened[0].info
    info = info.model_copy(update={"sets": {frames.set_name: frames.set_info for frames in opened}})
    texts = {
        "dataset.json": info.to_json(),
        "manifest.json": manifest.to_json(),
        "README.md": card(info, manifest),
    }
    sums = {shard.path: shard.sha256 for shard in manifest.files}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        sums[name] = hashlib.sha256(text.encode()).hexdigest()
    (folder / SUMS).write_text(sums_text(sums), encoding="utf-8")
