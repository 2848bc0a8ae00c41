"""Score encoders of images by how their codes answer for the factors of an image set."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from evaluation.causal.irs import IRS, bin_values, group_by_class, grouped_irs, has_single_rows, irs
from evaluation.causal.unconfoundedness import SelectionCompat, unconfoundedness
from evaluation.inputs.match_ids import first_three
from evaluation.inputs.predictions import Codes
from evaluation.models.model_spec import NamedModel
from evaluation.results.intervals import Score, distinct_groups, resampled_interval
from evaluation.results.result import StatisticResult
from evaluation.running.batches import Fingerprint, check_srgb_image, make_provenance, read_batches
from evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from evaluation.running.model_outputs import checked_codes
from evaluation.running.named_models import decode, identify_models, run_model
from loaders.errors import InputError
from loaders.views import Factors

METRIC, VERSION = "irs", 2
IRS_RESAMPLES = 500  # each of which orders the rows again
Encoder = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch codes"]]


def score_causal(
    encoders: Mapping[str, Encoder | NamedModel | Codes],
    data: Factors,
    rho: Sequence[int] = (1, 2),
    *,
    quantile: float = 0.99,
    bins: int = 20,
    batch_size: int = 64,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, StatisticResult]:
    """Compute IRS and unconfoundedness of the codes of images, or of codes from another program.

    Continuous factors are cut into ``bins`` of equal width between their extremes, as in
    disentanglement_lib. Factors with one value among the images are left out: any code is robust there.

    Blind to: all that `irs` and `unconfoundedness` are blind to, and the way in which the images were chosen:
    on confounded images the codes are judged by the confounded joint distribution.

    Args:
        encoders: by name, images to codes, or `evaluation.inputs.predictions.Codes`. An encoder is given
            sRGB-encoded images in [0, 1], as encoders are trained on, or scene-linear ones if its
            ``colour_space`` is "linear"; a `torch.nn.Module` runs in evaluation mode, and has to be on
            ``device``.
        data: images with at least two factors that vary, from `loaders.views.open_factors`.
        rho: codes for each factor, one unconfoundedness for each number.
        quantile: see `irs`.
        bins: classes of a continuous factor.
        batch_size: images per pass.
        device: torch device of the encoders.
        steps: finished batches of an earlier run, which are not encoded again, and the place of new ones.

    Returns:
        A result for each encoder, higher is better: ``irs``, ``unconfoundedness(rho)`` (nan where fewer than
        ``rho`` codes vary), and ``unconfoundedness(rho), candle2021``, the same with the selection of the
        authors' program, to compare with published numbers. 95 % intervals over groups of images.

    Raises:
        InputError: no images, fewer than two factors that vary, or codes that are not finite.
    """
    if not encoders or not rho:
        raise InputError("expected at least one encoder and one `rho`, got none")
    named_models = identify_models(encoders, [data], "srgb", None)
    names, classes = _classes(data, bins)
    fingerprint = Fingerprint()
    codes = _encode(named_models, data, batch_size, device, fingerprint, steps or FinishedSteps())
    settings = {"rho": list(rho), "quantile": quantile, "bins": bins, "factors": names}
    described = fingerprint.describe(data)
    return {
        name: _result(named, codes[name], classes, rho, data, described, settings)
        for name, named in named_models.items()
    }


def _result(
    named: NamedModel,
    codes: Float[Tensor, "samples codes"],
    classes: Int[Tensor, "samples factors"],
    rho: Sequence[int],
    data: Factors,
    described: dict[str, Any],
    settings: dict[str, Any],
) -> StatisticResult:
    """Scores of one encoder, with intervals over resampled groups."""
    whole = irs(codes, classes, settings["quantile"])

    def resampled(
        scores: Callable[[IRS], dict[str, float]], repeats: bool
    ) -> tuple[dict[str, Score], dict[str, tuple[float, ...]]]:
        def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
            groups = group_by_class(classes[rows])
            # Of few rows, each may have a class of its own, and no spread within it.
            if any(map(has_single_rows, groups)):
                return dict.fromkeys(scores(whole), math.nan)
            return scores(grouped_irs(codes[rows], groups, settings["quantile"]))

        return resampled_interval(statistic, data.groups, seed=0, resamples=IRS_RESAMPLES, repeats=repeats)

    # Repeated rows shrink quantiles within classes, which IRS is made of. Unconfoundedness only asks which
    # are largest; it takes few values, and subsamples that are set about one of them leave these values.
    intervals, replicates = resampled(lambda result: {METRIC: float(result.score)}, repeats=False)
    intervals[METRIC] = replace(intervals[METRIC], high=min(intervals[METRIC].high, 1.0))
    disjoint, redrawn = resampled(partial(_unconfoundedness, rho=rho), repeats=True)
    return StatisticResult(
        make_provenance(METRIC, VERSION, "higher", named, described, settings),
        intervals | disjoint,
        replicates | redrawn,
        distinct_groups(data.groups),
        (),
        _describe(whole),
    )


def _classes(data: Factors, bins: int) -> tuple[list[str], Int[Tensor, "samples factors"]]:
    """Names of the factors that vary, and their classes."""
    table = torch.from_numpy(np.asarray(data.table))
    if table.shape != (len(data.ids), len(data.factors)) or not bool(table.isfinite().all()):
        raise InputError(
            f"`{data.identity.name}`: expected a table of {len(data.ids)} rows, {len(data.factors)} factors, "
            f"finite, got {list(table.shape)}" + (", some nan or inf" if bool(table.isnan().any()) else "")
        )
    varying = (table != table[:1]).any(0).nonzero().flatten().tolist()
    names = [data.factors[column].name for column in varying]
    if len(names) < 2:
        raise InputError(f"at least two factors must vary among the images, got {names}")
    columns = [
        table[:, column].long()
        if data.factors[column].kind == "categorical"
        else bin_values(table[:, column], bins)
        for column in varying
    ]
    return names, torch.stack(columns, dim=1)


def _encode(
    named_models: Mapping[str, NamedModel],
    data: Factors,
    batch_size: int,
    device: str,
    fingerprint: Fingerprint,
    steps: FinishedSteps,
) -> dict[str, Float[Tensor, "samples codes"]]:
    """Codes of all rows on the CPU, by encoder."""
    parts: dict[str, list[Tensor]] = {name: [] for name in named_models}
    keys = {
        name: model_key(named, device, metric=METRIC, version=VERSION) for name, named in named_models.items()
    }
    for batch in read_batches(data, batch_size, check_srgb_image, fingerprint, "encode"):
        linear = decode(batch.stack(lambda image: image))
        for name, named in named_models.items():
            if isinstance(named.model, Codes):
                continue
            encode = partial(_codes, named, linear, device)
            step = steps.get_or_compute(batch_key(keys[name], batch, fingerprint), encode)
            parts[name].append(step["codes"])
    for row, name in enumerate(data.ids):
        fingerprint.add(name, torch.from_numpy(np.asarray(data.table)[row]))
    codes = {
        name: named.model.matched(data.ids, data.known_ids, None)
        if isinstance(named.model, Codes)
        else torch.cat(parts[name])
        for name, named in named_models.items()
    }
    for name, rows in codes.items():
        if lost := [data.ids[row] for row in (~rows.isfinite().all(1)).nonzero().flatten().tolist()]:
            raise InputError(f"`{name}`: codes must be finite, got nan or inf for {first_three(lost)}")
    return codes


def _codes(named: NamedModel, linear: Tensor, device: str) -> dict[str, Tensor]:
    """Codes of a batch, in float32 at least."""
    (codes,) = run_model(named, linear, device, lambda *output: (checked_codes(*output),))
    return {"codes": codes.to(torch.promote_types(codes.dtype, torch.float32))}


def _unconfoundedness(result: IRS, rho: Sequence[int]) -> dict[str, float]:
    """Unconfoundedness for each ``rho`` by either selection."""
    selections: tuple[tuple[str, SelectionCompat], ...] = (("", "exact"), (", candle2021", "candle2021"))
    scores = {}
    for label, compat in selections:
        for number in rho:
            enough = number <= len(result.codes)
            value = float(unconfoundedness(result, number, compat)) if enough else math.nan
            scores[f"unconfoundedness({number}){label}"] = value
    return scores


def _describe(result: IRS) -> dict[str, Any]:
    """Plain content of a result: the matrix of codes and factors."""
    return {
        "codes": result.codes.tolist(),
        "matrix": result.matrix.tolist(),
        "parents": result.parents.tolist(),
        "weights": result.weights.tolist(),
    }
