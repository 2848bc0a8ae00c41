"""Open each view of each layout: the view opens, or one line names the layouts with its content."""

import pytest

from candlelight.evaluation.views import (
    LAYOUTS,
    open_concepts,
    open_decompositions,
    open_factors,
    open_images,
    open_judgements,
    open_pairs,
    open_parts,
    open_regions,
)
from candlelight.loaders.errors import InputError

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("datasets")

OPENERS = {
    "decompositions": open_decompositions,
    "concept sets": open_concepts,
    "parts": open_parts,
    "factors": open_factors,
    "judgements": open_judgements,
    "regions": open_regions,
    "rated pairs": open_pairs,
    "images": open_images,
}
HAVE = {
    "decompositions": {"frames", "mit", "arap", "hypersim"},
    "concept sets": {"frames", "mit", "arap", "multi-illumination", "photometric-stereo"},
    "parts": {"frames", "cub70", "celebamask"},
    "factors": {"frames", "cub70", "celebamask", "dsprites", "mpi3d", "shapes3d", "candle", "tid2013"},
    "regions": {"frames", "maw", "multi-illumination"},
    "judgements": {"frames", "iiw", "saw"},
    "rated pairs": {"tid2013"},
    "images": {"frames", *LAYOUTS},
}


def content_table(open_named):
    """Try each view of each layout.

    Args:
        open_named: takes a function of `candlelight.evaluation.views`, a layout and options, and opens data
            of the layout.

    Returns:
        True or the message of the refusal, by layout and content.
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


@pytest.fixture
def table(frames_root, open_copy):
    pytest.importorskip("OpenEXR")

    def open_named(opener, layout, **options):
        if layout == "frames":
            return opener(frames_root, set_name="grid", **options)
        return open_copy(opener, layout, **options)

    return content_table(open_named)


def test_each_view_opens_or_names_the_layouts_that_do(table):
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
