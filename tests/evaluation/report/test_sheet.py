import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.colour import to_display
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.image_frames import open_image_frames
from candlelight.loaders.looking.layer_pixels import PALETTE, show_layer
from candlelight.loaders.looking.sheet import (
    BACKGROUND,
    LARGEST_TILE,
    TILE_GAP,
    contact_sheet,
    factor_text,
    write_png,
)
from candlelight.loaders.looking.sheet_rows import pick_rows

SCALE = 16  # of the frames of 8 pixels, to reach 128


def test_tiles_are_the_enlarged_layers_at_their_places(plain):
    sheet = contact_sheet(plain, [5, 2], ["image", "albedo", "object"])
    assert sheet.dtype == np.uint8
    assert sheet.shape[1] == 3 * 128 + 4 * TILE_GAP
    frame = plain.frame(2)
    bottom = sheet[-TILE_GAP - 96 : -TILE_GAP]
    for column, name in enumerate(("image", "albedo", "object")):
        left = TILE_GAP + column * (128 + TILE_GAP)
        tile = bottom[:, left : left + 128]
        shown = show_layer(name, frame.layers[name], 0.5)
        np.testing.assert_array_equal(tile, np.kron(shown, np.ones((SCALE, SCALE, 1), np.uint8)))
    assert (sheet[-TILE_GAP:] == BACKGROUND).all()
    assert (bottom[:, TILE_GAP + 128 : 2 * TILE_GAP + 128] == BACKGROUND).all()


def test_each_row_has_its_factors_above_it_and_each_column_its_name(plain):
    one = contact_sheet(plain, [0], ["image"])
    two = contact_sheet(plain, [0, 0], ["image"])
    caption_and_tile = len(two) - len(one)
    caption = caption_and_tile - 96
    assert caption > 0
    # The rest at the top is the header: it has ink, as has each caption.
    header = two[TILE_GAP : len(two) - TILE_GAP - 2 * caption_and_tile]
    assert len(header) > 0
    assert (header > 200).any()
    first = two[TILE_GAP + len(header) :][:caption_and_tile]
    second = two[TILE_GAP + len(header) + caption_and_tile :][:caption_and_tile]
    np.testing.assert_array_equal(first, second)
    assert (first[:caption] > 200).any()
    other = contact_sheet(plain, [0, 1], ["image"])
    assert (other[-TILE_GAP - caption_and_tile :][:caption] != second[:caption]).any()


def test_long_captions_are_wrapped_and_do_not_widen_the_sheet(plain):
    narrow = contact_sheet(plain, [1], ["image"])
    wide = contact_sheet(plain, [1], ["image"] * 4)
    assert narrow.shape[1] == 128 + 2 * TILE_GAP
    assert len(narrow) > len(wide)


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


@pytest.mark.parametrize("name", ["radiance", "shading", "shading_direct", "residual", "light/left"])
def test_radiances_are_shown_at_the_sets_exposure(name):
    layer = np.array([[[0.25, 1.0, 4.0]]], np.float16)
    expected = to_display(np.array([[[0.125, 0.5, 2.0]]]))
    np.testing.assert_array_equal(show_layer(name, layer, 0.5), expected)


def test_image_and_albedo_are_shown_without_exposure():
    image = np.array([[[1, 2, 3]]], np.uint8)
    np.testing.assert_array_equal(show_layer("image", image, 0.5), image)
    albedo = np.array([[[0.0, 0.5, 1.0]]], np.float16)
    np.testing.assert_array_equal(show_layer("albedo", albedo, 0.5), [[[0, 188, 255]]])


@pytest.mark.parametrize(
    ("depth", "gray"),
    [
        ([2, 4, 8, np.inf], [255, 160, 64, 0]),
        ([1, 10, 100, 1000], [255, 191, 128, 64]),
        ([0, -1, 2, 8], [0, 0, 255, 64]),
        ([3, 3, 3, np.inf], [255, 255, 255, 0]),
        ([np.inf] * 4, [0, 0, 0, 0]),
    ],
    ids=["doubled", "tenfold", "not in front", "flat", "nothing hit"],
)
def test_depth_is_bright_where_near_and_black_where_nothing_is_hit(depth, gray):
    shown = show_layer("depth", np.array([depth], np.float32), 1.0)
    np.testing.assert_array_equal(shown, np.repeat(np.array(gray)[None, :, None], 3, axis=2))


