"""A plan as a Parquet table: one row per sample, every number in a column of its own."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from blender_assets import AssetLibrary
from generators.factors import Categorical
from generators.load import first_error
from generators.plan import Plan
from generators.recipe import Recipe
from generators.scene import SamplePlan
from generators.settings import values_of
from loaders.disk import replacing
from loaders.errors import InputError
from loaders.schema import FactorValue

_FACTOR, _DRAWN, _DO, _PROPENSITY = "factor.", "drawn.", "do.", "propensity."


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as a Parquet file, in one step.

    Columns are ``id set index unit group counterfactual_of gain lights trace`` and, by name, ``factor.*``,
    ``drawn.*``, ``do.*`` and ``propensity.*``; the recipe lies in the file's metadata.

    Args:
        plan: the plan.
        path: the file; written beside it and renamed.
    """
    rows = [_row(sample) for sample in plan.samples]
    table = pa.Table.from_pylist(rows, schema=_schema(rows))
    recipe = {b"candlelight.recipe": plan.recipe.model_dump_json().encode()}
    with replacing(path) as partial:
        pq.write_table(table.replace_schema_metadata(recipe), partial, compression="zstd")


def load_plan(path: Path) -> Plan:
    """Read a plan that `save_plan` wrote.

    A plan of others may have any folder of assets looked into and rendered from; it decides nothing about
    where anything is written.

    Args:
        path: the file.

    Returns:
        The plan, equal to the one that was written.

    Raises:
        InputError: the file is missing, or is no plan of this version.
    """
    try:
        table = pq.read_table(path)
        recipe = Recipe.model_validate_json(table.schema.metadata[b"candlelight.recipe"])
        values = _values(recipe)
        samples = tuple(_sample(row, recipe, values) for row in table.to_pylist())
    except FileNotFoundError:
        raise InputError(f"plan {path}: there is no such file; make one with `candlelight plan`") from None
    except ValidationError as error:
        raise InputError(f"plan {path}: made by another version; plan again ({first_error(error)})") from None
    except (OSError, pa.ArrowInvalid, KeyError, TypeError) as error:
        raise _not_a_plan(path) from error
    return Plan(recipe, samples)


def planned_ids(path: Path) -> set[str]:
    """List the ids of the samples in a plan's file, which is much faster than reading it all.

    Raises:
        InputError: the file is no plan.
    """
    try:
        return set(pq.read_table(path, columns=["id"]).column("id").to_pylist())
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise _not_a_plan(path) from error


def join(first: Plan, second: Plan) -> Plan:
    """Put the samples of two plans of one recipe together, sets in its order, samples by index."""
    samples = {sample.id: sample for plan in (first, second) for sample in plan.samples}
    place = {name: i for i, name in enumerate(first.recipe.sets)}
    ordered = sorted(samples.values(), key=lambda sample: (place[sample.set], sample.index))
    return Plan(first.recipe, tuple(ordered))


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
    library = AssetLibrary(recipe.assets)
    return {
        (set_name, name): values_of(factor, library)
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
