"""Robustness of codes to true interventions: samples and their counterfactuals of the same units."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.factor_data import CounterfactualData
from candlelight.evaluation.causal.factor_table import Encoded, compute_codes
from candlelight.evaluation.causal.irs import irs_by_interventions
from candlelight.evaluation.causal.measure_codes import MOST_RESAMPLES, MeasuredCodes
from candlelight.evaluation.causal.rendered_counterfactuals import (
    check_same_factors,
    match_values,
    rows_of_groups,
)
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.loaders.errors import InputError


def pair_units(
    data: CounterfactualData, names: tuple[str, ...]
) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"], Bool[Tensor, "pairs factors"]]:
    """Pair each sample with the counterfactuals of its unit, which is its group.

    Args:
        data: samples and counterfactuals.
        names: factors.

    Returns:
        Rows of the samples, rows of their counterfactuals, and the factors that differ.

    Raises:
        InputError: the views have different factors, or no unit is in both.
    """
    images, others = data.images, data.counterfactuals
    check_same_factors(images, others)
    samples = rows_of_groups(images)
    pairs = [
        (row, other)
        for other, group in enumerate(others.groups)
        for row in samples.get(group, ())
        if images.ids[row] != others.ids[other]
    ]
    if not pairs:
        raise InputError(
            f"no unit (group) of `{others.identity.name}` is one of `{images.identity.name}`; give "
            "counterfactuals of these samples"
        )
    index, values = match_values(images, others)
    rows, places = np.array(pairs).T
    changed = (values[rows] != index.positions(places))[:, [index.column(name) for name in names]]
    return torch.from_numpy(rows), torch.from_numpy(places), torch.from_numpy(changed)


def score_interventions(encoded: Encoded, data: CounterfactualData, random: str) -> dict[str, MeasuredCodes]:
    """Compute `irs_by_interventions` of encoders and of random codes: ``irs_do``, with intervals over groups.

    Args:
        encoded: factors and codes of the samples.
        data: samples and counterfactuals.
        random: name of the random codes.

    Raises:
        InputError: see `pair_units`.
    """
    run, seed = encoded.run, encoded.run.options.seed
    rows, places, changed = (part.to(run.device) for part in pair_units(data, encoded.table.names))
    others = replace(run, data=data.counterfactuals, fingerprint=Fingerprint())
    moved = compute_codes(others, data.images.known_ids)
    both = {name: (encoded.codes[name], moved[name]) for name in moved}
    draws = torch.Generator().manual_seed(seed)
    own, other = (torch.randn(codes.shape, generator=draws).to(codes) for codes in next(iter(both.values())))
    both[random] = own, other
    groups = [data.images.groups[row] for row in rows.tolist()]
    given = {name: (own, other[places], rows, changed) for name, (own, other) in both.items()}
    return {name: _measure(some, groups, seed) for name, some in given.items()}


def _measure(given: tuple[Tensor, ...], groups: list[str], seed: int) -> MeasuredCodes:
    """Compute the score of pairs, its interval, and the matrix with a row for each code."""

    def statistic(some: Int[ndarray, " pairs"]) -> Mapping[str, float]:
        chosen = torch.from_numpy(some).to(given[0].device)
        return {"irs_do": float(irs_by_interventions(given[0], *(part[chosen] for part in given[1:])).score)}

    try:
        found = irs_by_interventions(*given)
        scores, replicates = resampled_interval(statistic, groups, seed, MOST_RESAMPLES, repeats=False)
    except InputError as error:
        return MeasuredCodes({}, {}, {}, str(error))
    matrix: Float[Tensor, "codes factors"] = torch.full(
        [given[0].shape[1], found.matrix.shape[1]], torch.nan, dtype=torch.float64
    )
    matrix[found.codes.cpu()] = found.matrix.cpu()
    return MeasuredCodes(scores, replicates, {"irs_do": matrix.tolist()})
