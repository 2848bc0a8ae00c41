"""Write the Parquet shards of a Hugging Face folder."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from candlelight.loaders.files.layer_codecs import encode_png
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
from candlelight.loaders.schema import layer
from candlelight.loaders.verification.checksums import file_sha256

# The Hub recommends row groups of 100 to 300 MB in memory; its viewer refuses more than 286 MB.
ROW_GROUP_BYTES = 100 * 2**20
SHARD_BYTES = 500 * 2**20
_Item = TypeVar("_Item")


def write_shards(
    source: PackSource, split: PackSplit, folder: Path, threads: int | None = None
) -> list[Shard]:
    """Write the shards of one split.

    Args:
        source: the image set.
        split: the split.
        folder: folder of the pack.
        threads: number of threads that read and check frames; None for one per processor.

    Returns:
        Manifest records of the shards.
    """
    desc = f"packing {source.set_name}" + ("" if len(source.splits) == 1 else f", {split.name}")
    rows = prepare_rows(split.rows, lambda row: _row(source, row), desc, threads)
    every = arrow_columns(source.set_info, source.causal.steps is not None)
    # `map` frees the rows of a group once they are a table; a generator would keep them until the next group.
    tables = _ahead(map(lambda group: arrow_table(every, group), _row_groups(rows)))
    (folder / source.set_name).mkdir(parents=True, exist_ok=True)
    stem = f"{source.set_name}/{split.name}"
    written = list(_write(every, tables, folder / stem))
    shards = []
    for number, (file, facts) in enumerate(written):
        path = f"{stem}-{number:05d}-of-{len(written):05d}.parquet"
        file.rename(folder / path)
        shards.append(Shard(path=path, set=source.set_name, split=split.name, **facts))
    return shards


def _row(source: PackSource, row: int) -> ArrowRow:
    frame = source.frame(row)
    pngs = {
        name: encode_png(array)
        for name, array in frame.layers.items()
        if layer(name).dtype == "uint8" and (name != "image" or source.factor > 1)
    }
    if "image" in frame.layers and "image" not in pngs:
        pngs["image"] = (source.frames.path(row) / IMAGE).read_bytes()
    return ArrowRow(frame, pngs, source.captions[row])


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


def _write(
    every: list[Column], tables: Iterator[pa.Table], start: Path
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Write each table as a row group, in files of at most `SHARD_BYTES`; yield their paths and facts."""
    schema, options = arrow_schema(every), writer_options(every)
    table, number = next(tables, None), 0
    while table is not None:
        path, rows, arrow_bytes = start.with_name(f"{start.name}-{number}"), 0, 0
        with path.open("wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
            # A table adds at most its size in memory to the file.
            while table is not None and (rows == 0 or file.tell() + table.nbytes <= SHARD_BYTES):
                writer.write_table(table, row_group_size=len(table))
                rows += len(table)
                arrow_bytes += table.nbytes
                table = next(tables, None)
        facts = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        yield path, {"rows": rows, "arrow_bytes": arrow_bytes, **facts}
        number += 1
