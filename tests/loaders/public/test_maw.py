import json

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import MAW

torch = pytest.importorskip("torch")

HEIGHT, WIDTH = 6, 8
ROWS = (
    ("scene_3", "IMG_0012", "scene_3/0012"),
    ("scene_3", "IMG_0013", None),
    ("scene_10", "IMG_0012", None),
)
# Linear Adobe RGB: gray, a colour inside Rec.709, and pure green, which is outside.
COLOURS = np.array([[0.5, 0.5, 0.5], [0.4, 0.3, 0.2], [0.0, 1.0, 0.0]])


def pixels(seed):
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def mask(values):
    """Draw one band for each value."""
    return np.repeat(np.array(values, np.uint8), WIDTH // len(values))[None].repeat(HEIGHT, 0)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def colours_file(root, number=0):
    return root / "labels" / f"{ROWS[number][0]}/{ROWS[number][1]}.npy"


def mask_file(root, number=0):
    return root / "labels" / f"{ROWS[number][0]}/{ROWS[number][1]}_mask.png"


@pytest.fixture
def copy(tmp_path):
    root = tmp_path / "maw"
    lines = []
    for number, (scene, name, judged) in enumerate(ROWS):
        save(root / "images_png" / scene / f"{name}.png", pixels(number))
        save(mask_file(root, number), mask((0, 3, 7, 200)))
        np.save(colours_file(root, number), COLOURS)
        lines.append(
            f"{scene}/{name}.npy\t{scene}/{name}_mask.png\t{scene}\t{name}\t{scene}/{name}.png\t{judged}"
        )
    (root / "labels" / "meta.csv").write_text("\r\n".join(lines) + "\r\n")
    points = [{"id": n, "x": x, "y": 0.5, "opaque": True} for n, x in enumerate((0.25, 0.75))]
    compared = [
        {"point1": 0, "point2": 1, "darker": "1", "darker_score": 0.5},
        {"point1": 0, "point2": 1, "darker": "E", "darker_score": None},
    ]
    content = {"intrinsic_points": points, "intrinsic_comparisons": compared}
    (root / "labels" / "scene_3" / "0012.json").write_text(json.dumps(content))
    return root


def rewrite(root, number, *, column, word):
    """Replace a word of the list."""
    path = root / "labels" / "meta.csv"
    lines = path.read_text().splitlines()
    words = lines[number].split("\t")
    words[column] = word
    lines[number] = "\t".join(words)
    path.write_text("\n".join(lines))


def test_rows_follow_the_list(copy):
    data = MAW(str(copy))
    assert (len(data), data.ids) == (3, ("scene_3/IMG_0012", "scene_3/IMG_0013", "scene_10/IMG_0012"))
    assert [data[row]["id"] for row in range(3)] == list(data.ids)
    assert data[2]["scene"] == "scene_10"


def test_photographs_are_scene_linear(copy):
    expected = np.moveaxis(srgb_to_linear(pixels(1) / 255), 2, 0).astype(np.float32)
    np.testing.assert_array_equal(MAW(copy)[1]["image"], expected)


def test_colours_become_rec709_by_the_matrices_of_both_standards(copy):
    item = MAW(copy)[0]
    assert item["colours"].dtype == torch.float32
    # Red and blue primaries and white agree, so gray stays, and green is a mixture (1.4 R - 0.4 G, ...).
    red, green, blue = 0.4 * 1.39836 - 0.3 * 0.39836, 0.3, 0.2 * 1.04293 - 0.3 * 0.04293
    expected = [[0.5, 0.5, 0.5], [red, green, blue], [0, 1, 0]]
    np.testing.assert_allclose(item["colours"], expected, atol=1e-5)
    assert item["colours"][1].tolist() != pytest.approx(COLOURS[1].tolist(), abs=0.02)


def test_regions_are_numbered_by_the_values_of_the_mask(copy):
    regions = MAW(copy)[0]["regions"]
    assert regions.dtype == torch.int64
    assert regions[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_no_region_of_a_mask_without_background_is_lost(copy):
    save(mask_file(copy), mask((2, 9)))
    np.save(colours_file(copy), COLOURS[:2])
    item = MAW(copy)[0]
    assert item["regions"][0].tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    assert item["colours"].shape == (2, 3)


def test_the_first_of_one_more_value_is_the_background_whatever_it_is(copy):
    save(mask_file(copy), mask((9, 2)))
    np.save(colours_file(copy), COLOURS[:1])
    assert MAW(copy)[0]["regions"][0].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_a_mask_of_another_size_is_scaled_to_the_photograph(copy):
    save(mask_file(copy), mask((0, 3, 7, 200)).repeat(3, 0).repeat(5, 1))
    np.testing.assert_array_equal(MAW(copy)[0]["regions"], MAW(copy)[1]["regions"])


def test_judgements_are_those_that_count(copy):
    data = MAW(copy)
    judged = data.judgements(0)
    assert judged.points.tolist() == [[[0.25, 0.5], [0.75, 0.5]]]
    assert (judged.darker.tolist(), judged.score.tolist()) == ([1], [0.5])
    assert data.judgements(1) is None
    (copy / "labels" / "scene_3" / "0012.json").write_text("{}")
    with pytest.raises(InputError, match=r"0012.json: intrinsic_points: Field required; get it again from"):
        data.judgements(0)


@pytest.mark.parametrize("values", [(0, 3), (0, 3, 7, 200, 201, 202, 203, 204)])
def test_masks_that_do_not_fit_the_colours_are_refused(copy, values):
    save(mask_file(copy), mask(values))
    with pytest.raises(
        InputError, match=rf"_mask.png: expected 3 regions, .* and a background, got {len(values)} values; "
    ):
        MAW(copy)[0]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((3, 4)), r"expected colours \[n, 3\], got \[3, 4\]"),
        (np.full((3, 3), np.nan), r"expected linear colours from 0 to 1\.5, got nan to nan"),
        (np.full((3, 3), 200.0), r"expected linear colours from 0 to 1\.5, got 200 to 200"),
        (np.ones((3, 3), int), r"expected floats of 2 axes, got int64 \[3, 3\]"),
        (np.ones(3), r"expected floats of 2 axes, got float64 \[3\]"),
        (np.array([[{}]], object), "cannot be read: "),
    ],
)
def test_files_that_are_not_colours_are_refused(copy, array, message):
    np.save(colours_file(copy), array, allow_pickle=True)
    with pytest.raises(InputError, match=rf"IMG_0012.npy: {message}") as caught:
        MAW(copy)[0]
    assert "\n" not in str(caught.value)


