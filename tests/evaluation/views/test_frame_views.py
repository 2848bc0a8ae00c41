"""Open views of frames as folders, HDF5, Hugging Face folders and readers."""

import shutil

import numpy as np
import pytest
import torch

from candlelight.evaluation.views import DataIdentity, open_data
from candlelight.evaluation.views.synthetic_judgements import synthetic_comparisons, synthetic_labels
from candlelight.loaders import FrameFolder, HubFrames, open_frames, pack_hdf5, pack_hub
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.frames import frame_path, write_dataset_info, write_frame
from candlelight.loaders.mixed_edges import mixed_edges
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.samples import Frame, group_rows
from candlelight.loaders.schema import array_sha256
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("datasets")


@pytest.fixture(scope="module")
def stored(tmp_path_factory, frames_root):
    """Pack the small data set as a whole, and its set `grid` in two splits."""
    folder = tmp_path_factory.mktemp("stored")
    plan = SplitPlan(factor="color", values={"test": ("blue",)})
    for pack, name in ((pack_hdf5, "h5"), (pack_hub, "hub")):
        pack(frames_root, folder / name)
        pack(frames_root, folder / f"{name} split", ["grid"], plan=plan)
    return folder


STORAGE = ["folder", "text", "h5", "h5 file", "hub", "hf", "reader"]


@pytest.fixture(params=STORAGE)
def open_grid(request, frames_root, stored):
    """Return a function that opens a view of the set `grid` in each storage."""
    place = {
        **{"folder": frames_root, "text": str(frames_root), "h5": stored / "h5", "hub": stored / "hub"},
        **{"h5 file": stored / "h5" / "grid.h5", "hf": f"hf:{stored / 'hub'}"},
        "reader": open_frames(frames_root, "grid"),
    }[request.param]
    named = {} if request.param in ("h5 file", "reader") else {"set_name": "grid"}
    return lambda kind, **options: open_data(kind, place, **named, **options)


@pytest.fixture
def write(tmp_path, make_frame, info):
    """Return a function that writes frames with changed metadata, and returns their folder."""

    def write_frames(changes=lambda *_: {}, drop=(), **set_changes):
        root = tmp_path / "-".join(("changed", *drop))
        kept = tuple(name for name in info.sets["grid"].layers if name not in drop)
        changed = info.sets["grid"].model_copy(update={"layers": kept, **set_changes})
        write_dataset_info(root, info.model_copy(update={"sets": {"grid": changed}}))
        for index in range(6):
            frame = make_frame("grid", index, drop=drop)
            metadata = frame.metadata.model_copy(update=changes(index, frame.metadata))
            write_frame(root, Frame(metadata, frame.layers))
        return root

    return write_frames


def first(layer):
    """Move channels first."""
    return np.moveaxis(layer.astype(np.float32), 2, 0)


# --------------------------------------------------------------------------------------------------- storage


def test_decompositions_are_equal_in_every_storage(open_grid, make_frame):
    view, layers = open_grid("decompositions"), make_frame("grid", 1).layers
    assert view.ids == tuple(f"grid-{row:06d}" for row in range(6))
    assert view.groups == tuple(f"unit-{row}" for row in range(6))
    assert view.known_ids == set(view.ids)
    assert view.explains == "image"
    item = view[1]
    for layer, name in {"image": "radiance", "reflectance": "albedo", "shading": "shading"}.items():
        np.testing.assert_array_equal(getattr(item, layer), first(layers[name]))
    np.testing.assert_array_equal(item.mask, (layers["albedo"] > 0).any(2))
    assert item.lights is None


