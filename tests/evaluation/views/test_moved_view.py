"""Open references with moved frames, made by hand and in packs."""

import json
import shutil

import numpy as np
import pytest
import torch

from candlelight.evaluation.views import View, open_data
from candlelight.loaders import pack_hdf5, pack_hub
from candlelight.loaders.frames import frame_path, write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import FactorInfo, array_sha256
from tests.refusals import refused

SCENES = (0, 1)
CELLS = {  # factors of every frame of a scene, by set; not in the order of their magnitudes
    "translation": [{"axis": axis, "translation": t} for t in (0.2, 0, 0.1) for axis in ("x", "y")],
    "parallax": [{"parallax": value} for value in (0.2, 0)],
    "scale": [{"scale": value} for value in (1, 1.5)],
    "illuminant": [{"hue": hue, "saturation": s} for hue in (611, -565) for s in (0, 8)],
    "still": [{"scene": 0}],
}
TRANSFORMS = ["translation x", "translation y", "parallax x", "scale", "illuminant 611", "illuminant -565"]


def pixel(set_name, scene, factors):
    """Return the gray of every pixel of a frame, different for each."""
    cells = [cell for name, some in CELLS.items() for cell in some]
    return 100 * scene + 5 * cells.index(factors) + len(set_name)


def numbered():
    """List set, index, scene and factors of all frames."""
    return [
        (name, index, scene, cell)
        for name, cells in CELLS.items()
        for index, (scene, cell) in enumerate((scene, cell) for scene in SCENES for cell in cells)
    ]


@pytest.fixture(scope="module")
def write(make_frame, info):
    """Return a function that writes the sets; the unit of a frame names its scene by default."""

    def write_frames(root, unit="scene={}"):
        sets = {}
        for name, cells in CELLS.items():
            factors = tuple(
                FactorInfo(
                    name=factor, kind="categorical", values=tuple(dict.fromkeys(c[factor] for c in cells))
                )
                for factor in cells[0]
            )
            varies = () if name == "still" else tuple(cells[0])
            update = {"layers": ("image",), "count": 2 * len(cells), "factors": factors, "varies": varies}
            sets[name] = info.sets["grid"].model_copy(update=update)
        write_dataset_info(root, info.model_copy(update={"sets": sets}))
        frame = make_frame("grid", 0)
        intrinsics = ((1673.06, 0, 16), (0, 1673.06, 12), (0, 0, 1))  # 8.75 degrees in 256 pixels
        for name, index, scene, cell in numbered():
            image = np.full_like(frame.layers["image"], pixel(name, scene, cell))
            update = {
                "id": f"{name}-{index:06d}",
                "set": name,
                "index": index,
                "unit": unit.format(scene),
                "factors": cell,
                "camera": frame.metadata.camera.model_copy(update={"intrinsics": intrinsics}),
                "checks": frame.metadata.checks.model_copy(update={"clipped": index / 100}),
                "layers": {"image": array_sha256(image)},
            }
            write_frame(root, Frame(frame.metadata.model_copy(update=update), {"image": image}))
        return root

    return write_frames


@pytest.fixture(scope="module")
def root(write, tmp_path_factory):
    return write(tmp_path_factory.mktemp("moved"))


@pytest.fixture
def without(root, tmp_path):
    """Return a function that copies the sets without some frames, chosen by set, scene and factors."""

    def copy(left_out):
        shutil.copytree(root, tmp_path / "copy")
        for name, index, scene, cell in numbered():
            if left_out(name, scene, cell):
                shutil.rmtree(frame_path(tmp_path / "copy", name, index))
        return tmp_path / "copy"

    return copy


def test_only_sets_in_which_the_factors_of_a_move_alone_vary_are_opened(without):
    root = without(lambda *_: False)
    info = json.loads((root / "dataset.json").read_text())
    info["sets"]["translation"]["varies"] = ["axis", "translation", "shape"]
    info["sets"]["scale"]["varies"] = []
    (root / "dataset.json").write_text(json.dumps(info))
    opened = {name.split("/")[0] for name in open_data("moved", root).ids}
    assert opened == {"parallax", "illuminant"}
    for name in ("translation", "scale", "still"):
        with refused(f"expected a set `{name}` in which a factor"):
            open_data("moved", root, set_name=name)


def test_a_limit_takes_scenes_that_all_transforms_have(without):
    lacks = {("translation", 0): {"axis": "y", "translation": 0.1}}
    view = open_data("moved", without(lambda name, scene, cell: lacks.get((name, scene)) == cell), limit=1)
    assert set(view.groups) == {"scene=1"}
    assert len(view) == len(TRANSFORMS)


