"""The evaluation of estimated effects of interventions, with those of shipped estimators beside."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from scipy.special import betaincinv, stdtrit
from torch import Tensor

from candlelight.evaluation.catalogue.causal_options import EffectsOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.causal.factor_table import encode_images
from candlelight.evaluation.causal.treatment_effects import (
    EffectEstimate,
    doubly_robust_effect,
    fit_propensity,
    ipw_effect,
    naive_effect,
)
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel, open_callable, split_spec
from candlelight.evaluation.run.batches import read_batches
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.intervals import Score, clustered_mean, mean_interval
from candlelight.evaluation.run.predictions import Codes
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.evaluation.views import DataIdentity, open_data
from candlelight.evaluation.views.image_tensors import check_srgb_image
from candlelight.evaluation.views.named_rows import Request, choose_rows
from candlelight.loaders.choices import choose_name
from candlelight.loaders.drawn_tables import (
    DrawnTable,
    check_estimated_positivity,
    check_observed,
    drawn_table,
    interventional_tables,
    planned_tables,
)
from candlelight.loaders.errors import InputError, argument, blaming, did_you_mean
from candlelight.loaders.illuminants import LUMINANCE
from candlelight.loaders.verification.checksums import file_sha256

Estimates = Float64[ndarray, "replicates 3"]  # effect, low, high; nan where there is none
# Standard errors between truths that disagree; standard error of the truth, in widths of intervals.
_FAR, _SMALL = 3, 0.05
_COLUMNS = "effect", "low", "high"  # of a file of estimates
_LEAST = 4  # rows of a replicate: two of each arm
_ROUNDING = 1e-12  # share of the estimates below which a bias is 0


def luminance(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, " batch"]:
    """Average the relative luminance of scene-linear Rec.709 images.

    Example:
        >>> luminance(torch.full((1, 3, 2, 2), 0.5))
        tensor([0.5000])
    """
    return images.mean((2, 3)) @ images.new_tensor(LUMINANCE)


def open_estimates(spec: str, device: str = "cpu", default_space: str = "linear") -> NamedModel:
    """Read the estimates of another program, one row for each replicate.

    Args:
        spec: ``[NAME=]FILE``, a CSV file with the columns effect, low and high.
        device: not used.
        default_space: not used.

    Raises:
        InputError: the file cannot be read, lacks a column, or a row has no finite numbers with low <= high.
    """
    name, text = split_spec(spec)
    path, form = Path(text), "expected a CSV file with the columns effect,low,high"
    with blaming(f"{path}: cannot be read as estimates", form), path.open(encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        if missing := [part for part in _COLUMNS if part not in (reader.fieldnames or ())]:
            raise InputError(f"no column `{missing[0]}`")
        rows = [*reader]
        table = np.array([[float(row[part]) for part in _COLUMNS] for row in rows])
    table = _checked(str(path), table)
    return NamedModel(ModelIdentity(name or path.stem, "files", None, file_sha256(path)), table, "linear")


def _checked(name: str, estimates: Any) -> Estimates:
    """Return the estimates of a file, or those of an array, which comes as codes."""
    table = estimates.codes.numpy() if isinstance(estimates, Codes) else estimates
    fits = isinstance(table, ndarray) and table.shape[1:] == (3,) and np.isfinite(table).all()
    if not fits or (table[:, 1] > table[:, 2]).any():
        raise InputError(f"{name}: expected rows of finite numbers, effect, low and high, with low <= high")
    return table


class EffectData(NamedTuple):
    """Rows that were observed, and rows under do(treatment = a) and do(treatment = b).

    Attributes:
        identity: name of the data and of the observed set.
        ids: ids of the observed rows.
        observed: rows of which effects are estimated.
        arms: rows under both interventions, the second value first.
        planned: the same of a plan with more draws; empty without one.
        images: view of the images of each set by name; None of a plan.
    """

    identity: DataIdentity
    ids: tuple[str, ...]
    observed: DrawnTable
    arms: list[DrawnTable]
    planned: list[DrawnTable]
    images: Mapping[str, Any]


def _open(choice: Mapping[str, Any], options: EffectsOptions, models: object) -> EffectData:
    x, compared, data = options.treatment, options.compared, choice["data"]
    names = x, options.outcome, *options.adjust
    if not len({*compared}) == len(compared) == 2:
        raise InputError(
            f"{argument('values')}: expected two values such as dim,bright, got {options.values}"
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(
            f"`{twice[0]}` stands twice among {argument('treatment')}, {argument('outcome')} and "
            f"{argument('adjust')}; expected different names"
        )
    tables = planned_tables(Path(data)) if str(data).endswith(".parquet") else {}
    images: dict[str, Any] = {}
    if tables and choice["split"] is not None:
        raise InputError(f"{data}: a plan has no splits; leave {argument('split')} out")

    def open_set(name: str | None, rows: Any = None, limit: int | None = None) -> DrawnTable:
        if tables:
            table = tables[choose_name(data, "set", [*tables], name)]
            return table.take(choose_rows(len(table), Request(data, name, None, rows, limit)))
        view = open_data("factors", **{**choice, "set_name": name, "rows": rows, "limit": limit})
        if not hasattr(getattr(view, "named", None), "table"):
            raise InputError(f"{data}: has no interventional sets; expected frames, a pack or a plan")
        table = drawn_table(view.named.reader, view.named.numbers)
        images[table.name] = view
        return table

    observed = open_set(choice["set_name"], choice["rows"], choice["limit"])
    check_observed(observed, x, compared)
    wanted = x, compared[::-1], options.interventions.split(",") if options.interventions else ()
    arms, planned = interventional_tables(observed, *wanted, open_set), []
    if options.truth is not None:
        more = planned_tables(Path(options.truth))
        among = replace(observed, graphs={name: observed.graphs.get(name) for name in more})
        planned = interventional_tables(among, *wanted, more.__getitem__)
    named = DataIdentity(Path(data).stem, "plan", observed.name) if tables else images[observed.name].identity
    return EffectData(named, observed.ids, observed, arms, planned, images)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Columns of observed rows; see `doubly_robust_effect`. ``value`` numbers all values of the treatment."""

    outcome: Float64[ndarray, " n"]
    arm: Int[ndarray, " n"]
    covariates: Float64[ndarray, "n k"]
    value: Int[ndarray, " n"]
    recorded: Float64[ndarray, " n"] | None

    @property
    def propensity(self) -> Float64[ndarray, " n"]:
        return fit_propensity(self.value, self.covariates) if self.recorded is None else self.recorded

    def part(self, first: int, step: int, count: int) -> "_Rows":
        """Take every ``step``-th row."""
        parts: list[Any] = [one if one is None else one[first::step][:count] for one in vars(self).values()]
        return _Rows(*parts)


