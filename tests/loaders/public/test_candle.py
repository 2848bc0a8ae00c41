import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.export_candle import CANDLE_FACTORS, export_candle
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.public.candle import VALUES, Candle
from candlelight.loaders.samples import Frame, collate, factor_value
from candlelight.loaders.schema import FactorInfo, SetInfo

torch = pytest.importorskip("torch")

IDS = (0, 3, 3541, 5400, 21599)


def entry(number: int) -> dict:
    """Return the simulator's JSON: numbers are positions in the product of all values."""
    position = np.unravel_index(number, [len(values) for values in VALUES.values()])
    labels = {name: VALUES[name][p] for name, p in zip(VALUES, position, strict=True)}
    scene, lights = labels.pop("scene"), labels.pop("lights")
    record = {**labels, "bounds": [[150, -4], [245, 66]]}
    return {"scene": scene, "lights": lights, "objects": {f"{record['object_type'].capitalize()}_0": record}}


def write_image(path, seed, size=(32, 24)):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 4), np.uint8)
    pixels[..., 3] = 255
    notes = PngImagePlugin.PngInfo()
    notes.add_text("RenderTime", "00:01.00")  # like Blender
    Image.fromarray(pixels).save(path, pnginfo=notes, dpi=(72.009, 72.009))
    return pixels[..., :3]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "candle" / "dataset"
    folder.mkdir(parents=True)
    for number in IDS:
        write_image(folder / f"{number}.png", number)
        (folder / f"{number}.json").write_text(json.dumps(entry(number), indent=4))
    (folder / "notes.json").write_text("[]")
    (folder / "007.json").write_text("[]")
    return tmp_path / "candle"


def test_published_layout(root):
    data = Candle(root)
    assert len(data) == 5
    assert data.indices.tolist() == list(IDS)
    assert [factor.name for factor in data.factors] == list(CANDLE_FACTORS)
    item = data[2]
    assert (item["id"], item["index"]) == ("3541", 3541)
    values = {f.name: f.values[item["factors"][f.name]] for f in data.factors}
    # The published example of the data set's readme.
    assert values == {
        **{"scene": "playground", "lights": "middle", "object_type": "torus"},
        **{"color": "blue", "size": 2.5, "rotation": 15},
    }
    assert isinstance(VALUES["size"][1], int)
    pixels = np.asarray(Image.open(root / "dataset" / "3541.png"))
    assert pixels.shape[2] == 4
    np.testing.assert_array_equal(item["image"], np.moveaxis(pixels[..., :3], 2, 0))
    assert item["bbox"].tolist() == [150, 24 - 66, 245, 24 + 4]
    assert data[3]["factors"]["scene"] == VALUES["scene"].index("city square")


def test_ids_are_the_points_of_the_space(root):
    data = Candle(root)
    assert data.space.rows.tolist() == list(IDS)
    np.testing.assert_array_equal(data.space.positions(data.indices), data.factor_table)


def test_loader_codes_swap_two_scenes_and_reorder_rows(root):
    data = Candle(root, codes="disentanglement_lib")
    names = [factor.name for factor in data.factors]
    assert names == ["object_type", "color", "size", "rotation", "scene", "lights"]
    assert [len(factor.values) for factor in data.factors] == [5, 5, 3, 6, 16, 3]
    row = data.indices.tolist().index(3541)
    assert data[row]["factors"]["scene"] == 1
    points = data.space.indices(data.factor_table.astype(np.int64))
    np.testing.assert_array_equal(points, data.space.rows)
    assert np.all(np.diff(points) > 0)
    plain = Candle(root)
    for number, item in ((int(n), data[i]) for i, n in enumerate(data.indices)):
        other = plain[plain.indices.tolist().index(number)]
        assert torch.equal(item["image"], other["image"])
        for factor in data.factors:
            same = next(f for f in plain.factors if f.name == factor.name)
            assert factor.values[item["factors"][factor.name]] == same.values[other["factors"][factor.name]]


def test_first_release_has_no_lights(tmp_path):
    for number in (1, 2):
        content = entry(number)
        del content["lights"]
        (tmp_path / f"{number}.json").write_text(json.dumps({str(number): content}))
        write_image(tmp_path / f"{number}.png", number)
    data = Candle(tmp_path)
    assert [factor.name for factor in data.factors] == ["scene", "object_type", "color", "size", "rotation"]
    (tmp_path / "3.json").write_text(json.dumps(entry(3)))
    write_image(tmp_path / "3.png", 3)
    with pytest.raises(InputError, match=r"3\.json: some images have lights .* folder mixes two releases"):
        Candle(tmp_path)


def test_items_are_batched_and_decoded(root):
    data = Candle(root, linear=True)
    batch = collate([data[0], data[1]])
    assert batch["image"].shape == (2, 3, 24, 32)
    assert batch["image"].dtype == torch.float32
    assert batch["bbox"].shape == (2, 4)
    assert batch["factors"]["rotation"].tolist() == [0, 3]
    assert 0 <= batch["image"].min()
    assert batch["image"].max() <= 1


