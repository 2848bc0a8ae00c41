"""Transductions of metrics, fitted to pairs of images with opinion scores."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float64
from torch import Tensor

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception.distance_spec import pair_distances
from candlelight.evaluation.perception.transduction import Transduction, fit_transduction, normalised_dmos
from candlelight.evaluation.running.batches import Batch, Fingerprint, read_batches
from candlelight.evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from candlelight.evaluation.running.out_of_memory import run_in_halves
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import RatedPair, View

_VERSION = 1  # of the numbers of a finished step


def fit_rated_pairs(
    named_distances: Mapping[str, NamedModel],
    pairs: View[RatedPair],
    *,
    device: str = "cpu",
    batch_size: int = 16,
    steps: FinishedSteps | None = None,
    fingerprint: Fingerprint | None = None,
) -> dict[str, Transduction]:
    """Fit the transduction of each metric to rated pairs, such as those of TID2013.

    See `fit_transduction`; the common distance of a pair is `normalised_dmos` of its score. Pairs on which a
    metric is undefined are left out, and its note counts them.

    Args:
        named_distances: by name, from `open_distance` on ``device``.
        pairs: from `candlelight.loaders.views.open_pairs`.
        device: torch device on which images are compared.
        batch_size: maximal number of pairs that are compared at once.
        steps: keeps finished batches, so that an interrupted run resumes; None keeps nothing.
        fingerprint: is extended by every pair, if given.

    Returns:
        By metric. A fit that failed is among them: ``converged`` is False, and ``note`` says why.

    Raises:
        InputError: there are no pairs, a metric fails, or a score lies outside [0, 10].
    """
    kept, whole = steps or FinishedSteps(), fingerprint or Fingerprint()
    settings = {"metric": "rated pairs", "version": _VERSION}
    keys = {name: model_key(named, device, **settings) for name, named in named_distances.items()}
    parts: dict[str, list[Tensor]] = {name: [] for name in named_distances}
    scores: list[float] = []
    for batch in read_batches(pairs, batch_size, lambda pair: pair.reference, whole, "rated pairs"):
        scores += [pair.score for pair in batch.items]
        for name, named in named_distances.items():
            compute = partial(_compare, named, batch, device)
            parts[name].append(kept.get_or_compute(batch_key(keys[name], batch, whole), compute)["distances"])
    ratings = normalised_dmos(torch.tensor(scores, dtype=torch.float64))
    return {name: _fit(torch.cat(some), ratings) for name, some in parts.items()}


def _compare(named: NamedModel, batch: Batch[RatedPair], device: str) -> dict[str, Tensor]:
    distorted = batch.stack(lambda pair: pair.distorted)
    references = batch.stack(lambda pair: pair.reference)

    def compare(rows: slice) -> tuple[Tensor, ...]:
        return (pair_distances(named, distorted[rows].to(device), references[rows].to(device)).cpu(),)

    return {"distances": run_in_halves(compare, len(distorted))[0]}


def _fit(distances: Float64[Tensor, " pairs"], ratings: Float64[Tensor, " pairs"]) -> Transduction:
    defined = ~distances.isnan()
    try:
        found = fit_transduction(distances[defined], ratings[defined])
    except InputError as error:
        return Transduction(0.0, 0.0, pairs=int(defined.sum()), converged=False, note=f"no fit: {error}")
    left_out = int((~defined).sum())
    return replace(found, note=f"{found.note}; {left_out} undefined pairs left out") if left_out else found
