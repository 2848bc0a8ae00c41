"""Metrics give the same values for CUDA tensors and CPU tensors.

For machines without a GPU there is a simulated CUDA tensor: it computes on the CPU, reports a CUDA device,
and refuses the same operations as CUDA: operations with CPU tensors, and conversion to an array.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from candlelight.evaluation.causal import (
    BinRule,
    Correlation,
    Regression,
    ace,
    block_r2,
    cdm,
    composition,
    counterfactual_generativeness,
    dci,
    dci_es,
    dci_fast,
    discretise,
    effectiveness,
    entropy,
    explicitness,
    ice,
    infomec,
    irs,
    mcc,
    mig,
    minimality_and_sufficiency,
    modularity,
    reversibility,
    sap,
    select_codes,
    t_mex,
    unconfoundedness,
)
from candlelight.evaluation.causal.generativeness import baseline_codes
from candlelight.evaluation.concepts import (
    csm,
    directional_derivatives,
    fit_cavs,
    output_gradient,
    pixel_loss,
    random_cavs,
    sensitivity,
    significant,
)
from candlelight.evaluation.concepts.score_tcav import LayerScorer
from candlelight.evaluation.coverage import (
    VEBI,
    WeightedFilters,
    ablate_filters,
    binarise,
    explanation_heatmap,
    grad_cam,
    grad_cam_by_filter,
    nonnegative_lasso,
    part_iou,
    set_threshold,
    waiou,
    weigh_iou,
)
from candlelight.evaluation.intrinsic import (
    SAWVariant,
    chroma_drift,
    chroma_retention,
    ciede2000,
    dssim,
    geometric_mean,
    lmse,
    lmse_barron,
    lmse_barron_score,
    lmse_chrislib_rgb,
    lmse_score,
    lmse_sintel,
    material_variation,
    maw_chromaticity,
    maw_intensity,
    ms_ssim,
    mse,
    psnr,
    region_means,
    saw_average_precision,
    si_mse,
    ssim,
    whdr,
)
from candlelight.evaluation.models import ColourRetinex
from candlelight.evaluation.models.autoencoders import Posterior
from candlelight.evaluation.perception import DISTANCES, LPIPS, TransformFamily, place_on_canvas
from candlelight.evaluation.perception.lpips import FEATURE_STACKS
from candlelight.evaluation.training import (
    bernoulli_error,
    density_ratio,
    dip_penalty,
    discriminator_loss,
    foreground_weights,
    gaussian_kl,
    permute_codes,
    share_posterior,
    supervised_codes_loss,
    total_correlation,
)
from candlelight.evaluation.training.causal_data import box_masks, mask_boxes
from candlelight.evaluation.views import Comparisons

# Tolerances by the dtype of the arguments, because a GPU sums in another order.
TOLERANCES = {torch.float32: {"rtol": 1e-5, "atol": 1e-6}, torch.float64: {"rtol": 1e-9, "atol": 1e-10}}


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def _derivatives(concept: Tensor, negatives: Tensor, gradients: Tensor) -> object:
    cavs = fit_cavs(concept, negatives, generator=_generator(), runs=4)
    null = random_cavs(negatives, generator=_generator(), size=5, runs=4)
    test = significant(sensitivity(cavs, gradients), sensitivity(null, gradients))
    return [directional_derivatives(cavs, gradients, scale) for scale in ("vector", "unit", "cosine")], test


def _tcav(concept: Tensor, negatives: Tensor, gradients: Tensor) -> object:
    scorer = LayerScorer(negatives, gradients, "logit", {"runs": 4}, seed=3)
    return scorer.score(concept, negatives[:7], permutations=5)


def _coverage(maps: Tensor, masks: Tensor) -> object:
    explained = explanation_heatmap(maps, 2).resized(*masks.shape[2:])
    found = []
    for pooling in ("set", "image"):
        thresholds = set_threshold(explained, 0.1, pooling)
        for compat in ("exact", "waiou2023"):
            binary = binarise(explained.heatmap, thresholds, compat)
            found += [thresholds, binary, part_iou(binary, masks)]
    iou = torch.stack([found[2], found[-1]])
    return found, weigh_iou(iou), waiou(torch.stack([found[1], found[-2]]), masks)


def _explanations(images: Tensor, labels: Tensor) -> object:
    network = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    method = VEBI(network, "0", batch_size=4).fit(images, labels)
    tested = ablate_filters(network, "0", method.chosen[labels], images, labels, seed=0, draws=3)
    # The gradients of `weigh_filters` are left out, because autograd loses the leaves of simulated tensors.
    found = WeightedFilters(images, images.mean((2, 3)), images.mean((2, 3)), labels)
    maps = grad_cam_by_filter(found, labels[:, None] - 1)
    return [method.weights, method.gap, tested, grad_cam(found, method.chosen[labels]), maps]


def _decode(codes: Tensor) -> Tensor:
    return codes.sigmoid().reshape(-1, 1, 2, 3)


def _classify(images: Tensor) -> list[Tensor]:
    return [3 * images.flatten(1)[:, :size] for size in (3, 4, 5)]


def _interventions(codes: Tensor, factors: Tensor) -> object:
    found = []
    for baseline in ("farthest", "mean", "zero"):
        score = counterfactual_generativeness(
            *(codes, factors, select_codes(irs(codes, factors), 2), _decode, _classify),
            {"a": 1.0, "b": 0.96, "c": 0.5},
            baseline=baseline,
            images=_decode(codes),
        )
        found += [
            score.by_row,
            score.inside,
            score.outside,
            score.pictures.inside,
            score.reconstruction_error,
        ]
        start = baseline_codes(codes, baseline)[:, [4, 1]]
        found += [effect(_decode_flat, codes, [4, 1], codes[:3, :2], start) for effect in (ice, ace)]
    return found


def _decode_flat(codes: Tensor) -> Tensor:
    return _decode(codes).flatten(1)


def _axioms(images: Tensor, factors: Tensor) -> list[Tensor]:
    def model(images: Tensor, factors: Tensor, changed: Tensor) -> Tensor:
        return 0.9 * images + (changed - factors).sum(1)[:, None, None, None] / 20

    changed = factors.flip(0)
    return [
        effectiveness(_classify, images, factors),
        composition(model, images, factors, 2),
        reversibility(model, images, factors, changed, 2),
    ]


def _code_losses(codes: Tensor, log_variances: Tensor, images: Tensor) -> list[Tensor]:
    posterior = Posterior(codes, log_variances)
    sampled = permute_codes(codes, _generator())
    return [
        bernoulli_error(images - 0.5, images, foreground_weights(images[:, 0], 2)),
        gaussian_kl(posterior),
        total_correlation(sampled, posterior),
        *(dip_penalty(posterior, kind, off_diagonal=2, diagonal=3) for kind in ("i", "ii")),
        discriminator_loss(codes[:, :2], codes[:, 1:3]) + density_ratio(codes[:, :2]),
        supervised_codes_loss(codes, log_variances[:, :2]),
        *(values for one in share_posterior(posterior, Posterior(*posterior[::-1])) for values in one),
        box_masks(mask_boxes(images[:, 0] > 0.5), *images.shape[2:]),
    ]


def _lpips(prediction: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Compute LPIPS with random weights on the device of the images."""
    for layer, name, shape in WEIGHTS:
        layer.register_buffer(name, 0.2 * (drawn(*shape) - 0.5).to(prediction.device))
    heads = tuple(drawn(1, width, 1, 1, seed=3).to(prediction.device) for width in SQUEEZE.channels)
    return LPIPS(SQUEEZE, LAYERS, heads)(prediction, target, mask)