@pytest.mark.parametrize("layout", ["flat", "nested"])
def test_reads_our_export_with_equal_factors(tmp_path, make_frame, info, layout):
    factors = tuple(
        FactorInfo(name=name, kind="categorical", values=values)
        for name, values in {**VALUES, "color": ("blue", "green")}.items()
    )
    described = SetInfo(count=6, width=32, height=24, layers=("image",), factors=factors)
    frames = tmp_path / "frames"
    write_dataset_info(frames, info.model_copy(update={"sets": {"grid": described}}))
    rng = np.random.default_rng(0)
    for index in range(6):
        frame = make_frame("grid", index)
        corners = tuple(x + y for x in range(8) for y in (1.0, 2.0, 5.0))
        record = frame.metadata.objects[0].model_copy(update={"corners": corners})
        labels = {f.name: f.values[int(rng.random() * len(f.values))] for f in factors}
        update = {"factors": labels, "objects": (record,)}
        layers = {"image": frame.layers["image"]}
        update["layers"] = {"image": frame.metadata.layers["image"]}
        write_frame(frames, Frame(frame.metadata.model_copy(update=update), layers))
    export_candle(frames, tmp_path / "out", layout=layout)
    data, source = Candle(tmp_path / "out"), FrameFolder(frames, "grid", layers=("image",))
    assert sorted(data.indices.tolist()) == source.indices.tolist()
    for row, index in enumerate(data.indices.tolist()):
        expected = source[index]
        assert torch.equal(data[row]["image"], expected["image"])
        for factor in data.factors:
            mine = factor.values[data[row]["factors"][factor.name]]
            assert mine == factor_value(described.factor(factor.name), expected["factors"][factor.name])
    color = next(factor for factor in data.factors if factor.name == "color")
    assert color.values == (*VALUES["color"], "green")


def test_repeated_factors_are_not_a_grid(root):
    (root / "dataset" / "4.json").write_text(json.dumps(entry(3)))
    write_image(root / "dataset" / "4.png", 4)
    data = Candle(root)
    assert len(data) == 6
    with pytest.raises(InputError, match="1 images share all factors with another"):
        _ = data.space


def test_a_missing_png_and_an_empty_folder_are_refused(root, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"expected <id>\.json and <id>\.png, found none; get them from https"
    ):
        Candle(tmp_path / "empty")
    (root / "dataset" / "3541.png").unlink()
    with pytest.raises(InputError, match=r"3541\.png is missing; get it from https"):
        Candle(root)


def test_a_number_in_two_folders_is_refused(root):
    (root / "more").mkdir()
    write_image(root / "more" / "3.png", 0)
    (root / "more" / "3.json").write_text(json.dumps(entry(3)))
    with pytest.raises(InputError, match="number 3 is also in"):
        Candle(root)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda e: e["objects"].update(Cube_1=next(iter(e["objects"].values()))),
            "at most 1 item",
        ),
        (lambda e: e["objects"].clear(), "objects: .* at least 1 item"),
        (lambda e: e.pop("scene"), "scene: Field required"),
        (lambda e: e["objects"]["Cube_0"].update(size="big"), r"objects\.Cube_0\.size.*valid number"),
        (lambda e: e["objects"]["Cube_0"].update(size=float("nan")), r"objects\.Cube_0\.size.*finite number"),
        (
            lambda e: e["objects"]["Cube_0"].update(bounds=[[1, 2]]),
            r"\.bounds: .* at least 2 items",
        ),
        (
            lambda e: e["objects"]["Cube_0"].update(bounds=[[1, 2], [3, 10**30]]),
            r"\.bounds\.1\.1: .* less",
        ),
        (lambda e: e.update(lights=3), "lights: .* valid string"),
    ],
)
def test_damaged_json_is_refused(root, change, message):
    content = entry(0)
    change(content)
    (root / "dataset" / "0.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as error:
        Candle(root)
    assert "\n" not in str(error.value)
    assert "0.json" in str(error.value)


@pytest.mark.parametrize("text", ["{", "[1]", "null", "[" * 100_000, "\xff"])
def test_text_that_is_not_json_is_refused(root, text):
    (root / "dataset" / "0.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"0\.json: the file: .*; get it again from https"):
        Candle(root)


def test_a_damaged_png_is_named(root):
    path = root / "dataset" / "0.png"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"0\.png.* cannot be read"):
        Candle(root)[0]


def test_a_png_bomb_is_refused_by_its_header(root):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 6, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )
    (root / "dataset" / "0.png").write_bytes(data)
    with pytest.raises(InputError, match=r"0\.png.* cannot be read"):
        Candle(root)[0]
