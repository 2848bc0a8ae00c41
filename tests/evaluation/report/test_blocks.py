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

HOSTILE = "<b>&\"'"
ESCAPED = "&lt;b&gt;&amp;&#34;&#39;"


@pytest.fixture
def render(tmp_path):
    def text(*blocks, **options) -> str:
        path = tmp_path / "page.html"
        write_page(path, "Title", [Section("key", HOSTILE, blocks)], **options)
        return path.read_text(encoding="utf-8").partition("<main>")[2].partition("</h2>")[2]

    return text


def test_texts_have_a_heading_a_term_and_a_tone(render):
    assert f"<p>{ESCAPED}</p>" in render(TextBlock(HOSTILE))
    assert f"<p><strong>{ESCAPED}</strong> x</p>" in render(TextBlock("x", term=HOSTILE))
    assert f'<p class="quiet">Note. {ESCAPED}</p>' in render(note(HOSTILE))
    alone = render(TextBlock("", heading=HOSTILE))
    assert f"<h3>{ESCAPED}</h3>" in alone
    assert "<p" not in alone


def test_tables_are_open_or_folded(render):
    rows = ((HOSTILE, "1"),)
    shown = render(TableBlock(HOSTILE, ("a", "b ↑"), rows))
    assert f'<th scope="row">{ESCAPED}</th><td>1</td>' in shown
    assert "b\N{NO-BREAK SPACE}↑" in shown
    assert f"<caption><span>{ESCAPED}" in shown
    assert "<details" not in shown
    folded = render(TableBlock(HOSTILE, ("", ""), rows, folded=True))
    assert f"<summary>{ESCAPED}</summary>" in folded
    assert "<thead" not in folded


def test_plots_keep_their_svg(render):
    shown = render(PlotBlock("<svg><g/></svg>", HOSTILE, HOSTILE))
    assert f'<div role="img" aria-label="{ESCAPED}"><svg><g/></svg></div>' in shown
    assert f"<figcaption>{ESCAPED}</figcaption>" in shown


def test_pictures_have_captions_and_a_switch_where_a_phone_makes_them_smaller(render):
    pixels = np.zeros((2, 3, 3), np.uint8)
    small = png_picture(pixels, HOSTILE, HOSTILE)
    shown = render(PicturesBlock((small, png_picture(pixels, "other")), "all"))
    assert shown.count("<img") == 2
    assert f'width="3" height="2" alt="{ESCAPED}"' in shown
    assert shown.count("<figcaption>") == 2  # of the first picture, and of both
    assert "<input" not in shown
    assert "<input" in render(PicturesBlock((Picture("data:", 900, 9, "wide"),), "all"))


def test_one_section_needs_no_contents(tmp_path):
    path = tmp_path / "page.html"
    one, other = Section("a", "A", ()), Section("b", "B", ())
    write_page(path, "Title", [one])
    assert "<nav" not in path.read_text()
    write_page(path, "Title", [one, other], ["Said first."])
    assert '<a href="#b">B</a>' in path.read_text()
    assert "<li>Said first.</li>" in path.read_text()
