"""Score models by named protocols: one, or every one that fits the data."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.intrinsic_options import PREDICTIONS, MAWOptions, ProtocolsOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.intrinsic.intrinsic_records import (
    DECOMPOSITIONS,
    ERRORS,
    REFLECTANCE_ALONE,
    REGIONS,
    WHDR,
    open_with_lights,
)
from candlelight.evaluation.intrinsic.lmse import geometric_mean
from candlelight.evaluation.intrinsic.protocol_records import (
    PROTOCOLS,
    Average,
    DecompositionRule,
    EvaluationProtocol,
    Preset,
    published_beside,
)
from candlelight.evaluation.run.evaluate import Measured, Run, collect_errors, score
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.intervals import distinct_groups, group_numbers, resampled_interval
from candlelight.evaluation.run.model_outputs import MissingLayer, has_parameter
from candlelight.evaluation.run.named_models import Decomposition, identify_models
from candlelight.evaluation.run.predictions import Predictions
from candlelight.evaluation.run.result import MeanResult, Provenance, Result, StatisticResult, fill_failures
from candlelight.evaluation.views import DecomposedImage, Decompositions
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.public.sintel import SINTEL_SPLITS

ALL = "all"
_PAGE = "candlelight.evaluation.intrinsic.protocol_report:PROTOCOLS_PAGE"


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


def _rules(records: Sequence[EvaluationProtocol]) -> Evaluation[Any]:
    """Make the evaluation of protocols that show a model the same images: each row is predicted once."""

    def losses(predicted: Decomposition, truth: GroundTruth, _: object) -> dict[str, Tensor]:
        """Compute the columns of all protocols, negated where higher values are better."""
        shading = truth.comparable(predicted.shading).double()
        found: dict[str, Tensor] = {}
        for record in records:
            rule, sign = cast(DecompositionRule, record.rule), -1 if record.better == "higher" else 1
            values = sign * rule.values(predicted.reflectance.double(), shading, truth)
            names = (f"{record.name} {column}" for column in record.columns)
            found |= dict(zip(names, values, strict=True))
        return found

    def summarise(run: Run[Any], measured: Measured) -> dict[str, Result]:
        found = collect_errors(run, measured)
        filled = fill_failures(found.errors, found.failed, found.worst)
        lost = any(flags.any() for flags in found.failed.values())
        settings = {"filled_among": sorted(filled)} if lost else {}
        results, start = {}, 0
        for record in records:
            end = start + len(record.columns)
            sign = -1 if record.better == "higher" else 1
            own = replace(run.evaluation, name=record.name, version=record.version, better=record.better)
            about = replace(run, evaluation=own)
            for name, table in filled.items():
                failed = tuple(run.data.ids[row] for row in np.flatnonzero(found.failed[name]).tolist())
                origin = about.provenance(name, **settings)
                values = sign * table[:, start:end].T
                made = _result(record, origin, values, run.data, failed)
                noted = made.details | run.notes(name)
                results[f"{record.name}: {name}"] = replace(made, details=noted)
            start = end
        return results

    names = ",".join(f"{record.name} {record.version}" for record in records)
    rule = cast(DecompositionRule, records[0].rule)
    return Evaluation(
        name=names,
        version=1,
        better="lower",
        options=ProtocolsOptions,
        reads=DECOMPOSITIONS if "shading" in rule.layers else REFLECTANCE_ALONE,
        measure=losses,
        summarise=summarise,
        facts=lambda view: {"explains": view.explains},
    )


def _result(
    record: EvaluationProtocol,
    about: Provenance,
    values: Float64[ndarray, "columns rows"],
    view: Decompositions,
    failed: tuple[str, ...],
) -> Result:
    columns = {name: tuple(row.tolist()) for name, row in zip(record.columns, values, strict=True)}
    average = cast(DecompositionRule, record.rule).average
    parts = _folds(view) if average == "folds" else view.groups
    if average == "arithmetic" or (average == "folds" and len(set(parts)) == 1):
        ranges = {name: protocol_ranges(name) for name in columns}
        return MeanResult(about, tuple(view.ids), tuple(view.groups), columns, failed, ranges=ranges)
    statistic = _averages(record.columns, values, average, parts)
    scores, replicates = resampled_interval(statistic, view.groups, seed=0)
    details = {"ids": view.ids, "columns": columns}
    return StatisticResult(about, scores, replicates, distinct_groups(view.groups), failed, details)


def _folds(view: Decompositions) -> tuple[str, ...]:
    """Name the fold of each row of MPI-Sintel; other data are one fold."""
    if view.identity.layout != "sintel":
        return ("",) * len(view.ids)
    fold_of = {scene: fold for fold in ("train", "test") for scene in SINTEL_SPLITS[fold]}
    return tuple(fold_of.get(name.partition("/")[0], "neither") for name in view.ids)


def protocol_ranges(column: str) -> tuple[float, float]:
    """Return the smallest and the largest possible value of a column of a protocol.

    Example:
        >>> protocol_ranges("ssim_shading"), protocol_ranges("rmse")
        ((-1.0, 1.0), (0.0, inf))
    """
    ranges = {**ERRORS, "dssim": (0.0, 1.0), "ssim": (-1.0, 1.0), "psnr": (-math.inf, math.inf)}
    return ranges.get(column.removesuffix("_reflectance").removesuffix("_shading"), (0.0, math.inf))


def _averages(
    names: Sequence[str],
    values: Float[ndarray, "columns rows"],
    average: Average,
    parts: Sequence[str],
) -> Callable[[Int[ndarray, " rows"]], dict[str, float]]:
    """Make the statistic of drawn rows: the mean of each column over rows where it is defined."""
    numbers = group_numbers(parts)

    def mean(column: Float[ndarray, " rows"], rows: Int[ndarray, " drawn"]) -> float:
        known = rows[~np.isnan(column[rows])]
        if not known.size:
            return math.nan
        if average == "geometric":
            return float(geometric_mean(torch.from_numpy(column[known])))
        # Rows weigh 1 / the size of their group, so a group that is drawn twice counts twice; folds do not.
        sizes = np.bincount(numbers[known if average == "folds" else ~np.isnan(column)])
        return float(np.average(column[known], weights=1 / sizes[numbers[known]]))

    def statistic(rows: Int[ndarray, " drawn"]) -> dict[str, float]:
        return {name: mean(column, rows) for name, column in zip(names, values, strict=True)}

    return statistic


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


# The content of each kind of view, by a member that only such a view has.
_CONTENTS = {"explains": ("decompositions",), "origin": ("comparisons", "labels"), "synthetic": ("regions",)}


def _open_views(
    choice: Mapping[str, Any], options: ProtocolsOptions, models: Mapping[str, Any]
) -> dict[str, Any]:
    """Open the data as each content that a protocol reads; data without it give the error instead.

    Data may be an opened view too, or views by content: "decompositions", "comparisons", "labels", "regions".
    """
    data, wanted = choice["data"], dict.fromkeys(record.reads for record in _chosen(options))
    if is_view(data):
        held = [content for member, some in _CONTENTS.items() if hasattr(data, member) for content in some]
        data = {content: data for content in held}
    if isinstance(data, Mapping):
        lacking = InputError(f"the data hold {' and '.join(data)} alone; give other data")
        return {content: data.get(content, lacking) for content in wanted}
    openers: dict[str, Callable[[], Any]] = {
        "decompositions": lambda: open_with_lights(choice, options, models, shading=False),
        "comparisons": lambda: WHDR.reads.open(choice, None, models),
        "labels": lambda: WHDR.reads.open(choice, None, models),
        "regions": lambda: REGIONS.open(choice, MAWOptions(options.longest), models),
    }
    views: dict[str, Any] = {}
    for content in wanted:
        try:
            views[content] = openers[content]()
        except InputError as error:
            views[content] = error
    return views


def _chosen(options: ProtocolsOptions) -> list[EvaluationProtocol]:
    """Find the named protocols, repeated or separated by commas, in the order of `PROTOCOLS`; none: all.

    Raises:
        InputError: no such protocol, or `all` beside a name.
    """
    names = [name.strip() for text in options.protocol for name in text.split(",") if name.strip()]
    if options.protocol and not names:
        raise InputError("--protocol: expected a name, names separated by commas, or all, got none")
    if ALL in names and len(set(names)) > 1:
        raise InputError(f"--protocol: expected all, or names, got {', '.join(names)}")
    wanted = [named_protocol(name) for name in names if name != ALL] or list(PROTOCOLS.values())
    return sorted({record.name: record for record in wanted}.values(), key=list(PROTOCOLS.values()).index)


def _score_protocols(run: Run[ProtocolsOptions]) -> dict[str, Result]:
    """Score models by protocols; protocols with the same input share the predictions.

    Failed predictions count as in `LMSE`; where higher values are better, as the lower of the score of an
    all-zero image and the lowest score of any model in any row.

    Returns:
        Results by ``PROTOCOL: MODEL``, or by model if one protocol is named; settings name protocol and
        version. The kind is a mean over rows, or a statistic where the mean over images is not arithmetic.
        The first result notes the protocols that do not fit the data.

    Raises:
        InputError: a named protocol, or every one, does not fit the data.
    """
    every = not [name for name in run.options.protocol if name.strip() != ALL]
    fitting: list[EvaluationProtocol] = []
    left_out = {}
    for record in _chosen(run.options):
        view = run.data[record.reads]
        reason = str(view) if isinstance(view, InputError) else _obstacle(record, view, run.models)
        if reason is None:
            fitting.append(record)
        elif every:
            left_out[record.name] = reason
        else:
            raise InputError(f"protocol `{record.name}`: {reason}")
    if not fitting:
        raise InputError(f"no protocol fits the data; {next(iter(left_out.values()))}")
    alike: dict[object, list[EvaluationProtocol]] = {}
    for record in fitting:
        rule = record.rule
        key = (rule.prepare, rule.layers) if isinstance(rule, DecompositionRule) else record.name
        alike.setdefault(key, []).append(record)
    found: dict[str, Result] = {}
    for records in alike.values():
        try:
            found |= _score_alike(run, run.data[records[0].reads], records)
        except MissingLayer as error:
            if not every:
                raise
            left_out |= {record.name: str(error) for record in records}
            fitting = [record for record in fitting if record not in records]
    if not fitting:
        raise InputError(f"no protocol fits the data; {next(iter(left_out.values()))}")
    names = [f"{record.name}: {name}" for record in fitting for name in run.models]
    ordered = {name: found[name] for name in names if name in found}
    if left_out:
        first = next(iter(ordered))
        notes = [f"left out: {name}: {reason}" for name, reason in left_out.items()]
        details = ordered[first].details
        ordered[first] = replace(
            ordered[first], details=details | {"notes": [*details.get("notes", ()), *notes]}
        )
    if len(fitting) == 1 and not every:
        return {name.removeprefix(f"{fitting[0].name}: "): result for name, result in ordered.items()}
    return ordered


def _score_alike(run: Run[Any], view: Any, records: Sequence[EvaluationProtocol]) -> dict[str, Result]:
    """Score by protocols that show a model the same images; name the protocol in the settings."""
    rule = records[0].rule
    if isinstance(rule, Preset):
        evaluation, options = rule
    else:
        evaluation, options, view = _rules(records), run.options, prepared_view(records[0], view)
    models = identify_models(run.models, [view], "linear", run.missing)
    own = replace(
        run, evaluation=evaluation, options=options, data=view, models=models, fingerprint=Fingerprint()
    )
    found = score(own)
    if isinstance(rule, Preset):
        found = {f"{records[0].name}: {name}": result for name, result in found.items()}
    by_name = {record.name: record for record in records}
    return {name: _named(by_name[name.partition(": ")[0]], result) for name, result in found.items()}


def _named(record: EvaluationProtocol, result: Result) -> Result:
    own = {"protocol": record.name, "protocol_version": record.version}
    about = replace(result.about, settings=result.about.settings | own)
    beside = {"published": found} if (found := published_beside(record, result)) else {}
    return replace(result, about=about, details=result.details | beside)


def _obstacle(record: EvaluationProtocol, view: Any, models: Mapping[str, Any]) -> str | None:
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
    rule = cast(DecompositionRule, record.rule)
    if rule.average == "folds" and "neither" in _folds(view):
        return "some scenes are in neither fold; give --split folds, train or test"
    if "shading" in rule.layers and not len(first.shading):
        return f"{view.identity.name} has no true shading"
    prepared = prepared_view(record, view)[0]
    truth = stack_ground_truth([prepared])
    zeros = torch.zeros_like(truth.image).double()
    try:
        rule.values(zeros, zeros, truth)
    except InputError as error:  # images smaller than a window
        return str(error)
    return None


EVERY_PROTOCOL = Evaluation(
    name="protocols",
    version=1,
    better="neither",
    options=ProtocolsOptions,
    reads=Reading(open=_open_views, files=PREDICTIONS),
    study=_score_protocols,
    page=_PAGE,
)
