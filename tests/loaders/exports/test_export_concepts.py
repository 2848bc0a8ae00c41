import shutil

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.exports import export_concepts
from candlelight.loaders.exports.export_concepts import concept_name
from candlelight.loaders.frames import frame_path, read_frame, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import SetInfo
from tests.loaders.exports.conftest import CONCEPTS
from tests.refusals import refused

ILLUMINATION = "cube_sphere_tex_mat0temp2500"


@pytest.mark.parametrize(
    ("varies", "changes", "name"),
    [
        ("material", {}, "cubelight1temp6500"),
        ("material", {"texturing": "textured"}, "cubetex_light1temp6500"),
        ("light_azimuth", {}, "cube_mat2temp6500"),
        ("light_azimuth", {"texturing": "textured"}, "cube_tex_mat2temp6500"),
        *(("material", {"scene": scene}, None) for scene in ("../a", "a/b", ".a", "")),
        ("material", {"temperature": "../a"}, None),
    ],
)
def test_names_follow_the_papers_grammar_and_stay_in_the_folder(varies, changes, name):
    described = SetInfo(count=1, width=8, height=8, layers=("image",), factors=CONCEPTS, varies=(varies,))
    factors = {"scene": "cube", "texturing": "rgb", "light_azimuth": 20, "temperature": 6500, "material": 2}
    if name:
        assert concept_name(described, factors | changes) == name
    else:
        with refused("expected (letters, digits|a number or a name)"):
            concept_name(described, factors | changes)


def test_images_lie_in_the_folders_of_the_papers_code(concept_frames, tmp_path):
    assert export_concepts(concept_frames, tmp_path).written == 3
    folder = tmp_path / "IID_data" / "concepts"
    written = {
        "cube_spheretex_light1temp2500/002.png": ("albedo", 0),
        f"{ILLUMINATION}/000.png": ("illumination", 1),
        f"{ILLUMINATION}/001.png": ("illumination", 2),
    }
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.png")} == set(written)
    for name, frame in written.items():
        image = read_frame(frame_path(concept_frames, *frame)).layers["image"]
        np.testing.assert_array_equal(np.asarray(Image.open(folder / name)), image)


def test_a_set_can_be_chosen(concept_frames, tmp_path):
    export_concepts(concept_frames, tmp_path / "a", "albedo")
    chosen = (tmp_path / "a" / "IID_data" / "concepts").iterdir()
    assert [path.name for path in chosen] == ["cube_spheretex_light1temp2500"]
    for name, message in {
        "grid": r"expected a set with the factors light_azimuth, material, scene.*, got grid",
        "albdo": "set `albdo` is not there; expected one of: albedo, illum",
    }.items():
        with refused(message):
            export_concepts(concept_frames, tmp_path / "b", name)
    assert not (tmp_path / "b").exists()


def test_two_samples_of_one_name_are_refused(concept_frames, tmp_path):
    """Published names omit other factors: two such samples would overwrite each other."""
    root = shutil.copytree(concept_frames, tmp_path / "frames")
    second = read_frame(frame_path(root, "illumination", 1))
    changes = {"index": 7, "id": "illumination-000007"}
    write_frame(root, Frame(second.metadata.model_copy(update=changes), second.layers))
    with refused(f"`illumination-000001` and `illumination-000007` would both be {ILLUMINATION}/000.png"):
        export_concepts(root, tmp_path / "csm")
