"""Write tiny copies of all public data sets, in the layouts of their archives."""

import json

import h5py
import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public import (
    ARAP,
    CUB70,
    CUB200,
    DTD,
    IIW,
    MAW,
    MPI3D,
    SAW,
    TID2013,
    Candle,
    CelebAMaskHQ,
    DSprites,
    Hypersim,
    InteriorVerse,
    MIDIntrinsics,
    MITIntrinsic,
    MultiIllumination,
    PhotometricStereo,
    Shapes3D,
    Sintel,
    StanfordORB,
)
from candlelight.loaders.public.candle import VALUES
from candlelight.loaders.public.grid_images import FILE_STEM as DSPRITES
from candlelight.loaders.public.hypersim import _COLUMNS
from candlelight.loaders.public.saw import LABEL_FOLDER

HEIGHT, WIDTH = 4, 6
MPI3D_SIZES = (2, 2, 1, 1, 1, 2, 2)
DSPRITES_VALUES = ([1.0], [1.0, 2, 3], [0.5, 1], [0.0, 2 * np.pi], [0.0], [0.0, 1])
SHAPES3D_VALUES = ([0.0, 0.1], [0.0, 0.5], [0.0], [0.75, 1.25], [0.0, 1, 2, 3], [-30.0, 30])


def pixels(*seed, channels=3, dtype=np.uint8):
    shape = (HEIGHT, WIDTH, channels)
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **({"quality": 100} if path.suffix == ".jpg" else {}))


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def clutter(root):
    """Leave files as archives and file managers do, which belong to no sample."""
    for name in (".DS_Store", "._1.png", "._54.json", "Thumbs.db", "readme.txt"):
        (root / name).write_bytes(b"\0")
    (root / "__MACOSX").mkdir()


# ------------------------------------------------------------------------------------------ intrinsic images


def mit_images(number):
    colour = ("original", "diffuse", "reflectance", "specular", *(f"light{n:02d}" for n in range(1, 11)))
    files = {file: pixels(number, place, dtype=np.uint16) for place, file in enumerate(colour)}
    files["shading"] = pixels(number, 20, channels=1, dtype=np.uint16)[..., 0]
    files["mask"] = np.full((HEIGHT, WIDTH), 65025, np.uint16)
    files["mask"][0] = 0
    return files


def write_mit(root, below="data", objects=("box", "cup2")):
    for number, name in enumerate(objects):
        (root / below / name).mkdir(parents=True)
        for file, array in mit_images(number).items():
            (root / below / name / f"{file}.png").write_bytes(encode_png(array))
    clutter(root / below)


def write_arap(root):
    names = ("Katie", "Katie_albedo", "katie_shading", "cream_light0", "cream_light1", "cream_albedo")
    for number, name in enumerate((*names, "cream_light0_shading", "cream_light1_shading")):
        save(root / f"{name}.png", pixels(number))
    for layer in ("light0_shading_direct", "normal", "normal_light0", "light1_mask_2", "depth_2"):
        save(root / f"cream_{layer}.png", pixels(20))  # no input
    clutter(root)
    (root / "._1.png").unlink()  # would be listed as `._1`, which `names` tests


HYPERSIM = ("ai_001_010/cam_00_fr0000", "ai_001_010/cam_01_fr0007", "ai_054_007/cam_00_fr0094")


def hypersim_line(frame, folder="test"):
    scene, _, name = frame.partition("/")
    kinds = {"rgb": "png", **_COLUMNS}
    return " ".join(f"{folder}/{scene}/{kind}_{name}.{suffix}" for kind, suffix in kinds.items())


def hypersim_layers(number):
    """Make layers as the script stores them: float64, shading and residual unbounded and of two ranges."""
    rng = np.random.default_rng(number)
    shape = (HEIGHT, WIDTH, 3)
    made = {
        "albedo": rng.uniform(0.05, 1, shape),
        "shading": rng.lognormal(0, 2, shape),
        "residual": rng.lognormal(-3, 2, shape),
    }
    made["albedo"][1, 2], made["albedo"][3, 4, 0] = 0, np.nan
    made["residual"][0, 0] = -0.5  # renderers filter the image, and so make negative values
    return made


