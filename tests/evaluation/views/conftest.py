"""Write tiny copies of all public data sets that views read, in their layouts on disk."""

import json

import h5py
import numpy as np
import pytest
from PIL import Image

from candlelight.evaluation.views import open_data
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public import grid_images
from candlelight.loaders.public.grid_images import FILE_STEM as DSPRITES
from candlelight.loaders.public.saw import LABEL_FOLDER
from tests.loaders.conftest import frames_copy, frames_root, info, make_frame  # noqa: F401

HEIGHT, WIDTH = 4, 6
MPI3D_SIZES = (2, 2, 1, 1, 1, 2, 2)
SHAPES3D_VALUES = ([0.0, 0.1], [0.0, 0.5], [0.0], [0.75, 1.25], [0.0, 1, 2, 3], [-30.0, 30])


def pixels(*seed, channels=3, dtype=np.uint8):
    shape = (HEIGHT, WIDTH, channels)
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **({"quality": 100} if path.suffix == ".jpg" else {}))


def write_mit(root):
    for number, name in enumerate(("box", "cup2")):
        (root / "data" / name).mkdir(parents=True)
        colour = ("original", "diffuse", "reflectance", "specular", *(f"light{n:02d}" for n in range(1, 11)))
        files = {file: pixels(number, place, dtype=np.uint16) for place, file in enumerate(colour)}
        files["shading"] = pixels(number, 20, channels=1, dtype=np.uint16)[..., 0]
        files["mask"] = np.full((HEIGHT, WIDTH), 65025, np.uint16)
        files["mask"][0] = 0
        for file, array in files.items():
            (root / "data" / name / f"{file}.png").write_bytes(encode_png(array))


def write_arap(root):
    names = ("Katie", "Katie_albedo", "Katie_shading", "cream_light0", "cream_light1", "cream_albedo")
    for number, name in enumerate((*names, "cream_light0_shading", "cream_light1_shading")):
        save(root / f"{name}.png", pixels(number))


def write_hypersim(root):
    lines = []
    for number, frame in enumerate(
        ("ai_001_010/cam_00_fr0000", "ai_001_010/cam_01_fr0007", "ai_054_007/cam_00_fr0094")
    ):
        scene, _, name = frame.partition("/")
        folder = root / "test" / scene
        save(folder / f"rgb_{name}.png", pixels(number))
        albedo = pixels(number, 1) / 255
        albedo[1, 2], albedo[3, 4, 0] = 0, np.nan
        np.save(folder / f"albedo_{name}.npy", albedo)
        np.save(folder / f"shading_{name}.npy", pixels(number, 2) / 32)
        np.save(folder / f"residual_{name}.npy", pixels(number, 3) / 128)
        kinds = ("rgb_{}.png", "albedo_{}.npy", "shading_{}.npy", "residual_{}.npy", "shading_stats_{}.json")
        lines.append(" ".join(f"test/{scene}/{kind.format(name)}" for kind in kinds))
    (root / "hypersim_test.txt").write_text("\n".join(lines))


def write_iiw(root):
    points = [{"id": n, "x": x, "y": 0.5, "opaque": True} for n, x in enumerate((0.1, 0.5, 0.9))]
    judged = [
        {"point1": 0, "point2": 1, "darker": "1", "darker_score": 0.5},
        {"point1": 1, "point2": 2, "darker": "E", "darker_score": 0.25},
        {"point1": 0, "point2": 2, "darker": "2", "darker_score": None},
    ]
    for number in (54, 116):
        save(root / "data" / f"{number}.png", pixels(number))
        content = {"intrinsic_points": points, "intrinsic_comparisons": judged}
        (root / "data" / f"{number}.json").write_text(json.dumps(content))


def write_saw(root):
    for folder in ("saw_splits", f"saw_pixel_labels/{LABEL_FOLDER}"):
        (root / folder).mkdir(parents=True)
    for number in (54, 116):
        save(root / "saw_images_512" / f"{number}.png", pixels(number))
        labels = np.random.default_rng(number).choice([0, 1, 2, 100], (HEIGHT, WIDTH))
        np.save(root / "saw_pixel_labels" / LABEL_FOLDER / f"{number}.npy", labels)
    for split, ids in {"train": (54,), "val": (), "test": (116, 54)}.items():
        np.save(root / "saw_splits" / f"{split}_ids.npy", np.array(ids, np.int64))


