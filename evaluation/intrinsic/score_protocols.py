"""Score models by named protocols: one, or every one that fits the data, and compare their orders."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, groupby, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from scipy.stats import rankdata
from torch import Tensor

from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.intrinsic.lmse import geometric_mean
from candlelight.evaluation.intrinsic.protocol_records import (
    PROTOCOLS,
    Average,
    DecompositionRule,
    EvaluationProtocol,
    main_score,
)
from candlelight.evaluation.intrinsic.score_intrinsic import (
    DecompositionModel,
    RowErrors,
    collect_errors,
    score_ranges,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Fingerprint, make_provenance
from candlelight.evaluation.run.intervals import distinct_groups, group_numbers, resampled_interval
from candlelight.evaluation.run.model_outputs import has_parameter
from candlelight.evaluation.run.named_models import identify_models, predict_decomposition
from candlelight.evaluation.run.predictions import MissingResults, Predictions
from candlelight.evaluation.run.result import (
    MeanResult,
    Provenance,
    Result,
    StatisticResult,
    fill_failures,
)
from candlelight.evaluation.run.steps import FinishedSteps, Step, run_batches
from candlelight.evaluation.views import DecomposedImage, Decompositions, View
from candlelight.loaders.errors import InputError, did_you_mean


class PreparedRows:
    """Rows of a view, each changed by a function as it is read; the members of `Decompositions`.

    Args:
        rows: the view.
        prepare: makes the row that is shown to a model and scored.
    """

    def __init__(self, rows: Decompositions, prepare: Callable[[DecomposedImage], DecomposedImage]) -> None:
        self._rows, self._prepare = rows, prepare
        self.identity, self.explains = rows.identity, rows.explains
        self.ids, self.groups = rows.ids, rows.groups

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data; listing them may take long."""
        return self._rows.known_ids

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._rows)

    def __getitem__(self, row: int, /) -> DecomposedImage:
        """Read and prepare one row."""
        return self._prepare(self._rows[row])


def prepared_view(record: EvaluationProtocol, view: Decompositions) -> Decompositions:
    """Prepare the rows of a view as a protocol does, unless its reader has done so.

    Args:
        record: a protocol that reads decompositions.
        view: the rows.
    """
    rule = cast(DecompositionRule, record.rule)
    if rule.prepare is None or view.identity.layout in rule.prepared:
        return view
    return PreparedRows(view, rule.prepare)


def score_rules(
    models: Mapping[str, Any],
    data: Decompositions,
    records: Sequence[EvaluationProtocol],
    *,
    device: str,
    batch_size: int,
    missing: MissingResults,
    steps: FinishedSteps | None,
) -> dict[str, dict[str, Result]]:
    """Predict each row once, and compute the columns of all protocols.

    Args:
        models: see `candlelight.evaluation.intrinsic.score_protocols.score_protocol`.
        data: the rows as they are.
        records: protocols with the same preparation.
        device: torch device of the models.
        batch_size: images per call of a model.
        missing: see `candlelight.evaluation.intrinsic.score_protocols.score_protocol`.
        steps: keeps finished batches.

    Returns:
        Results by protocol and model.
    """
    view = prepared_view(records[0], data)
    named_models, fingerprint = identify_models(models, [view], "linear", missing), Fingerprint()
    batches = run_batches(
        named_models,
        view,
        lambda batch: stack_ground_truth(batch.items),
        partial(_step, records),
        fingerprint=fingerprint,
        settings={"protocols": [(record.name, record.version) for record in records]},
        device=device,
        batch_size=batch_size,
        steps=steps,
    )
    found = collect_errors(batches, partial(_zero_losses, records))
    described = fingerprint.describe(view)
    settings: dict[str, Any] = {"explains": data.explains, "missing": missing}
    if any(flags.any() for flags in found.failed.values()):
        settings["filled_among"] = sorted(named_models)
    filled = fill_failures(found.errors, found.failed, found.zeros)
    results: dict[str, dict[str, Result]] = {}
    start = 0
    for record in records:
        end = start + len(record.columns)
        sign = -1 if record.better == "higher" else 1
        results[record.name] = {
            name: _result(
                record,
                make_provenance(record.name, record.version, record.better, named, described, settings),
                sign * filled[name][:, start:end].T,
                view,
                _failed_ids(found, name, view),
            )
            for name, named in named_models.items()
        }
        start = end
    return results


def _step(
    records: Sequence[EvaluationProtocol],
    named: NamedModel,
    ids: Sequence[str],
    truth: GroundTruth,
    device: str,
) -> Step:
    reflectance, shading, failed = predict_decomposition(
        named, ids, truth.image, truth.mask, device, truth.lights
    )
    return {"errors": _losses(records, reflectance, shading, truth), "failed": failed}


