"""Score models by named protocols: one, or every one that fits the data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch

from candlelight.evaluation.inputs.ground_truth import stack_ground_truth
from candlelight.evaluation.inputs.predictions import MissingResults, Predictions
from candlelight.evaluation.intrinsic.score_intrinsic import DecompositionModel
from candlelight.evaluation.protocols.evaluation_protocol import DecompositionRule, EvaluationProtocol
from candlelight.evaluation.protocols.protocol_records import PROTOCOLS
from candlelight.evaluation.protocols.score_rules import prepared_view, score_rules
from candlelight.evaluation.results.result import Result
from candlelight.evaluation.running.finished_steps import FinishedSteps
from candlelight.evaluation.running.model_outputs import has_parameter
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.views import View

# A member that only such a view has, and the function that opens it.
_VIEWS = {
    "decompositions": ("explains", "open_decompositions"),
    "comparisons": ("origin", "open_judgements"),
    "labels": ("origin", "open_judgements"),
    "regions": ("synthetic", "open_regions"),
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
        data: the view that the protocol reads, of `candlelight.loaders.views`: decompositions, judgements or
            regions.
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
        >>> from candlelight.evaluation.models.baselines import BASELINES
        >>> from candlelight.loaders.views import DataIdentity, DecomposedImage
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
    member, opener = _VIEWS[record.reads]
    if not hasattr(data, member):
        raise InputError(
            f"protocol `{protocol}` reads {record.reads}; expected a view of "
            f"`candlelight.loaders.views.{opener}`, got {type(data).__name__}"
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
