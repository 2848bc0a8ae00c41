"""Each reader names a missing, damaged or wrong file, and its source, in one line."""

import io
import json

import numpy as np
import pytest

from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public import open_fivek
from tests.loaders.public.copies import (
    HEIGHT,
    HYPERSIM,
    INTERIORVERSE,
    JUDGED,
    LABEL_FOLDER,
    READERS,
    WIDTH,
    candle_entry,
    comparison,
    hypersim_line,
    interiorverse_line,
    judged_point,
)
from tests.refusals import refused

pytest.importorskip("torch")

FRAME, LABELS = "test/ai_001_010/{}_cam_00_fr0000.npy", f"saw_pixel_labels/{LABEL_FOLDER}/116.npy"
IMAGES = {
    "mit": [f"data/box/{layer}.png" for layer in ("original", "shading", "mask", "light10")],
    "arap": ["cream_light1_shading.png"],
    "hypersim": [
        *("test/ai_001_010/rgb_cam_00_fr0000.png", FRAME.format("albedo")),
        *(FRAME.format("shading"), FRAME.format("residual")),
    ],
    "interiorverse": [f"dataset_85/L3D187S3/001_{layer}.exr" for layer in ("albedo", "mask")],
    "stanford-orb": [
        *("blender_LDR/teapot_scene006/test/0003.png", "blender_LDR/baking_scene001/test_mask/0000.png"),
    ],
    "midintrinsics": [
        f"everett_kitchen5/{name}.exr" for name in ("albedo", "dir_7_mip2", "probes/dir_0_gray256")
    ],
    "iiw": ["data/116.png"],
    "saw": ["saw_images_512/116.png", LABELS, "saw_splits/test_ids.npy"],
    "maw": ["images_png/scene_2/IMG_1.png", "labels/scene_2/IMG_2_mask.png", "labels/scene_10/IMG_1.npy"],
    "multi-illumination": [
        f"everett_kitchen5/{name}"
        for name in ("dir_7_mip5.jpg", "materials_mip5.png", "probes/dir_0_chrome256.jpg")
    ],
    "photometric-stereo": ["apple/mask.png"],
    "cub200": ["CUB_200_2011/images/002.Laysan_Albatross/Laysan_0004_8.jpg"],
    "candle": ["7.png"],
    "tid2013": ["distorted_images/i02_13_5.bmp", "reference_images/i02.bmp"],
}
LISTS = {
    "cub200": [
        f"CUB_200_2011/{name}.txt"
        for name in ("classes", "image_class_labels", "parts/parts", "attributes/image_attribute_labels")
    ],
    "celebamask": ["CelebAMask-HQ-mask-anno/1", "CelebAMask-HQ-attribute-anno.txt"],
    "sintel": ["clean_noshadingtextures", "shading"],
    "interiorverse": ["dataset_85/test.txt", "dataset_85/L3D124S8"],
    "stanford-orb": ["ground_truth", "ground_truth/baking_scene001/pseudo_gt_albedo"],
    "photometric-stereo": ["apple/light_intensities_refined.txt"],
    "tid2013": ["mos_std.txt"],
    "dtd": ["dtd/labels/labels_joint_anno.txt"],
}
OTHERS = {
    "sintel": ["albedo_noshadingtextures/cave_4/frame_0001.png", "shading/cave_4/out_0004.png"],
    "stanford-orb": ["ground_truth/baking_scene001/pseudo_gt_albedo/0000.png"],
    "iiw": ["data/116.json"],
    "photometric-stereo": ["apple/I_0001.exr"],
    "cub70": ["AnnotationMasksPerclass/1/Albatross_0001_796_right_wing.png"],
    "celebamask": ["CelebAMask-HQ-mask-anno/1/02001_hat.png"],
}


def pairs(*tables):
    return [(name, file) for table in tables for name, files in table.items() for file in files]


def one_line(message):
    return rf"\A.*{message}.*\Z"


def read_all(name, root):
    data = READERS[name](root)
    return list(data), [getattr(data, extra, None) for extra in ("attributes", "metrics", "words")]


