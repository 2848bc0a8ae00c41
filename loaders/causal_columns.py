"""Columns that tell how the rows of a set belong together: units, steps, counterfactuals, interventions.

They come from the columns of a pack or of a `datasets.Dataset`; otherwise from the metadata of each row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from jaxtyping import Int, UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import InterventionKind, Metadata

# Names of the codes of an intervention; 0 says that there was none.
INTERVENTION_KINDS = ("", *get_args(InterventionKind))


@dataclass(frozen=True)
class CausalRow:
    """The causal columns of one row; ``kinds`` holds the kind of each intervention by name."""

    id: str
    index: int
    unit: str
    counterfactual_of: str
    step: int | None
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, metadata: Metadata) -> "CausalRow":
        """Take the columns from the metadata of a sample."""
        kinds = {name: metadata.intervention_kind.get(name, "hard") for name in metadata.intervention}
        origin = metadata.counterfactual_of or ""
        return cls(metadata.id, metadata.index, metadata.unit, origin, metadata.step, kinds)


@dataclass(frozen=True, eq=False)
class CausalColumns:
    """How the rows of a set belong together.

    Attributes:
        ids: id of each sample.
        indices: number of each sample in its set.
        units: unit of each sample; samples of one unit share their exogenous draws.
        counterfactual_of: id of the factual sample, "" for none.
        steps: number of the step within the unit; None for a set without steps.
        kinds: for each name that may be intervened on, the place of the kind in `INTERVENTION_KINDS`: 0 for
            no intervention, 1 for a number ("hard"), 2 and 3 for a mechanism put in place ("soft", "drawn").
    """

    ids: Sequence[str]
    indices: Int[ndarray, " n"]
    units: Sequence[str]
    counterfactual_of: Sequence[str]
    steps: Int[ndarray, " n"] | None
    kinds: Mapping[str, UInt8[ndarray, " n"]]

    @classmethod
    def of_rows(cls, rows: Sequence[CausalRow], names: Iterable[str] = ()) -> "CausalColumns":
        """Turn rows into columns.

        Args:
            rows: the rows.
            names: names that ``kinds`` holds also if no row has an intervention on them.

        Example:
            >>> factual = CausalRow("a-0", 0, "u", "", None, {})
            >>> changed = CausalRow("b-0", 0, "u", "a-0", None, {"x": "soft"})
            >>> CausalColumns.of_rows([factual, changed], ["y"]).kinds
            {'y': array([0, 0], dtype=uint8), 'x': array([0, 2], dtype=uint8)}
        """
        every = dict.fromkeys([*names, *(name for row in rows for name in row.kinds)])
        kinds = {
            name: np.array([INTERVENTION_KINDS.index(row.kinds.get(name, "")) for row in rows], np.uint8)
            for name in every
        }
        stepped = bool(rows) and rows[0].step is not None
        return cls(
            [row.id for row in rows],
            np.array([row.index for row in rows], np.int64),
            [row.unit for row in rows],
            [row.counterfactual_of for row in rows],
            np.array([row.step for row in rows], np.int64) if stepped else None,
            kinds,
        )

    def table(self, names: Sequence[str]) -> UInt8[ndarray, "n k"]:
        """Arrange the kinds of interventions as a table with a column for each name."""
        nothing = np.zeros(len(self.ids), np.uint8)
        return np.stack([self.kinds.get(name, nothing) for name in names], axis=1)

    def factual_rows(self, factuals: "CausalColumns") -> Int[ndarray, " n"]:
        """Find the row of each factual sample in its set; -1 if it is missing there."""
        rows = {name: row for row, name in enumerate(factuals.ids)}
        return np.array([rows.get(name, -1) for name in self.counterfactual_of], np.int64)


def causal_columns(data: Any) -> CausalColumns:
    """Read the causal columns of an image set.

    Packs and data sets of `datasets` are read without their metadata. Folders of frames, and packs without
    these columns, are read with the metadata of each row.

    Args:
        data: frames, a pack, or a `datasets.Dataset` that ``load_dataset`` read from a pack.

    Raises:
        InputError: the data have no such columns.
    """
    if hasattr(data, "causal_columns"):
        found: CausalColumns = data.causal_columns
        return found
    if hasattr(data, "column_names"):
        return dataset_causal_columns(data)
    if not hasattr(data, "metadata"):
        raise InputError(
            "expected frames, a pack, or a `datasets.Dataset` read from a pack, got "
            f"{type(data).__name__}; open the set with `open_frames` or `load_dataset`"
        )
    return causal_columns_of_metadata(data)


def causal_columns_of_metadata(frames: Any) -> CausalColumns:
    """Take the causal columns of frames from the metadata of each row."""
    rows = [CausalRow.of(frames.metadata(row)) for row in range(len(frames))]
    return CausalColumns.of_rows(rows, [factor.name for factor in frames.set_info.factors])


def read_factor_values(data: Any, names: Iterable[str]) -> dict[str, ndarray]:
    """Read the values of factors, one per row; a list's values may be given as class indices.

    Args:
        data: as in `causal_columns`.
        names: names of factors; those that are no factors of the data are left out.
    """
    if hasattr(data, "factor_table"):
        columns = {one.name: data.factor_table[:, k] for k, one in enumerate(data.set_info.factors)}
        return {name: columns[name] for name in names if name in columns}
    chosen = [name for name in ("factors", *names) if name in data.column_names]  # `factors` of HDF5
    columns = data.with_format("arrow").select_columns(chosen)[:].to_pydict()
    rows = columns.pop("factors", [{}])
    return {name: np.array(columns.get(name) or [row.get(name) for row in rows]) for name in names}


def dataset_causal_columns(data: Any, names: Iterable[str] = ()) -> CausalColumns:
    """Read the causal columns of a `datasets.Dataset` that was made from Parquet or from HDF5."""
    wanted = {"id", "index", "unit", "counterfactual_of", "intervened"}
    if lacking := sorted(wanted - set(data.column_names)):
        raise InputError(
            f"expected columns {', '.join(sorted(wanted))}, got none named {', '.join(lacking)}; keep these "
            "columns, or pack the frames again"
        )
    chosen = [name for name in (*sorted(wanted), "step", "intervention_kind") if name in data.column_names]
    # As Arrow, because another format would decode nothing more, but turn numbers into tensors.
    columns = data.with_format("arrow").select_columns(chosen)[:].to_pydict()
    return CausalColumns.of_rows(
        [
            CausalRow(
                _text(columns["id"][row]),
                columns["index"][row],
                _text(columns["unit"][row]),
                _text(columns["counterfactual_of"][row]),
                columns["step"][row] if "step" in columns else None,
                _kinds(columns["intervened"][row], columns.get("intervention_kind", {row: ()})[row]),
            )
            for row in range(len(columns["id"]))
        ],
        names,
    )


def _kinds(intervened: Any, kinds: Sequence[str]) -> dict[str, str]:
    if isinstance(intervened, Mapping):  # of HDF5: a code for each name
        return {name: INTERVENTION_KINDS[code] for name, code in intervened.items() if code}
    return dict(zip(intervened, kinds, strict=True))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
