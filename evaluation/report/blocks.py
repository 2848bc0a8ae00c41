"""The blocks of an HTML page: texts, tables, plots and pictures, grouped in sections."""

import base64
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import UInt8
from numpy import ndarray

from candlelight.loaders.files.layer_codecs import encode_png


@dataclass(frozen=True)
class TextBlock:
    """A paragraph.

    Attributes:
        text: the paragraph; may be empty below a heading.
        heading: heading above the paragraph.
        term: bold words before the paragraph.
        quiet: whether the text is smaller, as in notes.
    """

    kind: ClassVar[str] = "text"
    text: str
    heading: str = ""
    term: str = ""
    quiet: bool = False


@dataclass(frozen=True)
class TableBlock:
    """A table with a caption; the first cell of each row names the row.

    Attributes:
        caption: description of the numbers.
        head: column titles, one for each cell of a row.
        rows: cells of each row.
        folded: whether the table is closed until the reader opens it.
    """

    kind: ClassVar[str] = "table"
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


@dataclass(frozen=True)
class PlotBlock:
    """A plot as inline SVG, with a description in words (``alt``) and a caption."""

    kind: ClassVar[str] = "plot"
    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with its size in pixels, a description in words (``alt``) and a caption."""

    uri: str
    width: int
    height: int
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class PicturesBlock:
    """Pictures side by side, wrapped to the width of the page, with one common caption."""

    kind: ClassVar[str] = "pictures"
    pictures: tuple[Picture, ...]
    caption: str


Block = TextBlock | TableBlock | PlotBlock | PicturesBlock


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        key: anchor within the page.
        title: heading, and entry in the table of contents.
        blocks: blocks in order.
    """

    key: str
    title: str
    blocks: tuple[Block, ...]


def note(text: str) -> TextBlock:
    """Make a small paragraph that starts with the word "Note".

    Example:
        >>> note("No image shows it.").text
        'Note. No image shows it.'
    """
    return TextBlock(f"Note. {text}", quiet=True)


def png_picture(pixels: UInt8[ndarray, "height width 3"], alt: str, caption: str = "") -> Picture:
    """Encode pixels as a PNG picture.

    Args:
        pixels: sRGB-encoded pixels.
        alt: description in words.
        caption: caption below the picture.

    Example:
        >>> import numpy as np
        >>> picture = png_picture(np.zeros((2, 3, 3), np.uint8), "A black image.")
        >>> picture.width, picture.uri[:22]
        (3, 'data:image/png;base64,')
    """
    uri = "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()
    return Picture(uri, pixels.shape[1], pixels.shape[0], alt, caption)
