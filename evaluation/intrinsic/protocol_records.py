"""Named evaluation protocols of intrinsic images: every choice that decides the numbers of a table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

from candlelight.evaluation.catalogue.intrinsic_options import MAWOptions, SAWOptions, WHDROptions
from candlelight.evaluation.catalogue.record import Better, Evaluation
from candlelight.evaluation.intrinsic.ground_truth import GroundTruth
from candlelight.evaluation.intrinsic.image_errors import psnr, rescaled, si_mse
from candlelight.evaluation.intrinsic.intrinsic_records import MAW_ERROR, SAW_PRECISION, WHDR
from candlelight.evaluation.intrinsic.lmse import (
    gray,
    lmse,
    lmse_barron_score,
    lmse_chrislib_rgb,
    lmse_sintel,
    sintel_errors,
)
from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    as_channels,
    best_scale,
    check_masked,
    is_finite,
    masked_double,
    score_samples,
    weighted,
)
from candlelight.evaluation.intrinsic.ssim import (
    SSIM_WINDOW,
    check_ssim_images,
    dssim,
    mean_ssim,
    ssim_padded,
)
from candlelight.evaluation.run.model_outputs import PREDICTED_LAYERS
from candlelight.evaluation.run.result import Result
from candlelight.evaluation.views import DecomposedImage
from candlelight.evaluation.views.image_tensors import encode
from candlelight.evaluation.views.view_colours import to_linear
from candlelight.loaders.public.hypersim import cut_off, tone_map

_ALONE = ("reflectance",)
Reads = Literal["decompositions", "comparisons", "labels", "regions"]
Average = Literal["arithmetic", "geometric", "groups", "folds"]

NEVER_COMPARE = (
    "Numbers of two protocols are never comparable, even if both are called LMSE, PSNR or WHDR: the same "
    "prediction gets other numbers, and two models may change places.",
    "Numbers of one protocol are not comparable either if they are of other files, another size of the "
    "images, or another version of the protocol.",
    "A published number is comparable with a number of a protocol only if its paper states the same choices, "
    "above all colour space, scale, mask and file list. Most papers do not.",
)


@dataclass(frozen=True)
class DecompositionRule:
    """Arithmetic of a protocol with true reflectance and shading.

    Attributes:
        values: computes the columns of a batch, [columns, rows], from predicted reflectance and shading,
            float64, scene-linear, and the truth; nan where the truth leaves a column undefined.
        prepare: makes the image that a model is shown, and the truth that it is compared with; None for the
            rows as they are.
        prepared: layouts whose reader has prepared the rows already.
        average: mean over rows: "arithmetic"; "geometric"; "groups", the arithmetic mean of the means of the
            groups; or "folds", that of the means of the two folds of MPI-Sintel, and "arithmetic" elsewhere.
        layers: predicted layers that are scored.
    """

    values: Callable[[Tensor, Tensor, GroundTruth], Tensor]
    prepare: Callable[[DecomposedImage], DecomposedImage] | None = None
    prepared: tuple[str, ...] = ()
    average: Average = "arithmetic"
    layers: tuple[str, ...] = PREDICTED_LAYERS


class Preset(NamedTuple):
    """An evaluation with the options of a protocol."""

    evaluation: Evaluation[Any]
    options: Any


class SureNumbers(NamedTuple):
    """Numbers of a published table that agree with its protocol in all choices."""

    source: str  # of the table, in a few words
    methods: tuple[str, ...]  # rows of the table; all if empty
    column: tuple[str, float]  # of a result: that of the second of the table, and the factor from its unit
    data: tuple[str, str, int]  # layout, split, and number of rows or groups


@dataclass(frozen=True)
class PublishedTable:
    """Published numbers, in the unit of the publication.

    Attributes:
        reading: how the numbers were read.
        columns: titles of the columns, the first of which holds methods.
        rows: a row for each method.
        remark: reasons for which the numbers are not comparable with each other or with the protocol.
        sure: numbers that stand beside own scores of the same data.
    """

    reading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str = ""
    sure: SureNumbers | None = None


@dataclass(frozen=True)
class EvaluationProtocol:
    """A named protocol; the texts are the cells of docs/protocols.md.

    Attributes:
        name: name on the command line.
        version: raised when the same predictions get other numbers.
        reads: content of the data that is scored.
        better: direction of all columns.
        columns: columns of a result, the main one first.
        rule: the arithmetic: a rule, or an evaluation with its options.
        files: data set, and file list or split.
        colour_space: colour space of the compared values.
        scale: alignment of the prediction with the truth.
        mask: pixels that count.
        resize: sizes of the image that is shown and of the values that are compared.
        window: windows, thresholds or regions.
        mean: mean over images.
        source: publication and program.
        trial: whether the protocol was ever run on the real files.
        left_out: columns of the publication that are left out, and further differences, with reasons.
        published: published numbers.
    """

    name: str
    version: int
    reads: Reads
    better: Better
    columns: tuple[str, ...]
    rule: DecompositionRule | Preset
    files: str
    colour_space: str
    scale: str
    mask: str
    resize: str
    window: str
    mean: str
    source: str
    trial: str = "never run on the real files"
    left_out: str = ""
    published: tuple[PublishedTable, ...] = ()


def main_score(result: Result, protocol: EvaluationProtocol) -> float:
    """Return the main score of a result of a protocol.

    Args:
        result: from `candlelight.evaluation.intrinsic.score_protocols.score_protocol`.
        protocol: its protocol.
    """
    return result.scores[protocol.columns[0]].value


def published_beside(record: EvaluationProtocol, result: Result) -> dict[str, dict[str, float]]:
    """Return the published scores, by method and column, of the protocol and the data of a result."""
    about, found = result.about.data, {}
    counts = (about.get("rows"), len(set(result.groups)))
    known = {(about.get("layout"), about.get("split"), count) for count in counts}
    for table in record.published:
        for method, value, *_ in table.rows if (sure := table.sure) and sure.data in known else ():
            if sure and method in (sure.methods or method):
                score = float(f"{float(value) * sure.column[1]:.6g}")
                found[f"{method} (published, {sure.source})"] = {sure.column[0]: score}
    return found


THIRD_PARTY = "as transcribed by a third party (tmkhang1999/CARI, 2026); the papers' tables were not opened"

ARAP_TABLE = PublishedTable(
    f"Careaga and Aksoy 2023, Table 1, albedo, {THIRD_PARTY}",
    ("method", "LMSE", "RMSE"),
    (
        ("Chromaticity", ".024", ".296"),
        ("Bell et al. 2014", ".028", ".317"),
        ("NIID-Net", ".022", ".206"),
        ("BigTime (Li and Snavely 2018)", ".018", ".227"),
        ("PIE-Net", ".026", ".273"),
        ("Ordinal Shading", ".021", ".252"),
    ),
    "The table also has SSIM, of an input that is not known.",
)
WHDR_TABLES = (
    PublishedTable(
        f"Careaga and Aksoy 2023, Table 2, networks not trained on IIW, {THIRD_PARTY}",
        ("method", "WHDR"),
        (
            ("Bell et al. 2014", ".206"),
            ("CGIntrinsics", ".178"),
            ("NIID-Net", ".166"),
            ("PIE-Net", ".213"),
            ("Ordinal Shading", ".249"),
        ),
        "Linear values for Bell et al. and Ordinal Shading; the programs of CGIntrinsics and NIID-Net "
        "compare gamma-encoded ones.",
    ),
    PublishedTable(
        f"Wang et al., Table I, full test split, {THIRD_PARTY}",
        ("method", "WHDR"),
        (
            ("Bell et al. 2014", ".206"),
            ("CGIntrinsics", ".154"),
            ("NIID-Net", ".166"),
            ("CRefNet", ".145"),
            ("Texture-aware IID", ".136"),
        ),
        "The table mixes linear and gamma-encoded values, and networks trained with and without IIW.",
    ),
)
GAMMA_TABLE = PublishedTable(
    "Gupta et al. 2022 (CSM), Table 1",
    ("method", "WHDR"),
    (("BigTime", ".203"), ("USI3D", ".1869"), ("CGIntrinsics", ".148")),
    "The colour space of USI3D's number is not known.",
    SureNumbers("CSM Table 1", ("BigTime", "CGIntrinsics"), ("whdr", 1), ("iiw", "test", 1046)),
)
SAW_TABLE = PublishedTable(
    "Gupta et al. 2022 (CSM), Table 1",
    ("method", "SAW AP %"),
    (("BigTime", "91.87"), ("USI3D", "78.69"), ("CGIntrinsics", "97.93")),
    "The table mixes protocols: BigTime's program computes the plain area with thresholds up to log 8, that "
    "of CGIntrinsics the challenge.",
    SureNumbers("CSM Table 1", ("CGIntrinsics",), ("saw_ap", 0.01), ("saw", "test", 1699)),
)
MAW_TABLE = PublishedTable(
    f"CD-IID (Careaga and Aksoy 2024), Table 1, {THIRD_PARTY}",
    ("method", "100 x intensity", "chromaticity"),
    (
        ("Bell et al. 2014", "3.11", "6.61"),
        ("CGIntrinsics", "2.71", "5.15"),
        ("BigTime (Li and Snavely 2018)", "1.72", "6.56"),
        ("NIID-Net", "1.24", "4.73"),
        ("IRISformer", "1.44", "4.94"),
        ("Kocsis et al. 2024", "1.13", "5.35"),
        ("IntrinsicAnything", ".98", "4.12"),
        ("Ordinal Shading", ".57", "6.56"),
        ("CD-IID", ".54", "3.37"),
    ),
    "The release has fewer images than the paper. The third party's own run of Ordinal Shading gave .657 and "
    "6.884.",
)
ORB_TABLE = PublishedTable(
    "the result files of the repository of Stanford-ORB (visualize/methods)",
    ("method", "PSNR"),
    (
        ("NVDiffRecMC", "41.60"),
        ("NVDiffRec", "40.70"),
        ("InvRender", "40.32"),
        ("NeRFactor", "40.11"),
        ("NeRD", "40.59"),
        ("SIRFS", "37.90"),
        ("PhySG", "36.82"),
        ("Neural-PIL", "36.89"),
        ("SingleImage", "34.94"),
    ),
    "",
    SureNumbers("its repository", (), ("psnr_reflectance", 1), ("stanford-orb", "full", 42)),
)


CREFNET_FLOOR = 1e-5  # energy of a prediction, or of a window of it, up to which its scale is 0
_STEPS = tuple(sign * 2.0**-power for power in range(2, 11) for sign in (-1, 1))
_LARGEST_SCALE = 5.0


def lmse_crefnet(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the si-LMSE of CRefNet: `lmse_sintel` without a cut at 1, with more windows at the edges.

    Windows also begin exactly a step before the right and the bottom edge, the scale of a window is 0 where
    its energy is at most `CREFNET_FLOOR`, the scaled prediction is not cut, and windows outside the mask
    count as perfect.

    Args:
        prediction: predicted reflectance or shading, in any scale, in the colour space of the target.
        target: ground truth in [0, 1]; the paper takes the stored values of the 8-bit images over 255.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        One error per sample, >= 0, lower is better; nan, and blind, as `lmse_sintel`.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or the image
            has no window.

    Example:
        >>> target, mask = torch.full((1, 3, 20, 20), 0.5), torch.ones(1, 20, 20)
        >>> lmse_crefnet(3 * target, target, mask), lmse_crefnet(0 * target, target, mask)
        (tensor([0.]), tensor([0.2500]))
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    errors = partial(sintel_errors, floor=CREFNET_FLOOR, cap=None, last=1, empty=True)
    return score_samples(errors, prediction, target, mask)


def dssim_crefnet(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the DSSIM of CRefNet: with a search for the scale that gives the best SSIM.

    ``(1 - SSIM(a p, t)) / 2`` over all windows of `SSIM_DEFINITION`, where images are 0 outside the mask. The
    search begins at the scale of least squares, and goes on in steps of -1/4, 1/4, -1/8, 1/8, ... 1/1024 as
    long as each step improves the score and the scale stays between 0 and 5. It finds a local optimum.

    Args:
        prediction: predicted reflectance or shading, in any scale, in the colour space of the target.
        target: ground truth in [0, 1]; the paper takes the stored values of the 8-bit images over 255.
        mask: weights of the scale; in the SSIM, pixels of weight 0 are outside. They are never read.

    Returns:
        One dissimilarity per sample in [0, 1], lower is better; nan in the cases of `ssim`. Blind to what
        `dssim` is blind to.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or the image
            is smaller than a window.

    Example:
        >>> target = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> dssim_crefnet(3 * target, target, torch.ones(1, 16, 16)).round(decimals=6)
        tensor([0.])
    """
    check_ssim_images(prediction, target, mask, 1, SSIM_WINDOW, "SSIM")
    return score_samples(_dissimilarities, prediction, target, mask)


