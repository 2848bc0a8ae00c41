"""Open originals with their counterfactuals, made by hand and in packs."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.views import BACKGROUND_REGION, View, open_data
from candlelight.loaders import pack_hdf5, pack_hub
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256

PARTS = {"left": 1, "right": 2, "hidden": 3}
CHANGES = ("left", None, "same")  # of each original; None is the background


@pytest.fixture
def write(tmp_path, make_frame, info):
    """Return a function that writes a set of three originals and a set with their counterfactuals."""

    def repaint(objects, part, color):
        record = objects[0]
        parts = tuple(
            one.model_copy(update={"base_color": color}) if one.name == part else one for one in record.parts
        )
        return (record.model_copy(update={"parts": parts}), *objects[1:])

    def write_frames(edit=lambda objects: objects, originals=3):
        root = tmp_path / "pairs"
        grid = info.sets["grid"]
        layers = (*grid.layers, *(() if "part" in grid.layers else ("part",)))
        sets = {
            "one": grid.model_copy(
                update={"layers": layers, "count": originals, "parts": {"cube": tuple(PARTS)}}
            ),
            "one_changed": grid.model_copy(
                update={"layers": layers, "count": 9, "parts": {"cube": tuple(PARTS)}}
            ),
        }
        write_dataset_info(root, info.model_copy(update={"sets": sets}))
        for index in range(3):
            frame = make_frame("grid", index)
            shown = frame.layers["object"] == 1
            rows = np.arange(shown.shape[0])[:, None]
            part = np.where(shown, np.where(rows % 2, 1, 2), 0).astype(np.uint8)
            records = [
                {"name": name, "index": number, "material": "rgb", "base_color": (0.5, 0.5, 0.5)}
                for name, number in PARTS.items()
            ]
            cube = type(frame.metadata.objects[0]).model_validate(
                frame.metadata.objects[0].model_dump() | {"parts": records}
            )
            objects = (cube, *frame.metadata.objects[1:])

            def save(set_name, number, image, objects, of=None, frame=frame, part=part, index=index):
                made = {**frame.layers, "image": image, "part": part}
                update = {
                    "id": f"{set_name}-{number:06d}",
                    "set": set_name,
                    "index": number,
                    "unit": f"one/{index:06d}",
                    "objects": objects,
                    "counterfactual_of": of,
                    "layers": {name: array_sha256(array) for name, array in made.items()},
                }
                write_frame(root, Frame(frame.metadata.model_copy(update=update), made))

            image = frame.layers["image"]
            if index < originals:
                save("one", index, image, objects)
            for place, change in enumerate(CHANGES):
                its = edit(repaint(objects, change, (0.9, 0.0, 0.9)))
                new = image if change == "same" else 255 - image
                save("one_changed", 3 * index + place, new, its, f"one-{index:06d}")
        return root

    return write_frames


def test_counterfactuals_are_grouped_by_the_region_that_they_change(write, tmp_path):
    root = write()
    pack_hdf5(root, tmp_path / "h5")
    pack_hub(root, tmp_path / "hub")
    for place in (root, str(root), tmp_path / "h5", tmp_path / "hub"):
        view = open_data("counterfactuals", place)
        assert isinstance(view, View)
        assert view.ids == ("one-000000", "one-000001", "one-000002")
        assert view.groups == ("one/000000", "one/000001", "one/000002")
        for item in (view[0], view[-1]):
            assert list(item.changed) == ["left", BACKGROUND_REGION]  # an equal image is left out
            assert list(item.masks) == [*PARTS, BACKGROUND_REGION]
            covered = torch.stack([item.masks[name] for name in PARTS]).any(0)
            assert (item.masks[BACKGROUND_REGION] == ~covered).all()
            assert covered.any()
            for images in item.changed.values():
                torch.testing.assert_close(images, 1 - item.image[None], atol=1e-6, rtol=0)


def test_values_of_a_factor(write):
    view = open_data("counterfactuals", write())
    assert view.factor_values("size") == ("1.5", "2", "2.5")
    assert view.factor_values("kind") is None


def test_choices(write):
    root = write()
    assert len(open_data("counterfactuals", root, set_name="one", limit=2)) == 2
    with pytest.raises(InputError, match="expected a set `one_changed` with counterfactuals, got none"):
        open_data("counterfactuals", root, set_name="one_changed")


def test_an_original_that_is_missing_is_left_out(write):
    assert open_data("counterfactuals", write(originals=2)).ids == ("one-000000", "one-000001")


def test_frames_without_counterfactuals(frames_root):
    with pytest.raises(InputError, match="expected sets with counterfactuals, got none; render"):
        open_data("counterfactuals", frames_root)


def test_other_changes_of_objects_are_refused(write):
    def turn(objects):
        return (objects[0].model_copy(update={"rotation": 1.0}), *objects[1:])

    with pytest.raises(
        InputError, match="`one_changed-000000` differs from `one-000000` in objects as a whole"
    ):
        open_data("counterfactuals", write(turn))


def test_several_changed_parts_are_refused(write):
    def repaint(objects):
        parts = [part.model_copy(update={"material": "wood"}) for part in objects[0].parts]
        return (objects[0].model_copy(update={"parts": tuple(parts)}), *objects[1:])

    with pytest.raises(InputError, match="in hidden, left, right; expected the material of one part"):
        open_data("counterfactuals", write(repaint))
