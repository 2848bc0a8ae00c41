"""All metric functions with arguments of several rows, for the contracts that all of them keep."""

from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import Tensor, nn

from candlelight.evaluation.catalogue.intrinsic_options import Alignment
from candlelight.evaluation.causal import (
    BinRule,
    Correlation,
    Regression,
    ace,
    block_matrices,
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
    find_blocks,
    ice,
    infomec,
    irs,
    irs_by_interventions,
    mcc,
    mig,
    minimality_and_sufficiency,
    modularity,
    neighbour_information,
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
    effect_interval,
    exchange_derivatives,
    fit_cavs,
    output_gradient,
    permutation_test,
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
    causal_effects,
    curve_area,
    explanation_heatmap,
    grad_cam,
    grad_cam_by_filter,
    nonnegative_lasso,
    occlusion_maps,
    part_iou,
    pixel_curves,
    pointing_hits,
    rank_agreement,
    rank_correlation,
    region_density,
    region_hits,
    region_mass,
    region_share,
    rise_maps,
    set_threshold,
    waiou,
    weigh_iou,
)
from candlelight.evaluation.intrinsic import (
    SAWVariant,
    align,
    chroma_drift,
    chroma_retention,
    ciede2000,
    count_smooth,
    depth_errors,
    dssim,
    dssim_crefnet,
    geometric_mean,
    lmse,
    lmse_barron,
    lmse_barron_score,
    lmse_chrislib_rgb,
    lmse_crefnet,
    lmse_score,
    lmse_sintel,
    mae,
    material_variation,
    maw_chromaticity,
    maw_intensity,
    ms_ssim,
    mse,
    normal_errors,
    psnr,
    region_means,
    saw_average_precision,
    si_mse,
    ssim,
    ssim_padded,
    variance_shares,
    whdr,
)
from candlelight.evaluation.intrinsic.lpips import FEATURE_STACKS
from candlelight.evaluation.intrinsic.masked import is_failed
from candlelight.evaluation.models import ColourRetinex
from candlelight.evaluation.models.autoencoders import Posterior
from candlelight.evaluation.perception import (
    DISTANCES,
    LPIPS,
    TransformFamily,
    detection_levels,
    fit_ellipse,
    fit_psychometric,
    fit_transduction,
    normalised_dmos,
    place_on_canvas,
    transform_sensitivity,
)
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

Cases = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


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


def _exchanges(concept: Tensor, negatives: Tensor, gradients: Tensor) -> object:
    return [
        exchange_derivatives(concept, negatives, gradients, seed=0),
        permutation_test(concept[:2]),
        effect_interval(gradients.T, list("abcdef"), 0),
    ]


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


def _explainers(images: Tensor, targets: Tensor) -> object:
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    found = [rise_maps(network, images, targets, masks=70), occlusion_maps(network, images, targets, 3, 2)]
    masks = images[:, 0] > 0.5
    modes = ("gray", 4, "deletion"), ("blur", 3, "insertion")
    curves = [pixel_curves(network, images, maps, targets, *mode) for maps in found for mode in modes]
    hits = [pointing_hits(maps, masks, reach) for maps in found for reach in (0, 1.5)]
    return [*found, *curves, *map(curve_area, curves), *hits]


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


def _smooth(shading: Tensor, labels: Tensor, image: Tensor) -> list[Tensor]:
    return [count_smooth(shading, labels, variant, image) for variant in get_args(SAWVariant)]


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
COMPARISONS = [
    Comparisons(drawn(40, 2, 2, seed=row).double(), torch.arange(40) % 3, 0.1 + drawn(40, seed=row).double())
    for row in range(2)
]
PAIR = drawn(2, 3, 24, 30), 0.1 + drawn(2, 3, 24, 30, seed=1)
GRAY = PAIR[0][:, 0], PAIR[1][:, 0]
MASK, SOFT = drawn(2, 24, 30, seed=2) > 0.2, drawn(2, 24, 30, seed=3)
LARGE = drawn(2, 161, 170), drawn(2, 161, 170, seed=1), drawn(2, 161, 170, seed=2) > 0.9
REGIONS = (5 * drawn(2, 24, 30, seed=3)).long()
COLOURS = 0.1 + drawn(4, 6, 3), 0.1 + drawn(4, 6, 3, seed=1)
PARTS = drawn(2, 4, 24, 30, seed=4) > 0.7
RANKED = drawn(5, 4), drawn(5, 4, seed=1) - 0.5
BLOCKS = drawn(12, 40), drawn(20, 40, seed=1), drawn(6, 40, seed=2) - 0.5
FACTORS = torch.cartesian_prod(torch.arange(3), torch.arange(4), torch.arange(5))
ODD = torch.arange(60) % 2 == 1
CODES, MIXED = drawn(60, 7), drawn(60, 3, seed=1)
LEVELS = torch.linspace(0.1, 3, 8, dtype=torch.float64)

