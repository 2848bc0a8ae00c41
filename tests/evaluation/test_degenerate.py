"""Every metric function with NaN, infinity, empty masks, constant maps and empty input in each argument.

`docs/degenerate.md` shows the table; ``python tests/evaluation/test_degenerate.py`` writes the table again.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import unwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, inf, nan

from candlelight.evaluation.causal.dci import dci, dci_es, dci_fast
from candlelight.evaluation.causal.effects import ace, cdm, composition, effectiveness, ice, reversibility
from candlelight.evaluation.causal.generativeness import baseline_codes, counterfactual_generativeness
from candlelight.evaluation.causal.information_scores import (
    infomec,
    mig,
    minimality_and_sufficiency,
    modularity,
)
from candlelight.evaluation.causal.irs import irs, select_codes, unconfoundedness
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
from candlelight.evaluation.coverage.waiou import part_iou, waiou, weigh_iou
from candlelight.evaluation.intrinsic.constancy import chroma_drift, chroma_retention, material_variation
from candlelight.evaluation.intrinsic.image_errors import ciede2000, mse, psnr, si_mse
from candlelight.evaluation.intrinsic.judgements import count_smooth, saw_average_precision, saw_curve, whdr
from candlelight.evaluation.intrinsic.lmse import (
    geometric_mean,
    lmse,
    lmse_barron,
    lmse_barron_score,
    lmse_chrislib_rgb,
    lmse_score,
    lmse_sintel,
)
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
from candlelight.evaluation.perception.lpips import FEATURE_STACKS, LPIPS
from candlelight.evaluation.perception.people import fit_ellipse
from candlelight.evaluation.perception.psychometric import fit_psychometric
from candlelight.evaluation.views import Comparisons
from candlelight.loaders.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "degenerate.md"
HEAD = """\
# Degenerate input

Results of the metric functions for a NaN, an infinity, an empty mask, a constant map and input without
entries, in each argument. A test makes this table and compares it with the functions. "error" is an
`InputError` whose message starts with these words; "none" is a result without entries.

A score that is nan has either a failed prediction, which `is_failed` tells, or a truth that leaves the score
undefined. A failed prediction counts as 1 in LMSE and WHDR; an undefined truth is left out and counted.

"""


def _values(*shape: int, first: float | None = None) -> Tensor:
    """Return values from 0.1 to 1 in order; ``first`` replaces the first value."""
    values = torch.linspace(0.1, 1, torch.Size(shape).numel()).reshape(shape)
    if first is not None:
        values.view(-1)[0] = first
    return values


def _all(value: float | bool, *shape: int) -> Tensor:
    return torch.full(shape, value)


Cases = tuple[tuple[str, str, Mapping[str, Any], str], ...]


class Metric(NamedTuple):
    """A function, valid arguments, and cases: argument, input, replaced arguments, outcome."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    cases: Cases
    show: Callable[[Any], Any] = lambda result: result


def _masks(full: Tensor) -> Cases:
    """Make the cases of masks from a mask of ones."""
    return (
        ("mask", "empty", {"mask": 0 * full}, "nan"),
        ("mask", "nan", {"mask": nan * full}, "error: `mask` must lie from 0 to 1, got nan to nan"),
        ("mask", "inf", {"mask": inf * full}, "error: `mask` must lie from 0 to 1, got inf to inf"),
        ("mask", "negative", {"mask": -full}, "error: `mask` must lie from 0 to 1, got -1 to -1"),
        ("mask", "255", {"mask": 255 * full}, "error: `mask` must lie from 0 to 1, got 255 to 255; divide"),
    )


IMAGE, FULL = _values(1, 20, 20), _all(1.0, 1, 20, 20)
HOLE = FULL.clone()
HOLE[0, 0, 0] = 0
NOTHING = torch.zeros(0, 20, 20)
MASKS = _masks(FULL)


def _masked(
    function: Callable[..., Any],
    black: str,
    unlit: str,
    *,
    small: str,
    exact: str = "0",
    shape: tuple[int, ...] = (20, 20),
) -> Metric:
    """Make the cases of a metric of images; an all-zero prediction gives `black`, a target `unlit`.

    An exact prediction gives `exact`, and `small` for images of one pixel.
    """
    image, full = _values(1, *shape), _all(1.0, 1, *shape[-2:])
    hole = full.clone()
    hole[0, 0, 0] = 0
    pixel = {"prediction": image[..., :1, :1], "target": image[..., :1, :1], "mask": full[:, :1, :1]}
    none = {"prediction": image[:0], "target": image[:0], "mask": full[:0]}
    cases = [
        ("prediction", "all zero", {"prediction": 0 * image}, black),
        ("target", "all zero", {"target": 0 * image}, unlit),
        *_masks(full),
        ("all", "one pixel", pixel, small),
        ("all", "no rows", none, "none"),
        ("target", "fewer rows", {"target": image[:0]}, "error: expected `prediction` [batch"),
    ]
    for place in ("prediction", "target"):
        for bad in (nan, inf):
            spoilt = {place: _values(1, *shape, first=bad)}
            cases.append((place, f"{bad} inside the mask", spoilt, "nan"))
            cases.append((place, f"{bad} outside the mask", {**spoilt, "mask": hole}, exact))
    return Metric(function, {"prediction": image, "target": image, "mask": full}, tuple(cases))


COLOURS = _values(1, 2, 3)
AREAS = torch.tensor([[2.0, 1.0]])


def _on_regions(function: Callable[..., Any], black: str, unlit: str) -> Metric:
    """Make the cases of a score of mean colours; an all-zero prediction gives `black`, a target `unlit`."""
    empty = {"prediction": COLOURS[:, :0], "target": COLOURS[:, :0], "weights": AREAS[:, :0]}
    used, unused = torch.tensor([[0.0, 1.0]]), "outside the regions"
    cases = [
        ("prediction", "all zero", {"prediction": 0 * COLOURS}, black),
        ("target", "all zero", {"target": 0 * COLOURS}, unlit),
        ("weights", "all zero", {"weights": 0 * AREAS}, "nan"),
        ("weights", "nan", {"weights": nan * AREAS}, "error: `weights` must be numbers of pixels, >= 0"),
        ("weights", "negative", {"weights": -AREAS}, "error: `weights` must be numbers of pixels, >= 0"),
        ("all", "no regions", empty, "nan"),
        ("all", "no rows", {name: one[:0] for name, one in empty.items()}, "none"),
        (
            "target",
            "fewer regions",
            {"target": COLOURS[:, :1]},
            "error: expected `prediction` [batch, regions",
        ),
    ]
    for place in ("prediction", "target"):
        for bad in (nan, inf):
            spoilt = {place: _values(1, 2, 3, first=bad)}
            cases.append((place, f"{bad} in a region", spoilt, "nan"))
            cases.append((place, f"{bad} {unused}", {**spoilt, "weights": used}, "0"))
    return Metric(function, {"prediction": COLOURS, "target": COLOURS, "weights": AREAS}, tuple(cases))


LIGHTS = torch.stack([COLOURS, COLOURS.flip(2)], 1)


