import json

import pytest
import torch
from torch import nn

from evaluation.coverage.heatmaps import Explanations, binarise, explanation_heatmap, set_threshold
from evaluation.coverage.protocol import layer_heatmaps, score_coverage
from evaluation.coverage.waiou import waiou
from evaluation.models.ground_truth import decode_image
from loaders.errors import InputError

HEIGHT, WIDTH = 8, 10


@pytest.fixture
def frames(memory_frames):
    """Six frames: a red cube of 8 pixels, a green cone of 8, and in every second frame another red cube."""
    image = torch.zeros(6, 3, HEIGHT, WIDTH, dtype=torch.uint8)
    objects = torch.zeros(6, HEIGHT, WIDTH, dtype=torch.uint8)
    names = []
    for row in range(6):
        objects[row, 0:2, row % 3 : row % 3 + 4] = 1
        objects[row, 6:8, 4:8] = 2
        names.append(["cube", "cone"])
        if row % 2:
            objects[row, 3:5, 5:9] = 3
            names[-1].append("cube")
    image[:, 0] = 255 * ((objects == 1) | (objects == 3))
    image[:, 1] = 255 * (objects == 2)
    return memory_frames({"image": image, "object": objects}, objects=names)


def _red(image):
    return image[:, :1]


def _green(image):
    return image[:, 1:2]


def _flat(image):
    return torch.zeros_like(image[:, :1])


def test_methods_that_see_one_part_each(frames):
    scores = score_coverage({"red": _red, "green": _green}, frames, strict=False, proportions=(0.1, 0.2))
    assert scores.methods == ("red", "green")
    assert scores.parts == ("cone", "cube")
    assert scores.best.parts[0, 0] < scores.best.parts[0, 1]
    assert scores.best.parts[1, 0] > scores.best.parts[1, 1]
    assert scores.best.labels[0].tolist() == [1] * 6
    assert scores.best.labels[1].tolist() == [0] * 6
    assert torch.equal(scores.score, scores.best.score)


def test_tables_equal_the_steps_by_hand(frames):
    methods = {"red": _red, "both": lambda image: image[:, :2]}
    arguments = {"k": 1, "proportions": (0.05, 0.15), "pooling": "set", "strict": True, "iou_threshold": 0.1}
    scores = score_coverage(methods, frames, **arguments)
    objects = torch.stack([sample["object"] for sample in frames.samples])
    masks = torch.stack([objects == 2, (objects == 1) | (objects == 3)], dim=1)
    images = decode_image(torch.stack([sample["image"] for sample in frames.samples]))
    for share, proportion in enumerate((0.05, 0.15)):
        binary = []
        for method in methods.values():
            explained = explanation_heatmap(method(images), 1)
            binary.append(binarise(explained.heatmap, set_threshold(explained, proportion), True))
        expected = waiou(torch.stack(binary), masks, 0.1)
        torch.testing.assert_close(scores.curve[:, share], expected.score)
    for method, name in enumerate(methods):
        best = scores.average_iou[method].argmax()
        assert scores.best_proportion[name] == (0.05, 0.15)[best]


def test_threshold_before_or_after_resizing(frames):
    def coarse(image):
        return nn.functional.avg_pool2d(image[:, :1], 2)

    marked = {}
    for place in ("mask", "map"):
        scores = score_coverage({"coarse": coarse}, frames, proportions=(0.05,), threshold_at=place)
        marked[place] = scores.average_iou
        images = decode_image(torch.stack([sample["image"] for sample in frames.samples]))
        explained = explanation_heatmap(coarse(images), 1)
        larger = explained.resized(HEIGHT, WIDTH)
        assert isinstance(larger, Explanations)
    assert marked["mask"] != marked["map"]


def test_layers_of_a_network(frames):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(inplace=True), nn.Dropout2d(0.5), nn.Conv2d(4, 6, 1)
    )
    methods = {layer: layer_heatmaps(model, layer) for layer in ("0", "1", "3")}
    scores = score_coverage(methods, frames, k=2, batch_size=4)
    assert scores.average_iou.shape == scores.curve.shape == (3, 10)
    assert score_coverage(methods, frames, k=2, batch_size=6).to_json() == scores.to_json()
    assert model.training


