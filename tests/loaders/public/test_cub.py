import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.cub import CUB70, CUB70_PARTS, CUB200

torch = pytest.importorskip("torch")

POINTS = (
    "back beak belly breast crown forehead left_eye left_leg left_wing nape right_eye right_leg "
    "right_wing tail throat"
).split()
CLASSES = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "012.Yellow_headed_Blackbird"]
CLASSES = [
    CLASSES[0],
    CLASSES[1],
    *(f"{n:03d}.Bird" for n in range(3, 12)),
    CLASSES[2],
]
# number, class, file, train, size (width, height), gray
IMAGES = [
    (1, 1, "Black_Footed_Albatross_0001_7961", 1, (32, 24), False),
    (2, 1, "Black_Footed_Albatross_0001_796111", 0, (24, 32), False),
    (3, 2, "Laysan_Albatross_0002_1027", 0, (20, 20), True),
    (4, 12, "Yellow_Headed_Blackbird_0003_8337", 0, (30, 22), False),
]


def _pixels(number):
    _, _, _, _, (width, height), gray = IMAGES[number - 1]
    shape = (height, width) if gray else (height, width, 3)
    return np.full(shape, 40 * number, np.uint8)


@pytest.fixture
def cub(tmp_path):
    root = tmp_path / "CUB_200_2011"
    for folder in ("images", "parts", "attributes"):
        (root / folder).mkdir(parents=True)

    def write(name, lines, ending="\n"):
        (root / name).write_text(ending.join(lines) + ending, newline="")

    names = [f"{CLASSES[label - 1]}/{stem}.jpg" for _, label, stem, *_ in IMAGES]
    write("images.txt", [f"{image[0]} {name}" for image, name in zip(IMAGES, names, strict=True)])
    write("classes.txt", [f"{n} {name}" for n, name in enumerate(CLASSES, 1)], ending="\r\n")
    write("image_class_labels.txt", [f"{image[0]} {image[1]}" for image in IMAGES])
    write("train_test_split.txt", [f"{image[0]} {image[3]}" for image in IMAGES])
    write("bounding_boxes.txt", [f"{image[0]} 2.0 3.0 25.0 19.5" for image in IMAGES])
    parts = [f"{n} {name.replace('_', ' ')}" for n, name in enumerate(POINTS, 1)]
    write("parts/parts.txt", parts)
    lines = [
        f"{image[0]} {p} {p + 0.5} {2.0 * p} 1" if p % 2 else f"{image[0]} {p} 0.0 0.0 0"
        for image in IMAGES
        for p in range(1, 16)
    ]
    write("parts/part_locs.txt", lines)
    (tmp_path / "attributes.txt").write_text(
        "1 has_bill_shape::curved_(up_or_down)\n2 has_wing_color::blue\n"
    )
    rows = [f"{i} {a} {int(i == a)} {a + 1} 2.5" for i in range(1, 5) for a in (1, 2)]
    rows[3] = "2 2 1 3 0 27.708"  # one column too many, as in some lines of the archive
    write("attributes/image_attribute_labels.txt", rows)
    for image, name in zip(IMAGES, names, strict=True):
        path = root / "images" / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(_pixels(image[0])).save(path, quality=95)
        (path.parent / f"._{path.name}").write_bytes(b"\0")
    return tmp_path


