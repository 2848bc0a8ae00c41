import json

import numpy as np
import pytest

from candlelight.loaders.exports import export_coco
from candlelight.loaders.exports.export_coco import encode_mask
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import AssetRecord, PartRecord, array_sha256
from tests.refusals import refused

PARTS = {"cube": ("lid", "body"), "torus": ("lid",)}


def with_parts(record):
    parts = tuple(
        PartRecord(name=name, index=index, material="own", base_color=None)
        for index, name in enumerate(PARTS.get(record.type, ()), 1)
    )
    return record.model_copy(update={"parts": parts})


@pytest.fixture(scope="module")
def coco_frames(tmp_path_factory, make_frame, info):
    """Write frames of one to three objects, of none, and of one that no pixel shows."""
    root = tmp_path_factory.mktemp("coco")
    grid = info.sets["grid"].model_copy(update={"parts": PARTS})
    assets = [
        AssetRecord(kind="objects", label=label, sha256="0" * 64) for label in ("torus", "cone", "cube")
    ]
    changes = {"sets": {"grid": grid, "free": info.sets["free"]}, "assets": tuple(assets)}
    write_dataset_info(root, info.model_copy(update=changes))
    for name, index in [("grid", 0), ("grid", 1), ("grid", 2), ("grid", 5), ("free", 1)]:
        frame = make_frame(name, index)
        layers = dict(frame.layers)
        objects = [with_parts(one) for one in frame.metadata.objects]
        if index == 2:
            layers["object"] = np.where(layers["object"] == 2, 0, layers["object"]).astype(np.uint8)
        if index == 5:
            objects, layers["object"] = [], np.zeros_like(layers["object"])
        if name == "free":
            objects[0] = objects[0].model_copy(update={"type": "knots.py:trefoil", "parts": ()})
        hashes = {name: array_sha256(array) for name, array in layers.items()}
        metadata = frame.metadata.model_copy(update={"layers": hashes, "objects": tuple(objects)})
        write_frame(root, Frame(metadata, layers))
    return root


@pytest.fixture(scope="module")
def exported(coco_frames, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    assert export_coco(coco_frames, out).written == 5
    return out


def read(out, content, name="grid"):
    return json.loads((out / "annotations" / f"{content}_{name}.json").read_text())


def decode(segmentation):
    """Decode run lengths number by number."""
    (height, width), numbers, at = segmentation["size"], [], 0
    while at < len(segmentation["counts"]):
        number = shift = 0
        more = True
        while more:
            group = ord(segmentation["counts"][at]) - 48
            number |= (group % 32) << shift
            shift, at, more = shift + 5, at + 1, group >= 32
        if group & 16:
            number -= 1 << shift
        numbers.append(number + (numbers[-2] if len(numbers) > 2 else 0))
    pixels = [value for turn, run in enumerate(numbers) for value in [turn % 2 == 1] * run]
    return np.array(pixels, bool).reshape(width, height).T


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 70), (70, 1), (13, 200)], ids=str)
def test_masks_are_decoded_exactly(shape, share):
    mask = np.random.default_rng(0).random(shape) < share
    np.testing.assert_array_equal(decode(encode_mask(mask)), mask)


def test_annotations_are_the_visible_pixels(exported, coco_frames):
    grid, frames = read(exported, "instances"), FrameFolder(coco_frames, "grid")
    by_id = {one["id"]: frames.frame(row) for row, one in enumerate(grid["images"])}
    assert list(by_id) == [0, 1, 2, 5]
    seen = {(one["image_id"], one["object"]) for one in grid["annotations"]}
    assert seen == {(0, 1), (1, 1), (1, 2), (2, 1), (2, 3)}
    for one in grid["annotations"]:
        mask = by_id[one["image_id"]].layers["object"] == one["object"]
        np.testing.assert_array_equal(decode(one["segmentation"]), mask)
        rows, columns = np.nonzero(mask)
        left, top, width, height = one["bbox"]
        assert (left, top) == (columns.min(), rows.min())
        assert (left + width, top + height) == (columns.max() + 1, rows.max() + 1)
        assert (one["area"], one["iscrowd"]) == (mask.sum(), 0)
        assert one["id"] == one["image_id"] * 256 + one["object"]


