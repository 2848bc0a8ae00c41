"""The evaluation of codes by the factors of images, with random and supervised codes beside."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.causal_options import CODES_FILES, CodesOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading, split_pairs
from candlelight.evaluation.causal.code_inputs import standardise
from candlelight.evaluation.causal.control_codes import SupervisedCodes, supervise
from candlelight.evaluation.causal.factor_data import (
    CounterfactualData,
    open_factors,
    open_with_counterfactuals,
)
from candlelight.evaluation.causal.factor_table import (
    Encoded,
    FactorTable,
    check_layers,
    compute_codes,
    encode_data,
)
from candlelight.evaluation.causal.irs import irs, irs_by_interventions
from candlelight.evaluation.causal.measure_codes import (
    CODE_METRICS,
    MOST_RESAMPLES,
    OFF_DIAGONAL,
    MeasuredCodes,
    broken_conditions,
    cut_at_bounds,
    measure_codes,
    metric_names,
    pack_measured,
    unpack_measured,
)
from candlelight.evaluation.causal.rendered_counterfactuals import pair_units
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.intervals import Score, distinct_groups, resampled_interval
from candlelight.evaluation.run.result import Result, StatisticResult, model_name, pool_seeds
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar

CODE_CONTROLS = ("random codes", "factors as codes", "supervised codes")
DCI_CODES = 10  # most codes for gradient boosting, which takes minutes
# Smaller tables are measured on the CPU: their intervals are hundreds of thousands of short kernels, which a
# GPU takes longer to start than a CPU to run.
SMALL_TABLE = 2**18  # numbers in a table of codes


def _open(choice: Mapping[str, Any], options: CodesOptions, models: Mapping[str, Any]) -> Any:
    """Open images with factors, or a table of factors, once it is known that the models have the layers."""
    check_layers(models, options.layers)
    causal = options.counterfactuals or isinstance(choice["data"], CounterfactualData)
    return (open_with_counterfactuals if causal else open_factors)(choice, options, models)


def _score_codes(run: Run[CodesOptions]) -> dict[str, Result]:
    """Compute the metrics of encoders, or of codes from another program, and of control codes.

    Continuous factors are cut into classes of equal width between their extremes, as in disentanglement_lib.
    Factors with a single value among the images are left out, because any code is robust to them.
    `docs/causal.md` defines the metrics; `CODE_METRICS` lists their conditions.

    IRS, unconfoundedness, MIG, modularity, minimality, MCC, R2, T-MEX and the blocks' least squares of more
    than `SMALL_TABLE` numbers are computed on the device. Support vector machines (SAP of classes), logistic
    regressions (explicitness, InfoE), ridge regressions (DCI-ES), boosted trees (DCI), networks (blocks) and
    the assignment of MCC are those of libraries for the CPU. With counterfactuals of the images, ``irs_do``
    is computed as well, of random codes too.

    Blind to: everything that the metrics are blind to, and the selection of the images. On confounded images
    the scores describe the confounded joint distribution.

    Returns:
        A result for each encoder and control, higher is better, the main score ``irs``; and one for each
        method of several seeds, see `pool_seeds`. A score is nan if it is undefined. Intervals are over
        groups of images. Notes name the conditions of metrics that the data break, and metrics that cannot be
        computed.

    Raises:
        InputError: an encoder has the name of a control, a factor is unknown, fewer than two factors vary, a
            factor has another value in each image, or codes are not finite or differ in number.
    """
    controls = run.options.controls
    if controls and (taken := [name for name in run.models if name in CODE_CONTROLS]):
        raise InputError(f"a control is named `{taken[0]}`; give the encoder another name, or no controls")
    given = metric_names(run.options.metrics)
    names = ("irs", *(name for name in CODE_METRICS if name in given and name != "irs"))
    if run.options.blocks and "blocks" not in names:
        raise InputError(f"{argument('blocks')} is for {argument('metrics')} blocks alone")
    data, robust = run.data, dict[str, MeasuredCodes]()
    if isinstance(data, CounterfactualData):
        encoded = encode_data(replace(run, data=data.images), data.counterfactuals.known_ids)
        robust = _score_interventions(encoded, data)
    else:
        encoded = encode_data(run)
    notes = [_class_sizes_note(encoded.table)]
    if controls:
        encoded = _with_controls(encoded, supervise(encoded, notes))
    notes += broken_conditions(encoded.table, max(rows.shape[1] for rows in encoded.codes.values()), names)
    return with_pooled([_score(encoded, name, names, notes, robust.get(name)) for name in encoded.codes])


def with_pooled(
    results: Sequence[StatisticResult], cut: Callable[[str, Score], Score] = cut_at_bounds
) -> dict[str, Result]:
    """Name results, and add those of methods of several seeds, with intervals within the bounds of scores."""
    pooled = [
        replace(one, scores={name: cut(name, score) for name, score in one.scores.items()})
        for one in pool_seeds(results)
    ]
    return {model_name(one): one for one in (*results, *pooled)}


def _with_controls(encoded: Encoded, supervised: SupervisedCodes | None) -> Encoded:
    """Add the codes of `CODE_CONTROLS`, all of one scale, because some metrics depend on it."""
    run, table = encoded.run, encoded.table
    width = next(iter(encoded.codes.values())).shape[1]
    draws = torch.Generator().manual_seed(run.options.seed)
    noise = torch.randn([len(run.data), width], generator=draws, dtype=torch.float64)
    values = [noise, standardise(table.values)]
    if supervised is not None:
        values.append(standardise(supervised.codes, table.values))
    added = {name: rows.to(run.device) for name, rows in zip(CODE_CONTROLS, values, strict=False)}
    models = {name: NamedModel(ModelIdentity(name, "control"), None, "srgb") for name in added}
    return replace(encoded, run=replace(run, models=run.models | models), codes=encoded.codes | added)


def _score(
    encoded: Encoded, name: str, metrics: Sequence[str], notes: Sequence[str], robust: MeasuredCodes | None
) -> StatisticResult:
    """Compute all scores of one encoder; those of interventions are given."""
    run, codes = encoded.run, encoded.codes[name]
    device = run.device if codes.numel() > SMALL_TABLE else "cpu"
    table, codes = on_device(encoded.table, device), codes.to(device)
    measured = _measure(run, name, codes, table, metrics)
    measured |= {} if robust is None else {"irs_do": robust}
    failures = [f"{name}: no {metric}: {one.failure}" for metric, one in measured.items() if one.failure]
    scores = {label: score for one in measured.values() for label, score in one.scores.items()}
    about = run.provenance(name, factors=list(table.names), metrics=list(metrics))
    if "blocks" in metrics:
        if name not in CODE_CONTROLS and (found := measured["blocks"].matrices):
            failures.append(_blocks_note(name, found["blocks"], table.names))
        lower = {label: label.endswith(OFF_DIAGONAL) for label in scores}
        about = replace(about, better={label: "lower" if low else "higher" for label, low in lower.items()})
    return StatisticResult(
        about,
        {label: cut_at_bounds(label, score) for label, score in scores.items()},
        {label: drawn for one in measured.values() for label, drawn in one.replicates.items()},
        distinct_groups(run.data.groups),
        (),
        _describe(codes, table, measured) | {"notes": [*notes, *failures]},
    )


def _measure(
    run: Run[CodesOptions],
    name: str,
    codes: Float[Tensor, "images codes"],
    table: FactorTable,
    metrics: Sequence[str],
) -> dict[str, MeasuredCodes]:
    """Compute each metric of one encoder."""
    found = {}
    options = asdict(run.options) | {"factors": table.names}
    key = {part: options[part] for part in ("factors", "bins", "splits", "seed")}
    key |= {"codes": hashlib.sha256(codes.cpu().contiguous().numpy().tobytes()).hexdigest()}
    key |= {
        "data": run.fingerprint.describe(run.data),
        "device": run.device,
        "version": run.evaluation.version,
    }
    blocks = {} if name in CODE_CONTROLS else given_blocks(run.options.blocks, table.names)
    for metric in progress_bar(metrics, desc=name, unit="metric"):
        if metric == "dci" and codes.shape[1] > DCI_CODES:
            found[metric] = MeasuredCodes({}, {}, {}, f"{codes.shape[1]} codes, more than {DCI_CODES}")
            continue

        own = {"blocks": blocks} if metric == "blocks" and blocks else {}

        def compute(metric: str = metric, own: Mapping[str, Any] = own) -> dict[str, Tensor]:
            splits, seed = run.options.splits, run.options.seed
            return pack_measured(measure_codes(codes, table, run.data.groups, metric, splits, seed, **own))

        found[metric] = unpack_measured(run.steps.get_or_compute({**key, "metric": metric, **own}, compute))
    return found


def _score_interventions(encoded: Encoded, data: CounterfactualData) -> dict[str, MeasuredCodes]:
    """Compute `irs_by_interventions` of encoders and of random codes: ``irs_do``, with intervals over groups.

    Raises:
        InputError: see `pair_units`.
    """
    run, seed = encoded.run, encoded.run.options.seed
    pairs = pair_units(data.images, data.counterfactuals, encoded.table.names)
    rows, places, changed = (part.to(run.device) for part in pairs)
    others = replace(run, data=data.counterfactuals, fingerprint=Fingerprint())
    moved = compute_codes(others, data.images.known_ids)
    both = {name: (encoded.codes[name], moved[name]) for name in moved}
    draws = torch.Generator().manual_seed(seed)
    own, other = (torch.randn(codes.shape, generator=draws).to(codes) for codes in next(iter(both.values())))
    both[CODE_CONTROLS[0]] = own, other
    groups = [data.images.groups[row] for row in rows.tolist()]
    given = {name: (own, other[places], rows, changed) for name, (own, other) in both.items()}
    return {name: _of_interventions(some, groups, seed) for name, some in given.items()}


def _of_interventions(given: tuple[Tensor, ...], groups: list[str], seed: int) -> MeasuredCodes:
    """Compute the score of pairs, its interval, and the matrix with a row for each code."""

    def statistic(some: Int[ndarray, " pairs"]) -> Mapping[str, float]:
        chosen = torch.from_numpy(some).to(given[0].device)
        return {"irs_do": float(irs_by_interventions(given[0], *(part[chosen] for part in given[1:])).score)}

    try:
        found = irs_by_interventions(*given)
        scores, replicates = resampled_interval(statistic, groups, seed, MOST_RESAMPLES, repeats=False)
    except InputError as error:
        return MeasuredCodes({}, {}, {}, str(error))
    empty = found.matrix.new_full([given[0].shape[1], found.matrix.shape[1]], torch.nan)
    matrix = empty.index_copy(0, found.codes, found.matrix)
    return MeasuredCodes(scores, replicates, {"irs_do": matrix.tolist()})


def _blocks_note(name: str, shares: Sequence[Sequence[float]], factors: Sequence[str]) -> str:
    """Name the codes of each block: those that most of the fits put into it.

    Example:
        >>> _blocks_note("vae", [[0.0, 0.4], [0.8, 0.2], [1.0, 0.0]], ["color", "size"])
        'vae: codes of the blocks: color 1 2; no code for size, which counts as 0'
    """
    members = {
        factor: [str(code) for code, share in enumerate(column) if share > 0.5]
        for factor, column in zip(factors, zip(*shares, strict=True), strict=True)
    }
    held = ", ".join(" ".join((factor, *codes)) for factor, codes in members.items() if codes)
    none = ", ".join(factor for factor, codes in members.items() if not codes)
    return (
        f"{name}: codes of the blocks: {held or 'none'}"
        + f"; no code for {none}, which counts as 0" * bool(none)
    )


def given_blocks(pairs: Sequence[str], names: Sequence[str]) -> dict[int, list[int]]:
    """Read FACTOR=CODE,... as codes of the columns of factors.

    Raises:
        InputError: a factor is unknown or given twice, or codes are no numbers.

    Example:
        >>> given_blocks(["size=0,2"], ["shape", "size"])
        {1: [0, 2]}
    """
    found = {}
    for name, text in split_pairs(pairs, argument("blocks")).items():
        if name not in names or not all(part.isdecimal() for part in text.split(",")):
            wanted = f"a factor ({', '.join(names)}) and numbers of codes, such as {names[0]}=0,1"
            raise InputError(f"{argument('blocks')}: expected {wanted}, got {name}={text}")
        found[names.index(name)] = [*map(int, text.split(","))]
    return found


def _describe(
    codes: Float[Tensor, "images codes"], table: FactorTable, measured: Mapping[str, MeasuredCodes]
) -> dict[str, Any]:
    """Collect the matrices of codes and factors, and the parents and weights of IRS."""
    found = irs(codes, table.classes)
    return {
        "codes": found.codes.tolist(),
        "matrix": found.matrix.tolist(),
        "parents": found.parents.tolist(),
        "weights": found.weights.tolist(),
        "class_sizes": [list(sizes) for sizes in found.class_sizes],
        "matrices": {name: matrix for one in measured.values() for name, matrix in one.matrices.items()},
    }


def _class_sizes_note(table: FactorTable) -> str:
    """Tell how many images have each value of a factor, or lie in each of its bins."""
    sizes = [torch.bincount(classes).tolist() for classes in table.classes.T]
    ranges = [
        f"{name} {min(some)}" + (f" to {max(some)}" if max(some) > min(some) else "")
        for name, some in zip(table.names, sizes, strict=True)
    ]
    return f"images with each value: {', '.join(ranges)}"


CODES = Evaluation(
    name="codes",
    version=7,
    better="higher",
    options=CodesOptions,
    reads=Reading(open=_open, space="srgb", files=CODES_FILES),
    study=_score_codes,
    page="candlelight.evaluation.causal.causal_report:CODES_PAGE",
)
