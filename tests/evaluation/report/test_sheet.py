"""Contact sheets of a set: pixels of each layer, captions and rows; test_draw_sheet.py tests the command."""

import numpy as np
import pytest

from candlelight.loaders.colour import to_display
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.image_frames import open_image_frames
from candlelight.loaders.looking.layer_pixels import PALETTE, show_layer
from candlelight.loaders.looking.sheet import contact_sheet, write_png
from candlelight.loaders.looking.sheet_rows import pick_rows
from candlelight.loaders.looking.sheet_tiles import BACKGROUND, LARGEST_TILE, TILE_GAP, factor_text
from tests.refusals import refused

TILE = 96, 128  # of frames of 6 x 8 pixels, sixteen times as large


def test_each_row_has_its_factors_above_it_and_each_column_its_name(plain):
    layers = ["image"] * 4  # as many as make a row of one sample
    sheet = contact_sheet(plain, [0, 1, 0], layers)
    assert (sheet[-TILE_GAP:] == BACKGROUND).all()
    band = len(sheet) - len(contact_sheet(plain, [0, 1], layers))
    caption = band - TILE[0]
    assert caption > 0
    # The rest at the top is the header: it has ink, as has each caption.
    header, bands = np.split(sheet[TILE_GAP:-TILE_GAP], [-3 * band])
    assert len(header) > 0
    assert (header > 200).any()
    first, other, again = np.split(bands, 3)
    np.testing.assert_array_equal(first, again)
    assert (first[:caption] > 200).any()
    assert (first[:caption] != other[:caption]).any()


def test_long_captions_are_wrapped_and_do_not_widen_the_sheet(plain):
    narrow = contact_sheet(plain, [1], ["image"])
    assert narrow.shape[1] == TILE[1] + 2 * TILE_GAP
    assert len(narrow) > len(contact_sheet(plain, [1], ["image"] * 4))


def test_large_frames_are_shown_by_every_nth_pixel(plain, monkeypatch):
    large = np.arange(2 * LARGEST_TILE * 3, dtype=np.int64).reshape(1, -1, 1) % 251 * np.ones((2, 1, 3))
    frame = plain.frame(0)
    frame.layers["image"] = large.astype(np.uint8)
    monkeypatch.setattr(type(plain), "frame", lambda self, row: frame)
    size = {"width": 6 * LARGEST_TILE, "height": 2}
    monkeypatch.setattr(plain, "set_info", plain.set_info.model_copy(update=size))
    sheet = contact_sheet(plain, [0], ["image"])
    assert sheet.shape[1] == LARGEST_TILE + 2 * TILE_GAP
    np.testing.assert_array_equal(sheet[-TILE_GAP - 1, TILE_GAP:-TILE_GAP], frame.layers["image"][0, ::6])


def gray(*values):
    return np.repeat(np.array(values)[None, :, None], 3, axis=2)


RADIANCE = np.array([[[0.25, 1.0, 4.0]]], np.float16)
LIT = to_display(np.array([[[0.125, 0.5, 2.0]]]))  # at an exposure of 0.5
NORMALS = [[0, 0, -1], [1, -1, 0], [0, 0, 0]]
POSITIONS = [[0, 0, 0], [-2, 5, 1], [2, 5, 2], [0, 5, 3]]  # 0 where nothing is hit
INDICES = [0, 1, 2, len(PALETTE), len(PALETTE) + 1, 255]
COLOURS = [[0, 0, 0], PALETTE[0], PALETTE[1], PALETTE[-1], PALETTE[0], PALETTE[254 % len(PALETTE)]]