@pytest.mark.parametrize("name", READERS)
def test_a_missing_or_empty_folder_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with refused(one_line("nowhere.* is missing; get it from http")):
        READERS[name](tmp_path / "nowhere")
    with refused(one_line("empty.*(is missing; get it|found none; get them) from http")):
        READERS[name](tmp_path / "empty")


@pytest.mark.parametrize(("name", "file"), pairs(IMAGES, LISTS))
def test_a_missing_file_is_named(replaced, name, file):
    root = replaced(name, file, None)
    with refused(one_line(f"{file} is missing; get it from http")):
        read_all(name, root)


@pytest.mark.parametrize(("name", "file"), pairs(IMAGES, OTHERS))
@pytest.mark.parametrize("share", [0, 0.7])
def test_a_damaged_file_is_named(replaced, public_folder, name, file, share):
    whole = (public_folder(name) / file).read_bytes()
    root = replaced(name, file, whole[: int(share * len(whole))])
    with refused(one_line(f"{file}.*; get it again from http")):
        read_all(name, root)


def npy(array):
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def rows(*lines):
    return "".join(f"{line}\n" for line in lines)


def iiw(**changes):
    return json.dumps({**JUDGED, **changes})


def maw(*words):
    return "\t".join(words) + "\n"


def candle(**changes):
    entry = candle_entry(7)
    shown = next(iter(entry["objects"].values()))
    shown.update((name, changes.pop(name)) for name in shown.keys() & changes.keys())
    return json.dumps({**entry, **changes})


def png(*shape, dtype=np.uint16):
    return encode_png(np.zeros(shape, dtype))