def hypersim_file(root, kind, frame=HYPERSIM[0]):
    scene, _, name = frame.partition("/")
    return root / "test" / scene / f"{kind}_{name}.{'png' if kind == 'rgb' else 'npy'}"


def write_hypersim(root):
    for number, frame in enumerate(HYPERSIM):
        save(hypersim_file(root, "rgb", frame), pixels(number))
        for kind, array in hypersim_layers(number).items():
            np.save(hypersim_file(root, kind, frame), array)
    (root / "hypersim_test.txt").write_text("\n".join(map(hypersim_line, HYPERSIM)))


# The scenes of the test split, and one that is no scene of `train-nodefect`.
SINTEL = (
    *("alley_2", "bamboo_2", "bandage_2", "cave_4", "market_5", "mountain_1", "shaman_3", "sleeping_2"),
    *("temple_3", "bandage_1"),
)


def sintel_pixels(scene, frame, layer):
    """Make the stored pixels of a layer: clean, albedo or shading; their product is not the image."""
    return pixels(SINTEL.index(scene), frame, ("clean", "albedo", "shading").index(layer))


def write_sintel(root):
    """Write the three archives: those of shading have other names, numbers from 3, and a scene alone."""
    for scene in SINTEL:
        for frame in (1, 2):
            for layer in ("clean", "albedo"):
                file = root / f"{layer}_noshadingtextures" / scene / f"frame_{frame:04d}.png"
                save(file, sintel_pixels(scene, frame, layer))
            file = root / "shading" / scene / f"out_{frame + 2:04d}.png"
            save(file, sintel_pixels(scene, frame, "shading"))
        clutter(root / "shading" / scene)
    save(root / "shading" / "ambush_2" / "out_0001.png", pixels(0))


def write_sintel_repack(root, scenes=("alley_2", "temple_3"), masked=True):
    """Write the folders of papers on intrinsic images: a gray mask says where the layers have no defect."""
    mask = np.full((HEIGHT, WIDTH), 255, np.uint8)
    mask[0], mask[1, 0] = 0, 252  # 252 of 255 is below 0.99
    for scene in scenes:
        for frame in (1, 2):
            for layer in ("clean", "albedo", "shading"):
                file = root / f"MPI-main-{layer}" / f"{scene}_frame_{frame:04d}.png"
                save(file, sintel_pixels(scene, frame, layer))
            if masked:
                save(root / "MPI-main-mask" / f"{scene}_frame_{frame:04d}.png", mask)


INTERIORVERSE = ("L3D187S3/000", "L3D187S3/001", "L3D124S8/003")


def interiorverse_layers(number):
    """Make the layers of a frame: radiance above 1, albedo of 8-bit values, roughness and metallic."""
    rng = np.random.default_rng(number)
    albedo = (rng.integers(20, 256, (HEIGHT, WIDTH, 3)) / 255).astype(np.float32)
    return {
        "im": (3 * rng.random((HEIGHT, WIDTH, 3))).astype(np.float32),
        "albedo": albedo,
        "material": rng.random((HEIGHT, WIDTH, 3)).astype(np.float32),
        "mask": np.ones((HEIGHT, WIDTH), np.float32),
    }


def write_interiorverse(root, below="dataset_85", **changes):
    """Write the release, in which depth, normals and other scenes lie too; ``changes`` replace layers."""
    for number, frame in enumerate(INTERIORVERSE):
        for layer, values in {**interiorverse_layers(number), **changes}.items():
            channels = {"Y": values} if values.ndim == 2 else values
            write_exr(root / below / f"{frame}_{layer}.exr", channels)
        (root / below / f"{frame}_depth.exr").write_bytes(b"")
    clutter(root / below)
    for split, scenes in {"test": ("L3D187S3", "L3D124S8"), "val": ("L3D124S8",)}.items():
        (root / below / f"{split}.txt").write_text("".join(f"{scene}\n" for scene in scenes))


