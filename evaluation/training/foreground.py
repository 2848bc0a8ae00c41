"""Masks and boxes of the foreground, in which a reconstruction counts more."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def mask_boxes(masks: Bool[Tensor, "batch height width"]) -> Int[Tensor, "batch 4"]:
    """Find the box of each mask as (left, top, right, bottom), right and bottom excluded; zeros if empty.

    Example:
        >>> mask = torch.zeros(1, 4, 5, dtype=torch.bool)
        >>> mask[0, 1:3, 2] = True
        >>> mask_boxes(mask)
        tensor([[2, 1, 3, 3]])
    """
    bounds = []
    for axis in (1, 2):
        inside = masks.any(axis).long()  # of columns, then of rows
        first, last = inside.argmax(1), inside.shape[1] - inside.flip(1).argmax(1)
        bounds.append((first, torch.where(inside.any(1), last, 0)))
    (left, right), (top, bottom) = bounds
    return torch.stack([left, top, right, bottom], 1)


def box_masks(
    boxes: Int[Tensor, "batch 4"], height: int, width: int
) -> Bool[Tensor, "batch {height} {width}"]:
    """Fill boxes (left, top, right, bottom), right and bottom excluded; parts outside the image are cut off.

    Example:
        >>> box_masks(torch.tensor([[1, -5, 9, 1]]), 2, 3).int()
        tensor([[[0, 1, 1],
                 [0, 0, 0]]], dtype=torch.int32)
    """
    left, top, right, bottom = boxes[:, :, None].unbind(1)
    rows, columns = (torch.arange(size, device=boxes.device) for size in (height, width))
    inside_rows = (rows >= top) & (rows < bottom)
    inside_columns = (columns >= left) & (columns < right)
    return inside_rows[:, :, None] & inside_columns[:, None]


def foreground_weights(
    masks: Float[Tensor, "batch height width"], extra: float
) -> Float[Tensor, "batch 1 h w"]:
    """Weigh pixels by ``1 + extra * mask`` for `bernoulli_error`.

    Args:
        masks: share of each pixel that is foreground, in [0, 1].
        extra: additional weight of the foreground; 2 in the semi-supervised models of CANDLE's authors, 100
            in their unsupervised one.

    Example:
        >>> foreground_weights(torch.tensor([[[0.0, 1.0]]]), 2)
        tensor([[[[1., 3.]]]])
    """
    return (1 + extra * masks)[:, None]
