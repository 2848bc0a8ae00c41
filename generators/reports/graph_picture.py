"""Draw a causal graph as SVG: factors, hidden variables, selections and the image."""

import itertools
from collections.abc import Collection, Iterator
from statistics import fmean

import numpy as np

from candlelight.loaders.causal_graphs import CausalGraph, exclusion_text
from candlelight.loaders.looking.page_template import fill_template

PagePoint = tuple[float, float]  # across and down

_BOX: PagePoint = (132, 34)  # width and height of a node, pixels
_GAP = (20, 64)  # distance of nodes in a row, and of rows, pixels
_MARGIN = 16  # pixels
_IMAGE = "the image"  # no factor or variable can have this name
_MOST_IN_ROW = 6  # largest number of nodes in a row, as after Coffman and Graham 1972
_SWEEPS = 24  # passes over the rows that order them
_PORT = 14.0  # largest distance of two arrows at a node, pixels
_CENTRING = 0.01  # pull of every place to the middle, relative to that of an arrow

_Parents = dict[str, tuple[str, ...]]  # of each name, after all of them
_Place = tuple[str, str, int]  # a node is (name, name, row), a bend (parent, child, row)
_Rows = list[list[_Place]]
_Routes = dict[tuple[str, str], list[PagePoint]]
_Link = tuple[_Place, _Place]  # part of an arrow, from a row to the next


def draw_graph(graph: CausalGraph, shown: Collection[str]) -> str:
    """Draw a causal graph.

    Every node lies below its parents, and no arrow crosses a node. Each arrow names its ends as a title, and
    each node its mechanism. Pale arrows lead from what the layout uses to the image. Hidden variables have a
    dashed frame, and so have values of the previous step. A selection is a box to which its factors point. A
    node that interventions change has a thick frame, and is called ``do(name)`` if every sample's does; else
    the arrows to it are dashed.

    Args:
        graph: the graph.
        shown: names that the layout uses.

    Returns:
        An SVG document.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> "spot to rotation" in draw_graph(load_recipe("identifiable").sets["causal"].graph, ["rotation"])
        True
    """
    nodes = {node.name: node for node in graph.nodes}
    past = {node.name: tuple(f"previous({name})" for name in node.previous) for node in graph.nodes}
    rejected = {f"selection {i}": one for i, one in enumerate(graph.selections, 1)}
    parents = {
        **{before: () for names in past.values() for before in names},
        **{name: (*node.parents, *past[name]) for name, node in nodes.items()},
        **{name: tuple(excluded) for name, excluded in rejected.items()},
        _IMAGE: tuple(name for name in nodes if name in shown),
    }
    centres, routes, size = _lay_out(parents)
    # Arrows to the image are drawn first, so that they lie under the others.
    ordered = sorted(routes.items(), key=lambda route: route[0][1] != _IMAGE)
    width, height = (f"{side + 2 * _MARGIN:g}" for side in size)
    svg = fill_template(
        "candlelight.generators.reports",
        "causal_graph.svg",
        arrows=[(ends, _way(points)) for ends, points in ordered],
        boxes={name: centres[name] for name in parents},
        nodes=nodes,
        box=_BOX,
        margin=_MARGIN,
        width=width,
        height=height,
        image=_IMAGE,
        rejected={name: exclusion_text(excluded) for name, excluded in rejected.items()},
    )
    return svg + "\n"


def _way(points: list[PagePoint]) -> str:
    """Write the path of an arrow: curves from row to row, and vertical lines past a row."""
    way = "M{:g} {:g}".format(*points[0])
    for i, ((x, y), (next_x, next_y)) in enumerate(itertools.pairwise(points)):
        middle = (y + next_y) / 2
        way += f" V{next_y:g}" if i % 2 else f" C{x:g} {middle:g} {next_x:g} {middle:g} {next_x:g} {next_y:g}"
    return way


def _lay_out(graph: _Parents) -> tuple[dict[str, PagePoint], _Routes, PagePoint]:
    """Place every node in a row below its parents and just above the highest of its children.

    The layout is layered, after Sugiyama, Tagawa and Toda 1981. Nodes stand in rows. An arrow that passes a
    row has a bend there, which takes a place between the nodes.

    Returns:
        The centre of each box; the points of each arrow, box to box, by parent and child; width and height.
        The way from the first point of an arrow to the second, and every other way, leads from row to row;
        those between are vertical and pass a row.

    Example:
        >>> _, routes, size = _lay_out({"kind": (), "color": ("kind",)})
        >>> routes, size
        ({('kind', 'color'): [(66.0, 34), (66.0, 98)]}, (132.0, 132))
    """
    rows, chains = _rows(graph)
    links = [link for chain in chains.values() for link in itertools.pairwise(chain)]
    rows = min(_orders(rows, links), key=lambda order: _crossings_and_length(order, links))
    across, width = _across(rows, links)
    starts, ends = (_ports(links, across, end) for end in (0, 1))
    high = _BOX[1]
    top = [row * (high + _GAP[1]) for row in range(len(rows))]
    routes = {
        arrow: [
            point
            for a, b in itertools.pairwise(chain)
            for point in ((starts[a, b], top[a[2]] + high), (ends[a, b], top[b[2]]))
        ]
        for arrow, chain in chains.items()
    }
    centres = {a: (across[a, b, row], top[row] + high / 2) for a, b, row in across if a == b}
    return centres, routes, (width, top[-1] + high)


