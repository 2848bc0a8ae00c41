"""Columns of the protocols of Hypersim and InteriorVerse, after the programs of Marigold (prs-eth/Marigold).

"sRGB" in these programs is the plain power 1/2.2.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from candlelight.evaluation.inputs.ground_truth import GroundTruth
from candlelight.evaluation.intrinsic.masked import masked_double
from candlelight.evaluation.intrinsic.psnr import psnr
from candlelight.evaluation.intrinsic.si_mse import rescaled
from candlelight.evaluation.intrinsic.ssim_padded import ssim_padded
from candlelight.evaluation.protocols.protocol_values import BRIGHTNESS, Columns, Predicted, is_lit
from candlelight.loaders.public.hypersim_frames import tone_map
from candlelight.loaders.public.hypersim_truth import cut_off
from candlelight.loaders.views import DecomposedImage
from candlelight.loaders.views.view_colours import to_linear

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
    factor = _BRIGHT * torch.tensor(factors, dtype=torch.float64)[:, None, None, None]
    return (factor * given).clamp(0, 1), (factor * wanted).clamp(0, 1)


def _to_bright(brightness: Float64[Tensor, "..."]) -> float:
    """Return the factor that takes the 90th percentile to 1; nan for dark images, and without pixels.

    The program makes dark images black, which every prediction then fits.
    """
    if not brightness.numel():
        return math.nan
    high = float(np.quantile(brightness.numpy(), _BRIGHT_SHARE))
    return 1 / high if high >= _DARKEST else math.nan


def _encode(linear: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    return linear.clamp(min=0) ** (1 / _GAMMA)
