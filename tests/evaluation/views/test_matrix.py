"""Open each content of each layout: the view opens, or one line names the layouts with its content."""

import pytest

from candlelight.evaluation.views import LAYOUTS, open_data
from candlelight.loaders.errors import InputError

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("datasets")

HAVE = {
    "decompositions": {"frames", "mit", "arap", "hypersim"},
    "concepts": {"frames", "mit", "arap", "multi-illumination", "photometric-stereo"},
    "parts": {"frames", "cub70", "celebamask"},
    "factors": {"frames", "cub70", "celebamask", "dsprites", "mpi3d", "shapes3d", "candle", "tid2013"},
    "regions": {"frames", "maw", "multi-illumination"},
    "judgements": {"frames", "iiw", "saw"},
    "pairs": {"tid2013"},
    "images": {"frames", *LAYOUTS},
}


NOUNS = {"concepts": "concept sets", "pairs": "rated pairs"}


@pytest.mark.parametrize("kind", HAVE)
@pytest.mark.parametrize("layout", ["frames", *LAYOUTS])
def test_each_content_opens_or_names_the_layouts_that_have_it(frames_root, open_copy, layout, kind):
    pytest.importorskip("OpenEXR")
    options = {"by": "part"} if kind == "parts" and layout != "frames" else {}

    def open_one():
        if layout == "frames":
            return open_data(kind, frames_root, set_name="grid", **options)[0]
        return open_copy(kind, layout, **options)[0]

    if layout in HAVE[kind]:
        open_one()
        return
    others = [name for name in LAYOUTS if name in HAVE[kind]]
    frames = "frames or " if "frames" in HAVE[kind] else ""
    with pytest.raises(InputError) as caught:
        open_one()
    noun = NOUNS.get(kind, kind)
    message = f"`{layout}` has no {noun}; expected {frames}one of the layouts {', '.join(others)}"
    assert str(caught.value).endswith(message)
