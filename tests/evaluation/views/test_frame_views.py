"""Open views of frames as folders, HDF5, Hugging Face folders and readers."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from candlelight.evaluation.views import (
    ConceptSets,
    DataIdentity,
    Decompositions,
    Factors,
    Images,
    Judgements,
    Parts,
    Regions,
    open_data,
)
from candlelight.evaluation.views.synthetic_judgements import synthetic_comparisons, synthetic_labels
from candlelight.loaders import FrameFolder, HubFrames, open_frames, pack_hdf5, pack_hub
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import frame_path, write_dataset_info, write_frame
from candlelight.loaders.mixed_edges import mixed_edges
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.samples import Frame, group_rows
from candlelight.loaders.schema import array_sha256

pytestmark = pytest.mark.usefixtures("datasets")


@pytest.fixture(scope="module")
def stored(tmp_path_factory, frames_root):
    """Pack the small data set as a whole and in two splits."""
    folder = tmp_path_factory.mktemp("stored")
    pack_hdf5(frames_root, folder / "h5")
    pack_hub(frames_root, folder / "hub")
    return folder


@pytest.fixture
def write(tmp_path, make_frame, info):
    """Return a function that writes frames with changed metadata, and returns their folder."""

    def write_frames(changes, set_name="grid", drop=(), **set_changes):
        root = tmp_path / "changed"
        kept = tuple(name for name in info.sets[set_name].layers if name not in drop)
        changed = info.sets[set_name].model_copy(update={"layers": kept, **set_changes})
        write_dataset_info(root, info.model_copy(update={"sets": {set_name: changed}}))
        for index in range(6):
            frame = make_frame(set_name, index, drop=drop)
            metadata = frame.metadata.model_copy(update=changes(index, frame.metadata))
            write_frame(root, Frame(metadata, frame.layers))
        return root

    return write_frames


def places(frames_root, stored):
    return [frames_root, str(frames_root), stored / "h5" / "grid.h5", stored / "h5", f"hf:{stored / 'hub'}"]


def test_decompositions_are_equal_in_every_storage(frames_root, stored, make_frame):
    frame = make_frame("grid", 1)
    layers = {
        name: torch.from_numpy(np.moveaxis(array, 2, 0).astype(np.float32))
        for name, array in frame.layers.items()
        if array.ndim == 3
    }
    for place in (*places(frames_root, stored), open_frames(frames_root, "grid")):
        requested = (
            {} if not isinstance(place, str | Path) or str(place).endswith(".h5") else {"set_name": "grid"}
        )
        view = open_data("decompositions", place, **requested)
        assert isinstance(view, Decompositions)
        assert view.ids == tuple(f"grid-{row:06d}" for row in range(6))
        assert view.groups == tuple(f"unit-{row}" for row in range(6))
        assert view.known_ids == set(view.ids)
        assert (view.identity.name, view.identity.layout, view.identity.set_name) == (
            "tiny",
            "frames",
            "grid",
        )
        assert view.identity.recipe == "a" * 64
        assert view.explains == "image"
        item = view[1]
        assert torch.equal(item.image, layers["radiance"])
        assert torch.equal(item.reflectance, layers["albedo"])
        assert torch.equal(item.shading, layers["shading"])
        assert torch.equal(item.mask, (layers["albedo"] > 0).any(0))
        assert item.lights is None


def test_identity_names_the_split_of_a_pack(frames_root, stored):
    of = [
        open_data("images", place, set_name="grid").identity
        for place in (frames_root, stored / "h5", stored / "hub")
    ]
    assert [identity.split for identity in of] == [None, "train", "train"]
    assert of[0] == DataIdentity("tiny", "frames", "grid", None, "a" * 64)


def test_radiance_and_shading_are_times_the_exposure(write, make_frame):
    root = write(lambda *_: {}, exposure=0.25)
    item, layers = open_data("decompositions", root)[2], make_frame("grid", 2).layers
    np.testing.assert_array_equal(item.image, np.moveaxis(layers["radiance"].astype(np.float32), 2, 0) / 4)
    np.testing.assert_array_equal(item.shading, np.moveaxis(layers["shading"].astype(np.float32), 2, 0) / 4)
    np.testing.assert_array_equal(item.reflectance, np.moveaxis(layers["albedo"].astype(np.float32), 2, 0))


def test_channels_without_albedo_have_no_known_shading(tmp_path, make_frame, info):
    frame = make_frame("grid", 0)
    layers = {name: array.copy() for name, array in frame.layers.items()}
    layers["albedo"][:], layers["shading"][:] = (0.8, 0.4, 0.2), (1.0, 2.0, 6.0)
    for name in ("albedo", "shading"):
        layers[name][:2, :, 2] = 0  # a surface without blue
        layers[name][0, 0] = 0  # black
    hashes = {name: array_sha256(array) for name, array in layers.items()}
    write_dataset_info(tmp_path, info)
    for index in range(6):
        other = make_frame("grid", index)
        write_frame(
            tmp_path, other if index else Frame(frame.metadata.model_copy(update={"layers": hashes}), layers)
        )
    item = open_data("decompositions", tmp_path, set_name="grid")[0]
    known = torch.from_numpy(np.moveaxis(layers["albedo"] > 0, 2, 0))
    assert torch.equal(item.shading_known, known)
    assert torch.equal(item.mask, known.any(0))
    assert item.shading[:, 1, 0].tolist() == [1, 2, 1.5]
    assert item.shading[:, -1, 0].tolist() == [1, 2, 6]
    assert item.reflectance[2, 1, 0] == 0


def test_without_radiance_the_image_is_decoded(write, make_frame):
    root = write(lambda *_: {}, drop=("radiance",), exposure=0.25)
    expected = srgb_to_linear(make_frame("grid", 0).layers["image"] / 255).astype(np.float32)
    np.testing.assert_array_equal(open_data("decompositions", root)[0].image, np.moveaxis(expected, 2, 0))


def test_the_image_alone_is_srgb(frames_root, make_frame):
    expected = np.moveaxis(make_frame("grid", 3).layers["image"].astype(np.float32) / 255, 2, 0)
    for kind in ("images", "concepts", "factors"):
        np.testing.assert_array_equal(open_data(kind, frames_root, set_name="grid")[3], expected)
    np.testing.assert_array_equal(open_data("parts", frames_root, set_name="grid")[3].image, expected)


def test_only_layers_that_are_needed_are_read(frames_root):
    assert open_data("images", frames_root, set_name="grid").named.reader.layers == ("image",)
    read = open_data("decompositions", frames_root, set_name="grid").named.reader.layers
    assert read == ("radiance", "albedo", "shading")


def test_frames_with_a_shadow_catcher_explain_only_objects(write):
    def catcher(_, metadata):
        return {"checks": metadata.checks.model_copy(update={"identity_error": None})}

    assert open_data("decompositions", write(catcher)).explains == "objects"


def test_frames_without_a_trace_have_no_catcher(write):
    def leaves(_, metadata):
        checks = metadata.checks.model_copy(update={"identity_error": None})
        return {"checks": checks, "renderer": metadata.renderer.model_copy(update={"blender": None})}

    assert open_data("decompositions", write(leaves)).explains == "image"


def test_missing_layers_are_refused(write, frames_root):
    root = write(lambda *_: {}, drop=("albedo", "object"))
    with pytest.raises(
        InputError, match=r"set `grid` has no `albedo` layer; expected radiance, albedo, shading: "
    ):
        open_data("decompositions", root)
    with pytest.raises(InputError, match=r"set `grid` has no `object` layer; expected image, object: render"):
        open_data("parts", root)
    reader = FrameFolder(frames_root, "grid", layers=["image"])
    with pytest.raises(
        InputError, match=r"^set `grid` has no `albedo` layer; expected image, albedo, shading: "
    ):
        open_data("decompositions", reader)
    assert len(open_data("images", reader)) == 6


def replace_layers(root, frame, **layers):
    """Write a frame again with other layers."""
    hashes = frame.metadata.layers | {name: array_sha256(array) for name, array in layers.items()}
    metadata = frame.metadata.model_copy(update={"layers": hashes})
    shutil.rmtree(frame_path(root, metadata.set, metadata.index))
    write_frame(root, Frame(metadata, {**frame.layers, **layers}))


@pytest.mark.parametrize("reach", [1, 2])
def test_pixels_at_edges_of_objects_leave_the_mask(write, info, reach):
    root = write(lambda *_: {})
    frames = open_frames(root, "grid")
    layer = np.zeros((24, 32), np.uint8)
    layer[5:15, 8:20], layer[15:, 8:20] = 1, 2
    for index in range(6):
        replace_layers(root, frames.frame(index), object=layer)
    whole, view = open_data("decompositions", root), open_data("decompositions", root, leave_edges=reach)
    assert view[1].mask.any()
    assert torch.equal(view[1].mask, whole[1].mask & ~torch.from_numpy(mixed_edges(layer, reach)))
    assert torch.equal(view[1].image, whole[1].image)
    assert view.identity.mask == f"without {reach} pixels at edges of objects"
    assert (whole.identity.mask, whole.identity.layout) == (None, view.identity.layout)
    assert view.named.reader.layers == ("radiance", "albedo", "shading", "object")


def test_edges_need_the_layer_of_objects(write):
    root = write(lambda *_: {}, drop=("object",))
    assert len(open_data("decompositions", root)) == 6
    with pytest.raises(InputError, match="set `grid` has no `object` layer"):
        open_data("decompositions", root, leave_edges=1)


@pytest.fixture
def painted(write):
    """Write frames of two objects on a background, one in a colour of its own in each frame."""
    root = write(lambda index, _: {"unit": f"unit-{index // 2}"})
    frames = open_frames(root, "grid")
    layer = np.zeros((24, 32), np.uint8)
    layer[2:14, 2:14], layer[4:20, 16:30] = 1, 2
    for index in range(6):
        albedo = np.full((24, 32, 3), 0.75, np.float16)
        albedo[layer == 1] = (0.5, 0.25, 0.125 * (index + 1))
        albedo[layer == 2] = (0.125, 0.25, 0.5)
        replace_layers(root, frames.frame(index), object=layer, albedo=albedo)
    return root


def test_regions_of_frames_are_objects_without_their_edges(painted):
    view = open_data("regions", painted)
    assert isinstance(view, Regions)
    assert view.synthetic is True
    assert view.groups == ("unit-0", "unit-0", "unit-1", "unit-1", "unit-2", "unit-2")
    assert view.named.reader.layers == ("radiance", "albedo", "object")
    item = view[3]
    expected = torch.zeros(24, 32, dtype=torch.int64)
    expected[4:12, 4:12], expected[6:18, 18:28] = 1, 2
    assert torch.equal(item.regions, expected)
    assert item.colours.tolist() == [[0.5, 0.25, 0.5], [0.125, 0.25, 0.5]]
    assert item.mask.all()
    assert torch.equal(item.image, open_data("decompositions", painted)[3].image)
    assert torch.equal(view[0].regions, item.regions)
    assert not torch.equal(view[0].colours, item.colours)
    assert item.image.shape == open_data("regions", painted, longest=3)[3].image.shape


# -------------------------------------------------------------------------------------------- rows and names


def test_rows_are_chosen_before_an_image_is_read(frames_copy):
    samples = frames_copy / "samples" / "grid" / "0000"
    for index in (0, 1, 2, 4):
        (samples / f"{index:06d}" / "layers.npz").write_bytes(b"")
        (samples / f"{index:06d}" / "image.png").write_bytes(b"")
    view = open_data("decompositions", frames_copy, set_name="grid", rows="5,3,1", limit=2)
    assert (len(view), view.ids, view.groups) == (2, ("grid-000005", "grid-000003"), ("unit-5", "unit-3"))
    assert view[1].image.shape == (3, 24, 32)
    assert view.known_ids == {f"grid-{row:06d}" for row in range(6)}


def test_known_ids_include_rows_that_are_left_out(frames_root, stored):
    for place in (frames_root, stored / "h5", stored / "hub"):
        known = open_data("images", place, set_name="free", rows="0:1").known_ids
        assert known == {f"free-{index:06d}" for index in (0, 1, 2, 4, 5)}


def test_several_sets_or_splits_need_a_name(frames_root, stored, tmp_path):
    for place in (frames_root, stored / "h5", stored / "hub"):
        with pytest.raises(
            InputError,
            match=r"choose a set \(`set_name`\); expected one of: (grid, free|free, grid)$",
        ):
            open_data("images", place)
        with pytest.raises(InputError, match=r"set `gird` is not there; expected one of: "):
            open_data("images", place, set_name="gird")
        with pytest.raises(InputError, match=r"split `test` is not there; expected one of: train$"):
            open_data("images", place, set_name="grid", split="test")
    plan = SplitPlan(factor="color", values={"test": ("blue",)})
    pack_hdf5(frames_root, tmp_path / "h5", ["grid"], plan=plan)
    pack_hub(frames_root, tmp_path / "hub", ["grid"], plan=plan)
    for place in (tmp_path / "h5", tmp_path / "hub"):
        with pytest.raises(
            InputError,
            match=r"choose a split \(`split`\); expected one of: (train, test|test, train)$",
        ):
            open_data("images", place, set_name="grid")
        views = [open_data("images", place, set_name="grid", split=split) for split in ("train", "test")]
        assert [view.identity.split for view in views] == ["train", "test"]
        assert sorted(name for view in views for name in view.ids) == [f"grid-{n:06d}" for n in range(6)]


def test_a_set_or_split_with_a_reader_is_refused(frames_root):
    reader = open_frames(frames_root, "grid")
    with pytest.raises(InputError, match="expected no set and no split with a reader, which is already open"):
        open_data("images", reader, split="train")
    assert open_data("images", reader, rows="1:3").ids == ("grid-000001", "grid-000002")


def test_judgements_of_frames_are_made_of_the_ground_truth(frames_root, stored, make_frame):
    layers = make_frame("grid", 1).layers
    truth = [np.moveaxis(layers[name], -1, 0) for name in ("albedo", "shading")]
    labels = synthetic_labels(*truth, layers["depth"], np.moveaxis(layers["normal"], -1, 0), layers["object"])
    for place in (*places(frames_root, stored), open_frames(frames_root, "grid")):
        requested = (
            {} if not isinstance(place, str | Path) or str(place).endswith(".h5") else {"set_name": "grid"}
        )
        view = open_data("judgements", place, **requested)
        assert isinstance(view, Judgements)
        assert (view.origin, view.groups) == ("synthetic", tuple(f"unit-{row}" for row in range(6)))
        item = view[1]
        assert torch.equal(item.image, torch.from_numpy(np.moveaxis(layers["radiance"], 2, 0)).float())
        np.testing.assert_array_equal(item.labels, labels)
        made = synthetic_comparisons("grid-000001", truth[0], layers["object"])
        for found, wanted in zip(vars(item.comparisons).values(), made, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_image_of_judgements_is_that_of_decompositions(write):
    root = write(lambda *_: {}, exposure=0.25)
    assert torch.equal(open_data("judgements", root)[2].image, open_data("decompositions", root)[2].image)


def test_image_of_judgements_without_radiance_is_decoded(write):
    root = write(lambda *_: {}, drop=("radiance",), exposure=0.25)
    assert torch.equal(open_data("judgements", root)[2].image, open_data("decompositions", root)[2].image)


@pytest.mark.parametrize("layer", ["albedo", "shading", "depth", "normal", "object"])
def test_judgements_need_the_ground_truth(write, layer):
    with pytest.raises(InputError, match=rf"has no `{layer}` layer; expected radiance, albedo, shading, dep"):
        open_data("judgements", write(lambda *_: {}, drop=(layer,)))


# -------------------------------------------------------------------------------------------------- concepts


def test_concept_sets_agree_in_all_factors_but_one(frames_root):
    view = open_data("concepts", frames_root, set_name="grid")
    assert isinstance(view, ConceptSets)
    frames = open_frames(frames_root, "grid")
    expected = [
        ({"color": key[0]}, tuple(rows.tolist())) for key, rows in group_rows(frames, ["color"]).items()
    ]
    assert [(one.fixed, one.rows) for one in view.sets] == expected
    assert view.sets[0].rows == (0, 1, 2)


def test_rows_of_concept_sets_are_numbered_in_the_view(frames_root):
    view = open_data("concepts", frames_root, set_name="grid", rows=[5, 4, 1])
    assert [(one.fixed, one.rows) for one in view.sets] == [
        ({"color": "red"}, (2,)),
        ({"color": "blue"}, (0, 1)),
    ]
    assert view.ids[2] == "grid-000001"


def test_a_set_without_a_varying_factor_is_refused(frames_root):
    with pytest.raises(InputError, match="image set `free` is no concept set: its `varies` names no factor"):
        open_data("concepts", frames_root, set_name="free")


def light(index, metadata):
    return {"lights": (metadata.lights[0].model_copy(update={"location": (index, 0.0, 2.0)}),)}


def recolour(index, metadata):
    cube = {"base_color": (index / 10, 0.5, 0.5)}
    return {"objects": tuple(record.model_copy(update=cube) for record in metadata.objects[:1])}


def alike(_, metadata):
    return {"objects": metadata.objects[:1]}


def moved(index, metadata):
    return {"objects": (metadata.objects[0].model_copy(update={"rotation": float(index)}),)}


def viewed(index, metadata):
    first, *rest = metadata.camera.world_to_camera
    pose = ((*first[:3], float(index)), *rest)
    return {"camera": metadata.camera.model_copy(update={"world_to_camera": pose})}


@pytest.mark.parametrize(
    ("changes", "varies"),
    [
        ((alike, light), "illumination"),
        ((alike, recolour), "albedo"),
        ((alike,), "albedo"),  # only the pixels of the albedo differ
        ((moved,), "pose"),
        ((alike, viewed), "camera"),
        ((moved, viewed), None),
        ((moved, light), "illumination"),
        ((recolour, light), None),
    ],
)
def test_the_varying_concept_is_found(write, changes, varies):
    root = write(lambda *of: {name: value for change in changes for name, value in change(*of).items()})
    assert open_data("concepts", root).varies == varies


def test_objects_are_counted_where_their_number_is_fixed(write):
    def growing(index, metadata):  # the second set, of rows 3 to 5, has as many in its first and last row
        return {"objects": metadata.objects[:1] * (1 + (index == 2))}

    assert [one.objects for one in open_data("concepts", write(growing)).sets] == [None, 1]


def test_the_varying_concept_of_one_row_is_unknown(frames_root):
    assert open_data("concepts", frames_root, set_name="grid", limit=1).varies is None


# ---------------------------------------------------------------------------------------- parts and factors


@pytest.fixture
def annotated(write, info):
    """Write frames of a cube with two parts, an invisible torus, and later a second cube."""
    part = {"material": "matte", "base_color": None}

    def change(index, metadata):
        named = [
            {**part, "name": name, "index": place} for place, name in enumerate(("lid", "body"), start=1)
        ]
        cube = metadata.objects[0].model_dump() | {"parts": named}
        objects = [cube] if index == 0 else [cube, {**cube, "type": "cone"}, cube][: 1 + index]
        fields = metadata.model_dump(by_alias=True) | {"objects": objects}
        return {"objects": type(metadata).model_validate(fields).objects}

    return write(change)


def test_masks_by_type_and_by_part(annotated, make_frame):
    layers = make_frame("grid", 2).layers
    shown, part = torch.from_numpy(layers["object"]), torch.from_numpy(layers["part"])
    view = open_data("parts", annotated, by="type")
    assert isinstance(view, Parts)
    assert view[2].masks.keys() == {"cube", "cone"}
    assert torch.equal(view[2].masks["cube"], (shown == 1) | (shown == 3))
    assert torch.equal(view[2].masks["cone"], shown == 2)
    assert [view[row].label for row in range(3)] == ["cube", None, None]
    masks = open_data("parts", annotated, by="part")[2].masks
    assert torch.equal(masks["lid"], (shown > 0) & (part == 1))
    assert torch.equal(masks["body"], (shown > 0) & (part == 2))


@pytest.mark.parametrize("kind", ["folder", "h5", "hub"])
def test_factors_of_chosen_rows_are_opened(frames_root, stored, kind):
    place = {"folder": frames_root, "h5": stored / "h5", "hub": stored / "hub"}[kind]
    view = open_data("factors", place, set_name="free", rows=[4, 0])
    assert isinstance(view, Factors)
    assert [factor.name for factor in view.factors] == ["shape", "angle"]
    np.testing.assert_array_equal(view.table, [[2.0, 62.5], [0.0, 0.0]])


def test_a_set_without_factors_is_refused(write):
    root = write(lambda *_: {}, factors=(), varies=())
    with pytest.raises(InputError, match="image set `grid` has no factors"):
        open_data("factors", root)


def test_packs_of_the_hub_are_downloaded(stored, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    requested = []

    def download(name, *, repo_type, allow_patterns):
        requested.append((name, allow_patterns))
        return str(stored / "hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    view = open_data("images", "hf:user/tiny", set_name="grid")
    assert isinstance(view, Images)
    assert (len(view), requested) == (6, [("user/tiny", ["manifest.json"]), ("user/tiny", None)])
    assert open_data("decompositions", "hf:user/tiny", set_name="grid").ids == view.ids
    assert isinstance(view.named.reader, HubFrames)