ONES, LINE = np.ones((HEIGHT, WIDTH, 3)), hypersim_line(HYPERSIM[0])
ONE_FRAME = "line 2: expected the names of one frame, such as test/ai_001_010/rgb_"
ONE_SIZE = "expected images of one size, got "
IV_LINE = interiorverse_line(INTERIORVERSE[0])
CUB, MAPPING = "CUB_200_2011/{}.txt", "CelebA-HQ-to-CelebA-mapping.txt"
BIRD = "\n".join(f"{number} a/b.jpg" for number in range(2, 8))
WRONG = {
    ("mit", "data/box/mask.png"): [(png(3, 6), ONE_SIZE + "`image` 4 x 6 and `mask` 3 x 6")],
    ("mit", "data/box/shading.png"): [(png(4, 6, 3), "shading.png: expected gray, got another PNG")],
    ("mit", "data/box/diffuse.png"): [(png(4, 6), "diffuse.png: expected RGB, got another PNG")],
    ("arap", "Katie_albedo.png"): [(png(3, 6, 3), "Katie.png: " + ONE_SIZE + "`image` 4 x 6 and `refl")],
    ("hypersim", FRAME.format("albedo")): [
        (npy(1.01 * ONES), "albedo_cam_00_fr0000.npy: expected albedo from 0 to 1, got 1.01 to 1.01"),
        (npy(-0.1 * ONES), "expected albedo from 0 to 1, got -0.1 to"),
        (npy(ONES[..., 0]), r"expected floats of 3 axes, got float64 \[4, 6\]"),
    ],
    ("hypersim", FRAME.format("residual")): [
        (npy(ONES.transpose(2, 0, 1)), r"residual_cam_00_fr0000.npy: expected \[height, width, 3\], got"),
        (npy(ONES[:, 1:]), ONE_SIZE + "`image` 4 x 6 and `residual` 4 x 5"),
        (npy(ONES.astype(np.uint8)), r"expected floats of 3 axes, got uint8 \[4, 6, 3\]"),
    ],
    ("hypersim", "hypersim_test.txt"): [
        (" \n\n", "hypersim_test.txt: expected frames, found none; get them from"),
        (rows(LINE, LINE), f"line 2: expected one line for `{HYPERSIM[0]}`, got 'test/"),
        *(
            (rows(hypersim_line(HYPERSIM[1]), line), ONE_FRAME)
            for line in [
                *(LINE.replace("test/ai", "../ai"), LINE.replace("test/ai", "/ai")),
                *(hypersim_line(HYPERSIM[0], "vis"), hypersim_line("../cam_00_fr0000")),
                hypersim_line("ai_001_010/cam_00_fr0000/../../x"),
                LINE.replace("test/ai_001_010/albedo", "../secret/albedo"),
                LINE.replace("albedo_cam_00_fr0000", "albedo_cam_00_fr0001"),
                *(LINE.rpartition(" ")[0], LINE + " more.npy", LINE.replace("0000", "٠٠٠٠")),
                *(LINE.replace("cam_00", "cam\0_00"), LINE.replace(".png", ".png.npy")),
            ]
        ),
    ],
    ("sintel", "shading/cave_4/out_0009.png"): [
        ("", "expected as many frames of `cave_4` in all layers, got 2 in clean_no.*, 3 in shading"),
    ],
    ("sintel", "shading/cave_4/out_0003.png"): [
        (png(4, 6, 3), "out_0003.png: cannot be read as an image: .*expected 8 bits a channel, got 16"),
        (png(3, 6, 3, dtype=np.uint8), ONE_SIZE + "`image` 4 x 6 and `shading` 3 x 6"),
    ],
    ("interiorverse", "dataset_85/test.txt"): [
        ("\n", "test.txt: expected frames, found none; get them from"),
        ("../L3D187S3\n", "line 1: expected the name of a scene, got '../L3D187S3'"),
        ("/etc\n", "line 1: expected the name of a scene"),
        ("empty\n", "dataset_85/empty is missing"),
    ],
    ("interiorverse", "interiorverse_test_scenes_85.txt"): [
        ("\n", "interiorverse_test_scenes_85.txt: expected frames, found none"),
        *(
            (rows(IV_LINE, line), "line 2: expected scenes_85/<scene>/000_im.exr and its albedo, material")
            for line in [
                *(IV_LINE.replace("L3D187S3", ".."), IV_LINE.replace("scenes_85/", "/", 1)),
                *(IV_LINE.rpartition(" ")[0], IV_LINE + " more.exr"),
                *(IV_LINE.replace("000_albedo", "001_albedo"), IV_LINE.replace("000_im", "../x/000_im")),
            ]
        ),
    ],
    ("stanford-orb", "ground_truth/teapot_scene006/pseudo_gt_albedo/0003.png"): [
        (png(4, 5, 3, dtype=np.uint8), ONE_SIZE + "`image` 4 x 6 and `reflectance` 4 x 5"),
        (
            png(1000, 6, 3, dtype=np.uint8),
            "0003.png: expected 512 pixels a side or a multiple of it, got 1000",
        ),
        (png(1024, 5, 3, dtype=np.uint8), "or a multiple of it, got 1024 x 5; get it from"),
        (png(4, 6, 3), "expected 8 bits a channel, got 16"),
    ],
    ("stanford-orb", "blender_LDR/teapot_scene006/test_mask/0003.png"): [
        (
            png(4, 6, 3, dtype=np.uint8),
            "0003.png: cannot be read .* expected 8 bits a pixel as 1, L, P, got RGB",
        ),
    ],
    ("iiw", "data/116.json"): [
        (
            iiw(intrinsic_points=[judged_point(1, 1.0)]),
            "116.json: intrinsic_points.0.x: Input should be less",
        ),
        (iiw(intrinsic_points=None), "intrinsic_points: Input should be a valid array"),
        (
            iiw(intrinsic_comparisons=[comparison(1, 9, "E", 1.0)]),
            "points 1 and 9, not both listed; get it ag",
        ),
        (iiw(intrinsic_comparisons=[comparison(1, 2, "3", 1.0)]), "intrinsic_comparisons.0.darker: "),
        (iiw(intrinsic_comparisons=[comparison(1, 2, "E", np.inf)]), "intrinsic_comparisons.0.darker_score"),
    ],
    ("saw", LABELS): [
        (npy(np.full((HEIGHT, WIDTH), 3)), "116.npy: expected the labels 0, 1, 2 and 100, got 3"),
        (npy(np.zeros((HEIGHT, WIDTH))), r"expected integers of 2 axes, got float64 \[4, 6\]"),
        (npy(np.zeros((3, WIDTH), int)), ONE_SIZE + "`image` 4 x 6 and `labels` 3 x 6"),
    ],
    ("saw", "saw_splits/test_ids.npy"): [
        (npy(np.array([1, 1])), "test_ids.npy: a photograph is listed twice"),
        (npy(np.array([-4])), "test_ids.npy: expected numbers of photographs, got -4"),
    ],
    ("maw", "labels/scene_2/IMG_1.npy"): [
        (npy(np.ones((3, 4))), r"IMG_1.npy: expected colours \[n, 3\], got \[3, 4\]"),
        (npy(np.full((3, 3), np.nan)), r"expected linear colours from 0 to 1\.5, got nan to nan"),
        (npy(np.full((3, 3), 1.6)), r"expected linear colours from 0 to 1\.5, got 1.6 to 1.6"),
        (npy(np.ones((2, 3))), "_mask.png: expected 2 regions, .* and a background, got 4 values; "),
        (npy(np.ones((5, 3))), "_mask.png: expected 5 regions, .* and a background, got 4 values; "),
    ],
    ("maw", "labels/meta.csv"): [
        (maw("../../a", "m", "s", "p", "", "None"), "meta.csv: '../../a' leads out of .*/labels"),
        (maw("a", "/etc/passwd", "s", "p", "", "None"), "leads out of .*/labels"),
        (maw("a", "m", "s", "../../a", "", "None"), "leads out of .*/images_png"),
        (maw("a", "m", "s", "p", "", "../../../a"), "leads out of .*/labels"),
        (maw("a\0b", "m", "s", "p", "", "None"), "leads out of .*/labels"),
        (maw("a", "m", "s", "p", "", "None", "more"), "line 1: expected six columns: colours, mask"),
        (maw("a", "m", "s", "p", "", "None") * 2, "line 2: expected one row for `s/p`, got"),
        ("\n", "meta.csv: expected photographs, found none; get them from"),
    ],
    ("multi-illumination", "main_d424-11/meta.json"): [
        ("{", "meta.json: cannot be read as JSON: .*; get it again from"),
        ("[" * 100_000, "meta.json: cannot be read as JSON: .*; get it again from"),
    ],
    ("photometric-stereo", "apple/light_directions_refined.txt"): [
        (rows("1 0 0", "0.1 0.2", "0 0 1"), "refined.txt, line 2: expected three numbers, got '0.1 0.2'"),
        (rows("1 0 0", "0 0 z", "0 0 1"), "line 2: expected three numbers, got '0 0 z'"),
        (rows("1 0 0", "0 0 1"), "refined.txt: expected a line for each of 3 images, got 2 lines"),
    ],
    ("cub200", CUB.format("images")): [
        (f"1 ../../../secret.jpg\n{BIRD}\n", "'../../../secret.jpg' leads out of"),
        ("1\n", r"images\.txt, line 1: expected 1 and a name"),
        ("2 a/b.jpg\n", r"images\.txt, line 1: expected 1 and a name"),
    ],
    ("cub200", CUB.format("image_class_labels")): [
        (rows(*(f"{n} 1" for n in range(1, 7))), "labels.txt: 1 images are not in it, first 7"),
        ("4 72\n", "line 1: expected two whole numbers, an image of images.txt and 1 to 71"),
        ("1 one\n", "line 1: expected two whole numbers"),
    ],
    ("cub200", CUB.format("bounding_boxes")): [
        ("1 0 0 5 nan\n", "line 1: expected an image's number and 4 numbers"),
        ("1 0 0 5 5\n", "6 images are not in it, first 2"),
    ],
    ("cub200", CUB.format("parts/part_locs")): [("1 16 0 0 0\n", "and a point 1 to 15")],
    ("cub200", CUB.format("attributes/image_attribute_labels")): [
        ("1 3 0 1 2\n", "line 1: expected image, attribute 1 to 2"),
        ("1 1 0\n", "line 1: expected image, attribute"),
        ("1 1 0 5 2\n", "line 1: expected image, attribute"),
    ],
    ("celebamask", "CelebAMask-HQ-attribute-anno.txt"): [
        ("4\na b\n0.jpg 1 0\n", "line 3: expected an image and 2 of -1 and 1"),
        ("4\na b\n0.jpg 1\n", "line 3: expected an image and 2 of -1 and 1"),
        ("4\na b\n0.jpg 1 1\n", r"7\.jpg is not in it; get it from"),
        ("", r"0\.jpg is not in it"),
    ],
    ("dtd", "dtd/labels/labels_joint_anno.txt"): [("banded/banded_0002.jpg woven\n", "1: expected an image")],
    ("candle", "7.json"): [
        (candle(objects={}), "7.json: objects: .* at least 1 item"),
        (candle(objects=dict.fromkeys("ab", candle_entry(0)["objects"]["Cube_0"])), "at most 1 item"),
        (candle(scene=None), "scene: .* valid string"),
        (candle(lights=3), "lights: .* valid string"),
        (candle(lights=None), "some images have lights .* folder mixes two releases"),
        (candle(size="big"), r"objects\.Cube_0\.size.*valid number"),
        (candle(size=np.nan), r"objects\.Cube_0\.size.*finite number"),
        (candle(bounds=[[1, 2]]), r"\.bounds: .* at least 2 items"),
        (candle(bounds=[[1, 2], [3, 10**30]]), r"\.bounds\.1\.1: .* less"),
    ],
    ("tid2013", "mos_with_names.txt"): [
        ("5.5 ../../i01_01_1.bmp\n", r"line 1: expected a score and iRR_TT_L\.bmp"),
        ("5.5 i26_01_1.bmp\n", "line 1: expected a score"),
        ("nan i01_01_1.bmp\n", "line 1: expected a score"),
    ],
    ("tid2013", "mos_std.txt"): [
        ("0.1\n", "expected 8 lines, one per image, got 1"),
        ("x\n" * 8, "expected one number in each line"),
    ],
    ("tid2013", "metrics_values/PSNRHVS.txt"): [("1\n", "PSNRHVS.txt: expected 8 lines")],
}


