"""Snapshots that a person can read in a diff; `pytest --snapshot-update FILE` writes those of a file anew."""

import re
from html.parser import HTMLParser

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class TextFile(SingleFileSnapshotExtension):
    """Keeps the text of each snapshot as a file."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


MARKS = {
    **{"h1": "# ", "h2": "## ", "h3": "### ", "p": "", "li": "- ", "tr": "", "th": "| ", "td": "| "},
    **{"caption": "Table: ", "summary": "Folded table: ", "figcaption": "Caption: ", "label": "Switch: "},
}
NO_END = {"meta", "img", "input", "wbr"}


class PageText(HTMLParser):
    """Collects elements, readable lines and texts of drawings, and checks that tags are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines, self.open, self.elements, self.drawn = [""], [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag == "section":
            self.lines.append(f"Section #{attrs['id']}")
        if tag == "img":
            self.lines.append(f"Picture: {attrs['alt']}")
        if attrs.get("role") == "img":
            self.lines.append(f"Drawing: {attrs['aria-label']}")
        if tag == "strong" and "td" in self.open:  # the best of a column
            self.lines[-1] += "*"
        if tag in ("th", "td"):
            self.lines[-1] += " " + MARKS[tag]
        elif tag in MARKS:
            self.lines.append(MARKS[tag])
        if tag not in NO_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))  # shapes of a drawing

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "svg" in self.open:
            self.drawn += data
        elif not {"style", "title", "script"} & {*self.open}:
            self.lines[-1] += data


def page_text(page: str) -> str:
    """Return headings, texts, cells, captions and alternative texts of an HTML page, each on a line.

    Drawings and pictures are left out, whose numbers depend on versions of other packages.
    """
    lines = (re.sub(r"\s+", " ", line).strip() for line in PageText(page).lines)
    return "".join(f"{line}\n" for line in lines if line)