def test_parts_are_in_a_file_of_their_own(exported, coco_frames):
    grid, parts, frames = (
        read(exported, "instances"),
        read(exported, "parts"),
        FrameFolder(coco_frames, "grid"),
    )
    objects = {one["id"]: one for one in grid["annotations"]}
    names = {one["id"]: one["name"] for one in parts["categories"]}
    assert list(names.values()) == ["cube body", "cube lid", "torus lid"]
    assert {one["supercategory"] for one in parts["categories"]} == {"cube", "torus"}
    assert parts["images"] == grid["images"]
    assert len(parts["annotations"]) == len({one["id"] for one in parts["annotations"]}) == 7
    rows = {one["id"]: row for row, one in enumerate(grid["images"])}
    for one in parts["annotations"]:
        layers, number = frames.frame(rows[one["image_id"]]).layers, objects[one["object_id"]]["object"]
        mask = (layers["object"] == number) & (layers["part"] == one["part"])
        np.testing.assert_array_equal(decode(one["segmentation"]), mask)
        assert names[one["category_id"]].endswith({1: "lid", 2: "body"}[one["part"]])


def test_categories_do_not_depend_on_the_chosen_sets(exported, coco_frames, tmp_path):
    own = {"id": 4, "name": "knots.py:trefoil", "supercategory": "object"}
    known = [
        {"id": number, "name": name, "supercategory": "object"}
        for number, name in enumerate(("cone", "cube", "torus"), 1)
    ]
    assert read(exported, "instances")["categories"] == read(exported, "instances", "free")["categories"]
    assert read(exported, "instances")["categories"] == [*known, own]
    export_coco(coco_frames, tmp_path, "grid")
    assert read(tmp_path, "instances")["categories"] == known
    assert read(tmp_path, "instances")["annotations"] == read(exported, "instances")["annotations"]
    assert {path.name for path in (tmp_path / "images").iterdir()} == {"grid"}


def test_licence_and_factors_are_told(exported, coco_frames):
    grid, metadata = read(exported, "instances"), FrameFolder(coco_frames, "grid").metadata(1)
    url = "https://spdx.org/licenses/CC-BY-4.0.html"
    assert grid["licenses"] == [{"id": 1, "name": "CC-BY-4.0", "url": url}]
    size = {"width": 32, "height": 24}
    told = {"sample": "grid-000001", "factors": metadata.factors}
    assert grid["images"][1] == {"id": 1, "file_name": "000001.png", **size, "license": 1, **told}
    image = (exported / "images" / "grid" / "000001.png").read_bytes()
    assert image == (FrameFolder(coco_frames, "grid").path(1) / "image.png").read_bytes()


def test_frames_without_parts_and_licence(coco_frames, tmp_path, info, make_frame):
    write_dataset_info(tmp_path / "frames", info.model_copy(update={"licence": ""}))
    write_frame(tmp_path / "frames", make_frame("grid", 0, drop=("part",)))
    layers = tuple(name for name in info.sets["grid"].layers if name != "part")
    grid = info.sets["grid"].model_copy(update={"layers": layers})
    write_dataset_info(tmp_path / "frames", info.model_copy(update={"licence": "", "sets": {"grid": grid}}))
    export_coco(tmp_path / "frames", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out" / "annotations").iterdir()] == ["instances_grid.json"]
    made = read(tmp_path / "out", "instances")
    assert made["licenses"] == []
    assert "license" not in made["images"][0]


def test_frames_without_objects_are_refused(concept_frames, tmp_path):
    with refused("expected a set with the layer `object`, got albedo"):
        export_coco(concept_frames, tmp_path / "out", "albedo")


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools
def test_pycocotools_reads_an_export(exported, coco_frames):
    pycocotools = pytest.importorskip("pycocotools.coco")
    from pycocotools import mask as masks
    from pycocotools.cocoeval import COCOeval

    frames = FrameFolder(coco_frames, "grid")
    truth = pycocotools.COCO(exported / "annotations" / "instances_grid.json")
    parts = pycocotools.COCO(exported / "annotations" / "parts_grid.json")
    assert sorted(truth.getImgIds()) == frames.indices.tolist()
    for one in truth.dataset["annotations"] + parts.dataset["annotations"]:
        layers = frames.frame(frames.indices.tolist().index(one["image_id"])).layers
        number = one.get("object") or truth.anns[one["object_id"]]["object"]
        mask = (layers["object"] == number) & (("part" not in one) | (layers["part"] == one.get("part", 0)))
        np.testing.assert_array_equal(truth.annToMask(one), mask)
        encoded = masks.encode(np.asfortranarray(mask, np.uint8))
        assert one["segmentation"] == {"size": encoded["size"], "counts": encoded["counts"].decode()}
        assert (one["area"], one["bbox"]) == (masks.area(encoded), masks.toBbox(encoded).tolist())
    for kind in ("bbox", "segm"):  # the truth, taken for detections, is detected
        scored = COCOeval(truth, truth.loadRes([{**a, "score": 1.0} for a in truth.anns.values()]), kind)
        scored.evaluate()
        scored.accumulate()
        scored.summarize()
        assert scored.stats[0] == 1.0