def _rows(graph: _Parents) -> tuple[_Rows, dict[tuple[str, str], list[_Place]]]:
    """Return the places in each row from the top, and those that each arrow joins."""
    height: dict[str, int] = {}
    for name in reversed(graph):
        lowest = 1 + max((height[child] for child in graph if name in graph[child]), default=-1)
        placed = list(height.values())
        height[name] = next(row for row in itertools.count(lowest) if placed.count(row) < _MOST_IN_ROW)
    top = max(height.values())
    chains = {}
    for child, parents in graph.items():
        for parent in parents:
            first, last = top - height[parent], top - height[child]
            bends = [(parent, child, row) for row in range(first + 1, last)]
            chains[parent, child] = [(parent, parent, first), *bends, (child, child, last)]
    nodes = [(name, name, top - height[name]) for name in graph]
    places = [*nodes, *(place for chain in chains.values() for place in chain[1:-1])]
    return [[place for place in places if place[2] == row] for row in range(top + 1)], chains


def _orders(rows: _Rows, links: list[_Link]) -> Iterator[_Rows]:
    """Order each row by the mean position of neighbours in the row above, then below, and so on."""
    yield rows
    above: dict[_Place, list[_Place]] = {}
    below: dict[_Place, list[_Place]] = {}
    for upper, lower in links:
        above.setdefault(lower, []).append(upper)
        below.setdefault(upper, []).append(lower)
    for sweep in range(_SWEEPS):
        positions, ordered, near = _positions(rows), [], below if sweep % 2 else above
        for row in rows[:: -1 if sweep % 2 else 1]:
            means = {place: fmean(positions[one] for one in near.get(place, [place])) for place in row}
            ordered.append(sorted(row, key=means.__getitem__))
            positions |= _positions(ordered[-1:])
        rows = ordered[:: -1 if sweep % 2 else 1]
        yield rows


def _positions(rows: _Rows) -> dict[_Place, float]:
    """Return the position of each place in its row, 0 to 1."""
    return {place: (i + 0.5) / len(row) for row in rows for i, place in enumerate(row)}


def _crossings_and_length(rows: _Rows, links: list[_Link]) -> tuple[int, float]:
    positions = _positions(rows)
    lines = np.array([(a[2], positions[a], positions[b]) for a, b in links]).reshape(-1, 3)
    crossings = 0
    for row in range(len(rows)):
        start, end = lines[lines[:, 0] == row, 1:].T
        crossings += int(np.count_nonzero((start[:, None] - start) * (end[:, None] - end) < 0)) // 2
    return crossings, float(np.abs(lines[:, 1] - lines[:, 2]).sum())


def _ports(links: list[_Link], across: dict[_Place, float], end: int) -> dict[_Link, float]:
    """Spread the first (or last) ends of the arrows along each node, in the order of their other ends."""
    ports = {}
    for place in across:
        here = sorted((link for link in links if link[end] == place), key=lambda link: across[link[1 - end]])
        step = min(_PORT, 0.75 * _BOX[0] / max(len(here), 1))
        for i, link in enumerate(here):
            ports[link] = across[place] + (i - (len(here) - 1) / 2) * step
    return ports


def _across(rows: _Rows, links: list[_Link]) -> tuple[dict[_Place, float], float]:
    """Return the place across the rows that makes arrows steep, by least squares, and the whole width."""
    from scipy.linalg import block_diag
    from scipy.optimize import lsq_linear

    half = {place: _BOX[0] / 2 if place[0] == place[1] else 0.0 for row in rows for place in row}
    least = [[0.0, *(half[a] + _GAP[0] + half[b] for a, b in itertools.pairwise(row))] for row in rows]
    # Unknown are the first place of each row, and what each distance in a row exceeds its least by.
    steps = block_diag(*(np.tri(len(row)) for row in rows))
    lower = [0.0 if i else -np.inf for row in rows for i in range(len(row))]
    index = {place: i for i, place in enumerate(half)}
    pulls = np.concatenate([_CENTRING * np.eye(len(half)), np.zeros((len(links), len(half)))])
    for pull, (a, b) in zip(pulls[len(half) :], links, strict=True):
        # Bends pull harder than nodes, so that long arrows are straight.
        pull[index[a]] = 2.0 ** ((a[0] != a[1]) + (b[0] != b[1]))
        pull[index[b]] = -pull[index[a]]
    start = steps @ np.concatenate(least)
    found = (steps @ lsq_linear(pulls @ steps, -pulls @ start, (lower, np.inf)).x + start).tolist()
    left = min(x - side for x, side in zip(found, half.values(), strict=True))
    across = {place: round(x - left, 1) for place, x in zip(half, found, strict=True)}
    return across, max(across[place] + half[place] for place in half)
