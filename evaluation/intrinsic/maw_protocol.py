"""Prepare predictions for the scores of Measured Albedo in the Wild, as its benchmark does."""

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from PIL import Image
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.colour import to_display
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.pixel_tensors import image_tensor
from candlelight.loaders.regions import scale_regions

MAW_SIZE = (240, 320)  # height and width of the evaluation; the aspect of the photograph is not kept


def resize_for_maw(
    prediction: Float[Tensor, "batch 3 height width"], regions: Int64[Tensor, "batch height width"]
) -> tuple[Float32[Tensor, "batch 3 240 320"], Int64[Tensor, "batch 240 320"]]:
    """Resize predicted reflectance and regions to 320 x 240 pixels.

    The benchmark reads predictions from 8-bit sRGB files. So a prediction is clipped to [0, 1], encoded and
    rounded to 8 bits; then Pillow resizes the encoded pixels (bilinear, with its filter for reduction), and
    they are decoded. Regions take the nearest pixel, and may vanish; the benchmark's own code would then
    compare the other regions with wrong colours, but a score of `region_means` only leaves the region out.

    Args:
        prediction: reflectance, scene-linear. Values above 1 are cut off, so scale them down before.
        regions: number of the region at each pixel, 0 outside.

    Returns:
        Scene-linear reflectance and regions, on the CPU.

    Raises:
        InputError: the shapes do not agree, or a prediction is not finite.

    Example:
        >>> resized, _ = resize_for_maw(torch.full((1, 3, 2, 2), 0.5), torch.ones(1, 2, 2).long())
        >>> resized.shape, resized.unique()
        (torch.Size([1, 3, 240, 320]), tensor([0.5029]))
    """
    check_shapes(prediction=(prediction, "batch 3 height width"), regions=(regions, "batch height width"))
    if not bool(prediction.isfinite().all()):
        raise InputError("`prediction` must be finite, got nan or inf; count it as failed")
    height, width = MAW_SIZE
    resized = torch.zeros(len(prediction), 3, height, width)
    numbers = torch.zeros(len(prediction), height, width, dtype=torch.int64)
    for row, (image, areas) in enumerate(zip(prediction.detach().cpu(), regions.cpu(), strict=True)):
        pixels = Image.fromarray(to_display(image.permute(1, 2, 0).double().numpy()))
        small = np.asarray(pixels.resize((width, height), Image.Resampling.BILINEAR))
        resized[row] = image_tensor(small, linear=True)
        numbers[row] = torch.from_numpy(scale_regions(areas.numpy(), MAW_SIZE))
    return resized, numbers
