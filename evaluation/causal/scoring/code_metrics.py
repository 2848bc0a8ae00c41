"""The metrics of codes and factors in one table, with the conditions under which each of them holds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.causal.block_r2 import block_r2
from candlelight.evaluation.causal.dci import dci
from candlelight.evaluation.causal.dci_es import dci_es
from candlelight.evaluation.causal.dci_fast import dci_fast
from candlelight.evaluation.causal.dci_from_classifiers import DCI
from candlelight.evaluation.causal.explicitness import explicitness
from candlelight.evaluation.causal.infomec import infomec
from candlelight.evaluation.causal.irs import irs
from candlelight.evaluation.causal.mcc import mcc
from candlelight.evaluation.causal.mig import mig
from candlelight.evaluation.causal.minimality_and_sufficiency import minimality_and_sufficiency
from candlelight.evaluation.causal.modularity import modularity
from candlelight.evaluation.causal.sap import sap
from candlelight.evaluation.causal.scoring.factor_table import FactorTable
from candlelight.evaluation.causal.select_codes import SelectionCompat
from candlelight.evaluation.causal.t_mex import t_mex
from candlelight.evaluation.causal.unconfoundedness import unconfoundedness
from candlelight.loaders.errors import InputError, did_you_mean

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
    """Scores of one encoder by name, and matrices [codes, factors] for plots; nan if undefined."""

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
    drawn = [part[torch.randperm(len(part), generator=draws)[:KERNEL_ROWS]] for part in parts]
    return torch.cat(drawn).sort().values


def _minimality(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    found = minimality_and_sufficiency(codes, table.classes, _bins(codes, 15))
    return CodeScores({"minimality": float(found.minimality), "sufficiency": float(found.sufficiency)})


def _t_mex(codes: Codes64, table: FactorTable, training: Training, seed: int) -> CodeScores:
    """Choose the code of each factor on one half, and test the graph on the other."""
    numbers = table.values[:, table.ordered]
    assigned = mcc(codes[training], numbers[training]).assigned
    graph = torch.zeros(codes.shape[1], numbers.shape[1], dtype=torch.bool)
    graph[assigned.clamp(min=0), torch.arange(len(assigned))] = assigned >= 0
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
}


DEFAULT_METRICS = tuple(name for name in CODE_METRICS if name != "dci")


def metric_names(given: Sequence[str]) -> list[str]:
    """Return names of `CODE_METRICS`: those that are given, of which "all" stands for all; else the default.

    Raises:
        InputError: a name is unknown.

    Example:
        >>> metric_names(["mig", "irs"])
        ['mig', 'irs']
    """
    names = [name for one in given for name in (CODE_METRICS if one == "all" else [one])]
    check_metric_names(names)
    return names or list(DEFAULT_METRICS)


def check_metric_names(names: Collection[str]) -> None:
    """Refuse names that are not in `CODE_METRICS`.

    Raises:
        InputError: a name is unknown.

    Example:
        >>> check_metric_names(["irs", "mig"])
    """
    for name in names:
        if name not in CODE_METRICS:
            known = ", ".join(CODE_METRICS)
            raise InputError(
                f"metrics: expected some of {known}, got `{name}`{did_you_mean(name, CODE_METRICS)}"
            )
