"""Open images with known factors."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.views.chosen_rows import ChosenRows, Request, RowChoice
from candlelight.evaluation.views.data_source import Content, open_rows
from candlelight.evaluation.views.frame_rows import FrameRows, all_layers
from candlelight.evaluation.views.image_view import read_image
from candlelight.evaluation.views.public_rows import NO_MASKS
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

_LAYOUTS = ("cub70", "celebamask", "dsprites", "mpi3d", "shapes3d", "candle", "tid2013")
_CONTENT = Content("factors", _LAYOUTS, all_layers("image"), NO_MASKS)


@dataclass(frozen=True, eq=False)
class FactoredRows(ChosenRows[Tensor]):
    """Chosen rows with the members of `candlelight.evaluation.views.Factors`."""

    factors: tuple[FactorInfo, ...]
    table: Float64[ndarray, "n k"]


def open_factors(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
) -> FactoredRows:
    """Open images with known factors.

    Args:
        data: PATH, LAYOUT:PATH (cub70, celebamask, dsprites, mpi3d, shapes3d, candle, tid2013) or hf:NAME,
            see `parse_data`; any reader of frames, or one of `candlelight.loaders.public`. Compressed npz
            files are unpacked once, to ``candlelight`` in the user's cache folder.
        set_name: image set of frames, or variant of MPI3D; may be left out where there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.

    Returns:
        The view: `candlelight.evaluation.views.Factors`.

    Raises:
        InputError: the data are missing or have no factors; the set, split or row does not exist; or
            there are several sets or splits, and none is named.

    Example:
        >>> open_factors("saw:photographs")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: saw:photographs: `saw` has no factors; expected frames or one \
of the layouts cub70, celebamask, dsprites, mpi3d, shapes3d, candle, tid2013
    """
    named = open_rows(Request(data, set_name, split, rows, limit), _CONTENT)
    reader = named.reader
    if isinstance(named, FrameRows):
        factors, table = reader.set_info.factors, named.table
    else:
        factors, table = reader.factors, reader.factor_table[list(named.numbers)]
    if not factors:
        raise InputError(f"image set `{named.identity.set_name}` has no factors")
    return FactoredRows(named, partial(read_image, reader), factors, table)
