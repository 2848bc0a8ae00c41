import json

import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.public import SAW

TRIANGLE = {
    **{"id": 5, "area": 0.02, "pixel_area": 1800, "num_vertices": 4, "num_triangles": 2, "num_segments": 4},
    "vertices": "0.10,0.20,0.30,0.20,0.30,0.40,0.10,0.40",
    "triangles": "0,1,2,0,2,3",
    "segments": "0,1,1,2,2,3,3,0",
    **{"shading_region_flat": True, "shading_region_flat_method": "A", "shading_region_flat_score": None},
    **{"shading_region_glossy": False, "shading_region_var": None},
}


def point(number, x, y, opaque=True):
    return {"id": number, "x": x, "y": y, "opaque": opaque, "glossy": False, "sRGB": "716736"}


def comparison(what, one, two, darker, score):
    made = {"point1": one, "point2": two, "darker": darker, "darker_score": score, "darker_method": "C"}
    return made if what is None else made | {"compare_what": what}


PHOTOGRAPH = {
    **{"photo": 54, "in_nyu_dataset": False, "nyu_idx": None, "aspect_ratio": 1.5},
    "intrinsic_points": [point(1, 0.25, 0.75), point(2, 0.5, 0.125), point(3, 0, 0.5, opaque=False)],
    "intrinsic_comparisons": [
        comparison("R", 1, 2, "2", 1.25),
        comparison("S", 2, 1, "E", 0.5),
        comparison("S", 1, 3, "1", 0.5),  # not opaque
        comparison("S", 1, 2, "1", None),  # no score
        comparison(None, 2, 1, "1", 0.75),  # like IIW
    ],
    "constant_shading_regions": [TRIANGLE],
    "shadow_boundary_points": [
        {"id": 9, "sRGB": "716736", "x": 0.4, "y": 0.6, "osb": True, "osb_method": "M", "osb_score": None},
        {"id": 10, "sRGB": "716736", "x": 1.0, "y": 0.0, "osb": False},
        {"id": 11, "sRGB": "716736", "x": 0.1, "y": 0.2, "osb": None},
    ],
}


@pytest.fixture
def write(tmp_path):
    for folder in ("saw_splits", "saw_annotations_json"):
        (tmp_path / folder).mkdir()
    np.save(tmp_path / "saw_splits" / "val_ids.npy", np.array([54]))

    def build(**changes):
        # Like Python 2: a space after each comma, at line ends too.
        text = json.dumps(PHOTOGRAPH | changes, indent=2, sort_keys=True, separators=(", ", ": "))
        (tmp_path / "saw_annotations_json" / "54.json").write_text(text)
        return SAW(tmp_path, "val")

    return build


def test_regions_are_read(write):
    (region,) = write().annotations(0).regions
    assert region.vertices.tolist() == [[0.1, 0.2], [0.3, 0.2], [0.3, 0.4], [0.1, 0.4]]
    assert region.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert region.segments.tolist() == [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert (region.area, region.flat, region.glossy, region.varying) == (0.02, True, False, None)
    # The triangles cover the square that the segments bound.
    one, two, three = (region.vertices[region.triangles[:, k]] for k in range(3))
    (a, b), (c, d) = (two - one).T, (three - one).T
    assert np.abs(a * d - b * c).sum() / 2 == pytest.approx(0.2 * 0.2)


def test_shadow_points_and_comparisons_are_read(write):
    found = write().annotations(-1)
    assert found.shadow_points.tolist() == [[0.4, 0.6], [1.0, 0.0], [0.1, 0.2]]
    assert found.on_shadow.tolist() == [1, 0, -1]
    assert found.reflectance.darker.tolist() == [2, 1]
    assert found.reflectance.score.tolist() == [1.25, 0.75]
    assert found.shading.points.tolist() == [[[0.5, 0.125], [0.25, 0.75]]]
    assert found.shading.darker.tolist() == [0]


def test_a_photograph_without_annotations_has_empty_arrays(write):
    empty = {key: [] for key, value in PHOTOGRAPH.items() if isinstance(value, list)}
    found = write(**empty).annotations(0)
    assert found.regions == ()
    assert (found.shadow_points.shape, found.on_shadow.shape) == ((0, 2), (0,))
    assert found.reflectance.points.shape == found.shading.points.shape == (0, 2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vertices": "0.1,0.2,x"}, "constant_shading_regions.0: expected 4 x 2 numbers, got '0.1,0.2,x'"),
        ({"vertices": ""}, "constant_shading_regions.0: expected 4 x 2 numbers, got ''"),
        ({"vertices": ",".join(["nan"] * 8)}, "constant_shading_regions.0: expected 4 x 2 numbers"),
        ({"triangles": "0,1,4,0,2,3"}, "constant_shading_regions.0: expected numbers of its 4 vertices"),
        ({"triangles": "0,1,0.5,0,2,3"}, "constant_shading_regions.0: expected numbers of its 4 vertices"),
        ({"segments": "0,1,1,2,2,3,3,-1"}, "constant_shading_regions.0: expected numbers of its 4 vertices"),
        ({"num_triangles": -2}, "constant_shading_regions.0.num_triangles: "),
        ({"num_vertices": 10**12}, "constant_shading_regions.0"),
        ({"triangles": None}, "constant_shading_regions.0.triangles: Input should be a valid string"),
    ],
)
def test_damaged_regions_are_refused(write, changes, message):
    data = write(constant_shading_regions=[TRIANGLE | changes])
    with pytest.raises(InputError, match=rf"54.json: {message}.*; get it again from https") as caught:
        data.annotations(0)
    assert "\n" not in str(caught.value)


def test_other_damage_is_refused(write, tmp_path):
    data = write(intrinsic_comparisons=[comparison("T", 1, 2, "1", 1.0)])
    with pytest.raises(InputError, match=r"54.json: intrinsic_comparisons.0.compare_what: .*; get it again"):
        data.annotations(0)
    data = write(intrinsic_comparisons=[comparison("S", 1, 9, "1", 1.0)])
    with pytest.raises(InputError, match=r"points 1 and 9, not both listed; get it again from .*saw"):
        data.annotations(0)
    (tmp_path / "saw_annotations_json" / "54.json").unlink()
    with pytest.raises(InputError, match=r"saw_annotations_json/54.json is missing; get it from .*saw"):
        data.annotations(0)
