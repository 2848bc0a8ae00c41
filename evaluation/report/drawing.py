"""Plots of a report: matplotlib with fixed settings, written as inline SVG.

Lines and text have the colour ``currentColor``, so a plot follows the light or dark scheme of the page. Equal
scores give equal bytes, because the user's settings of matplotlib are ignored.
"""

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from candlelight.loaders.errors import blame
from candlelight.loaders.files.safe_writing import replacing

_FIGURE_WIDTH = 5.4  # inches; about the width of a phone, so that text is not scaled down there
_LINE_LENGTH = 58  # characters in the width of a figure
_NAME_LENGTH = 32  # characters of a name
# Colours that are legible on light and on dark pages.
COLOURS = ("#3b8fd0", "#e08a1e", "#2fa37c", "#c46aa0", "#a08a00", "#d1603d", "#7f7fd5", "#8a8f98")
INK = "#010203"  # an otherwise unused colour, which `to_svg` replaces by currentColor
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": 11,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "grid.linewidth": 0.6,
    "legend.columnspacing": 1.2,
    "legend.frameon": False,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "candlelight",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def drawing(height: float) -> Iterator[Figure]:
    """Provide a figure with fixed settings, independent of the user's settings of matplotlib.

    Args:
        height: inches.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield Figure(figsize=(_FIGURE_WIDTH, height), layout="constrained")


_SAVED: ContextVar[tuple[Path, list[Path]] | None] = ContextVar("saved figures", default=None)


@contextmanager
def saving_figures(folder: Path | None) -> Iterator[list[Path]]:
    """Save each figure that `to_svg` writes as PDF and SVG files that open by themselves.

    Args:
        folder: the folder, which is made; None saves nothing.

    Returns:
        The paths of the files, in the order of the page.

    Raises:
        InputError: a file cannot be written.
    """
    saved: list[Path] = []
    token = _SAVED.set(None if folder is None else (folder, saved))
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        yield saved
    except OSError as error:
        if folder is None:  # not of these figures
            raise
        raise blame(f"{folder}: figures cannot be written", error, "give another folder") from None
    finally:
        _SAVED.reset(token)


def _save(figure: Figure, name: str) -> None:
    """Save a figure if it is asked for; figures of one name are numbered."""
    if (asked := _SAVED.get()) is None:
        return
    folder, saved = asked
    stem = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "figure"
    count = sum(
        path.suffix == ".pdf" and re.fullmatch(rf"{stem}(-\d+)?", path.stem) is not None for path in saved
    )
    for ending, facts in ((".pdf", {"CreationDate": None}), (".svg", {"Date": None})):
        path = folder / f"{stem}{f'-{count + 1}' if count else ''}{ending}"
        with replacing(path) as partial:
            figure.savefig(partial, format=ending[1:], metadata=facts, facecolor="white")
        saved.append(path)


def to_svg(figure: Figure, name: str) -> str:
    """Write a figure as an SVG element for a page with other SVG elements.

    Args:
        figure: a figure of `drawing`, within its ``with`` block.
        name: prefix of all ids; a checksum follows, because a page may hold several plots of one kind.
    """
    _save(figure, name)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text, count=2)

    prefix = f"{name}-{zlib.crc32(text.encode()):08x}-"

    def rewrite(tag: re.Match[str]) -> str:
        # Ids of groups are not needed in a page, and are equal in all drawings.
        named = re.sub(r'^<g id="[^"]*"', "<g", tag[0])
        own = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}", named)
        return own.replace(INK, "currentColor")

    # Only within tags, because the text between tags holds users' names.
    return re.sub(r"<[^>]*>", rewrite, text).strip()


def draw_bars(
    axes: Any,
    table: Float[ndarray, "rows bars"],
    names: Sequence[str],
    whiskers: Float[ndarray, "rows bars 2"] | None = None,
    colours: Sequence[str] = COLOURS,
) -> None:
    """Draw a group of horizontal bars for each row, with a legend of several above; a nan leaves a gap.

    Args:
        axes: matplotlib axes.
        table: lengths of the bars.
        names: name of each bar within its group.
        whiskers: lengths of each whisker to the left and to the right of the bar's end.
        colours: colour of each bar of a group; repeated if there are too few.
    """
    height = 0.8 / table.shape[1]
    for bar, name in enumerate(names):
        places = np.arange(len(table)) - 0.4 + height * (bar + 0.5)
        error = None if whiskers is None else whiskers[:, bar].T
        colour = colours[bar % len(colours)]
        axes.barh(places, table[:, bar], 0.9 * height, color=colour, label=short_name(name))
        if error is not None:
            axes.errorbar(table[:, bar], places, xerr=error, fmt="none", ecolor=INK, elinewidth=1, capsize=2)
    if len(names) > 1:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=legend_columns(names))
    axes.set_xlim(min(0.0, float(np.nan_to_num(table).min())), None)


def legend_columns(names: Sequence[str]) -> int:
    """Count the columns of a legend with these names that fit into the width of a figure, at most three.

    Example:
        >>> legend_columns(["one", "two", "three", "four"]), legend_columns(2 * [30 * "x"])
        (3, 1)
    """
    fitting = _LINE_LENGTH // (max(len(short_name(name)) for name in names) + 6)
    return min(3, len(names), fitting)


def label_rows(axes: Any, names: Sequence[str]) -> None:
    """Label the rows on the vertical axis, the first row on top."""
    axes.set_yticks(range(len(names)), list(map(short_name, names)))
    axes.set_ylim(len(names) - 0.4, -0.6)


def short_name(name: str, length: int = _NAME_LENGTH) -> str:
    """Cut the middle of a name longer than ``length``: layers differ at the end of a name.

    Example:
        >>> short_name("network reflectance.blocks.1,shading.blocks.1")
        'network reflect…shading.blocks.1'
    """
    half = length // 2
    return name if len(name) <= length else f"{name[: half - 1]}…{name[-half:]}"