def _dissimilarities(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float64[Tensor, " batch"]:
    predicted, true = (as_channels(masked_double(one.detach(), mask)) for one in (prediction, target))
    energy = weighted(predicted.square(), mask).flatten(1).sum(1)
    cross = weighted(predicted * true, mask).flatten(1).sum(1)
    known = is_finite(predicted) & is_finite(true) & (mask > 0).flatten(1).any(1)
    scales = best_scale(energy, cross, CREFNET_FLOOR)
    found = [
        _search(one[None], other[None], float(scale)) if usable else torch.nan
        for one, other, scale, usable in zip(predicted, true, scales, known, strict=True)
    ]
    return torch.tensor(found, dtype=torch.float64, device=predicted.device)


def _search(
    predicted: Float64[Tensor, "1 channels height width"],
    true: Float64[Tensor, "1 channels height width"],
    scale: float,
) -> float:
    everywhere: Bool[Tensor, "1 height width"] = torch.ones_like(true[:, 0], dtype=torch.bool)

    def score(factor: float) -> float:
        return float((1 - mean_ssim(factor * predicted, true, everywhere, 1).mean()) / 2)

    best = score(scale)
    for step in _STEPS:
        while 0 < scale + step < _LARGEST_SCALE and (new := score(scale + step)) < best:
            scale, best = scale + step, new
    return best


Predicted = Float64[Tensor, "rows 3 height width"]
Columns = Float64[Tensor, "columns rows"]
ARAP_SIDE = 512  # pixels of the longer side
BRIGHTNESS = (0.3, 0.59, 0.11)  # weights of red, green and blue
_WEAKEST_CHANNEL = 1e-6  # energy of a channel up to which Stanford-ORB takes the scale of ones


def grosse_values(reflectance: Predicted, shading: Predicted, truth: GroundTruth) -> Columns:
    """Compute LMSE of the channel means: both, reflectance, shading."""
    pairs = (reflectance, truth.reflectance), (shading, truth.shading)
    return _with_means([(gray(given), gray(true.double())) for given, true in pairs], truth.mask, lmse)


def barron_values(reflectance: Predicted, shading: Predicted, truth: GroundTruth) -> Columns:
    """Compute `lmse_barron_score`, and the MSE with one scale of reflectance and of shading.

    The program needs as many channels of the label as of the prediction, so gray shading is repeated.
    """
    true = truth.reflectance.double(), truth.shading.double().expand_as(shading)
    local = lmse_barron_score(reflectance, shading, *true, truth.mask)
    pairs = zip((reflectance, shading), true, strict=True)
    return torch.stack([local, *(si_mse(given, other, truth.mask) for given, other in pairs)])


def ordinal_values(reflectance: Predicted, shading: Predicted, truth: GroundTruth) -> Columns:
    """Compute LMSE with one scale for all channels of a window, and RMSE with one scale, of reflectance."""
    del shading
    pair = reflectance, truth.reflectance.double(), truth.mask
    return torch.stack([lmse_chrislib_rgb(*pair), si_mse(*pair, floor=0).sqrt()])


def ordinal_input(item: DecomposedImage) -> DecomposedImage:
    """Make the input of the protocol of Ordinal Shading: resized, lit by white light, clipped to [0, 1].

    The image divided by the reflectance is coloured shading; its brightness times the reflectance is the new
    image. Where a channel of the reflectance is 0, the image gives no shading, and 0 is taken. Images and
    truth are resized by bilinear interpolation with anti-aliasing; a pixel stays in the mask if all pixels
    that it is made of are in it. Reflectance outside the mask counts as 0.

    Args:
        item: an image and its decomposition.
    """
    height, width = item.mask.shape
    longer = max(height, width)
    size = [max(1, round(side * ARAP_SIDE / longer)) for side in (height, width)]
    known = torch.where(item.mask, item.reflectance, 0.0), torch.where(item.mask, item.shading, 0.0)
    layers = item.image, *known, item.mask.to(torch.float32)[None]
    resized = interpolate(torch.cat(layers)[None], size, mode="bilinear", antialias=True)[0]
    image, reflectance, shading, inside = torch.split(resized, [len(layer) for layer in layers])
    light = torch.where(reflectance > 0, image / reflectance, 0.0)
    weights = light.new_tensor(BRIGHTNESS)[:, None, None]
    white = (reflectance * (weights * light).sum(0)).clamp(0, 1)
    mask = inside[0] > 1 - 1e-5
    return DecomposedImage(white, reflectance, shading, mask)


def sintel_values(reflectance: Predicted, shading: Predicted, truth: GroundTruth) -> Columns:
    """Compute si-MSE, si-LMSE and DSSIM of 8-bit sRGB values: both, reflectance, shading of each score."""
    pairs = [(_stored(given), _stored(true)) for given, true in _pairs(reflectance, shading, truth)]
    return _with_means(pairs, truth.mask, partial(si_mse, cap=1, floor=0), lmse_sintel, dssim)


def crefnet_values(reflectance: Predicted, shading: Predicted, truth: GroundTruth) -> Columns:
    """Compute CRefNet's si-MSE, si-LMSE and DSSIM: both, reflectance, shading of each score."""
    pairs = [(encode(given), _stored(true)) for given, true in _pairs(reflectance, shading, truth)]
    si_mse_crefnet = partial(si_mse, floor=CREFNET_FLOOR)
    return _with_means(pairs, truth.mask, si_mse_crefnet, lmse_crefnet, dssim_crefnet)


def orb_values(reflectance: Predicted, shading: Predicted, truth: GroundTruth) -> Columns:
    """Compute PSNR of linear reflectance over the whole image, black outside the eroded mask.

    Each channel has the scale of least squares in the mask, and is then clipped to [0, 1]. A score is never
    below that of a prediction of 0.5. It is undefined if the truth is black, which every prediction fits.
    """
    del shading
    inside = _eroded(truth.mask)
    true = truth.reflectance.double().masked_fill(~inside[:, None], 0).clamp(0, 1)
    given = reflectance.masked_fill(~inside[:, None], 0)
    weak = (given.square().sum((2, 3), keepdim=True) <= _WEAKEST_CHANNEL) & inside[:, None]
    base = torch.where(weak, 1.0, given)
    energy = base.square().sum((2, 3), keepdim=True)
    scale = (true * base).sum((2, 3), keepdim=True) / torch.where(energy > 0, energy, 1.0)
    half = torch.where(inside[:, None], 0.5, torch.zeros_like(given))
    everywhere = torch.ones_like(inside)
    scores = [psnr(some, true, everywhere) for some in ((scale * given).clamp(0, 1), half)]
    return torch.stack(scores).amax(0, keepdim=True).masked_fill(~is_lit(true), torch.nan)


def is_lit(layer: Float[Tensor, "rows 3 height width"]) -> Bool[Tensor, " rows"]:
    """Tell which images of a true layer are not black."""
    return layer.flatten(1).any(1)


def _pairs(
    reflectance: Predicted, shading: Predicted, truth: GroundTruth
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pair predictions with the truth; gray true shading is compared with the mean of predicted channels."""
    if truth.shading.shape[1] == 1:
        shading = shading.mean(1, keepdim=True)
    return (reflectance, truth.reflectance.double()), (shading, truth.shading.double())


def _with_means(
    pairs: Sequence[tuple[Tensor, Tensor]], mask: Tensor, *scores: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Columns:
    """Compute scores of reflectance and of shading; each score has its mean first."""
    found = [[score(*pair, mask) for pair in pairs] for score in scores]
    return torch.stack([value for one, other in found for value in (0.5 * (one + other), one, other)])


def _stored(linear: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Encode values as an 8-bit sRGB file holds them, over 255."""
    return (encode(linear) * 255).round() / 255


def _eroded(mask: Bool[Tensor, "rows height width"]) -> Bool[Tensor, "rows height width"]:
    """Erode a mask by 5x5 pixels; the edge of the image erodes nothing."""
    outside = (~mask).float().unsqueeze(1)
    return max_pool2d(outside, 5, stride=1, padding=2).squeeze(1) == 0


_GAMMA = 2.2
_BRIGHT, _BRIGHT_SHARE = 0.8, 0.9  # this share of the pixels is to be darker than 0.8 of white
_DARKEST = 1e-4  # brightness of that pixel below which the program makes the image black


def hypersim_values(reflectance: Predicted, shading: Predicted, truth: GroundTruth) -> Columns:
    """Compute PSNR and SSIM of encoded reflectance without a scale, and of scaled linear shading."""
    mask = truth.mask
    true_shading = truth.shading.double().expand_as(shading)
    pairs = (
        (_encode(reflectance), _encode(truth.reflectance.double())),
        _mapped(shading, true_shading, truth),
    )
    return torch.stack([score(*pair, mask) for pair in pairs for score in (psnr, ssim_padded)])


def hypersim_item(item: DecomposedImage) -> DecomposedImage:
    """Prepare a frame as those of Hypersim are: tone-mapped image, shading with a cut-off.

    `tone_map` makes the image, which is decoded by the sRGB curve like every 8-bit image. The shading is
    clipped to [0, c] and divided by c, its `cut_off`. In Hypersim c is the larger of the cut-offs of shading
    and residual; these data have no residual here.

    Args:
        item: an image and its decomposition.
    """
    pixels = torch.from_numpy(tone_map(item.image.double().permute(1, 2, 0).numpy())).permute(2, 0, 1)
    shading = item.shading.double()
    if (cut := cut_off(shading.numpy())) > 0:
        shading = shading.clamp(0, cut) / cut
    return replace(item, image=to_linear(pixels), shading=shading.float(), lights=None)


def interiorverse_item(item: DecomposedImage) -> DecomposedImage:
    """Clip image and true reflectance to [0, 1], as the program does when it reads them.

    Args:
        item: an image and its decomposition.
    """
    return replace(item, image=item.image.clamp(0, 1), reflectance=item.reflectance.clamp(0, 1), lights=None)


def interiorverse_values(
    reflectance: Predicted, shading: Predicted, truth: GroundTruth, *, encoded: bool, scaled: bool
) -> Columns:
    """Compute PSNR and SSIM of reflectance over the whole image.

    Args:
        reflectance: predicted.
        shading: not read.
        truth: the truth; a row whose reflectance is black holds none, and is undefined.
        encoded: whether values with the power 1/2.2 are compared, or linear ones.
        scaled: whether the prediction first gets the scale of least squares in linear light.
    """
    del shading
    everywhere = torch.ones_like(truth.mask)
    true = truth.reflectance.double()
    if scaled:
        reflectance = rescaled(reflectance, true, everywhere, floor=0)
    if encoded:
        reflectance, true = _encode(reflectance), _encode(true)
    scores = [score(reflectance, true, everywhere) for score in (psnr, ssim_padded)]
    return torch.stack(scores).masked_fill(~is_lit(true), torch.nan)


def _mapped(
    shading: Predicted, true: Float64[Tensor, "rows 3 height width"], truth: GroundTruth
) -> tuple[Predicted, Predicted]:
    """Scale predicted shading to the truth; map both so that the truth has a common brightness."""
    given, wanted = masked_double(shading, truth.mask), masked_double(true, truth.mask)
    given = rescaled(given, wanted, truth.mask, floor=0)
    brightness = (wanted * wanted.new_tensor(BRIGHTNESS)[:, None, None]).sum(1)
    factors = [_to_bright(row[inside]) for row, inside in zip(brightness, truth.mask, strict=True)]
    factor = _BRIGHT * torch.stack(factors)[:, None, None, None]
    return (factor * given).clamp(0, 1), (factor * wanted).clamp(0, 1)


def _to_bright(brightness: Float64[Tensor, " pixels"]) -> Float64[Tensor, ""]:
    """Compute the factor that takes the 90th percentile to 1; nan for dark images, and without pixels.

    The program makes dark images black, which every prediction then fits.
    """
    if not brightness.numel():
        return brightness.new_tensor(torch.nan)
    position = _BRIGHT_SHARE * (brightness.numel() - 1)
    below, above = (brightness.kthvalue(1 + round_(position)).values for round_ in (math.floor, math.ceil))
    high = torch.lerp(below, above, position % 1)
    return torch.where(high >= _DARKEST, 1 / high, torch.nan)


def _encode(linear: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    return linear.clamp(min=0) ** (1 / _GAMMA)


_GAMMA_POWER = 0.4545  # of the programs of CGIntrinsics and BigTime, for 1/2.2
_MEAN = "arithmetic, over images"
_FOLDS = "arithmetic, over the images of a fold, then over the two folds"

JUDGEMENT_RECORDS = (
    EvaluationProtocol(
        name="iiw-whdr",
        version=1,
        reads="comparisons",
        better="lower",
        columns=("whdr",),
        rule=Preset(WHDR, WHDROptions(threshold=0.10)),
        files="IIW: 1,046 test photographs, every fifth in text order; in some papers all 5,230",
        colour_space="linear, mean of the channels",
        scale="none needed",
        mask="points judged opaque",
        resize="prediction enlarged to the photograph",
        window="ratio of two points above 1.10",
        mean=_MEAN,
        source="Bell et al., SIGGRAPH 2014 (whdr.py); MAW and Ordinal Shading",
        published=WHDR_TABLES,
    ),
    EvaluationProtocol(
        name="iiw-gamma",
        version=1,
        reads="comparisons",
        better="lower",
        columns=("whdr",),
        rule=Preset(WHDR, WHDROptions(threshold=0.10, power=_GAMMA_POWER)),
        files="as `iiw-whdr`",
        colour_space="power 0.4545 (1/2.2), then the mean of the channels",
        scale="none needed",
        mask="points judged opaque",
        resize="prediction enlarged to the photograph after the power",
        window="ratio of two points above 1.10, which is 1.233 in linear light",
        mean=_MEAN,
        source="Li and Snavely, CGIntrinsics, ECCV 2018, and BigTime, CVPR 2018",
        left_out="CRefNet clips the same values to 1. NIID-Net has a faulty sRGB curve, and Fan et al. 2018 "
        "compare the pixels of their files.",
        published=(GAMMA_TABLE,),
    ),
    EvaluationProtocol(
        name="saw",
        version=1,
        reads="labels",
        better="higher",
        columns=("saw_ap",),
        rule=Preset(SAW_PRECISION, SAWOptions(variant="cgintrinsics2018")),
        files="SAW: test photographs, labels without a filter, as CGIntrinsics takes them",
        colour_space="linear, mean of the channels, raised to 1e-4, logarithm",
        scale="none needed",
        mask="labelled pixels",
        resize="prediction enlarged to the photograph of 512 pixels",
        window="gradients; largest within 10x10 for labels 0 and 1; 400 thresholds, log 1.001 to log 64",
        mean="one curve of all photographs; area from recall 0 to (1, 0.5)",
        source="NIID-Net, mode 0; the area of Li and Snavely, ECCV 2018",
        left_out="BigTime has thresholds up to log 8 and gamma-encoded shading. Kovacs et al. 2017 publish "
        "curves without a number.",
    ),
    EvaluationProtocol(
        name="saw-challenge",
        version=1,
        reads="labels",
        better="higher",
        columns=("saw_ap",),
        rule=Preset(SAW_PRECISION, SAWOptions(variant="challenge2018", power=_GAMMA_POWER)),
        files="as `saw`",
        colour_space="power 0.4545 (1/2.2), mean of the channels, raised to 1e-4, logarithm",
        scale="none needed",
        mask="labelled pixels; smooth regions weigh by the gradient of the photograph",
        resize="as `saw`",
        window="as `saw`",
        mean="as `saw`; sums of weights of each photograph rounded down",
        source="Li and Snavely, CGIntrinsics, ECCV 2018",
        published=(SAW_TABLE,),
    ),
    EvaluationProtocol(
        name="saw-challenge-linear",
        version=1,
        reads="labels",
        better="higher",
        columns=("saw_ap",),
        rule=Preset(SAW_PRECISION, SAWOptions(variant="challenge2018")),
        files="as `saw`",
        colour_space="as `saw`",
        scale="none needed",
        mask="as `saw-challenge`",
        resize="as `saw`",
        window="as `saw`",
        mean="as `saw-challenge`",
        source="NIID-Net, mode 1; CRefNet (solver/metrics_saw.py)",
    ),
    EvaluationProtocol(
        name="maw-2023",
        version=1,
        reads="regions",
        better="lower",
        columns=("maw_intensity", "maw_chromaticity"),
        rule=Preset(MAW_ERROR, MAWOptions()),
        files="MAW: all photographs of the release, without 14 of scene_0",
        colour_space="linear; prediction clipped to [0, 1] and stored as 8-bit sRGB",
        scale="intensity: one for the image; chromaticity: one for each region",
        mask="measured regions, weighted by pixels",
        resize="320x240, without regard to the aspect",
        window="mean colours of regions; CIEDE2000",
        mean=_MEAN,
        source="Wu et al., 2023 (arXiv 2306.15662); numerical_albedo.py, losses si/mean and per_si/deltae",
        left_out="Papers print 100 times the intensity. LPIPS and shading are left out. Two details "
        "differ: intrinsic.md names them.",
        published=(MAW_TABLE,),
    ),
)


_SINTEL_COLUMNS = tuple(
    f"{score}{part}" for score in ("si_mse", "si_lmse", "dssim") for part in ("", "_reflectance", "_shading")
)


_MARIGOLD = "Ke et al., Marigold, 2025; prs-eth/Marigold b1dffaa, script/iid/eval.py"


_INTERIORVERSE = EvaluationProtocol(
    name="interiorverse-marigold",
    version=2,
    reads="decompositions",
    better="higher",
    columns=("psnr_reflectance", "ssim_reflectance"),
    rule=DecompositionRule(
        partial(interiorverse_values, encoded=True, scaled=False), interiorverse_item, layers=_ALONE
    ),
    files="InteriorVerse, 85 degrees: 2,672 test frames of 210 scenes; the download is gone since 2026",
    colour_space="power 1/2.2",
    scale="none",
    mask="none: every pixel counts, also those without a truth; an image of black truth is left out",
    resize="none after the network, which works at 640 pixels in the program",
    window="SSIM of torchmetrics 1.6 to 1.8, range 1",
    mean=_MEAN,
    source=_MARIGOLD,
    left_out="LPIPS, and material.",
)


def _interiorverse(name: str, *, encoded: bool, scaled: bool) -> EvaluationProtocol:
    scale = f"one for the image, of least squares{' in linear light' if encoded else ''}"
    values = partial(interiorverse_values, encoded=encoded, scaled=scaled)
    return replace(
        _INTERIORVERSE,
        name=name,
        rule=DecompositionRule(values, interiorverse_item, layers=_ALONE),
        files=f"as `{_INTERIORVERSE.name}`",
        colour_space="power 1/2.2" if encoded else "linear",
        scale=scale if scaled else "none",
        source="ours: no paper publishes a program with this choice",
        left_out="",
    )


_RECORDS = (
    EvaluationProtocol(
        name="mit-grosse",
        version=1,
        reads="decompositions",
        better="lower",
        columns=("lmse", "lmse_reflectance", "lmse_shading"),
        rule=DecompositionRule(grosse_values),
        files="MIT Intrinsic Images: 16 objects, `diffuse`",
        colour_space="linear, mean of the channels",
        scale="one for each window",
        mask="the object, as a factor of each pixel",
        resize="none",
        window="20x20, 10 apart, wholly in the image; errors / squared truth, summed over windows",
        mean=f"{_MEAN}; mean of reflectance and shading",
        source="Grosse et al., ICCV 2009; intrinsic.py, comparison.py",
        trial="run on the real files, in the cropped copy of Barron and Malik",
        left_out="The paper chooses thresholds by leave-one-out, as `evaluate methods` does.",
    ),
    EvaluationProtocol(
        name="mit-barron",
        version=1,
        reads="decompositions",
        better="lower",
        columns=("lmse", "mse_reflectance", "mse_shading"),
        rule=DecompositionRule(barron_values, average="geometric"),
        files="MIT Intrinsic Images: 10 objects",
        colour_space="linear, each channel; gray true shading is repeated",
        scale="LMSE: one for each window and channel; MSE: one for all pixels and channels",
        mask="the object",
        resize="none",
        window="blocks of 20x20 from pixel 0 and from pixel 9, in both directions, filled with zeros",
        mean="geometric, over images; LMSE is the mean of reflectance and shading",
        source="Barron and Malik, TPAMI 2015; Fan et al., CVPR 2018 (compute_MIT_error.m)",
        trial="run on the real files of the 16 objects of `mit-grosse`, not on its own ten",
    ),
    EvaluationProtocol(
        name="arap-ordinal",
        version=1,
        reads="decompositions",
        better="lower",
        columns=("lmse_reflectance", "rmse_reflectance"),
        rule=DecompositionRule(ordinal_values, ordinal_input, layers=_ALONE),
        files="ARAP: 52 scenes in the paper; the list is not published",
        colour_space="linear, all channels",
        scale="LMSE: one for each window; RMSE: one for the image",
        mask="that of the files",
        resize="long side 512, for the model and for scoring; the input is white-balanced by the true "
        "reflectance and clipped to [0, 1]",
        window="16x16, 8 apart, wholly in the image; errors / squared truth, summed over windows",
        mean=_MEAN,
        source="Careaga and Aksoy, Ordinal Shading, TOG 2023; chrislib; answers 19, 20 and 22 in the issues "
        "of compphoto/Intrinsic",
        left_out="SSIM: which image it takes is not known. The filter of the resizing is not published; "
        "here it is bilinear with anti-aliasing. CD-IID takes other scenes and a coloured input.",
        published=(ARAP_TABLE,),
    ),
    EvaluationProtocol(
        name="sintel",
        version=2,
        reads="decompositions",
        better="lower",
        columns=_SINTEL_COLUMNS,
        rule=DecompositionRule(sintel_values, average="folds"),
        files="MPI-Sintel: scene split of 450 test frames and its reverse of 440; papers also take 400 "
        "frames without defects, image splits, and crops",
        colour_space="stored 8-bit values, here sRGB clipped to [0, 1], of prediction and truth",
        scale="si-MSE, DSSIM: one for the image; si-LMSE: one for each window; cut at 1, but for DSSIM",
        mask="none on MPI-Sintel as released; that of the data elsewhere",
        resize="none",
        window="si-LMSE: a tenth of the longer side, half of that apart, cut off at the edge, mean over "
        "windows; SSIM 11x11, wholly in the image",
        mean=f"{_FOLDS}; mean of reflectance and shading",
        source="Chen and Koltun, ICCV 2013; Narihira et al., ICCV 2015; Fan et al., CVPR 2018 (MATLAB)",
        left_out="Another program of theirs searches the scale of the best SSIM.",
    ),
    EvaluationProtocol(
        name="sintel-crefnet",
        version=2,
        reads="decompositions",
        better="lower",
        columns=_SINTEL_COLUMNS,
        rule=DecompositionRule(crefnet_values, average="folds"),
        files="MPI-Sintel: scene split of 400 test frames without defects and its reverse of 390",
        colour_space="truth: stored 8-bit values, here sRGB; prediction: sRGB clipped to [0, 1], not rounded",
        scale="as `sintel`, not cut at 1; DSSIM: the scale of a search for the best SSIM",
        mask="that of the files",
        resize="none",
        window="as `sintel`, with further windows at the edges; windows outside the mask count as perfect",
        mean=_FOLDS,
        source="Luo et al., CRefNet, TVCG 2024 (solver/metrics_intrinsic_images.py)",
        left_out="The program scores reflectance or shading in a run; the mean of both is ours.",
    ),
    EvaluationProtocol(
        name="hypersim-marigold",
        version=2,
        reads="decompositions",
        better="higher",
        columns=("psnr_reflectance", "ssim_reflectance", "psnr_shading", "ssim_shading"),
        rule=DecompositionRule(hypersim_values, hypersim_item, prepared=("hypersim",)),
        files="Hypersim: 5,238 test frames of 44 scenes (hypersim_test.txt)",
        colour_space="reflectance: power 1/2.2; shading: linear, mapped so that the 90th percentile of the "
        "true brightness is 0.8, clipped to [0, 1]",
        scale="reflectance: none; shading: one for all channels",
        mask="reflectance known and not black, shading known; SSIM: black outside, all windows count; "
        "shading that the program maps to black is left out",
        resize="none; image tone-mapped to 8 bits; true shading clipped at its 98th percentile and divided "
        "by it",
        window="SSIM of torchmetrics 1.6 to 1.8, range 1",
        mean=_MEAN,
        source=_MARIGOLD,
        left_out="LPIPS and the residual; so the shading of other data than Hypersim is cut off at its own "
        "percentile alone. Each layer has a mask of its own in the program. torchmetrics 1.2 computes "
        "another SSIM.",
    ),
    _INTERIORVERSE,
    _interiorverse("interiorverse-scaled", encoded=True, scaled=True),
    _interiorverse("interiorverse-linear", encoded=False, scaled=False),
    _interiorverse("interiorverse-linear-scaled", encoded=False, scaled=True),
    EvaluationProtocol(
        name="stanford-orb",
        version=2,
        reads="decompositions",
        better="higher",
        columns=("psnr_reflectance",),
        rule=DecompositionRule(orb_values, average="groups", layers=_ALONE),
        files="Stanford-ORB: 42 captures of 14 objects (SCENES_FULL), 512x512",
        colour_space="linear, though the program calls it psnr_ldr",
        scale="one for each channel, then clipped to [0, 1]",
        mask="the object, eroded by 5x5 pixels; the black rest counts, hence values near 40 dB; an object "
        "of black truth is left out",
        resize="none; files of 2048 pixels are reduced by 4 at reading, as in the program",
        window="none; never below the score of 0.5 everywhere",
        mean="arithmetic, over the views of a capture, then over captures (groups)",
        source="Kuang et al., Stanford-ORB, NeurIPS 2023; orb/utils/metrics.py, test.py",
        left_out="SSIM (window 3) and LPIPS (VGG).",
        published=(ORB_TABLE,),
    ),
)
PROTOCOLS = {record.name: record for record in (*_RECORDS, *JUDGEMENT_RECORDS)}