_SHIPPED: dict[str, Callable[[_Rows], EffectEstimate]] = {
    "naive": lambda rows: naive_effect(rows.outcome, rows.arm),
    "ipw": lambda rows: ipw_effect(rows.outcome, rows.arm, rows.propensity),
    "doubly robust": lambda r: doubly_robust_effect(r.outcome, r.arm, r.covariates, r.propensity),
}


def _score_effects(run: Run[EffectsOptions]) -> dict[str, Result]:
    """Score estimated effects of do(treatment = b) against do(treatment = a) on parts of the observed rows.

    The true effect is the difference of the mean outcomes of both interventional sets: of the plan with more
    draws where there is one. Replicate k of R has the rows k, k + R, k + 2 R, ... of the observed set, as
    many as the last has. Propensities are those that are recorded where the treatment depends on nothing but
    the columns that are adjusted for, else estimated in each replicate.

    Blind to: a bias within the standard error of the truth. Without a plan, the truth is the mean of the
    oracle's estimates, whose bias is 0.

    Returns:
        A result for each file, for naive, ipw and doubly robust estimates, and for the controls, see
        `score_estimates`. A replicate with fewer than two rows of an arm has no estimate, and its interval
        does not hold the truth; the other scores are of the rest.

    Raises:
        InputError: positivity fails, replicates are too small, a file has another number of rows, or the
            outcome is no number.
    """
    data, options = run.data, run.options
    count, size = options.replicates, len(data.observed) // options.replicates
    made = {name: _checked(f"estimates `{name}`", one.model) for name, one in run.models.items()}
    if wrong := [name for name, one in made.items() if len(one) != count]:
        expected = f"{count} rows, one for each replicate ({argument('replicates')})"
        raise InputError(f"estimates `{wrong[0]}`: expected {expected}, got {len(made[wrong[0]])}")
    if size < _LEAST:
        expected = f"at least {_LEAST} rows in each of {count} replicates ({argument('replicates')})"
        raise InputError(f"expected {expected}, got {size} of {len(data.observed)} observed rows")
    rows, notes = _tabulate(run, _outcome(run, data.observed))
    outcomes = [[_outcome(run, one) for one in arms] for arms in (data.arms, data.planned)]
    truths = [_difference(data.arms, outcomes[0])]
    truths += [_difference(data.planned, outcomes[1]) for _ in data.planned[:1]]
    told = [f"{value:.4g} (standard error {error:.2g})" for value, error in truths]
    sets = f"the interventional sets of {len(data.arms[1])} and {len(data.arms[0])} rows"
    notes.insert(0, f"true effect by {sets}: {'; by the plan: '.join(told)}")
    notes.insert(1, f"{count} replicates of {size} of {len(data.observed)} observed rows")
    parts = [rows.part(k, count, size) for k in range(count)]
    made |= {name: _estimates(function, parts) for name, function in _SHIPPED.items()}
    made["oracle"], made["zero effect"] = _oracle(outcomes[0], size, count, notes), np.zeros((count, 3))
    truth, error = truths[-1]
    if abs(truth - truths[0][0]) > _FAR * math.hypot(*(one[1] for one in truths)):
        notes.append("the truths of the interventional sets and of the plan disagree: do their mechanisms?")
    results: dict[str, Result] = {}
    for name, one in made.items():
        lost = int(np.isnan(one[:, 0]).sum())
        more = [f"{name}: no estimate in {lost} of {count} replicates"] * bool(lost)
        scores = score_estimates(one, truth, error)
        if error > _SMALL * scores["width"].value > 0:
            plan = f", or plan them ({argument('truth')})" * (options.outcome in data.observed.values)
            more.append(f"the truth is too uncertain for narrow intervals; intervene on more rows{plan}")
        details = {"truth": truth, "estimates": one.tolist(), "notes": [*notes, *more]}
        results[name] = StatisticResult(run.provenance(name), scores, {}, (), (), details)
    return results


