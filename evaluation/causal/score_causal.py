"""Score encoders of images by how their codes represent the factors of an image set."""

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
from evaluation.causal.select_codes import SelectionCompat
from evaluation.causal.unconfoundedness import unconfoundedness
from evaluation.inputs.match_ids import first_three
from evaluation.inputs.predictions import Codes
from evaluation.models.model_spec import NamedModel
from evaluation.results.mean_intervals import Score, distinct_groups
from evaluation.results.resampled_intervals import resampled_interval
from evaluation.results.result import StatisticResult
from evaluation.running.batches import Fingerprint, check_srgb_image, make_provenance, read_batches
from evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from evaluation.running.model_outputs import checked_codes
from evaluation.running.named_models import decode, identify_models, run_model
from loaders.errors import InputError
from loaders.views import Factors

METRIC, VERSION = "irs", 3
IRS_RESAMPLES = 500  # fewer than for other metrics, because each resample sorts the rows again
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
    """Compute IRS and unconfoundedness of encoders, or of codes from another program.

    Continuous factors are cut into ``bins`` classes of equal width between their extremes, as in
    disentanglement_lib. Factors with a single value among the images are left out, because any code is robust
    to them.

    Blind to: everything that `irs` and `unconfoundedness` are blind to, and the selection of the images. On
    confounded images the scores describe the confounded joint distribution.

    Args:
        encoders: by name: a callable from images to codes, or `evaluation.inputs.predictions.Codes`. An
            encoder receives sRGB-encoded images in [0, 1], on which most encoders are trained, or
            scene-linear images if its ``colour_space`` is "linear". A `torch.nn.Module` runs in evaluation
            mode and must be on ``device``.
        data: images with at least two varying factors, from `loaders.views.open_factors`.
        rho: numbers of codes per factor; each gives one unconfoundedness score.
        quantile: see `irs`.
        bins: number of classes of a continuous factor.
        batch_size: images per pass.
        device: torch device of the encoders.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each encoder, higher is better: ``irs``; ``unconfoundedness(rho)``, nan if fewer than
        ``rho`` codes vary; and ``unconfoundedness(rho), candle2021``, which selects codes like the authors'
        program and is comparable with published numbers. The 95 % intervals are over groups of images. A note
        tells how many images have each value of a factor, because few of them raise ``irs``.

    Raises:
        InputError: there are no images, fewer than two factors vary, or codes are not finite.
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
    """Score one encoder, with intervals over resampled groups."""
    whole = irs(codes, classes, settings["quantile"])

    def resampled(
        scores: Callable[[IRS], dict[str, float]], repeats: bool
    ) -> tuple[dict[str, Score], dict[str, tuple[float, ...]]]:
        def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
            groups = group_by_class(classes[rows])
            # With few rows, every class may have a single row and no deviation.
            if any(map(has_single_rows, groups)):
                return dict.fromkeys(scores(whole), math.nan)
            return scores(grouped_irs(codes[rows], groups, settings["quantile"]))

        return resampled_interval(statistic, data.groups, seed=0, resamples=IRS_RESAMPLES, repeats=repeats)

    # Repeated rows lower the quantiles within classes, so IRS needs subsamples. Unconfoundedness depends only
    # on the order of the entries and takes few values; centred subsamples would leave this set of values.
    intervals, replicates = resampled(lambda result: {METRIC: float(result.score)}, repeats=False)
    intervals[METRIC] = replace(intervals[METRIC], high=min(intervals[METRIC].high, 1.0))
    disjoint, redrawn = resampled(partial(_unconfoundedness, rho=rho), repeats=True)
    return StatisticResult(
        make_provenance(METRIC, VERSION, "higher", named, described, settings),
        intervals | disjoint,
        replicates | redrawn,
        distinct_groups(data.groups),
        (),
        _describe(whole) | {"notes": [_class_sizes_note(settings["factors"], whole.class_sizes)]},
    )


def _classes(data: Factors, bins: int) -> tuple[list[str], Int[Tensor, "samples factors"]]:
    """Return the names and the classes of the factors that vary."""
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
    """Compute the codes of all rows, on the CPU, for each encoder."""
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
        if failed := [data.ids[row] for row in (~rows.isfinite().all(1)).nonzero().flatten().tolist()]:
            raise InputError(f"`{name}`: codes must be finite, got nan or inf for {first_three(failed)}")
    return codes


def _codes(named: NamedModel, linear: Tensor, device: str) -> dict[str, Tensor]:
    """Compute the codes of a batch, in float32 at least."""
    (codes,) = run_model(named, linear, device, lambda *output: (checked_codes(*output),))
    return {"codes": codes.to(torch.promote_types(codes.dtype, torch.float32))}


def _unconfoundedness(result: IRS, rho: Sequence[int]) -> dict[str, float]:
    """Compute unconfoundedness for each ``rho`` and each selection of codes."""
    selections: tuple[tuple[str, SelectionCompat], ...] = (("", "exact"), (", candle2021", "candle2021"))
    scores = {}
    for label, compat in selections:
        for number in rho:
            enough = number <= len(result.codes)
            value = float(unconfoundedness(result, number, compat)) if enough else math.nan
            scores[f"unconfoundedness({number}){label}"] = value
    return scores


def _describe(result: IRS) -> dict[str, Any]:
    """Collect the details of a result: the matrix of codes and factors, and its parents and weights."""
    return {
        "codes": result.codes.tolist(),
        "matrix": result.matrix.tolist(),
        "parents": result.parents.tolist(),
        "weights": result.weights.tolist(),
        "class_sizes": [list(sizes) for sizes in result.class_sizes],
    }


def _class_sizes_note(names: Sequence[str], class_sizes: Sequence[Sequence[int]]) -> str:
    """Tell how many images have each value of a factor, or lie in each of its bins."""
    ranges = [
        f"{name} {sizes[0]}" + (f" to {sizes[-1]}" if sizes[-1] > sizes[0] else "")
        for name, sizes in zip(names, class_sizes, strict=True)
    ]
    return f"images with each value: {', '.join(ranges)}"