def test_only_sets_of_the_chosen_transforms_are_opened(without):
    root = without(lambda set_name, *_: set_name == "illuminant")  # nothing of it is rendered
    with refused("no sample of set `illuminant` is complete"):
        open_data("moved", root)
    view = open_data("moved", root, transforms=("scale", "translation y"))
    assert {name.rpartition("/")[2] for name in view.ids} == {"scale", "translation y"}
    with refused("expected a set in which a factor"):
        open_data("moved", root, transforms=("rotation",))


def test_rows_hold_the_reference_and_all_magnitudes_of_a_scene(root, tmp_path):
    pack_hdf5(root, tmp_path / "h5")
    pack_hub(root, tmp_path / "hub")
    for place in (root, tmp_path / "h5", tmp_path / "hub"):
        view = open_data("moved", place)
        assert isinstance(view, View)
        assert len(view) == len(SCENES) * len(TRANSFORMS)
        assert view.incomplete == ()
        assert set(view.groups) == {"scene=0", "scene=1"}
        assert view.ids[0] in view.known_ids
        rows = {(item.transform, group): item for item, group in zip(view, view.groups, strict=True)}
        assert sorted({transform for transform, _ in rows}) == sorted(TRANSFORMS)

        shift = rows["translation y", "scene=1"]
        assert shift.unit == "degrees"
        assert shift.magnitudes.tolist() == [0, 0.1, 0.2]
        grays = [pixel("translation", 1, {"axis": "y", "translation": t}) for t in (0, 0.1, 0.2)]
        np.testing.assert_allclose(shift.moved[:, 1, 2, 3] * 255, grays, atol=1e-4)
        assert torch.equal(shift.reference, shift.moved[0])
        assert shift.clipped.tolist() == [0.09, 0.11, 0.07]
        assert shift.pixels_per_degree == pytest.approx(29.2, abs=1e-3)
        assert view.pixels_per_degree == (29.2,)

        aside = rows["parallax x", "scene=0"]
        assert (aside.unit, aside.magnitudes.tolist()) == ("degrees", [0, 0.2])
        assert torch.equal(aside.reference, aside.moved[0])
        assert rows["scale", "scene=0"].unit == "factor"
        assert rows["scale", "scene=0"].magnitudes.tolist() == [1, 1.5]
        light = rows["illuminant -565", "scene=0"]
        assert light.unit == "steps"
        assert light.magnitudes.tolist() == [0, 8]
        gray = pixel("illuminant", 0, {"hue": -565, "saturation": 0}) / 255
        assert float(light.reference.max()) == pytest.approx(gray)


def test_choices(root):
    assert open_data("moved", root, set_name="scale").ids == ("scale/scene=0/scale", "scale/scene=1/scale")
    assert open_data("moved", root, set_name="scale").identity.set_name == "scale"
    assert set(open_data("moved", root, limit=1).groups) == {"scene=0"}
    with refused(r"expected a set `still` in which a factor translation .and axis., parallax"):
        open_data("moved", root, set_name="still")


def test_scenes_that_lack_a_frame_are_left_out_and_named(without):
    def leave_out(name, scene, cell):
        lacks_reference = name == "scale" and scene == 0 and cell["scale"] == 1
        return lacks_reference or (scene == 1 and cell == {"axis": "x", "translation": 0.2})

    view = open_data("moved", without(leave_out))
    assert view.incomplete == ("translation/scene=1/translation x", "scale/scene=0/scale")
    assert not set(view.incomplete) & set(view.ids)


def test_a_magnitude_that_no_scene_has_is_not_missing(without):
    view = open_data("moved", without(lambda name, scene, cell: cell.get("translation") == 0.2))
    assert view.incomplete == ()
    assert view[0].magnitudes.tolist() == [0, 0.1]


@pytest.mark.parametrize("reference", [False, True])
def test_no_complete_scene(without, reference):
    root = without(
        lambda name, scene, cell: "translation" in cell and (cell["translation"] != 0) == reference
    )
    with refused("expected a scene with all magnitudes, got none; render"):
        open_data("moved", root, set_name="translation")


def test_scenes_that_share_a_unit_are_refused(write, tmp_path):
    with refused(r"expected one frame of `all` for translation x 0\.2, got two; name the"):
        open_data("moved", write(tmp_path, unit="all"))


def test_frames_without_moves(frames_root):
    with refused(r"or saturation .and hue. alone varies, got none; render the recipe invariance"):
        open_data("moved", frames_root)
