"""Score decoded counterfactuals against rendered ones, by factor, for `score_causal`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.interventions.decode_codes import Decoder, resize_decoded
from candlelight.evaluation.causal.interventions.rendered_counterfactuals import (
    decoded_errors,
    rendered_share,
)
from candlelight.evaluation.causal.interventions.rendered_pairs import RenderedPairs, find_rendered_pairs
from candlelight.evaluation.causal.irs import irs
from candlelight.evaluation.causal.scoring.code_metrics import RHO
from candlelight.evaluation.causal.scoring.compute_codes import encode_images
from candlelight.evaluation.causal.scoring.factor_table import FactorTable
from candlelight.evaluation.causal.scoring.shrink_for_heads import shrink_for_heads
from candlelight.evaluation.causal.select_codes import select_codes
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.results.mean_intervals import Score, mean_interval
from candlelight.evaluation.results.resampled_intervals import resampled_interval
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.views import Factors

LEAST_GAIN = 0.01  # share of the error by which an image must come nearer when all codes change
RENDERED_PAIRS = 200  # most pairs of each factor
_BATCH = 64
_UNDEFINED = Score(math.nan, math.nan, math.nan)
_CHOSEN, _RANDOM = "rendered_counterfactual({})", "rendered_counterfactual({}), random choice"


class ScoredFactor(NamedTuple):
    """Errors of the pairs of one factor.

    Attributes:
        pairs: rows of the pairs.
        codes: for each of `RHO`, the codes of the factor.
        errors: of each pair, if no code changes, and with all codes of the counterfactual; then for each of
            `RHO`, if the codes of the factor change to those of the donor, and if as many random codes do.
    """

    pairs: RenderedPairs
    codes: dict[int, Int[Tensor, " selected"]]
    errors: Float[Tensor, "pairs columns"]


def score_rendered(
    named: NamedModel,
    decoder: Decoder,
    codes: Float[Tensor, "images codes"],
    data: Factors,
    counterfactuals: Factors,
    table: FactorTable,
    seed: int,
    device: str,
) -> tuple[dict[str, Score], dict[str, Any]]:
    """Compute `rendered_counterfactuals` for each factor and each of `RHO`.

    At most `RENDERED_PAIRS` pairs are drawn for each factor.

    Args:
        named: the encoder.
        decoder: its decoder, which gives sRGB-encoded images in [0, 1].
        codes: codes of all images.
        data: the images.
        counterfactuals: images among which the counterfactuals are found, see `find_rendered_pairs`.
        table: factors of the images.
        seed: seed of the pairs, of the random choices and of the resamples.
        device: torch device of the encoder.

    Returns:
        Scores by name, means over factors, with intervals over resampled groups of the factual images, for
        the selected codes as given: with
        the codes of each factor, and with as many codes chosen at random among all that vary. And details by
        factor. A factor is not decoded if the decoded image does not come nearer to the counterfactual
        when all codes change: by 1 % of the error, and as far as the 95 % interval tells. It has no score of
        its own, and counts as 0 in the means, so that the means of all models are over the same factors. So
        does a negative score, which has no bound if all codes together change little; one above 1 as 1.

    Raises:
        InputError: there are no pairs, see `find_rendered_pairs`, `select_codes` and `decoded_errors`.
    """
    found = irs(codes, table.classes)
    everything = find_rendered_pairs(data, counterfactuals, table.names, RENDERED_PAIRS, seed)
    if not any(len(pairs.factual) for pairs in everything.values()):
        raise InputError(
            f"no two images differ in one factor only; give a grid, or {argument('counterfactuals')}"
        )
    sets = {rho: select_codes(found, rho) for rho in RHO if rho <= len(found.codes)}
    scored = {}
    for column, (name, pairs) in enumerate(everything.items()):
        if len(pairs.factual):
            rendered, targets = _read(named, counterfactuals, pairs.rendered, device)
            _, donors = _read(named, counterfactuals, pairs.donors, device)
            chosen = {rho: some[column] for rho, some in sets.items()}
            own = codes[pairs.factual].to(targets.dtype)
            draws = torch.from_numpy(
                named_stream(seed, f"random codes {name}").random((len(own), len(found.codes)))
            )
            shuffled = found.codes[draws.argsort(1)]
            errors = _errors(decoder, own, donors, targets, rendered, chosen, shuffled)
            scored[name] = ScoredFactor(pairs, chosen, errors)
    groups = {name: [data.groups[row] for row in one.pairs.factual] for name, one in scored.items()}
    kept = [name for name, one in scored.items() if _comes_nearer(one.errors, groups[name])]
    decoded = {name: scored[name] for name in kept}
    scores, by_factor = _intervals(decoded, groups, list(sets), seed, len(scored))
    undefined = {label.format(rho): _UNDEFINED for rho in RHO for label in (_CHOSEN, _RANDOM)}
    details = _describe(scored, kept, by_factor, everything)
    for name, one in scored.items():
        first, other = int(one.pairs.factual[0]), int(one.pairs.rendered[0])
        ids = [counterfactuals.ids[row] for row in (other, int(one.pairs.donors[0]))]
        details["factors"][name]["example"] = [data.ids[first], *ids]
    return undefined | scores, details


def _read(
    named: NamedModel, view: Factors, rows: Int[ndarray, " pairs"], device: str
) -> tuple[Float[Tensor, "pairs 3 height width"], Float[Tensor, "pairs codes"]]:
    """Read images, small enough to compare, and encode them."""
    images, codes = [], []
    for start in range(0, len(rows), _BATCH):
        some = torch.stack([view[int(row)] for row in rows[start : start + _BATCH]])
        images.append(torch.stack([shrink_for_heads(image) for image in some]))
        codes.append(encode_images(named, some, device).float())
    return torch.cat(images), torch.cat(codes)


def _errors(
    decoder: Decoder,
    codes: Float[Tensor, "pairs codes"],
    donors: Float[Tensor, "pairs codes"],
    targets: Float[Tensor, "pairs codes"],
    rendered: Float[Tensor, "pairs 3 height width"],
    chosen: Mapping[int, Int[Tensor, " selected"]],
    shuffled: Int[Tensor, "pairs varying"],
) -> Float[Tensor, "pairs columns"]:
    """Compute the columns of `ScoredFactor.errors`."""
    small = resize_decoded(decoder, rendered.shape[2:])
    columns = [decoded_errors(small, codes, rendered), decoded_errors(small, targets, rendered)]
    for rho, own in chosen.items():
        for one in (own.expand(len(codes), -1), shuffled[:, :rho]):
            changed = torch.zeros(codes.shape, dtype=torch.bool).scatter(1, one, True)
            columns.append(decoded_errors(small, torch.where(changed, donors, codes), rendered))
    return torch.stack(columns, dim=1)


def _comes_nearer(errors: Float[Tensor, "pairs columns"], groups: Sequence[str]) -> bool:
    """Tell whether images come nearer to the counterfactuals when all codes change.

    The images of an untrained decoder may come nearer with certainty, but by far less than `LEAST_GAIN`.
    """
    gain = mean_interval((errors[:, 0] - errors[:, 1]).tolist(), groups)
    return gain.value > LEAST_GAIN * float(errors[:, 0].mean()) and not gain.low <= 0


def _intervals(
    scored: Mapping[str, ScoredFactor],
    groups: Mapping[str, Sequence[str]],
    numbers: Sequence[int],
    seed: int,
    count: int,
) -> tuple[dict[str, Score], dict[str, dict[str, Score]]]:
    """Compute the score of each factor and the mean over ``count``; others and negative ones are 0."""
    labels = [label.format(rho) for rho in numbers for label in (_CHOSEN, _RANDOM)]
    if not scored:
        return dict.fromkeys(labels, Score(0.0, math.nan, math.nan)), {}
    errors = torch.cat([one.errors for one in scored.values()]).numpy()
    factors = np.repeat(np.arange(len(scored)), [len(one.errors) for one in scored.values()])

    def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
        sums = np.stack([np.bincount(factors[rows], column, len(scored)) for column in errors[rows].T], 1)
        counts = np.bincount(factors[rows], minlength=len(scored))[:, None]
        means = torch.from_numpy(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))
        found: dict[str, float] = {}
        for place, label in enumerate(labels):
            shares = rendered_share(torch.stack([means[:, 2 + place], means[:, 0], means[:, 1]], dim=1))
            found |= {f"{name}:{label}": float(share) for name, share in zip(scored, shares, strict=True)}
            found[label] = float(shares.clamp(0, 1).sum()) / count
        return found

    flat = [group for name in scored for group in groups[name]]
    scores, _ = resampled_interval(statistic, flat, seed)
    by_factor = {name: {label: scores[f"{name}:{label}"] for label in labels} for name in scored}
    return {label: scores[label] for label in labels}, by_factor


def _describe(
    scored: Mapping[str, ScoredFactor],
    kept: Sequence[str],
    by_factor: Mapping[str, Mapping[str, Score]],
    everything: Mapping[str, RenderedPairs],
) -> dict[str, Any]:
    """Collect the details of each factor, those that are not decoded, and those without pairs."""
    without_pairs = [name for name in everything if name not in scored]
    factors = {
        name: {
            "pairs": len(one.pairs.factual),
            "same_group": int(one.pairs.same_group.sum()),
            "codes": {str(rho): some.tolist() for rho, some in one.codes.items()},
            "error_none": float(one.errors[:, 0].mean()),
            "error_all": float(one.errors[:, 1].mean()),
            "scores": {
                label: [score.value, score.low, score.high]
                for label, score in by_factor.get(name, {}).items()
            },
        }
        for name, one in scored.items()
    }
    not_decoded = [name for name in scored if name not in kept]
    return {"factors": factors, "not_decoded": not_decoded, "without_pairs": without_pairs}