def write_maw(root):
    lines = []
    for number, name in enumerate(("scene_2/IMG_1", "scene_2/IMG_2", "scene_10/IMG_1")):
        save(root / "images_png" / f"{name}.png", pixels(number))
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask[1:, 1:3], mask[1:, 4:] = 10, 20
        save(root / "labels" / f"{name}_mask.png", mask)
        np.save(root / "labels" / f"{name}.npy", np.array([[0.5, 0.5, 0.5], [0.4, 0.3, 0.2]]))
        scene, _, photograph = name.partition("/")
        lines.append(f"{name}.npy\t{name}_mask.png\t{scene}\t{photograph}\tNone\tNone\n")
    (root / "labels" / "meta.csv").write_text("".join(lines))


def write_multi_illumination(root):
    for number, scene in enumerate(("everett_kitchen5", "main_d424-11")):
        for direction in range(25):
            gray = np.full((HEIGHT, WIDTH, 3), 100 * number + 4 * direction, np.uint8)
            save(root / scene / f"dir_{direction}_mip5.jpg", gray)
        save(root / scene / "materials_mip5.png", np.full((HEIGHT, WIDTH), number + 1, np.uint8))


def stereo_image(name, number):
    return 3 * np.random.default_rng([len(name), number]).random((HEIGHT, WIDTH, 3)).astype(np.float32)


def write_photometric_stereo(root):
    openexr = pytest.importorskip("OpenEXR")
    for name in ("apple", "gourd1"):
        (root / name).mkdir(parents=True)
        for number in range(3):
            head = {"compression": openexr.ZIP_COMPRESSION, "type": openexr.scanlineimage}
            openexr.File(head, {"RGB": stereo_image(name, number)}).write(
                str(root / name / f"I_{number:04d}.exr")
            )
        for kind in ("directions", "intensities"):
            (root / name / f"light_{kind}_refined.txt").write_text("0 0 1\n" * 3)
        save(root / name / "mask.png", np.ones((HEIGHT, WIDTH), np.uint8))


def write_cub70(root):
    cub = root / "CUB_200_2011"
    (cub / "parts").mkdir(parents=True)
    classes = [f"{number:03d}.Bird" for number in range(1, 72)]
    classes[0], classes[1] = "001.Black_footed_Albatross", "002.Laysan_Albatross"
    lines: dict[str, str] = {}
    # Number of the species, the image's stem, whether it is for training, and whether it has a mask.
    images = [
        (1, "Albatross_0001_796", 0, True),
        (1, "Albatross_0002_55", 0, True),
        (1, "Albatross_0003_7", 1, False),
        (2, "Laysan_0004_8", 0, False),
        (2, "Laysan_0005_9", 1, False),
        (71, "Bird_0006_1", 1, False),
        (71, "Bird_0007_2", 0, False),
    ]
    for number, (label, stem, train, masked) in enumerate(images, start=1):
        species = classes[label - 1]
        save(cub / "images" / species / f"{stem}.jpg", np.full((HEIGHT, WIDTH, 3), 30 * number, np.uint8))
        if masked:
            mask = np.zeros((HEIGHT, WIDTH), np.uint8)
            mask[:number] = 255
            save(root / "AnnotationMasksPerclass" / str(label) / f"{stem}_right_wing.png", mask)
        for name, line in {
            "images.txt": f"{number} {species}/{stem}.jpg",
            "image_class_labels.txt": f"{number} {label}",
            "train_test_split.txt": f"{number} {train}",
            "bounding_boxes.txt": f"{number} 1.0 1.0 3.0 3.0",
        }.items():
            lines[name] = lines.get(name, "") + f"{line}\n"
    lines["classes.txt"] = "".join(f"{number} {name}\n" for number, name in enumerate(classes, start=1))
    lines |= {"parts/parts.txt": "1 back\n", "parts/part_locs.txt": "1 1 0.0 0.0 0\n"}
    for name, text in lines.items():
        (cub / name).write_text(text)


def write_celebamask(root):
    lines, marks = ["idx orig_idx orig_file"], ["4", "Smiling Male"]
    for number, origin in {0: 119613, 7: 182638, 9: 190000, 12: 170000}.items():
        save(root / "CelebA-HQ-img" / f"{number}.jpg", np.full((HEIGHT, WIDTH, 3), 20 * number, np.uint8))
        for row, part in enumerate(("l_eye", "r_eye", "hat")):
            mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
            mask[row] = 255
            save(root / "CelebAMask-HQ-mask-anno" / "0" / f"{number:05d}_{part}.png", mask)
        lines.append(f"{number}  {origin}  {origin:06d}.jpg")
        marks.append(
            f"{number}.jpg  {'1' if number in (7, 12) else '-1'}  {'1' if number in (7, 9) else '-1'}"
        )
    (root / "CelebA-HQ-to-CelebA-mapping.txt").write_text("\n".join(lines) + "\n")
    (root / "CelebAMask-HQ-attribute-anno.txt").write_text("\n".join(marks) + "\n")