def _over_lights(function: Callable[..., Any], constant: str, one_material: str) -> Metric:
    """Make the cases of a score of a scene under lights."""
    dark = LIGHTS.clone()
    dark[:, 1] = 0
    arguments = {"prediction": LIGHTS}
    cases = [
        ("prediction", "nan", {"prediction": _values(1, 2, 2, 3, first=nan)}, "nan"),
        ("prediction", "inf", {"prediction": _values(1, 2, 2, 3, first=inf)}, "nan"),
        ("prediction", "constant", {"prediction": torch.ones(1, 2, 2, 3)}, constant),
        ("prediction", "zero in one light", {"prediction": dark}, "nan"),
        (
            "prediction",
            "one light",
            {"prediction": LIGHTS[:, :1]},
            "error: constancy needs at least 2 lights",
        ),
        ("prediction", "no rows", {"prediction": LIGHTS[:0]}, "none"),
    ]
    if function is chroma_retention:
        arguments["target"] = COLOURS
        cases[-1] = ("both", "no rows", {"prediction": LIGHTS[:0], "target": COLOURS[:0]}, "none")
        cases += [
            ("target", "nan", {"target": _values(1, 2, 3, first=nan)}, "nan"),
            ("target", "gray", {"target": torch.ones(1, 2, 3)}, one_material),
            (
                "target",
                "fewer materials",
                {"target": COLOURS[:, :1]},
                "error: expected `prediction` [batch, lights",
            ),
        ]
    else:
        cases += [
            ("prediction", "one material, constant", {"prediction": torch.ones(1, 2, 1, 3)}, one_material),
            ("prediction", "no materials", {"prediction": LIGHTS[:, :, :0]}, "nan"),
        ]
    return Metric(function, arguments, tuple(cases))


COLOUR = _values(1, 3, 20, 20)
MAP = _values(1, 2, 2)
BINARY, PART = torch.tensor([[[True, False]]]), torch.tensor([[[[True, True]]]])
LOSS = {"prediction": _values(1, 1, 2, 2), "target": 2 * _values(1, 1, 2, 2)}
EMPTY = {"mask": _all(False, 1, 2, 2)}
NO_IMAGES = {"prediction": torch.zeros(0, 1, 2, 2), "target": torch.zeros(0, 1, 2, 2)}
SETS = {name: _all(0.5, 1) for name in ("r_albedo", "s_albedo", "r_illumination", "s_illumination")}
HALVES = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])[:, None]
PAIRS = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])  # all combinations of two factors
CLASSES = torch.cartesian_prod(torch.arange(2), torch.arange(2)).repeat(2, 1)


PAIRED = torch.tensor([[[0.2, 0.2], [0.8, 0.2]]]).double()  # the first and the last pixel of the first row
LABELS = torch.tensor([[[0, 1], [2, 2]]])
TABLE = torch.ones(400, 3, 2, dtype=torch.float64)


def _compared(points: Tensor = PAIRED, darker: int = 1, score: float = 1.0) -> list[Comparisons]:
    """Make comparisons of one image without the type checks of jaxtyping."""
    made = object.__new__(Comparisons)
    weights = torch.full((len(points),), score, dtype=torch.float64)
    unwrap(Comparisons.__init__)(made, points, torch.full((len(points),), darker), weights)
    return [made]


def _explained(heatmap: Tensor) -> Explanations:
    """Make explanations without the type checks of jaxtyping."""
    made = object.__new__(Explanations)
    unwrap(Explanations.__init__)(made, heatmap, torch.zeros(len(heatmap), 1, dtype=torch.int64))
    return made


def _threshold(heatmap: Tensor) -> Tensor:
    return unwrap(set_threshold)(_explained(heatmap), 0.5)


def _fit(**rows: Tensor) -> CAVs:
    return unwrap(fit_cavs)(**rows, generator=torch.Generator().manual_seed(0), runs=1)


def _random(**rows: Tensor) -> CAVs:
    return unwrap(random_cavs)(**rows, generator=torch.Generator().manual_seed(0), runs=1)


def _axis() -> CAVs:
    """One vector along the first of two axes."""
    zero = torch.zeros(1, dtype=torch.float64)
    weights = torch.tensor([[0.5, -0.5]], dtype=torch.float64)
    return CAVs(weights, (torch.tensor([[1.0, 0.0], [-1.0, 0.0]]),), zero, zero, zero + 1)


def _not_finite(place: str, shape: tuple[int, ...], error: str) -> Iterator[tuple[str, str, dict, str]]:
    """Make cases of a NaN and an infinity in one argument, which give the same error."""
    for bad in (nan, inf):
        yield place, str(bad), {place: _values(*shape, first=bad)}, f"error: {error}"


def _of_codes(
    function: Callable[..., Any],
    one_constant: str,
    bins: int | None = 2,
    least: int = 1,
    show: Callable[[Any], Any] = lambda result: result.score,
) -> Metric:
    """Make the cases of a metric of codes and factors; with one of two factors constant: `one_constant`."""
    both = torch.tensor([[0, 0], [0, 1], [0, 0], [0, 1], [1, 0], [1, 1], [1, 0], [1, 1]])
    vary = f"error: at least {least} of the factors must vary among the"
    cases = [
        *_not_finite("codes", (8, 2), "`codes` must be finite, got nan or inf"),
        *_not_finite("factors", (8, 2), "`factors` must be finite, got nan or inf"),
        ("codes", "constant", {"codes": _all(0.1, 8, 2)}, "0"),
        (
            "codes",
            "no codes",
            {"codes": torch.zeros(8, 0)},
            "error: `codes` needs at least one code, got none",
        ),
        ("factors", "constant", {"factors": 0 * both}, f"{vary} 8 samples, got 0"),
        ("factors", "one constant", {"factors": both * torch.tensor([1, 0])}, one_constant),
        ("factors", "no factors", {"factors": both[:, :0]}, f"{vary} 8 samples, got 0"),
        ("both", "one sample", {"codes": _values(1, 2), "factors": both[:1]}, f"{vary} 1 samples, got 0"),
        ("both", "no samples", {"codes": _values(8, 2)[:0], "factors": both[:0]}, f"{vary} 0 samples, got 0"),
        ("factors", "fewer samples", {"factors": both[:0]}, "error: expected `codes` [samples, codes]"),
    ]
    if bins is not None:
        more = {"factors": both.float(), "bins": 9}
        cases.append(
            ("bins", "more than samples", more, "error: `bins` must be 2 to 8, the number of samples")
        )
    arguments = {"codes": _values(8, 2), "factors": both} | ({} if bins is None else {"bins": bins})
    return Metric(function, arguments, tuple(cases), show)


def _pair(function: Callable[..., Any], channels: str) -> Metric:
    """Make the cases of a score of reflectance and shading, whose error names its axes of channels."""
    images = ("reflectance", "shading", "true_reflectance", "true_shading")
    return Metric(
        function,
        {**{name: COLOUR for name in images}, "mask": FULL},
        (
            ("reflectance", "nan", {"reflectance": _values(1, 3, 20, 20, first=nan)}, "nan"),
            ("shading", "inf", {"shading": _values(1, 3, 20, 20, first=inf)}, "nan"),
            ("true_reflectance", "nan", {"true_reflectance": _values(1, 3, 20, 20, first=nan)}, "nan"),
            ("true_shading", "all zero", {"true_shading": 0 * COLOUR}, "nan"),
            *MASKS,
            (
                "shading",
                "one channel",
                {"shading": COLOUR[:, :1]},
                f"error: expected `reflectance` [batch, {channels},",
            ),
        ),
    )


