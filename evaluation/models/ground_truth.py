"""Turn samples of frames into the linear images that models are trained and scored against."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from evaluation.models.protocols import Rows
from loaders.colour import srgb_to_linear
from loaders.errors import InputError

NEEDED = ("image", "albedo", "shading")
_LINEAR = torch.from_numpy(srgb_to_linear(np.arange(256, dtype=np.float32) / 255))


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """A batch of images and their true decomposition, scene-linear Rec.709 in float32.

    Attributes:
        image: decoded `image` layer, in [0, 1].
        albedo: true reflectance, in [0, 1].
        shading: true shading times the set's exposure, so that albedo * shading is in the range of image.
        mask: where any channel of the albedo is above 0; elsewhere no shading is defined.
    """

    image: Float[Tensor, "batch 3 height width"]
    albedo: Float[Tensor, "batch 3 height width"]
    shading: Float[Tensor, "batch 3 height width"]
    mask: Bool[Tensor, "batch height width"]


def decode_image(image: UInt8[Tensor, "*batch 3 height width"]) -> Float[Tensor, "*batch 3 height width"]:
    """Decode 8-bit sRGB pixels to scene-linear values.

    Args:
        image: the `image` layer of one sample or a batch.

    Returns:
        Scene-linear Rec.709 in [0, 1], float32, on the device of the input.

    Example:
        >>> decode_image(torch.tensor([0, 188, 255], dtype=torch.uint8).reshape(3, 1, 1)).flatten()
        tensor([0.0000, 0.5029, 1.0000])
    """
    return _LINEAR.to(image.device)[image.int()]


def ground_truth(samples: Sequence[dict[str, Any]], exposure: float) -> GroundTruth:
    """Stack samples and bring all their layers into the range of the image.

    Args:
        samples: samples as the readers in `loaders` give them, all of one size.
        exposure: the set's exposure.

    Raises:
        InputError: a sample has no `image`, `albedo` or `shading`.

    Example:
        >>> layers = {"albedo": torch.full((3, 1, 2), 0.5).half(), "shading": torch.ones(3, 1, 2).half()}
        >>> truth = ground_truth([{"id": "a", "image": torch.zeros(3, 1, 2).byte(), **layers}], exposure=4.0)
        >>> truth.shading[0, 0].tolist(), truth.mask.tolist()
        ([[4.0, 4.0]], [[[True, True]]])
    """
    for sample in samples:
        missing = [name for name in NEEDED if name not in sample]
        if missing:
            raise InputError(
                f"sample `{sample['id']}` has no `{missing[0]}` layer; expected {', '.join(NEEDED)}: "
                "render the set with them, and read it without leaving them out"
            )
    image, albedo, shading = (torch.stack([sample[name] for sample in samples]) for name in NEEDED)
    return GroundTruth(
        image=decode_image(image),
        albedo=albedo.float(),
        shading=shading.float() * exposure,
        mask=(albedo > 0).any(1),
    )


def check_rows(count: int, rows: Rows | None, name: str = "rows") -> list[int]:
    """Resolve row numbers of frames.

    Args:
        count: how many frames there are.
        rows: row numbers from 0, None for all rows.
        name: argument that an error names.

    Raises:
        InputError: there are no rows, or one is not in the frames.

    Example:
        >>> check_rows(3, None), check_rows(3, (2, 0))
        ([0, 1, 2], [2, 0])
    """
    chosen = list(range(count)) if rows is None else [int(row) for row in rows]
    if not chosen:
        raise InputError(f"`{name}` must name at least one row, got none of {count}")
    for row in chosen:
        if not 0 <= row < count:
            raise InputError(f"`{name}` must lie in 0..{count - 1}, got {row}")
    return chosen
