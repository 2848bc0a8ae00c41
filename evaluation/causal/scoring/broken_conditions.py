"""Conditions of metrics that the factors of some images, or the number of codes, break."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import torch
from jaxtyping import Int
from torch import Tensor

from candlelight.evaluation.causal.estimation.mutual_information import entropy, mutual_information_matrix
from candlelight.evaluation.causal.scoring.code_metrics import CODE_METRICS, Condition
from candlelight.evaluation.causal.scoring.factor_table import FactorTable

LARGE_CLASS = 20  # images of a value below which IRS of random codes is clearly above that of many images
ROWS_PER_CODE = 10
_SURE = 1e-3  # level of the test of independence
_CERTAIN = 1 - 1e-9  # share of the entropy from which on one factor determines another
_WEAK = 0.01  # share of the entropy below which a dependence hardly moves a metric

_CONSEQUENCES: dict[Condition, str] = {
    "independent factors": "dependent factors move scores even of the factors themselves as codes",
    "distinct factors": "no score of a code tells them apart",
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
        irs: one determines the other: shape and color; no score of a code tells them apart
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