def _decode(codes: Tensor) -> Tensor:
    """Make an image of two pixels of two codes."""
    return codes[:, None, None]


def _classify(images: Tensor) -> list[Tensor]:
    """Tell dark from bright for each of two pixels."""
    return [9 * torch.stack([0.5 - one, one - 0.5], dim=1) for one in images.flatten(1).unbind(1)]


def _halve(images: Tensor, factors: Tensor, changed: Tensor) -> Tensor:
    return images / 2


def _effect(function: Callable[..., Any]) -> Metric:
    """Make the cases of an effect of the first of two codes on their product."""
    codes = _values(2, 2)
    return Metric(
        function,
        {
            **{"output": lambda codes: codes.prod(1, keepdim=True), "codes": codes, "columns": [0]},
            **{"values": torch.ones(1, 1), "baseline": torch.zeros(1)},
        },
        (
            ("codes", "nan in another code", {"codes": torch.tensor([[0.1, nan]])}, "nan"),
            ("codes", "nan in the changed code", {"codes": torch.tensor([[nan, 0.5]])}, "0.5"),
            ("baseline", "the values", {"baseline": torch.ones(1), "codes": codes[:1]}, "0"),
            ("codes", "no rows", {"codes": codes[:0]}, "error: `codes` needs at least one row"),
            ("columns", "a code that does not exist", {"columns": [2]}, "error: `columns` must lie in 0..1"),
        ),
    )


def _cycles(function: Callable[..., Any], **more: Any) -> Metric:
    """Make the cases of an error of counterfactual images."""
    image, classes = _values(1, 1, 2, 2), torch.zeros(1, 1, dtype=torch.int64)
    return Metric(
        function,
        {"counterfactual": _halve, "images": image, "factors": classes, **more},
        (
            ("images", "nan", {"images": _values(1, 1, 2, 2, first=nan)}, "nan"),
            ("images", "all zero", {"images": 0 * image}, "0"),
            ("counterfactual", "nothing changed", {"counterfactual": lambda images, *_: images}, "0"),
            (
                "counterfactual",
                "another size",
                {"counterfactual": lambda images, *_: images[..., :1]},
                "error: expected `images` [batch, channels, height, width], `counterfactual`",
            ),
            ("cycles", "0", {"cycles": 0}, "error: `cycles` must be at least 1, got 0"),
        ),
    )


def _lpips() -> Callable[..., Tensor]:
    """Make LPIPS with constant weights."""
    stack = FEATURE_STACKS["squeeze"]
    features = stack.build().requires_grad_(False)
    for values in features.parameters():
        values.copy_(torch.linspace(-0.1, 0.1, values.numel()).reshape(values.shape))
    heads = tuple(_all(1.0, 1, width, 1, 1) for width in stack.channels)
    return partial(unwrap(LPIPS.__call__), LPIPS(stack, features, heads))


def _dci(function: Callable[..., Any]) -> Metric:
    """Make the cases of DCI, which show disentanglement, completeness and the accuracy on test rows."""
    codes = CLASSES.float()
    return Metric(
        function,
        {"codes": codes, "factors": CLASSES, "train": torch.arange(4), "test": torch.arange(4, 8)},
        (
            *_not_finite("codes", (8, 2), "`codes` must be finite in float32, got nan or inf"),
            *_not_finite("factors", (8, 2), "`factors` must be finite, got nan or inf"),
            ("codes", "constant", {"codes": 0 * codes}, "0 0 0.5"),
            ("codes", "one constant", {"codes": codes * torch.tensor([1, 0])}, "1 1 0.75"),
            ("codes", "one code", {"codes": codes[:, :1]}, "error: `codes` needs at least 2 codes"),
            (
                "factors",
                "constant",
                {"factors": 0 * CLASSES},
                "error: column 0 of `factors` has one class in the train rows",
            ),
            ("factors", "floats", {"factors": codes}, "error: `factors` of floats are continuous and need"),
            (
                "factors",
                "one factor",
                {"factors": CLASSES[:, :1]},
                "error: `factors` needs at least 2 factors",
            ),
            (
                "train",
                "one row",
                {"train": torch.arange(1)},
                "error: column 0 of `factors` has one class in the train rows",
            ),
            ("test", "no rows", {"test": torch.arange(0)}, "error: `test` needs at least one row, got none"),
            (
                "test",
                "rows of train",
                {"test": torch.arange(4)},
                "error: `train` and `test` must be different",
            ),
        ),
        lambda result: torch.stack(
            [result.disentanglement, result.completeness, result.informativeness_test]
        ),
    )


