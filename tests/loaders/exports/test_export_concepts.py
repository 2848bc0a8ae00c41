import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.exports import export_concepts
from candlelight.loaders.exports.export_concepts import concept_name
from candlelight.loaders.frames import frame_path, read_frame, write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import FactorInfo, SetInfo


def set_info(varies):
    names = ("scene", "texturing", "light_azimuth", "temperature", "material")
    values = (("cube", "cube_sphere"), ("rgb", "textured"), (-60, 20), (2500, 6500), (0, 1, 2))
    factors = tuple(
        FactorInfo(name=name, kind="categorical", values=some)
        for name, some in zip(names, values, strict=True)
    )
    return SetInfo(count=1, width=8, height=8, layers=("image",), factors=factors, varies=varies)


@pytest.mark.parametrize(
    ("varies", "texturing", "name"),
    [
        ("material", "rgb", "cubelight1temp6500"),
        ("material", "textured", "cubetex_light1temp6500"),
        ("light_azimuth", "rgb", "cube_mat2temp6500"),
        ("light_azimuth", "textured", "cube_tex_mat2temp6500"),
    ],
)
def test_names_follow_the_papers_grammar(varies, texturing, name):
    factors = {
        "scene": "cube",
        "texturing": texturing,
        "light_azimuth": 20,
        "temperature": 6500,
        "material": 2,
    }
    assert concept_name(set_info((varies,)), factors) == name


@pytest.mark.parametrize("scene", ["../a", "a/b", ".a", ""])
def test_a_scene_cannot_lead_out_of_the_folder(scene):
    factors = {"scene": scene, "texturing": "rgb", "light_azimuth": 20, "temperature": 6500, "material": 2}
    with pytest.raises(InputError, match="expected letters, digits"):
        concept_name(set_info(("material",)), factors)


@pytest.fixture
def root(tmp_path, make_frame, info):
    """Write one frame of an albedo set and two of an illumination set."""
    folder = tmp_path / "frames"
    sets = {"albedo": set_info(("material",)), "illumination": set_info(("light_azimuth",))}
    sets = {name: one.model_copy(update={"width": 32, "height": 24}) for name, one in sets.items()}
    write_dataset_info(folder, info.model_copy(update={"sets": {**sets, **info.sets}}))
    for index, (name, azimuth, material) in enumerate(
        [("albedo", 20, 2), ("illumination", -60, 0), ("illumination", 20, 0)]
    ):
        made = make_frame("grid", index)
        factors = {"scene": "cube_sphere", "texturing": "textured", "temperature": 2500}
        factors |= {"light_azimuth": azimuth, "material": material}
        changes = {"set": name, "index": index, "id": f"{name}-{index:06d}", "factors": factors}
        changes["layers"] = {"image": made.metadata.layers["image"]}
        layers = {"image": made.layers["image"]}
        write_frame(folder, Frame(made.metadata.model_copy(update=changes), layers))
    return folder


WRITTEN = {
    "cube_spheretex_light1temp2500/002.png": ("albedo", 0),
    "cube_sphere_tex_mat0temp2500/000.png": ("illumination", 1),
    "cube_sphere_tex_mat0temp2500/001.png": ("illumination", 2),
}


def test_images_lie_in_the_folders_of_the_papers_code(root, tmp_path):
    out = tmp_path / "csm"
    assert export_concepts(root, out) == {
        "cube_spheretex_light1temp2500": 1,
        "cube_sphere_tex_mat0temp2500": 2,
    }
    folder = out / "IID_data" / "concepts"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(
        WRITTEN
    )
    for name, (set_name, index) in WRITTEN.items():
        frame = read_frame(frame_path(root, set_name, index))
        np.testing.assert_array_equal(np.asarray(Image.open(folder / name)), frame.layers["image"])


def test_an_export_continues_after_a_stop(root, tmp_path):
    out = tmp_path / "csm"
    export_concepts(root, out)
    kept, lost = (out / "IID_data" / "concepts" / name for name in list(WRITTEN)[:2])
    kept.write_bytes(b"kept")
    lost.unlink()
    assert sum(export_concepts(root, out).values()) == 3
    assert kept.read_bytes() == b"kept"
    assert lost.is_file()


def test_a_set_can_be_chosen(root, tmp_path):
    assert list(export_concepts(root, tmp_path / "a", "albedo")) == ["cube_spheretex_light1temp2500"]
    with pytest.raises(InputError, match=r"expected a set with the factors .*; got grid"):
        export_concepts(root, tmp_path / "b", "grid")
    with pytest.raises(InputError, match="set `albdo` is not in `tiny`; expected one of: albedo, illum"):
        export_concepts(root, tmp_path / "b", "albdo")
    words = ["export", str(root), "--to", "concepts", "--set", "illumination", "--out", str(tmp_path / "c")]
    assert CliRunner().invoke(main, words).output.endswith("c: 2 images in 1 concept sets\n")


def test_two_samples_of_one_name_are_refused(root, tmp_path):
    """Published names omit other factors: two such samples would overwrite each other."""
    second = read_frame(frame_path(root, "illumination", 1))
    changes = {"index": 7, "id": "illumination-000007"}
    write_frame(root, Frame(second.metadata.model_copy(update=changes), second.layers))
    message = (
        "`illumination-000001` and `illumination-000007` would both be cube_sphere_tex_mat0temp2500/000.png"
    )
    with pytest.raises(InputError, match=message):
        export_concepts(root, tmp_path / "csm")


@pytest.mark.parametrize("damage", ["cut", "pixel"])
def test_a_damaged_image_is_not_exported(root, tmp_path, damage):
    path = frame_path(root, "illumination", 1) / "image.png"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-30])
    else:
        pixels = np.asarray(Image.open(path)).copy()
        pixels[3, 4, 1] ^= 1
        Image.fromarray(pixels).save(path)
    with pytest.raises(InputError, match="000001"):
        export_concepts(root, tmp_path / "csm")
    assert not list((tmp_path / "csm").rglob("000.png"))


def test_frames_without_concept_sets_are_refused(frames_root, tmp_path):
    with pytest.raises(InputError, match="expected a set with the factors light_azimuth, material, scene"):
        export_concepts(frames_root, tmp_path / "csm")
    assert not (tmp_path / "csm").exists()


def test_the_command_exports(root, tmp_path):
    out = tmp_path / "csm"
    done = CliRunner().invoke(main, ["export", str(root), "--to", "concepts", "--out", str(out)])
    assert (done.exit_code, done.output) == (0, f"{out}: 3 images in 2 concept sets\n"), done.output
