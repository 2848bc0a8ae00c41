"""Draw a causal graph as SVG: factors, hidden variables, selections and the image."""

import itertools
from collections.abc import Collection
from html import escape

from candlelight.generators.language.causal_graph import Graph
from candlelight.generators.language.factors import Rule
from candlelight.generators.reports.layered_layout import PagePoint, lay_out

_BOX = (132, 34)  # width and height of a node, pixels
_LETTER = 7.5  # width of a letter, pixels
_GAP = (20, 64)  # distance of nodes in a row, and of rows, pixels
_MARGIN = 16  # pixels
_IMAGE = "the image"  # no factor or variable can have this name
_STYLES = {
    "factor": ("#eef4fb", "#1f5f99", ""),
    "hidden": ("#ffffff", "#777777", ' stroke-dasharray="5 4"'),
    "image": ("#1f3348", "#1f3348", ""),
    "selection": ("#fff4e0", "#b06a00", ""),
}
_DASHED = ' stroke-dasharray="3 3"'  # of an arrow


def draw_graph(
    graph: Graph,
    factors: Collection[str],
    shown: Collection[str],
    selections: Collection[Rule] = (),
    intervened: Collection[str] = (),
    sometimes: Collection[str] = (),
) -> str:
    """Draw a causal graph.

    Every node lies below its parents, and no arrow crosses a node. Each arrow names its ends as a title. Pale
    arrows lead from what the layout uses to the image. Hidden variables have a dashed frame. A selection is a
    box to which its factors point. A node that an intervention sets is called ``do(name)`` and has a thick
    frame.

    Args:
        graph: name to its parents.
        factors: names of the factors; all other names are hidden variables.
        shown: names that the layout uses.
        selections: the rules that reject samples.
        intervened: names that every sample's intervention sets; the graph gives them no parents.
        sometimes: names that the interventions of some samples set; the arrows to them are dashed.

    Returns:
        An SVG document.

    Example:
        >>> "kind to color" in draw_graph({"kind": (), "color": ("kind",)}, ["kind", "color"], ["color"])
        True
    """
    rejected = {f"selection {i}": tuple(rule.exclude) for i, rule in enumerate(selections, 1)}
    graph = {**graph, **rejected, _IMAGE: tuple(name for name in graph if name in shown)}
    layout = lay_out(graph, _BOX, _GAP)
    width, height = (side + 2 * _MARGIN for side in layout.size)
    # Arrows to the image are drawn first, so that they lie under the others.
    arrows = [
        _arrow(ends, points, _DASHED if ends[1] in sometimes else "")
        for ends, points in sorted(layout.routes.items(), key=lambda route: route[0][1] != _IMAGE)
    ]
    boxes = [
        _box(
            f"do({name})" if name in intervened else name,
            layout.centres[name],
            _style(name, factors),
            thick=name in intervened,
        )
        for name in graph
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN} {-_MARGIN} {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="13">\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="context-stroke"/></marker></defs>\n'
        + "\n".join([*arrows, *boxes])
        + "\n</svg>\n"
    )


def _style(name: str, factors: Collection[str]) -> str:
    if name == _IMAGE:
        return "image"
    if name.startswith("selection "):
        return "selection"
    return "factor" if name in factors else "hidden"


def _arrow(ends: tuple[str, str], points: list[PagePoint], dash: str) -> str:
    way = "M{:g} {:g}".format(*points[0])
    for i, ((x, y), (next_x, next_y)) in enumerate(itertools.pairwise(points)):
        middle = (y + next_y) / 2
        way += f" V{next_y:g}" if i % 2 else f" C{x:g} {middle:g} {next_x:g} {middle:g} {next_x:g} {next_y:g}"
    color = "#b4bcc4" if ends[1] == _IMAGE else "#667"
    return (
        f'<path d="{way}" fill="none" stroke="{color}" stroke-width="1.2"{dash} '
        f'marker-end="url(#tip)"><title>{escape(" to ".join(ends))}</title></path>'
    )


def _box(label: str, centre: tuple[float, float], style: str, thick: bool) -> str:
    fill, stroke, dash = _STYLES[style]
    color = "#ffffff" if style == "image" else "#1d2733"
    room = _BOX[0] - 14
    squeezed = f' textLength="{room}" lengthAdjust="spacingAndGlyphs"' if len(label) * _LETTER > room else ""
    width = ' stroke-width="3"' if thick else ""
    return (
        f'<rect x="{centre[0] - _BOX[0] / 2:g}" y="{centre[1] - _BOX[1] / 2:g}" width="{_BOX[0]}" '
        f'height="{_BOX[1]}" rx="{4 if style in ("image", "selection") else 17}" fill="{fill}" '
        f'stroke="{stroke}"{width}{dash}/>'
        f'<text x="{centre[0]:g}" y="{centre[1] + 4.5:g}" text-anchor="middle" fill="{color}"{squeezed}>'
        f"{escape(label)}</text>"
    )
