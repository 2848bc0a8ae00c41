"""Links between pages lead somewhere, indexes name every page, and lists of system libraries agree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INDEXES = ("README.md", "docs/README.md")
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"))
)
LINK = re.compile(r"\]\(([\w./-]*)#?([\w-]*)\)")


def read(page: str) -> str:
    """Text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for place, heading in LINK.findall(read(page)):
        other = ((ROOT / page).parent / place if place else ROOT / page).resolve()
        assert other.is_file(), place
        if heading:
            titles = re.findall(r"^#+ (.*)$", read(str(other.relative_to(ROOT))), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, (
                place
            )


@pytest.mark.parametrize("index", INDEXES)
def test_indexes_name_every_page_once(index):
    linked = [((ROOT / index).parent / place).resolve() for place, _ in LINK.findall(read(index))]
    wanted = [ROOT / page for page in PAGES if page != index]
    if index == "docs/README.md":  # the pages of single recipes are listed by the page of recipes
        wanted = [page for page in wanted if page.parent.name != "recipes" or page.stem == "textures"]
    assert sorted(set(linked)) == sorted(linked), "a page is linked twice"
    assert sorted(linked) == sorted(wanted)


@pytest.mark.parametrize("page", ["Dockerfile", "docs/installing.md"])
def test_system_libraries_are_those_of_setup(page):
    wanted = re.findall(r"=(lib\w[\w-]*)", (ROOT / "scripts" / "setup").read_text(encoding="utf-8"))
    assert len(wanted) == 9
    assert " ".join(wanted) in (ROOT / page).read_text(encoding="utf-8")
