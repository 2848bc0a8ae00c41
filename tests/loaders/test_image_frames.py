import copy
import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.files.decode_image import decode_image
from candlelight.loaders.files.layer_codecs import encode_png, png_file
from candlelight.loaders.files.safe_decoding import MAX_PIXELS
from candlelight.loaders.image_frames import ImageFolder, ImageFrames, ImageTable, open_image_frames
from candlelight.loaders.samples import Frames, collate
from candlelight.loaders.schema import array_sha256
from tests.refusals import refused

SIZE = (6, 8)


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def flat(color, size=SIZE, mode="RGB"):
    return Image.new(mode, size[::-1], color)


@pytest.fixture
def folder(tmp_path):
    """Make eleven pictures, each of one colour, with names like FiveK's."""
    root = tmp_path / "photos"
    for i in range(10):
        path = root / f"HQa{i // 4}" / f"a{i:04d}-jmac MG_{i}.{'tif' if i % 2 else 'JPG'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        flat((20 * i, 0, 100)).save(path)
    flat((1, 2, 3), (40, 30)).save(root / "zz.png")
    (root / "notes.txt").write_text("no image")
    (root / ".hidden.png").write_bytes(b"no image either")
    (root / "photos.lnk.png").symlink_to(tmp_path / "elsewhere.png")
    flat((9, 9, 9)).save(tmp_path / "elsewhere.png")
    return root


# ------------------------------------------------------------------------------------------ reading


def test_a_folder_is_read_as_frames(folder):
    pytest.importorskip("torch")
    pictures = open_image_frames(str(folder), SIZE)
    assert isinstance(pictures, Frames)
    assert len(pictures) == 11  # without the text, the hidden file, and the link to a file outside
    assert pictures.factor_table.shape == (11, 0)
    names = [pictures.metadata(row).id for row in range(11)]
    assert names == sorted(names)
    assert names[0] == "HQa0/a0000-jmac MG_0.JPG"
    for row in (1, 3):  # TIFF is exact
        frame = pictures.frame(row)
        assert frame.layers["image"].tolist() == np.full((*SIZE, 3), (20 * row, 0, 100)).tolist()
        assert frame.metadata.layers == {"image": array_sha256(frame.layers["image"])}
        assert frame.metadata.camera is frame.metadata.renderer is None
    assert abs(pictures.frame(2).layers["image"].astype(int) - (40, 0, 100)).max() <= 3
    batch = collate(pictures.__getitems__([0, 10]))
    assert batch["image"].shape == (2, 3, *SIZE)
    assert batch["index"].tolist() == [0, 10]
    assert copy.deepcopy(pictures)[4]["image"].equal(pictures[4]["image"])


def test_a_subset_depends_on_seed_and_names_only(folder):
    chosen = ImageFrames(ImageFolder(folder), SIZE, limit=4, seed=3)
    again = ImageFrames(ImageFolder(folder), SIZE, limit=4, seed=3)
    names = [chosen.metadata(row).id for row in range(4)]
    assert names == [again.metadata(row).id for row in range(4)]
    assert chosen.info.recipe == again.info.recipe
    assert chosen.set_info.count == 4
    seeds = {
        tuple(ImageFrames(ImageFolder(folder), SIZE, limit=4, seed=seed).indices.tolist())
        for seed in range(8)
    }
    assert len(seeds) > 4
    flat((7, 7, 7)).save(folder / "aa.png")
    more = ImageFrames(ImageFolder(folder), SIZE, limit=4, seed=3)
    assert len({*names} - {more.metadata(row).id for row in range(4)}) <= 1


def test_images_are_cropped_around_the_middle():
    # 60 x 20: a red, a green and a blue third; a square crop shows only the green third.
    thirds = np.repeat(np.eye(3, dtype=np.uint8)[None] * 255, 20, axis=0).repeat(20, axis=1)
    square = decode_image(encoded(Image.fromarray(thirds)), "x", (10, 10))
    assert abs(square[:, 2:-2].astype(int) - (0, 255, 0)).max() <= 3  # the filter rings at the cut


def test_pictures_are_rotated_by_their_exif():
    halves = np.zeros((8, 8, 3), np.uint8)
    halves[:4] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the top of the scene is on the left as stored
    turned = decode_image(encoded(Image.fromarray(halves), exif=exif), "x", (8, 8))
    assert turned[:, 4:].min() == 255
    assert turned[:, :4].max() == 0


