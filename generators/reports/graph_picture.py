"""Draw a causal graph as SVG: factors, hidden variables, selections and the image."""

from collections.abc import Collection, Mapping
from html import escape

from candlelight.generators.language.causal_graph import Graph, causal_order
from candlelight.generators.language.factors import Rule

_BOX = (132, 34)  # width and height of a node, pixels
_LETTER = 7.5  # width of a letter, pixels
_GAP = (28, 64)  # distance of nodes in a row, and of rows, pixels
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
    selections: Collection[Rule] = (),
    intervened: Collection[str] = (),
    sometimes: Collection[str] = (),
) -> str:
    """Draw a causal graph.

    Every node lies below its parents, and the image lies below all nodes, because every factor and variable
    is a cause of it. Hidden variables have a dashed frame. A selection is a box to which its factors point.
    A node that an intervention sets is called ``do(name)`` and has a thick frame.

    Args:
        graph: name to its parents.
        factors: names of the factors; all other names are hidden variables.
        selections: the rules that reject samples.
        intervened: names that every sample's intervention sets; the graph gives them no parents.
        sometimes: names that the interventions of some samples set; the arrows to them are dashed.

    Returns:
        An SVG document.

    Example:
        >>> "<svg" in draw_graph({"kind": (), "color": ("kind",)}, ["kind", "color"])
        True
    """
    graph = _with_selections_and_image(graph, selections)
    rows = _rows(graph)
    width = max(len(row) for row in rows) * (_BOX[0] + _GAP[0]) - _GAP[0] + 2 * _MARGIN
    height = len(rows) * (_BOX[1] + _GAP[1]) - _GAP[1] + 2 * _MARGIN
    centres = {}
    for j, row in enumerate(rows):
        left = (width - len(row) * (_BOX[0] + _GAP[0]) + _GAP[0]) / 2
        for i, name in enumerate(row):
            centres[name] = (
                left + i * (_BOX[0] + _GAP[0]) + _BOX[0] / 2,
                _MARGIN + j * (_BOX[1] + _GAP[1]) + _BOX[1] / 2,
            )
    # Every node has an arrow to the image; these arrows are pale, and drawn first.
    arrows = [
        _arrow(
            centres[parent],
            centres[name],
            "#ccd2d8" if name == _IMAGE else "#667",
            _DASHED if name in sometimes else "",
        )
        for name in sorted(graph, key=lambda name: name != _IMAGE)
        for parent in graph[name]
    ]
    boxes = [
        _box(
            f"do({name})" if name in intervened else name,
            centres[name],
            _style(name, factors),
            thick=name in intervened,
        )
        for name in graph
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="sans-serif" font-size="13">\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="context-stroke"/></marker></defs>\n'
        + "\n".join([*arrows, *boxes])
        + "\n</svg>\n"
    )


def _with_selections_and_image(graph: Graph, selections: Collection[Rule]) -> Graph:
    whole = dict(graph)
    for i, rule in enumerate(selections):
        whole[f"selection {i + 1}"] = tuple(rule.exclude)
    return {**whole, _IMAGE: tuple(graph)}


def _rows(graph: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """Put each node one row below the lowest of its parents, and the image alone into the last row."""
    depth: dict[str, int] = {}
    for name in causal_order(dict(graph)):
        depth[name] = 1 + max((depth[parent] for parent in graph[name]), default=-1)
    last = max(depth.values())
    depth[_IMAGE] = last + 1 if any(depth[name] == last for name in depth if name != _IMAGE) else last
    rows: list[list[str]] = [[] for _ in range(depth[_IMAGE] + 1)]
    for name in graph:
        rows[depth[name]].append(name)
    return rows


def _style(name: str, factors: Collection[str]) -> str:
    if name == _IMAGE:
        return "image"
    if name.startswith("selection "):
        return "selection"
    return "factor" if name in factors else "hidden"


def _arrow(start: tuple[float, float], end: tuple[float, float], color: str, dash: str) -> str:
    half = _BOX[1] / 2
    middle = (start[1] + half + end[1] - half) / 2
    return (
        f'<path d="M{start[0]:g} {start[1] + half:g} C{start[0]:g} {middle:g} {end[0]:g} {middle:g} '
        f'{end[0]:g} {end[1] - half - 1:g}" fill="none" stroke="{color}" stroke-width="1.2"{dash} '
        'marker-end="url(#tip)"/>'
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
