"""Images with factors, or a table of factors alone, as the causal evaluations open them."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.views import DataIdentity, Factors, open_data, open_secondary
from candlelight.evaluation.views.image_tensors import ResizedImages
from candlelight.evaluation.views.named_rows import Request, choose_rows
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders import FactorIndex, select_preset
from candlelight.loaders.errors import InputError, argument, blaming, nearest_file
from candlelight.loaders.schema import FactorInfo


class ResizedFactors(ResizedImages):
    """Square images with factors, resized; the members of `candlelight.evaluation.views.Factors`.

    Args:
        data: images of any size with factors.
        side: height and width in pixels.
    """

    def __init__(self, data: Factors, side: int) -> None:
        super().__init__(data, (side, side))
        self.factors: tuple[FactorInfo, ...] = tuple(data.factors)
        self.table: Float64[ndarray, "n k"] = data.table
        self.graph = getattr(data, "graph", None)


@dataclass(frozen=True, eq=False)
class FactorColumns:
    """Factors without images, for codes of another program; `factors_of_columns` makes them."""

    identity: DataIdentity
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    factors: tuple[FactorInfo, ...]
    table: Float64[ndarray, "n k"]
    known_ids: frozenset[str]  # those of rows that are left out, too

    def take(self, rows: Sequence[int]) -> "FactorColumns":
        """Choose rows."""
        ids, groups = (tuple(some[row] for row in rows) for some in (self.ids, self.groups))
        return replace(self, ids=ids, groups=groups, table=self.table[list(rows)])

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> Tensor:
        raise InputError(f"`{self.identity.name}` is a table of factors without images, for codes alone")


def factors_of_columns(name: str, columns: Mapping[str, Any]) -> FactorColumns:
    """Make factors of columns: whole numbers and texts are classes in their order, others continuous.

    Args:
        name: name of the data.
        columns: values of each factor, [rows]; beside them ``id``, a text for each row, by default its
            number, and ``group``, of rows that are not independent, by default the id.

    Raises:
        InputError: there is no factor, columns differ in length, an id occurs twice, or a value is neither a
            text nor a finite number.

    Example:
        >>> view = factors_of_columns("mine", {"shape": ["cube", "ball", "ball"], "size": [0.5, 1.0, 1.5]})
        >>> view.ids, [info.kind for info in view.factors], view.table.T.tolist()
        (('0', '1', '2'), ['categorical', 'continuous'], [[1.0, 0.0, 0.0], [0.5, 1.0, 1.5]])
    """
    arrays = {column: np.asarray(values) for column, values in columns.items()}
    names = [one for one in arrays if one not in ("id", "group")]
    if not names or len({one.shape for one in arrays.values()}) > 1 or arrays[names[0]].ndim != 1:
        shapes = ", ".join(f"{column} {list(one.shape)}" for column, one in arrays.items()) or "none"
        raise InputError(f"{name}: expected a column [rows] for each factor, got {shapes}")
    ids = tuple(map(str, arrays.get("id", np.arange(len(arrays[names[0]]))).tolist()))
    if not ids or len(set(ids)) < len(ids):
        raise InputError(f"{name}: expected rows with different ids, got {len(set(ids))} in {len(ids)} rows")
    groups = tuple(map(str, arrays["group"].tolist())) if "group" in arrays else ids
    made = [_factor(f"{name}: `{one}`", one, arrays[one]) for one in names]
    table = np.stack([numbers for _, numbers in made], axis=1)
    infos = tuple(info for info, _ in made)
    return FactorColumns(DataIdentity(name, "table"), ids, groups, infos, table, frozenset(ids))


def _factor(label: str, name: str, values: ndarray) -> tuple[FactorInfo, Float64[ndarray, " rows"]]:
    """Describe a column, and number its values."""
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InputError(f"{label}: expected finite numbers, got nan or inf; leave the rows out")
        low, high = float(values.min()), float(values.max())
        if low < high:
            return FactorInfo(name=name, kind="continuous", low=low, high=high), values.astype(np.float64)
    if values.dtype.kind not in "fiubU":
        raise InputError(f"{label}: expected numbers or texts, got {values.dtype}")
    found, numbers = np.unique(values, return_inverse=True)
    return FactorInfo(name=name, kind="categorical", values=tuple(found.tolist())), numbers.astype(np.float64)


def read_factors(path: str | Path) -> FactorColumns:
    """Read a table of factors.

    Args:
        path: .csv with a header, .parquet, or .npz with an array [rows] for each column: see
            `factors_of_columns`.

    Raises:
        InputError: the file cannot be read, or has no such table.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: expected a table of factors, there is none{nearest_file(path)}")
    with blaming(f"{path}: cannot be read as a table of factors", "expected a column for each factor"):
        columns = _READERS[path.suffix.lower()](path)
    return factors_of_columns(path.stem, columns)


