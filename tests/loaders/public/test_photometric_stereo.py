import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.errors import InputError
from candlelight.loaders.public import PhotometricStereo

torch = pytest.importorskip("torch")
openexr = pytest.importorskip("OpenEXR")

SIZE = (5, 7)
NUMBERS = {"apple": (0, 1, 2, 3, 4), "gourd1": (0, 2, 9, 10, 11)}  # numbers may have gaps
MASK = np.zeros(SIZE, np.uint8)
MASK[1:4, 2:6] = 1  # not 255


def image_of(name, place):
    rng = np.random.default_rng([len(name), place])
    return rng.random((*SIZE, 3)).astype(np.float16) * 4


def lights(name, refined):
    rng = np.random.default_rng([len(name), 99, refined])
    directions = rng.normal(size=(5, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions.round(4), np.repeat(rng.random((5, 1)).round(4) + 0.5, 3, axis=1)


@pytest.fixture
def copy(tmp_path):
    for name, numbers in NUMBERS.items():
        folder = tmp_path / name
        folder.mkdir()
        for place, number in enumerate(numbers):
            image = image_of(name, place)
            layer = "color." if name == "gourd1" else ""
            channels = {f"{layer}{c}": np.ascontiguousarray(image[..., i]) for i, c in enumerate("RGB")}
            openexr.File({"compression": openexr.ZIP_COMPRESSION}, channels).write(
                str(folder / f"I_{number:04d}.exr")
            )
        for refined in (False, True):
            for what, table in zip(("directions", "intensities"), lights(name, refined), strict=True):
                rows = "".join(" ".join(f"{value:.4f}" for value in row) + "\r\n" for row in table)
                path = folder / f"light_{what}{'_refined' if refined else ''}.txt"
                path.write_text(rows + "\n", newline="")
        Image.fromarray(MASK).save(folder / "mask.png")
        (folder / "._I_0000.exr").write_bytes(b"")
        (folder / "normals.exr").write_bytes(b"")
    (tmp_path / "notes").mkdir()
    (tmp_path / "README.txt").write_text("")
    return tmp_path


@pytest.mark.parametrize("which", ["refined", "unrefined"])
def test_every_photograph_with_its_light(copy, which):
    data = PhotometricStereo(copy, lights=which)
    assert data.objects == ("apple", "gourd1")
    assert data.ids[5:] == tuple(f"gourd1/I_{number:04d}" for number in NUMBERS["gourd1"])
    assert len(data) == 10
    for row, item in enumerate(data):
        name, place = ("apple", "gourd1")[row // 5], row % 5
        directions, intensities = lights(name, which == "refined")
        assert (item["id"], item["object"]) == (data.ids[row], name)
        np.testing.assert_array_equal(item["image"], np.moveaxis(image_of(name, place), 2, 0))
        np.testing.assert_array_equal(item["mask"], MASK > 0)
        np.testing.assert_array_equal(item["light_direction"], directions[place].astype(np.float32))
        np.testing.assert_array_equal(item["light_intensity"], intensities[place].astype(np.float32))
    assert data[-1]["id"] == "gourd1/I_0011"
    with pytest.raises(IndexError):
        data[10]


def test_a_stack_has_all_photographs_of_an_object(copy):
    data = PhotometricStereo(str(copy), objects=["gourd1"])
    assert data.rows("gourd1") == range(5)
    stack = data.stack("gourd1")
    items = [data[row] for row in data.rows("gourd1")]
    for many, one in (
        ("images", "image"),
        ("light_directions", "light_direction"),
        ("light_intensities", "light_intensity"),
    ):
        assert torch.equal(stack[many], torch.stack([item[one] for item in items]))
    assert torch.equal(stack["mask"], items[0]["mask"])
    with pytest.raises(InputError, match="object: expected one of gourd1, got 'apple'"):
        data.stack("apple")


def test_normals_of_a_lambertian_object_are_recovered(tmp_path):
    """Least squares finds the normals of the images only if axes and pairing are right."""
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(*SIZE, 3)) * 0.2 + (0, 0, 1)
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    directions = rng.normal(size=(6, 3)) * 0.2 + (0, 0, 1)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    folder = tmp_path / "apple"
    folder.mkdir()
    for number, direction in enumerate(directions):
        shade = np.repeat((normals @ direction * (number + 1))[..., None], 3, axis=2).astype(np.float32)
        openexr.File({"compression": openexr.ZIP_COMPRESSION}, {"RGB": shade}).write(
            str(folder / f"I_{number:04d}.exr")
        )
    np.savetxt(folder / "light_directions_refined.txt", directions)
    np.savetxt(folder / "light_intensities_refined.txt", np.repeat(np.arange(1.0, 7.0)[:, None], 3, axis=1))
    Image.fromarray(np.ones(SIZE, np.uint8)).save(folder / "mask.png")
    stack = PhotometricStereo(tmp_path).stack("apple")
    values = (stack["images"] / stack["light_intensities"][:, :, None, None])[:, 0]
    found = torch.linalg.lstsq(stack["light_directions"], values.flatten(1)).solution
    np.testing.assert_allclose(found.T.reshape(*SIZE, 3), normals, atol=1e-4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.1 0.2", r"light_directions_refined.txt, line 2: expected three numbers, got '0.1 0.2'"),
        ("0.1 0.2 0.3 0.4", "line 2: expected three numbers"),
        ("0.1 0.2 z", "line 2: expected three numbers, got '0.1 0.2 z'"),
        ("0.1 nan 0.2", "line 2: expected three numbers"),
        ("", "expected a line for each of 5 images, got 4 lines"),
    ],
)
def test_damaged_lists_of_lights_are_refused(copy, line, message):
    path = copy / "apple" / "light_directions_refined.txt"
    lines = path.read_text().split("\n")
    path.write_text("\n".join([lines[0], line, *lines[2:]]))
    with pytest.raises(InputError, match=message):
        PhotometricStereo(copy)
    assert len(PhotometricStereo(copy, lights="unrefined")) == 10


def test_missing_files_are_named(copy):
    with pytest.raises(InputError, match=r"objects: expected names among apple, gourd1, got '../apple'"):
        PhotometricStereo(copy, objects=["../apple"])
    with pytest.raises(InputError, match=r"notes: expected <object>/I_0000.exr, found none; get them from"):
        PhotometricStereo(copy / "notes")
    (copy / "apple" / "mask.png").unlink()
    with pytest.raises(InputError, match=r"apple/mask.png is missing; get it from https://vision.ucsd.edu"):
        PhotometricStereo(copy)[0]
    (copy / "apple" / "light_intensities_refined.txt").unlink()
    with pytest.raises(InputError, match=r"light_intensities_refined.txt is missing; get it from"):
        PhotometricStereo(copy)


def test_damaged_images_are_refused(copy):
    Image.fromarray(MASK[:-1]).save(copy / "apple" / "mask.png")
    data = PhotometricStereo(copy)
    with pytest.raises(
        InputError, match=r"I_0000.exr: expected images of one size, got `image` 5 x 7 and `mask`"
    ):
        data[0]
    (copy / "apple" / "I_0000.exr").write_bytes(b"no EXR")
    with pytest.raises(InputError, match=r"I_0000.exr cannot be read as EXR: .*; get it again from"):
        data[0]
