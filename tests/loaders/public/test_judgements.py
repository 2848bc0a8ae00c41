"""Read IIW, SAW and MAW: judged points, labels of shading, and measured colours."""

import numpy as np
import pytest

from candlelight.loaders.public import IIW, MAW, SAW
from candlelight.loaders.public.iiw import COUNT
from tests.loaders.public.copies import (
    LABEL_FOLDER,
    MAW_COLOURS,
    comparison,
    json_2,
    judged_point,
    save,
    saw_labels,
)
from tests.refusals import refused

torch = pytest.importorskip("torch")

# ----------------------------------------------------------------------------------------------------- IIW

POINTS = [
    *(judged_point(1, 0.25, 0.75), judged_point(2, 0.5, 0.125)),
    *(judged_point(3, 0.99, 0), judged_point(4, 0, 0.5, opaque=False)),
]
COMPARISONS = [
    comparison(1, 2, "2", 1.25),
    comparison(2, 3, "E", None),  # no score
    comparison(3, 1, "E", 0.5),
    comparison(1, 3, None, 0.75),  # no answer
    comparison(1, 4, "1", 0.75),  # not opaque
    comparison(2, 1, "1", 0.25),
    comparison(2, 3, "1", 0),
    comparison(2, 3, "1", -1.0),
]


@pytest.fixture
def photograph(own_copy):
    """Return a function that writes the JSON of the first photograph, and opens the copy."""

    folder = own_copy("iiw") / "data"

    def write(**content):
        content = {"intrinsic_points": POINTS, "intrinsic_comparisons": COMPARISONS, **content}
        (folder / "116.json").write_text(json_2(content))
        return IIW(folder)

    return write


def test_splits_follow_the_order_of_the_numbers_as_text(tmp_path):
    for number in (54, 116, 2000, 99993, 100010, 118517, "notes"):
        (tmp_path / f"{number}.json").touch()
    as_text = ("100010", "116", "118517", "2000", "54", "99993")
    assert IIW(tmp_path).ids == as_text
    assert IIW(tmp_path, "test", count=6).ids == (as_text[0], as_text[5])
    assert IIW(tmp_path, "train", count=6).ids == as_text[1:5]
    assert len(range(0, COUNT, 5)) == 1046


def test_valid_comparisons_are_kept(photograph):
    item = photograph()[0]
    expected = [[(0.25, 0.75), (0.5, 0.125)], [(0.99, 0.0), (0.25, 0.75)], [(0.5, 0.125), (0.25, 0.75)]]
    assert item["points"].tolist() == [[list(xy) for xy in pair] for pair in expected]
    assert item["points"].dtype == torch.float64
    assert item["darker"].tolist() == [2, 0, 1]
    assert item["score"].tolist() == [1.25, 0.5, 0.25]
    arrays = photograph().judgements(0)
    assert all((item[name].numpy() == array).all() for name, array in arrays._asdict().items())
    item = photograph(intrinsic_points=[], intrinsic_comparisons=[])[0]
    assert (item["points"].shape, item["darker"].shape, item["score"].shape) == ((0, 2, 2), (0,), (0,))


def slow_whdr(reflectance, judged, delta=0.1):
    """Score like the benchmark, one comparison after the other."""
    wrong = total = 0.0
    rows, columns = reflectance.shape
    for item in judged["intrinsic_comparisons"]:
        points = [
            next(p for p in judged["intrinsic_points"] if p["id"] == item[key])
            for key in ("point1", "point2")
        ]
        if item["darker"] not in ("1", "2", "E") or not all(p["opaque"] for p in points):
            continue
        if item["darker_score"] is None or item["darker_score"] <= 0:
            continue
        one, two = (max(1e-10, reflectance[int(p["y"] * rows), int(p["x"] * columns)]) for p in points)
        said = "1" if two / one > 1 + delta else "2" if one / two > 1 + delta else "E"
        total += item["darker_score"]
        wrong += item["darker_score"] * (said != item["darker"])
    return wrong / total


def test_whdr_takes_the_comparisons(photograph):
    rng = np.random.default_rng(0)
    points = [judged_point(n, *rng.random(2).tolist(), opaque=bool(rng.random() < 0.8)) for n in range(30)]
    answers = rng.choice(["1", "2", "E"], 200).tolist()
    pairs = zip(*rng.integers(0, 30, (2, 200)).tolist(), answers, rng.random(200).tolist(), strict=True)
    made = {"intrinsic_points": points, "intrinsic_comparisons": [comparison(*pair) for pair in pairs]}
    reflectance = rng.random((37, 53))
    judged = photograph(**made).judgements(0)
    y, x = ((judged.points[..., axis] * size).astype(int) for axis, size in ((1, 37), (0, 53)))
    value = np.maximum(reflectance[y, x], 1e-10)
    said = np.where(value[:, 1] / value[:, 0] > 1.1, 1, np.where(value[:, 0] / value[:, 1] > 1.1, 2, 0))
    score = (judged.score * (said != judged.darker)).sum() / judged.score.sum()
    assert score == pytest.approx(slow_whdr(reflectance, made))


