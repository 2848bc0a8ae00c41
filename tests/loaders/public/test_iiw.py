import json

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import IIW
from candlelight.loaders.public.iiw import COUNT

torch = pytest.importorskip("torch")

# Their order as text differs from the order of their values.
IDS = (54, 116, 2000, 99993, 100010, 118517)
AS_TEXT = ("100010", "116", "118517", "2000", "54", "99993")


def point(number, x, y, opaque=True):
    return {
        "id": number,
        "min_separation": 0.07,
        "opaque": opaque,
        "opaque_method": "C",
        "opaque_responses": [],
        "opaque_score": 0.9,
        "sRGB": "716736",
        "x": x,
        "y": y,
    }


def comparison(one, two, darker, score):
    return {
        "darker": darker,
        "darker_method": "C",
        "darker_responses": [],
        "darker_score": score,
        "id": 10 * one + two,
        "min_separation": 0.03,
        "point1": one,
        "point2": two,
    }


POINTS = [point(1, 0.25, 0.75), point(2, 0.5, 0.125), point(3, 0.99, 0), point(4, 0, 0.5, opaque=False)]
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


def photograph(number, **changes):
    return {
        "aspect_ratio": 1.5,
        "attribution_name": "somebody",
        "attribution_url": "http://example.org/photo",
        "flickr_id": "1",
        "image_filename": f"{number}.png",
        "intrinsic_comparisons": COMPARISONS,
        "intrinsic_points": POINTS,
        "license": {"cc": True, "name": "Attribution 2.0", "url": "http://example.org/by"},
        "light_stack": None,
        "photo": number,
    } | changes


def write_json(path, value):
    # Like the release: a space after each comma, at line ends too.
    path.write_text(json.dumps(value, indent=2, sort_keys=True, separators=(", ", ": ")))


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "iiw-dataset" / "data"
    folder.mkdir(parents=True)
    for number in IDS:
        pixels = np.random.default_rng(number).integers(0, 256, (8, 12, 3), np.uint8)
        image = Image.fromarray(pixels[..., 0] if number == 54 else pixels)  # some photographs are gray
        image.save(folder / f"{number}.png")
        write_json(folder / f"{number}.json", photograph(number))
    for name in ("._54.json", ".DS_Store", "notes.json", "7.txt"):
        (folder / name).write_text("")
    return folder.parent


def test_splits_follow_the_order_of_the_numbers_as_text(copy):
    assert IIW(copy).ids == AS_TEXT
    assert IIW(copy, "test", count=6).ids == (AS_TEXT[0], AS_TEXT[5])
    assert IIW(copy, "train", count=6).ids == AS_TEXT[1:5]


def test_a_split_needs_the_whole_release(copy):
    assert COUNT == 5230
    assert len(range(0, COUNT, 5)) == 1046
    with pytest.raises(
        InputError, match=r"data: expected 5230 photographs, .* got 6; .* or pass split='all'"
    ):
        IIW(copy, "test")


def test_valid_comparisons_are_kept(copy):
    item = IIW(copy)[0]
    expected = [[(0.25, 0.75), (0.5, 0.125)], [(0.99, 0.0), (0.25, 0.75)], [(0.5, 0.125), (0.25, 0.75)]]
    assert item["points"].tolist() == [[list(xy) for xy in pair] for pair in expected]
    assert item["points"].dtype == torch.float64
    assert item["darker"].tolist() == [2, 0, 1]
    assert item["score"].tolist() == [1.25, 0.5, 0.25]
    arrays = IIW(copy).judgements(0)
    assert all((item[name].numpy() == array).all() for name, array in arrays._asdict().items())


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


