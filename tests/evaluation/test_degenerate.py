"""Every metric function with NaN, infinity, empty masks, constant maps and empty input in each argument.

The rows of `degenerate.md` are the cases: metric, argument, input, and the result or the start of the
error.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, inf, nan, nn

from candlelight.evaluation.causal import cpdag, graph_scores
from candlelight.evaluation.causal.block_scores import block_matrices
from candlelight.evaluation.causal.dci import dci, dci_es, dci_fast
from candlelight.evaluation.causal.effects import ace, cdm, composition, effectiveness, ice, reversibility
from candlelight.evaluation.causal.generativeness import baseline_codes, counterfactual_generativeness
from candlelight.evaluation.causal.information_scores import (
    infomec,
    mig,
    minimality_and_sufficiency,
    modularity,
)
from candlelight.evaluation.causal.irs import irs, irs_by_interventions, select_codes, unconfoundedness
from candlelight.evaluation.causal.prediction_scores import block_r2, explicitness, mcc, sap, t_mex
from candlelight.evaluation.concepts.activations import output_gradient, pixel_loss
from candlelight.evaluation.concepts.cav import CAVs, fit_cavs, random_cavs
from candlelight.evaluation.concepts.csm import csm
from candlelight.evaluation.concepts.sensitivity import directional_derivatives, sensitivity, significant
from candlelight.evaluation.coverage.causal_effects import (
    causal_effects,
    rank_agreement,
    rank_correlation,
    region_density,
    region_hits,
    region_mass,
    region_share,
)
from candlelight.evaluation.coverage.explanations import explanation_heatmap
from candlelight.evaluation.coverage.thresholds import Explanations, binarise, is_dead, set_threshold
from candlelight.evaluation.coverage.usual_scores import curve_area, pixel_curves, pointing_hits
from candlelight.evaluation.coverage.waiou import part_iou, waiou, weigh_iou
from candlelight.evaluation.intrinsic.constancy import chroma_drift, chroma_retention, material_variation
from candlelight.evaluation.intrinsic.image_errors import ciede2000, mse, psnr, si_mse
from candlelight.evaluation.intrinsic.judgements import count_smooth, saw_average_precision, saw_curve, whdr
from candlelight.evaluation.intrinsic.leaks import variance_shares
from candlelight.evaluation.intrinsic.lmse import (
    geometric_mean,
    lmse,
    lmse_barron,
    lmse_barron_score,
    lmse_chrislib_rgb,
    lmse_score,
    lmse_sintel,
)
from candlelight.evaluation.intrinsic.lpips import FEATURE_STACKS, LPIPS
from candlelight.evaluation.intrinsic.masked import is_failed
from candlelight.evaluation.intrinsic.material_albedo import (
    maw_chromaticity,
    maw_intensity,
    region_means,
    resize_for_maw,
)
from candlelight.evaluation.intrinsic.protocol_records import dssim_crefnet, lmse_crefnet
from candlelight.evaluation.intrinsic.ssim import dssim, ms_ssim, ssim, ssim_padded
from candlelight.evaluation.perception.curve_scores import transform_sensitivity
from candlelight.evaluation.perception.detection import (
    Transduction,
    detection_threshold,
    fit_transduction,
    mean_response,
)
from candlelight.evaluation.perception.people import fit_ellipse
from candlelight.evaluation.perception.psychometric import fit_psychometric
from candlelight.evaluation.views import Comparisons
from candlelight.loaders.errors import InputError

ROW = re.compile(r"\| `(.+)` \| (.+?) \| (.+?) \| (.+) \|")
PAGE = Path(__file__).with_name("degenerate.md")
ROWS = [row.groups() for row in map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines()) if row]


class Metric(NamedTuple):
    """A function, valid arguments, inputs that their names alone do not say, and the part that is shown.

    An input is named as in the page, "argument: input", and gives the arguments that it replaces.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]] = {}
    show: Callable[[Any], Any] = lambda result: result


