import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.looking.layer_pixels import show_layer
from candlelight.loaders.looking.sequence_sheet import pick_units, sequence_sheet
from candlelight.loaders.looking.sheet import contact_sheet, draw_sheet
from candlelight.loaders.looking.sheet_rows import rows_by_factor
from candlelight.loaders.looking.sheet_tiles import BACKGROUND, HEADING, MOST_PIXELS, TILE_GAP, draw_text
from tests.refusals import refused

TILE = 96, 128  # of frames of 24 x 32 pixels, four times as large
SHOWN = ("image", "albedo", "shading", "depth")


@pytest.fixture(scope="module")
def free(frames_root):
    return FrameFolder(frames_root, "free")


def pixels(path):
    return np.asarray(Image.open(path))


def test_all_formats_give_the_same_picture(datasets, frames_root, stored, tmp_path):
    first, *others = (
        draw_sheet(path, tmp_path / f"{number}.png", "free", rows=2, by="shape").read_bytes()
        for number, path in enumerate((frames_root, stored / "hdf5", stored / "hub"))
    )
    assert others == [first, first]


def test_the_sheet_shows_the_layers_of_the_samples(frames_root, free, tmp_path):
    sheet = pixels(draw_sheet(frames_root, tmp_path / "new" / "sheet.png", "free", rows=5))
    assert sheet.shape[1] == 4 * TILE[1] + 5 * TILE_GAP
    bottom = sheet[-TILE_GAP - TILE[0] : -TILE_GAP]
    for column, name in enumerate(SHOWN):
        left = TILE_GAP + column * (TILE[1] + TILE_GAP)
        shown = show_layer(name, free.frame(4).layers[name], free.set_info.exposure)
        large = np.kron(shown, np.ones((4, 4, 1), np.uint8))
        np.testing.assert_array_equal(bottom[:, left : left + TILE[1]], large)


def test_layers_are_shown_in_the_requested_order(frames_root, free, tmp_path):
    sheet = pixels(draw_sheet(frames_root, tmp_path / "s.png", "free", layers=["depth", "image"], rows=5))
    assert sheet.shape[1] == 4 * TILE[1] + 5 * TILE_GAP  # two samples in a row
    bottom = sheet[-TILE_GAP - TILE[0] : -TILE_GAP : 4]
    second, empty = bottom[:, 2 * TILE_GAP + TILE[1] :: 4][:, :32], bottom[:, -TILE_GAP - TILE[1] : -TILE_GAP]
    np.testing.assert_array_equal(second, free.frame(4).layers["image"])
    assert (empty == BACKGROUND).all()


def test_samples_of_one_layer_fill_rows_and_say_shared_values_once(free, monkeypatch):
    said = []

    def draw(words, *arguments):
        said.append(list(words))
        return draw_text(words, *arguments)

    monkeypatch.setattr("candlelight.loaders.looking.sheet.draw_text", draw)
    sheet = contact_sheet(free, [1, 3], ["image"])  # two cones
    assert sheet.shape[1] == 2 * TILE[1] + 3 * TILE_GAP
    assert said == [["image"], ["shape cone"], ["angle 12.5 degree"], ["angle 50 degree"]]
    for column, row in enumerate((1, 3)):
        left = TILE_GAP + column * (TILE[1] + TILE_GAP)
        shown = sheet[-TILE_GAP - TILE[0] : -TILE_GAP : 4, left : left + TILE[1] : 4]
        np.testing.assert_array_equal(shown, free.frame(row).layers["image"])
    said.clear()
    contact_sheet(free, [0, 1], ["image"], {0: "shape cube", 1: "shape cone"})
    assert said[1:] == [["shape cube", "angle 0 degree"], ["shape cone", "angle 12.5 degree"]]
    said.clear()
    contact_sheet(free, [0, 1, 3], ["image"], {0: "shape cube", 1: "shape cone"})
    assert [words[0] for words in said[1:]] == [
        *("shape cube", "angle 0 degree"),
        *("shape cone", "angle 12.5 degree", "angle 50 degree"),
    ]


