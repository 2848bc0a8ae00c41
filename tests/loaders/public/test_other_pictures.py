"""Read RAID's tables, and FiveK as photographs for negatives."""

import struct
import zlib

import numpy as np
import pytest
from PIL import ImageCms

from candlelight.loaders.public import open_fivek, read_raid_responses, read_raid_trials
from tests.refusals import refused

pytest.importorskip("torch")


def tiff16(pixels, profile, deflate):
    """Encode a 16-bit RGB TIFF in one strip, which Pillow cannot write."""
    height, width, _ = pixels.shape
    data = pixels.astype("<u2").tobytes()
    data = zlib.compress(data) if deflate else data
    bits = struct.pack("<3H", 16, 16, 16)
    start = 8 + 2 + 12 * 11 + 4
    entries = [
        *((256, 4, 1, width), (257, 4, 1, height), (258, 3, 3, start)),
        *((259, 3, 1, 8 if deflate else 1), (262, 3, 1, 2), (273, 4, 1, start + 6 + len(profile))),
        *((277, 3, 1, 3), (278, 4, 1, height), (279, 4, 1, len(data)), (284, 3, 1, 1)),
        (34675, 7, len(profile), start + 6),
    ]
    head = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(entries))
    return head + b"".join(struct.pack("<HHII", *e) for e in entries) + bytes(4) + bits + profile + data


@pytest.mark.parametrize(("place", "deflate"), [("", False), ("img", True), ("processed", True)])
def test_fivek_expert_pictures_are_read(tmp_path, place, deflate):
    folder = tmp_path / place / "tiff16_c"
    folder.mkdir(parents=True)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pixels = np.full((12, 16, 3), (60000, 30000, 256), np.uint16)
    names = ["a0001-jmac_DSC1459.tif", "a0002-my  trip__1.tif"]
    for name in names:
        (folder / name).write_bytes(tiff16(pixels, profile, deflate))
    (folder / "._a0001.tif").write_bytes(b"\0")
    data = open_fivek(tmp_path, (6, 8))
    assert len(data) == 2
    assert [data[row]["id"] for row in range(2)] == names
    image = data[0]["image"]
    assert image.shape == (3, 6, 8)
    assert image[:, 3, 4].tolist() == pytest.approx([60000 >> 8, 30000 >> 8, 1], abs=1)


def test_fivek_with_only_raw_photographs_is_refused(tmp_path):
    folder = tmp_path / "raw_photos" / "HQa1to700" / "photos"
    folder.mkdir(parents=True)
    (folder / "a0001-jmac_DSC1459.dng").write_bytes(b"II*\0")
    with refused(r"only raw photographs \(\.dng\), which are not read; get tiff16_b"):
        open_fivek(tmp_path, (8, 8), "b")


TRIALS = (
    "gender,age_group,transformation,image_id_01,distortion_level_11,distortion_level_12,"
    "distortion_level_21,distortion_level_22,reaction_time_ms,answer\n"
)
CURVES = "Reference,Distorted,Curve_Value,Sigmas,Response,Estimated_MOS\n"


def test_raid_trials_and_responses_are_read(tmp_path):
    (tmp_path / "answers.csv").write_text(
        TRIALS + "man,41-50,rotation,1,2,1,4,6,3335,2\nwoman,18-30,gaussian_noise,24,10,3,3,7,976,1\n"
    )
    trials = read_raid_trials(tmp_path / "answers.csv")
    assert trials["transformation"].tolist() == ["rotation", "gaussian_noise"]
    assert trials["levels"].tolist() == [[[2, 1], [4, 6]], [[10, 3], [3, 7]]]
    assert trials["answer"].tolist() == [2, 1]
    assert trials["reaction"].tolist() == [3335, 976]
    assert trials["image"].tolist() == [1, 24]
    (tmp_path / "responses.csv").write_text(
        CURVES
        + "img_01.png,rot_img_01_level_02.png,0.1139236,0.2207109,0.5161664,5.16712431010986\n"
        + "img_02.png,gn_img_02_level_01.png,0,0.3,0,5.4356\n"
    )
    responses = read_raid_responses(tmp_path / "responses.csv")
    assert responses["transformation"].tolist() == ["rotation", "gaussian_noise"]
    assert responses["level"].tolist() == [2, 1]
    assert responses["image"].tolist() == [1, 2]
    np.testing.assert_allclose(responses["response"], responses["curve"] / responses["sigma"], rtol=1e-6)


@pytest.mark.parametrize(
    "line",
    [
        "man,41-50,rotation,1,2,1,4,6,3335",
        "man,41-50,rotation,1,2,1,4,6,3335,3",
        "man,41-50,turning,1,2,1,4,6,3335,2",
        "man,41-50,rotation,1,2,1,4,11,3335,2",
        "man,41-50,rotation,one,2,1,4,6,3335,2",
        "man,41-50,rotation,25,2,1,4,6,3335,2",
        "man,41-50,rotation,1,2,1,4,6,-1,2",
        f"man,41-50,rotation,1,2,1,4,6,1{'0' * 30},2",
        f"man,{'4' * 200000},rotation,1,2,1,4,6,3335,2",
        '"man,41-50,rotation,1,2,1,4,6,3335,2',
    ],
)
def test_raid_damaged_lines_are_refused(tmp_path, line):
    (tmp_path / "answers.csv").write_text(TRIALS + line + "\n")
    with refused(r"answers\.csv, line 2: expected gender,age_group"):
        read_raid_trials(tmp_path / "answers.csv")


def test_raid_other_columns_are_refused(tmp_path):
    (tmp_path / "answers.csv").write_text("a,b\n1,2\n")
    with refused("expected the columns gender,age_group"):
        read_raid_trials(tmp_path / "answers.csv")
    for name in ("blur_img_01_level_02", "rot_img_25_level_02", "rot_img_01_level_11"):
        (tmp_path / "responses.csv").write_text(f"{CURVES}img_01.png,{name}.png,1,1,1,1\n")
        with refused(r"responses\.csv, line 2: expected Reference"):
            read_raid_responses(tmp_path / "responses.csv")