def _values(*shape: int, first: float | None = None) -> Tensor:
    """Return values from 0.1 to 1 in order; ``first`` replaces the first value."""
    values = torch.linspace(0.1, 1, torch.Size(shape).numel()).reshape(shape)
    if first is not None:
        values.view(-1)[0] = first
    return values


def _all(value: float | bool, *shape: int) -> Tensor:
    return torch.full(shape, value)


def _spoilt(bad: float) -> Callable[[Tensor], Tensor]:
    return lambda given: _values(*given.shape, first=bad)


# How an input follows from the valid argument; the longest beginning of its name counts.
INPUTS: dict[str, Callable[[Any], Any]] = {
    "nan": _spoilt(nan),
    "inf": _spoilt(inf),
    "all zero": lambda given: 0 * given,
    "constant": lambda given: torch.full_like(given, 0.1),
    "negative": lambda given: -given,
    "255": lambda given: 255 * given,
    **dict.fromkeys(("empty", "nothing marked"), torch.zeros_like),
    **dict.fromkeys(("float", "numbers"), lambda given: given.float()),
    "integers": lambda given: given.long(),
    "no ": lambda given: given[:0],
    "fewer": lambda given: given[:0],
    **dict.fromkeys(("one row", "one sample"), lambda given: given[:1]),
    **dict.fromkeys(("no codes", "no factors", "no regions", "no parts"), lambda given: given[:, :0]),
    **dict.fromkeys(
        ("one code", "one factor", "one light", "one region", "one channel", "fewer regions"),
        lambda given: given[:, :1],
    ),
    "fewer materials": lambda given: given[:, :1],
    "one constant": lambda given: given * torch.tensor([1, 0]),
    "one pixel": lambda given: given[..., :1, :1],
}


def _replaced(metric: Metric, place: str, name: str) -> Mapping[str, Any]:
    """Return the arguments that an input replaces."""
    if (special := metric.inputs.get(f"{place}: {name}")) is not None:
        return special
    change = INPUTS[max(filter(name.startswith, INPUTS), key=len)]
    sized = [key for key, given in metric.arguments.items() if isinstance(given, Tensor | list)]
    places = {"all": sized, "both": sized[:2]}.get(place, place.split(", "))
    return {key: change(metric.arguments[key]) for key in places}


def _masked(function: Callable[..., Any], *shape: int) -> Metric:
    """Make a metric of images in a mask."""
    image, full = _values(1, *(shape or (20, 20))), _all(1.0, 1, *(shape[-2:] or (20, 20)))
    hole = full.clone()
    hole[0, 0, 0] = 0
    inputs: dict[str, Mapping[str, Any]] = {
        "mask: nan": {"mask": nan * full},
        "mask: inf": {"mask": inf * full},
        **{
            f"{place}: {bad} outside the mask": {place: _spoilt(bad)(image), "mask": hole}
            for place in ("prediction", "target")
            for bad in (nan, inf)
        },
    }
    return Metric(function, {"prediction": image, "target": image, "mask": full}, inputs)


def _pair(function: Callable[..., Any]) -> Metric:
    """Make a score of reflectance and shading in a mask."""
    images = ("reflectance", "shading", "true_reflectance", "true_shading")
    return MASKED._replace(
        function=function,
        arguments={**dict.fromkeys(images, _values(1, 3, 20, 20)), "mask": MASKED.arguments["mask"]},
    )


def _on_regions(function: Callable[..., Any]) -> Metric:
    """Make a score of mean colours of regions."""
    colours, weights = _values(1, 2, 3), torch.tensor([[2.0, 1.0]])
    unused = {
        f"{place}: {bad} outside the regions": {
            place: _spoilt(bad)(colours),
            "weights": torch.tensor([[0.0, 1.0]]),
        }
        for place in ("prediction", "target")
        for bad in (nan, inf)
    }
    empty = {"prediction": colours[:0, :0], "target": colours[:0, :0], "weights": weights[:0, :0]}
    arguments = {"prediction": colours, "target": colours, "weights": weights}
    return Metric(function, arguments, {**unused, "all: no rows": empty})


