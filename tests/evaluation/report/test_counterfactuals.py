"""The page of samples and counterfactuals, on frames made by hand."""

import numpy as np
import pytest

from candlelight.evaluation.report.counterfactuals import write_counterfactual_page
from candlelight.loaders.frames import write_frame
from candlelight.loaders.schema import FactorInfo, SetInfo
from tests.evaluation.report.conftest import tiny_frame, write_info
from tests.refusals import refused
from tests.snapshots import page_text

FACTORS = (
    FactorInfo(name="color", kind="categorical", values=("red", "<b>")),
    FactorInfo(name="size", kind="continuous", low=0, high=3),
)


@pytest.fixture
def root(tmp_path):
    """Write two samples and counterfactuals; interventions on the whole set hold for the second pair."""
    common = {"count": 2, "width": 8, "height": 6, "layers": ("image",), "factors": FACTORS}
    write_info(tmp_path, dict.fromkeys(("base", "twins"), SetInfo(**common)))
    plain = np.zeros((6, 8, 3), np.uint8)
    changed = plain.copy()
    changed[0] = 9  # 8 of 48 pixels
    red, other = {"color": "red", "size": 1.0}, {"color": "<b>", "size": 2.0}
    for name, index, image, factors, fields in (
        ("base", 0, plain, red, {}),
        ("twins", 0, changed, other, {"intervention": {"color": "<b>"}}),
        ("base", 1, plain, red, {"intervention": {"size": 1.0, "color": "red"}}),
        ("twins", 1, plain, red, {"intervention": {"size": 1.0, "color": "<b>"}}),
    ):
        of = {"counterfactual_of": f"base-{index}"} if name == "twins" else {}
        fields = {"exogenous": {"x": 0.5}, **fields, **of}
        write_frame(tmp_path, tiny_frame(name, index, {"image": image}, factors, **fields))
    return tmp_path


def test_page_shows_questions_answers_and_dependent_factors(root, snapshot):
    page = write_counterfactual_page(root / "page.html", root, [("base", "twins")]).read_text()
    assert page_text(page) == snapshot


def test_a_missing_sample_is_named(root):
    with refused("sample base-0 is missing; render it with its counterfactuals"):
        write_counterfactual_page(root / "page.html", root, [("twins", "twins")])
