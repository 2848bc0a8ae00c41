"""Draw why some metrics are wrong on codes with known truth: the data behind single values of the matrix."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from benchmarks.trials.planned_factors import FACTOR_SOURCES, planned_factors
from candlelight.evaluation.causal.control_codes import PlantedName, planted_codes
from candlelight.evaluation.causal.dci import dci_fast
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.information_scores import modularity
from candlelight.evaluation.causal.irs import irs, select_codes, unconfoundedness
from candlelight.evaluation.causal.prediction_scores import block_r2, mcc

_ROWS, _SEED = 1000, 0
_HALF = torch.arange(_ROWS) % 2 == 0


def draw_reasons(folder: Path) -> None:
    """Draw all pictures."""
    draws = {
        "lines": draw_lines,
        "grid": draw_discrete_pair,
        "noise": draw_noise,
        "disjoint": draw_disjoint,
        "lost": draw_lost_factor,
        "importance": draw_importance,
    }
    for name, draw in draws.items():
        figure = draw()
        figure.savefig(folder / f"validity-{name}.png", dpi=100)


def given(title: str, kind: PlantedName) -> tuple[torch.Tensor, FactorTable]:
    """Return planted codes and their factors."""
    table = planned_factors(FACTOR_SOURCES[title], _ROWS, _SEED)
    return planted_codes(kind, table.values, _SEED), table


def draw_lines() -> Figure:
    """MCC follows lines: a mixed code is nearly one if factors are dependent, a pure code need not be."""
    figure, panels = _panels(3)
    cases: tuple[tuple[str, PlantedName], ...] = (
        ("teapot", "rotated"),
        ("causal", "rotated"),
        ("causal", "wrapped"),
    )
    for axes, (title, kind) in zip(panels, cases, strict=True):
        codes, table = given(title, kind)
        few = slice(400)
        axes.scatter(table.values[few, 0], codes[few, 0], c=table.values[few, 1], s=4, cmap="viridis")
        score = float(mcc(codes, table.values, training=_HALF).score)
        axes.set_title(f"{title}, {kind}: MCC {score:.2f}", fontsize=9)
        axes.set(xlabel="factor x", ylabel="code 0 (colour: factor spot)")
    return figure


def draw_discrete_pair() -> Figure:
    """A single code that mixes two discrete factors tells both."""
    figure, panels = _panels(2)
    codes, table = given("candle", "rotated")
    size, rotation = (table.values[:, table.names.index(name)] for name in ("size", "rotation"))
    code = codes[:, table.names.index("size")]
    score = float(mcc(codes, torch.stack([size, rotation], 1), "kernel", _HALF).score)
    for axes, factor, name, other in (
        (panels[0], size, "size", rotation),
        (panels[1], rotation, "rotation", size),
    ):
        axes.scatter(code, factor, c=other, s=14, cmap="viridis")
        axes.set(xlabel="code that mixes size and rotation", ylabel=f"factor {name}")
    figure.suptitle(f"candle, rotated: MCC(kernel) {score:.2f}", fontsize=9)
    return figure


def draw_noise() -> Figure:
    """Shares of information look pure although the amounts are those of chance."""
    figure, panels = _panels(2)
    codes, table = given("candle", "random")
    found = modularity(codes, table.classes)
    shares = found.information / found.information.amax(1, keepdim=True)
    _show(panels[0], found.information.numpy(), table.names, "information, nats")
    _show(panels[1], shares.numpy(), table.names, "divided by the largest of the code")
    figure.suptitle(f"candle, random: modularity {float(found.score):.2f}", fontsize=9)
    return figure


def draw_disjoint() -> Figure:
    """Each factor has a code of its own although each code mixes two factors."""
    figure, panels = _panels(2)
    kinds: tuple[PlantedName, ...] = ("identity", "rotated")
    for axes, kind in zip(panels, kinds, strict=True):
        codes, table = given("candle", kind)
        found = irs(codes, table.classes)
        score = float(unconfoundedness(found))
        title = f"{kind}: UC(1) {score:.2f}, IRS {float(found.score):.2f}"
        _show(axes, found.matrix.numpy(), table.names, title)
        for factor, code in enumerate(select_codes(found)[:, 0].tolist()):
            axes.plot(factor, code, "s", markersize=13, markerfacecolor="none", markeredgecolor="red")
    return figure


def draw_lost_factor() -> Figure:
    """A factor without a code is predicted from the factor that causes it."""
    figure, panels = _panels(2)
    codes, table = given("causal", "missing")
    lost = table.values[:, -1]
    found = block_r2(codes, table.values, "kernel", _HALF).per_factor
    panels[0].scatter(table.values[:, 2], lost, s=3)
    panels[0].set(xlabel="factor background_hue, a code", ylabel="factor spot_hue, no code")
    panels[0].set_title(f"causal, missing:\nR2(kernel) of spot_hue {float(found[-1]):.2f}", fontsize=9)
    codes, table = given("teapot", "wrapped")
    linear = block_r2(codes, table.values, "linear", _HALF).per_factor
    panels[1].scatter(table.values[:, 3], codes[:, 3], s=3)
    panels[1].set(xlabel="factor spot_hue", ylabel="its code")
    panels[1].set_title(f"teapot, wrapped:\nR2(linear) of spot_hue {float(linear[-1]):.2f}", fontsize=9)
    return figure


def draw_importance() -> Figure:
    """Noise spreads importances as mixing does."""
    figure, panels = _panels(2)
    kinds: tuple[PlantedName, ...] = ("noisy", "rotated")
    for axes, kind in zip(panels, kinds, strict=True):
        codes, table = given("candle", kind)
        few = torch.arange(400)
        found = dci_fast(codes[:400].float(), table.classes[:400], few[::2], few[1::2], _SEED)
        title = f"{kind}: disentanglement {float(found.disentanglement):.2f}"
        _show(axes, found.importance.numpy(), table.names, title)
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(3.1 * count, 2.9), layout="constrained")
    panels: ndarray = np.atleast_1d(figure.subplots(1, count))
    return figure, list(panels)


def _show(axes: Axes, matrix: ndarray, factors: tuple[str, ...], title: str) -> None:
    """Draw a matrix of codes and factors with colours from 0 to 1."""
    axes.imshow(matrix, vmin=0, vmax=1, cmap="viridis")
    axes.set_xticks(range(len(factors)), factors, rotation=90, fontsize=8)
    axes.set_yticks(range(len(matrix)), [str(row) for row in range(len(matrix))], fontsize=8)
    axes.set_ylabel("code", fontsize=8)
    axes.set_title(title, fontsize=9)
