"""Write the tables of docs/causal-validity.md, and those beside this file: factors, wrong pairs, values."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.trials.planned_factors import FACTOR_SOURCES
from benchmarks.trials.validity_rule import CLAIMS, Values, is_above, mark_cells, wrong_pairs
from candlelight.evaluation.causal.control_codes import PLANTED_CODES, PlantedName
from candlelight.evaluation.run.intervals import seed_interval

MAKER = "made by benchmarks/trials/causal_validity.py"
_TRUTH = {True: "yes", False: "no", None: "in part"}

Scores = Mapping[str, Values]  # by score
VALUES = Path(__file__).with_name("validity_values.md")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table.

    Example:
        >>> print(markdown_table(["code", "value"], [["identity", "1"]]))
        | code | value |
        | --- | --- |
        | identity | 1 |
    """
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def codes_table() -> str:
    """Tabulate the planted codes with their properties."""
    properties = ("disentangled", "complete", "informative", "sufficient", "robust")
    rows = [
        [name, *(_TRUTH[getattr(truth, one)] for one in properties), truth.meaning]
        for name, truth in PLANTED_CODES.items()
    ]
    return markdown_table(["codes", *properties, "map"], rows)


def factors_table(sizes: Mapping[str, tuple[int, int]]) -> str:
    """Tabulate the sources of factors, with the numbers of images of their rarest values."""
    rows = []
    for title, source in FACTOR_SOURCES.items():
        about = f"`{source.set_name}` of `{source.recipe}`", ", ".join(source.names), source.about
        rows.append([title, *about, "{}; {}".format(*sizes[title])])
    head = ["table", "set and recipe", "factors", "distribution", "images of the rarest value"]
    return markdown_table(head, rows)


def pairs_table(matrix: Mapping[str, Scores]) -> str:
    """Tabulate wrong pairs of codes by score and table of factors."""
    rows = []
    for score, claims in CLAIMS.items():
        cells = []
        for scores in matrix.values():
            wrong, pairs = wrong_pairs(scores[score], claims) if score in scores else ([], 0)
            cells.append(f"{len(wrong)} of {pairs}" if pairs else "")
        rows.append([f"`{score}`", *cells])
    return markdown_table(["score", *matrix], rows)


FAILURES: dict[str, tuple[PlantedName, tuple[str, ...]]] = {
    "one code entangled": ("entangled", ("teapot", "candle")),
    "rotated": ("rotated", ("teapot", "candle")),
    "rotated, dependent factors": ("rotated", ("causal",)),
    "rotated, equal factors": ("rotated", ("toy-confounded 1",)),
    "a factor lost": ("missing", ("teapot", "candle")),
    "noise": ("noisy", ("teapot", "candle")),
    "nothing but noise": ("random", ("teapot", "candle")),
}


def failures_table(matrix: Mapping[str, Scores]) -> str:
    """Tabulate which scores are lower for codes with a failure than for the factors themselves.

    The second column has the properties that a score claims to measure.
    """
    rows = []
    for score, claims in CLAIMS.items():
        cells = [" and ".join(claims) or "none of these"]
        for kind, titles in FAILURES.values():
            found = next((matrix[title][score] for title in titles if score in matrix.get(title, {})), None)
            sees = None if found is None else is_above(found["identity"], found[kind])
            cells.append({True: "seen", False: "no", None: ""}[sees])
        rows.append([f"`{score}`", *cells])
    return markdown_table(["score", "high only for codes that are", *FAILURES], rows)


def value_text(values: Sequence[float]) -> str:
    """Format the mean over seeds with half the width of its 95 % interval, which is left out if 0.00.

    Example:
        >>> value_text([0.5, 0.6]), value_text([1.0, 1.0]), value_text([math.nan, 1.0])
        ('0.55 ±0.64', '1.00', '')
    """
    found = seed_interval(values)
    if math.isnan(found.value):
        return ""
    reach = f"{found.high - found.value:.2f}"
    # Rounding may leave a negative zero.
    value = f"{round(found.value, 2) + 0.0:.2f}"
    return value if reach == "0.00" else f"{value} ±{reach}"


def value_tables(matrix: Mapping[str, Scores]) -> str:
    """Tabulate all values and marks, with a heading for each table of factors."""
    parts = []
    for title, scores in matrix.items():
        rows = []
        for score in (score for score in CLAIMS if score in scores):
            marks = mark_cells(scores[score], CLAIMS[score])
            cells = (f"{value_text(scores[score][kind])} {marks[kind]}".strip() for kind in PLANTED_CODES)
            rows.append([f"`{score}`", *cells])
        parts.append(f"### {title}\n\n{markdown_table(['score', *PLANTED_CODES], rows)}")
    return "\n\n".join(parts)


def fill_parts(text: str, parts: Mapping[str, str]) -> str:
    """Replace the generated parts of a page, by name."""
    for name, content in parts.items():
        text = replace_part(text, name, content)
    return text


def replace_part(text: str, name: str, content: str) -> str:
    """Replace the part between the markers of a name.

    Example:
        >>> replace_part(f"<!-- {MAKER}: a -->old<!-- end: a -->", "a", "new").split(chr(10))[2]
        'new'
    """
    start, end = f"<!-- {MAKER}: {name} -->", f"<!-- end: {name} -->"
    before, rest = text.split(start)
    return f"{before}{start}\n\n{content}\n\n{end}{rest.split(end)[1]}"


def write_page(path: Path, matrix: Mapping[str, Scores], sizes: Mapping[str, tuple[int, int]]) -> None:
    """Write the tables into the page, and into the file beside this one."""
    values = {
        "factors": factors_table(sizes),
        "pairs": pairs_table(matrix),
        "values": value_tables(matrix),
    }
    files = {path: {"failures": failures_table(matrix), "codes": codes_table()}, VALUES: values}
    for file, parts in files.items():
        file.write_text(fill_parts(file.read_text(encoding="utf-8"), parts), encoding="utf-8")