def test_sets_without_the_usual_layers_show_their_own_layers(frames_root, tmp_path):
    pack_hdf5(frames_root, tmp_path / "h5", sets=["free"], layers=["normal", "part"])
    sheet = pixels(draw_sheet(tmp_path / "h5", tmp_path / "s.png"))
    assert sheet.shape[1] == 4 * TILE[1] + 5 * TILE_GAP


def test_each_value_of_a_factor_has_its_rows(free):
    shapes = {"shape cube": [0], "shape cone": [1, 4], "shape torus": [2, 5]}
    numbers = free.indices.tolist()
    for seed in range(5):
        found = rows_by_factor(free, "shape", 2, seed)
        assert {name: sorted(numbers[row] for row in rows) for name, rows in found.items()} == shapes
        one = rows_by_factor(free, "shape", 1, seed)
        assert [len(rows) for rows in one.values()] == [1, 1, 1]


def test_rows_of_different_values_agree_in_other_factors_if_possible(frames_root):
    grid = FrameFolder(frames_root, "grid")  # all combinations of colour and size
    for seed in range(5):
        found = rows_by_factor(grid, "color", 3, seed)
        assert list(found) == ["color red", "color blue"]
        sizes = [[grid.metadata(row).factors["size"] for row in rows] for rows in found.values()]
        assert sizes[0] == sizes[1]
        assert len(set(sizes[0])) == 3
    assert list(rows_by_factor(grid, "size", 1)) == ["size 1.5 m", "size 2 m", "size 2.5 m"]


def test_a_continuous_factor_is_shown_in_intervals(free):
    found = rows_by_factor(free, "angle", 2)
    assert list(found) == [
        *("angle 0 to 15.625 degree", "angle 15.625 to 31.25 degree"),
        "angle 46.875 to 62.5 degree",
    ]
    angles = [[12.5 * int(free.indices[row]) for row in sorted(rows)] for rows in found.values()]
    assert angles == [[0, 12.5], [25], [50, 62.5]]


def test_headings_stand_above_their_rows(free):
    plain = contact_sheet(free, [0, 1], SHOWN)
    headed = contact_sheet(free, [0, 1], SHOWN, {1: "cone"})
    bands = np.flatnonzero((headed[:, TILE_GAP] == HEADING).all(axis=-1))
    assert len(headed) - len(plain) == len(bands)
    cut = np.delete(headed, bands, axis=0)
    np.testing.assert_array_equal(cut, plain)
    assert (headed[bands] > 200).any()
    assert (headed[0] == BACKGROUND).all()


def test_a_sheet_of_many_tiles_shows_fewer_pixels_of_each(free, monkeypatch):
    monkeypatch.setattr("candlelight.loaders.looking.sheet_tiles.MOST_PIXELS", 5 * TILE[0] * TILE[1])
    full = contact_sheet(free, range(5), ["image"])
    assert full.shape[1] == 4 * TILE[1] + 5 * TILE_GAP
    for layers in (2, 4):
        sheet = contact_sheet(free, range(5), ["image"] * layers)
        assert sheet.shape[1] == 4 * 64 + 5 * TILE_GAP
    with refused("a sheet has no room for 125 tiles: show fewer samples or layers"):
        contact_sheet(free, list(range(5)) * 5, ["image"] * 5)
    assert MOST_PIXELS < 2**26


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "colour"}, "factor `colour` is not in this set; expected one of: shape, angle"),
        ({"layers": ["depht"]}, "layer `depht` is not in this set; it has image, radiance"),
        ({"rows": 0}, "`count` must be at least 1, got 0"),
        ({"set_name": "none"}, "set `none` is not there; expected one of: grid, free"),
        ({"split": "test"}, "a folder of frames has no split `test`"),
        ({"out": "s.jpg"}, r"s.jpg: a sheet is a PNG, or a GIF or WebP of a set with steps; name"),
    ],
)
def test_bad_options_are_refused(frames_root, tmp_path, options, message):
    with refused(message):
        draw_sheet(frames_root, tmp_path / options.pop("out", "s.png"), **{"set_name": "free"} | options)
    assert not list(tmp_path.iterdir())