def test_parts_rows_and_json(frames):
    scores = score_coverage({"red": _red}, frames, part_of=["cube"], rows=[1, 3], proportions=(0.2,))
    result = json.loads(scores.to_json())
    assert result["parts"] == ["cube"]
    assert result["settings"]["frames"] == 2
    # Both cubes are 16 pixels, 0.2 of 80: the share that is asked for is what they are.
    assert result["best"]["parts"] == [[1.0]]
    assert result["best_proportion"] == {"red": 0.2}


def test_heatmaps_that_show_nothing(frames):
    scores = score_coverage({"flat": _flat}, frames, strict=True)
    assert scores.best.parts.tolist() == [[0, 0]]
    assert scores.best.labels.tolist() == [[-1] * 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": {}}, "expected at least one method, one frame and one proportion"),
        ({"rows": []}, "expected at least one method, one frame and one proportion"),
        ({"proportions": ()}, "expected at least one method, one frame and one proportion"),
        (
            {"part_of": ["torus"]},
            r"`part_of` must name object types .* got \['torus'\]; expected some of: cone, cube",
        ),
        ({"part_of": []}, "`part_of` must name object types"),
        ({"k": 2}, "`k` must be 1 to 1"),
    ],
)
def test_what_is_refused(frames, change, message):
    arguments = {"methods": {"red": _red}, **change}
    with pytest.raises(InputError, match=message):
        score_coverage(arguments.pop("methods"), frames, **arguments)


def test_parts_of_all_objects_count_by_name(memory_frames):
    objects = torch.zeros(1, HEIGHT, WIDTH, dtype=torch.uint8)
    part = torch.zeros_like(objects)
    objects[0, :, :3], objects[0, :, 5:] = 1, 2
    part[0, :4, :3], part[0, 4:, :3], part[0, :4, 5:], part[0, 4:, 5:] = 1, 2, 2, 1
    head = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
    head[:4, :3] = head[:4, 5:] = True
    image = torch.zeros(1, 3, HEIGHT, WIDTH, dtype=torch.uint8)
    image[0, 0] = 255 * head
    frames = memory_frames({"image": image, "object": objects, "part": part}, objects=[["bird", "fish"]])
    for record, names in zip(frames.samples[0]["objects"], (["head", "leg"], ["tail", "head"]), strict=True):
        record["parts"] = [{"name": name, "index": i} for i, name in enumerate(names, start=1)]
    shares = (float(head.float().mean()),)
    scores = score_coverage({"red": _red}, frames, by="part", proportions=shares)
    assert scores.parts == ("head", "leg", "tail")
    assert scores.best.mean_iou[0, 0] == 1
    assert scores.best.counts[0].tolist() == [1, 0, 0]
    assert scores.settings["by"] == "part"
    with pytest.raises(
        InputError, match=r"must name parts that the frames show, got \['beak'\]; .*: head, leg"
    ):
        score_coverage({"red": _red}, frames, by="part", part_of=["beak"])
    del frames.samples[0]["part"]
    with pytest.raises(InputError, match="has no `part` layer; render the set with it"):
        score_coverage({"red": _red}, frames, by="part")


def test_frames_without_objects_or_masks(memory_frames):
    image = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    with pytest.raises(InputError, match="has no `object` layer; render the set with it"):
        score_coverage({"red": _red}, memory_frames({"image": image}))
    empty = memory_frames({"image": image, "object": torch.zeros(1, 4, 4, dtype=torch.uint8)})
    with pytest.raises(InputError, match="none, the frames show no objects"):
        score_coverage({"red": _red}, empty)


def test_layer_without_maps():
    method = layer_heatmaps(nn.Sequential(nn.Flatten()), "0")
    with pytest.raises(InputError, match=r"layer `0` gives no maps: expected 4 axes, got \[1, 12\]"):
        method(torch.zeros(1, 3, 2, 2))