@pytest.fixture
def masks(tmp_path):
    root = tmp_path / "CUB70" / "AnnotationMasksPerclass"

    def write(number, part, mask, mode="L"):
        _, label, stem, *_ = IMAGES[number - 1]
        folder = root / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).convert(mode).save(folder / f"{stem}_{part}.png")

    def blank(number, scale=1):
        width, height = IMAGES[number - 1][4]
        return np.zeros((height // scale, width // scale), np.uint8)

    mask = blank(2)
    mask[3:9, 4:8] = 255
    write(2, "right_wing", mask)
    mask = blank(2)
    mask[10:12, :5] = 255
    write(2, "left_wing", mask, "RGB")
    mask = blank(3, scale=2)  # half the size of its image
    mask[2, 4] = 255
    write(3, "tail", mask)
    mask = blank(1)
    mask[0] = 255
    write(1, "head", mask)
    (root / "1" / "._Black_Footed_Albatross_0001_7961_head.png").write_bytes(b"\0")
    (root / "1" / "Thumbs.db").write_bytes(b"\0")
    return root


def test_cub_items_are_read(cub):
    data = CUB200(cub)
    assert len(data) == 4
    item = data[1]
    assert item["id"] == "001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111"
    assert item["number"] == 2
    assert item["image"].shape == (3, 32, 24)
    assert item["image"].float().sub(80).abs().max() <= 2  # JPEG
    assert item["label"] == 0
    assert item["label"].dtype == torch.int64
    assert data.classes[item["label"]] == CLASSES[0]
    assert item["bbox"].tolist() == [2, 3, 27, 22.5]
    assert data.points[6] == "left eye"
    assert item["visible"].tolist() == [p % 2 == 1 for p in range(1, 16)]
    assert item["points"][2].tolist() == [3.5, 6.0]
    assert item["points"][1].tolist() == [0, 0]


def test_cub_splits_and_roots(cub, tmp_path):
    assert CUB200(cub, "train").numbers == (1,)
    assert CUB200(cub / "CUB_200_2011", "test").numbers == (2, 3, 4)
    nested = tmp_path / "copy" / "CUB_200_2011"
    nested.mkdir(parents=True)
    (cub / "CUB_200_2011").rename(nested / "CUB_200_2011")
    assert len(CUB200(tmp_path / "copy")) == 4


def test_cub_gray_fills_all_channels(cub):
    image = CUB200(cub)[2]["image"]
    assert image.shape == (3, 20, 20)
    assert torch.equal(image[0], image[2])


def test_cub_attributes_with_a_ragged_row(cub):
    data = CUB200(cub, "test")
    names, present, certainty = data.attributes
    assert names[1] == "has_wing_color::blue"
    np.testing.assert_array_equal(present, [[False, True], [False, False], [False, False]])
    np.testing.assert_array_equal(certainty, [[2, 3]] * 3)
    (cub / "attributes.txt").rename(cub / "CUB_200_2011" / "attributes" / "attributes.txt")
    assert CUB200(cub).attributes.names == names


def test_cub_segmentations(cub):
    with pytest.raises(InputError, match=r"segmentations is missing; get it from https"):
        CUB200(cub, segmentations=True)
    for image in IMAGES:
        path = cub / "segmentations" / CLASSES[image[1] - 1] / f"{image[2]}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        mask = np.zeros(image[4][::-1], np.uint8)
        mask[5, 6], mask[5, 7] = 204, 51
        Image.fromarray(mask).save(path)
    mask = CUB200(cub, segmentations=True)[0]["mask"]
    assert mask.dtype == torch.bool
    assert mask.nonzero().tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("images.txt", "1 ../../../secret.jpg\n2 a/b.jpg\n3 a/b.jpg\n4 a/b.jpg\n", "leads out of"),
        ("images.txt", "1\n", r"images\.txt, line 1: expected 1 and a name"),
        ("images.txt", "2 a/b.jpg\n", r"images\.txt, line 1: expected 1 and a name"),
        ("image_class_labels.txt", "1 1\n2 1\n3 2\n", "1 images are not in it, first 4"),
        (
            "image_class_labels.txt",
            "1 1\n2 1\n3 2\n4 13\n",
            "line 4: .*numbers, an image .* and 1 to 12",
        ),
        ("image_class_labels.txt", "1 one\n", "line 1: expected two whole numbers"),
        (
            "train_test_split.txt",
            "1 2\n",
            "line 1: .*numbers, an image of images.txt and 0 to 1",
        ),
        ("bounding_boxes.txt", "1 0 0 5\n", "line 1: expected an image's number and 4 numbers"),
        ("bounding_boxes.txt", "1 0 0 5 nan\n", "line 1: expected an image's number and 4 numbers"),
        ("parts/part_locs.txt", "1 16 0 0 0\n", "and a point 1 to 15"),
        ("attributes/image_attribute_labels.txt", "1 3 0 1 2\n", "line 1: expected image, attribute 1 to 2"),
        ("attributes/image_attribute_labels.txt", "1 1 0\n", "line 1: expected image, attribute"),
        ("classes.txt", b"\xff\xfe\xff", "cannot be read as text"),
    ],
)
def test_cub_damaged_lists_are_refused(cub, name, text, message):
    path = cub / "CUB_200_2011" / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def read():
        data = CUB200(cub, "train")
        _ = data[0], data.attributes

    with pytest.raises(InputError, match=message) as error:
        read()
    assert "\n" not in str(error.value)


def test_cub_missing_image_is_named(cub):
    (cub / "CUB_200_2011" / "images" / CLASSES[1] / f"{IMAGES[2][2]}.jpg").unlink()
    with pytest.raises(InputError, match=r"Laysan_Albatross_0002_1027\.jpg is missing; get it from https"):
        CUB200(cub)[2]


def test_cub70_parts_are_read(cub, masks):
    data = CUB70(masks.parent, cub)
    assert data.parts == CUB70_PARTS
    assert len(data) == 3  # an image without a mask is left out
    one, two, three = data
    # 7961 and 796111 begin with the same digits, but have separate masks
    assert list(one["parts"]) == ["head"]
    assert set(two["parts"]) == {"right_wing", "left_wing"}
    assert two["parts"]["right_wing"].nonzero().min(0).values.tolist() == [3, 4]
    assert two["parts"]["right_wing"].sum() == 24
    assert two["parts"]["left_wing"].sum() == 10
    assert two["image"].shape[1:] == two["parts"]["left_wing"].shape
    tail = three["parts"]["tail"]
    assert tail.shape == (20, 20)
    assert tail.nonzero().tolist() == [[4, 8], [4, 9], [5, 8], [5, 9]]


def test_cub70_groups(cub, masks):
    data = CUB70(masks, cub, groups={"wings": ["right_wing", "left_wing"], "tail": ["tail"]})
    assert data.parts == ("wings", "tail")
    assert [sorted(item["parts"]) for item in data] == [[], ["wings"], ["tail"]]
    assert data[1]["parts"]["wings"].sum() == 34
    with pytest.raises(InputError, match="`wings` has a part `wing`; expected parts among body"):
        CUB70(masks, cub, groups={"wings": ["wing"]})


def test_cub70_refuses_masks_without_an_image(cub, masks):
    Image.new("L", (2, 2)).save(masks / "1" / "Black_Footed_Albatross_0009_1_tail.png")
    with pytest.raises(InputError, match="there is no image Black_Footed_Albatross_0009_1 in"):
        CUB70(masks, cub)


def test_cub70_without_masks_is_refused(cub, tmp_path):
    (tmp_path / "AnnotationMasksPerclass").mkdir()
    with pytest.raises(InputError, match=r"expected <class>/<image>_<part>\.png, found none"):
        CUB70(tmp_path, cub)
