"""Rows that a page shows, and maps of the errors of several models in one scale."""

from collections.abc import Sequence

import matplotlib
import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.catalogue.record import Better
from candlelight.evaluation.report.blocks import number, unbroken
from candlelight.evaluation.report.tiles import scale_for_page, scale_mask_for_page
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet_tiles import BACKGROUND

SHOWN_BY_SCORE = ("worst", "median", "best")
_BAR = 6  # pixels of the height of a colour bar
_COLOURS = matplotlib.colormaps["viridis"]


def check_shown(wanted: Sequence[str], ids: Sequence[str]) -> None:
    """Refuse a row that is neither worst, median or best nor an id of the data.

    Example:
        >>> check_shown(["wurst"], ["a"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: --pictures wurst: expected worst, median, best or an id ...
    """
    for one in wanted:
        if one not in SHOWN_BY_SCORE and one not in ids:
            near = did_you_mean(one, [*SHOWN_BY_SCORE, *ids])
            raise InputError(f"--pictures {one}: expected worst, median, best or an id of the data{near}")


def shown_rows(
    wanted: Sequence[str], ids: Sequence[str], scores: Sequence[float], better: Better, what: str
) -> list[tuple[str, int]]:
    """Choose rows: by their place among the rows with a defined score, or by id.

    Args:
        wanted: some of "worst", "second worst", "median", "best", and ids, which go before these words.
        ids: id of each row.
        scores: score of each row.
        better: direction of the scores.
        what: name of the score, for the labels.

    Returns:
        A label and the number of each row, each row once.

    Example:
        >>> shown_rows(["worst", "best", "b"], ["a", "b", "c"], [3.0, 2.0, 1.0], "lower", "LMSE of net")
        [('worst LMSE of net', 0), ('best LMSE of net', 2), ('LMSE of net 2.00', 1)]
    """
    column = np.array(scores) * (-1 if better == "higher" else 1)
    order = [row for row in np.argsort(column, kind="stable").tolist() if not np.isnan(column[row])]
    last = len(order) - 1
    places = {"worst": last, "second worst": last - 1, "median": last // 2, "best": 0}
    rows: dict[int, str] = {}
    for one in wanted:
        if one in ids:
            row = ids.index(one)
            rows.setdefault(row, f"{what} {number(scores[row])}")
        elif 0 <= places[one] <= last:
            rows.setdefault(order[places[one]], f"{one} {what}")
    return [(label, row) for row, label in rows.items()]


def error_tiles(
    maps: Sequence[Float[Tensor, "height width"]], mask: Bool[Tensor, "height width"]
) -> tuple[list[Pixels], str]:
    """Draw maps of errors in one scale, each above a bar of its colours.

    Args:
        maps: errors of each model, at least 0, on the CPU; those outside the mask are not read.
        mask: pixels with an error; the others are gray.

    Returns:
        The maps as tiles of a page, and the range: from 0, dark blue, to the largest of the 99th percentiles
        of the maps, yellow, which larger errors have too.

    Example:
        >>> tiles, reach = error_tiles([torch.zeros(2, 2), torch.full((2, 2), 0.5)], torch.ones(2, 2) > 0)
        >>> tiles[1][0, 0], reach.split()
        (array([253, 231,  37], dtype=uint8), ['0', 'to', '0.500'])
    """
    inside = [one[mask].double().numpy() for one in maps]
    most = max((float(np.quantile(one, 0.99)) for one in inside if one.size), default=0.0)
    tiles = []
    for one in maps:
        shares = (torch.where(mask, one, 0.0).double() / (most or 1.0)).clamp(0, 1).numpy()
        tile = scale_for_page(_coloured(shares))
        tile[~scale_mask_for_page(mask)] = BACKGROUND
        bar = np.tile(np.linspace(0, 1, tile.shape[1]), (_BAR, 1))
        gap = np.full((_BAR // 2, tile.shape[1], 3), BACKGROUND, np.uint8)
        tiles.append(np.concatenate([tile, gap, _coloured(bar)]))
    return tiles, unbroken(f"0 to {number(most)}")


def _coloured(shares: Float[np.ndarray, "height width"]) -> Pixels:
    return np.rint(255 * _COLOURS(shares)[..., :3]).astype(np.uint8)
