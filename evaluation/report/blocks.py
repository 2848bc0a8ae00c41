"""The blocks of a page, whatever they are about: texts, tables, plots and pictures, in sections."""

import base64
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import UInt8
from numpy import ndarray

from loaders.files.layer_codecs import encode_png


@dataclass(frozen=True)
class TextBlock:
    """A paragraph.

    Attributes:
        text: the paragraph; may be empty below a heading.
        heading: stands above it.
        term: stands before it in bold letters.
        quiet: whether it is set smaller, as notes are.
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
        caption: what the numbers are.
        head: column titles, one for each cell of a row.
        rows: cells.
        folded: whether the page shows it only on request.
    """

    kind: ClassVar[str] = "table"
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


@dataclass(frozen=True)
class PlotBlock:
    """A drawing as inline SVG, what it shows in words, and its caption."""

    kind: ClassVar[str] = "plot"
    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, its size in pixels, what it shows in words, and its caption, if any."""

    uri: str
    width: int
    height: int
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class PicturesBlock:
    """Pictures beside each other, as many as there is room for, and a caption of them all."""

    kind: ClassVar[str] = "pictures"
    pictures: tuple[Picture, ...]
    caption: str


Block = TextBlock | TableBlock | PlotBlock | PicturesBlock


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        key: anchor within the page.
        title: heading, and entry in the list of contents.
        blocks: shown in order.
    """

    key: str
    title: str
    blocks: tuple[Block, ...]


def note(text: str) -> TextBlock:
    """Make a small paragraph that is marked as a note.

    Example:
        >>> note("No image shows it.").text
        'Note. No image shows it.'
    """
    return TextBlock(f"Note. {text}", quiet=True)


def png_picture(pixels: UInt8[ndarray, "height width 3"], alt: str, caption: str = "") -> Picture:
    """Make a picture of pixels.

    Args:
        pixels: sRGB-encoded.
        alt: what it shows in words.
        caption: stands below it.

    Example:
        >>> import numpy as np
        >>> picture = png_picture(np.zeros((2, 3, 3), np.uint8), "Nothing but black.")
        >>> picture.width, picture.uri[:22]
        (3, 'data:image/png;base64,')
    """
    uri = "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()
    return Picture(uri, pixels.shape[1], pixels.shape[0], alt, caption)