def test_attribution_and_licence(public_folder, photograph):
    keys = ("attribution", "attribution_url", "licence", "licence_url")
    item = IIW(public_folder("iiw"))[0]
    shown = ("somebody", "http://example.org/photo", "Attribution 2.0", "http://example.org/by")
    assert tuple(item[key] for key in keys) == shown
    item = photograph(license=None, attribution_name=None)[0]  # without an address
    assert {item[key] for key in keys} == {""}


# ----------------------------------------------------------------------------------------------------- SAW


def test_splits_follow_the_lists(public_folder):
    assert [SAW(public_folder("saw"), split).ids for split in ("train", "val")] == [("54",), ()]


def test_labels_are_read_unchanged(own_copy):
    root = own_copy("saw")
    for dtype in (np.int64, np.uint8):
        np.save(root / "saw_pixel_labels" / LABEL_FOLDER / "54.npy", saw_labels(54).astype(dtype))
        (item,) = SAW(root, "train")
        assert item["labels"].dtype == torch.int64
        np.testing.assert_array_equal(item["labels"], saw_labels(54))
        np.testing.assert_array_equal(item["mask"], saw_labels(54) != 100)


def test_photographs_without_labels_are_left_out_on_request(own_copy):
    root = own_copy("saw")
    (root / "saw_pixel_labels" / LABEL_FOLDER / "116.npy").unlink()
    assert (SAW(root, "test").ids, SAW(root, "test").missing) == (("116", "54"), ())
    data = SAW(root, "test", skip_missing=True)
    assert (data.ids, data.missing, len(list(data))) == (("54",), ("116",), 1)


TRIANGLE = {
    **{"id": 5, "area": 0.02, "pixel_area": 1800, "num_vertices": 4, "num_triangles": 2, "num_segments": 4},
    "vertices": "0.10,0.20,0.30,0.20,0.30,0.40,0.10,0.40",
    "triangles": "0,1,2,0,2,3",
    "segments": "0,1,1,2,2,3,3,0",
    **{"shading_region_flat": True, "shading_region_flat_method": "A", "shading_region_flat_score": None},
    **{"shading_region_glossy": False, "shading_region_var": None},
}


ANNOTATED = {
    **{"photo": 54, "in_nyu_dataset": False, "nyu_idx": None, "aspect_ratio": 1.5},
    "intrinsic_points": POINTS,
    "intrinsic_comparisons": [
        comparison(1, 2, "2", 1.25, compare_what="R"),
        comparison(2, 1, "E", 0.5, compare_what="S"),
        comparison(1, 4, "1", 0.5, compare_what="S"),  # not opaque
        comparison(1, 2, "1", None, compare_what="S"),  # no score
        comparison(2, 1, "1", 0.75),  # like IIW
    ],
    "constant_shading_regions": [TRIANGLE],
    "shadow_boundary_points": [
        {"id": 9, "sRGB": "716736", "x": 0.4, "y": 0.6, "osb": True, "osb_method": "M", "osb_score": None},
        {"id": 10, "sRGB": "716736", "x": 1.0, "y": 0.0, "osb": False},
        {"id": 11, "sRGB": "716736", "x": 0.1, "y": 0.2, "osb": None},
    ],
}


@pytest.fixture
def annotations(tmp_path):
    """Return a function that writes the annotations of a photograph, with changes, and reads them."""
    for folder in ("saw_splits", "saw_annotations_json"):
        (tmp_path / folder).mkdir()
    np.save(tmp_path / "saw_splits" / "val_ids.npy", np.array([54]))

    def write(**changes):
        (tmp_path / "saw_annotations_json" / "54.json").write_text(json_2(ANNOTATED | changes))
        return SAW(tmp_path, "val").annotations(-1)

    return write