def test_too_many_rows_are_refused_before_rows_are_chosen(frames_root, tmp_path, monkeypatch):
    monkeypatch.setattr("candlelight.loaders.looking.sheet_tiles.MOST_PIXELS", 48 * 64 * 10)
    monkeypatch.setattr("candlelight.loaders.looking.sheet.choose_sheet_rows", None)
    for by in (None, "shape"):
        with refused("a sheet has no room for 20 tiles: show fewer"):
            draw_sheet(frames_root, tmp_path / "s.png", "free", rows=10**9, by=by)


def test_the_command_line_draws_sheets_and_prints_json(frames_root, tmp_path):
    path = str(tmp_path / "sheet.png")
    words = ["info", str(frames_root), "--set", "grid", "--sheet", path, "--by", "color", "--limit", "1"]
    result = CliRunner().invoke(main, [*words, "--layers", "image, depth", "--seed", "3"])
    assert (result.exit_code, result.output) == (0, path + "\n")
    assert pixels(path).shape[1] == 4 * TILE[1] + 5 * TILE_GAP
    result = CliRunner().invoke(main, ["info", str(frames_root), "--json"])
    assert json.loads(result.output)["sets"]["free"]["splits"] == {"train": 5}
    result = CliRunner().invoke(main, [*words[:2], "--sheet", path])
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert "choose a set (--set); expected one of: grid, free" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--verify", "--json"], "--verify and --json: expected one of them; run the command once for each"),
        (["--sheet", "s.png", "--json"], "--json and --sheet: expected one of them"),
        (["--set", "grid"], "--set needs --sheet FILE.png; add it, or leave --set out"),
        (["--verify", "--seed", "0"], "--seed needs --sheet FILE.png"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_without_effect_are_refused(frames_root, words, message):
    result = CliRunner().invoke(main, ["info", str(frames_root), *words])
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {message}")
    assert result.output.count("\n") == 1


def test_a_sheet_of_a_set_with_steps_has_a_row_for_each_unit(causal_root, tmp_path):
    frames = FrameFolder(causal_root, "steps", ["image"])
    units = pick_units(frames, 9)
    assert units == [[0, 1, 2], [3, 4, 5]]
    assert pick_units(frames, 1) == [[0, 1, 2]]
    sheet = np.asarray(Image.open(draw_sheet(causal_root, tmp_path / "a.png", "steps")))
    assert (sheet == sequence_sheet(frames, units, ["image"])).all()
    # The tiles of each unit stand in order of the steps, below its text and those of the steps.
    tile = 128  # of 32 x 24 pixels, times 4
    row = sheet[-TILE_GAP - 96 : -TILE_GAP]
    for step, number in enumerate(units[1]):
        left = TILE_GAP + step * (tile + TILE_GAP)
        shown = frames.frame(number).layers["image"].repeat(4, 0).repeat(4, 1)
        assert (row[:, left : left + tile] == shown).all()


@pytest.mark.parametrize("form", ["gif", "webp"])
def test_an_animation_has_a_picture_for_each_step(causal_root, tmp_path, form):
    with Image.open(draw_sheet(causal_root, tmp_path / f"a.{form}", "steps", rows=1)) as file:
        assert file.n_frames == 3
        first = np.asarray(file.convert("RGB"), int)
    frames = FrameFolder(causal_root, "steps")
    tiles = [frames.frame(row).layers["image"].repeat(4, 0).repeat(4, 1) for row in range(3)]
    found = first[-TILE_GAP - 96 : -TILE_GAP, TILE_GAP : TILE_GAP + 128]
    errors = [abs(found - tile).mean() for tile in tiles]  # both formats lose something
    assert errors[0] < 0.5 * min(errors[1:])


def test_an_animation_needs_steps(causal_root, tmp_path):
    with refused(r"a\.gif: set `train` has no steps; name a file that ends in \.png"):
        draw_sheet(causal_root, tmp_path / "a.gif", "train")
