"""Draw the matrix of scores and codes, a panel for each table of factors."""

import math
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image

from benchmarks.trials.validity_page import Scores
from benchmarks.trials.validity_rule import CLAIMS, FALSE_ALARM, has_claim, mark_cells
from candlelight.evaluation.causal.control_codes import PLANTED_CODES

_COLUMNS = 5


def draw_grid(path: Path, matrix: Mapping[str, Scores]) -> None:
    """Draw mean values as colours, with marks of wrong ones, and a dot for codes with the properties."""
    present = [score for score in CLAIMS if any(score in scores for scores in matrix.values())]
    rows = math.ceil(len(matrix) / _COLUMNS)
    figure = Figure(figsize=(15, 1.4 + rows * 0.185 * (len(present) + 2)), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False)
    for axes in panels.flat[len(matrix) :]:
        axes.set_axis_off()
    for axes, (title, scores) in zip(panels.flat, matrix.items(), strict=False):
        image = _draw_panel(axes, scores, present)
        axes.set_title(title, fontsize=9)
    figure.colorbar(image, ax=panels, shrink=0.6, pad=0.01, label="value")
    figure.suptitle(
        "dot: the codes have the properties that the score claims to measure; "
        "▲ false alarm, red if as high as the identity; ▼ miss, red if as low as random codes",
        fontsize=10,
    )
    drawn = BytesIO()
    figure.savefig(drawn, dpi=85)
    Image.open(drawn).convert("RGB").quantize(128).save(path, optimize=True)


def _draw_panel(axes: Axes, scores: Scores, present: list[str]) -> AxesImage:
    kinds = list(PLANTED_CODES)
    values = np.full((len(present), len(kinds)), np.nan)
    for row, score in enumerate(present):
        if score not in scores:
            continue
        values[row] = [np.mean(scores[score][kind]) for kind in kinds]
        for column, (kind, mark) in enumerate(mark_cells(scores[score], CLAIMS[score]).items()):
            if has_claim(kind, CLAIMS[score]):
                axes.plot(column, row, ".", color="white", markersize=2)
            if mark:
                marker, colour = "^" if FALSE_ALARM in mark else "v", "red" if len(mark) > 1 else "black"
                axes.plot(column, row, marker, color=colour, markersize=6, markeredgecolor="white")
    axes.set_facecolor("0.85")
    image = axes.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(kinds)), kinds, rotation=90, fontsize=8)
    axes.set_yticks(range(len(present)), present, fontsize=8)
    axes.tick_params(length=0)
    return image