def interiorverse_line(frame, folder="scenes_85"):
    return " ".join(f"{folder}/{frame}_{layer}.exr" for layer in ("im", "albedo", "material", "mask"))


ORB = ("baking_scene001/0000", "baking_scene001/0007", "teapot_scene006/0003")


def orb_mask():
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[1:, 1:] = 255
    mask[1, 1] = 127  # below one half
    return mask


def write_stanford_orb(root, kind="LDR"):
    """Write the test photographs of captures, their masks, and albedo; files of training have no albedo."""
    for number, name in enumerate(ORB):
        capture, _, view = name.partition("/")
        folder = root / f"blender_{kind}" / capture
        if kind == "LDR":
            save(folder / "test" / f"{view}.png", pixels(number, 1))
        else:
            write_exr(folder / "test" / f"{view}.exr", (pixels(number, 1) / 64).astype(np.float32))
        save(folder / "test_mask" / f"{view}.png", orb_mask())
        save(folder / "train" / "0001.png", pixels(9))
        save(root / "ground_truth" / capture / "pseudo_gt_albedo" / f"{view}.png", pixels(number, 2))
        np.save(root / "ground_truth" / capture / f"{view}_normal.npy", np.zeros(1))
    clutter(root / "ground_truth")


MID_SCENES = ("everett_kitchen5", "main_d424-11")


def mid_layers(scene, direction):
    """Make the albedo of a scene, its light in one direction, and the colour of the flash."""
    rng = np.random.default_rng(MID_SCENES.index(scene))
    albedo = rng.uniform(0.1, 1.2, (HEIGHT, WIDTH, 3)).astype(np.float32)
    albedo[1, 2] = 0  # where the network found black
    light = np.random.default_rng(direction).uniform(0.2, 4, (HEIGHT, WIDTH, 1)).astype(np.float32)
    return albedo, light, np.array([0.8, 1.0 + direction / 50, 0.5], np.float32)


def mid_truth(scene, direction):
    """Balance, tone-map and divide by the description: white flash, 90th percentile of brightness, albedo."""
    albedo, light, flash = mid_layers(scene, direction)
    white = np.where(albedo == 0, 0.3, albedo).astype(np.float64) * light * flash[1]
    ordered = sorted(0.3 * r + 0.59 * g + 0.11 * b for r, g, b in white.reshape(-1, 3).tolist())
    place = 0.9 * (len(ordered) - 1)
    low = int(place)
    high = ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])
    image = (0.8**2.2 / high * white).clip(0, 1)
    shading = np.divide(image, albedo, out=np.zeros_like(image), where=albedo > 0)
    return image, albedo, shading


def write_midintrinsics(root):
    """Write photographs under 25 flashes, gray probes that show their colour, and an albedo of each scene."""
    for scene in MID_SCENES:
        for direction in range(25):
            albedo, light, flash = mid_layers(scene, direction)
            photograph = np.where(albedo == 0, np.float32(0.3), albedo) * light * flash
            write_exr(root / scene / f"dir_{direction}_mip2.exr", photograph)
            probe = np.zeros((24, 24, 3), np.float32)
            probe[2:22, 2:22] = flash
            probe[2:6, 2:22] = (9, 1, 1)  # light of the room on the rim, which is left out
            write_exr(root / scene / "probes" / f"dir_{direction}_gray256.exr", probe)
        write_exr(root / scene / "albedo.exr", mid_layers(scene, 0)[0])
    clutter(root)


# ------------------------------------------------------------------------------------- judgements and lights


def json_2(value):
    """Format JSON as Python 2 did for the releases: a space after each comma, at line ends too."""
    return json.dumps(value, indent=2, sort_keys=True, separators=(", ", ": "))


def judged_point(number, x, y=0.5, opaque=True):
    return {"id": number, "x": x, "y": y, "opaque": opaque, "opaque_method": "C", "sRGB": "716736"}


def comparison(one, two, darker, score, **more):
    pair = {"point1": one, "point2": two}
    return {**pair, "darker": darker, "darker_score": score, "darker_method": "C", **more}


