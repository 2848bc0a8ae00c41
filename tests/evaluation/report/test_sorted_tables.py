"""A browser sorts the tables of a page by mouse and by keyboard; without scripts they are plain tables."""

import pytest

from candlelight.evaluation.report.blocks import Section, TableBlock
from candlelight.evaluation.report.page import write_page
from candlelight.evaluation.run.result import BestCell

pytestmark = pytest.mark.oracle
ROWS = (
    ("image 10", "0.500 (0.40\xa0to\xa00.60)", "-3.0", "not defined"),
    ("image 9", BestCell("0.0100 (0.00\xa0to\xa00.20)"), "∞", "2 of 3"),
    ("image 1", "1.00e-05", "20.0", ""),
    ("other", "not defined", "-∞", "10 of 12"),
)


@pytest.fixture
def page(tmp_path, browser):
    head = ("row", "mae ↓", "psnr ↑", "counts")
    blocks = TableBlock("Scores", head, ROWS), TableBlock("Facts", head, ROWS, sortable=False)
    write_page(tmp_path / "page.html", "Title", [Section("key", "Section", blocks)])

    def open_page(scripts: bool = True):
        context = browser.new_context(java_script_enabled=scripts)
        opened, problems = context.new_page(), []
        opened.on("console", lambda message: problems.append(message.text))
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.goto((tmp_path / "page.html").as_uri())
        assert problems == []
        return opened

    return open_page


def first_cells(page) -> list[str]:
    return page.locator("table").first.locator("tbody th").all_inner_texts()


def sorts(page) -> list[str | None]:
    return [one.get_attribute("aria-sort") for one in page.locator("table").first.locator("thead th").all()]


def test_a_click_sorts_the_best_on_top_and_a_second_click_the_worst(page) -> None:
    opened = page()
    buttons = opened.locator("table").first.locator("thead button")
    buttons.nth(1).click()
    assert first_cells(opened) == ["image 1", "image 9", "image 10", "other"]
    assert sorts(opened) == [None, "ascending", None, None]
    buttons.nth(1).click()
    assert first_cells(opened) == ["image 10", "image 9", "image 1", "other"]  # not defined stays below
    assert sorts(opened) == [None, "descending", None, None]
    buttons.nth(2).click()
    assert first_cells(opened) == ["image 9", "image 1", "image 10", "other"]
    assert sorts(opened) == [None, None, "descending", None]
    buttons.nth(3).click()
    assert first_cells(opened)[:2] == ["image 9", "other"]


def test_the_keyboard_sorts_names_with_numbers_in_their_order(page) -> None:
    opened = page()
    first = opened.locator("thead button").first
    first.focus()
    opened.keyboard.press("Enter")
    assert first_cells(opened) == ["image 1", "image 9", "image 10", "other"]
    opened.keyboard.press(" ")
    assert first_cells(opened) == ["other", "image 10", "image 9", "image 1"]


def test_other_tables_and_pages_without_scripts_have_no_buttons(page) -> None:
    assert page().locator("button").count() == 4
    plain = page(scripts=False)
    assert plain.locator("button").count() == 0
    assert first_cells(plain) == [row[0] for row in ROWS]
    assert plain.locator("td strong").first.inner_text() == "0.0100"
