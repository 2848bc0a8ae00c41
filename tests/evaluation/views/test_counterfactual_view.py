"""Open originals with their counterfactuals, made by hand and in packs."""

import shutil

import numpy as np
import pytest
import torch

from candlelight.evaluation.views import BACKGROUND_REGION, View, open_data
from candlelight.evaluation.views.counterfactual_frames import changed_regions
from candlelight.loaders import pack_hdf5, pack_hub
from candlelight.loaders.frames import frame_path, write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256
from tests.refusals import refused

PARTS = {"left": 1, "right": 2, "hidden": 3}
CHANGES = ("left", None, "same")  # of each original; None is the background


def repaint(objects, part, color):
    record = objects[0]
    parts = (
        one.model_copy(update={"base_color": color}) if one.name == part else one for one in record.parts
    )
    return (record.model_copy(update={"parts": tuple(parts)}), *objects[1:])


@pytest.fixture(scope="module")
def write(make_frame, info):
    """Return a function that writes a set of three originals and a set with their counterfactuals."""

    def write_frames(root, edit=lambda objects: objects):
        grid = info.sets["grid"].model_copy(update={"parts": {"cube": tuple(PARTS)}})
        sets = {
            "one": grid.model_copy(update={"count": 3}),
            "one_changed": grid.model_copy(update={"count": 9}),
        }
        write_dataset_info(root, info.model_copy(update={"sets": sets}))
        for index in range(3):
            frame = make_frame("grid", index)
            rows = np.arange(frame.layers["object"].shape[0])[:, None]
            part = np.where(frame.layers["object"] == 1, np.where(rows % 2, 1, 2), 0).astype(np.uint8)
            records = [
                {"name": name, "index": number, "material": "rgb", "base_color": (0.5, 0.5, 0.5)}
                for name, number in PARTS.items()
            ]
            shown = frame.metadata.objects[0]
            cube = type(shown).model_validate(shown.model_dump() | {"parts": records})
            objects, image = (cube, *frame.metadata.objects[1:]), frame.layers["image"]
            frames = [("one", index, image, objects, None)]
            for place, change in enumerate(CHANGES):
                changed = edit(repaint(objects, change, (0.9, 0.0, 0.9)))
                new = image if change == "same" else 255 - image
                frames.append(("one_changed", 3 * index + place, new, changed, f"one-{index:06d}"))
            for set_name, number, new, changed, of in frames:
                made = {**frame.layers, "image": new, "part": part}
                update = {
                    "id": f"{set_name}-{number:06d}",
                    "set": set_name,
                    "index": number,
                    "unit": f"one/{index:06d}",
                    "objects": changed,
                    "counterfactual_of": of,
                    "layers": {name: array_sha256(array) for name, array in made.items()},
                }
                write_frame(root, Frame(frame.metadata.model_copy(update=update), made))
        return root

    return write_frames


@pytest.fixture(scope="module")
def root(write, tmp_path_factory):
    return write(tmp_path_factory.mktemp("pairs"))


def test_counterfactuals_are_grouped_by_the_region_that_they_change(root, tmp_path):
    pack_hdf5(root, tmp_path / "h5")
    pack_hub(root, tmp_path / "hub")
    for place in (root, str(root), tmp_path / "h5", tmp_path / "hub"):
        view = open_data("counterfactuals", place)
        assert isinstance(view, View)
        assert view.ids == ("one-000000", "one-000001", "one-000002")
        assert view.groups == ("one/000000", "one/000001", "one/000002")
        for item in (view[0], view[-1]):
            assert list(item.changed) == ["left", BACKGROUND_REGION]  # an equal image is left out
            kinds = [one.regions for one in item.changes]
            assert kinds == [{"left": "recoloured"}, {BACKGROUND_REGION: "scene"}]
            assert list(item.masks) == [*PARTS, BACKGROUND_REGION]
            covered = torch.stack([item.masks[name] for name in PARTS]).any(0)
            assert (item.masks[BACKGROUND_REGION] == ~covered).all()
            assert covered.any()
            for images in item.changed.values():
                torch.testing.assert_close(images, 1 - item.image[None], atol=1e-6, rtol=0)


def test_choices_and_values_of_a_factor(root):
    assert len(open_data("counterfactuals", root, set_name="one", limit=2)) == 2
    view = open_data("counterfactuals", root, set_name="one")
    assert view.factor_values("size") == ("1.5", "2", "2.5")
    assert view.factor_values("kind") is None
    with refused("expected a set `one_changed` with counterfactuals, got "):
        open_data("counterfactuals", root, set_name="one_changed")


def test_an_original_that_is_missing_is_left_out(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy")
    shutil.rmtree(frame_path(tmp_path / "copy", "one", 2))
    assert open_data("counterfactuals", tmp_path / "copy").ids == ("one-000000", "one-000001")


def test_frames_without_counterfactuals(frames_root):
    with refused("expected sets with counterfactuals, got none; render"):
        open_data("counterfactuals", frames_root)


def turn(objects):
    return (objects[0].model_copy(update={"rotation": 1.0}), *objects[1:])


def replace_material(objects):
    parts = tuple(part.model_copy(update={"material": "wood"}) for part in objects[0].parts)
    return (objects[0].model_copy(update={"parts": parts}), *objects[1:])


def test_other_changes_than_of_materials_are_refused(write, tmp_path):
    with refused("`one_changed-000000` differs from `one-000000` in objects as a whole"):
        open_data("counterfactuals", write(tmp_path, turn))


def remove_two(objects):
    gone = {"material": "absent", "base_color": None, "bbox": None, "area": 0}
    left, *others = objects[0].parts
    parts = (left, *(part.model_copy(update=gone) for part in others))
    return (objects[0].model_copy(update={"parts": parts, "area": 1}), *objects[1:])


@pytest.mark.parametrize(
    ("edit", "regions", "of_left"),
    [
        (replace_material, dict.fromkeys(PARTS, "recoloured"), dict.fromkeys(PARTS, "recoloured")),
        (
            remove_two,
            {"right": "removed", "hidden": "removed"},
            {"left": "recoloured", "right": "removed", "hidden": "removed"},
        ),
    ],
)
def test_several_regions_may_change(write, tmp_path, edit, regions, of_left):
    item = open_data("counterfactuals", write(tmp_path, edit))[0]
    assert [one.regions for one in item.changes] == [of_left, regions]
    assert item.changed == {}  # no image of one region alone


def test_a_part_that_one_of_two_objects_has_is_partly_there(make_frame):
    metadata = make_frame("grid", 0).metadata
    shown = metadata.objects[0].model_dump()

    def frame(*materials):
        beaks = [{"name": "beak", "index": 1, "material": one, "base_color": None} for one in materials]
        objects = tuple(type(metadata.objects[0]).model_validate(shown | {"parts": [one]}) for one in beaks)
        return metadata.model_copy(update={"objects": objects})

    for before, after, kind in (
        ("red red", "absent red", "partly"),
        ("red red", "absent absent", "removed"),
        ("red absent", "absent absent", "removed"),
        ("absent red", "red red", "partly"),
        ("red red", "blue red", "recoloured"),
    ):
        assert changed_regions(frame(*before.split()), frame(*after.split())) == {"beak": kind}
