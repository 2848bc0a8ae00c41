"""Each kind of view of each kind of data: it opens, or one line says which layouts have that content."""

import pytest

from loaders.errors import InputError
from loaders.views import (
    LAYOUTS,
    open_concepts,
    open_decompositions,
    open_factors,
    open_images,
    open_judgements,
    open_pairs,
    open_parts,
)

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("datasets")

OPENERS = {
    "decompositions": open_decompositions,
    "concept sets": open_concepts,
    "parts": open_parts,
    "factors": open_factors,
    "judgements": open_judgements,
    "rated pairs": open_pairs,
    "images": open_images,
}
HAVE = {
    "decompositions": {"frames", "mit", "arap"},
    "concept sets": {"frames", "mit", "arap", "multi-illumination", "photometric-stereo"},
    "parts": {"frames", "cub70", "celebamask"},
    "factors": {"frames", "dsprites", "mpi3d", "shapes3d", "candle", "tid2013"},
    "judgements": {"iiw", "saw"},
    "rated pairs": {"tid2013"},
    "images": {"frames", *LAYOUTS},
}


def content_table(open_named):
    """Try each view of each layout.

    Args:
        open_named: takes a function of `loaders.views`, a layout and options, and opens data of the layout.

    Returns:
        By layout and content, True, or the line that refuses.
    """
    table = {}
    for layout in ("frames", *LAYOUTS):
        for content, opener in OPENERS.items():
            by = {"by": "part"} if content == "parts" and layout != "frames" else {}
            try:
                open_named(opener, layout, **by)[0]
                table[layout, content] = True
            except InputError as error:
                table[layout, content] = str(error)
    return table


def to_markdown(table):
    """Write a table of contents for the docs."""
    lines = [f"| data | {' | '.join(OPENERS)} |", f"|---|{'---|' * len(OPENERS)}"]
    for layout in dict.fromkeys(layout for layout, _ in table):
        cells = ("yes" if table[layout, content] is True else "" for content in OPENERS)
        lines.append(f"| `{layout}` | {' | '.join(cells)} |")
    return "\n".join(lines)


@pytest.fixture
def table(frames_root, open_copy):
    pytest.importorskip("OpenEXR")

    def open_named(opener, layout, **options):
        if layout == "frames":
            return opener(frames_root, set_name="grid", **options)
        return open_copy(opener, layout, **options)

    return content_table(open_named)


def test_each_pair_opens_or_names_what_does(table):
    for (layout, content), found in table.items():
        if layout in HAVE[content]:
            assert found is True, (layout, content, found)
            continue
        others = [name for name in LAYOUTS if name in HAVE[content]]
        frames = "frames or " if "frames" in HAVE[content] else ""
        assert (
            f"`{layout}` has no {content}; expected {frames}one of the layouts {', '.join(others)}" in found
        )
        assert "\n" not in found


def test_the_table_of_the_docs(table):
    lines = to_markdown(table).splitlines()
    assert len(lines) == 2 + 14
    assert lines[2] == "| `frames` | yes | yes | yes | yes |  |  | yes |"
    assert lines[4] == "| `arap` | yes | yes |  |  |  |  | yes |"
