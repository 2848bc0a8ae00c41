"""docs/protocols.md lists all protocols as the records have them.

With CANDLELIGHT_WRITE_DOCS=1 in the environment, the test writes the lists into the page.
"""

import os
import re
from pathlib import Path

from candlelight.evaluation.intrinsic.protocol_records import PROTOCOLS

PAGE = Path(__file__).parents[3] / "docs" / "protocols.md"
MAKER = "made by tests/evaluation/protocols/test_protocols_page.py"
NEVER_RUN = "never run on the real files"
CHOICES = ("colour_space", "scale", "mask", "resize", "window", "mean")
# Described by a sentence below the table.
VARIED = ("interiorverse-scaled", "interiorverse-linear", "interiorverse-linear-scaled")
SHOWN = [record for name, record in PROTOCOLS.items() if name not in VARIED]


def table() -> str:
    head = ("protocol", "columns", *(name.replace("_", " ") for name in CHOICES))
    rows = [
        (
            f"`{record.name}`",
            f"{', '.join(f'`{name}`' for name in record.columns)} {'↓' if record.better == 'lower' else '↑'}",
            *(getattr(record, name) for name in CHOICES),
        )
        for record in SHOWN
    ]
    return rows_of(head, rows)


def sources() -> str:
    rows = [
        (
            f"`{record.name}` {record.version}",
            record.source,
            record.files if record.trial == NEVER_RUN else f"{record.files}; {record.trial}",
            record.left_out,
        )
        for record in SHOWN
    ]
    return rows_of(("protocol, version", "source", "files", "left out, or different"), rows)


def rows_of(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Write a table; long cells that repeat the cell above say so."""
    shown = [
        tuple(
            "as above" if cell == over and len(cell.split()) > 2 else cell
            for cell, over in zip(row, above, strict=True)
        )
        for above, row in zip([head, *rows], rows, strict=False)
    ]
    lines = [head, ("---",) * len(head), *shown]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def test_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for make in (table, sources):
        start, end = f"<!-- {MAKER}: {make.__name__} -->", f"<!-- end: {make.__name__} -->"
        before, rest = page.split(start)
        between, after = rest.split(end)
        if os.environ.get("CANDLELIGHT_WRITE_DOCS"):
            page = f"{before}{start}\n\n{make()}\n\n{end}{after}"
        else:
            assert between.strip() == make()
    if os.environ.get("CANDLELIGHT_WRITE_DOCS"):
        PAGE.write_text(page, encoding="utf-8")


def test_variants_below_the_table_differ_in_space_and_scale_alone() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in VARIED:
        record, base = PROTOCOLS[name], PROTOCOLS["interiorverse-marigold"]
        assert f"`{name}`" in text
        assert record.version == base.version
        for same in ("columns", "mask", "resize", "window", "mean"):
            assert getattr(record, same) == getattr(base, same)


def test_every_protocol_says_whether_it_was_run_on_the_real_files() -> None:
    tried = {name for name, record in PROTOCOLS.items() if record.trial != NEVER_RUN}
    assert tried == {"mit-grosse", "mit-barron"}


def test_texts_of_records_are_cells_of_a_table() -> None:
    for record in PROTOCOLS.values():
        texts = [value for value in vars(record).values() if isinstance(value, str)]
        assert not any(re.search(r"[|\n]", text) for text in texts), record.name
        assert not any(text != text.strip() or "  " in text for text in texts), record.name
        for published in record.published:
            assert {len(row) for row in published.rows} == {len(published.columns)}