@pytest.mark.parametrize(
    ("names", "layer", "shown"),
    [
        ("radiance shading shading_direct residual light/left", RADIANCE, LIT),
        ("image", np.array([[[1, 2, 3]]], np.uint8), [[[1, 2, 3]]]),
        ("albedo", np.array([[[0.0, 0.5, 1.0]]], np.float16), [[[0, 188, 255]]]),
        ("normal", np.array([NORMALS], np.float16), [[[128, 128, 0], [255, 0, 128], [128, 128, 128]]]),
        (
            "position",
            np.array([POSITIONS], np.float32),
            [[[0, 0, 0], [0, 0, 0], [255, 0, 128], [128, 0, 255]]],
        ),
        ("position", np.zeros((1, 2, 3), np.float32), np.zeros((1, 2, 3))),
        ("roughness metallic", np.array([[0, 0.5, 1]], np.float16), gray(0, 128, 255)),
        ("object part", np.array([INDICES], np.uint8), [COLOURS]),
        # Depth is bright where near, by ratios, and black where nothing is hit in front.
        ("depth", np.array([[2, 4, 8, np.inf]], np.float32), gray(255, 160, 64, 0)),
        ("depth", np.array([[1, 10, 100, 1000]], np.float32), gray(255, 191, 128, 64)),
        ("depth", np.array([[0, -1, 2, 8]], np.float32), gray(0, 0, 255, 64)),
        ("depth", np.array([[3, 3, np.inf]], np.float32), gray(255, 255, 0)),
        ("depth", np.array([[np.inf] * 2], np.float32), gray(0, 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pixels_of_each_layer(names, layer, shown):
    for name in names.split():
        np.testing.assert_array_equal(show_layer(name, layer, 0.5), shown)


def test_indices_have_a_colour_each():
    assert len(np.unique(PALETTE, axis=0)) == len(PALETTE)


def test_picked_rows_cover_the_values_of_all_factors(plain):
    for seed in range(10):
        rows = pick_rows(plain, 4, seed)
        assert rows == sorted(set(rows))
        table = plain.factor_table[rows]
        # Two values of each kind twice, and one angle of 0..70 in each quarter.
        assert np.bincount(table[:, 0].astype(int)).tolist() == [2, 2]
        assert np.bincount(table[:, 1].astype(int)).tolist() == [2, 2]
        assert len(set((table[:, 2] / 70 * 4).clip(max=3).astype(int))) >= 3
    assert len({tuple(pick_rows(plain, 4, seed)) for seed in range(10)}) > 1
    assert pick_rows(plain, 4) == pick_rows(plain, 4)


def test_few_rows_and_rows_without_factors_are_picked(plain, caught, tmp_path):
    assert (pick_rows(plain, 8), pick_rows(caught, 5)) == (list(range(8)), [0, 1])
    for number in range(5):
        write_png(tmp_path / f"{number}.png", np.zeros((2, 2, 3), np.uint8))
    rows = pick_rows(open_image_frames(str(tmp_path), (2, 2)), 3)
    assert len(set(rows)) == 3
    assert set(rows) < set(range(5))


def test_factors_come_in_the_order_of_the_set_with_units(plain):
    factors = {"angle": 12.34567, "size": 2, "unknown": 1, "color": "red"}
    assert factor_text(plain.set_info, factors) == ["color red", "size 2 m", "angle 12.346 degrees"]


def test_png_holds_the_pixels_and_is_the_only_file(tmp_path):
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    path = tmp_path / "new" / "sheet.png"
    write_png(path, pixels)
    assert path.read_bytes() == encode_png(pixels)
    assert [item.name for item in path.parent.iterdir()] == ["sheet.png"]


def test_refusals(tmp_path, plain):
    with refused(r"expected at least one row and one layer, got \[\] and \['image'\]"):
        contact_sheet(plain, [], ["image"])
    with refused("at least one row and one layer"):
        contact_sheet(plain, [0], [])
    with refused("`count` must be at least 1, got 0"):
        pick_rows(plain, 0)
    (tmp_path / "file").touch()
    with refused(r"sheet\.png cannot be written: .*; name another file"):
        write_png(tmp_path / "file" / "sheet.png", np.zeros((1, 1, 3), np.uint8))