JUDGED = {
    "intrinsic_points": [judged_point(n, x) for n, x in enumerate((0.1, 0.5, 0.9))],
    "intrinsic_comparisons": [
        *(comparison(0, 1, "1", 0.5), comparison(1, 2, "E", 0.25), comparison(0, 2, "2", None)),
    ],
}


def write_iiw(root, numbers=(54, 116)):
    about = {
        "attribution_name": "somebody",
        "attribution_url": "http://example.org/photo",
        "license": {"cc": True, "name": "Attribution 2.0", "url": "http://example.org/by"},
    }
    for number in numbers:
        save(root / "data" / f"{number}.png", pixels(number))
        (root / "data" / f"{number}.json").write_text(json_2({**JUDGED, **about, "photo": number}))
    clutter(root / "data")


def saw_labels(number):
    labels = np.random.default_rng(number).choice([0, 1, 2, 100], (HEIGHT, WIDTH))
    labels[0, :4] = 0, 1, 2, 100
    return labels


def saw_file(root, number=116):
    return root / "saw_pixel_labels" / LABEL_FOLDER / f"{number}.npy"


def write_saw(root):
    for number in (54, 116):
        save(root / "saw_images_512" / f"{number}.png", pixels(number))
        saw_file(root).parent.mkdir(parents=True, exist_ok=True)
        np.save(saw_file(root, number), saw_labels(number))
    (root / "saw_splits").mkdir()
    for split, ids in {"train": (54,), "val": (), "test": (116, 54)}.items():
        np.save(root / "saw_splits" / f"{split}_ids.npy", np.array(ids, np.int64))
    clutter(root / "saw_images_512")


# Linear Adobe RGB: gray, a colour inside Rec.709, and pure green, which is outside.
MAW_COLOURS = np.array([[0.5, 0.5, 0.5], [0.4, 0.3, 0.2], [0.0, 1.0, 0.0]])


def write_maw(root):
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[1:, 1:3], mask[1:, 4:], mask[0] = 10, 20, 200
    lines = []
    for number, name in enumerate(("scene_2/IMG_1", "scene_2/IMG_2", "scene_10/IMG_1")):
        save(root / "images_png" / f"{name}.png", pixels(number))
        save(root / "labels" / f"{name}_mask.png", mask)
        np.save(root / "labels" / f"{name}.npy", MAW_COLOURS)
        scene, _, photograph = name.partition("/")
        judged = "scene_2/0001" if number == 0 else "None"
        lines.append(f"{name}.npy\t{name}_mask.png\t{scene}\t{photograph}\t{name}.png\t{judged}\r\n")
    (root / "labels" / "meta.csv").write_text("".join(lines), newline="")
    write_text(root / "labels" / "scene_2" / "0001.json", json.dumps(JUDGED))


def write_multi_illumination(root):
    for number, scene in enumerate(("everett_kitchen5", "main_d424-11")):
        for direction in range(25):
            gray = np.full((HEIGHT, WIDTH, 3), 100 * number + 4 * direction, np.uint8)
            save(root / scene / f"dir_{direction}_mip5.jpg", gray)
            for probe in ("chrome", "gray"):
                gray = np.full((8, 8, 3), direction, np.uint8)
                save(root / scene / "probes" / f"dir_{direction}_{probe}256.jpg", gray)
        materials = Image.new("P", (WIDTH, HEIGHT), number + 1)
        materials.putpalette([channel for entry in range(40) for channel in (entry, 255 - entry, 7)])
        materials.save(root / scene / "materials_mip5.png")
        clutter(root / scene)
    box = {"x": 940.0, "y": 2810.5, "w": 970, "h": 950.25}
    meta = {probe: {"bounding_box": box, "boundary_points": []} for probe in ("chrome", "gray")}
    (root / "everett_kitchen5" / "meta.json").write_text(json.dumps(meta))
    clutter(root)
    (root / "empty").mkdir()


STEREO = {"apple": (0, 1, 2), "gourd1": (0, 2, 10)}  # numbers of photographs may have gaps


def stereo_image(name, number):
    return 3 * np.random.default_rng([len(name), number]).random((HEIGHT, WIDTH, 3)).astype(np.float32)