@pytest.mark.parametrize(
    ("name", "file", "content", "message"), [(*key, *case) for key, cases in WRONG.items() for case in cases]
)
def test_a_wrong_file_is_named(replaced, name, file, content, message):
    root = replaced(name, file, content.encode() if isinstance(content, str) else content)
    with refused(one_line(message)):
        read_all(name, root)


@pytest.mark.parametrize(
    ("name", "options", "file", "content", "message"),
    [
        ("cub200", {"split": "train"}, CUB.format("train_test_split"), "1 2\n", "of images.txt and 0 to 1"),
        (
            *("cub70", {"split": "train"}, CUB.format("train_test_split")),
            *(rows(*(f"{n} 0" for n in range(1, 8))), "images of split train, found none; get them from"),
        ),
        ("celebamask", {"split": "val"}, MAPPING, "idx\n0 x 0.jpg\n", "line 2: expected a number, CelebA's"),
        ("celebamask", {"split": "val"}, MAPPING, "idx\n0 5 5.jpg\n", r"7\.jpg is not in it; get it"),
        ("dtd", {"split": "val"}, "dtd/labels/val1.txt", "a/a_2.jpg\n", r"1: expected <class>/<image>\.jpg"),
        ("dtd", {"split": "val"}, "dtd/labels/val1.txt", "banded/../../../a.jpg\n", "a.jpg' leads out of"),
    ],
)
def test_a_wrong_list_of_a_split_is_named(replaced, name, options, file, content, message):
    root = replaced(name, file, content.encode())
    with refused(one_line(message)):
        list(READERS[name](root, **options))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mit", {"split": "barron-test"}, r"data/deer is missing; get it from https"),
        ("mit", {"objects": ["teapot"]}, "data/teapot is missing; get it from"),
        ("mit", {"objects": ["../box"]}, "objects: expected names of objects, got '../box'"),
        ("mit", {"split": "grosse", "objects": ["box"]}, "objects without a split, got 'grosse'"),
        ("mit", {"split": "best"}, "split: expected all, set1, .*, got 'best'"),
        ("arap", {"scenes": "few"}, "must be one of: all, csm; got few"),
        ("hypersim", {"split": "val"}, "hypersim_val.txt is missing; get it from https"),
        ("hypersim", {"split": "vis"}, "must be one of: train, val, test; got vis"),
        ("sintel", {"split": "train"}, "split train needs `alley_1` in all layers; get it from https"),
        ("interiorverse", {"split": "train"}, "dataset_85/train.txt is missing; get it from https"),
        ("interiorverse", {"split": "all"}, "must be one of: train, val, test; got all"),
        ("stanford-orb", {"split": "full"}, "baking_scene002/pseudo_gt_albedo is missing; get it from https"),
        ("stanford-orb", {"split": "light"}, "teapot_scene001/pseudo_gt_albedo is missing"),
        ("midintrinsics", {"mip": 3}, "expected scenes with dir_<n>_mip3.exr, split all, found none"),
        ("iiw", {"split": "test"}, "data: expected 5230 photographs, .* got 2; .* or pass split='all'"),
        ("saw", {"split": "all"}, "must be one of: train, val, test; got all"),
        ("multi-illumination", {"mip": 2}, "dir_<n>_mip2.jpg, split all, found none; get them from"),
        ("multi-illumination", {"kind": "exr"}, "expected scenes with dir_<n>_mip5.exr"),
        ("multi-illumination", {"directions": [25]}, r"expected numbers from 0 to 24, got \[25\]"),
        ("multi-illumination", {"directions": []}, r"directions: expected numbers from 0 to 24, got \[\]"),
        ("photometric-stereo", {"objects": ["../apple"]}, "among apple, gourd1, got '../apple'"),
        ("cub200", {"split": "val"}, "must be one of: all, train, test; got val"),
        ("cub200", {"segmentations": True}, "segmentations is missing; get it from"),
        ("cub70", {"groups": {"wings": ["wing"]}}, "`wings` has a part `wing`; expected parts among body"),
        ("celebamask", {"groups": {"eyes": ["eye"]}}, "`eyes` has a part `eye`"),
        ("celebamask", {"split": "valid"}, "must be one of: all, train, val, test; .* did you mean `val`"),
        ("dtd", {"split": "test"}, r"test1\.txt is missing; get it from https"),
        ("dtd", {"split": "train", "fold": 11}, "and fold 1 to 10, got train 11"),
        ("dtd", {"split": "valid"}, "train, val or test, and fold 1 to 10, got valid 1"),
        ("mpi3d", {"sizes": None}, "expected 1036800 images, one for each point"),
        ("mpi3d", {"sizes": (2, 2)}, "`sizes`: expected 7 numbers"),
        ("mpi3d", {"sizes": (7, 2, 2, 3, 3, 2, 2)}, "`sizes`: expected 7 numbers"),
        ("mpi3d", {"sizes": (2, 2, 1, 1, 1, 2, 3)}, "expected 24 images"),
        ("mpi3d", {"variant": "complex"}, "shapes_ordered.npz is missing; get it from https"),
        ("mpi3d", {"variant": "fake"}, "toy, realistic, real, complex; got fake"),
        ("candle", {"codes": "paper"}, "must be one of: simulator, disentanglement_lib; got paper"),
    ],
)
def test_a_wrong_choice_is_refused(public_folder, name, options, message):
    with refused(one_line(message)):
        READERS[name](public_folder(name), **options)


def test_a_wrong_name_is_refused(public_folder, tmp_path):
    def copy(name):
        return READERS[name](public_folder(name))

    for call, message in (
        (lambda: copy("multi-illumination").rows("x"), "scene: expected one of everett_kitchen5, main_"),
        (lambda: copy("photometric-stereo").stack("x"), "object: expected one of apple, gourd1, got 'x'"),
        (lambda: copy("tid2013").rows("odd"), "`subset` must be one of: noise, actual"),
        (lambda: open_fivek(tmp_path, (8, 8), "f"), "`expert` must be one of: a, b, c, d, e; got f"),
    ):
        with refused(message):
            call()
