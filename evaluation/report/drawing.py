"""What the report's drawings share: matplotlib with settings of its own, written as inline SVG.

The ink is ``currentColor``, so that a drawing follows the page from its light scheme to its dark one. Equal
scores give equal bytes, whatever matplotlib is configured to do elsewhere.
"""

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

_FIGURE_WIDTH = 5.4  # inches; about as wide as a phone, where letters keep their size
_LINE_LENGTH = 58  # letters that fit into the width
_NAME_LENGTH = 32  # letters of a name
# Bright enough for a dark page, dark enough for a light one.
COLOURS = ("#3b8fd0", "#e08a1e", "#2fa37c", "#c46aa0", "#a08a00", "#d1603d", "#7f7fd5", "#8a8f98")
INK = "#010203"  # a colour that nothing else has, replaced by currentColor
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": 11,
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
    """Give a figure to draw on that owes nothing to the user's settings of matplotlib.

    Args:
        height: inches.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield Figure(figsize=(_FIGURE_WIDTH, height), layout="constrained")


def to_svg(figure: Figure, name: str) -> str:
    """Write a figure as an SVG element that can stand in a page beside others.

    Args:
        figure: what `drawing` gave, within its ``with`` block.
        name: prefix of all ids in it, beside a checksum, for a page may hold several of a kind.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text, count=2)

    prefix = f"{name}-{zlib.crc32(text.encode()):08x}-"

    def rewrite(tag: re.Match[str]) -> str:
        # Names of groups are of no use in a page, and are the same in every drawing.
        named = re.sub(r'^<g id="[^"]*"', "<g", tag[0])
        own = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}", named)
        return own.replace(INK, "currentColor")

    # Within tags only: what stands between them are the users' names.
    return re.sub(r"<[^>]*>", rewrite, text).strip()


def draw_bars(
    axes: Any,
    table: Float[ndarray, "rows bars"],
    names: Sequence[str],
    whiskers: Float[ndarray, "rows bars 2"] | None = None,
) -> None:
    """Draw a group of horizontal bars for each row, and a legend above; nan leaves a gap.

    Args:
        axes: matplotlib's axes.
        table: lengths of the bars.
        names: name of each bar within its group.
        whiskers: lengths of each whisker to the left and to the right of a bar's end.
    """
    height = 0.8 / table.shape[1]
    for bar, name in enumerate(names):
        places = np.arange(len(table)) - 0.4 + height * (bar + 0.5)
        error = None if whiskers is None else whiskers[:, bar].T
        colour = COLOURS[bar % len(COLOURS)]
        axes.barh(places, table[:, bar], 0.9 * height, color=colour, label=_short(name))
        if error is not None:
            axes.errorbar(table[:, bar], places, xerr=error, fmt="none", ecolor=INK, elinewidth=1, capsize=2)
    axes.grid(axis="x", color=INK, alpha=0.15, linewidth=0.6)
    fitting = _LINE_LENGTH // (max(len(_short(name)) for name in names) + 6)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=min(3, len(names), fitting))
    axes.set_xlim(0, None)


def label_rows(axes: Any, names: Sequence[str]) -> None:
    """Label the vertical axis with one name for each row, the first on top."""
    axes.set_yticks(range(len(names)), list(map(_short, names)))
    axes.set_ylim(len(names) - 0.4, -0.6)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"
