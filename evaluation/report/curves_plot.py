"""Plot learning curves, one panel for each quantity."""

from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from candlelight.evaluation.report.blocks import PlotBlock
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, to_svg


def curves_plot(
    panels: Sequence[tuple[str, Sequence[float], float | None]],
    places: Sequence[int],
    unit: str,
    caption: str,
) -> PlotBlock:
    """Plot learning curves below each other.

    Args:
        panels: name, values and lower end of the axis (None for any) of each curve.
        places: number of epochs or steps at each value.
        unit: "epochs" or "steps".
        caption: caption of the plot.

    Example:
        >>> curves_plot([("loss", (1.0, 0.5), None)], (1, 2), "epochs", "").alt
        'After 2 epochs: loss 0.5.'
    """
    with drawing(2.4 * len(panels)) as figure:
        for place, (name, values, low) in enumerate(panels):
            axes = figure.add_subplot(len(panels), 1, place + 1)
            axes.plot(places, values, color=COLOURS[place % len(COLOURS)], marker="o", markersize=3)
            axes.set_ylabel(name)
            axes.set_ylim(low, None)
            axes.grid(color=INK, alpha=0.15, linewidth=0.6)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(unit)
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values, _ in panels)
        return PlotBlock(to_svg(figure, "curves"), f"After {places[-1]} {unit}: {last}.", caption)