def test_encoded_values_of_pictures_are_averaged(tmp_path):
    # Pictures are scaled before they are decoded to linear light, like in image viewers.
    half = np.zeros((12, 16, 3), np.uint8)
    half[:, ::2] = 255
    Image.fromarray(half).save(tmp_path / "stripes.png")
    image = open_image_frames(str(tmp_path), (6, 8)).frame(0).layers["image"]
    assert abs(float(srgb_to_linear(image[3, 4] / 255).mean()) - 0.214) < 0.01


# ------------------------------------------------------------------------------------------ kinds of pixels


@pytest.mark.parametrize("value", [257, 128 * 257 + 90, 65535])
def test_sixteen_bits_are_reduced_to_eight(value):
    colour = decode_image(encode_png(np.full((*SIZE, 3), value, np.uint16)), "x", SIZE)
    gray = decode_image(encode_png(np.full(SIZE, value, np.uint16)), "x", SIZE)
    tiff = decode_image(encoded(Image.fromarray(np.full(SIZE, value, np.uint16)), "TIFF"), "x", SIZE)
    assert gray.shape == (*SIZE, 3)
    assert {*gray.ravel().tolist()} == {*tiff.ravel().tolist()} == {round(value / 257)}
    assert abs(int(colour[0, 0, 0]) - value / 257) < 1


def test_colour_profiles_are_applied():
    # An sRGB profile changes nothing; with red and green exchanged, the colours are exchanged too.
    linear = ImageCms.createProfile("sRGB")
    plain = decode_image(encoded(flat((100, 150, 200))), "x", SIZE)[0, 0]
    tagged = ImageCms.ImageCmsProfile(linear).tobytes()
    same = decode_image(encoded(flat((100, 150, 200)), icc_profile=tagged), "x", SIZE)[0, 0]
    assert plain.tolist() == [100, 150, 200]
    assert abs(same.astype(int) - plain).max() <= 1
    swapped = bytearray(tagged)
    red, green = swapped.index(b"rXYZ", 128), swapped.index(b"gXYZ", 128)
    swapped[red : red + 4], swapped[green : green + 4] = b"gXYZ", b"rXYZ"
    crossed = decode_image(encoded(flat((200, 20, 20)), icc_profile=bytes(swapped)), "x", SIZE)[0, 0]
    assert crossed[1] > 150 > 100 > crossed[0]
    broken = decode_image(encoded(flat((100, 150, 200)), icc_profile=b"none at all"), "x", SIZE)[0, 0]
    assert broken.tolist() == [100, 150, 200]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (flat((255, 0, 0, 0), mode="RGBA"), [255, 255, 255]),
        (flat((255, 0, 0, 255), mode="RGBA"), [255, 0, 0]),
        (flat((0, 128), mode="LA"), [127, 127, 127]),
        (flat(77, mode="L"), [77, 77, 77]),
        (flat(1, mode="1"), [255, 255, 255]),
        (flat((10, 20, 30)).quantize(2), [10, 20, 30]),
    ],
    ids=["clear", "opaque", "half black", "gray", "bits", "palette"],
)
def test_pixel_modes_are_converted_to_rgb(image, expected):
    assert decode_image(encoded(image), "x", SIZE)[0, 0].tolist() == expected


def tiff16(array):
    """Encode an uncompressed RGB TIFF with 16 bits a channel, which Pillow cannot write."""
    height, width = array.shape[:2]
    pixels = array.astype("<u2").tobytes()
    entries = 9
    bits_at = 8 + 2 + 12 * entries + 4
    tags = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, 3, bits_at),
        *((259, 3, 1, 1), (262, 3, 1, 2)),  # not compressed; RGB
        (273, 4, 1, bits_at + 6),
        (277, 3, 1, 3),
        (278, 4, 1, height),
        (279, 4, 1, len(pixels)),
    ]
    directory = struct.pack("<H", entries) + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<I", 8) + directory + bytes(4) + struct.pack("<HHH", 16, 16, 16) + pixels