METRICS = {
    "lmse": _masked(lmse, "1", "nan", small="error: images must be at least one window of 20x20"),
    "mse": _masked(mse, "0.3703", "0.3703", small="0"),
    "si_mse": _masked(si_mse, "0.3703", "0", small="0"),
    "lmse_score": _pair(lmse_score, "3"),
    "lmse_chrislib_rgb": _masked(
        lmse_chrislib_rgb, "1", "nan", small="error: images must be at least one window of 16x16"
    ),
    "lmse_barron": _masked(lmse_barron, "1", "nan", small="0"),
    "lmse_barron_score": _pair(lmse_barron_score, "*channels"),
    "lmse_sintel": _masked(lmse_sintel, "0.3642", "0", small="error: images must be longer than 4 pixels"),
    "lmse_crefnet": _masked(lmse_crefnet, "0.3951", "0", small="error: images must be longer than 4 pixels"),
    "geometric_mean": Metric(
        geometric_mean,
        {"errors": _values(2)},
        (
            ("errors", "nan", {"errors": _values(2, first=nan)}, "nan"),
            ("errors", "inf", {"errors": _values(2, first=inf)}, "inf"),
            ("errors", "all zero", {"errors": torch.zeros(2)}, "0"),
            ("errors", "negative", {"errors": -_values(2)}, "error: `errors` must be at least 0"),
            ("errors", "no images", {"errors": torch.zeros(0)}, "nan"),
        ),
    ),
    "psnr": _masked(psnr, "4.314", "4.314", exact="inf", small="inf"),
    "ssim": _masked(ssim, "0.0001", "0.0001", exact="1", small="error: SSIM needs images of at least 11x11"),
    "ssim_padded": _masked(
        ssim_padded, "0.0002", "0.0002", exact="1", small="error: padded SSIM needs images of at least 6x6"
    ),
    "dssim": _masked(dssim, "0.5", "0", small="error: SSIM needs images of at least 11x11"),
    "dssim_crefnet": _masked(dssim_crefnet, "0.5", "0", small="error: SSIM needs images of at least 11x11"),
    "ms_ssim": _masked(
        ms_ssim,
        "0.1105",
        "0.1105",
        exact="1",
        shape=(161, 161),
        small="error: MS-SSIM needs images of at least 161x161",
    ),
    "lpips": _masked(
        _lpips(),
        "1.7788",
        "1.7788",
        shape=(3, 20, 20),
        small="error: LPIPS with SqueezeNet 1.1 needs images of at least",
    ),
    "is_failed": Metric(
        is_failed,
        {"prediction": IMAGE, "mask": FULL},
        (
            ("prediction", "nan inside the mask", {"prediction": _values(1, 20, 20, first=nan)}, "true"),
            ("prediction", "inf inside the mask", {"prediction": _values(1, 20, 20, first=inf)}, "true"),
            (
                "prediction",
                "nan outside the mask",
                {"prediction": _values(1, 20, 20, first=nan), "mask": HOLE},
                "false",
            ),
            ("mask", "empty", {"prediction": nan * IMAGE, "mask": 0 * FULL}, "false"),
            *MASKS[1:],
            ("all", "no rows", {"prediction": NOTHING, "mask": NOTHING}, "none"),
        ),
    ),
    "ciede2000": Metric(
        ciede2000,
        {"prediction": COLOURS, "target": COLOURS},
        (
            ("prediction", "nan", {"prediction": _values(1, 2, 3, first=nan)}, "nan 0"),
            ("target", "inf", {"target": _values(1, 2, 3, first=inf)}, "nan 0"),
            ("both", "all zero", {"prediction": 0 * COLOURS, "target": 0 * COLOURS}, "0 0"),
            ("both", "no rows", {"prediction": COLOURS[:0], "target": COLOURS[:0]}, "none"),
            ("target", "fewer rows", {"target": COLOURS[:0]}, "error: expected `prediction` [*rows, 3]"),
        ),
    ),
    "region_means": Metric(
        region_means,
        {"image": _values(1, 1, 1, 2), "regions": torch.tensor([[[1, 2]]]), "count": 2},
        (
            ("image", "nan", {"image": _values(1, 1, 1, 2, first=nan)}, "nan 1"),
            (
                "image",
                "nan outside the regions",
                {"image": _values(1, 1, 1, 2, first=nan), "regions": torch.tensor([[[0, 2]]])},
                "0 1",
            ),
            ("regions", "none", {"regions": torch.zeros(1, 1, 2, dtype=torch.int64)}, "0 0"),
            ("regions", "floats", {"regions": torch.ones(1, 1, 2)}, "error: `regions` must be int64"),
            (
                "count",
                "too small",
                {"count": 1},
                "error: `regions` must be numbers from 0 to 1, got 1 to 2",
            ),
            (
                "all",
                "no rows",
                {"image": torch.zeros(0, 1, 1, 2), "regions": torch.zeros(0, 1, 2, dtype=torch.int64)},
                "none",
            ),
        ),
        lambda result: result.colours,
    ),
    "resize_for_maw": Metric(
        resize_for_maw,
        {"prediction": _all(0.5, 1, 3, 2, 2), "regions": torch.ones(1, 2, 2, dtype=torch.int64)},
        (
            *_not_finite("prediction", (1, 3, 2, 2), "`prediction` must be finite, got nan or inf"),
            ("prediction", "above 1", {"prediction": _all(9.0, 1, 3, 2, 2)}, "1"),
            (
                "both",
                "no rows",
                {"prediction": torch.zeros(0, 3, 2, 2), "regions": torch.zeros(0, 2, 2, dtype=torch.int64)},
                "none",
            ),
        ),
        lambda result: result[0].unique(),
    ),
    "maw_intensity": _on_regions(maw_intensity, "0.2764", "0"),
    "maw_chromaticity": _on_regions(maw_chromaticity, "60.7345", "0"),
    "material_variation": _over_lights(material_variation, "0", "nan"),
    "chroma_drift": _over_lights(chroma_drift, "0", "0"),
    "chroma_retention": _over_lights(chroma_retention, "0", "nan"),
    "whdr": Metric(
        whdr,
        {"reflectance": _values(1, 1, 2, 2), "comparisons": _compared()},
        (
            ("reflectance", "nan at a point", {"reflectance": _values(1, 1, 2, 2, first=nan)}, "nan"),
            ("reflectance", "inf at a point", {"reflectance": _values(1, 1, 2, 2, first=inf)}, "nan"),
            (
                "reflectance",
                "nan at no point",
                {"reflectance": torch.tensor([[[[0.1, 0.4], [nan, nan]]]])},
                "0",
            ),
            ("reflectance", "constant", {"reflectance": _all(0.1, 1, 1, 2, 2)}, "1"),
            (
                "reflectance",
                "all zero, judged equal",
                {"reflectance": torch.zeros(1, 1, 2, 2), "comparisons": _compared(darker=0)},
                "0",
            ),
            ("comparisons", "none of an image", {"comparisons": _compared(PAIRED[:0])}, "nan"),
            (
                "comparisons",
                "of no image",
                {"comparisons": []},
                "error: expected the `comparisons` of each image",
            ),
            (
                "comparisons",
                "a point at nan",
                {"comparisons": _compared(nan * PAIRED)},
                "error: points of comparisons must lie in [0, 1), got nan",
            ),
            (
                "comparisons",
                "a weight of nan",
                {"comparisons": _compared(score=nan)},
                "error: `score` must be positive and finite",
            ),
            (
                "comparisons",
                "a weight of 0",
                {"comparisons": _compared(score=0.0)},
                "error: `score` must be positive and finite",
            ),
            ("threshold", "nan", {"threshold": nan}, "error: `threshold` must be at least 0 and finite"),
            ("all", "no images", {"reflectance": torch.zeros(0, 1, 2, 2), "comparisons": []}, "none"),
        ),
    ),
    "saw_average_precision": Metric(
        saw_average_precision,
        {"shading": _values(1, 1, 2, 2), "labels": LABELS, "variant": "cgintrinsics2018"},
        (
            ("shading", "nan", {"shading": _values(1, 1, 2, 2, first=nan)}, "nan"),
            ("shading", "inf", {"shading": _values(1, 1, 2, 2, first=inf)}, "nan"),
            ("shading", "constant", {"shading": torch.ones(1, 1, 2, 2)}, "0.5"),
            ("shading", "all zero", {"shading": torch.zeros(1, 1, 2, 2)}, "0.5"),
            ("shading", "negative", {"shading": -_values(1, 1, 2, 2)}, "0.5"),
            ("labels", "all ignored", {"labels": torch.full((1, 2, 2), 100)}, "nan"),
            ("labels", "all smooth", {"labels": torch.full((1, 2, 2), 2)}, "nan"),
            ("labels", "none smooth", {"labels": torch.zeros(1, 2, 2, dtype=torch.int64)}, "nan"),
            (
                "labels",
                "another label",
                {"labels": torch.full((1, 2, 2), 3)},
                "error: `labels` must be 0, 1, 2 or 100, got 3",
            ),
            (
                "image",
                "missing in the challenge",
                {"variant": "challenge2018"},
                'error: the variant "challenge2018" needs the photographs',
            ),
            (
                "image",
                "constant in the challenge",
                {"variant": "challenge2018", "image": torch.ones(1, 3, 2, 2)},
                "nan",
            ),
            ("all", "no images", {"shading": torch.zeros(0, 1, 2, 2), "labels": LABELS[:0]}, "nan"),
        ),
        lambda result: result.score,
    ),
    "count_smooth": Metric(
        count_smooth,
        {"shading": _values(1, 1, 2, 2), "labels": LABELS, "variant": "cgintrinsics2018"},
        (
            ("shading", "nan", {"shading": _values(1, 1, 2, 2, first=nan)}, "nan"),
            ("labels", "all ignored", {"labels": torch.full((1, 2, 2), 100)}, "0"),
            ("labels", "fewer images", {"labels": LABELS[:0]}, "error: expected `shading` [batch, channels,"),
            ("all", "no images", {"shading": torch.zeros(0, 1, 2, 2), "labels": LABELS[:0]}, "none"),
        ),
        lambda result: result[:, -1, 2, 1],
    ),
    "saw_curve": Metric(
        saw_curve,
        {"counts": TABLE, "variant": "cgintrinsics2018"},
        (
            ("counts", "nan", {"counts": nan * TABLE}, "nan"),
            ("counts", "all zero", {"counts": 0 * TABLE}, "nan"),
            ("counts", "all found", {"counts": TABLE * torch.tensor([0.0, 1.0])}, "0.5"),
            ("counts", "nothing found", {"counts": TABLE * torch.tensor([1.0, 0.0])}, "0.25"),
            ("counts", "of another variant", {"counts": TABLE[:200]}, "error: `counts` must have the 400"),
        ),
        lambda result: result.score,
    ),
    "pixel_loss": Metric(
        pixel_loss,
        LOSS,
        (
            ("prediction", "nan", {"prediction": _values(1, 1, 2, 2, first=nan)}, "nan"),
            ("prediction", "inf", {"prediction": _values(1, 1, 2, 2, first=inf)}, "inf"),
            ("target", "nan", {"target": _values(1, 1, 2, 2, first=nan)}, "nan"),
            ("target", "inf", {"target": _values(1, 1, 2, 2, first=inf)}, "inf"),
            ("prediction", "exact up to scale, aligned", {"align_scale": True}, "0"),
            ("mask", "empty", {"prediction": _all(nan, 1, 1, 2, 2), **EMPTY}, "0"),
            (
                "mask",
                "float",
                {"mask": _all(1.0, 1, 2, 2)},
                "error: `mask` must be boolean, got torch.float32",
            ),
            ("all", "no rows", NO_IMAGES, "none"),
        ),
    ),
    "output_gradient": Metric(
        output_gradient,
        LOSS,
        (
            (
                "prediction",
                "nan",
                {"prediction": _values(1, 1, 1, 1, first=nan), "target": _values(1, 1, 1, 1)},
                "nan",
            ),
            (
                "prediction",
                "inf",
                {"prediction": _values(1, 1, 1, 1, first=inf), "target": _values(1, 1, 1, 1)},
                "inf",
            ),
            ("prediction", "exact up to scale, aligned", {"align_scale": True}, "0 0 0 0"),
            ("mask", "empty", {"prediction": _all(nan, 1, 1, 2, 2), **EMPTY}, "0 0 0 0"),
            ("all", "no rows", NO_IMAGES, "none"),
        ),
    ),
    "csm": Metric(
        csm,
        SETS,
        (
            *_not_finite("r_albedo", (1,), "`r_albedo` must hold sensitivities from 0 to 1"),
            *_not_finite("s_illumination", (1,), "`s_illumination` must hold sensitivities from 0 to 1"),
            ("s_albedo", "0, under 0.5", {"s_albedo": _all(0.0, 1)}, "inf"),
            (
                "r_albedo, s_albedo",
                "0 over 0",
                {name: _all(0.0, 1) for name in ("r_albedo", "s_albedo")},
                "nan",
            ),
            (
                "r_albedo, s_albedo",
                "no sets",
                {name: torch.zeros(0) for name in ("r_albedo", "s_albedo")},
                "nan",
            ),
            (
                "s_albedo",
                "fewer sets",
                {"s_albedo": torch.zeros(0)},
                "error: expected `r_albedo` [albedo_sets]",
            ),
        ),
        lambda result: result.csm_s,
    ),
    "directional_derivatives": Metric(
        directional_derivatives,
        {"cavs": _axis(), "gradients": _values(1, 2)},
        (
            *_not_finite("gradients", (1, 2), "`gradients` must be finite, got nan or inf"),
            ("gradients", "all zero", {"gradients": torch.zeros(1, 2), "scale": "cosine"}, "0"),
            ("gradients", "no inputs", {"gradients": torch.zeros(0, 2)}, "none"),
        ),
    ),
    "sensitivity": Metric(
        sensitivity,
        {"cavs": _axis(), "gradients": _values(1, 2)},
        (
            *_not_finite("gradients", (1, 2), "`gradients` must be finite, got nan or inf"),
            ("gradients", "all zero", {"gradients": torch.zeros(1, 2)}, "0"),
            (
                "gradients",
                "no inputs",
                {"gradients": torch.zeros(0, 2)},
                "error: `gradients` needs at least one",
            ),
        ),
    ),
    "significant": Metric(
        significant,
        {"concept_scores": _all(0.5, 3), "random_scores": _all(0.5, 4)},
        (
            *_not_finite("concept_scores", (3,), "scores must be finite, got nan or inf"),
            *_not_finite("random_scores", (3,), "scores must be finite, got nan or inf"),
            ("both", "equal constants", {}, "1"),
            ("both", "different constants", {"random_scores": _all(0.25, 4)}, "0"),
            (
                "concept_scores",
                "no runs",
                {"concept_scores": torch.zeros(0)},
                "error: a t-test needs at least 2",
            ),
        ),
        lambda result: result.p_value,
    ),
    "fit_cavs": Metric(
        _fit,
        {"concept": _values(3, 2), "negatives": -_values(3, 2)},
        (
            *_not_finite("concept", (3, 2), "activations must be finite, got nan or inf"),
            *_not_finite("negatives", (3, 2), "activations must be finite, got nan or inf"),
            ("both", "constant", {"concept": _all(0.1, 3, 2), "negatives": _all(0.1, 3, 2)}, "0"),
            ("both", "no features", {"concept": torch.zeros(3, 0), "negatives": torch.zeros(3, 0)}, "0"),
            ("concept", "no rows", {"concept": torch.zeros(0, 2)}, "error: `concept` needs at least 2 rows"),
        ),
        lambda result: result.norm,
    ),
    "random_cavs": Metric(
        _random,
        {"negatives": _values(4, 2)},
        (
            *_not_finite("negatives", (4, 2), "activations must be finite, got nan or inf"),
            ("negatives", "constant", {"negatives": _all(0.1, 4, 2)}, "0"),
            (
                "negatives",
                "no rows",
                {"negatives": torch.zeros(0, 2)},
                "error: `negatives` needs at least 4 rows",
            ),
        ),
        lambda result: result.norm,
    ),
    "explanation_heatmap": Metric(
        explanation_heatmap,
        {"heatmaps": _values(1, 1, 1, 2), "k": 1},
        (
            *_not_finite("heatmaps", (1, 1, 1, 2), "`heatmaps` must be finite, got nan or inf"),
            ("heatmaps", "constant", {"heatmaps": torch.zeros(1, 2, 1, 2)}, "0 0"),
            ("heatmaps", "integers", {"heatmaps": torch.tensor([[[[0, 255]]]])}, "0 255"),
            ("heatmaps", "no images", {"heatmaps": torch.zeros(0, 1, 1, 2)}, "none"),
            (
                "heatmaps",
                "no maps",
                {"heatmaps": torch.zeros(1, 0, 1, 2)},
                "error: `k` must be 1 to 0, the number",
            ),
            (
                "heatmaps",
                "no points",
                {"heatmaps": torch.zeros(1, 1, 0, 2)},
                "error: `heatmap` needs at least one point",
            ),
        ),
        lambda result: result.heatmap,
    ),
    "set_threshold": Metric(
        _threshold,
        {"heatmap": MAP},
        (
            *_not_finite("heatmap", (1, 2, 2), "`heatmap` must be finite, got nan or inf"),
            ("heatmap", "constant", {"heatmap": _all(0.1, 1, 2, 2)}, "0.1"),
            ("heatmap", "integers", {"heatmap": _all(1, 1, 2, 2)}, "error: `heatmap` must be floating point"),
            ("heatmap", "no images", {"heatmap": torch.zeros(0, 2, 2)}, "none"),
        ),
    ),
    "binarise": Metric(
        binarise,
        {"heatmap": MAP, "thresholds": _all(0.1, 1)},
        (
            *_not_finite("heatmap", (1, 2, 2), "`heatmap` must be finite, got nan or inf"),
            *_not_finite("thresholds", (1,), "`thresholds` must be finite, got nan or inf"),
            ("heatmap", "constant", {"heatmap": _all(0.1, 1, 2, 2)}, "false false false false"),
            (
                "heatmap",
                "constant, the paper's rule",
                {"heatmap": _all(0.1, 1, 2, 2), "compat": "waiou2023"},
                "true true true true",
            ),
            ("heatmap", "integers", {"heatmap": _all(1, 1, 2, 2)}, "error: `heatmap` must be floating point"),
            ("both", "no images", {"heatmap": torch.zeros(0, 2, 2), "thresholds": torch.zeros(0)}, "none"),
            (
                "thresholds",
                "fewer images",
                {"thresholds": torch.zeros(0)},
                "error: expected `heatmap` [images",
            ),
        ),
    ),
    "is_dead": Metric(
        is_dead,
        {"heatmap": MAP},
        (
            *_not_finite("heatmap", (1, 2, 2), "`heatmap` must be finite, got nan or inf"),
            ("heatmap", "constant", {"heatmap": _all(0.1, 1, 2, 2)}, "true"),
            ("heatmap", "no images", {"heatmap": torch.zeros(0, 2, 2)}, "none"),
        ),
    ),
    "part_iou": Metric(
        part_iou,
        {"binary": BINARY, "masks": PART},
        (
            ("binary", "nothing marked", {"binary": ~BINARY & BINARY}, "0"),
            ("masks", "empty", {"masks": ~PART}, "nan"),
            ("both", "no images", {"binary": BINARY[:0], "masks": PART[:0]}, "none"),
            ("masks", "no parts", {"masks": PART[:, :0]}, "none"),
            ("masks", "fewer images", {"masks": PART[:0]}, "error: expected `binary` [images"),
            ("masks", "float", {"masks": PART.float()}, "error: `masks` must be boolean, got torch.float32"),
        ),
    ),
    "weigh_iou": Metric(
        weigh_iou,
        {"iou": _all(0.5, 2, 1, 1)},
        (
            ("iou", "nan for all methods", {"iou": _all(nan, 2, 1, 1)}, "nan nan"),
            (
                "iou",
                "nan for one",
                {"iou": _values(2, 1, 1, first=nan)},
                "error: `iou` must be nan at the same places",
            ),
            ("iou", "inf", {"iou": _values(2, 1, 1, first=inf)}, "error: `iou` must lie from 0 to 1"),
            ("iou", "all zero", {"iou": torch.zeros(2, 1, 1)}, "0 0"),
            ("iou", "no methods", {"iou": torch.zeros(0, 1, 1)}, "error: `iou` needs at least one method"),
            ("iou", "no images", {"iou": torch.zeros(2, 0, 1)}, "nan nan"),
            ("iou", "no parts", {"iou": torch.zeros(2, 1, 0)}, "nan nan"),
        ),
        lambda result: result.score,
    ),
    "waiou": Metric(
        waiou,
        {"binary": BINARY[None], "masks": PART},
        (
            ("binary", "nothing marked", {"binary": (~BINARY & BINARY)[None]}, "0"),
            ("masks", "empty", {"masks": ~PART}, "nan"),
            (
                "binary",
                "no methods",
                {"binary": BINARY[None][:0]},
                "error: `binary` needs the maps of at least one",
            ),
            ("both", "no images", {"binary": BINARY[None][:, :0], "masks": PART[:0]}, "nan"),
            ("masks", "fewer images", {"masks": PART[:0]}, "error: expected `binary` [methods, images"),
        ),
        lambda result: result.score,
    ),
    "irs": Metric(
        irs,
        {"codes": _values(8, 1), "factors": HALVES, "quantile": 1.0},
        (
            *_not_finite("codes", (8, 1), "`codes` must be finite, got nan or inf"),
            *_not_finite("factors", (8, 1), "`factors` must be finite, got nan or inf"),
            ("codes", "constant", {"codes": _all(0.1, 8, 1)}, "0"),
            ("codes", "no codes", {"codes": torch.zeros(8, 0)}, "0"),
            ("factors", "constant", {"factors": 0 * HALVES}, "0"),
            (
                "factors",
                "floats",
                {"factors": _values(8, 1)},
                "error: `factors` of floats are continuous and need",
            ),
            (
                "factors",
                "as many classes as samples",
                {"factors": torch.arange(8)[:, None]},
                "error: column 0 of `factors` has as many classes as samples",
            ),
            (
                "factors",
                "no factors",
                {"factors": HALVES[:, :0]},
                "error: `factors` needs at least one factor",
            ),
            (
                "both",
                "no samples",
                {"codes": torch.zeros(0, 1), "factors": HALVES[:0]},
                "error: `codes` needs at least one sample",
            ),
            ("factors", "fewer samples", {"factors": HALVES[:0]}, "error: expected `codes` [samples, codes]"),
        ),
        lambda result: result.score,
    ),
    "mig": _of_codes(mig, "0"),
    "sap": _of_codes(sap, "0", bins=None),
    "modularity": _of_codes(
        modularity, "error: at least 2 of the factors must vary among the 8 samples, got 1", least=2
    ),
    "explicitness": _of_codes(explicitness, "1"),
    "mcc": _of_codes(mcc, "0.8729", bins=None),
    "block_r2": _of_codes(block_r2, "0.7857", bins=None),
    "infomec": _of_codes(infomec, "nan", show=lambda result: result.modularity),
    "minimality_and_sufficiency": _of_codes(
        minimality_and_sufficiency, "1", show=lambda result: result.sufficiency
    ),
    "t_mex, number of rejections": _of_codes(
        partial(unwrap(t_mex), graph=torch.eye(2, dtype=torch.bool)),
        "2",
        bins=None,
        show=lambda result: result.decisions.sum(),
    ),
    "dci_es, informativeness": _of_codes(
        partial(unwrap(dci_es), training=torch.arange(8) % 4 < 2),
        "1",
        bins=None,
        show=lambda result: result.informativeness,
    ),
    "cdm": Metric(
        cdm,
        {"output": torch.cos, "codes": _values(3, 1)},
        (
            *_not_finite("codes", (3, 1), "`codes` must be finite, got nan or inf"),
            ("codes", "constant", {"codes": _all(0.1, 3, 1)}, "0"),
            ("codes", "one row", {"codes": _values(1, 1)}, "0"),
            ("codes", "no rows", {"codes": torch.zeros(0, 1)}, "error: `codes` needs at least one row and"),
            ("output", "nan", {"output": lambda codes: nan * codes}, "nan"),
        ),
        lambda result: result.lower,
    ),
    "dci": _dci(dci),
    "dci_fast": _dci(dci_fast),
    "unconfoundedness": Metric(
        unconfoundedness,
        {"matrix": torch.eye(2)},
        (
            *_not_finite("matrix", (2, 2), "`matrix` must be finite, got nan or inf"),
            ("matrix", "constant", {"matrix": _all(0.1, 2, 2)}, "0"),
            (
                "matrix",
                "no codes",
                {"matrix": torch.zeros(0, 2)},
                "error: `rho` must be 1 to 0, the number of codes",
            ),
            ("rho", "more than codes", {"rho": 3}, "error: `rho` must be 1 to 2, the number of codes"),
            (
                "matrix",
                "no factors",
                {"matrix": torch.zeros(2, 0)},
                "error: `matrix` needs at least 2 factors",
            ),
        ),
    ),
    "select_codes": Metric(
        select_codes,
        {"matrix": torch.eye(2)},
        (
            *_not_finite("matrix", (2, 2), "`matrix` must be finite, got nan or inf"),
            ("matrix", "constant", {"matrix": _all(0.1, 2, 2)}, "0 0"),
            ("rho", "more than codes", {"rho": 3}, "error: `rho` must be 1 to 2, the number of codes"),
        ),
    ),
    "baseline_codes": Metric(
        baseline_codes,
        {"codes": _values(2, 1)},
        (
            *_not_finite("codes", (2, 1), "`codes` must be finite, got nan or inf"),
            ("codes", "constant", {"codes": _all(0.1, 2, 1)}, "0.1 0.1"),
            ("codes", "one row", {"codes": _values(1, 1)}, "0.1"),
            ("codes", "no rows", {"codes": torch.zeros(0, 1)}, "error: `codes` needs at least one row"),
        ),
    ),
    "ice": _effect(ice),
    "ace": _effect(ace),
    "counterfactual_generativeness": Metric(
        counterfactual_generativeness,
        {
            **{"codes": PAIRS.float(), "factors": PAIRS, "code_sets": [[0], [1]]},
            **{"decoder": _decode, "classifier": _classify, "accuracy": {"one": 1.0, "other": 1.0}},
        },
        (
            *_not_finite("codes", (4, 2), "`codes` must be finite, got nan or inf"),
            ("codes", "constant", {"codes": _all(0.1, 4, 2)}, "0"),
            (
                "both",
                "one row",
                {"codes": PAIRS[:1].float(), "factors": PAIRS[:1]},
                "error: every factor is left out (one: one class among the rows; other: one class",
            ),
            (
                "both",
                "no rows",
                {"codes": PAIRS[:0].float(), "factors": PAIRS[:0]},
                "error: `codes` needs at least one row, got none",
            ),
            ("factors", "one of a single class", {"factors": PAIRS * torch.tensor([1, 0])}, "0.9998"),
            ("factors", "fewer rows", {"factors": PAIRS[:1]}, "error: expected `codes` [rows, codes]"),
            (
                "accuracy",
                "nan",
                {"accuracy": {"one": nan, "other": nan}},
                "error: every factor is left out (one: held-out accuracy nan, below 0.95",
            ),
            (
                "decoder",
                "nan",
                {"decoder": lambda codes: nan * _decode(codes)},
                "error: the decoder must give images in [0, 1], got nan to nan",
            ),
            (
                "classifier",
                "nan",
                {"classifier": lambda images: _classify(nan * images)},
                "error: the classifier gives nan or inf for factor 0",
            ),
        ),
        lambda result: result.score,
    ),
    "effectiveness": Metric(
        effectiveness,
        {"classifier": _classify, "images": _decode(PAIRS[:1].float()), "factors": PAIRS[:1]},
        (
            ("images", "nan", {"images": torch.tensor([[[[nan, 0.0]]]])}, "0 0"),
            ("images", "inf", {"images": torch.tensor([[[[0.0, inf]]]])}, "0 0"),
            ("factors", "fewer rows", {"factors": PAIRS[:0]}, "error: expected `images` [batch, channels"),
            (
                "factors",
                "another class",
                {"factors": 2 + PAIRS[:1]},
                "error: classes of factor 0 must lie in 0..1, as the classifier has 2, got 2 to 2",
            ),
        ),
    ),
    "composition": _cycles(composition),
    "reversibility": _cycles(reversibility, changed=torch.ones(1, 1, dtype=torch.int64)),
    "causal_effects": Metric(
        causal_effects,
        {"logits": _values(1, 2), "changed": -_values(1, 1, 2)},
        (
            ("logits", "nan", {"logits": _values(1, 2, first=nan)}, "nan"),
            ("changed", "inf", {"changed": _values(1, 1, 2, first=inf)}, "nan"),
            ("both", "equal", {"changed": _values(1, 1, 2)}, "0"),
            ("changed", "no counterfactuals", {"changed": torch.zeros(1, 0, 2)}, "none"),
            ("changed", "other classes", {"changed": _values(1, 1, 3)}, "error: expected `logits` [images"),
        ),
    ),
    "region_density": Metric(
        region_density,
        {"heatmap": MAP, "regions": _all(True, 1, 1, 2, 2)},
        (
            ("heatmap", "nan", {"heatmap": _values(1, 2, 2, first=nan)}, "nan"),
            ("heatmap", "inf", {"heatmap": _values(1, 2, 2, first=inf)}, "nan"),
            ("heatmap", "constant", {"heatmap": _all(0.1, 1, 2, 2)}, "nan"),
            ("regions", "empty", {"regions": _all(False, 1, 1, 2, 2)}, "nan"),
            ("regions", "numbers", {"regions": _all(1.0, 1, 1, 2, 2)}, "error: `regions` must be boolean"),
        ),
    ),
    "region_mass": Metric(
        region_mass,
        {"heatmap": MAP, "regions": _all(True, 1, 1, 2, 2)},
        (
            ("heatmap", "nan", {"heatmap": _values(1, 2, 2, first=nan)}, "nan"),
            ("heatmap", "inf", {"heatmap": _values(1, 2, 2, first=inf)}, "nan"),
            ("heatmap", "constant", {"heatmap": _all(0.1, 1, 2, 2)}, "nan"),
            ("regions", "empty", {"regions": _all(False, 1, 1, 2, 2)}, "nan"),
            ("regions", "numbers", {"regions": _all(1.0, 1, 1, 2, 2)}, "error: `regions` must be boolean"),
        ),
    ),
    "region_share": Metric(
        region_share,
        {"marked": MAP > 0.5, "regions": _all(True, 1, 1, 2, 2)},
        (
            ("marked", "nothing marked", {"marked": _all(False, 1, 2, 2)}, "nan"),
            ("marked", "numbers", {"marked": MAP}, "error: `marked` must be boolean"),
            ("regions", "empty", {"regions": _all(False, 1, 1, 2, 2)}, "nan"),
        ),
    ),
    "rank_agreement": Metric(
        rank_agreement,
        {"density": _values(1, 3), "effect": _values(1, 3)},
        (
            ("density", "nan in one of three", {"density": _values(1, 3, first=nan)}, "1"),
            ("density", "constant", {"density": _all(0.1, 1, 3)}, "nan"),
            ("effect", "constant", {"effect": _all(0.1, 1, 3)}, "nan"),
            ("both", "one region", {"density": _values(1, 1), "effect": _values(1, 1)}, "nan"),
            ("effect", "fewer regions", {"effect": _values(1, 2)}, "error: expected `density` [images"),
        ),
    ),
    "rank_correlation": Metric(
        rank_correlation,
        {"stated": _values(1, 3), "effect": _values(1, 3)},
        (
            ("stated", "nan in one of three", {"stated": _values(1, 3, first=nan)}, "1"),
            ("stated", "constant", {"stated": _all(0.1, 1, 3)}, "nan"),
            ("effect", "constant", {"effect": _all(0.1, 1, 3)}, "nan"),
            ("both", "one region", {"stated": _values(1, 1), "effect": _values(1, 1)}, "nan"),
            ("effect", "fewer regions", {"effect": _values(1, 2)}, "error: expected `stated` [images"),
        ),
    ),
    "region_hits": Metric(
        region_hits,
        {"density": _values(1, 4), "effect": _values(1, 4)},
        (
            ("density", "constant", {"density": _all(0.1, 1, 4)}, "0.25"),
            ("effect", "constant", {"effect": _all(0.1, 1, 4)}, "nan"),
            ("both", "one region", {"density": _values(1, 1), "effect": _values(1, 1)}, "nan"),
            ("effect", "fewer regions", {"effect": _values(1, 2)}, "error: expected `density` [images"),
        ),
        lambda result: result.hit,
    ),
    "mean_response": Metric(
        mean_response,
        {"distances": _values(2, 2)},
        (
            *_not_finite("distances", (2, 2), "`distances` must be finite, got nan or inf; leave out scenes"),
            ("distances", "no scenes", {"distances": torch.zeros(0, 2)}, "error: `distances` needs at least"),
        ),
    ),
    "fit_transduction, converged": Metric(
        fit_transduction,
        {"distances": _values(4), "ratings": _values(4)},
        (
            *_not_finite("distances", (4,), "`distances` must be finite, got nan or inf"),
            ("distances", "constant", {"distances": _all(0.1, 4)}, "error: `distances` must differ"),
            ("distances", "falling", {"distances": _values(4).flip(0)}, "false"),
            ("ratings", "nan", {"ratings": _values(4, first=nan)}, "error: `ratings` must lie from 0 to 1"),
            (
                "both",
                "no pairs",
                {"distances": torch.zeros(0), "ratings": torch.zeros(0)},
                "error: `distances`",
            ),
        ),
        lambda result: torch.tensor(result.converged),
    ),
    "detection_threshold": Metric(
        partial(unwrap(detection_threshold), transduction=Transduction(1.0, 1.0)),
        {"distances": _values(1, 4) - 0.1, "magnitudes": torch.arange(4.0)},
        (
            *_not_finite("distances", (1, 4), "`distances` must be finite, got nan or inf"),
            ("distances", "constant", {"distances": _all(0.1, 1, 4)}, "inf"),
            ("distances", "below D_T", {"distances": 0.1 * _values(1, 4)}, "nan"),
            ("distances", "above D_T", {"distances": _values(1, 4) + 1}, "0"),
            ("distances", "no scenes", {"distances": torch.zeros(0, 4)}, "error: `distances` needs at least"),
            ("magnitudes", "constant", {"magnitudes": torch.zeros(4)}, "error: `magnitudes` must increase"),
        ),
        lambda result: result.score,
    ),
    "fit_psychometric, converged": Metric(
        partial(unwrap(fit_psychometric), trials=torch.full((6,), 40)),
        {"levels": torch.arange(6.0), "correct": torch.tensor([20, 21, 26, 34, 38, 39])},
        (
            *_not_finite("levels", (6,), "`levels` must be finite, and at least 2 different ones"),
            (
                "levels",
                "constant",
                {"levels": _all(0.1, 6)},
                "error: `levels` must be finite, and at least 2",
            ),
            ("correct", "chance", {"correct": torch.full((6,), 20)}, "false"),
            ("correct", "all", {"correct": torch.full((6,), 40)}, "false"),
            ("correct", "more than trials", {"correct": torch.full((6,), 41)}, "error: expected `correct`"),
        ),
        lambda result: torch.tensor(result.converged),
    ),
    "transform_sensitivity": Metric(
        partial(unwrap(transform_sensitivity), magnitudes=torch.arange(2.0)),
        {"energies": _values(1, 2), "threshold": 1.0},
        (
            *_not_finite("energies", (1, 2), "`energies` must be finite, got nan or inf"),
            ("energies", "all zero", {"energies": torch.zeros(1, 2)}, "inf"),
            ("threshold", "inf", {"threshold": inf}, "0"),
            ("threshold", "nan", {"threshold": nan}, "nan"),
        ),
    ),
    "fit_ellipse, semi-major axis": Metric(
        fit_ellipse,
        {"points": torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.6, 0.6], [1.6, -0.6]])},
        (
            *_not_finite("points", (6, 2), "`points` needs at least 5 finite points"),
            ("points", "constant", {"points": _all(0.1, 6, 2)}, "error: `points` must not lie on a line"),
            ("points", "no points", {"points": torch.zeros(0, 2)}, "error: `points` needs at least 5"),
        ),
        lambda result: result.major,
    ),
}
ROWS = [(name, *case) for name, metric in METRICS.items() for case in metric.cases]


