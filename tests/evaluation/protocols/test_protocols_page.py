"""docs/protocols.md lists all protocols as the records have them.

With CANDLELIGHT_WRITE_DOCS=1 in the environment, the test writes the lists into the page.
"""

import os
import re
from pathlib import Path

from candlelight.evaluation.intrinsic.protocol_records import NEVER_COMPARE, PROTOCOLS, EvaluationProtocol

PAGE = Path(__file__).parents[3] / "docs" / "protocols.md"
MAKER = "made by tests/evaluation/protocols/test_protocols_page.py"
CHOICES = ("colour_space", "scale", "mask", "resize", "window", "mean")


def never() -> str:
    return "\n".join(f"- {text}" for text in NEVER_COMPARE)


def table() -> str:
    head = ("protocol", "columns", *(name.replace("_", " ") for name in CHOICES))
    lines = [head, ("---",) * len(head)]
    for record in PROTOCOLS.values():
        arrow = "↓" if record.better == "lower" else "↑"
        columns = ", ".join(f"`{name}`" for name in record.columns)
        cells = (getattr(record, name) for name in CHOICES)
        lines.append((f"[`{record.name}`](#{record.name})", f"{columns} {arrow}", *cells))
    return rows_of(lines)


def rows_of(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def section(record: EvaluationProtocol) -> str:
    reads = {"comparisons": "comparisons of reflectance", "labels": "labels of shading"}
    parts = [
        f"### {record.name}\n",
        f"Version {record.version}; reads {reads.get(record.reads, record.reads)}.\n",
        f"- Source: {record.source}.",
        f"- Files: {record.files}.",
        f"- **{record.trial[0].upper()}{record.trial[1:]}.**",
    ]
    parts += [f"- Left out, or different: {record.left_out}"] if record.left_out else []
    for published in record.published:
        rows = [published.columns, ("---",) * len(published.columns), *published.rows]
        remark = f" {published.remark}" if published.remark else ""
        parts += [f"\nPublished: {published.reading}.{remark}\n"]
        parts.append(rows_of(rows))
        if published.sure:
            methods = ", ".join(published.sure.methods) or "all of them"
            parts.append(f"\nBeside own scores of the same files stand {methods}.")
    return "\n".join(parts)


def records() -> str:
    return "\n\n".join(section(record) for record in PROTOCOLS.values())


def test_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for make in (never, table, records):
        start, end = f"<!-- {MAKER}: {make.__name__} -->", f"<!-- end: {make.__name__} -->"
        before, rest = page.split(start)
        between, after = rest.split(end)
        if os.environ.get("CANDLELIGHT_WRITE_DOCS"):
            page = f"{before}{start}\n\n{make()}\n\n{end}{after}"
        else:
            assert between.strip() == make()
    if os.environ.get("CANDLELIGHT_WRITE_DOCS"):
        PAGE.write_text(page, encoding="utf-8")


def test_every_protocol_says_whether_it_was_run_on_the_real_files() -> None:
    tried = {name for name, record in PROTOCOLS.items() if record.trial != "never run on the real files"}
    assert tried == {"mit-grosse", "mit-barron"}


def test_texts_of_records_are_cells_of_a_table() -> None:
    for record in PROTOCOLS.values():
        texts = [value for value in vars(record).values() if isinstance(value, str)]
        assert not any(re.search(r"[|\n]", text) for text in texts), record.name
        assert not any(text != text.strip() or "  " in text for text in texts), record.name
        for published in record.published:
            assert {len(row) for row in published.rows} == {len(published.columns)}