def _over_lights(function: Callable[..., Any], **target: Tensor) -> Metric:
    """Make a score of a scene under lights."""
    colours = _values(1, 2, 3)
    lights = torch.stack([colours, colours.flip(2)], 1)
    dark = lights * torch.tensor([1.0, 0.0])[:, None, None]
    ones = {"prediction": torch.ones(1, 2, 1, 3)}
    return Metric(
        function,
        {"prediction": lights, **target},
        {
            "prediction: zero in one light": {"prediction": dark},
            "prediction: one material, constant": ones,
            "prediction: no materials": {"prediction": lights[:, :, :0]},
            "target: gray": {"target": torch.ones(1, 2, 3)},
        },
    )


def _compared(points: Tensor | None = None, darker: int = 1, score: float = 1.0) -> list[Comparisons]:
    """Compare the first and the last pixel of the first row."""
    points = PAIRED if points is None else points
    weights = torch.full((len(points),), score, dtype=torch.float64)
    return [Comparisons(points, torch.full((len(points),), darker), weights)]


def _threshold(heatmap: Tensor) -> Tensor:
    return set_threshold(Explanations(heatmap, torch.zeros(len(heatmap), 1, dtype=torch.int64)), 0.5)


def _fit(**rows: Tensor) -> CAVs:
    return fit_cavs(**rows, generator=torch.Generator().manual_seed(0), runs=1)


def _random(**rows: Tensor) -> CAVs:
    return random_cavs(**rows, generator=torch.Generator().manual_seed(0), runs=1)


def _axis() -> CAVs:
    """One vector along the first of two axes."""
    zero = torch.zeros(1, dtype=torch.float64)
    weights = torch.tensor([[0.5, -0.5]], dtype=torch.float64)
    return CAVs(weights, (torch.tensor([[1.0, 0.0], [-1.0, 0.0]]),), zero, zero, zero + 1)


def _of_codes(function: Callable[..., Any], bins: int | None = 2, part: str = "score", **more: Any) -> Metric:
    """Make a metric of codes and factors, which shows one ``part``."""
    factors = torch.tensor([[0, 0], [0, 1], [0, 0], [0, 1], [1, 0], [1, 1], [1, 0], [1, 1]])
    return Metric(
        function,
        {"codes": _values(8, 2), "factors": factors, **({} if bins is None else {"bins": bins}), **more},
        {"bins: more than samples": {"factors": factors.float(), "bins": 9}},
        lambda result: getattr(result, part),
    )


def _dci(function: Callable[..., Any]) -> Metric:
    """Make DCI, which shows disentanglement, completeness and the accuracy on test rows."""
    factors = torch.cartesian_prod(torch.arange(2), torch.arange(2)).repeat(2, 1)
    return Metric(
        function,
        {"codes": factors.float(), "factors": factors, "train": torch.arange(4), "test": 4 + torch.arange(4)},
        {"test: rows of train": {"test": torch.arange(4)}},
        lambda result: torch.stack(
            [result.disentanglement, result.completeness, result.informativeness_test]
        ),
    )


def _decode(codes: Tensor) -> Tensor:
    """Make an image of two pixels of two codes."""
    return codes[:, None, None]


def _classify(images: Tensor) -> list[Tensor]:
    """Tell dark from bright for each of two pixels."""
    return [9 * torch.stack([0.5 - one, one - 0.5], dim=1) for one in images.flatten(1).unbind(1)]


def _effect(function: Callable[..., Any]) -> Metric:
    """Make an effect of the first of two codes on their product."""
    codes = _values(2, 2)
    return Metric(
        function,
        {
            **{"output": lambda codes: codes.prod(1, keepdim=True), "codes": codes, "columns": [0]},
            **{"values": torch.ones(1, 1), "baseline": torch.zeros(1)},
        },
        {
            "codes: nan in another code": {"codes": torch.tensor([[0.1, nan]])},
            "codes: nan in the changed code": {"codes": torch.tensor([[nan, 0.5]])},
            "baseline: the values": {"baseline": torch.ones(1), "codes": codes[:1]},
            "columns: a code that does not exist": {"columns": [2]},
        },
    )