def test_a_header_that_claims_too_much_is_refused(copy):
    whole = colours_file(copy).read_bytes()
    claims = whole.replace(b"(3, 3), }", b"(6666666666, 3), }")
    assert claims != whole
    for damaged in (b"", whole[:60], whole[:-8], claims):
        colours_file(copy).write_bytes(damaged)
        with pytest.raises(InputError, match=r"IMG_0012.npy: cannot be read: .*; get it again from"):
            MAW(copy)[0]


@pytest.mark.parametrize("column", [0, 1, 3, 5])
@pytest.mark.parametrize("word", ["../../../secret", "a\0b"])
def test_paths_that_lead_out_of_the_folder_are_refused(copy, column, word):
    rewrite(copy, 1, column=column, word=word)
    with pytest.raises(InputError, match=r"meta.csv: .* leads out of ") as caught:
        MAW(copy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("column", "word"), [(0, "/etc/passwd"), (1, "/etc/passwd"), (2, "..")])
def test_absolute_paths_and_folders_above_are_refused(copy, column, word):
    rewrite(copy, 1, column=column, word=word)
    with pytest.raises(InputError, match=r"meta.csv: .* leads out of "):
        MAW(copy)


def test_wrong_lists_are_refused(copy):
    rewrite(copy, 1, column=3, word="IMG_0012")
    with pytest.raises(InputError, match=r"meta.csv, line 2: expected one row for `scene_3/IMG_0012`, got"):
        MAW(copy)
    rewrite(copy, 1, column=3, word="IMG_0013\tmore")
    with pytest.raises(InputError, match=r"meta.csv, line 2: expected six columns: colours, mask, scene, "):
        MAW(copy)
    (copy / "labels" / "meta.csv").write_text("\n")
    with pytest.raises(InputError, match=r"meta.csv: expected photographs, found none; get them from"):
        MAW(copy)


def test_missing_files_are_named(copy):
    (copy / "images_png" / "scene_3" / "IMG_0012.png").unlink()
    mask_file(copy, 1).unlink()
    colours_file(copy, 2).unlink()
    for row, name in enumerate(
        ("scene_3/IMG_0012.png", "scene_3/IMG_0013_mask.png", "scene_10/IMG_0012.npy")
    ):
        with pytest.raises(InputError, match=rf"{name} is missing; get it from https://measuredalbedo"):
            MAW(copy)[row]
