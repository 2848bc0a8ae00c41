"""Columns of the protocols of MIT Intrinsic Images, ARAP, MPI-Sintel and Stanford-ORB, and ARAP's input."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

from candlelight.evaluation.inputs.ground_truth import GroundTruth
from candlelight.evaluation.intrinsic.crefnet_scores import CREFNET_FLOOR, dssim_crefnet, lmse_crefnet
from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.intrinsic.lmse_barron import lmse_barron_score
from candlelight.evaluation.intrinsic.lmse_chrislib_rgb import lmse_chrislib_rgb
from candlelight.evaluation.intrinsic.lmse_sintel import lmse_sintel
from candlelight.evaluation.intrinsic.psnr import psnr
from candlelight.evaluation.intrinsic.si_mse import si_mse
from candlelight.evaluation.intrinsic.ssim import dssim
from candlelight.evaluation.running.named_models import encode
from candlelight.loaders.views import DecomposedImage

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
    inside = item.mask.to(torch.float32)[None]
    known = torch.where(item.mask, item.reflectance, 0.0), torch.where(item.mask, item.shading, 0.0)
    image, reflectance, shading, inside = (
        interpolate(layer[None], size, mode="bilinear", antialias=True)[0]
        for layer in (item.image, *known, inside)
    )
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