def _cycles(function: Callable[..., Any], **more: Any) -> Metric:
    """Make an error of counterfactual images of half the brightness."""
    return Metric(
        function,
        {
            **{"counterfactual": lambda images, *_: images / 2, "images": _values(1, 1, 2, 2)},
            **{"factors": torch.zeros(1, 1, dtype=torch.int64), **more},
        },
        {
            "counterfactual: nothing changed": {"counterfactual": lambda images, *_: images},
            "counterfactual: another size": {"counterfactual": lambda images, *_: images[..., :1]},
            "cycles: 0": {"cycles": 0},
        },
    )


def _ranked(function: Callable[..., Any], first: str, count: int = 3, **show: Any) -> Metric:
    return Metric(function, {first: _values(1, count), "effect": _values(1, count)}, **show)


def _lpips() -> Callable[..., Tensor]:
    """Make LPIPS with constant weights."""
    stack = FEATURE_STACKS["squeeze"]
    features = stack.build().requires_grad_(False)
    for values in features.parameters():
        values.copy_(torch.linspace(-0.1, 0.1, values.numel()).reshape(values.shape))
    return LPIPS(stack, features, tuple(_all(1.0, 1, width, 1, 1) for width in stack.channels))


MASKED = _masked(lmse)
FULL = MASKED.arguments["mask"]
COLOURS = _values(1, 2, 3)
IMAGE, MAP = _values(1, 1, 2, 2), _values(1, 2, 2)
LOSS = {"prediction": IMAGE, "target": 2 * IMAGE}
NO_MASK = {"prediction": nan * IMAGE, "mask": _all(False, 1, 2, 2)}
ALIGNED = {"prediction: exact up to scale, aligned": {"align_scale": True}, "mask: empty": NO_MASK}
PAIRED = torch.tensor([[[0.2, 0.2], [0.8, 0.2]]]).double()
LABELS = torch.tensor([[[0, 1], [2, 2]]])
IGNORED = {"labels: all ignored": {"labels": torch.full((1, 2, 2), 100)}}
SAW = {"shading": IMAGE, "labels": LABELS, "variant": "cgintrinsics2018"}
TABLE = torch.ones(400, 3, 2, dtype=torch.float64)
REGIONS = _all(True, 1, 1, 2, 2)
BINARY, PART = torch.tensor([[[True, False]]]), torch.tensor([[[[True, True]]]])
HALVES = torch.arange(8)[:, None] // 4
PAIRS = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])  # all combinations of two factors
MANY = {"rho: more than codes": {"rho": 3}}
METRICS = {
    **{
        function.__name__: _masked(function)
        for function in (
            *(lmse, mse, si_mse, lmse_chrislib_rgb, lmse_barron, lmse_sintel, lmse_crefnet),
            *(psnr, ssim, ssim_padded, dssim, dssim_crefnet),
        )
    },
    "ms_ssim": _masked(ms_ssim, 161, 161),
    "lpips": _masked(_lpips(), 3, 20, 20),
    "lmse_score": _pair(lmse_score),
    "lmse_barron_score": _pair(lmse_barron_score),
    "is_failed": Metric(
        is_failed,
        {"prediction": _values(1, 20, 20), "mask": FULL},
        {**MASKED.inputs, "mask: empty": {"prediction": nan * _values(1, 20, 20), "mask": 0 * FULL}},
    ),
    "geometric_mean": Metric(geometric_mean, {"errors": _values(2)}),
    "ciede2000": Metric(ciede2000, {"prediction": COLOURS, "target": COLOURS}),
    "region_means": Metric(
        region_means,
        {"image": _values(1, 1, 1, 2), "regions": torch.tensor([[[1, 2]]]), "count": 2},
        {
            "image: nan outside the regions": {
                "image": _values(1, 1, 1, 2, first=nan),
                "regions": torch.tensor([[[0, 2]]]),
            },
            "regions: none": {"regions": torch.zeros(1, 1, 2, dtype=torch.int64)},
            "count: too small": {"count": 1},
        },
        lambda result: result.colours,
    ),
    "resize_for_maw": Metric(
        resize_for_maw,
        {"prediction": _all(0.5, 1, 3, 2, 2), "regions": torch.ones(1, 2, 2, dtype=torch.int64)},
        {"prediction: above 1": {"prediction": _all(9.0, 1, 3, 2, 2)}},
        lambda result: result[0].unique(),
    ),
    "maw_intensity": _on_regions(maw_intensity),
    "maw_chromaticity": _on_regions(maw_chromaticity),
    "material_variation": _over_lights(material_variation),
    "chroma_drift": _over_lights(chroma_drift),
    "chroma_retention": _over_lights(chroma_retention, target=COLOURS),
    "variance_shares": Metric(
        variance_shares,
        {
            "prediction": _values(1, 2, 2, 1, 1, 3) * torch.tensor([1, 1, 2]) ** _values(2, 1, 1, 1),
            "mask": _all(True, 1, 1, 3),
        },
        {
            "prediction: zero in one image": {
                "prediction": _values(1, 2, 2, 1, 1, 3)
                * torch.tensor([[1.0, 1], [1, 0]])[..., None, None, None]
            },
            "prediction: constant up to scales": {
                "prediction": _values(1, 2, 2, 1, 1, 1) * torch.tensor([1.0, 2, 3])
            },
            "prediction: one paint": {"prediction": _values(1, 1, 2, 1, 1, 3)},
        },
        lambda result: torch.cat(result),
    ),
    "whdr": Metric(
        whdr,
        {"reflectance": IMAGE, "comparisons": _compared()},
        {
            "reflectance: nan at no point": {"reflectance": torch.tensor([[[[0.1, 0.4], [nan, nan]]]])},
            "reflectance: all zero, judged equal": {
                "reflectance": 0 * IMAGE,
                "comparisons": _compared(darker=0),
            },
            "comparisons: none of an image": {"comparisons": _compared(PAIRED[:0])},
            "comparisons: of no image": {"comparisons": []},
            "comparisons: a point at nan": {"comparisons": _compared(nan * PAIRED)},
            "comparisons: a weight of nan": {"comparisons": _compared(score=nan)},
            "comparisons: a weight of 0": {"comparisons": _compared(score=0.0)},
            "threshold: nan": {"threshold": nan},
        },
    ),
    "saw_average_precision": Metric(
        saw_average_precision,
        SAW,
        {
            **IGNORED,
            "labels: all smooth": {"labels": torch.full((1, 2, 2), 2)},
            "labels: none smooth": {"labels": 0 * LABELS},
            "labels: another label": {"labels": torch.full((1, 2, 2), 3)},
            "image: missing in the challenge": {"variant": "challenge2018"},
            "image: constant in the challenge": {
                "variant": "challenge2018",
                "image": torch.ones(1, 3, 2, 2),
            },
        },
        lambda result: result.score,
    ),
    "count_smooth": Metric(count_smooth, SAW, IGNORED, lambda result: result[:, -1, 2, 1]),
    "saw_curve": Metric(
        saw_curve,
        {"counts": TABLE, "variant": "cgintrinsics2018"},
        {
            "counts: all found": {"counts": TABLE * torch.tensor([0.0, 1.0])},
            "counts: nothing found": {"counts": TABLE * torch.tensor([1.0, 0.0])},
            "counts: of another variant": {"counts": TABLE[:200]},
        },
        lambda result: result.score,
    ),
    "pixel_loss": Metric(pixel_loss, LOSS, {**ALIGNED, "mask: float": {"mask": _all(1.0, 1, 2, 2)}}),
    "output_gradient": Metric(
        output_gradient,
        LOSS,
        {
            **ALIGNED,
            **{
                f"prediction: {bad}": {"prediction": _all(bad, 1, 1, 1, 1), "target": _values(1, 1, 1, 1)}
                for bad in (nan, inf)
            },
        },
    ),
    "csm": Metric(
        csm,
        {name: _all(0.5, 1) for name in ("r_albedo", "s_albedo", "r_illumination", "s_illumination")},
        {
            "s_albedo: 0, under 0.5": {"s_albedo": torch.zeros(1)},
            "r_albedo, s_albedo: 0 over 0": {"r_albedo": torch.zeros(1), "s_albedo": torch.zeros(1)},
        },
        lambda result: result.csm_s,
    ),
    "directional_derivatives": Metric(
        directional_derivatives,
        {"cavs": _axis(), "gradients": _values(1, 2)},
        {"gradients: all zero": {"gradients": torch.zeros(1, 2), "scale": "cosine"}},
    ),
    "sensitivity": Metric(sensitivity, {"cavs": _axis(), "gradients": _values(1, 2)}),
    "significant": Metric(
        significant,
        {"concept_scores": _all(0.5, 3), "random_scores": _all(0.5, 4)},
        {"both: equal constants": {}, "both: different constants": {"random_scores": _all(0.25, 4)}},
        lambda result: result.p_value,
    ),
    "fit_cavs": Metric(
        _fit,
        {"concept": _values(3, 2), "negatives": -_values(3, 2)},
        {"both: no features": {"concept": torch.zeros(3, 0), "negatives": torch.zeros(3, 0)}},
        lambda result: result.norm,
    ),
    "random_cavs": Metric(_random, {"negatives": _values(4, 2)}, show=lambda result: result.norm),
    "explanation_heatmap": Metric(
        explanation_heatmap,
        {"heatmaps": _values(1, 1, 1, 2), "k": 1},
        {
            "heatmaps: constant": {"heatmaps": torch.zeros(1, 2, 1, 2)},
            "heatmaps: integers": {"heatmaps": torch.tensor([[[[0, 255]]]])},
            "heatmaps: no maps": {"heatmaps": torch.zeros(1, 0, 1, 2)},
            "heatmaps: no points": {"heatmaps": torch.zeros(1, 1, 0, 2)},
        },
        lambda result: result.heatmap,
    ),
    "set_threshold": Metric(_threshold, {"heatmap": MAP}),
    "binarise": Metric(
        binarise,
        {"heatmap": MAP, "thresholds": _all(0.1, 1)},
        {"heatmap: constant, the paper's rule": {"heatmap": _all(0.1, 1, 2, 2), "compat": "waiou2023"}},
    ),
    "is_dead": Metric(is_dead, {"heatmap": MAP}),
    "part_iou": Metric(part_iou, {"binary": BINARY, "masks": PART}),
    "weigh_iou": Metric(
        weigh_iou,
        {"iou": _all(0.5, 2, 1, 1)},
        {
            "iou: nan for all methods": {"iou": _all(nan, 2, 1, 1)},
            "iou: no images": {"iou": torch.zeros(2, 0, 1)},
            "iou: no parts": {"iou": torch.zeros(2, 1, 0)},
        },
        lambda result: result.score,
    ),
    "waiou": Metric(
        waiou,
        {"binary": BINARY[None], "masks": PART},
        {"both: no images": {"binary": BINARY[None][:, :0], "masks": PART[:0]}},
        lambda result: result.score,
    ),
    "irs": Metric(
        irs,
        {"codes": _values(8, 1), "factors": HALVES, "quantile": 1.0},
        {
            "factors: floats": {"factors": _values(8, 1)},
            "factors: as many classes as samples": {"factors": torch.arange(8)[:, None]},
        },
        lambda result: result.score,
    ),
    "mig": _of_codes(mig),
    "sap": _of_codes(sap, None),
    "modularity": _of_codes(modularity),
    "explicitness": _of_codes(explicitness),
    "mcc": _of_codes(mcc, None),
    "block_r2": _of_codes(block_r2, None),
    "block_matrices, R2": _of_codes(block_matrices, None, blocks=[[0], [1]])._replace(
        show=lambda result: result[0]
    ),
    "irs_by_interventions": Metric(
        irs_by_interventions,
        {
            **{
                "codes": _values(1, 1),
                "counterfactual_codes": -_values(2, 1),
                "samples": torch.zeros(2).long(),
            },
            "changed": torch.tensor([[True, False], [False, True]]),
        },
        {
            "changed: nothing": {"changed": torch.zeros(2, 2, dtype=torch.bool)},
            "samples: another row": {"samples": torch.ones(2).long()},
        },
        lambda result: result.score,
    ),
    "infomec": _of_codes(infomec, part="modularity"),
    "minimality_and_sufficiency": _of_codes(minimality_and_sufficiency, part="sufficiency"),
    "t_mex, number of rejections": _of_codes(t_mex, None, graph=torch.eye(2, dtype=torch.bool))._replace(
        show=lambda result: result.decisions.sum()
    ),
    "dci_es, informativeness": _of_codes(
        partial(dci_es, training=torch.arange(8) % 4 < 2), None, "informativeness"
    ),
    "cdm": Metric(
        cdm,
        {"output": torch.cos, "codes": _values(3, 1)},
        {"output: nan": {"output": lambda codes: nan * codes}},
        lambda result: result.lower,
    ),
    "dci": _dci(dci),
    "dci_fast": _dci(dci_fast),
    "unconfoundedness": Metric(
        unconfoundedness,
        {"matrix": torch.eye(2)},
        {**MANY, "matrix: no codes": {"matrix": torch.zeros(0, 2)}},
    ),
    "select_codes": Metric(select_codes, {"matrix": torch.eye(2)}, MANY),
    "graph_scores, SHD": Metric(
        graph_scores,
        {"estimate": torch.ones(2, 2).triu(1), "truth": torch.ones(2, 2).tril(-1)},
        {
            "truth: no edges": {"truth": torch.zeros(2, 2)},
            "estimate: nan": {"estimate": nan * torch.ones(2, 2)},
            "estimate: weights": {"estimate": 0.5 * torch.ones(2, 2).triu(1)},
            "both: no nodes": {"estimate": torch.zeros(0, 0), "truth": torch.zeros(0, 0)},
        },
        lambda result: result.shd,
    ),
    "cpdag": Metric(
        cpdag,
        {"adjacency": torch.ones(2, 2).triu(1)},
        {"adjacency: undirected": {"adjacency": 1 - torch.eye(2)}},
    ),
    "baseline_codes": Metric(baseline_codes, {"codes": _values(2, 1)}),
    "ice": _effect(ice),
    "ace": _effect(ace),
    "counterfactual_generativeness": Metric(
        counterfactual_generativeness,
        {
            **{"codes": PAIRS.float(), "factors": PAIRS, "code_sets": [[0], [1]]},
            **{"decoder": _decode, "classifier": _classify, "accuracy": {"one": 1.0, "other": 1.0}},
        },
        {
            "factors: one of a single class": {"factors": PAIRS * torch.tensor([1, 0])},
            "accuracy: nan": {"accuracy": {"one": nan, "other": nan}},
            "decoder: nan": {"decoder": lambda codes: nan * _decode(codes)},
            "classifier: nan": {"classifier": lambda images: _classify(nan * images)},
        },
        lambda result: result.score,
    ),
    "effectiveness": Metric(
        effectiveness,
        {"classifier": _classify, "images": _decode(PAIRS[:1].float()), "factors": PAIRS[:1]},
        {
            "images: inf": {"images": torch.tensor([[[[0.0, inf]]]])},
            "factors: another class": {"factors": 2 + PAIRS[:1]},
        },
    ),
    "composition": _cycles(composition),
    "reversibility": _cycles(reversibility, changed=torch.ones(1, 1, dtype=torch.int64)),
    "causal_effects": Metric(
        causal_effects,
        {"logits": _values(1, 2), "changed": -_values(1, 1, 2)},
        {
            "both: equal": {"changed": _values(1, 1, 2)},
            "changed: no counterfactuals": {"changed": torch.zeros(1, 0, 2)},
            "changed: other classes": {"changed": _values(1, 1, 3)},
        },
    ),
    "region_density": Metric(region_density, {"heatmap": MAP, "regions": REGIONS}),
    "region_mass": Metric(region_mass, {"heatmap": MAP, "regions": REGIONS}),
    "region_share": Metric(
        region_share, {"marked": MAP > 0.5, "regions": REGIONS}, {"marked: numbers": {"marked": MAP}}
    ),
    "rank_agreement": _ranked(rank_agreement, "density"),
    "rank_correlation": _ranked(rank_correlation, "stated"),
    "region_hits": _ranked(region_hits, "density", 4, show=lambda result: result.hit),
    "pixel_curves": Metric(
        partial(pixel_curves, nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), steps=2),
        {"images": torch.ones(1, 3, 1, 2), "maps": _values(1, 1, 2), "targets": torch.tensor([0])},
        {"images: nan": {"images": torch.full((1, 3, 1, 2), nan)}},
    ),
    "curve_area": Metric(
        curve_area, {"curves": _values(1, 3)}, {"curves: one point": {"curves": _values(1, 1)}}
    ),
    "pointing_hits": Metric(
        partial(pointing_hits, tolerance=0), {"maps": _values(1, 1, 4), "masks": _values(1, 1, 4) > 0.5}
    ),
    "mean_response": Metric(mean_response, {"distances": _values(2, 2)}),
    "fit_transduction, converged": Metric(
        fit_transduction,
        {"distances": _values(4), "ratings": _values(4)},
        {"distances: falling": {"distances": _values(4).flip(0)}},
        lambda result: torch.tensor(result.converged),
    ),
    "detection_threshold": Metric(
        partial(detection_threshold, transduction=Transduction(1.0, 1.0)),
        {"distances": _values(1, 4) - 0.1, "magnitudes": torch.arange(4.0)},
        {
            "distances: below D_T": {"distances": 0.1 * _values(1, 4)},
            "distances: above D_T": {"distances": _values(1, 4) + 1},
        },
        lambda result: result.score,
    ),
    "fit_psychometric, converged": Metric(
        partial(fit_psychometric, trials=torch.full((6,), 40)),
        {"levels": torch.arange(6.0), "correct": torch.tensor([20, 21, 26, 34, 38, 39])},
        {
            "correct: chance": {"correct": torch.full((6,), 20)},
            "correct: all": {"correct": torch.full((6,), 40)},
            "correct: more than trials": {"correct": torch.full((6,), 41)},
        },
        lambda result: torch.tensor(result.converged),
    ),
    "transform_sensitivity": Metric(
        partial(transform_sensitivity, magnitudes=torch.arange(2.0)),
        {"energies": _values(1, 2), "threshold": 1.0},
        {"threshold: inf": {"threshold": inf}, "threshold: nan": {"threshold": nan}},
    ),
    "fit_ellipse, semi-major axis": Metric(
        fit_ellipse,
        {"points": torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.6, 0.6], [1.6, -0.6]])},
        show=lambda result: result.major,
    ),
}


