"""Write the Parquet shards of a Hugging Face folder; finished shards survive a killed call."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.json_records import read_record
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.files.safe_writing import replacing, sync
from candlelight.loaders.frames import IMAGE
from candlelight.loaders.hub.arrow_tables import (
    ArrowRow,
    Column,
    arrow_columns,
    arrow_schema,
    arrow_table,
    writer_options,
)
from candlelight.loaders.packs.pack_manifest import Shard
from candlelight.loaders.packs.pack_source import PackSource, prepare_rows
from candlelight.loaders.packs.splits import PackSplit
from candlelight.loaders.schema import Record, layer
from candlelight.loaders.verification.checksums import file_sha256

# The Hub recommends row groups of 100 to 300 MB in memory; its viewer refuses more than 286 MB.
ROW_GROUP_BYTES = 100 * 2**20
SHARD_BYTES = 500 * 2**20
_NAME = re.compile(r"(.+)-(\d{5})-of-\d{5}\.parquet")

_Item = TypeVar("_Item")


class ShardRecord(Record):
    """Record of a finished shard: rows, size, size in memory, SHA-256."""

    rows: int
    bytes: int
    arrow_bytes: int
    sha256: str


def write_shards(source: PackSource, split: PackSplit, folder: Path, threads: int | None = None) -> None:
    """Write the shards of one split that are not finished yet.

    The content of a shard depends only on its first row, so interrupted and uninterrupted calls write the
    same shards.

    Args:
        source: the image set.
        split: the split.
        folder: working folder of the shards.
        threads: number of threads that read and check frames; None for one per processor.
    """
    home = _home(folder, source, split)
    pieces = _finished(home)
    done = sum(piece.rows for piece in pieces)
    todo = split.rows[done:].tolist()
    if not todo:
        return
    home.mkdir(parents=True, exist_ok=True)
    every = arrow_columns(source.set_info)
    desc = f"packing {source.set_name}" + ("" if len(source.splits) == 1 else f", {split.name}")
    rows = prepare_rows(source, todo, lambda row: _row(source, row), desc, threads, len(split.rows))
    # `map` frees the rows of a group once they are a table; a generator would keep them until the next group.
    tables = _ahead(map(lambda group: arrow_table(every, group), _row_groups(rows)))
    _write(every, tables, home, len(pieces))


def move_shards(source: PackSource, split: PackSplit, folder: Path, whole: Path) -> list[Shard]:
    """Move the shards of one split to the pack, under final names with the number of shards.

    Args:
        source: the image set.
        split: the split.
        folder: working folder of `write_shards`.
        whole: folder of the pack.

    Returns:
        Manifest records of the shards.
    """
    home = _home(folder, source, split)
    pieces = _finished(home)
    shards = []
    (whole / source.set_name).mkdir(parents=True, exist_ok=True)
    for number, piece in enumerate(pieces):
        path = f"{source.set_name}/{split.name}-{number:05d}-of-{len(pieces):05d}.parquet"
        (home / f"{number:05d}.parquet").rename(whole / path)
        shards.append(Shard(path=path, set=source.set_name, split=split.name, **piece.model_dump()))
    return shards


def put_back_shards(folder: Path, whole: Path) -> None:
    """Undo `move_shards` after a call that was killed before the pack was complete."""
    for path in whole.glob("*/*.parquet"):
        if (found := _NAME.fullmatch(path.name)) and (home := folder / "shards" / path.parent.name).is_dir():
            path.rename(home / found[1] / f"{found[2]}.parquet")


def _home(folder: Path, source: PackSource, split: PackSplit) -> Path:
    return folder / "shards" / source.set_name / split.name


def _finished(home: Path) -> list[ShardRecord]:
    """List the finished shards without a gap from the first on; their hashes are verified."""
    pieces: list[ShardRecord] = []
    while True:
        stem = f"{len(pieces):05d}"
        path, facts = home / f"{stem}.parquet", home / f"{stem}.json"
        if not (path.exists() and facts.exists()):
            return pieces
        try:
            piece = read_record(ShardRecord, facts, "pack again")
        except InputError:  # damaged: the shard is written again
            return pieces
        if file_sha256(path) != piece.sha256:
            return pieces
        pieces.append(piece)


def _row(source: PackSource, row: int) -> ArrowRow:
    frame = source.frame(row)
    pngs = {
        name: encode_png(array)
        for name, array in frame.layers.items()
        if layer(name).dtype == "uint8" and (name != "image" or source.factor > 1)
    }
    if "image" in frame.layers and "image" not in pngs:
        pngs["image"] = (source.frames.path(row) / IMAGE).read_bytes()
    return ArrowRow(frame, pngs)


def _row_groups(rows: Iterable[ArrowRow]) -> Iterator[list[ArrowRow]]:
    """Collect rows in groups of at most `ROW_GROUP_BYTES`, and of at least one row."""
    group: list[ArrowRow] = []
    size = 0
    for row in rows:
        if group and size + row.nbytes > ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(row)
        size += row.nbytes
    yield group


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Compute the next item in a thread while the caller uses the current one."""
    with ThreadPoolExecutor(1, "table") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _write(every: list[Column], tables: Iterator[pa.Table], home: Path, number: int) -> None:
    """Write each table as a row group, in files of at most `SHARD_BYTES`."""
    schema, options = arrow_schema(every), writer_options(every)
    table = next(tables, None)
    while table is not None:
        rows = arrow_bytes = 0
        with replacing(home / f"{number:05d}.parquet") as path:
            with path.open("wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
                # A table adds at most its size in memory to the file.
                while table is not None and (rows == 0 or file.tell() + table.nbytes <= SHARD_BYTES):
                    writer.write_table(table, row_group_size=len(table))
                    rows += len(table)
                    arrow_bytes += table.nbytes
                    table = next(tables, None)
            sync(path)
            facts = ShardRecord(
                rows=rows, bytes=path.stat().st_size, arrow_bytes=arrow_bytes, sha256=file_sha256(path)
            )
            with replacing(home / f"{number:05d}.json") as text:
                text.write_text(facts.model_dump_json(), encoding="utf-8")
        number += 1
