"""Links between pages lead somewhere, and the code of pages names what exists.

That the site names every page is seen when `scripts/docs` builds it.

Code of pages is compiled, and its imports are resolved. This does not see whether it runs; the pages of
evaluation, `docs/factors.md` and README are run by tests of their own.
"""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *map(ROOT.joinpath, ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
        *ROOT.glob("docs/**/*.md"),
    )
)
LINK = re.compile(r"""(?:\]\(|src=")([\w./-]*)#?([\w-]*)[")]""")
PYTHON = re.compile(r"^ *```python\n(.*?)^ *```$", re.M | re.S)
IMPORT = re.compile(r"\bfrom (candlelight[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))")
NAME = re.compile(r"`(candlelight(?:\.\w+)+)")


def read(page: str) -> str:
    """Text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)


def exists(name: str) -> bool:
    """Tell whether a dotted name is a module or something in one."""
    module, _, rest = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ImportError:
        return bool(module) and exists(module) and hasattr(importlib.import_module(module), rest)
    return True


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


@pytest.mark.parametrize("page", PAGES)
def test_code_names_what_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in PYTHON.findall(text):
        sources = [one.source for one in doctest.DocTestParser().get_examples(block)] or [block]
        for source in sources:
            compile(source, page, "exec")
    names = {
        f"{module}.{name.split()[0]}"
        for module, *lists in IMPORT.findall(text)
        for name in re.split(r",\s*", "".join(lists).strip())
        if name
    }
    names |= set(NAME.findall(text))
    assert sorted(name for name in names if not exists(name)) == []


@pytest.mark.parametrize(
    ("shown", "same_data", "right"),
    [
        ("lmse (version 2) on demo\n...\n", False, True),
        ("lmse (version 1) on demo\n", False, False),
        ("a   lmse  0.5  0.4 to 0.6\nb is better than a\n", False, True),
        ("a   lmse  0.5  0.4 to 0.6\n", True, False),
        ("a   whdr  0.5\n", False, False),
        ("note: few ...\n", True, True),
        ("note: many ...\n", True, False),
        ("lmse (version 2) on demo\n", True, False),
    ],
)
def test_shown_output_is_compared(shown, same_data, right, check_shown):
    printed = (
        "lmse (version 2) on demo\na  lmse  undefined\n"
        "undecided between a and b: no difference shown\nnote: few rows\n"
    )
    if right:
        check_shown(shown, printed, same_data)
    else:
        with pytest.raises((pytest.fail.Exception, AssertionError)):
            check_shown(shown, printed, same_data)


@pytest.mark.parametrize("page", ["Dockerfile", "docs/installing.md"])
def test_system_libraries_are_those_of_setup(page):
    wanted = re.findall(r"=(lib\w[\w-]*)", (ROOT / "scripts" / "setup").read_text(encoding="utf-8"))
    assert len(wanted) == 9
    assert " ".join(wanted) in (ROOT / page).read_text(encoding="utf-8")