def stereo_lights(name, refined=True):
    rng = np.random.default_rng([len(name), refined])
    return {"directions": rng.normal(size=(3, 3)).round(4), "intensities": rng.random((3, 3)).round(4)}


def write_exr(path, channels, compression="ZIP"):
    """Write channels by name, or an image as ``RGB``."""
    openexr = pytest.importorskip("OpenEXR")
    head = {"compression": getattr(openexr, f"{compression}_COMPRESSION"), "type": openexr.scanlineimage}
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"RGB": channels} if isinstance(channels, np.ndarray) else channels
    openexr.File(head, {name: np.ascontiguousarray(one) for name, one in channels.items()}).write(str(path))


def write_photometric_stereo(root):
    for name, numbers in STEREO.items():
        layer = "color." if name == "gourd1" else ""
        for number in numbers:
            image = stereo_image(name, number)
            channels = {f"{layer}{c}": image[..., i] for i, c in enumerate("RGB")}
            write_exr(root / name / f"I_{number:04d}.exr", channels)
        for refined in (True, False):
            for kind, table in stereo_lights(name, refined).items():
                rows = "".join(" ".join(f"{value:.4f}" for value in row) + "\r\n" for row in table)
                path = root / name / f"light_{kind}{'_refined' if refined else ''}.txt"
                path.write_text(rows + "\n", newline="")
        mask = np.ones((HEIGHT, WIDTH), np.uint8)  # not 255
        mask[0] = 0
        save(root / name / "mask.png", mask)
        (root / name / "normals.exr").write_bytes(b"")
    (root / "notes").mkdir()
    clutter(root)


# ------------------------------------------------------------------------------------------ parts and labels

POINTS = (
    "back beak belly breast crown forehead left_eye left_leg left_wing nape right_eye right_leg "
    "right_wing tail throat"
).split()
SPECIES = [f"{number:03d}.Bird" for number in range(1, 72)]
SPECIES[:2] = "001.Black_footed_Albatross", "002.Laysan_Albatross"
# Number of the species, the image's stem, whether it is for training, and whether it has a mask.
BIRDS = (
    (1, "Albatross_0001_796", 0, True),
    (1, "Albatross_0001_79611", 0, True),  # begins like the one before
    (1, "Albatross_0003_7", 1, False),
    (2, "Laysan_0004_8", 0, False),
    (2, "Laysan_0005_9", 1, False),
    (71, "Bird_0006_1", 1, False),
    (71, "Bird_0007_2", 0, False),
)


def write_cub(root):
    lists = {"classes.txt": "".join(f"{n} {name}\r\n" for n, name in enumerate(SPECIES, 1))}
    lists["parts/parts.txt"] = "".join(f"{n} {name.replace('_', ' ')}\n" for n, name in enumerate(POINTS, 1))
    lists["../attributes.txt"] = "1 has_bill_shape::curved_(up_or_down)\n2 has_wing_color::blue\n"
    for number, (label, stem, train, masked) in enumerate(BIRDS, start=1):
        name = f"{SPECIES[label - 1]}/{stem}"
        image = root / "CUB_200_2011" / "images" / f"{name}.jpg"
        save(image, np.full((HEIGHT, WIDTH, 3), 30 * number, np.uint8))
        if masked:
            mask = np.zeros((HEIGHT, WIDTH), np.uint8)
            mask[:number] = 255
            save(root / "AnnotationMasksPerclass" / str(label) / f"{stem}_right_wing.png", mask)
        points = (f"{p + 0.5} {2.0 * p} 1" if p % 2 else "0.0 0.0 0" for p in range(1, 16))
        for file, line in {
            "images.txt": f"{number} {name}.jpg",
            "image_class_labels.txt": f"{number} {label}",
            "train_test_split.txt": f"{number} {train}",
            "bounding_boxes.txt": f"{number} 2.0 3.0 25.0 19.5",
            "parts/part_locs.txt": "\n".join(f"{number} {p} {point}" for p, point in enumerate(points, 1)),
            # Some lines of the archive have one column too many.
            "attributes/image_attribute_labels.txt": f"{number} 1 1 3 0 2.5\n{number} 2 0 2 2.5",
        }.items():
            lists[file] = lists.get(file, "") + f"{line}\n"
    for file, text in lists.items():
        write_text(root / "CUB_200_2011" / file, text)
    clutter(root / "AnnotationMasksPerclass" / "1")