def test_whdr_takes_the_comparisons(copy):
    rng = np.random.default_rng(0)
    points = [point(n, *rng.random(2).tolist(), opaque=bool(rng.random() < 0.8)) for n in range(30)]
    pairs = rng.integers(0, 30, (200, 2)).tolist()
    answers = [str(a) for a in rng.choice(["1", "2", "E"], 200)]
    made = [
        comparison(a, b, d, s) for (a, b), d, s in zip(pairs, answers, rng.random(200).tolist(), strict=True)
    ]
    one = photograph(54, intrinsic_points=points, intrinsic_comparisons=made)
    write_json(copy / "data" / "54.json", one)
    reflectance = rng.random((37, 53))
    judged = IIW(copy).judgements(AS_TEXT.index("54"))
    y, x = ((judged.points[..., axis] * size).astype(int) for axis, size in ((1, 37), (0, 53)))
    value = np.maximum(reflectance[y, x], 1e-10)
    said = np.where(value[:, 1] / value[:, 0] > 1.1, 1, np.where(value[:, 0] / value[:, 1] > 1.1, 2, 0))
    score = (judged.score * (said != judged.darker)).sum() / judged.score.sum()
    assert score == pytest.approx(slow_whdr(reflectance, one))


def test_photographs_are_scene_linear(copy):
    data = IIW(copy / "data")
    for row, gray in ((0, False), (4, True)):
        pixels = np.random.default_rng(int(AS_TEXT[row])).integers(0, 256, (8, 12, 3), np.uint8)
        pixels = np.repeat(pixels[..., :1], 3, axis=2) if gray else pixels
        expected = np.moveaxis(srgb_to_linear(pixels / 255), 2, 0).astype(np.float32)
        np.testing.assert_array_equal(data[row]["image"].numpy(), expected)


def test_attribution_and_licence(copy):
    item = IIW(copy)[1]
    assert (item["id"], item["licence"], item["licence_url"]) == (
        "116",
        "Attribution 2.0",
        "http://example.org/by",
    )
    assert (item["attribution"], item["attribution_url"]) == ("somebody", "http://example.org/photo")
    silent = photograph(116, license=None, attribution_name=None)
    del silent["attribution_url"]
    write_json(copy / "data" / "116.json", silent)
    item = IIW(copy)[1]
    assert {item[key] for key in ("licence", "licence_url", "attribution", "attribution_url")} == {""}


def test_a_photograph_without_judgements_has_empty_arrays(copy):
    write_json(copy / "data" / "116.json", photograph(116, intrinsic_points=[], intrinsic_comparisons=[]))
    item = IIW(copy)[1]
    assert (item["points"].shape, item["darker"].shape, item["score"].shape) == ((0, 2, 2), (0,), (0,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intrinsic_points": [point(1, 1.0, 0.5)]}, "intrinsic_points.0.x: Input should be less than 1"),
        (
            {"intrinsic_comparisons": [comparison(1, 9, "E", 1.0)]},
            "points 1 and 9, not both listed",
        ),
        ({"intrinsic_comparisons": [comparison(1, 2, "3", 1.0)]}, "intrinsic_comparisons.0.darker: "),
        (
            {"intrinsic_comparisons": [comparison(1, 2, "E", float("inf"))]},
            "intrinsic_comparisons.0.darker_score",
        ),
        ({"intrinsic_points": None}, "intrinsic_points: Input should be a valid array"),
    ],
)
def test_damaged_files_are_refused(copy, changes, message):
    write_json(copy / "data" / "116.json", photograph(116, **changes))
    with pytest.raises(InputError, match=rf"116.json: .*{message}.*; get it again from") as caught:
        IIW(copy)[1]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 10000, '{"intrinsic_points": '])
def test_text_that_is_not_json_is_refused(copy, text):
    (copy / "data" / "116.json").write_text(text)
    with pytest.raises(InputError, match=r"116.json: the file: .*; get it again from") as caught:
        IIW(copy)[1]
    assert "\n" not in str(caught.value)


def test_missing_files_are_named(copy, tmp_path):
    (copy / "data" / "116.png").unlink()
    with pytest.raises(InputError, match=r"data/116.png is missing; get it from http://opensurfaces"):
        IIW(copy)[1]
    (copy / "data" / "54.json").unlink()
    (copy / "data" / "54.json").mkdir()
    with pytest.raises(InputError, match=r"data/54.json cannot be read: .*; get it again from"):
        IIW(copy)[4]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: expected <id>.json, found none; get them from"):
        IIW(tmp_path / "empty")