def test_regions_are_read(annotations):
    (region,) = annotations().regions
    assert region.vertices.tolist() == [[0.1, 0.2], [0.3, 0.2], [0.3, 0.4], [0.1, 0.4]]
    assert region.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert region.segments.tolist() == [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert (region.area, region.flat, region.glossy, region.varying) == (0.02, True, False, None)


def test_shadow_points_and_comparisons_are_read(annotations):
    found = annotations()
    assert found.shadow_points.tolist() == [[0.4, 0.6], [1.0, 0.0], [0.1, 0.2]]
    assert found.on_shadow.tolist() == [1, 0, -1]
    assert found.reflectance.darker.tolist() == [2, 1]
    assert found.reflectance.score.tolist() == [1.25, 0.75]
    assert found.shading.points.tolist() == [[[0.5, 0.125], [0.25, 0.75]]]
    assert found.shading.darker.tolist() == [0]
    found = annotations(**{key: [] for key, value in ANNOTATED.items() if isinstance(value, list)})
    assert found.regions == ()
    assert (found.shadow_points.shape, found.on_shadow.shape) == ((0, 2), (0,))
    assert found.reflectance.points.shape == found.shading.points.shape == (0, 2, 2)


def region(**changes):
    return {"constant_shading_regions": [TRIANGLE | changes]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (region(vertices="0.1,0.2,x"), "constant_shading_regions.0: expected 4 x 2 numbers, got '0.1,0.2,x'"),
        (region(vertices=""), "constant_shading_regions.0: expected 4 x 2 numbers, got ''"),
        (region(vertices=",".join(["nan"] * 8)), "constant_shading_regions.0: expected 4 x 2 numbers"),
        (region(triangles="0,1,4,0,2,3"), "constant_shading_regions.0: expected numbers of its 4 vertices"),
        (region(triangles="0,1,0.5,0,2,3"), "expected numbers of its 4 vertices"),
        (region(segments="0,1,1,2,2,3,3,-1"), "expected numbers of its 4 vertices"),
        (region(num_triangles=-2), "constant_shading_regions.0.num_triangles: "),
        (region(num_vertices=10**12), "constant_shading_regions.0"),
        (region(triangles=None), "constant_shading_regions.0.triangles: Input should be a valid string"),
        (
            {"intrinsic_comparisons": [comparison(1, 2, "1", 1.0, compare_what="T")]},
            "intrinsic_comparisons.0.compare_what: ",
        ),
        (
            {"intrinsic_comparisons": [comparison(1, 9, "1", 1.0, compare_what="S")]},
            "a comparison names points 1 and 9, not both listed",
        ),
    ],
)
def test_damaged_annotations_are_refused(annotations, changes, message):
    with refused(rf"\A.*54.json: .*{message}.*; get it again from https.*\Z"):
        annotations(**changes)


def test_missing_annotations_are_named(public_folder):
    with refused("saw_annotations_json/54.json is missing; get it from .*saw"):
        SAW(public_folder("saw"), "train").annotations(0)


# ----------------------------------------------------------------------------------------------------- MAW


def test_colours_become_rec709_by_the_matrices_of_both_standards(public_folder):
    item = MAW(str(public_folder("maw")))[2]
    assert (item["scene"], item["colours"].dtype) == ("scene_10", torch.float32)
    # Red and blue primaries and white agree, so gray stays, and green is a mixture (1.4 R - 0.4 G, ...).
    red, green, blue = 0.4 * 1.39836 - 0.3 * 0.39836, 0.3, 0.2 * 1.04293 - 0.3 * 0.04293
    expected = [[0.5, 0.5, 0.5], [red, green, blue], [0, 1, 0]]
    np.testing.assert_allclose(item["colours"], expected, atol=1e-5)
    assert item["colours"][1].tolist() != pytest.approx(MAW_COLOURS[1].tolist(), abs=0.02)


@pytest.mark.parametrize(
    ("values", "count", "numbers"),
    [
        ((0, 3, 7, 200), 3, [0, 1, 2, 3]),
        ((2, 9), 2, [1, 2]),  # no background
        ((9, 2), 1, [1, 0]),  # the first of one more value is the background, whatever it is
    ],
)
def test_regions_are_numbered_by_the_values_of_the_mask(own_copy, values, count, numbers):
    root = own_copy("maw")
    # Scaled by the nearest pixel to the photograph of 4 x 6 pixels.
    bands = np.repeat(np.array([values], np.uint8), 12, axis=1).repeat(2, axis=0)
    save(root / "labels" / "scene_2" / "IMG_1_mask.png", bands)
    save(root / "images_png" / "scene_2" / "IMG_1.png", np.zeros((4, 2 * len(values), 3), np.uint8))
    np.save(root / "labels" / "scene_2" / "IMG_1.npy", MAW_COLOURS[:count])
    item = MAW(root)[0]
    assert item["regions"].dtype == torch.int64
    assert item["regions"].tolist() == [np.repeat(numbers, 2).tolist()] * 4
    assert item["colours"].shape == (count, 3)


def test_judgements_are_those_that_count(public_folder):
    data = MAW(public_folder("maw"))
    judged = data.judgements(0)
    assert judged.points.tolist() == [[[0.1, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.9, 0.5]]]
    assert (judged.darker.tolist(), judged.score.tolist()) == ([1, 0], [0.5, 0.25])
    assert data.judgements(1) is None


def test_wrong_judgements_are_named(replaced):
    root = replaced("maw", "labels/scene_2/0001.json", b"{}")
    with refused(r"0001.json: intrinsic_points: Field required; get it again from"):
        MAW(root).judgements(0)