def write_dsprites(root):
    values = ([1.0], [1.0, 2, 3], [0.5, 1], [0.0, 3.0], [0.0], [0.0, 1])
    grid = np.stack([axis.reshape(-1) for axis in np.meshgrid(*values, indexing="ij")], axis=1)
    images = np.random.default_rng(0).integers(0, 2, (len(grid), HEIGHT, WIDTH), np.uint8)
    root.mkdir()
    np.savez_compressed(root / f"{DSPRITES}.npz", imgs=images, latents_values=grid)


def write_mpi3d(root):
    root.mkdir()
    shape = (np.prod(MPI3D_SIZES), HEIGHT, WIDTH, 3)
    for seed, name in enumerate(("mpi3d_toy.npz", "mpi3d_real.npz")):
        np.savez(root / name, images=np.random.default_rng(seed).integers(0, 256, shape, np.uint8))


def write_shapes3d(root):
    root.mkdir()
    grid = np.meshgrid(*SHAPES3D_VALUES, indexing="ij")
    labels = np.stack([axis.reshape(-1) for axis in grid], axis=1)
    with h5py.File(root / "3dshapes.h5", "w") as file:
        shape = (len(labels), HEIGHT, WIDTH, 3)
        file["images"] = np.random.default_rng(2).integers(0, 256, shape, np.uint8)
        file["labels"] = labels


def write_candle(root):
    for number, colour in {7: "red", 3541: "blue"}.items():
        save(root / f"{number}.png", pixels(number))
        record = {"object_type": "cube", "color": colour, "size": 2, "rotation": 15}
        content = {"scene": "indoor", "lights": "left", "objects": {"Cube_0": record}}
        record["bounds"] = [[1, 1], [3, 2]]
        (root / f"{number}.json").write_text(json.dumps(content))


def write_tid2013(root):
    save(root / "reference_images" / "I01.bmp", pixels(1))
    save(root / "reference_images" / "I02.bmp", pixels(2))
    names = [f"i{r:02d}_{d:02d}_{n}.bmp" for r in (1, 2) for d in (1, 24) for n in (1, 5)]
    for number, name in enumerate(names):
        save(root / "distorted_images" / name, pixels(number, 5))
    scores = [f"{number + 0.5} {name}\n" for number, name in enumerate(names)]
    (root / "mos_with_names.txt").write_text("".join(scores))
    (root / "mos_std.txt").write_text("".join(f"{0.1 + number / 100}\n" for number in range(len(names))))


WRITERS = {
    "mit": write_mit,
    "arap": write_arap,
    "hypersim": write_hypersim,
    "iiw": write_iiw,
    "saw": write_saw,
    "maw": write_maw,
    "multi-illumination": write_multi_illumination,
    "photometric-stereo": write_photometric_stereo,
    "cub70": write_cub70,
    "celebamask": write_celebamask,
    "dsprites": write_dsprites,
    "mpi3d": write_mpi3d,
    "shapes3d": write_shapes3d,
    "candle": write_candle,
    "tid2013": write_tid2013,
}
# Options that a layout with several splits or sets needs.
NEEDED = {
    "mit": {"split": "all"},
    "arap": {"split": "all"},
    "hypersim": {"split": "test"},
    "iiw": {"split": "all"},
    "saw": {"split": "test"},
    "multi-illumination": {"split": "all"},
    "cub70": {"split": "annotated"},
    "celebamask": {"split": "all"},
    "mpi3d": {"set_name": "toy"},
}


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """Unpack to a folder of the tests, and reduce the grid of MPI3D."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        early = {
            name: values[:n]
            for (name, values), n in zip(grid_images._EARLY.items(), MPI3D_SIZES, strict=True)
        }
        patch.setattr(grid_images, "_EARLY", early)
        yield


@pytest.fixture(scope="session")
def public_folder(tmp_path_factory):
    """Return a function that writes a copy of a public data set at its first use, and returns its folder."""
    root, written = tmp_path_factory.mktemp("public"), set()

    def folder(layout):
        if layout not in written:
            WRITERS[layout](root / layout)
            written.add(layout)
        return root / layout

    return folder


@pytest.fixture(scope="session")
def open_copy(public_folder):
    """Return a function that opens a copy of a public data set by its text, with the needed options."""

    def open_as(kind, layout, **options):
        return open_data(kind, f"{layout}:{public_folder(layout)}", **{**NEEDED.get(layout, {}), **options})

    return open_as
