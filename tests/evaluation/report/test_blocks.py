"""Each kind of block on a page, with hostile texts."""

import numpy as np
import pytest

from candlelight.evaluation.report.blocks import (
    Picture,
    PicturesBlock,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    png_picture,
)
from candlelight.evaluation.report.page import write_page
from tests.snapshots import page_text

HOSTILE = "<b>&\"'"
ROWS = ((HOSTILE, "1"),)
PIXELS = np.zeros((2, 3, 3), np.uint8)


@pytest.fixture
def page(tmp_path):
    blocks = (
        TextBlock("", heading=HOSTILE),
        TextBlock("x", term=HOSTILE),
        note(HOSTILE),
        TableBlock(HOSTILE, ("a", "b ↑"), ROWS),
        TableBlock(HOSTILE, ("", ""), ROWS, folded=True),
        PlotBlock("<svg><g/></svg>", HOSTILE, HOSTILE),
        PicturesBlock((png_picture(PIXELS, HOSTILE, HOSTILE), png_picture(PIXELS, "other")), "two small"),
        PicturesBlock((Picture("data:", 900, 9, "wide"),), "one that a phone makes smaller"),
    )
    sections = [Section("key", HOSTILE, blocks), Section("other", "B", ())]
    write_page(tmp_path / "page.html", "Title", sections, ["Said first."])
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_every_kind_of_block_is_shown(page, snapshot):
    assert page_text(page) == snapshot


def test_drawings_arrows_and_sizes_are_kept(page):
    assert "<svg><g/></svg>" in page
    assert "b\N{NO-BREAK SPACE}↑" in page
    assert page.count("<thead") == 1
    assert 'width="3" height="2" alt="&lt;b&gt;&amp;&#34;&#39;"' in page
    assert '<p class="quiet"><strong>Note</strong> &lt;b&gt;' in page


def test_one_section_needs_no_contents(tmp_path):
    write_page(tmp_path / "page.html", "Title", [Section("a", "A", ())])
    assert "<nav" not in (tmp_path / "page.html").read_text()