@torch.no_grad()
def _losses(
    records: Sequence[EvaluationProtocol], reflectance: Tensor, shading: Tensor, truth: GroundTruth
) -> Float64[Tensor, "rows columns"]:
    """Compute the columns of all protocols, negated where higher values are better."""
    parts = []
    shading = truth.comparable(shading)
    for record in records:
        values = cast(DecompositionRule, record.rule).values(reflectance.double(), shading.double(), truth)
        parts.append(-values if record.better == "higher" else values)
    return torch.cat(parts).double().T.contiguous()


def _zero_losses(records: Sequence[EvaluationProtocol], truth: GroundTruth) -> Tensor:
    zeros = torch.zeros_like(truth.image)
    return _losses(records, zeros, zeros, truth)


def _failed_ids(found: RowErrors, name: str, view: Decompositions) -> tuple[str, ...]:
    return tuple(view.ids[row] for row in np.flatnonzero(found.failed[name]).tolist())


def _result(
    record: EvaluationProtocol,
    about: Provenance,
    values: Float64[ndarray, "columns rows"],
    view: Decompositions,
    failed: tuple[str, ...],
) -> Result:
    columns = {name: tuple(row.tolist()) for name, row in zip(record.columns, values, strict=True)}
    average = cast(DecompositionRule, record.rule).average
    if average == "arithmetic":
        return MeanResult(
            about, tuple(view.ids), tuple(view.groups), columns, failed, ranges=score_ranges(columns)
        )
    statistic = _averages(record.columns, values, average, view.groups)
    scores, replicates = resampled_interval(statistic, view.groups, seed=0)
    details = {"ids": view.ids, "columns": columns}
    return StatisticResult(about, scores, replicates, distinct_groups(view.groups), failed, details)


def _averages(
    names: Sequence[str],
    values: Float[ndarray, "columns rows"],
    average: Average,
    groups: Sequence[str],
) -> Callable[[Int[ndarray, " rows"]], dict[str, float]]:
    """Make the statistic of drawn rows: the mean of each column over rows where it is defined."""
    numbers = group_numbers(groups)

    def mean(column: Float[ndarray, " rows"], rows: Int[ndarray, " drawn"]) -> float:
        known = rows[~np.isnan(column[rows])]
        if not known.size:
            return math.nan
        if average == "geometric":
            return float(geometric_mean(torch.from_numpy(column[known])))
        # Rows weigh 1 / the size of their group, so a group that is drawn twice counts twice.
        sizes = np.bincount(numbers[~np.isnan(column)])
        return float(np.average(column[known], weights=1 / sizes[numbers[known]]))

    def statistic(rows: Int[ndarray, " drawn"]) -> dict[str, float]:
        return {name: mean(column, rows) for name, column in zip(names, values, strict=True)}

    return statistic


# A member that only such a view has, and the kind of `open_data` that has it.
_VIEWS = {
    "decompositions": ("explains", "decompositions"),
    "comparisons": ("origin", "judgements"),
    "labels": ("origin", "judgements"),
    "regions": ("synthetic", "regions"),
}


class ProtocolRun(NamedTuple):
    """Results by protocol and model, and the reason why each other protocol does not fit the data."""

    results: dict[str, dict[str, Result]]
    left_out: dict[str, str]


def named_protocol(name: str) -> EvaluationProtocol:
    """Return a protocol by its name.

    Raises:
        InputError: no such protocol.

    Example:
        >>> named_protocol("mit-gross")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: protocol `mit-gross` is not known; expected one of \
mit-grosse, ...; did you mean `mit-grosse`?
    """
    if name not in PROTOCOLS:
        near = did_you_mean(name, PROTOCOLS)
        raise InputError(f"protocol `{name}` is not known; expected one of {', '.join(PROTOCOLS)}{near}")
    return PROTOCOLS[name]


