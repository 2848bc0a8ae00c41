"""The page of samples and counterfactuals, on frames made by hand."""

import numpy as np
import pytest
from numpy import ndarray

from candlelight.evaluation.report.counterfactuals import write_counterfactual_page
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import read_dataset_info, write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import DatasetInfo, FactorInfo, Metadata, SetInfo, array_sha256

FACTORS = (
    FactorInfo(name="color", kind="categorical", values=("red", "<b>")),
    FactorInfo(name="size", kind="continuous", low=0, high=3),
)
PLAIN = np.zeros((6, 8, 3), np.uint8)


def metadata(set_name: str, index: int, image: ndarray, factors: dict, **fields) -> Metadata:
    text = {
        **{"id": f"{set_name}-{index}", "set": set_name, "index": index, "unit": "u", "group": "g"},
        **{"recipe": {"name": "tiny", "sha256": "a" * 64}, "factors": factors, "exogenous": {"x": 0.5}},
        **{"intervention": {}, "objects": [], "lights": [], "environment": None, "exposure": 1.0},
        "camera": {"intrinsics": np.eye(3).tolist(), "world_to_camera": np.eye(4).tolist()},
        "renderer": {
            **{"blender": "5.0.1", "device": "CPU", "cpu_features": "avx2"},
            **{"samples": 16, "denoiser": "none", "cycles_seed": 7},
        },
        "checks": {"identity_error": None, "stored_error": 0.0, "clipped": 0.0},
        "layers": {"image": array_sha256(image)},
    }
    return Metadata.model_validate({**text, **fields})


@pytest.fixture
def root(tmp_path):
    sets = {
        name: SetInfo(count=1, width=8, height=6, layers=("image",), factors=FACTORS)
        for name in ("base", "twins")
    }
    info = DatasetInfo(
        **{"name": "tiny", "description": "d", "licence": "CC0-1.0", "seed": 3, "sets": sets},
        **{"recipe": {"name": "tiny", "sha256": "a" * 64}, "candlelight": "0.1.0"},
    )
    write_dataset_info(tmp_path, info)
    made = metadata("base", 0, PLAIN, {"color": "red", "size": 1.0})
    write_frame(tmp_path, Frame(made, {"image": PLAIN}))
    changed = PLAIN.copy()
    changed[0] = 9  # 8 of 48 pixels
    twin = metadata(
        **{"set_name": "twins", "index": 0, "image": changed, "factors": {"color": "<b>", "size": 2.0}},
        **{"intervention": {"color": "<b>"}, "counterfactual_of": "base-0"},
    )
    write_frame(tmp_path, Frame(twin, {"image": changed}))
    return tmp_path


def test_page_shows_questions_answers_and_dependent_factors(root):
    path = write_counterfactual_page(root / "page.html", root, [("base", "twins")])
    page = path.read_text()
    assert page.count("<img") == 2
    assert "had color been &lt;b&gt;?" in page
    assert "size follows: 2" in page
    assert "x follows" not in page
    assert "17 % of the pixels differ" in page
    assert "Their pixels of the image may differ all the same" in page
    assert "<script" not in page


def test_interventions_on_the_whole_set_are_not_in_the_question(root):
    for name, index, image, fields in (
        ("base", 1, PLAIN, {"intervention": {"size": 1.0, "color": "red"}}),
        (
            *("twins", 1, PLAIN),
            {"intervention": {"size": 1.0, "color": "<b>"}, "counterfactual_of": "base-1"},
        ),
    ):
        made = metadata(name, index, image, {"color": "red", "size": 1.0}, **fields)
        write_frame(root, Frame(made, {"image": image}))
    info = read_dataset_info(root)
    sets = {name: one.model_copy(update={"count": 2}) for name, one in info.sets.items()}
    write_dataset_info(root, info.model_copy(update={"sets": sets}))
    page = write_counterfactual_page(root / "page.html", root, [("base", "twins")]).read_text()
    assert page.count("had color been &lt;b&gt;?") == 4  # beside each of two pictures, and instead of it
    assert "size been" not in page


def test_a_missing_sample_is_named(root):
    with pytest.raises(InputError, match="sample base-0 is missing; render it with its counterfactuals"):
        write_counterfactual_page(root / "page.html", root, [("twins", "twins")])