FACES = {0: 119613, 7: 182638, 9: 190000, 2001: 170000}  # numbers of CelebA-HQ and of CelebA


def write_celebamask(root):
    lines, marks = ["idx orig_idx orig_file"], ["4", "Smiling Male"]
    for number, origin in FACES.items():
        save(
            root / "CelebA-HQ-img" / f"{number}.jpg", np.full((HEIGHT, WIDTH, 3), 20 * number % 256, np.uint8)
        )
        for row, part in enumerate(("l_eye", "r_eye", "hat")):
            mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
            mask[row] = 255
            folder = root / "CelebAMask-HQ-mask-anno" / str(number // 2000)
            save(folder / f"{number:05d}_{part}.png", mask)
        lines.append(f"{number:<8d}{origin:<12d}{origin:06d}.jpg")
        smiles, male = ("1" if number in some else "-1" for some in ((7, 2001), (7, 9)))
        marks.append(f"{number}.jpg  {smiles}  {male}")
    (root / "CelebA-HQ-to-CelebA-mapping.txt").write_text("\n".join(lines) + "\n")
    (root / "CelebAMask-HQ-attribute-anno.txt").write_text("\n".join(marks) + "\n")
    clutter(root / "CelebA-HQ-img")


def write_dtd(root):
    for name in ("banded", "lined", "polka-dotted"):
        for number in (2, 4, 14):
            gray = np.full((HEIGHT, WIDTH, 3), 10 * number, np.uint8)
            save(root / "dtd" / "images" / name / f"{name}_{number:04d}.jpg", gray)
    labels = root / "dtd" / "labels"
    write_text(labels / "train3.txt", "banded/banded_0002.jpg\npolka-dotted/polka-dotted_0004.jpg\n")
    write_text(labels / "labels_joint_anno.txt", "banded/banded_0002.jpg banded lined \n")
    (root / "dtd" / "images" / "__MACOSX").mkdir()


# --------------------------------------------------------------------------------------------------- factors


def grid(values):
    return np.stack([axis.reshape(-1) for axis in np.meshgrid(*values, indexing="ij")], axis=1)


class Hostile:
    """An object that raises when it is unpickled."""

    def __reduce__(self):
        return (eval, ("1 / 0",))


def dsprites_arrays():
    values = grid(DSPRITES_VALUES)
    images = np.random.default_rng(0).integers(0, 2, (len(values), HEIGHT, WIDTH), np.uint8)
    metadata = np.array(Hostile(), dtype=object)  # an object array is stored as a pickle
    return {"imgs": images, "latents_values": values, "metadata": metadata}


def write_dsprites(root):
    root.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(root / f"{DSPRITES}.npz", **dsprites_arrays())


def mpi3d_images(seed=0):
    shape = (np.prod(MPI3D_SIZES), HEIGHT, WIDTH, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def write_mpi3d(root):
    root.mkdir(parents=True, exist_ok=True)
    np.savez(root / "mpi3d_toy.npz", images=mpi3d_images(0))
    np.savez_compressed(root / "mpi3d_real.npz", images=mpi3d_images(1))


def shapes3d_images():
    shape = (len(grid(SHAPES3D_VALUES)), HEIGHT, WIDTH, 3)
    return np.random.default_rng(2).integers(0, 256, shape, np.uint8)


def write_shapes3d(root, chunks=None, labels=None):
    root.mkdir(parents=True, exist_ok=True)
    with h5py.File(root / "3dshapes.h5", "w") as file:
        options = {"chunks": chunks, "compression": "gzip"} if chunks else {}
        file.create_dataset("images", data=shapes3d_images(), **options)
        file["labels"] = grid(SHAPES3D_VALUES) if labels is None else labels


def candle_entry(number):
    """Return the simulator's JSON: numbers are positions in the product of all values."""
    position = np.unravel_index(number, [len(values) for values in VALUES.values()])
    labels = {name: VALUES[name][p] for name, p in zip(VALUES, position, strict=True)}
    scene, lights = labels.pop("scene"), labels.pop("lights")
    record = {**labels, "bounds": [[150, -4], [245, 66]]}
    return {"scene": scene, "lights": lights, "objects": {f"{record['object_type'].capitalize()}_0": record}}


def write_candle(root, numbers=(7, 3541)):
    for number in numbers:
        alpha = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)  # Blender's images have an alpha
        save(root / f"{number}.png", np.concatenate([pixels(number), alpha], axis=2))
        (root / f"{number}.json").write_text(json.dumps(candle_entry(number), indent=4))
    for name in ("notes.json", "007.json"):
        (root / name).write_text("[]")


TID2013_IMAGES = tuple((r, d, n) for r in (1, 2) for d in (1, 13) for n in (1, 5))


def write_tid2013(root):
    save(root / "reference_images" / "I01.BMP", pixels(1))
    save(root / "reference_images" / "i02.bmp", pixels(2))
    lines = {"mos_with_names.txt": "", "mos_std.txt": "", "metrics_values/PSNRHVS.txt": ""}
    for row, numbers in enumerate(TID2013_IMAGES):
        # The archive has capitals in some names of files, and in other names of its list.
        listed = "I01_01_1.bmp" if row == 0 else "I{:02d}_{:02d}_{}.BMP".format(*numbers)
        stored = "I01_13_1.bmp" if row == 2 else "i{:02d}_{:02d}_{}.bmp".format(*numbers)
        save(root / "distorted_images" / stored, pixels(row, 5))
        lines["mos_with_names.txt"] += f"{row + 0.5} {listed}\r\n"
        lines["mos_std.txt"] += f"{0.1 + row / 100}\r\n"
        lines["metrics_values/PSNRHVS.txt"] += f"{row}\n"
    for name, text in lines.items():
        write_text(root / name, text)
    clutter(root / "distorted_images")


WRITERS = {
    "mit": write_mit,
    "arap": write_arap,
    "hypersim": write_hypersim,
    "sintel": write_sintel,
    "interiorverse": write_interiorverse,
    "stanford-orb": write_stanford_orb,
    "midintrinsics": write_midintrinsics,
    "iiw": write_iiw,
    "saw": write_saw,
    "maw": write_maw,
    "multi-illumination": write_multi_illumination,
    "photometric-stereo": write_photometric_stereo,
    "cub70": write_cub,
    "cub200": write_cub,
    "celebamask": write_celebamask,
    "dtd": write_dtd,
    "dsprites": write_dsprites,
    "mpi3d": write_mpi3d,
    "shapes3d": write_shapes3d,
    "candle": write_candle,
    "tid2013": write_tid2013,
}


def _reader(kind, **needed):
    return lambda root, **options: kind(root, **{**needed, **options})


# Open a copy, with the options that it needs and others.
READERS = {
    "mit": _reader(MITIntrinsic, lights=True),
    "arap": ARAP,
    "hypersim": _reader(Hypersim, split="test"),
    "sintel": Sintel,
    "interiorverse": _reader(InteriorVerse, split="test"),
    "stanford-orb": StanfordORB,
    "midintrinsics": MIDIntrinsics,
    "iiw": IIW,
    "saw": _reader(SAW, split="test"),
    "maw": MAW,
    "multi-illumination": _reader(MultiIllumination, mip=5, probes=256, materials=True),
    "photometric-stereo": PhotometricStereo,
    "cub70": lambda root, **options: CUB70(root, root, **options),
    "cub200": CUB200,
    "celebamask": CelebAMaskHQ,
    "dtd": DTD,
    "dsprites": lambda root, **options: DSprites(root, cache=root / "cache", **options),
    "mpi3d": _reader(MPI3D, sizes=MPI3D_SIZES),
    "shapes3d": Shapes3D,
    "candle": Candle,
    "tid2013": TID2013,
}