def score_protocol(
    models: Mapping[str, DecompositionModel],
    data: Any,
    protocol: str,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> dict[str, Result]:
    """Score models by a protocol.

    Failed predictions count as in `candlelight.evaluation.intrinsic.score_intrinsic`; where higher values are
    better, as the lower of the score of an all-zero image and the lowest score of any model in any row.

    Args:
        models: see `candlelight.evaluation.intrinsic.score_intrinsic`.
        data: the view that the protocol reads, of `candlelight.evaluation.views`: decompositions, judgements
            or regions.
        protocol: name of a protocol in `PROTOCOLS`.
        device: torch device of the models.
        batch_size: images per call of a model.
        missing: "error" refuses predictions without a file for an id; "fail" counts the id as failed.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each model, whose settings name the protocol and its version. Its first score is the
        main column of the protocol. The kind is a mean over rows, or a statistic where the mean over images
        is not arithmetic.

    Raises:
        InputError: no such protocol, it does not fit the data, no models, or an output is not a
            decomposition.

    Example:
        >>> from candlelight.evaluation.models.retinex import BASELINES
        >>> from candlelight.evaluation.views import DataIdentity, DecomposedImage
        >>> class Noise:
        ...     identity, explains = DataIdentity("noise", "memory"), "image"
        ...     ids, groups, known_ids = ("a",), ("a",), frozenset("a")
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         draws = torch.rand(2, 3, 20, 20, generator=torch.Generator().manual_seed(0))
        ...         return DecomposedImage(draws[0] * draws[1], *draws, torch.ones(20, 20).bool())
        >>> for name in ("mit-grosse", "arap-ordinal"):
        ...     results = score_protocol(BASELINES, Noise(), name)
        ...     print(name, {model: round(result.score, 3) for model, result in results.items()})
        mit-grosse {'constant-reflectance': 0.108, 'constant-shading': 0.113}
        arap-ordinal {'constant-reflectance': 0.101, 'constant-shading': 0.013}
    """
    record = named_protocol(protocol)
    member, kind = _VIEWS[record.reads]
    if not hasattr(data, member):
        raise InputError(
            f"protocol `{protocol}` reads {record.reads}; expected a view of "
            f'`open_data("{kind}", ...)`, got {type(data).__name__}'
        )
    if reason := _obstacle(record, data, models):
        raise InputError(f"protocol `{protocol}`: {reason}")
    run = {"device": device, "batch_size": batch_size, "missing": missing, "steps": steps}
    return _score_alike(models, data, [record], run)[protocol]


def score_protocols(
    models: Mapping[str, DecompositionModel],
    views: Mapping[str, View[Any] | InputError],
    protocols: Iterable[str] | None = None,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> ProtocolRun:
    """Score models by several protocols; protocols with the same input share the predictions.

    Args:
        models: see `score_protocol`.
        views: by what they hold ("decompositions", "comparisons", "labels", "regions"), the view, or the
            error that opening it raised.
        protocols: names; all must fit the data. None means all protocols, without those that do not fit.
        device: see `score_protocol`.
        batch_size: see `score_protocol`.
        missing: see `score_protocol`.
        steps: see `score_protocol`.

    Returns:
        The results in the order of `PROTOCOLS`, and the reasons of the protocols that were left out.

    Raises:
        InputError: no such protocol, a named one or every one does not fit the data, or see
            `score_protocol`.
    """
    wanted = [named_protocol(name) for name in (PROTOCOLS if protocols is None else protocols)]
    fitting: list[EvaluationProtocol] = []
    left_out: dict[str, str] = {}
    for record in sorted(wanted, key=list(PROTOCOLS.values()).index):
        view = views[record.reads]
        reason = str(view) if isinstance(view, InputError) else _obstacle(record, view, models)
        if reason is None:
            fitting.append(record)
        elif protocols is None:
            left_out[record.name] = reason
        else:
            raise InputError(f"protocol `{record.name}`: {reason}")
    if not fitting:
        raise InputError(f"no protocol fits the data; {next(iter(left_out.values()))}")
    run = {"device": device, "batch_size": batch_size, "missing": missing, "steps": steps}
    alike: dict[object, list[EvaluationProtocol]] = {}
    for record in fitting:
        rule = record.rule
        alike.setdefault(rule.prepare if isinstance(rule, DecompositionRule) else record.name, []).append(
            record
        )
    found: dict[str, dict[str, Result]] = {}
    for records in alike.values():
        found |= _score_alike(models, views[records[0].reads], records, run)
    return ProtocolRun({record.name: found[record.name] for record in fitting}, left_out)


def _score_alike(
    models: Mapping[str, DecompositionModel],
    view: Any,
    records: Sequence[EvaluationProtocol],
    run: Mapping[str, Any],
) -> dict[str, dict[str, Result]]:
    """Score by protocols that show a model the same images; name the protocol in the settings."""
    rule = records[0].rule
    if isinstance(rule, DecompositionRule):
        found = score_rules(models, view, records, **run)
    else:
        found = {records[0].name: rule(models, view, **run)}
    return {
        record.name: {name: _named(record, result) for name, result in found[record.name].items()}
        for record in records
    }


def _named(record: EvaluationProtocol, result: Result) -> Result:
    own = {"protocol": record.name, "protocol_version": record.version}
    about = replace(result.about, settings=result.about.settings | own)
    return replace(result, about=about)


def _obstacle(record: EvaluationProtocol, view: Any, models: Mapping[str, DecompositionModel]) -> str | None:
    """Tell why data cannot carry a protocol, from the first row that shows it; None if they can."""
    first = view[0] if len(view) else None
    if first is None:
        return f"`{view.identity.name}` has no rows"
    bare: dict[str, Any] = {name: getattr(model, "model", model) for name, model in models.items()}
    files = [name for name, model in bare.items() if isinstance(model, Predictions)]
    needy = [name for name, model in bare.items() if name not in files and has_parameter(model, "lights")]
    if needy and (record.reads != "decompositions" or prepared_view(record, view)[0].lights is None):
        return f"`{needy[0]}` takes images under several lights, and a model is shown one image here"
    if record.reads in ("comparisons", "labels"):
        return None if getattr(first, record.reads) is not None else f"the data have no {record.reads}"
    if record.reads == "regions":
        if first.colours is None:
            return "the regions of the data have no true colours"
        found = any(view[row].regions.any() for row in range(len(view)))
        return None if found else "the data have no regions of one material"
    prepared = prepared_view(record, view)[0]
    rule = cast(DecompositionRule, record.rule)
    if files and prepared.mask.shape != first.mask.shape:
        size = "x".join(map(str, prepared.mask.shape))
        return (
            f"images are resized to {size} (height x width), and the files of `{files[0]}` have the size of "
            "the data"
        )
    truth = stack_ground_truth([prepared])
    zeros = torch.zeros_like(truth.image).double()
    try:
        rule.values(zeros, zeros, truth)
    except InputError as error:  # images smaller than a window
        return str(error)
    return None


ProtocolResults = Mapping[str, Mapping[str, Result]]


def model_ranks(protocol: str, results: Mapping[str, Result]) -> dict[str, int]:
    """Rank models by the main score of a protocol: 1 is best, equal scores share the best rank.

    Scores are equal that agree in six digits, so that rounding decides nothing: predictions which differ only
    in their scale have equal scores of every protocol that aligns them.

    Args:
        protocol: name of the protocol.
        results: by model.

    Returns:
        The rank of each model with a defined score.
    """
    record = PROTOCOLS[protocol]
    scores = {name: main_score(result, record) for name, result in results.items()}
    known = {name: float(f"{score:.6g}") for name, score in scores.items() if not math.isnan(score)}
    sign = -1 if record.better == "higher" else 1
    ranks = rankdata([sign * score for score in known.values()], method="min")
    return dict(zip(known, map(int, ranks), strict=True))


def protocol_rows(results: ProtocolResults) -> list[tuple[str, ...]]:
    """Make the cells of a table: for each protocol, the main score and its direction, and each model's.

    A cell of a model is its score and, in brackets, its rank; the last row has the ranks of all protocols.

    Args:
        results: by protocol and model.
    """
    models = list(dict.fromkeys(name for some in results.values() for name in some))
    rows: list[tuple[str, ...]] = [("protocol", "score", *models)]
    places: dict[str, list[int]] = {name: [] for name in models}
    for protocol, some in results.items():
        record, ranks = PROTOCOLS[protocol], model_ranks(protocol, some)
        cells = []
        for name in models:
            value = main_score(some[name], record) if name in some else math.nan
            cells.append(f"{value:.4g} ({ranks[name]})" if name in ranks else "undefined")
            places[name] += [ranks[name]] if name in ranks else []
        rows.append((protocol, f"{record.columns[0]} {'↓' if record.better == 'lower' else '↑'}", *cells))
    return [*rows, ("ranks", "", *(_reach(places[name]) for name in models))]


def changed_orders(results: ProtocolResults) -> list[str]:
    """Say for each pair of neighbouring protocols in which two models change places how they are ordered.

    Args:
        results: by protocol and model.

    Returns:
        A line for each such pair; equal models are joined by "=".
    """
    lines = []
    ranks = {protocol: model_ranks(protocol, some) for protocol, some in results.items()}
    for one, other in pairwise(ranks):
        shared = sorted(ranks[one].keys() & ranks[other].keys())
        moved = (
            (ranks[one][a] - ranks[one][b]) * (ranks[other][a] - ranks[other][b])
            for a, b in combinations(shared, 2)
        )
        if any(product < 0 for product in moved):
            lines.append(f"{one}: {_order(ranks[one])}; {other}: {_order(ranks[other])}")
    return lines


def _reach(places: list[int]) -> str:
    if not places:
        return "undefined"
    low, high = min(places), max(places)
    return str(low) if low == high else f"{low} to {high}"


def _order(ranks: Mapping[str, int]) -> str:
    """Write models from the best to the worst."""
    ordered = sorted(ranks, key=ranks.__getitem__)
    return ", ".join(" = ".join(equal) for _, equal in groupby(ordered, key=ranks.__getitem__))