# Each row of the arguments, for example an image, is scored alone.
BY_ROW: Cases = {
    **{
        metric.__name__: (metric, (*PAIR, MASK))
        for metric in (
            *(mae, normal_errors, mse, si_mse, psnr, ssim, dssim, ssim_padded, dssim_crefnet),
            *(lmse_chrislib_rgb, lmse_barron, lmse_sintel, lmse_crefnet),
        )
    },
    "depth_errors": (depth_errors, (PAIR[0][:, :1], PAIR[1][:, :1], MASK)),
    "align": (
        lambda *given: [align(*given, how).to(given[0].dtype) for how in get_args(Alignment)],
        (*PAIR, SOFT),
    ),
    "lmse": (lmse, (*GRAY, MASK)),
    "lmse of weights": (lmse, (*GRAY, SOFT)),
    "lmse in float64": (lmse, (*(image.double() for image in GRAY), MASK)),
    "lmse_barron of weights": (lmse_barron, (*PAIR, SOFT)),
    "lmse_score": (lmse_score, (*PAIR, *PAIR[::-1], MASK)),
    "lmse_barron_score": (lmse_barron_score, (*PAIR, *PAIR[::-1], MASK)),
    "si_mse of the whole image": (si_mse, (*PAIR, torch.ones_like(MASK))),
    "si_mse of Sintel": (lambda *given: si_mse(*given, cap=1, floor=0), (*PAIR, MASK)),
    "ms_ssim": (ms_ssim, LARGE),
    "is_failed": (is_failed, (PAIR[0].masked_fill(PAIR[0] > 0.9995, torch.nan), MASK)),
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
    "variance_shares": (variance_shares, (0.1 + drawn(4, 3, 4, 3, 6, 7), drawn(4, 6, 7) > 0.3)),
    "count_smooth": (_smooth, (PAIR[0], (SOFT * 3).long(), PAIR[1].clamp(max=1))),
    "causal_effects": (causal_effects, (drawn(4, 3), drawn(4, 2, 3, seed=1))),
    "region_density": (region_density, (GRAY[0], PARTS)),
    "region_mass": (region_mass, (GRAY[0], PARTS)),
    "region_share": (region_share, (MASK, PARTS)),
    "rank_agreement": (rank_agreement, RANKED),
    "rank_correlation": (rank_correlation, RANKED),
    "region_hits": (region_hits, RANKED),
}
# The order of the rows, samples of codes and factors, does not count.
BY_SAMPLE: Cases = {
    "irs": (irs, (CODES, FACTORS)),
    "irs, bins": (lambda codes, factors: irs(codes, factors, bins=4), (CODES, MIXED)),
    "irs of disentanglement_lib": (
        lambda codes, factors: irs(codes, factors, compat="disentanglement_lib"),
        (CODES, FACTORS),
    ),
    "mig": (mig, (CODES, FACTORS)),
    "minimality and sufficiency": (minimality_and_sufficiency, (CODES, FACTORS)),
    "modularity": (lambda *given: modularity(*given, 5, "quantile"), (CODES, MIXED)),
    "sap": (lambda *given: sap(*given, categorical=[0]), (CODES[:, :3], FACTORS.float(), ODD)),
    "explicitness": (
        lambda codes, factors, odd: explicitness(codes, factors, training=odd),
        (CODES[:, :3], FACTORS, ODD),
    ),
    "mcc": (
        lambda codes, factors, odd: [mcc(codes, factors, kind, odd) for kind in get_args(Correlation)],
        (CODES[:, :2].double(), MIXED.double(), ODD),
    ),
    "block_r2": (
        lambda codes, factors, odd: [block_r2(codes, factors, kind, odd) for kind in get_args(Regression)],
        (CODES[:, :2].double(), MIXED.double(), ODD),
    ),
    "block_matrices": (
        lambda codes, factors, odd: block_matrices(
            codes, factors, [[0, 2], [1], []], odd, "linear", [1], [2]
        ),
        (CODES[:, :3].double(), MIXED.double(), ODD),
    ),
    "find_blocks": (lambda *given: torch.tensor([*map(len, find_blocks(*given))]), (CODES[:, :4], FACTORS)),
    "dci_es": (
        lambda *given: dci_es(*given, categorical=[0]),
        (CODES[:, :4].double(), FACTORS.double(), ODD),
    ),
    "infomec": (infomec, (CODES[:, :4].double(), FACTORS)),
    "infomec of classes": (infomec, (FACTORS % 3, FACTORS)),
    "entropy": (entropy, (FACTORS,)),
    "neighbour_information": (neighbour_information, (CODES[:, :2].double(), FACTORS)),
    "cdm": (lambda codes: cdm(_decode_flat, codes), (CODES[:, :6],)),
}
CASES: Cases = {
    **BY_ROW,
    **BY_SAMPLE,
    "losses of codes": (_code_losses, (drawn(2, 5), drawn(2, 5, seed=1), PAIR[0])),
    "geometric_mean": (geometric_mean, (drawn(5),)),
    "retinex": (ColourRetinex(), (PAIR[0], MASK)),
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
    "exchanges": (_exchanges, BLOCKS),
    "csm": (csm, tuple(drawn(4, seed=seed) for seed in range(4))),
    "coverage": (_coverage, (drawn(5, 4, 12, 10), drawn(5, 3, 24, 20, seed=1) > 0.6)),
    "coverage, ties": (_coverage, ((drawn(5, 4, 12, 10) * 4).round(), drawn(5, 3, 24, 20, seed=1) > 0.6)),
    "lasso": (lambda x, y: nonnegative_lasso(x.T @ x, y.T @ x, 0.5), (drawn(9, 4), drawn(9, 2, seed=1))),
    "explanations": (_explanations, (drawn(6, 3, 5, 5), torch.arange(6) % 3)),
    "explainers": (_explainers, (drawn(4, 3, 12, 11), torch.arange(4) % 3)),
    "dci": (dci, (CODES[:, :3], FACTORS[:, :2], *torch.arange(60).split([40, 20]))),
    "dci_fast": (dci_fast, (CODES[:, :3], FACTORS[:, :2], *torch.arange(60).split([40, 20]))),
    "block_matrices by networks": (
        lambda *given: block_matrices(*given, [[0, 2], [1]], regression="mlp"),
        (CODES[:, :3].double(), MIXED.double()),
    ),
    "irs_by_interventions": (
        irs_by_interventions,
        (drawn(9, 4), drawn(40, 4, seed=1), torch.arange(40) % 9, drawn(40, 3, seed=2) > 0.6),
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
    "t_mex": (
        lambda *given: [t_mex(*given, kind) for kind in get_args(Regression)],
        (CODES[:, :2].double(), MIXED.double(), drawn(2, 3, seed=2) > 0.5),
    ),
    "fit_psychometric": (
        fit_psychometric,
        (LEVELS, torch.tensor([5, 5, 6, 7, 8, 9, 10, 10]), torch.full((8,), 10)),
    ),
    "fit_transduction": (
        lambda levels: fit_transduction(levels.repeat(4), (levels.repeat(4) / 4).sqrt()),
        (LEVELS,),
    ),
    "fit_ellipse": (
        lambda levels: fit_ellipse(torch.stack([levels.cos() * 2, levels.sin()], 1)),
        (LEVELS,),
    ),
    "normalised_dmos": (normalised_dmos, (LEVELS,)),
    "transform_sensitivity": (
        lambda levels: transform_sensitivity(levels.repeat(3, 1), levels, 1.0),
        (LEVELS,),
    ),
    "detection_levels": (detection_levels, (LEVELS, LEVELS > 0)),
}