def _outcome(metric: Metric, replaced: Mapping[str, Any]) -> str:
    """Return the result in the form of the table."""
    try:
        result = metric.show(unwrap(metric.function)(**{**metric.arguments, **replaced}))
    except InputError as error:
        return f"error: {error}"
    assert not dataclasses.is_dataclass(result)
    values = torch.as_tensor(result).flatten().tolist()
    shown = [
        str(value).lower() if isinstance(value, bool) else f"{round(value, 4) + 0:g}" for value in values
    ]
    return " ".join(shown) or "none"


def page() -> str:
    """Return the table as a page of the documentation."""
    lines = ["| metric | argument | input | result |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {place} | {case} | {outcome} |" for name, place, case, _, outcome in ROWS]
    return HEAD + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "place", "case", "replaced", "expected"),
    ROWS,
    ids=[f"{name}-{place}-{case}" for name, place, case, *_ in ROWS],
)
def test_outcome(name: str, place: str, case: str, replaced: Mapping[str, Any], expected: str) -> None:
    found = _outcome(METRICS[name], replaced)
    if expected.startswith("error: "):
        assert found.startswith(expected)
        assert "\n" not in found
    else:
        assert found == expected


@pytest.mark.parametrize("name", METRICS)
def test_valid_arguments_give_a_number(name: str) -> None:
    assert "error" not in _outcome(METRICS[name], {})
    assert "nan" not in _outcome(METRICS[name], {})


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"run python {Path(__file__).name} to write it anew"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