def _transforms(images: Tensor) -> list[Tensor]:
    families = [
        TransformFamily(name, (1.3,)) for name in ("translation x", "rotation", "scale", "illuminant 611")
    ]
    return [place_on_canvas(images, 40), *(part for one in families for part in one.transform(images, 1.3))]


SQUEEZE = FEATURE_STACKS["squeeze"]
LAYERS = SQUEEZE.build()
# Buffers take the places of parameters, which cannot be made of simulated tensors.
WEIGHTS = [
    (layer, name, values.shape)
    for layer in LAYERS.modules()
    for name, values in layer.named_parameters(recurse=False)
]
for layer, name, _ in WEIGHTS:
    delattr(layer, name)
PAIR = drawn(2, 3, 24, 30), 0.1 + drawn(2, 3, 24, 30, seed=1)
MASK = drawn(2, 24, 30, seed=2) > 0.2
ODD = torch.arange(60) % 2 == 1
FACTORS = torch.cartesian_prod(torch.arange(3), torch.arange(4), torch.arange(5))
COMPARISONS = [
    Comparisons(drawn(40, 2, 2, seed=row).double(), torch.arange(40) % 3, 0.1 + drawn(40, seed=row).double())
    for row in range(2)
]
BLOCKS = drawn(12, 40), drawn(20, 40, seed=1), drawn(6, 40, seed=2) - 0.5
REGIONS = (5 * drawn(2, 24, 30, seed=3)).long()
COLOURS = 0.1 + drawn(4, 6, 3), 0.1 + drawn(4, 6, 3, seed=1)
CASES: dict[str, tuple[Callable[..., object], tuple[Any, ...]]] = {
    "losses of codes": (_code_losses, (drawn(2, 5), drawn(2, 5, seed=1), PAIR[0])),
    "mse": (mse, (*PAIR, MASK)),
    "si_mse": (si_mse, (*PAIR, MASK)),
    "si_mse of the whole image": (si_mse, (*PAIR, torch.ones_like(MASK))),
    "lmse": (lmse, (PAIR[0][:, 0], PAIR[1][:, 0], MASK)),
    "lmse of weights": (lmse, (PAIR[0][:, 0], PAIR[1][:, 0], drawn(2, 24, 30, seed=3))),
    "lmse in float64": (lmse, (PAIR[0][:, 0].double(), PAIR[1][:, 0].double(), MASK)),
    "lmse_score": (lmse_score, (*PAIR, *PAIR[::-1], MASK)),
    "lmse_chrislib_rgb": (lmse_chrislib_rgb, (*PAIR, MASK)),
    "lmse_barron": (
        lambda *given: geometric_mean(lmse_barron(*given)),
        (*PAIR, drawn(2, 24, 30, seed=3)),
    ),
    "lmse_barron_score": (lmse_barron_score, (*PAIR, *PAIR[::-1], MASK)),
    "lmse_sintel": (lmse_sintel, (*PAIR, MASK)),
    "si_mse of Sintel": (lambda *given: si_mse(*given, cap=1, floor=0), (*PAIR, MASK)),
    "psnr": (psnr, (*PAIR, MASK)),
    "ssim": (ssim, (*PAIR, MASK)),
    "dssim": (dssim, (*PAIR, MASK)),
    "ms_ssim": (
        ms_ssim,
        (drawn(1, 163, 170), drawn(1, 163, 170, seed=1), drawn(1, 163, 170, seed=2) > 0.9),
    ),
    "lpips": (_lpips, (*PAIR, MASK)),
    "distances": (
        lambda *given: [measure(*given) for name, (measure, _) in DISTANCES.items() if name != "ms-ssim"],
        PAIR,
    ),
    "transforms": (_transforms, (PAIR[0],)),
    "ciede2000": (ciede2000, tuple(100 * drawn(8, 3, seed=seed) for seed in (4, 5))),
    "region_means": (lambda *given: region_means(*given, 4), (PAIR[0], REGIONS)),
    "maw_intensity": (maw_intensity, (*COLOURS, drawn(4, 6, seed=2))),
    "maw_chromaticity": (maw_chromaticity, (*COLOURS, drawn(4, 6, seed=2))),
    "constancy": (
        lambda one, truth: [material_variation(one), chroma_drift(one), chroma_retention(one, truth)],
        (0.1 + drawn(4, 3, 6, 3), COLOURS[1]),
    ),
    "whdr": (lambda images: whdr(images, COMPARISONS), (PAIR[0],)),
    "saw": (
        lambda *given: [saw_average_precision(*given[:2], kind, given[2]) for kind in get_args(SAWVariant)],
        (PAIR[0], (drawn(2, 24, 30, seed=4) * 3).long(), PAIR[1].clamp(max=1)),
    ),
    "pixel_loss": (pixel_loss, (*PAIR, MASK)),
    "pixel_loss, aligned": (lambda *given: pixel_loss(*given, align_scale=True), (*PAIR, MASK)),
    "output_gradient": (output_gradient, (*PAIR, MASK, True)),
    "cavs": (_derivatives, BLOCKS),
    "cavs in float64": (_derivatives, tuple(block.double() for block in BLOCKS)),
    "tcav": (_tcav, BLOCKS),
    "csm": (csm, tuple(drawn(4, seed=seed) for seed in range(4))),
    "coverage": (_coverage, (drawn(5, 4, 12, 10), drawn(5, 3, 24, 20, seed=1) > 0.6)),
    "coverage, ties": (_coverage, ((drawn(5, 4, 12, 10) * 4).round(), drawn(5, 3, 24, 20, seed=1) > 0.6)),
    "lasso": (lambda x, y: nonnegative_lasso(x.T @ x, y.T @ x, 0.5), (drawn(9, 4), drawn(9, 2, seed=1))),
    "explanations": (_explanations, (drawn(6, 3, 5, 5), torch.arange(6) % 3)),
    "irs": (irs, (drawn(60, 7), FACTORS)),
    "irs, bins": (lambda codes, factors: irs(codes, factors, bins=4), (drawn(60, 7), drawn(60, 3, seed=1))),
    "irs of disentanglement_lib": (
        lambda codes, factors: irs(codes, factors, compat="disentanglement_lib"),
        (drawn(60, 7), FACTORS),
    ),
    "dci": (dci, (drawn(60, 4), FACTORS, *torch.arange(60).split([40, 20]))),
    "dci_fast": (dci_fast, (drawn(60, 4), FACTORS, *torch.arange(60).split([40, 20]))),
    "cdm": (lambda codes: cdm(_decode_flat, codes), (drawn(60, 6),)),
    "dci_es": (
        lambda *given: dci_es(*given, categorical=[0]),
        (drawn(60, 4).double(), FACTORS.double(), ODD),
    ),
    "unconfoundedness": (lambda matrix: unconfoundedness(matrix, 2), (drawn(7, 4),)),
    "unconfoundedness, candle2021": (
        lambda matrix: [unconfoundedness(matrix, rho, "candle2021") for rho in (1, 2, 3)],
        (drawn(7, 4),),
    ),
    "counterfactual generativeness": (_interventions, (drawn(60, 6), FACTORS)),
    "axioms of counterfactuals": (_axioms, (drawn(60, 1, 2, 3), FACTORS)),
    "discretise": (
        lambda table: [discretise(table, 5, rule, categorical=[0]) for rule in get_args(BinRule)],
        (drawn(30, 3),),
    ),
    "entropy": (entropy, (FACTORS,)),
    "mig": (mig, (drawn(60, 7), FACTORS)),
    "minimality and sufficiency": (minimality_and_sufficiency, (drawn(60, 7), FACTORS)),
    "modularity": (lambda *given: modularity(*given, 5, "quantile"), (drawn(60, 7), drawn(60, 3, seed=1))),
    "sap": (lambda *given: sap(*given, categorical=[0]), (drawn(60, 3), FACTORS.float(), ODD)),
    "explicitness": (
        lambda codes, factors, odd: explicitness(codes, factors, training=odd),
        (drawn(60, 3), FACTORS, ODD),
    ),
    "mcc": (
        lambda codes, factors, odd: [mcc(codes, factors, kind, odd) for kind in get_args(Correlation)],
        (drawn(60, 2).double(), drawn(60, 3, seed=1).double(), ODD),
    ),
    "block_r2": (
        lambda codes, factors, odd: [block_r2(codes, factors, kind, odd) for kind in get_args(Regression)],
        (drawn(60, 2).double(), drawn(60, 3, seed=1).double(), ODD),
    ),
    "t_mex": (
        lambda *given: [t_mex(*given, kind) for kind in get_args(Regression)],
        (drawn(60, 2).double(), drawn(60, 3, seed=1).double(), drawn(2, 3, seed=2) > 0.5),
    ),
    "infomec": (infomec, (drawn(60, 4).double(), FACTORS)),
    "infomec of classes": (infomec, (FACTORS % 3, FACTORS)),
    "retinex": (ColourRetinex(), (PAIR[0], MASK)),
}


