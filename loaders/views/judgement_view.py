"""Open photographs with human judgements: comparisons of reflectance, labels of shading."""

from functools import partial
from typing import Any

from loaders.views.chosen_rows import ChosenRows, Request, RowChoice
from loaders.views.data_source import Content, open_rows
from loaders.views.view_colours import to_linear
from loaders.views.view_items import Comparisons, JudgedImage

_CONTENT = Content("judgements", ("iiw", "saw"))


def open_judgements(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
) -> ChosenRows[JudgedImage]:
    """Open photographs with human judgements.

    Args:
        data: LAYOUT:PATH (iiw, saw), see `parse_data`; or a reader of `loaders.public`.
        set_name: None, because these data have no sets.
        split: split of the data set.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.

    Returns:
        The view, `loaders.views.Judgements`: comparisons of IIW, labels of SAW.

    Raises:
        InputError: the data are missing or have no judgements; no split is named; or the split or row does
            not exist.

    Example:
        >>> open_judgements("mit:MIT-intrinsic")
        Traceback (most recent call last):
        loaders.errors.InputError: mit:MIT-intrinsic: `mit` has no judgements; expected one of the layouts \
iiw, saw
    """
    named = open_rows(Request(data, set_name, split, rows, limit), _CONTENT)
    return ChosenRows(named, partial(_read, named.reader))


def _read(data: Any, row: int) -> JudgedImage:
    item = data[row]
    image = to_linear(item["image"])
    if "labels" in item:
        return JudgedImage(image, None, item["labels"])
    return JudgedImage(image, Comparisons(item["points"], item["darker"], item["score"]), None)
