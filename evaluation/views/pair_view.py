"""Open images with distorted copies and opinion scores."""

from functools import partial
from typing import Any

from candlelight.evaluation.views.chosen_rows import ChosenRows, Request, RowChoice
from candlelight.evaluation.views.data_source import Content, open_rows
from candlelight.evaluation.views.view_colours import to_srgb
from candlelight.evaluation.views.view_items import RatedPair
from candlelight.loaders.public import TID2013

_CONTENT = Content("rated pairs", ("tid2013",))


def open_pairs(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
) -> ChosenRows[RatedPair]:
    """Open images with distorted copies and opinion scores.

    Args:
        data: ``tid2013:PATH``, see `parse_data`; or a `candlelight.loaders.public.TID2013`.
        set_name: None, because these data have no sets.
        split: None, because these data have no splits.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.

    Returns:
        The view, `candlelight.evaluation.views.RatedPairs`; the group of a pair is its reference.

    Raises:
        InputError: the data are missing or have no rated pairs, or a row does not exist.

    Example:
        >>> open_pairs("iiw:photographs")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: iiw:photographs: `iiw` has no rated pairs; expected one of \
the layouts tid2013
    """
    named = open_rows(Request(data, set_name, split, rows, limit), _CONTENT)
    return ChosenRows(named, partial(_read, named.reader))


def _read(data: TID2013, row: int) -> RatedPair:
    item = data[row]
    images = to_srgb(item["reference"]), to_srgb(item["image"])
    return RatedPair(*images, float(data.mos[row]), float(data.mos_std[row]))