def test_judgements_are_made_of_the_ground_truth_in_every_storage(open_grid, make_frame):
    view, layers = open_grid("judgements"), make_frame("grid", 1).layers
    truth = [np.moveaxis(layers[name], -1, 0) for name in ("albedo", "shading")]
    labels = synthetic_labels(*truth, layers["depth"], np.moveaxis(layers["normal"], -1, 0), layers["object"])
    assert (view.origin, view.groups) == ("synthetic", tuple(f"unit-{row}" for row in range(6)))
    item = view[1]
    np.testing.assert_array_equal(item.image, first(layers["radiance"]))
    np.testing.assert_array_equal(item.labels, labels)
    made = synthetic_comparisons("grid-000001", truth[0], layers["object"])
    for found, wanted in zip(vars(item.comparisons).values(), made, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("kind", "split"), [("folder", None), ("h5", "train"), ("hub", "train")])
def test_identity_ids_and_factors_are_equal_in_every_storage(frames_root, stored, kind, split):
    place = {"folder": frames_root}.get(kind, stored / kind)
    view = open_data("factors", place, set_name="free", rows=[4, 0])
    assert view.identity == DataIdentity("tiny", "frames", "free", split, "a" * 64)
    assert view.known_ids == {f"free-{index:06d}" for index in (0, 1, 2, 4, 5)}
    assert [factor.name for factor in view.factors] == ["shape", "angle"]
    np.testing.assert_array_equal(view.table, [[2.0, 62.5], [0.0, 0.0]])
    with refused(r"choose a set \(`set_name`\); expected one of: (grid, free|free, grid)\Z"):
        open_data("images", place)
    with refused("set `gird` is not there; expected one of: "):
        open_data("images", place, set_name="gird")
    with refused(r"split `test` is not there; expected one of: train\Z"):
        open_data("images", place, set_name="grid", split="test")


@pytest.mark.parametrize("kind", ["h5", "hub"])
def test_several_splits_need_a_name(stored, kind):
    place = stored / f"{kind} split"
    with refused(r"choose a split \(`split`\); expected one of: (train, test|test, train)\Z"):
        open_data("images", place, set_name="grid")
    views = [open_data("images", place, set_name="grid", split=split) for split in ("train", "test")]
    assert [view.identity.split for view in views] == ["train", "test"]
    assert sorted(name for view in views for name in view.ids) == [f"grid-{n:06d}" for n in range(6)]


