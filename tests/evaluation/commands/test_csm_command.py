"""`evaluate csm` on generated files in public layouts: Table 3 and test frames of Gupta et al. 2022."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.command_line import run

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
    """Write 48 scenes of ARAP, two under two lights, two scenes of MIW, and negatives."""
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
    for number in range(40):
        save(root / "photographs" / f"{number}.jpg", pixels(300, number))
    (root / "own.py").write_text(CODE)


@pytest.fixture
def root(tmp_path):
    write_table3(tmp_path / "data")
    return tmp_path / "data"


def test_natural_concept_sets_of_table_3(root, tmp_path):
    out, page = tmp_path / "csm.json", tmp_path / "page.html"
    natural = ("--albedo", "none", "--illumination", f"multi-illumination:{root / 'MIW'}:all")
    given = (f"arap:{root / 'ARAP'}", "--split", "csm", "--model", f"split={root / 'own.py'}:split")
    more = (
        "--negatives",
        root / "photographs",
        "--runs",
        3,
        "--permutations",
        19,
        "--device",
        "cpu",
        "--out",
        out,
    )
    run("evaluate", "csm", *given, *natural, *more, "--report", page)
    (result,) = json.loads(out.read_text())["results"]
    assert len(result["groups"]) == 42  # the test frames of the paper
    assert not {scene.lower() for scene in LEFT_OUT} & set(result["groups"])
    fixed = [{"scene": "everett_kitchen5"}, {"scene": "everett_lobby2"}]
    sets = result["details"]["sets"]
    assert [one["fixed"] for one in sets] == fixed
    assert {(one["concept"], one["images"], one["objects"]) for one in sets} == {("illumination", 25, None)}
    assert not any(name.startswith("csm_s") for name in result["scores"])
    groups = result["details"]["groups"]
    assert [(one["values"], one["sets"]["aligned"]) for one in groups] == [(one, 1) for one in fixed]
    for one, group in zip(sets, groups, strict=True):
        for branch, name in (("shading", "wanted"), ("reflectance", "unwanted")):
            expected = one[branch]["unaligned"]["sensitivity"]
            assert group["scores"]["unaligned"][name]["value"] == pytest.approx(expected)
    assert [one["runs"] for one in result["details"]["by_runs"]] == [2, 3] * 2
    assert page.read_text().count("<img") == 2 * (6 + 2)