def test_normals_are_half_of_n_plus_one():
    normal = np.array([[[0, 0, -1], [1, -1, 0], [0, 0, 0]]], np.float16)
    np.testing.assert_array_equal(
        show_layer("normal", normal, 1.0), [[[128, 128, 0], [255, 0, 128], [128, 128, 128]]]
    )


def test_position_spans_what_the_frame_shows():
    position = np.array([[[0, 0, 0], [-2, 5, 1], [2, 5, 2], [0, 5, 3]]], np.float32)
    expected = [[[0, 0, 0], [0, 0, 0], [255, 0, 128], [128, 0, 255]]]
    np.testing.assert_array_equal(show_layer("position", position, 1.0), expected)
    np.testing.assert_array_equal(show_layer("position", 0 * position, 1.0), 0 * position)


@pytest.mark.parametrize("name", ["roughness", "metallic"])
def test_properties_of_materials_are_gray(name):
    shown = show_layer(name, np.array([[0, 0.5, 1]], np.float16), 0.3)
    np.testing.assert_array_equal(shown, np.repeat([[[0], [128], [255]]], 3, axis=2))


@pytest.mark.parametrize("name", ["object", "part"])
def test_indices_have_one_colour_each_and_start_over(name):
    count = len(PALETTE)
    shown = show_layer(name, np.array([[0, 1, 2, count, count + 1, 255]], np.uint8), 1.0)
    expected = [[0, 0, 0], PALETTE[0], PALETTE[1], PALETTE[-1], PALETTE[0], PALETTE[254 % count]]
    np.testing.assert_array_equal(shown, [expected])
    assert len(np.unique(PALETTE, axis=0)) == count


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


def test_all_rows_are_picked_where_there_are_no_more(plain, caught):
    assert pick_rows(plain, 8) == list(range(8))
    assert pick_rows(caught, 5) == [0, 1]


def test_without_factors_rows_are_picked_all_the_same(tmp_path):
    for number in range(5):
        write_png(tmp_path / f"{number}.png", np.zeros((2, 2, 3), np.uint8))
    rows = pick_rows(open_image_frames(str(tmp_path), (2, 2)), 3)
    assert len(set(rows)) == 3
    assert set(rows) < set(range(5))


def test_factors_come_in_the_order_of_the_set_with_units(plain):
    factors = {"angle": 12.34567, "size": 2, "unknown": 1, "color": "red"}
    assert factor_text(plain.set_info, factors) == ["color red", "size 2 m", "angle 12.346 degrees"]


def test_png_holds_the_pixels(tmp_path, plain):
    sheet = contact_sheet(plain, [0], ["image"])
    path = tmp_path / "new" / "sheet.png"
    write_png(path, sheet)
    np.testing.assert_array_equal(np.asarray(Image.open(path)), sheet)
    assert path.read_bytes() == encode_png(sheet)
    assert [item.name for item in path.parent.iterdir()] == ["sheet.png"]


@pytest.mark.parametrize(
    ("rows", "layers", "message"),
    [
        ([], ["image"], r"expected at least one row and one layer, got \[\] and \['image'\]"),
        ([0], [], "at least one row and one layer"),
    ],
)
def test_sheet_refuses(plain, rows, layers, message):
    with pytest.raises(InputError, match=message):
        contact_sheet(plain, rows, layers)


def test_pick_rows_refuses_no_rows(plain):
    with pytest.raises(InputError, match="`count` must be at least 1, got 0"):
        pick_rows(plain, 0)


def test_png_that_cannot_be_written(tmp_path, plain):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"sheet\.png cannot be written: .*; name another file"):
        write_png(tmp_path / "file" / "sheet.png", np.zeros((1, 1, 3), np.uint8))
