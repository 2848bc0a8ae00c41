"""Read facts of an image set from its Parquet files: factors, the first sample, single rows."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.files.json_records import parse_record
from candlelight.loaders.hub.arrow_tables import decode_layer, factor_columns, layer_column, plain_array
from candlelight.loaders.packed_frames import CHECK, check_factors
from candlelight.loaders.packs.pack_manifest import Shard
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import FactorInfo, Metadata, SetInfo


@dataclass(frozen=True, eq=False)
class SetFacts:
    """Facts of one image set, read from its files.

    Attributes:
        table: factors of every row, in order of the files, as
            `candlelight.loaders.samples.Frames.factor_table`.
        first: metadata of the first row.
        picture: path of the set's picture within the folder, "" for none.
    """

    table: Float64[ndarray, "n k"]
    first: Metadata
    picture: str = ""


def read_facts(folder: Path, set_info: SetInfo, shards: Sequence[Shard], picture: str = "") -> SetFacts:
    """Read the factors of all rows, and the metadata of the first.

    Args:
        folder: folder of the pack.
        set_info: the image set.
        shards: its files, at least one with a row in it.
        picture: path of its picture within the folder, "" for none.

    Raises:
        InputError: a factor has another value than the set lists.
    """
    names = list(factor_columns(set_info).values())
    tables = [_read(folder / shard.path, lambda file: file.read(names)) for shard in shards]
    factors = np.concatenate([_stack([table[name] for name in names], len(table)) for table in tables])
    check_factors(factors, set_info)
    (first,) = metadata_of_rows(folder, shards, [0])
    return SetFacts(factors, first, picture)


def read_footer(path: Path) -> pq.FileMetaData:
    """Read the sizes and the columns of a Parquet file."""
    return _read(path, lambda file: file.metadata)


def _read(path: Path, part: Callable[[pq.ParquetFile], Any]) -> Any:
    # pyarrow opens no path that is not UTF-8.
    with path.open("rb") as opened, pq.ParquetFile(opened) as file:
        return part(file)


def _stack(columns: list[pa.ChunkedArray], rows: int) -> Float64[ndarray, "n k"]:
    table = np.empty((rows, len(columns)))
    for place, column in enumerate(columns):
        table[:, place] = column.to_numpy()
    return table


def read_rows(
    folder: Path, shards: Sequence[Shard], rows: Sequence[int], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Read some columns of some rows; only the row groups of these rows are read, one at a time.

    Args:
        folder: folder of the pack.
        shards: files of the image set, in order.
        rows: row numbers over all these files, in rising order.
        columns: names of columns.

    Yields:
        Tables of one row each, in the order of ``rows``.
    """
    # Open one file at a time: a large pack has more files than a process may hold open.
    groups = [
        (folder / shard.path, group, footer.row_group(group).num_rows)
        for shard in shards
        for footer in [read_footer(folder / shard.path)]
        for group in range(footer.num_row_groups)
    ]
    starts = np.cumsum([0, *(rows_of for _, _, rows_of in groups)]).tolist()
    wanted: dict[int, list[int]] = {}
    for row in rows:
        wanted.setdefault(bisect_right(starts, row) - 1, []).append(row)
    for place, members in wanted.items():
        path, group, _ = groups[place]
        table = _read(path, partial(pq.ParquetFile.read_row_group, i=group, columns=list(columns)))
        for row in members:
            yield table.slice(row - starts[place], 1)


def decode_frame(table: pa.Table, names: Iterable[str], set_info: SetInfo) -> Frame:
    """Decode metadata and layers from a table of one row.

    Raises:
        InputError: the metadata or a layer is null or damaged.
    """
    columns = {name: plain_array(table[layer_column(name)].chunk(0)) for name in names}
    layers = {name: decode_layer(name, column, 0, set_info) for name, column in columns.items()}
    return Frame(_metadata(table), layers)


def _metadata(table: pa.Table) -> Metadata:
    return parse_record(Metadata, table["metadata"][0].as_py(), "metadata", CHECK)


def metadata_of_rows(folder: Path, shards: Sequence[Shard], rows: Sequence[int]) -> Iterator[Metadata]:
    """Read the metadata of some rows; arguments as those of `read_rows`."""
    for table in read_rows(folder, shards, rows, ["metadata"]):
        yield _metadata(table)


def count_values(factor: FactorInfo, column: Float64[ndarray, " n"]) -> list[int]:
    """Count the rows that show each value of a categorical factor.

    Example:
        >>> color = FactorInfo(name="color", kind="categorical", values=("red", "blue"))
        >>> count_values(color, np.array([1.0, 0.0, 1.0]))
        [1, 2]
    """
    return np.bincount(column.astype(np.int64), minlength=len(factor.values or ())).tolist()
