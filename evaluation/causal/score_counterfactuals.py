"""The evaluation of decoders by rendered counterfactuals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.causal_options import CounterfactualsOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.causal.factor_data import open_with_counterfactuals
from candlelight.evaluation.causal.factor_table import Encoded, encode_data, encode_images, shrink_for_heads
from candlelight.evaluation.causal.generativeness import Decoder, resize_decoded
from candlelight.evaluation.causal.irs import irs, select_codes
from candlelight.evaluation.causal.measure_codes import RHO
from candlelight.evaluation.causal.rendered_counterfactuals import (
    RenderedPairs,
    changed_pixels,
    check_same_factors,
    decoded_errors,
    find_rendered_pairs,
    image_errors,
    rendered_score,
    rendered_share,
)
from candlelight.evaluation.causal.score_generativeness import Scored, decoder_results, find_decoders
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.intervals import Score, mean_interval, resampled_interval
from candlelight.evaluation.run.result import Result
from candlelight.evaluation.views import Factors
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.errors import InputError, argument

LEAST_GAIN = 0.01  # share of the error by which an image must come nearer when all codes change
RENDERED_PAIRS = 200  # most pairs of each factor
_BATCH = 64
_NAME = "rendered_counterfactual"
# Columns of `ScoredFactor.errors`: images that no decoder makes, decoded images, then those of each of `RHO`.
_GIVEN_BACK, _MEAN, _NEAREST, _NONE, _ALL, _FIRST = range(6)
_CONTROLS = {
    _ALL: "all codes",
    _GIVEN_BACK: "input given back",
    _MEAN: "mean image",
    _NEAREST: "nearest other frame",
}
_IMAGE, _REGION = range(2)


class ScoredFactor(NamedTuple):
    """Errors of the pairs of one factor.

    Attributes:
        pairs: rows of the pairs.
        codes: for each of `RHO`, the codes of the factor.
        errors: `image_errors` of each pair: of the image that is given back, of the mean image, and of the
            nearest other frame; of decoded images if no code changes, and with all codes of the
            counterfactual; then for each of `RHO`, if the codes of the factor change to those of the donor,
            and if as many random codes do.
    """

    pairs: RenderedPairs
    codes: dict[int, Int[Tensor, " selected"]]
    errors: Float[Tensor, "pairs columns 2"]


def _score_counterfactuals(run: Run[CounterfactualsOptions]) -> dict[str, Result]:
    """Compare decoded with rendered counterfactuals, by `rendered_counterfactuals`.

    All is computed on the device. At most `RENDERED_PAIRS` pairs are drawn for each factor. A factor is not
    decoded if the decoded image does not come nearer to the counterfactual when all codes change: by 1 % of
    the error, and as far as the 95 % interval tells.

    Returns:
        A result for each model, with intervals over resampled groups of the factual images, for the selected
        codes as given. For each of `RHO` with the codes of each factor: over the image, in the
        changed region, and the share of what all codes reach; and over the image with as many codes chosen at
        random among all that vary. Then the controls, over the image and in the region: all codes; the image
        given back; the mean of the factual images; and another frame with the new value of the factor that
        has as many other factors of the counterfactual as any. All factors count. A factor that is not
        decoded counts as 0 in the share, and as its own score, but no more than 0, in the others, because a
        decoder that ignores the codes may be nearer to the counterfactual than the input is. Details are by
        factor, as they are. And a result for each method of several seeds, see `pool_seeds`.

    Raises:
        InputError: a model has no decoder, or the counterfactuals have other factors.
    """
    images, others = run.data.images, run.data.counterfactuals
    check_same_factors(images, others)
    run = replace(run, data=images)
    decoders = find_decoders(run)
    encoded = encode_data(run)

    def score(name: str) -> Scored:
        scores, details = _score(encoded, name, decoders[name], others)
        return scores, details, _notes(name, details)

    given = asdict(others.identity) | {"rows": len(others)} if others is not images else None
    what = "score of rendered counterfactuals"
    return decoder_results(encoded, "rendered", what, list(_labels(RHO)), score, counterfactuals=given)


def _score(
    encoded: Encoded, name: str, decoder: Decoder, counterfactuals: Factors
) -> tuple[dict[str, Score], dict[str, Any]]:
    """Score one decoder.

    Raises:
        InputError: there are no pairs, see `find_rendered_pairs`, `select_codes` and `decoded_errors`.
    """
    data, table, seed = encoded.run.data, encoded.table, encoded.run.options.seed
    everything = find_rendered_pairs(data, counterfactuals, table.names, RENDERED_PAIRS, seed)
    some = {name: pairs for name, pairs in everything.items() if len(pairs.factual)}
    if not some:
        raise InputError(
            f"no two images differ in one factor only; give a grid, or {argument('counterfactuals')}"
        )
    scored = _scored_factors(encoded, name, decoder, counterfactuals, some)
    visible = {name: one for name, one in scored.items() if bool((one.errors[:, _GIVEN_BACK] > 0).any())}
    if not visible:
        raise InputError("no two images that differ in one factor only look different; check the images")
    groups = {name: [data.groups[row] for row in one.pairs.factual] for name, one in visible.items()}
    kept = [name for name, one in visible.items() if _comes_nearer(one.errors[:, :, _IMAGE], groups[name])]
    numbers = list(next(iter(visible.values())).codes)
    scores, by_factor = _intervals(visible, groups, numbers, kept, seed)
    details = _describe(visible, kept, by_factor, everything)
    for name, one in visible.items():
        first, other = int(one.pairs.factual[0]), int(one.pairs.rendered[0])
        ids = [counterfactuals.ids[row] for row in (other, int(one.pairs.donors[0]))]
        details["factors"][name]["example"] = [data.ids[first], *ids]
    return scores, details


def _scored_factors(
    encoded: Encoded,
    model: str,
    decoder: Decoder,
    counterfactuals: Factors,
    everything: Mapping[str, RenderedPairs],
) -> dict[str, ScoredFactor]:
    """Compute the errors of the pairs of each factor."""
    run, table, codes = encoded.run, encoded.table, encoded.codes[model]
    named, device, seed = run.models[model], run.device, run.options.seed
    found = irs(codes, table.classes.to(device))
    sets = {rho: select_codes(found, rho) for rho in RHO if rho <= len(found.codes)}
    originals = {name: read_small(run.data, pairs.factual, device) for name, pairs in everything.items()}
    mean = torch.stack([images.double().mean(0) for images in originals.values()]).mean(0)
    scored = {}
    for name, images in originals.items():
        pairs, column = everything[name], table.names.index(name)
        rendered, targets = _encode(named, counterfactuals, pairs.rendered, device)
        _, donors = _encode(named, counterfactuals, pairs.donors, device)
        chosen = {rho: some[column] for rho, some in sets.items()}
        own = codes[torch.from_numpy(pairs.factual).to(device)].to(targets.dtype)
        draws = named_stream(seed, f"random codes {name}").random((len(own), len(found.codes)))
        shuffled = found.codes[torch.from_numpy(draws).argsort(1).to(device)]
        frames = read_small(
            counterfactuals, nearest_frames(counterfactuals, pairs.rendered, name, seed), device
        )
        shape = "pairs channels height width"
        check_shapes(data=(images, shape), counterfactuals=(rendered, shape))
        region = changed_pixels(images, rendered)
        fixed = [image_errors(some, rendered, region) for some in (images, mean.expand_as(images), frames)]
        small = resize_decoded(decoder, rendered.shape[2:])
        moved = [own, targets, *_interventions(own, donors, chosen, shuffled)]
        decoded = [decoded_errors(small, some, rendered, region) for some in moved]
        scored[name] = ScoredFactor(pairs, chosen, torch.stack([*fixed, *decoded], dim=1))
    return scored


def read_small(
    view: Factors, rows: Int[ndarray, " rows"], device: str
) -> Float[Tensor, "rows 3 height width"]:
    """Read images, small enough to compare."""
    return torch.stack([shrink_for_heads(view[int(row)].to(device)) for row in rows])


def _encode(
    named: NamedModel, view: Factors, rows: Int[ndarray, " pairs"], device: str
) -> tuple[Float[Tensor, "pairs 3 height width"], Float[Tensor, "pairs codes"]]:
    """Read images, small enough to compare, and encode them at their own size."""
    images, codes = [], []
    for start in range(0, len(rows), _BATCH):
        some = torch.stack([view[int(row)] for row in rows[start : start + _BATCH]]).to(device)
        images.append(torch.stack([shrink_for_heads(image) for image in some]))
        codes.append(encode_images(named, some, device).float())
    return torch.cat(images), torch.cat(codes)


def nearest_frames(
    view: Factors, rendered: Int[ndarray, " pairs"], name: str, seed: int
) -> Int[ndarray, " pairs"]:
    """Find other frames with the value of a factor that share as many of the other factors as any."""
    draws = named_stream(seed, f"nearest frames {name}")
    column = [info.name for info in view.factors].index(name)
    found = []
    for row in rendered:
        equal = view.table == view.table[row]
        alike = np.where(equal[:, column], equal.sum(1), -1)
        alike[row] = -1
        found.append(draws.choice(np.flatnonzero(alike == alike.max())))  # the donor is one at least
    return np.array(found)


def _interventions(
    codes: Float[Tensor, "pairs codes"],
    donors: Float[Tensor, "pairs codes"],
    chosen: Mapping[int, Int[Tensor, " selected"]],
    shuffled: Int[Tensor, "pairs varying"],
) -> list[Float[Tensor, "pairs codes"]]:
    """Set the chosen codes, and then as many random ones, to those of the donors, for each of `RHO`."""
    moved = []
    for rho, own in chosen.items():
        for one in (own.expand(len(codes), -1), shuffled[:, :rho]):
            changed = torch.zeros(codes.shape, dtype=torch.bool, device=codes.device).scatter(1, one, True)
            moved.append(torch.where(changed, donors, codes))
    return moved


def _comes_nearer(errors: Float[Tensor, "pairs columns"], groups: Sequence[str]) -> bool:
    """Tell whether images come nearer to the counterfactuals when all codes change.

    The images of an untrained decoder may come nearer with certainty, but by far less than `LEAST_GAIN`.
    """
    gain = mean_interval((errors[:, _NONE] - errors[:, _ALL]).tolist(), groups)
    return gain.value > LEAST_GAIN * float(errors[:, _NONE].mean()) and not gain.low <= 0


def _labels(numbers: Sequence[int]) -> dict[str, tuple[int, int | None]]:
    """Name the scores: the column of errors of each, and the part of the image; None for the share."""
    labels: dict[str, tuple[int, int | None]] = {}
    column = _FIRST
    for rho in numbers:
        name = f"{_NAME}({rho})"
        labels |= {name: (column, _IMAGE), f"{name}, changed region": (column, _REGION)}
        labels |= {f"{name}, random choice": (column + 1, _IMAGE), f"{name}, share": (column, None)}
        column += 2
    for place, control in _CONTROLS.items():
        labels[f"{_NAME}, {control}"] = (place, _IMAGE)
        labels[f"{_NAME}, {control}, changed region"] = (place, _REGION)
    return labels


def _intervals(
    scored: Mapping[str, ScoredFactor],
    groups: Mapping[str, Sequence[str]],
    numbers: Sequence[int],
    decoded: Sequence[str],
    seed: int,
) -> tuple[dict[str, Score], dict[str, dict[str, Score]]]:
    """Compute the scores of each factor, and their means."""
    labels = _labels(numbers)
    errors = torch.cat([one.errors for one in scored.values()]).numpy(force=True)
    factors = np.repeat(np.arange(len(scored)), [len(one.errors) for one in scored.values()])
    undecoded = torch.tensor([name not in decoded for name in scored])

    def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
        means = torch.from_numpy(_means_by_factor(errors[rows], factors[rows], len(scored)))
        found: dict[str, float] = {}
        for label, (column, part) in labels.items():
            if part is None:
                image = means[:, :, _IMAGE]
                values = rendered_share(image[:, column], image[:, _NONE], image[:, _ALL])
                counted = torch.where(undecoded, 0.0, values)
            else:
                values = rendered_score(means[:, column, part], means[:, _GIVEN_BACK, part])
                counted = torch.where(undecoded, values.clamp(max=0), values) if column >= _NONE else values
            found |= {f"{name}:{label}": float(value) for name, value in zip(scored, values, strict=True)}
            found[label] = float(counted.mean())
        return found

    flat = [group for name in scored for group in groups[name]]
    scores, _ = resampled_interval(statistic, flat, seed)
    by_factor = {name: {label: scores[f"{name}:{label}"] for label in labels} for name in scored}
    return {label: scores[label] for label in labels}, by_factor


def _means_by_factor(
    errors: Float64[ndarray, "rows columns 2"], factors: Int[ndarray, " rows"], count: int
) -> Float64[ndarray, "factors columns 2"]:
    """Average the errors of each factor; nan for one without rows."""
    columns = errors.reshape(len(errors), -1).T
    sums = np.stack([np.bincount(factors, column, count) for column in columns], axis=1)
    rows = np.bincount(factors, minlength=count)[:, None]
    means = np.divide(sums, rows, out=np.full(sums.shape, np.nan), where=rows > 0)
    return means.reshape(count, *errors.shape[1:])


def _describe(
    scored: Mapping[str, ScoredFactor],
    kept: Sequence[str],
    by_factor: Mapping[str, Mapping[str, Score]],
    everything: Mapping[str, RenderedPairs],
) -> dict[str, Any]:
    """Collect the details of each factor, those that are not decoded, and those that cannot be scored."""
    factors = {
        name: {
            "pairs": len(one.pairs.factual),
            "same_group": int(one.pairs.same_group.sum()),
            "codes": {str(rho): some.tolist() for rho, some in one.codes.items()},
            "error_none": float(one.errors[:, _NONE, _IMAGE].mean()),
            "error_all": float(one.errors[:, _ALL, _IMAGE].mean()),
            "error_given_back": float(one.errors[:, _GIVEN_BACK, _IMAGE].mean()),
            "scores": {
                label: [score.value, score.low, score.high] for label, score in by_factor[name].items()
            },
        }
        for name, one in scored.items()
    }
    not_decoded = [name for name in scored if name not in kept]
    without_pairs = [name for name in everything if name not in scored]
    return {"factors": factors, "not_decoded": not_decoded, "without_pairs": without_pairs}


def _notes(name: str, rendered: dict[str, Any]) -> list[str]:
    """Tell which factors the decoder does not show or have no pairs, and which pairs share only factors."""
    notes = []
    if missing := rendered["not_decoded"]:
        notes.append(
            f"{name}: rendered_counterfactual: {', '.join(missing)} count as 0 or less: images come no nearer"
        )
    if missing := rendered["without_pairs"]:
        notes.append(
            f"rendered_counterfactual leaves out {', '.join(missing)}: no two images that differ in it alone "
            "look different"
        )
    factors = rendered["factors"].values()
    pairs, same = (sum(one[label] for one in factors) for label in ("pairs", "same_group"))
    if same < pairs:
        notes.append(
            f"rendered_counterfactual: {pairs - same} of {pairs} pairs share their other factors, but no "
            "unit; variables that are no factors, such as a drawn position, may differ as well"
        )
    return notes


RENDERED_COUNTERFACTUALS = Evaluation(
    name="counterfactuals",
    version=7,
    better="higher",
    options=CounterfactualsOptions,
    reads=Reading(open=open_with_counterfactuals, space="srgb"),
    study=_score_counterfactuals,
    page="candlelight.evaluation.causal.causal_report:COUNTERFACTUALS_PAGE",
)