def _read_npz(path: Path) -> dict[str, ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _read_parquet(path: Path) -> dict[str, ndarray]:
    from pyarrow import parquet

    columns = parquet.read_table(path).to_pydict()
    return {name: np.array(values) for name, values in columns.items() if not name.startswith("__index")}


def _read_csv(path: Path) -> dict[str, ndarray]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = [row for row in csv.reader(file, skipinitialspace=True, strict=True) if row] or [[]]
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"{path}: expected columns of different names, got `{twice[0]}` twice")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header) or "" in row:
            raise InputError(
                f"{path}: row {number}: expected {len(header)} values, got {','.join(row)[:80]!r}"
            )
    texts = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    return {name: np.array(some) if name in ("id", "group") else _typed(some) for name, some in texts.items()}


def _typed(texts: Sequence[str]) -> ndarray:
    """Read whole numbers or numbers, where all values are; else texts."""
    for kind in (int, float):
        try:
            return np.array([kind(text) for text in texts])
        except ValueError:
            continue
    return np.array(texts)


_READERS = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}


def open_factors(choice: Mapping[str, Any], options: Any, models: object) -> Any:
    """Open images with factors, or a table of factors, for `candlelight.evaluation.catalogue.record.Reading`.

    Args:
        choice: data, set, split, rows and limit; the data may be an open view, the columns of a
            `factors_of_columns`, or a file for `read_factors`.
        options: `FactorDataOptions`.
        models: not used.
    """
    view = open_whole(choice, options)
    if options.selection:
        rows = select_confounded(view, options.selection, choice)
        if isinstance(view, FactorColumns):
            view = view.take(rows)
        elif is_view(choice["data"]):
            raise InputError("`selection`: expected data that are not open yet; or open the selected rows")
        else:
            view = open_whole({**choice, "rows": rows}, options)
    return view if options.size is None else ResizedFactors(view, options.size)


@dataclass(frozen=True)
class CounterfactualData:
    """Factual images, and the images among which their counterfactuals are found."""

    images: Factors
    counterfactuals: Factors


def open_with_counterfactuals(choice: Mapping[str, Any], options: Any, models: object) -> CounterfactualData:
    """Open the images, and those of the counterfactuals: by default all of the data, before a selection."""
    data = choice["data"]
    if isinstance(data, CounterfactualData):
        return data
    images, text = open_factors(choice, options, models), options.counterfactuals
    if text and Path(text).suffix.lower() in _READERS and ":" not in text:
        return CounterfactualData(images, read_factors(text))
    if not text and not options.selection:
        return CounterfactualData(images, images)
    if text:
        others = open_secondary("factors", None if is_view(data) else data, text, **factor_options(options))
    else:
        others = open_whole(choice, options)
    return CounterfactualData(images, ResizedFactors(others, options.size) if options.size else others)


def open_whole(choice: Mapping[str, Any], options: Any) -> Any:
    """Open the data of `open_factors` before a selection, at their own size."""
    data = choice["data"]
    if is_view(data):
        return data
    if isinstance(data, Mapping):
        return _chosen(factors_of_columns("columns", data), choice)
    if isinstance(data, str | Path) and Path(data).suffix.lower() in _READERS and ":" not in str(data):
        return _chosen(read_factors(data), choice)
    return open_data("factors", **choice, **factor_options(options))


def factor_options(options: Any) -> dict[str, Any]:
    """Make the options of `open_data("factors", ...)`.

    Raises:
        InputError: the sizes of MPI3D are no numbers.
    """
    if options.sizes is None:
        return {}
    parts = options.sizes.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(
            f"{argument('sizes')}: expected numbers such as 6,6,2,3,3,40,40, got {options.sizes}"
        )
    return {"sizes": tuple(map(int, parts))}


def _chosen(view: FactorColumns, choice: Mapping[str, Any]) -> FactorColumns:
    if choice["set_name"] is not None or choice["split"] is not None:
        raise InputError(f"{view.identity.name}: a table of factors has no sets or splits; leave them out")
    request = Request(view.identity.name, None, None, choice["rows"], choice["limit"])
    return view.take(choose_rows(len(view), request))


def select_confounded(view: Factors, selection: str, choice: Mapping[str, Any]) -> list[int]:
    """Choose the rows of a confounded selection, NAME[:STRENGTH].

    Raises:
        InputError: rows were chosen already, or the selection cannot be made of the factors.
    """
    if choice["rows"] is not None or choice["limit"] is not None:
        raise InputError(
            f"{argument('selection')}: chooses the rows itself; omit {argument('rows')} and "
            f"{argument('limit')}"
        )
    name, _, text = selection.partition(":")
    try:
        strength = float(text or 1)
    except ValueError:
        raise InputError(
            f"{argument('selection')} {selection}: expected a strength in [0, 1], got `{text}`"
        ) from None
    index = FactorIndex.from_table(view.factors, view.table)
    return select_preset(index, name, strength=strength).rows.tolist()
