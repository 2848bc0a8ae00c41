"""The metrics of codes by name, with their intervals, and the conditions that data break."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.block_scores import (
    BlockRegression,
    block_matrices,
    diagonal_scores,
    find_blocks,
)
from candlelight.evaluation.causal.dci import DCI, dci, dci_es, dci_fast
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.information import entropy, mutual_information_matrix
from candlelight.evaluation.causal.information_scores import (
    infomec,
    mig,
    minimality_and_sufficiency,
    modularity,
)
from candlelight.evaluation.causal.irs import SelectionCompat, irs, unconfoundedness
from candlelight.evaluation.causal.prediction_scores import block_r2, explicitness, mcc, sap, t_mex
from candlelight.evaluation.run.intervals import (
    LEAST_GROUPS,
    Score,
    resampled_interval,
    split_groups,
    split_interval,
)
from candlelight.loaders.errors import InputError

# A fit worse than a constant, and a ranking worse than chance, have negative scores. So has a code with gross
# errors in IRS: its deviation from the mean of a class may be twice the largest one from its own mean.
_LEAST = {
    "irs": -1.0,
    "explicitness": -1.0,
    "dci_es(explicitness)": -1.0,
    "r2(linear)": -math.inf,
    "r2(kernel)": -math.inf,
}


def cut_at_bounds(name: str, score: Score) -> Score:
    """Cut an interval at the smallest and the largest value that a causal score can have.

    Args:
        name: name of the score, such as "r2(linear)".
        score: a score with an interval that may exceed its range.

    Example:
        >>> cut_at_bounds("explicitness", Score(-0.5, -2.0, 1.2))
        Score(value=-0.5, low=-1.0, high=1.0)
        >>> cut_at_bounds("rendered_counterfactual(1)", Score(-2.5, -4.0, 1.2))
        Score(value=-2.5, low=-4.0, high=1.0)
    """
    # A decoded image may be any number of times farther from the rendered one than the input is.
    unbounded = ("rendered_counterfactual", "blocks(")
    low = -math.inf if name.startswith(unbounded) else _LEAST.get(name, 0.0)
    low = -1.0 if ", signed" in name or name.startswith("blocks(spearman") else low
    high = math.inf if name.endswith(", share") else 1.0
    return score.within(low, high)


Condition = Literal[
    "independent factors",
    "distinct factors",
    "large classes",
    "numbers",
    "no full turns",
    "more rows than codes",
]
# How the interval of a score is found: over 70 % of the groups, over groups drawn with replacement, or over
# random halves of the groups to fit on.
Resampling = Literal["subsamples", "groups", "splits"]
RHO = (1, 2)  # numbers of codes of each factor, those of published tables
KERNEL_ROWS = 500  # most rows to fit a kernel regression on, and to score it: its time grows with their cube

Codes64 = Float[Tensor, "images codes"]
Training = Bool[Tensor, " images"]


@dataclass(frozen=True)
class CodeScores:
    """Scores of one encoder by name, and matrices [codes or blocks, factors] for plots; nan if undefined."""

    scores: dict[str, float]
    matrices: dict[str, Float[Tensor, "codes factors"]] = field(default_factory=dict)


@dataclass(frozen=True)
class CodeMetric:
    """One computation that gives scores of codes.

    Attributes:
        compute: maps codes, factors, the rows to fit on and a seed to scores. Only metrics whose
            ``resampling`` is "splits" read the last two.
        resampling: how intervals are found.
        most: largest number of resamples or halves, for slow metrics; a single half gives no interval.
        needs: conditions without which the scores mislead.
    """

    compute: Callable[[Codes64, FactorTable, Training, int], CodeScores]
    resampling: Resampling
    needs: tuple[Condition, ...]
    most: int | None = None


def _bins(codes: Codes64, most: int = 20) -> int:
    """Return the number of bins of a code, at most that of its images."""
    return min(most, len(codes))


def _irs(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    return CodeScores({"irs": float(irs(codes, table.classes).score)})


def _unconfoundedness(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    """Compute it for each of `RHO` and each selection of codes; nan if fewer codes vary."""
    found = irs(codes, table.classes)
    scores: dict[str, float] = {}
    selections: tuple[tuple[str, SelectionCompat], ...] = (("", "exact"), (", candle2021", "candle2021"))
    for label, compat in selections:
        for number in RHO:
            enough = number <= len(found.codes)
            value = float(unconfoundedness(found, number, compat)) if enough else float("nan")
            scores[f"unconfoundedness({number}){label}"] = value
    return CodeScores(scores)


def _mig(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    found = mig(codes, table.classes, _bins(codes))
    shares = found.information / found.entropies
    return CodeScores({"mig": float(found.score)}, {"information": shares})


def _modularity(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    return CodeScores({"modularity": float(modularity(codes, table.classes, _bins(codes)).score)})


def _infomec(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    found = infomec(codes, table.classes)
    values = {"infom": found.modularity, "infoc": found.compactness, "infoe": found.explicitness}
    return CodeScores({name: float(value) for name, value in values.items()})


def _sap(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    found = sap(codes, table.values, training, table.categorical)
    return CodeScores({"sap": float(found.score)})


def _explicitness(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    return CodeScores({"explicitness": float(explicitness(codes, table.classes, training=training).score)})


def _mcc(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    numbers, few = table.values[:, table.ordered], _few_rows(training, seed)
    scores = {
        f"mcc({kind})": float(mcc(codes, numbers, kind, training).score) for kind in ("pearson", "spearman")
    }
    smooth = mcc(codes[few], numbers[few], "kernel", training[few])
    return CodeScores(scores | {"mcc(kernel)": float(smooth.score)})


def _r2(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    numbers, few = table.values[:, table.ordered], _few_rows(training, seed)
    line = block_r2(codes, numbers, "linear", training)
    smooth = block_r2(codes[few], numbers[few], "kernel", training[few])
    return CodeScores({"r2(linear)": float(line.score), "r2(kernel)": float(smooth.score)})


def _few_rows(training: Training, seed: int) -> Tensor:
    """Draw at most `KERNEL_ROWS` rows to fit on, and as many to score."""
    draws = torch.Generator().manual_seed(seed)
    parts = [part.nonzero().flatten() for part in (training, ~training)]
    drawn = [part[torch.randperm(len(part), generator=draws)[:KERNEL_ROWS].to(part.device)] for part in parts]
    return torch.cat(drawn).sort().values


def _minimality(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    found = minimality_and_sufficiency(codes, table.classes, _bins(codes, 15))
    return CodeScores({"minimality": float(found.minimality), "sufficiency": float(found.sufficiency)})


def _t_mex(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    """Choose the code of each factor on one half, and test the graph on the other."""
    numbers = table.values[:, table.ordered]
    assigned = mcc(codes[training], numbers[training]).assigned
    graph = torch.zeros(codes.shape[1], numbers.shape[1], dtype=torch.bool, device=codes.device)
    graph[assigned.clamp(min=0), torch.arange(len(assigned), device=codes.device)] = assigned >= 0
    found = t_mex(codes[~training], numbers[~training], graph)
    return CodeScores({"t_mex(agreement)": 1 - float(found.score) / graph.numel()})


def _dci_es(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    found = dci_es(codes, table.values, training, table.categorical, seed)
    scores = {"explicitness": found.explicitness, "informativeness": found.informativeness}
    return CodeScores({f"dci_es({name})": float(value) for name, value in scores.items()})


def _dci(function: Callable[..., DCI], name: str) -> Callable[..., CodeScores]:
    def compute(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
        rows = training.nonzero().flatten(), (~training).nonzero().flatten()
        found = function(codes.float(), table.classes, *rows, seed)
        scores = {
            "disentanglement": found.disentanglement,
            "completeness": found.completeness,
            "informativeness": found.informativeness_test,
        }
        named = {f"{name}({part})": float(value) for part, value in scores.items()}
        return CodeScores(named, {name: found.importance})

    return compute


OFF_DIAGONAL = ", off-diagonal"


def _blocks(
    codes: Codes64,
    table: FactorTable,
    training: Training,
    seed: int,
    blocks: Mapping[int, Sequence[int]] | None = None,
) -> CodeScores:
    """Compute `block_matrices` of given blocks, or of those that are found on the rows to fit on."""
    known = blocks or dict(enumerate(find_blocks(codes[training], table.values[training])))
    scores, matrices = {}, {"blocks": codes.new_zeros(codes.shape[1], len(table.names))}
    kinds: dict[BlockRegression, Any] = {"linear": slice(None), "mlp": _few_rows(training, seed)}
    for kind, rows in kinds.items():
        given = codes[rows], table.values[rows], known, training[rows], kind
        found = block_matrices(*given, table.unordered, table.turning, seed)
        for part, matrix in zip(("r2", "spearman"), found, strict=True):
            name = f"blocks({part}, {kind})"
            scores[name], scores[f"{name}{OFF_DIAGONAL}"] = diagonal_scores(matrix)
            matrices[name] = matrix
    for factor, members in known.items():
        matrices["blocks"][list(members), factor] = 1
    return CodeScores(scores, matrices)


CODE_METRICS: Mapping[str, CodeMetric] = {
    "irs": CodeMetric(_irs, "subsamples", ("distinct factors", "large classes")),
    "unconfoundedness": CodeMetric(_unconfoundedness, "groups", ("distinct factors", "large classes")),
    "mig": CodeMetric(_mig, "subsamples", ("independent factors", "large classes")),
    "modularity": CodeMetric(_modularity, "subsamples", ("independent factors", "large classes")),
    "infomec": CodeMetric(
        _infomec, "subsamples", ("independent factors", "large classes", "more rows than codes"), 50
    ),
    "minimality": CodeMetric(_minimality, "subsamples", ("large classes",)),
    "sap": CodeMetric(_sap, "splits", ("independent factors",)),
    "explicitness": CodeMetric(_explicitness, "splits", ("independent factors", "more rows than codes")),
    "mcc": CodeMetric(_mcc, "splits", ("independent factors", "numbers", "no full turns")),
    "r2": CodeMetric(
        _r2, "splits", ("independent factors", "numbers", "no full turns", "more rows than codes")
    ),
    "t_mex": CodeMetric(_t_mex, "splits", ("numbers", "no full turns")),
    "dci_es": CodeMetric(_dci_es, "splits", ("more rows than codes",)),
    "dci_fast": CodeMetric(_dci(dci_fast, "dci_fast"), "splits", ("independent factors",)),
    "dci": CodeMetric(_dci(dci, "dci"), "splits", ("independent factors",), 1),
    "blocks": CodeMetric(_blocks, "splits", ("independent factors", "more rows than codes")),
}


DEFAULT_METRICS = tuple(name for name in CODE_METRICS if name not in ("dci", "blocks"))


def metric_names(given: Sequence[str]) -> list[str]:
    """Return names of `CODE_METRICS`: those that are given, of which "all" stands for all; else the default.

    Example:
        >>> metric_names(["mig", "irs"])
        ['mig', 'irs']
    """
    names = [name for one in given for name in (CODE_METRICS if one == "all" else [one])]
    return names or list(DEFAULT_METRICS)


MOST_RESAMPLES = 500  # fewer than of other metrics, because each resample sorts the rows again


@dataclass(frozen=True)
class MeasuredCodes:
    """Scores of one metric, or why there is none.

    Attributes:
        scores: values with their intervals, by name.
        replicates: scores of resampled groups; none for metrics that are fitted on random halves.
        matrices: [codes, factors], or [factors, factors] of blocks, by name; of random halves the mean.
        failure: why the metric cannot be computed; empty if it can.
    """

    scores: dict[str, Score]
    replicates: dict[str, tuple[float, ...]]
    matrices: dict[str, list[list[float]]]
    failure: str = ""


def measure_codes(
    codes: Float[Tensor, "images codes"],
    table: FactorTable,
    groups: Sequence[str],
    metric: str,
    splits: int = 5,
    seed: int = 0,
    blocks: Mapping[int, Sequence[int]] | None = None,
) -> MeasuredCodes:
    """Compute one metric of `CODE_METRICS` with its intervals.

    Metrics that count are computed from all images, with intervals over resampled groups. Metrics that fit
    something are fitted on one half of the groups and computed on the other, for several random halves.
    Fewer than `LEAST_GROUPS` groups give no interval.

    Args:
        codes: finite code vectors.
        table: factors of the images, on the same device.
        groups: group of each image; the images of a group stay together.
        metric: name of the metric.
        splits: number of random halves.
        seed: seed of all draws.
        blocks: of the metric "blocks", the codes of factors by column; None finds them.

    Returns:
        Scores; without any, and with a reason, if the images are too few or too much alike for the metric.

    Example:
        >>> classes = torch.cartesian_prod(torch.arange(2), torch.arange(3)).repeat(10, 1)
        >>> table = FactorTable(("shape", "size"), classes.double(), classes, (0, 1), (), ())
        >>> found = measure_codes(classes.double(), table, [str(row) for row in range(60)], "r2")
        >>> {name: round(score.value, 3) for name, score in found.scores.items()}
        {'r2(linear)': 1.0, 'r2(kernel)': 1.0}
    """
    chosen = CODE_METRICS[metric]
    if blocks is not None:
        chosen = replace(chosen, compute=partial(_blocks, blocks=blocks))
    if "numbers" in chosen.needs and not table.ordered:
        return MeasuredCodes({}, {}, {}, "the values of all factors have no order")
    try:
        if chosen.resampling == "splits":
            found = _over_splits(codes, table, groups, chosen, splits, seed)
        else:
            found = _over_resamples(codes, table, groups, chosen, seed)
    except InputError as error:
        return MeasuredCodes({}, {}, {}, str(error))
    return replace(found, scores={name: cut_at_bounds(name, score) for name, score in found.scores.items()})


def pack_measured(found: MeasuredCodes) -> dict[str, Tensor]:
    """Write scores as bytes of JSON, for `FinishedSteps`.

    Example:
        >>> step = pack_measured(MeasuredCodes({"mig": Score(0.5, 0.4, 0.6)}, {}, {}))
        >>> unpack_measured(step).scores["mig"].value
        0.5
    """
    text = json.dumps(asdict(found))
    return {"json": torch.tensor(list(text.encode()), dtype=torch.uint8)}


def unpack_measured(step: Mapping[str, Tensor]) -> MeasuredCodes:
    """Read the tensor of `pack_measured`."""
    found: dict[str, Any] = json.loads(bytes(step["json"].tolist()))
    scores = {name: Score(**parts) for name, parts in found.pop("scores").items()}
    replicates = {name: tuple(drawn) for name, drawn in found.pop("replicates").items()}
    return MeasuredCodes(scores, replicates, **found)


def _over_splits(
    codes: Tensor, table: FactorTable, groups: Sequence[str], metric: CodeMetric, splits: int, seed: int
) -> MeasuredCodes:
    drawn = split_groups(groups, splits, seed)[: metric.most]
    halves = [torch.from_numpy(half).to(codes.device) for half in drawn]
    found = [metric.compute(codes, table, half, seed + place) for place, half in enumerate(halves)]
    scores = {name: split_interval([one.scores[name] for one in found]) for name in found[0].scores}
    if len(set(groups)) < LEAST_GROUPS:  # few different halves, so that the scores differ too little
        scores = {name: Score(score.value, math.nan, math.nan) for name, score in scores.items()}
    matrices = {
        name: torch.stack([one.matrices[name] for one in found]).mean(0).tolist()
        for name in found[0].matrices
    }
    return MeasuredCodes(scores, {}, matrices)


def _over_resamples(
    codes: Tensor, table: FactorTable, groups: Sequence[str], metric: CodeMetric, seed: int
) -> MeasuredCodes:
    unused = torch.zeros(len(codes), dtype=torch.bool, device=codes.device)
    whole = metric.compute(codes, table, unused, seed)

    def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
        if len(rows) == len(codes) and bool((rows[1:] > rows[:-1]).all()):
            return whole.scores
        return _of_some(codes, table, rows, metric, seed, whole)

    resamples = min(MOST_RESAMPLES, metric.most or MOST_RESAMPLES)
    scores, replicates = resampled_interval(
        statistic, groups, seed, resamples, repeats=metric.resampling == "groups"
    )
    return MeasuredCodes(
        scores, replicates, {name: matrix.tolist() for name, matrix in whole.matrices.items()}
    )


def _of_some(
    codes: Tensor,
    table: FactorTable,
    rows: Int[ndarray, " rows"],
    metric: CodeMetric,
    seed: int,
    whole: CodeScores,
) -> dict[str, float]:
    """Compute the scores of some images; nan if these are too few or too much alike."""
    chosen = torch.from_numpy(rows).to(codes.device)
    part = table.take(chosen)
    # With few images, every class may have a single one and no deviation.
    sizes = [torch.bincount(classes) for classes in part.classes.T]
    if any(int(size.max()) == 1 for size in sizes):
        return dict.fromkeys(whole.scores, math.nan)
    try:
        unused = torch.zeros(len(rows), dtype=torch.bool, device=codes.device)
        found = metric.compute(codes[chosen], part, unused, seed)
    except InputError:
        return dict.fromkeys(whole.scores, math.nan)
    return found.scores


LARGE_CLASS = 20  # images of a value below which IRS of random codes is clearly above that of many images
ROWS_PER_CODE = 10
_SURE = 1e-3  # level of the test of independence
_CERTAIN = 1 - 1e-9  # share of the entropy from which on one factor determines another
_WEAK = 0.01  # share of the entropy below which a dependence hardly moves a metric

_CONSEQUENCES: dict[Condition, str] = {
    "independent factors": "dependent factors move scores even of the factors themselves as codes",
    "distinct factors": "only counterfactuals tell their codes apart (irs_do)",
    "large classes": "few images of a value raise the scores of all codes, random ones too",
    "numbers": "values without an order are left out",
    "no full turns": "the value of an angle jumps at the end of a turn, so that a code of it looks nonlinear",
    "more rows than codes": "a fit to few rows misleads; compare with random codes",
}


def broken_conditions(table: FactorTable, codes: int, metrics: Sequence[str]) -> list[str]:
    """Tell, by name, which metrics mislead on these data, and why.

    Factors count as dependent if `dependence_shares` finds more than 1 % of the smaller entropy.

    Args:
        table: the factors.
        codes: largest number of codes of an encoder.
        metrics: names of `CODE_METRICS`.

    Returns:
        One line for each broken condition, with the names of the metrics that need it.

    Example:
        >>> column = torch.arange(200) % 2
        >>> classes = torch.stack([column, column], dim=1)
        >>> table = FactorTable(("shape", "color"), classes.double(), classes, (0, 1), (), ())
        >>> print(*broken_conditions(table, 5, ["irs"]))
        irs: one determines the other: shape and color; only counterfactuals tell their codes apart (irs_do)
    """
    found: dict[Condition, str] = dict(_dependences(table))
    sizes = {
        name: int(torch.bincount(classes).min())
        for name, classes in zip(table.names, table.classes.T, strict=True)
    }
    if few := [f"{name} {size}" for name, size in sizes.items() if size < LARGE_CLASS]:
        found["large classes"] = f"fewer than {LARGE_CLASS} images of some value: {', '.join(few)}"
    if table.unordered:
        found["numbers"] = ", ".join(table.names[column] for column in table.unordered)
    if table.turning:
        found["no full turns"] = ", ".join(table.names[column] for column in table.turning)
    if len(table.classes) < 2 * ROWS_PER_CODE * codes:
        found["more rows than codes"] = f"{len(table.classes)} images for {codes} codes"
    lines = []
    for condition, finding in found.items():
        if needing := [name for name in metrics if condition in CODE_METRICS[name].needs]:
            lines.append(f"{', '.join(needing)}: {finding}; {_CONSEQUENCES[condition]}")
    return lines


def _dependences(table: FactorTable) -> Iterator[tuple[Condition, str]]:
    """Find pairs of factors that depend on each other, and pairs where one determines the other."""
    shares = dependence_shares(table.classes)
    named = {
        (first, second): f"{table.names[first]} and {table.names[second]}"
        for first, second in combinations(range(len(table.names)), 2)
    }
    dependent = [pair for pair in named if shares[pair] > _WEAK]
    if dependent:
        strongest = sorted(dependent, key=lambda pair: -float(shares[pair]))[:3]
        texts = [f"{named[pair]} ({float(shares[pair]):.0%})".replace("%", " %") for pair in strongest]
        more = f" and {len(dependent) - 3} more pairs" if len(dependent) > 3 else ""
        yield (
            "independent factors",
            f"dependent factors, in share of the smaller entropy: {', '.join(texts)}{more}",
        )
    if equal := [named[pair] for pair in dependent if shares[pair] > _CERTAIN]:
        yield "distinct factors", f"one determines the other: {', '.join(equal)}"


def dependence_shares(classes: Int[Tensor, "images factors"]) -> Tensor:
    """Compute the mutual information of each pair of factors, in shares of the smaller entropy.

    A pair whose table of counts agrees with independence counts as 0: Pearson's chi-square test does not
    reject it at 0.001. Neighbouring classes are merged for the test until each cell expects an image, since
    tables of rarer classes reject true independence far too often. A factor that determines another
    depends on it, however rare its values.

    Example:
        >>> column = torch.arange(80) % 2
        >>> dependence_shares(torch.stack([column, column, torch.arange(80) % 4 // 2], dim=1))
        tensor([[1., 1., 0.],
                [1., 1., 0.],
                [0., 0., 1.]], dtype=torch.float64)
    """
    information, entropies = mutual_information_matrix(classes, classes), entropy(classes)
    shares = (information / torch.minimum(entropies[:, None], entropies[None])).clamp(max=1)
    merged = [_merge_rare(column) for column in classes.T]
    for first, second in combinations(range(len(merged)), 2):
        if shares[first, second] < _CERTAIN and _independent(merged[first], merged[second]):
            shares[first, second] = shares[second, first] = 0
    return shares


def _merge_rare(classes: Int[Tensor, " images"]) -> Int[Tensor, " images"]:
    """Merge neighbouring classes until each has at least the square root of all images."""
    counts = torch.bincount(classes).tolist()
    least = len(classes) ** 0.5
    merged, place, size, left = [], 0, 0, len(classes)
    for count in counts:
        merged.append(place)
        size, left = size + count, left - count
        if size >= least <= left:
            place, size = place + 1, 0
    return torch.tensor(merged)[classes]


def _independent(first: Int[Tensor, " images"], second: Int[Tensor, " images"]) -> bool:
    """Test whether two columns of classes agree with independence; one class agrees with anything."""
    from scipy.stats import chi2_contingency

    width = int(second.max()) + 1
    counts = torch.bincount(first * width + second, minlength=(int(first.max()) + 1) * width)
    test = chi2_contingency(counts.reshape(-1, width).numpy(), correction=False)
    return not float(test.pvalue) < _SURE
