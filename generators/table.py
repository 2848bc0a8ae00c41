"""A plan as a Parquet table: one row per sample, every number in a column of its own."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from generators.factors import Categorical
from generators.load import first_error
from generators.plan import Plan
from generators.recipe import Recipe
from generators.scene import SamplePlan
from generators.settings import listed_values
from loaders.disk import replacing
from loaders.errors import InputError
from loaders.schema import AssetRecord, FactorValue

PLAN_VERSION = 2
_FACTOR, _DRAWN, _DO, _PROPENSITY = "factor.", "drawn.", "do.", "propensity."
_VERSION, _RECIPE, _ASSETS = b"candlelight.plan", b"candlelight.recipe", b"candlelight.assets"
_RECORDS = TypeAdapter(tuple[AssetRecord, ...])


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as a Parquet file, in one step.

    Columns are ``id set index unit group counterfactual_of gain lights trace`` and, by name, ``factor.*``,
    ``drawn.*``, ``do.*`` and ``propensity.*``; the recipe, without its folders of assets, and the hashes of
    the assets lie in the file's metadata.

    Args:
        plan: the plan.
        path: the file; written beside it and renamed.
    """
    rows = [_row(sample) for sample in plan.samples]
    table = pa.Table.from_pylist(rows, schema=_schema(rows))
    about = {
        _VERSION: str(PLAN_VERSION).encode(),
        _RECIPE: plan.recipe.model_dump_json(exclude={"assets"}).encode(),
        _ASSETS: _RECORDS.dump_json(plan.assets),
    }
    with replacing(path) as partial:
        pq.write_table(table.replace_schema_metadata(about), partial, compression="zstd")


def load_plan(path: Path, assets: Mapping[Any, Path] | None = None) -> Plan:
    """Read a plan that `save_plan` wrote.

    A plan of others decides nothing about which folders are read, nor about where anything is written.

    Args:
        path: the file.
        assets: the user's own folders of assets, by kind: a plan holds their content's hashes, and no paths.

    Returns:
        The plan, equal to the one that was written.

    Raises:
        InputError: the file is missing, or is no plan of this version.
    """
    table = _read(path)
    about = table.schema.metadata
    try:
        # Absolute, because workers may have another working directory.
        folders = {kind: Path(folder).absolute() for kind, folder in (assets or {}).items()}
        recipe = Recipe.model_validate_json(about[_RECIPE]).model_copy(update={"assets": folders})
        records = _RECORDS.validate_json(about[_ASSETS])
        values = _values(recipe)
        samples = tuple(_sample(row, recipe, values) for row in table.to_pylist())
    except ValidationError as error:
        raise InputError(f"plan {path}: is damaged; plan again ({first_error(error)})") from None
    except (KeyError, TypeError) as error:
        raise _not_a_plan(path) from error
    return Plan(recipe, samples, records)