def score_estimates(estimates: Estimates, truth: float, error: float = 0.0) -> dict[str, Score]:
    """Score the estimates of an effect on independent replicates.

    Args:
        estimates: effect, low and high of each replicate; nan where an estimator gives none.
        truth: the true effect.
        error: standard error of the truth, which the interval of the bias includes.

    Returns:
        ``rmse``; ``bias``, with a t interval over replicates; ``coverage``, the share of the intervals that
        hold the truth, with the exact interval of Clopper and Pearson 1934; and ``width``, the mean width.
        Intervals of a single replicate are nan, but that of the coverage.

    Example:
        >>> found = score_estimates(np.array([[1.0, 0.0, 2.0], [2.0, 1.5, 2.5]]), 1.0)
        >>> found["bias"].value, found["coverage"].value, found["width"].value
        (0.5, 0.5, 1.5)
    """
    count, groups = len(estimates), [str(row) for row in range(len(estimates))]
    (value, low, high), hits = estimates.T, int(((estimates[:, 1:] - truth) * [1, -1] <= 0).all(1).sum())
    mean, spread, known = clustered_mean((value - truth).tolist(), groups)
    mean = 0.0 if abs(mean) < _ROUNDING * max(np.nanmax(np.abs(value), initial=0), abs(truth)) else mean
    reach = float(stdtrit(known - 1, 0.975)) * math.hypot(spread, error) if known > 1 else math.nan
    square = mean_interval(np.square(value - truth).tolist(), groups).within(0, math.inf)
    least = float(betaincinv(hits, count - hits + 1, 0.025)) if hits else 0.0
    most = float(betaincinv(hits + 1, count - hits, 0.975)) if hits < count else 1.0
    return {
        "rmse": Score(*map(math.sqrt, (square.value, square.low, square.high))),
        "bias": Score(mean, mean - reach, mean + reach),
        "coverage": Score(hits / count, least, most),
        "width": mean_interval((high - low).tolist(), groups).within(0, math.inf),
    }


def _outcome(run: Run[EffectsOptions], table: DrawnTable) -> Float64[ndarray, " n"]:
    """Return the outcome of each row: a column, or a number of its image."""
    name, told = run.options.outcome, f"{argument('outcome')} {run.options.outcome}"
    if name not in table.values and name != "luminance" and ":" not in name:
        names = ", ".join(table.values) + ", luminance, or file.py:callable" * bool(run.data.images)
        raise InputError(f"{told}: expected one of: {names}{did_you_mean(name, table.values)}")
    if name in table.values:
        column = table.column(name)
        if column.dtype.kind not in "iuf":
            raise InputError(f"{told}: expected numbers, got {column[0]}")
        for row, one in zip(table.ids, column.tolist(), strict=True):
            run.fingerprint.add(row, one)
        return column.astype(np.float64)
    if table not in (run.data.observed, *run.data.arms) or not run.data.images:
        raise InputError(f"{told}: a plan has no images; expected a factor or variable")
    named = NamedModel(ModelIdentity(name, "shipped"), luminance, "linear")
    if name != "luminance":
        named = open_callable(None, name, run.device, "srgb")

    def numbers(images: Tensor) -> Tensor:
        return torch.as_tensor(named.model(images)).reshape(len(images), -1)

    parts, view = [], run.data.images[table.name]
    for batch in read_batches(view, run.batch_size, check_srgb_image, run.fingerprint, table.name):
        made = encode_images(replace(named, model=numbers), batch.stack(lambda image: image), run.device)
        if made.shape[1] > 1 or not bool(made.isfinite().all()):
            raise InputError(f"{told}: expected one finite number for each image")
        parts.append(made[:, 0].double().cpu())
    return np.asarray(torch.cat(parts).numpy())


