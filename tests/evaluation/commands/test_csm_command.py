"""`evaluate csm` on generated files in public layouts: Table 3 and test frames of Gupta et al. 2022."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main

openexr = pytest.importorskip("OpenEXR")

SIZE = (16, 24)
LEFT_OUT = ("Katie", "redhead", "skin", "strawberries", "toad", "revolution")
SCENES = (*LEFT_OUT, *(f"scene{number}" for number in range(42)))
CODE = """
def split(image):
    shading = image.mean((1, 2), keepdim=True).expand_as(image) + 0.05
    return image / shading, shading
"""


def pixels(*seed):
    return np.random.default_rng(seed).integers(20, 236, (*SIZE, 3), np.uint8)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def write_table3(root):
    """Write 48 scenes of ARAP, two under two lights, two scenes of MIW, two objects of PS, and negatives."""
    for number, scene in enumerate(SCENES):
        lights = ("_light0", "_light1") if number in (2, 20) else ("",)
        save(root / "ARAP" / f"{scene}_albedo.png", pixels(number, 0))
        for place, light in enumerate(lights):
            save(root / "ARAP" / f"{scene}{light}.png", pixels(number, 1, place))
            save(root / "ARAP" / f"{scene}{light}_shading.png", pixels(number, 2, place))
    for number, scene in enumerate(("everett_kitchen5", "everett_lobby2")):
        base = pixels(100, number) / 255
        for direction in range(25):
            light = np.linspace(direction / 25, 1, SIZE[1])[:, None]
            save(root / "MIW" / scene / f"dir_{direction}_mip2.jpg", (255 * base * light).astype(np.uint8))
            save(root / "MIW" / scene / "probes" / f"dir_{direction}_chrome256.jpg", pixels(direction))
        save(root / "MIW" / scene / "materials_mip2.png", pixels(0)[..., 0])
    for number, name in enumerate(("apple", "gourd1")):
        folder = root / "PS" / name
        folder.mkdir(parents=True)
        base = pixels(200, number).astype(np.float16) / 64  # unbounded
        for row in range(20):
            image = base * np.linspace(row / 20, 1, SIZE[0], dtype=np.float16)[:, None, None]
            channels = {c: np.ascontiguousarray(image[..., place]) for place, c in enumerate("RGB")}
            openexr.File({"compression": openexr.ZIP_COMPRESSION}, channels).write(
                str(folder / f"I_{row:04d}.exr")
            )
        for table in ("directions", "intensities"):
            for end in ("", "_refined"):
                (folder / f"light_{table}{end}.txt").write_text("0.0 0.6 0.8\n" * 20)
        save(folder / "mask.png", np.ones(SIZE, np.uint8))
    for number in range(40):
        save(root / "photographs" / f"{number}.jpg", pixels(300, number))
    (root / "own.py").write_text(CODE)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("table3")
    write_table3(root)
    return root


def run(root, out, *words, split="csm"):
    fixed = (f"arap:{root / 'ARAP'}", "--split", split, "--model", f"split={root / 'own.py'}:split")
    data = ("--albedo", "none", "--negatives", str(root / "photographs"), "--runs", "3", "--device", "cpu")
    done = CliRunner().invoke(main, ["evaluate", "csm", *fixed, *data, *words, "--out", str(out)])
    assert done.exit_code == 0, (done.output, done.exc_info)
    (result,) = json.loads(out.read_text())["results"]
    return result


@pytest.mark.parametrize(
    ("option", "fixed", "images"),
    [
        (
            "multi-illumination:{}/MIW:all",
            [{"scene": "everett_kitchen5"}, {"scene": "everett_lobby2"}],
            25,
        ),
        ("photometric-stereo:{}/PS", [{"object": "apple"}, {"object": "gourd1"}], 20),
    ],
    ids=["MIW", "PS"],
)
def test_natural_concept_sets_of_table_3(root, tmp_path, option, fixed, images):
    page = tmp_path / "page.html"
    more = ("--illumination", option.format(root), "--limit", "8", "--report", str(page))
    result = run(root, tmp_path / "csm.json", *more)
    sets = result["details"]["sets"]
    assert [one["fixed"] for one in sets] == fixed
    assert {(one["concept"], one["images"], one["objects"]) for one in sets} == {
        ("illumination", images, None)
    }
    assert not any(name.startswith("csm_s") for name in result["scores"])
    groups = result["details"]["groups"]
    assert [(one["values"], one["sets"]["aligned"]) for one in groups] == [(one, 1) for one in fixed]
    for one, group in zip(sets, groups, strict=True):
        for branch, name in (("shading", "wanted"), ("reflectance", "unwanted")):
            expected = one[branch]["unaligned"]["sensitivity"]
            assert group["scores"]["unaligned"][name]["value"] == pytest.approx(expected)
    assert [one["runs"] for one in result["details"]["by_runs"]] == [2, 3] * 2
    assert page.read_text().count("<img") == 2 * (6 + 2)


def test_the_test_frames_of_the_paper_are_42_scenes(root, tmp_path):
    more = ("--illumination", f"photometric-stereo:{root / 'PS'}")
    assert len(run(root, tmp_path / "csm.json", *more)["groups"]) == 42
    every = run(root, tmp_path / "all.json", *more, split="all")["groups"]
    assert len(every) == 48
    assert set(every) - set(run(root, tmp_path / "csm.json", *more)["groups"]) == {
        scene.lower() for scene in LEFT_OUT
    }
