"""Score codes by the factors of images, with random and supervised codes beside."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.causal.code_inputs import standardise
from candlelight.evaluation.causal.factor_table import FactorTable, compute_codes, tabulate_factors
from candlelight.evaluation.causal.generativeness import Baseline, Decoder
from candlelight.evaluation.causal.irs import irs
from candlelight.evaluation.causal.measure_codes import (
    CODE_METRICS,
    DEFAULT_METRICS,
    MeasuredCodes,
    broken_conditions,
    check_metric_names,
    cut_at_bounds,
    measure_codes,
    pack_measured,
    unpack_measured,
)
from candlelight.evaluation.causal.rendered_counterfactuals import check_same_factors
from candlelight.evaluation.causal.score_decoder import find_decoder, score_decoded_images
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.batches import Fingerprint, make_provenance
from candlelight.evaluation.run.hidden_layers import batch_axis, layer_outputs, run_recorded
from candlelight.evaluation.run.intervals import distinct_groups
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import Codes
from candlelight.evaluation.run.result import StatisticResult, model_name, pool_seeds
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import Factors
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bars import progress_bar

if TYPE_CHECKING:
    from candlelight.evaluation.causal.control_codes import SupervisedCodes


METRIC, VERSION = "causal", 7
CODE_CONTROLS = ("random codes", "factors as codes", "supervised codes")
DCI_CODES = 10  # most codes for gradient boosting, which takes minutes
Encoder = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch codes"]]


@dataclass(frozen=True)
class _Run:
    """Everything that the scores of all encoders share."""

    data: Factors
    counterfactuals: Factors
    table: FactorTable
    metrics: tuple[str, ...]
    settings: dict[str, Any]
    described: dict[str, Any]
    device: str
    steps: FinishedSteps

    @property
    def chosen(self) -> dict[str, Any]:
        """Settings on which a finished step depends, whatever other metrics are computed."""
        return {name: self.settings[name] for name in ("factors", "bins", "splits", "seed")}


def score_causal(
    encoders: Mapping[str, Encoder | NamedModel | Codes],
    data: Factors,
    factors: Sequence[str] = (),
    *,
    metrics: Collection[str] = DEFAULT_METRICS,
    controls: bool = True,
    counterfactuals: Factors | None = None,
    baseline: Baseline = "farthest",
    bins: int = 20,
    splits: int = 5,
    seed: int = 0,
    batch_size: int = 64,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, StatisticResult]:
    """Compute the causal metrics of encoders, or of codes from another program, and of control codes.

    Continuous factors are cut into ``bins`` classes of equal width between their extremes, as in
    disentanglement_lib. Factors with a single value among the images are left out, because any code is robust
    to them. `docs/causal.md` defines the metrics; `CODE_METRICS` lists their conditions.

    Blind to: everything that the metrics are blind to, and the selection of the images. On confounded images
    the scores describe the confounded joint distribution.

    Args:
        encoders: by name: a callable from images to codes, or
            `candlelight.evaluation.run.predictions.Codes`. An encoder receives sRGB-encoded images in [0,
            1], on which most encoders are trained, or scene-linear images if its ``colour_space`` is
            "linear". A `torch.nn.Module` runs in evaluation mode and must be on ``device``. If it has a
            method ``decode`` from codes to images in [0, 1], its counterfactual generativeness is computed
            too, and the distance of decoded counterfactuals from rendered ones (`rendered_counterfactuals`).
        data: images with at least two varying factors, from `open_data("factors", ...)`.
        factors: names of the factors; none takes all that vary.
        metrics: names of `CODE_METRICS`. "dci" is left out for encoders of more than `DCI_CODES` codes.
        controls: whether to score `CODE_CONTROLS` as well: random codes, as many as those of the first
            encoder; the factors themselves; and predictions by a small network, see `supervised_codes`.
        counterfactuals: images among which rendered counterfactuals are found: a full grid, or a set of
            counterfactuals; None for ``data``.
        baseline: value that interventions give to codes of models with a decoder, see `baseline_codes`.
        bins: number of classes of a continuous factor.
        splits: number of random halves for metrics that fit something.
        seed: seed of resamples, halves, random codes and trainings.
        batch_size: images per pass.
        device: torch device of the encoders.
        steps: keeps finished batches and metrics, so that an interrupted run resumes.

    Returns:
        A result for each encoder and control, higher is better, the main score ``irs``; and one for each
        method of several seeds, see `pool_seeds`. A score is nan if it is undefined. Intervals are over
        groups of images. Notes name the conditions of metrics that the data break, and metrics that cannot be
        computed.

    Raises:
        InputError: there are no encoders or images, an encoder has the name of a control, a factor, a metric
            or the baseline is unknown, fewer than two factors vary, a factor has another value in each image,
            codes are not finite or differ in number, or the counterfactuals have other factors.
    """
    if not encoders or not metrics:
        raise InputError("expected at least one encoder and one metric, got none")
    check_metric_names(metrics)
    check_choice("baseline", baseline, Baseline)
    if controls and (taken := [name for name in encoders if name in CODE_CONTROLS]):
        raise InputError(f"a control is named `{taken[0]}`; give the encoder another name, or no controls")
    if counterfactuals is not None:
        check_same_factors(data, counterfactuals)
    named_models = identify_models(encoders, [data], "srgb", None)
    table = tabulate_factors(data, factors, bins)
    chosen = ("irs", *(name for name in CODE_METRICS if name in metrics and name != "irs"))
    fingerprint = Fingerprint()
    steps = steps or FinishedSteps()
    key = {"metric": METRIC, "version": VERSION}
    codes = compute_codes(named_models, data, batch_size, device, fingerprint, steps, **key)
    described = fingerprint.describe(data)
    settings = {
        "factors": list(table.names),
        "metrics": list(chosen),
        "bins": bins,
        "splits": splits,
        "seed": seed,
        "baseline": baseline,
    }
    if counterfactuals is None:
        counterfactuals = data
    else:
        settings["counterfactuals"] = asdict(counterfactuals.identity) | {"rows": len(counterfactuals)}
    run = _Run(data, counterfactuals, table, chosen, settings, described, device, steps)
    notes = [_class_sizes_note(table)]
    widest = max(rows.shape[1] for rows in codes.values())
    decoders = {name: found for name, one in named_models.items() if (found := find_decoder(one, device))}
    supervised = _supervise(run, notes) if controls or decoders else None
    if controls:
        added = _controls(run, next(iter(codes.values())).shape[1], supervised)
        named_models |= {
            name: NamedModel(ModelIdentity(name, "control"), rows, "srgb") for name, rows in added.items()
        }
        codes |= added
    notes += broken_conditions(table, widest, chosen)
    results = {
        name: _score(run, named, codes[name], decoders.get(name), supervised, notes)
        for name, named in named_models.items()
    }
    return results | {model_name(one): _cut(one) for one in pool_seeds(list(results.values()))}


def _cut(pooled: StatisticResult) -> StatisticResult:
    """Cut the intervals over seeds at the bounds of the scores."""
    return replace(pooled, scores={name: cut_at_bounds(name, score) for name, score in pooled.scores.items()})


def _supervise(run: _Run, notes: list[str]) -> "SupervisedCodes | None":
    """Train the networks of the supervised codes; if the images do not fit, add a note."""
    from candlelight.evaluation.causal.control_codes import (
        WEIGHTS,
        restore_supervised_codes,
        supervised_codes,
    )

    key = {"step": "supervised codes", "data": run.described, "device": run.device, **run.chosen}

    def train() -> dict[str, Tensor]:
        found = supervised_codes(run.data, run.table, seed=run.settings["seed"], device=run.device)
        weights = {f"{WEIGHTS}{name}": value.cpu() for name, value in found.heads.state_dict().items()}
        return {"codes": found.codes, "accuracy": torch.tensor(list(found.accuracy.values())), **weights}

    try:
        return restore_supervised_codes(run.steps.get_or_compute(key, train), run.table, run.device)
    except InputError as error:
        notes.append(f"supervised codes are left out: {error}")
        return None


def _controls(run: _Run, width: int, supervised: "SupervisedCodes | None") -> dict[str, Tensor]:
    """Make the codes of `CODE_CONTROLS`, all of one scale, because some metrics depend on it."""
    draws = torch.Generator().manual_seed(run.settings["seed"])
    noise = torch.randn([len(run.data), width], generator=draws, dtype=torch.float64)
    values = [noise, standardise(run.table.values)]
    if supervised is not None:
        values.append(standardise(supervised.codes, run.table.values))
    return dict(zip(CODE_CONTROLS, values, strict=False))


def _score(
    run: _Run,
    named: NamedModel,
    codes: Float[Tensor, "images codes"],
    decoder: Decoder | None,
    supervised: "SupervisedCodes | None",
    notes: Sequence[str],
) -> StatisticResult:
    """Compute all scores of one encoder."""
    name = named.identity.name
    measured = _measure(run, name, codes)
    scores = {label: score for one in measured.values() for label, score in one.scores.items()}
    details = _describe(codes, run.table, measured)
    failures = [f"{name}: no {metric}: {one.failure}" for metric, one in measured.items() if one.failure]
    if decoder is not None:
        given = (named, decoder, codes, run.data, run.counterfactuals, run.table, supervised)
        baseline, seed = run.settings["baseline"], run.settings["seed"]
        more, parts, failed = score_decoded_images(*given, baseline, seed, run.device)
        scores, details, failures = scores | more, details | parts, failures + failed
    return StatisticResult(
        make_provenance(METRIC, VERSION, "higher", named, run.described, run.settings),
        {label: cut_at_bounds(label, score) for label, score in scores.items()},
        {label: drawn for one in measured.values() for label, drawn in one.replicates.items()},
        distinct_groups(run.data.groups),
        (),
        details | {"notes": [*notes, *failures]},
    )


def _measure(run: _Run, name: str, codes: Float[Tensor, "images codes"]) -> dict[str, MeasuredCodes]:
    """Compute each metric of one encoder."""
    found = {}
    content = hashlib.sha256(codes.contiguous().numpy().tobytes()).hexdigest()
    bar = progress_bar(run.metrics, desc=name, unit="metric")
    for metric in bar:
        if metric == "dci" and codes.shape[1] > DCI_CODES:
            found[metric] = MeasuredCodes({}, {}, {}, f"{codes.shape[1]} codes, more than {DCI_CODES}")
            continue
        key = {"metric": metric, "codes": content, "version": VERSION, "data": run.described}

        def compute(metric: str = metric) -> dict[str, Tensor]:
            splits, seed = run.settings["splits"], run.settings["seed"]
            return pack_measured(measure_codes(codes, run.table, run.data.groups, metric, splits, seed))

        found[metric] = unpack_measured(run.steps.get_or_compute(key | run.chosen, compute))
    return found


def _describe(
    codes: Float[Tensor, "images codes"], table: FactorTable, measured: Mapping[str, MeasuredCodes]
) -> dict[str, Any]:
    """Collect the matrices of codes and factors, and the parents and weights of IRS."""
    found = irs(codes, table.classes)
    matrices = {name: matrix for one in measured.values() for name, matrix in one.matrices.items()}
    return {
        "codes": found.codes.tolist(),
        "matrix": found.matrix.tolist(),
        "parents": found.parents.tolist(),
        "weights": found.weights.tolist(),
        "class_sizes": [list(sizes) for sizes in found.class_sizes],
        "matrices": {name: matrix.tolist() for name, matrix in matrices.items()},
    }


def _class_sizes_note(table: FactorTable) -> str:
    """Tell how many images have each value of a factor, or lie in each of its bins."""
    sizes = [torch.bincount(classes).tolist() for classes in table.classes.T]
    ranges = [
        f"{name} {min(some)}" + (f" to {max(some)}" if max(some) > min(some) else "")
        for name, some in zip(table.names, sizes, strict=True)
    ]
    return f"images with each value: {', '.join(ranges)}"


def layer_codes(model: nn.Module, layer: str) -> Encoder:
    """Make an encoder whose codes are the mean activations of the channels of a hidden layer.

    Args:
        model: the network.
        layer: name as ``model.named_modules()`` gives it. Its output must be [batch, channels, h, w] or
            [batch, tokens, channels] or [tokens, batch, channels], which is averaged over pixels or tokens,
            or [batch, channels].

    Returns:
        An encoder for `score_causal`; it takes images in the colour space of the network.

    Example:
        >>> import torch
        >>> layer_codes(nn.Sequential(nn.Conv2d(3, 5, 3)), "0")(torch.zeros(2, 3, 9, 9)).shape
        torch.Size([2, 5])
    """

    def encode(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch codes"]:
        values = run_recorded(model, [layer], images)[1][layer]
        if values.ndim == 4:
            return values.mean((2, 3))
        if values.ndim == 3:
            alone = layer_outputs(model, [layer], images[:1])[layer].alone
            return values.movedim(batch_axis(layer, values, len(images), alone), 0).mean(1)
        if values.ndim == 2:
            return values
        raise InputError(f"layer `{layer}` gives {list(values.shape)}; expected 2, 3 or 4 axes")

    vars(encode)["colour_space"] = getattr(model, "colour_space", "srgb")
    vars(encode)["network"] = model
    return encode
