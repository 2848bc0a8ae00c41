"""The picture of an image set on its card: a contact sheet in which, if possible, only one factor changes."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from PIL import Image

from candlelight.loaders.hub.arrow_tables import layer_column
from candlelight.loaders.hub.set_facts import decode_frame, read_rows
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet import contact_sheet
from candlelight.loaders.looking.sheet_rows import choose_sheet_rows
from candlelight.loaders.packs.pack_manifest import Shard
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import SetInfo

LARGEST_PICTURE = 300_000  # bytes
ROWS, COLUMNS, TILE = (
    6,
    4,
    192,
)  # largest numbers of samples, of layers, and of pixels of a tile's longer side
_SHOWN = ("image", "albedo", "shading", "depth", "normal", "object")


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows of the Parquet files of an image set, as `candlelight.loaders.looking.sheet_rows.SheetRows`.

    Attributes:
        folder: folder of the pack.
        set_info: the image set.
        shards: its files, in order.
        factor_table: factors of every row.
    """

    folder: Path
    set_info: SetInfo
    shards: Sequence[Shard]
    factor_table: Float64[ndarray, "n k"]

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that the picture shows."""
        known = self.set_info.layers
        return tuple(name for name in dict.fromkeys((*_SHOWN, *known)) if name in known)[:COLUMNS]

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.factor_table)

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row."""
        columns = ["metadata", *map(layer_column, self.layers)]
        (table,) = read_rows(self.folder, self.shards, [int(row)], columns)
        return decode_frame(table, self.layers, self.set_info)


def draw_picture(rows: PackedRows) -> bytes:
    """Draw a contact sheet with rows for the values of one factor.

    Returns:
        A JPEG of at most `LARGEST_PICTURE` bytes.
    """
    factor = shown_factor(rows)
    chosen, headings = choose_sheet_rows(rows, factor, ROWS if factor is None else 1)
    return _encode(contact_sheet(rows, chosen[:ROWS], rows.layers, headings, TILE))


def shown_factor(rows: PackedRows) -> str | None:
    """Choose the factor to show: first a factor that changes within a concept set, then a categorical one.

    Returns:
        Name of the factor; None if all rows have the same factors.
    """
    factors = [
        (factor.name not in rows.set_info.varies, factor.kind == "continuous", place)
        for place, factor in enumerate(rows.set_info.factors)
        if np.ptp(rows.factor_table[:, place]) > 0
    ]
    return rows.set_info.factors[min(factors)[2]].name if factors else None


def _encode(pixels: Pixels) -> bytes:
    for quality in (90, 75, 55, 30):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= LARGEST_PICTURE:
            break
    return buffer.getvalue()