def _difference(arms: Sequence[DrawnTable], outcomes: Sequence[ndarray]) -> tuple[float, float]:
    """Return the difference of the means of two sets, and its standard error over units."""
    one, other = (clustered_mean(y.tolist(), arm.units) for arm, y in zip(arms, outcomes, strict=True))
    error = math.hypot(one.error, other.error)
    if arms[0].units == arms[1].units:
        error = clustered_mean((outcomes[0] - outcomes[1]).tolist(), arms[0].units).error
    return one.mean - other.mean, error


def _tabulate(run: Run[EffectsOptions], outcome: Float64[ndarray, " n"]) -> tuple[_Rows, list[str]]:
    """Make the columns of the observed rows, and refuse those without positivity."""
    table, options = run.data.observed, run.options
    x, adjust, graph = options.treatment, options.adjust, table.graph
    arm = np.where(table.rows_with(x, options.compared[1]), 1, table.rows_with(x, options.compared[0]) - 1)
    known = graph is not None and {*graph.node(x).parents} <= {*adjust} and not options.estimate_propensities
    recorded = table.propensities.get(x) if known else None
    value = np.unique(table.column(x), return_inverse=True)[1]
    rows = _Rows(outcome, arm, table.numbers(adjust), value, recorded)
    if recorded is None:
        check_estimated_positivity(table, x, options.compared, adjust, rows.propensity)
    for row, numbers in zip(table.ids, np.column_stack([arm, rows.covariates]).tolist(), strict=True):
        run.fingerprint.add(row, tuple(numbers))
    origin = "estimated by logistic regression" if recorded is None else "recorded"
    notes = ["no causal graph tells whether the adjustment is valid"]
    if graph is not None:
        column = options.outcome if options.outcome in table.values else None
        fails = "fails" if column else "fails if all factors and variables change the image"
        notes = [f"adjustment {fails}: {one}" for one in graph.adjustment_faults(x, column, adjust)]
    return rows, [f"propensities: {origin}", *notes]


def _estimates(function: Callable[[_Rows], EffectEstimate], parts: Sequence[_Rows]) -> Estimates:
    """Estimate the effect in each replicate; nan where an arm has fewer than two rows."""
    enough = [np.bincount(part.arm + 1, minlength=3)[1:].min() > 1 for part in parts]
    found = [function(part) if one else [math.nan] * 4 for part, one in zip(parts, enough, strict=True)]
    return np.array(found)[:, [0, 2, 3]]


def _oracle(outcomes: Sequence[ndarray], size: int, count: int, notes: list[str]) -> Estimates:
    """Subtract the means of arms of different units, each of half a replicate, of the interventional sets."""
    shortest = min(map(len, outcomes))
    half = min(size, shortest) // 2
    fits = min(count, shortest // half)
    if fits < count or half < size // 2:
        notes.append(f"oracle: the interventional sets are enough for {fits} replicates of {2 * half} rows")
    arms = outcomes[0], np.roll(outcomes[1], 1)  # both sets may have the same units
    pairs = [np.concatenate([one[k::fits][:half] for one in arms]) for k in range(fits)]
    return np.array([naive_effect(pair, np.repeat([1, 0], half)) for pair in pairs])[:, [0, 2, 3]]


EFFECTS = Evaluation(
    name="effects",
    version=1,
    better={"rmse": "lower", "bias": "neither", "coverage": "neither", "width": "neither"},
    options=EffectsOptions,
    reads=Reading(open=_open),
    study=_score_effects,
    controls={**_SHIPPED, "oracle": _oracle, "zero effect": np.zeros},
    page="candlelight.evaluation.causal.causal_report:EFFECTS_PAGE",
    needs_models=False,
)