def test_a_tiff_with_16_bits_a_channel_is_read():
    colour = np.full((*SIZE, 3), (65535, 30000, 257))
    assert decode_image(tiff16(colour), "x", SIZE)[2, 3].tolist() == [255, 30000 // 256, 1]


# ------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is none of BMP, GIF, "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is none of BMP, GIF, "),
        (encoded(Image.effect_noise((60, 60), 50))[:500], "Truncated"),
        (png_file(8193, 8193, 8, 2, b""), f"8193 x 8193 pixels are more than {MAX_PIXELS}"),
        (png_file(12000, 12000, 8, 2, b""), "claims more than 67108864 pixels"),
        (png_file(60000, 60000, 8, 2, b""), "claims more than 67108864 pixels"),
        (encoded(flat(0.5, mode="F"), "TIFF"), "expected 8 or 16 bits"),
        (encoded(flat(70000, mode="I"), "TIFF"), "expected 8 or 16 bits"),
    ],
    ids=["empty", "postscript", "cut", "large", "bomb", "huge bomb", "floats", "32 bits"],
)
def test_unreadable_pictures_are_named(tmp_path, data, why):
    (tmp_path / "own.png").write_bytes(data)
    with refused(f"^{tmp_path}: own.png: cannot be read as an image: .*{why}"):
        open_image_frames(str(tmp_path), SIZE).frame(0)


def test_missing_folders_and_bad_numbers_are_refused(tmp_path, folder):
    with refused("expected a folder of images, found no folder"):
        open_image_frames(str(tmp_path / "nowhere"), SIZE)
    (tmp_path / "empty").mkdir()
    with refused(r"expected images \(.bmp, .gif, .*\), found none"):
        open_image_frames(str(tmp_path / "empty"), SIZE)
    for size, limit in (((0, 4), None), (SIZE, 0)):
        with refused("expected a size and a limit of at least 1"):
            open_image_frames(str(folder), size, limit)
    (folder / "zz.png").unlink()
    pictures = open_image_frames(str(folder), SIZE)
    next(folder.glob("HQa0/*0000*")).unlink()
    with refused(r"a0000-jmac MG_0.JPG: cannot be read: No such file"):
        pictures.frame(0)


# ------------------------------------------------------------------------------------------ Hugging Face


@pytest.fixture
def table(datasets):
    """Make a data set of five pictures with a column of labels."""
    features = datasets.Features({"photo": datasets.Image(), "label": datasets.Value("string")})
    rows = {
        "photo": [{"bytes": encoded(flat((50 * i, 10, 0))), "path": None} for i in range(5)],
        "label": [str(i) for i in range(5)],
    }
    return datasets.Dataset.from_dict(rows, features=features)


def test_a_hugging_face_data_set_is_read_from_disk(datasets, table, tmp_path):
    pytest.importorskip("torch")
    table.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": table, "test": table.select([4])}).save_to_disk(tmp_path / "two")
    for name, numbers in (("one", range(5)), ("two", range(5)), ("two:test", [4])):
        pictures = open_image_frames(f"hf:{tmp_path / name}", SIZE)
        assert isinstance(pictures, Frames)
        reds = [int(pictures[row]["image"][0, 0, 0]) for row in range(len(pictures))]
        assert reds == [50 * i for i in numbers]
    assert len(open_image_frames(f"hf:{tmp_path / 'one'}", SIZE, limit=2)) == 2
    with refused(r"hf:.*two, split none: cannot be loaded: "):
        open_image_frames(f"hf:{tmp_path / 'two'}:none", SIZE)


def test_a_folder_in_the_layout_of_the_hub_is_read_anew(table, tmp_path):
    pytest.importorskip("torch")
    # `datasets` caches by the name of the folder, and would return the earlier rows.
    shard = tmp_path / "hub" / "train-00000-of-00001.parquet"
    shard.parent.mkdir()
    for rows in ([0, 1, 2], [3, 4]):
        table.select(rows).to_parquet(shard)
        pictures = open_image_frames(f"hf:{shard.parent}", SIZE)
        assert [int(pictures[row]["image"][0, 0, 0]) for row in range(len(pictures))] == [
            50 * i for i in rows
        ]


def test_data_sets_without_pictures_are_refused(datasets, table, tmp_path, monkeypatch):
    # Otherwise it retries for 20 seconds.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    table.remove_columns("photo").save_to_disk(tmp_path / "words")
    with refused("expected rows with one column of images, got 5 rows with none"):
        open_image_frames(f"hf:{tmp_path / 'words'}", SIZE)
    with refused("got 0 rows with photo"):
        ImageTable(table.select([]), "empty")
    for name in ("hf:", "hf:a:b:c:d"):
        with refused("expected hf:NAME, hf:NAME:SPLIT or hf:NAME:SPLIT:CONFIG"):
            open_image_frames(name, SIZE)
    with refused(r"hf:nobody/nothing, split train: cannot be loaded: "):
        open_image_frames("hf:nobody/nothing", SIZE)