def planned_traces(path: Path) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Map the ids in a plan's file to group and gain, which decide all pixels, without reading the rest.

    Raises:
        InputError: the file is no plan of this version.
    """
    table = _read(path, columns=["id", "group", "gain"])
    ids, groups, gains = (table.column(name).to_pylist() for name in ("id", "group", "gain"))
    return {id: (group, tuple(gain)) for id, group, gain in zip(ids, groups, gains, strict=True)}


def planned_assets(path: Path) -> tuple[AssetRecord, ...]:
    """List the assets that the plan in a file was made with.

    Raises:
        InputError: the file is no plan of this version.
    """
    try:
        return _RECORDS.validate_json(_read(path, columns=["id"]).schema.metadata[_ASSETS])
    except (ValidationError, KeyError) as error:
        raise _not_a_plan(path) from error


def _read(path: Path, columns: list[str] | None = None) -> pa.Table:
    try:
        table = pq.read_table(path, columns=columns)
    except FileNotFoundError:
        raise InputError(f"plan {path}: there is no such file; make one with `candlelight plan`") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise _not_a_plan(path) from error
    about = table.schema.metadata or {}
    if _RECIPE in about and about.get(_VERSION) != str(PLAN_VERSION).encode():
        raise InputError(f"plan {path}: expected version {PLAN_VERSION}; plan again with `candlelight plan`")
    if _RECIPE not in about or not set(columns or ()) <= set(table.column_names):
        raise _not_a_plan(path)
    return table


def join(first: Plan, second: Plan) -> Plan:
    """Put the samples of two plans of one recipe together, sets in its order, samples by index.

    Where they differ, in prose or in folders of assets, the second counts.
    """
    samples = {sample.id: sample for plan in (first, second) for sample in plan.samples}
    place = {name: i for i, name in enumerate(second.recipe.sets)}
    ordered = sorted(samples.values(), key=lambda sample: (place[sample.set], sample.index))
    assets = {(one.kind, one.label): one for plan in (first, second) for one in plan.assets}
    return Plan(second.recipe, tuple(ordered), tuple(assets[key] for key in sorted(assets)))


def _not_a_plan(path: Path) -> InputError:
    return InputError(
        f"plan {path}: expected a file written by `candlelight plan`, got another; plan again, or, for "
        "a folder of frames, run `candlelight render RECIPE --repair`"
    )


def _row(sample: SamplePlan) -> dict[str, Any]:
    row = sample.model_dump(mode="json", exclude={"factors", "exogenous", "intervention", "propensity"})
    named: dict[str, Mapping[str, FactorValue]] = {
        _FACTOR: sample.factors,
        _DRAWN: sample.exogenous,
        _DO: sample.intervention,
        _PROPENSITY: sample.propensity,
    }
    for prefix, values in named.items():
        row |= {prefix + name: value for name, value in values.items()}
    return row


def _schema(rows: list[dict[str, Any]]) -> pa.Schema:
    """Infer a schema from all rows: sets differ in their factors, and a column exists if any row has it."""
    names = dict.fromkeys(name for row in rows for name in row)
    fields = []
    for name in names:
        column = [row.get(name) for row in rows]
        if name.startswith((_FACTOR, _DRAWN, _DO)) and any(isinstance(value, float) for value in column):
            column = [float(value) if isinstance(value, int) else value for value in column]
            fields.append(pa.field(name, pa.array(column).type))
        else:
            fields.append(pa.field(name, pa.array(column).type))
    return pa.schema(fields)


def _values(recipe: Recipe) -> dict[tuple[str, str], tuple[FactorValue, ...]]:
    """List the values of every categorical factor, so that 15 is read as 15 and not as 15.0."""
    return {
        (set_name, name): listed_values(factor)
        for set_name, image_set in recipe.sets.items()
        for name, factor in image_set.mechanisms().items()
        if isinstance(factor, Categorical)
    }


def _sample(
    row: dict[str, Any], recipe: Recipe, values: dict[tuple[str, str], tuple[FactorValue, ...]]
) -> SamplePlan:
    def restore(name: str, value: FactorValue) -> FactorValue:
        known = values.get((row["set"], name), ())
        return known[known.index(value)] if value in known else value

    def take(prefix: str, names: Iterable[str]) -> dict[str, Any]:
        # In the recipe's order, which the columns of several sets do not keep and the metadata do.
        found = {name: row.get(prefix + name) for name in names}
        return {name: restore(name, value) for name, value in found.items() if value is not None}

    image_set = recipe.sets[row["set"]]
    asked = image_set.counterfactual.do if image_set.counterfactual else ({},)
    changed = {**recipe.do, **asked[row["index"] % len(asked)]}
    plain = {key: value for key, value in row.items() if "." not in key}
    parts = {
        "factors": take(_FACTOR, image_set.factors),
        "exogenous": take(_DRAWN, image_set.variables),
        "intervention": take(_DO, changed),
        "propensity": take(_PROPENSITY, image_set.mechanisms()),
    }
    # Through JSON, so that lists are taken for the tuples that they were.
    return SamplePlan.model_validate_json(json.dumps({**plain, **parts}))