class Pretended(Tensor):
    """A CPU tensor that reports a CUDA device within `PretendedGpu`."""


class PretendedGpu(TorchFunctionMode):
    """Refuse the operations that CUDA refuses, and make `Pretended` tensors for the device ``cuda``."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        given = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
        on_gpu = any(isinstance(one, Pretended) for one in given)
        if on_gpu and function == Tensor.device.__get__:
            return GPU
        if on_gpu and function == Tensor.is_cuda.__get__:
            return True
        if on_gpu and function in (Tensor.numpy, Tensor.__array__) and not kwargs.get("force"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        moved = on_gpu if (device := _target(function, args, kwargs)) is None else device.type == "cuda"
        if device is None:
            _check_devices(function, args, given, kwargs)
        elif "device" in kwargs:
            kwargs["device"] = "cpu"
        with torch._C.DisableTorchFunctionSubclass():
            if function is torch.autograd.grad:  # copies would be no part of the graph
                return tuple(_as(Pretended, one) for one in function(*args, **kwargs))
            args = tuple("cpu" if function is Tensor.to and _is_device(one) else one for one in args)
            plain = tree_map(lambda one: _as(Tensor, one), (args, kwargs))
            result = function(*plain[0], **plain[1])
            # A shape stays a shape: tree_map would make a tuple of it.
            if isinstance(result, torch.Size):
                return result
            return tree_map(lambda one: _as(Pretended if moved else Tensor, one), result)


GPU = torch.device("cuda:0")
_MOVES = (Tensor.to, Tensor.cpu, Tensor.cuda, Tensor.copy_)
_INDEXING = (Tensor.__getitem__, Tensor.__setitem__)  # CUDA tensors take indices on the CPU


def _as(kind: type[Tensor], one: object) -> object:
    return one.as_subclass(kind) if isinstance(one, Tensor) else one


def _is_device(one: object) -> bool:
    return isinstance(one, torch.device | str)


def _device_of(one: Tensor) -> torch.device:
    return GPU if isinstance(one, Pretended) else torch.device("cpu")


def _target(function, args, kwargs) -> torch.device | None:
    """Return the device that a call requests for its result; None if the call follows its arguments."""
    if function in (Tensor.cpu, Tensor.copy_):
        return torch.device("cpu") if function is Tensor.cpu else _device_of(args[0])
    named = [kwargs["device"]] if kwargs.get("device") is not None else []
    if function is Tensor.to:
        named += [_device_of(one) if isinstance(one, Tensor) else one for one in args[1:]]
    devices = [torch.device(one) for one in named if _is_device(one)]
    generator = kwargs.get("generator")
    if devices and generator is not None and generator.device.type != devices[0].type:
        raise RuntimeError("expected the generator on the same device as the tensor")
    return devices[0] if devices else None


def _check_devices(function, args, given, kwargs) -> None:
    devices = {_device_of(one) for one in given if one.ndim or isinstance(one, Pretended)}
    devices |= {kwargs["generator"].device} if given and kwargs.get("generator") is not None else set()
    if function in _INDEXING and _device_of(args[0]) == GPU:
        return
    if len(devices) > 1:
        raise RuntimeError(f"{function}: expected all tensors on the same device, got cuda:0 and cpu")


def tensors(found: object) -> list[Tensor]:
    """Collect all tensors and numbers in the result of a metric."""
    if isinstance(found, Tensor):
        return [found]
    if isinstance(found, bool | int | float):
        return [torch.tensor(found)]
    if is_dataclass(found):
        return [one for field in fields(found) for one in tensors(getattr(found, field.name))]
    assert isinstance(found, list | tuple), found
    return [one for part in found for one in tensors(part)]


def check_equal(name: str, found: object) -> None:
    """Compare with the values of the CPU; booleans and integers must be equal."""
    function, arguments = CASES[name]
    single = any(one.dtype == torch.float32 for one in arguments if isinstance(one, Tensor))
    tolerance = TOLERANCES[torch.float32 if single else torch.float64]
    for one, expected in zip(tensors(found), tensors(function(*arguments)), strict=True):
        exact = {} if expected.is_floating_point() else {"rtol": 0, "atol": 0}
        torch.testing.assert_close(
            one.as_subclass(Tensor).cpu(), expected, equal_nan=True, **{**tolerance, **exact}
        )


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_values_on_a_gpu_are_those_of_the_cpu(name: str) -> None:
    function, arguments = CASES[name]
    check_equal(name, function(*(one.cuda() if isinstance(one, Tensor) else one for one in arguments)))


@pytest.mark.parametrize("name", CASES)
def test_metrics_do_not_mix_devices(name: str) -> None:
    function, arguments = CASES[name]
    with PretendedGpu():
        found = function(*(_as(Pretended, one) for one in arguments))
    check_equal(name, found)


@pytest.mark.parametrize(
    ("careless", "message"),
    [
        (lambda image: image * torch.ones(3, 1, 1), "same device"),
        (lambda image: image[:, torch.arange(2, device="cuda")] @ torch.ones(4), "same device"),
        (
            lambda image: torch.ones(9)[(image > 0).sum((1, 2, 3)).clamp(max=1)],
            "same device",
        ),
        (lambda image: image.numpy(), "can't convert cuda"),
        (lambda image: image + torch.rand(4, generator=torch.Generator()), "same device"),
        (lambda image: torch.cat([image, torch.zeros(1, 3, 4, 4)]), "same device"),
    ],
)
def test_the_stand_in_refuses_what_cuda_refuses(careless, message: str) -> None:
    with PretendedGpu(), pytest.raises((RuntimeError, TypeError), match=message):
        careless(torch.ones(2, 3, 4, 4, device="cuda"))