def _outcome(metric: Metric, replaced: Mapping[str, Any]) -> str:
    """Return the result in the form of the table."""
    try:
        result = metric.show(metric.function(**{**metric.arguments, **replaced}))
    except InputError as error:
        return f"error: {error}"
    values = torch.as_tensor(result).flatten().tolist()
    shown = [
        str(value).lower() if isinstance(value, bool) else f"{round(value, 4) + 0:g}" for value in values
    ]
    return " ".join(shown) or "none"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", METRICS)
def test_outcomes_are_those_of_the_page(name: str) -> None:
    metric = METRICS[name]
    valid = _outcome(metric, {})
    assert "error" not in valid
    assert "nan" not in valid
    expected = {(place, case): outcome for given, place, case, outcome in ROWS if given == name}
    found = {row: _outcome(metric, _replaced(metric, *row)) for row in expected}
    assert not any("\n" in outcome for outcome in found.values())
    # An error of the page is the beginning of a message.
    starts = {
        row: found[row][: len(text) if text.startswith("error") else None] for row, text in expected.items()
    }
    assert starts == expected


def test_page_and_inputs_name_the_same_metrics() -> None:
    assert {name for name, *_ in ROWS} == set(METRICS)
    rows = {f"{place}: {case}" for _, place, case, _ in ROWS}
    assert {row for metric in METRICS.values() for row in metric.inputs} <= rows