def test_packs_of_the_hub_are_downloaded(stored, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    requested = []

    def download(name, *, repo_type, allow_patterns):
        requested.append((name, allow_patterns))
        return str(stored / "hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    view = open_data("images", "hf:user/tiny", set_name="grid")
    assert (len(view), requested) == (6, [("user/tiny", ["manifest.json"]), ("user/tiny", None)])
    assert open_data("decompositions", "hf:user/tiny", set_name="grid").ids == view.ids
    assert isinstance(view.named.reader, HubFrames)


def test_a_set_or_split_with_a_reader_is_refused(frames_root):
    reader = open_frames(frames_root, "grid")
    with refused("expected no set and no split with a reader, which is already open"):
        open_data("images", reader, split="train")
    assert open_data("images", reader, rows="1:3").ids == ("grid-000001", "grid-000002")


def test_rows_are_chosen_before_an_image_is_read(frames_copy):
    samples = frames_copy / "samples" / "grid" / "0000"
    for index in (0, 1, 2, 4):
        (samples / f"{index:06d}" / "layers.npz").write_bytes(b"")
        (samples / f"{index:06d}" / "image.png").write_bytes(b"")
    view = open_data("decompositions", frames_copy, set_name="grid", rows="5,3,1", limit=2)
    assert (len(view), view.ids, view.groups) == (2, ("grid-000005", "grid-000003"), ("unit-5", "unit-3"))
    assert view[1].image.shape == (3, 24, 32)


# ---------------------------------------------------------------------------------------------------- layers


@pytest.mark.parametrize("drop", [(), ("radiance",)])
def test_light_is_times_the_exposure(write, make_frame, drop):
    root, layers = write(drop=drop, exposure=0.25), make_frame("grid", 2).layers
    item = open_data("decompositions", root)[2]
    # Without radiance, the image is decoded, which has the exposure already.
    image = srgb_to_linear(layers["image"] / 255) if drop else layers["radiance"].astype(np.float32) / 4
    np.testing.assert_array_equal(item.image, first(image))
    np.testing.assert_array_equal(item.shading, first(layers["shading"]) / 4)
    np.testing.assert_array_equal(item.reflectance, first(layers["albedo"]))
    assert torch.equal(open_data("judgements", root)[2].image, item.image)


def replace_layers(root, frame, **layers):
    """Write a frame again with other layers."""
    hashes = frame.metadata.layers | {name: array_sha256(array) for name, array in layers.items()}
    metadata = frame.metadata.model_copy(update={"layers": hashes})
    shutil.rmtree(frame_path(root, metadata.set, metadata.index))
    write_frame(root, Frame(metadata, {**frame.layers, **layers}))


def test_channels_without_albedo_have_no_known_shading(frames_copy, make_frame):
    frame = make_frame("grid", 0)
    layers = {name: frame.layers[name].copy() for name in ("albedo", "shading")}
    layers["albedo"][:], layers["shading"][:] = (0.8, 0.4, 0.2), (1.0, 2.0, 6.0)
    for layer in layers.values():
        layer[:2, :, 2] = 0  # a surface without blue
        layer[0, 0] = 0  # black
    replace_layers(frames_copy, frame, **layers)
    item = open_data("decompositions", frames_copy, set_name="grid")[0]
    known = torch.from_numpy(np.moveaxis(layers["albedo"] > 0, 2, 0))
    assert torch.equal(item.shading_known, known)
    assert torch.equal(item.mask, known.any(0))
    assert item.shading[:, 1, 0].tolist() == [1, 2, 1.5]
    assert item.shading[:, -1, 0].tolist() == [1, 2, 6]
    assert item.reflectance[2, 1, 0] == 0


def test_the_image_alone_is_srgb(frames_root, make_frame):
    expected = first(make_frame("grid", 3).layers["image"]) / np.float32(255)
    for kind in ("images", "concepts", "factors"):
        np.testing.assert_array_equal(open_data(kind, frames_root, set_name="grid")[3], expected)
    np.testing.assert_array_equal(open_data("parts", frames_root, set_name="grid")[3].image, expected)


@pytest.mark.parametrize(
    ("kind", "options", "layers"),
    [
        ("images", {}, ("image",)),
        ("decompositions", {}, ("radiance", "albedo", "shading")),
        ("decompositions", {"leave_edges": 1}, ("radiance", "albedo", "shading", "object")),
        ("regions", {}, ("radiance", "albedo", "object")),
        ("judgements", {}, ("radiance", "albedo", "shading", "depth", "normal", "object")),
        ("parts", {}, ("image", "object")),
    ],
)
def test_only_layers_that_are_needed_are_read_and_must_exist(frames_copy, info, kind, options, layers):
    view = open_data(kind, frames_copy, set_name="grid", **options)
    assert view.named.reader.layers == layers
    for missing in {*layers} - {"radiance", "image"}:
        grid = info.sets["grid"]
        kept = tuple(name for name in grid.layers if name != missing)
        sets = {"grid": grid.model_copy(update={"layers": kept})}
        write_dataset_info(frames_copy, info.model_copy(update={"sets": sets}))
        with refused(f"set `grid` has no `{missing}` layer; expected {', '.join(layers)}: render"):
            open_data(kind, frames_copy, **options)


def test_layers_that_a_reader_leaves_out_are_missing(frames_root):
    reader = FrameFolder(frames_root, "grid", layers=["image"])
    with refused(r"\Aset `grid` has no `albedo` layer; expected image, albedo, shading: "):
        open_data("decompositions", reader)
    assert len(open_data("images", reader)) == 6


@pytest.mark.parametrize(("renderer", "explains"), [({}, "objects"), ({"blender": None}, "image")])
def test_frames_with_a_shadow_catcher_explain_only_objects(write, renderer, explains):
    """Frames that are not traced, whose checks have no error of identity either, have no shadow catcher."""

    def unchecked(_, metadata):
        checks = metadata.checks.model_copy(update={"identity_error": None})
        return {"checks": checks, "renderer": metadata.renderer.model_copy(update=renderer)}

    assert open_data("decompositions", write(unchecked)).explains == explains


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


@pytest.mark.parametrize("reach", [1, 2])
def test_pixels_at_edges_of_objects_leave_the_mask(painted, reach):
    whole, view = (open_data("decompositions", painted, leave_edges=edges) for edges in (0, reach))
    edges = mixed_edges(open_frames(painted, "grid").frame(1).layers["object"], reach)
    assert view[1].mask.any()
    assert torch.equal(view[1].mask, whole[1].mask & ~torch.from_numpy(edges))
    assert torch.equal(view[1].image, whole[1].image)
    assert view.identity.mask == f"without {reach} pixels at edges of objects"
    assert (whole.identity.mask, whole.identity.layout) == (None, view.identity.layout)


def test_regions_of_frames_are_objects_without_their_edges(painted):
    view = open_data("regions", painted)
    assert view.synthetic is True
    assert view.groups == ("unit-0", "unit-0", "unit-1", "unit-1", "unit-2", "unit-2")
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


# -------------------------------------------------------------------------------------------------- concepts


def test_concept_sets_agree_in_all_factors_but_one(frames_root):
    view = open_data("concepts", frames_root, set_name="grid")
    rows = group_rows(open_frames(frames_root, "grid"), ["color"])
    expected = [({"color": key[0]}, tuple(some.tolist())) for key, some in rows.items()]
    assert [(one.fixed, one.rows) for one in view.sets] == expected
    assert view.sets[0].rows == (0, 1, 2)
    view = open_data("concepts", frames_root, set_name="grid", rows=[5, 4, 1])  # numbered in the view
    expected = [({"color": "red"}, (2,)), ({"color": "blue"}, (0, 1))]
    assert [(one.fixed, one.rows) for one in view.sets] == expected
    assert open_data("concepts", frames_root, set_name="grid", limit=1).varies is None
    with refused("image set `free` is no concept set: its `varies` names no factor"):
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


# ---------------------------------------------------------------------------------------- parts and factors


def test_masks_by_type_and_by_part(write, make_frame):
    part = {"material": "matte", "base_color": None}

    def annotate(index, metadata):  # a cube with two parts, an invisible torus, and later a second cube
        parts = [
            {**part, "name": name, "index": place} for place, name in enumerate(("lid", "body"), start=1)
        ]
        cube = metadata.objects[0].model_dump() | {"parts": parts}
        objects = [cube] if index == 0 else [cube, {**cube, "type": "cone"}, cube][: 1 + index]
        fields = metadata.model_dump(by_alias=True) | {"objects": objects}
        return {"objects": type(metadata).model_validate(fields).objects}

    root, layers = write(annotate), make_frame("grid", 2).layers
    shown, part_layer = torch.from_numpy(layers["object"]), torch.from_numpy(layers["part"])
    view = open_data("parts", root, by="type")
    assert view[2].masks.keys() == {"cube", "cone"}
    assert torch.equal(view[2].masks["cube"], (shown == 1) | (shown == 3))
    assert torch.equal(view[2].masks["cone"], shown == 2)
    assert [view[row].label for row in range(3)] == ["cube", None, None]
    masks = open_data("parts", root, by="part")[2].masks
    assert torch.equal(masks["lid"], (shown > 0) & (part_layer == 1))
    assert torch.equal(masks["body"], (shown > 0) & (part_layer == 2))


def test_a_set_without_factors_is_refused(write):
    with refused("image set `grid` has no factors"):
        open_data("factors", write(factors=(), varies=()))
