"""Save and load plans as Parquet tables, with one row per sample and a column for each number."""

import heapq
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from candlelight.generators.language.load_recipe import first_error
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.recipe_files import record_file
from candlelight.generators.language.set_interventions import intervened_names
from candlelight.generators.language.set_settings import set_graph
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.planned_samples import (
    PlannedSamples,
    SampleCompressor,
    SampleKey,
    SampleLine,
    compress_samples,
)
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.schema import AssetRecord, FactorValue

_PLAN_VERSION = 3
_FACTOR, _DRAWN, _DO, _KIND, _PROPENSITY = "factor.", "drawn.", "do.", "kind.", "propensity."
_PREFIXES = {
    "factors": _FACTOR,
    "exogenous": _DRAWN,
    "intervention": _DO,
    "intervention_kind": _KIND,
    "propensity": _PROPENSITY,
}
_VERSION, _RECIPE, _ASSETS = b"candlelight.plan", b"candlelight.recipe", b"candlelight.assets"
_GRAPHS = b"candlelight.graphs"
_CHUNK = 1024  # rows that are read or converted at a time
_ROW_GROUP = 64 * _CHUNK  # rows of one row group of the file
_Item = TypeVar("_Item")
_RECORDS = TypeAdapter(tuple[AssetRecord, ...])


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as a Parquet file, in one step.

    The columns are ``id set index unit step group counterfactual_of gain lights trace`` and, by name,
    ``factor.*``, ``drawn.*``, ``do.*``, ``kind.*`` (of drawn and soft interventions) and
    ``propensity.*``. The file's metadata holds the recipe, without its folders of assets, the causal graph of
    each set, for readers without recipes, and the hashes of the assets.

    Args:
        plan: the plan.
        path: the file; it is written under a temporary name and renamed.
    """
    about = {
        _VERSION: str(_PLAN_VERSION).encode(),
        _RECIPE: plan.recipe.model_dump_json(exclude={"assets"}).encode(),
        _GRAPHS: json.dumps(
            {name: set_graph(plan.recipe, name).model_dump(mode="json") for name in plan.recipe.sets}
        ).encode(),
        _ASSETS: _RECORDS.dump_json(plan.assets),
    }
    schema = _schema(plan).with_metadata(about)
    with (
        replacing(path) as partial,
        partial.open("wb") as opened,  # pyarrow opens no path that is not UTF-8
        pq.ParquetWriter(opened, schema, compression="zstd") as file,
    ):
        tables = (pa.Table.from_pylist(rows, schema=schema) for rows in _chunks(plan))
        for row_group in _batches(tables, _ROW_GROUP // _CHUNK):
            file.write_table(pa.concat_tables(row_group), row_group_size=_ROW_GROUP)


def load_plan(
    path: Path, assets: Mapping[Any, Path] | None = None, ids: Collection[str] | None = None
) -> Plan:
    """Read a plan that `save_plan` wrote.

    A plan file from elsewhere cannot choose which folders are read or written, because it holds no paths.

    Args:
        path: the file.
        assets: the user's own folders of assets, by kind; the plan holds only the hashes of their content.
        ids: ids of the samples to read; unknown ids are ignored. By default all samples.

    Returns:
        The plan, equal to the one that was written, or to a part of it.

    Raises:
        InputError: the file is missing, or is no plan of this version.
    """
    if "code" not in (assets or {}):
        record_file(path)
    with _open(path) as file:
        try:
            about = file.schema_arrow.metadata
            recipe = Recipe.model_validate_json(about[_RECIPE])
            # Workers may have another working directory.
            folders = {kind: Path(folder).absolute() for kind, folder in (assets or {}).items()}
            recipe = recipe.model_copy(update={"assets": folders})
            records = _RECORDS.validate_json(about[_ASSETS])
            values = _listed_values(recipe)
            samples = compress_samples(
                _sample(row, recipe, values)
                for batch in file.iter_batches(_CHUNK)
                for row in (batch if ids is None else batch.filter(_has_id(batch, ids))).to_pylist()
            )
        except ValidationError as error:
            raise InputError(f"plan {path}: is damaged; plan again ({first_error(error)})") from None
    _refuse_duplicates(samples.keys, path)
    return Plan(recipe, samples, records)


def _has_id(batch: pa.RecordBatch, ids: Collection[str]) -> pa.Array:
    return pc.is_in(batch["id"], pa.array(ids, pa.string()))


def _refuse_duplicates(keys: Sequence[SampleKey], path: Path) -> None:
    """Refuse two rows for one frame, because only one of them would be rendered."""
    names = {"id": [key.id for key in keys], "set and index": [f"{key.set}, {key.index}" for key in keys]}
    for column, values in names.items():
        for value, count in Counter(values).most_common(1):
            if count > 1:
                raise InputError(
                    f"plan {path}: expected one row for each {column}, got {count} with `{value}`; "
                    "remove the other rows, or plan again"
                )


def planned_traces(path: Path) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Map the ids in a plan file to trace group and gain, which together decide all pixels of a sample.

    Only these columns are read.

    Raises:
        InputError: the file is no plan of this version.
    """
    with _open(path, columns=["id", "group", "gain"]) as file:
        batches = file.iter_batches(_CHUNK, columns=["id", "group", "gain"])
        return {
            row["id"]: (row["group"], tuple(row["gain"])) for batch in batches for row in batch.to_pylist()
        }


def planned_assets(path: Path) -> tuple[AssetRecord, ...]:
    """List the assets that the plan in a file needs, with their content when it was made.

    Raises:
        InputError: the file is no plan of this version.
    """
    with _open(path) as file:
        return _RECORDS.validate_json(file.schema_arrow.metadata[_ASSETS])


