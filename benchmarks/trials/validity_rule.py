"""Which properties of codes a score claims to measure, and where its values contradict them."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from candlelight.evaluation.causal.control_codes import PLANTED_CODES, PlantedName
from candlelight.evaluation.run.intervals import seed_interval

Property = Literal["disentangled", "complete", "informative", "sufficient", "robust"]

# A score should be high only for codes that have all its properties.
CLAIMS: dict[str, tuple[Property, ...]] = {
    "irs": ("robust",),
    "unconfoundedness(1)": ("disentangled",),
    "unconfoundedness(2)": ("disentangled",),
    "mig": ("complete", "informative"),
    "sap": ("complete", "informative"),
    "modularity": ("disentangled",),
    "explicitness": ("informative",),
    "infom": ("disentangled",),
    "infoc": ("complete",),
    "infoe": ("informative",),
    "mcc(pearson)": ("disentangled", "sufficient"),
    "mcc(spearman)": ("disentangled", "sufficient"),
    "mcc(kernel)": ("disentangled", "sufficient"),
    "r2(linear)": ("informative",),
    "r2(kernel)": ("informative",),
    "minimality": ("robust",),
    "sufficiency": ("sufficient",),
    "t_mex(agreement)": ("disentangled", "complete"),
    "dci_es(explicitness)": (),  # that a small probe suffices, even for codes that determine nothing
    "dci_es(informativeness)": ("informative",),
    "dci_fast(disentanglement)": ("disentangled",),
    "dci_fast(completeness)": ("complete",),
    "dci_fast(informativeness)": ("informative",),
    **dict.fromkeys(
        ("blocks(r2, linear)", "blocks(spearman, linear)", "blocks(r2, mlp)", "blocks(spearman, mlp)"),
        ("disentangled", "informative"),
    ),
    **dict.fromkeys(
        (
            "1 - blocks(r2, linear), off-diagonal",
            "1 - blocks(spearman, linear), off-diagonal",
            "1 - blocks(r2, mlp), off-diagonal",
            "1 - blocks(spearman, mlp), off-diagonal",
        ),
        ("disentangled",),
    ),
    "irs_do": ("robust",),
}
MARGIN = 0.01  # a smaller difference does not count
FALSE_ALARM, MISS = "▲", "▼"

Values = Mapping[PlantedName, Sequence[float]]  # for each kind of codes the values of the seeds


def has_claim(name: PlantedName, claims: Sequence[Property]) -> bool | None:
    """Tell whether codes have all properties, lack one, or have some in part only (None).

    A score without claims decides nothing either.

    Example:
        >>> has_claim("identity", ["complete"]), has_claim("rotated", ["disentangled", "informative"])
        (True, False)
        >>> has_claim("noisy", ["informative"])
    """
    known = [getattr(PLANTED_CODES[name], claim) for claim in claims]
    if False in known:
        return False
    return True if known and None not in known else None


def is_above(first: Sequence[float], second: Sequence[float]) -> bool | None:
    """Tell whether values are above others by more than `MARGIN`, with the 95 % interval over seeds.

    Returns:
        None if a value is undefined.

    Example:
        >>> is_above([0.9, 0.8], [0.5, 0.4]), is_above([0.9, 0.5], [0.5, 0.4]), is_above([1.0], [math.nan])
        (True, False, None)
    """
    differences = [one - other for one, other in zip(first, second, strict=True)]
    if any(map(math.isnan, differences)):
        return None
    return seed_interval(differences).low > MARGIN


def wrong_pairs(values: Values, claims: Sequence[Property]) -> tuple[list[tuple[PlantedName, ...]], int]:
    """List the pairs of codes in the wrong order, and count all pairs.

    Codes that have all properties must be above all codes that lack one (`is_above`).

    Returns:
        Pairs of codes with the properties and codes without, and the number of pairs with defined values.

    Example:
        >>> values = {"identity": [1.0, 1.0], "wrapped": [0.2, 0.3], "random": [0.4, 0.4]}
        >>> wrong_pairs(values, ["informative"])
        ([('wrapped', 'random')], 2)
    """
    wrong: list[tuple[PlantedName, ...]] = []
    pairs = 0
    for good in (name for name in values if has_claim(name, claims)):
        for bad in (name for name in values if has_claim(name, claims) is False):
            above = is_above(values[good], values[bad])
            pairs += above is not None
            wrong += [(good, bad)] if above is False else []
    return wrong, pairs


def mark_cells(values: Values, claims: Sequence[Property]) -> dict[PlantedName, str]:
    """Mark the codes where a score contradicts its claims.

    A code that lacks a property and is in a wrong pair is a false alarm (▲), double if even the identity
    codes are not above it. A code that has all properties is a miss (▼) if it is not above some code that
    lacks one and is below the identity codes; double if it is not above random codes, and the identity is.

    Example:
        >>> values = {"identity": [1.0, 1.0], "wrapped": [0.2, 0.3], "random": [0.4, 0.4]}
        >>> mark_cells(values, ["informative"])
        {'identity': '', 'wrapped': '▼▼', 'random': '▲'}
    """
    wrong, _ = wrong_pairs(values, claims)
    as_high = {bad for good, bad in wrong if good == "identity"}
    marks = dict.fromkeys(values, "")
    for good, bad in wrong:
        marks[bad] = FALSE_ALARM * (1 + (bad in as_high))
        if bad not in as_high:
            marks[good] = MISS * (1 + ((good, "random") in wrong and "random" not in as_high))
    return marks