def planned_recipe(path: Path) -> Recipe:
    """Return the recipe that the plan in a file was made from, without its folders of assets.

    Raises:
        InputError: the file is no plan of this version.
    """
    with _open(path) as file:
        return Recipe.model_validate_json(file.schema_arrow.metadata[_RECIPE])


@contextmanager
def _open(path: Path, columns: Collection[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a plan file to read it in chunks; damage is refused when reading finds it."""
    try:
        with path.open("rb") as opened, pq.ParquetFile(opened) as file:
            about = file.schema_arrow.metadata or {}
            if _RECIPE in about and about.get(_VERSION) != str(_PLAN_VERSION).encode():
                raise InputError(
                    f"plan {path}: expected version {_PLAN_VERSION}; plan again with `candlelight plan`"
                )
            if _RECIPE not in about or not set(columns) <= set(file.schema_arrow.names):
                raise _not_a_plan(path)
            yield file
    except FileNotFoundError:
        raise InputError(f"plan {path}: there is no such file; make one with `candlelight plan`") from None
    except (OSError, pa.ArrowInvalid, ValidationError, KeyError, TypeError) as error:
        raise _not_a_plan(path) from error


def join(first: Plan, second: Plan) -> Plan:
    """Join the samples of two plans of one recipe, with sets in the recipe's order and samples by index.

    If both plans have a sample, or their recipes differ in prose or in folders of assets, the second plan
    takes precedence.
    """
    place = {name: i for i, name in enumerate(second.recipe.sets)}

    def order(key: SampleKey) -> tuple[int, int]:
        return place[key.set], key.index

    def ordered(samples: PlannedSamples) -> Iterator[SampleLine]:
        keys = samples.keys
        return samples.take(sorted(range(len(keys)), key=lambda row: order(keys[row]))).lines()

    again = {key.id for key in second.samples.keys}
    others = first.samples.where(lambda key: key.id not in again)
    compressor = SampleCompressor()
    for line in heapq.merge(ordered(others), ordered(second.samples), key=lambda line: order(line[0])):
        compressor.add_line(line)
    assets = {(one.kind, one.label): one for plan in (first, second) for one in plan.assets}
    return Plan(second.recipe, compressor.finish(), tuple(assets[key] for key in sorted(assets)))


def _not_a_plan(path: Path) -> InputError:
    return InputError(
        f"plan {path}: expected a file written by `candlelight plan`, got another; plan again, or, for "
        "a folder of frames, run `candlelight render RECIPE --repair`"
    )


def _row(record: dict[str, Any]) -> dict[str, Any]:
    """Give each factor, exogenous variable, intervention and propensity of a sample a column of its own."""
    named = {field: record.pop(field, {}) for field in _PREFIXES}
    for field, prefix in _PREFIXES.items():
        record |= {prefix + name: value for name, value in named[field].items()}
    return record


def _chunks(plan: Plan) -> Iterator[list[dict[str, Any]]]:
    return _batches(map(_row, plan.samples.records()), _CHUNK)


def _batches(items: Iterator[_Item], size: int) -> Iterator[list[_Item]]:
    return iter(lambda: list(itertools.islice(items, size)), [])


def _schema(plan: Plan) -> pa.Schema:
    """Infer the schema from all rows; a column exists if any row has it, because sets differ in factors."""
    found = pa.schema([])
    for rows in _chunks(plan):
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
        new = pa.schema([pa.field(name, column.type) for name, column in columns.items()])
        # A column may be all None, or all whole numbers, in one chunk and not in another.
        found = pa.unify_schemas([found, new], promote_options="permissive")
    return found


def _listed_values(recipe: Recipe) -> dict[tuple[str, str], tuple[FactorValue, ...]]:
    """List the values of every categorical factor, so that 15 in a column of numbers is not read as 15.0."""
    return {
        (set_name, name): factor.listed()
        for set_name, image_set in recipe.sets.items()
        for name, factor in image_set.categorical().items()
    }


def _sample(
    row: dict[str, Any], recipe: Recipe, values: dict[tuple[str, str], tuple[FactorValue, ...]]
) -> SamplePlan:
    def as_listed(name: str, value: FactorValue) -> FactorValue:
        known = values.get((row["set"], name), ())
        return known[known.index(value)] if value in known else value

    def take(prefix: str, names: Iterable[str]) -> dict[str, Any]:
        # The order is the recipe's, as in the metadata; columns of several sets are in another order.
        found = {name: row.get(prefix + name) for name in names}
        return {name: as_listed(name, value) for name, value in found.items() if value is not None}

    image_set = recipe.sets[row["set"]]
    for name in image_set.factors:
        value, known = row.get(_FACTOR + name), values.get((row["set"], name), ())
        if value is None or (known and value not in known):
            raise KeyError(name)  # the file was edited; otherwise packing would fail after all is rendered
    changed = intervened_names(recipe, row["set"], row["index"] // image_set.steps % image_set.entries)
    plain = {key: value for key, value in row.items() if "." not in key}
    parts = {
        "factors": take(_FACTOR, image_set.factors),
        "exogenous": take(_DRAWN, image_set.variables),
        "intervention": take(_DO, changed),
        "intervention_kind": take(_KIND, changed),
        "propensity": take(_PROPENSITY, image_set.mechanisms()),
    }
    # Validation from JSON turns lists into tuples.
    return SamplePlan.model_validate_json(json.dumps({**plain, **parts}))
