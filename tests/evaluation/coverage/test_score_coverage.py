import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.control_explainers import CONTROLS, MASK_CONTROLS
from candlelight.evaluation.coverage.explained_images import ExplainedImages
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.score_coverage import layer_heatmaps
from candlelight.evaluation.coverage.waiou import CoverageStatistic, weigh_iou
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.predictions import open_heatmaps
from candlelight.evaluation.views import PartImage
from candlelight.evaluation.views.image_tensors import decode
from tests.refusals import refused

HEIGHT, WIDTH = 8, 10


@pytest.fixture
def view(memory_view):
    """Six images: a red cube and a green cone of 8 pixels each; every second image has another red cube."""
    items = []
    for row in range(6):
        cube = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
        cone = cube.clone()
        cube[0:2, row % 3 : row % 3 + 4] = True
        cone[6:8, 4:8] = True
        if row % 2:
            cube[3:5, 5:9] = True
        image = torch.stack([cube, cone, torch.zeros_like(cube)]).float()
        items.append(PartImage(image, {"cube": cube, "cone": cone}))
    return memory_view(items, groups=list("aabbcc"))


def cover(methods, view, labels=None, **options):
    data = view if labels is None else ExplainedImages(view, labels=labels)
    return evaluate("coverage", data, methods, device="cpu", **{"quick": True, **options})


def _red(image):
    return image[:, :1]


def test_dead_maps_score_zero_and_are_listed(view):
    def broken(image):
        maps = image[:, :1].clone()
        maps[0, 0, 0, 0] = torch.nan
        return maps

    methods = {"flat": lambda image: 0 * image[:, :1], "right": lambda image: image[:, :2], "broken": broken}
    results = cover(methods, view, batch_size=6)
    assert {name: one.failed for name, one in results.items()} == {
        **{"flat": view.ids, "right": (), "broken": view.ids[:1]}
    }
    assert results["flat"].score == 0 < results["right"].score


def test_layers_of_a_network(view):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(inplace=True), nn.Dropout2d(0.5), nn.Conv2d(4, 6, 1)
    )
    methods = {layer: layer_heatmaps(model, layer) for layer in ("0", "1", "3")}
    one, other = (cover(methods, view, k=2, batch_size=size) for size in (4, 6))
    assert {name: result.to_json() for name, result in one.items()} == {
        name: result.to_json() for name, result in other.items()
    }
    assert model.training


def test_parts_that_are_named(view):
    result = cover({"red": _red}, view, part=["cube"])["red"]
    assert result.about.settings["parts"] == ["cube"]
    assert len(result.details["mean_iou"]) == 1


def test_heatmaps_from_files_score_like_their_method(view, tmp_path):
    for name, item in zip(view.ids, view.items, strict=True):
        np.save(tmp_path / f"{name}.npy", decode(item.image)[:1].numpy())
    method = cover({"red": _red}, view)["red"]
    files = cover({"red": open_heatmaps(tmp_path)}, view)["red"]
    assert files.details == method.details
    assert files.scores == method.scores
    (tmp_path / f"{view.ids[2]}.npy").unlink()
    with refused("1 is missing: `row-2`"):
        cover({"red": open_heatmaps(tmp_path)}, view)
    lacking = cover({"red": open_heatmaps(tmp_path)}, view, missing="fail")["red"]
    assert lacking.failed == ("row-2",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": {}}, "expected at least one model"),
        ({"methods": {"centre": _red}, "quick": False}, "a method and a control have the name `centre`"),
        ({"part": ["torus"]}, r"`part`: expected parts .* got torus; they show cone, cube"),
        ({"layer": ["0"]}, "`layer`: `red` has no hidden layers; omit `layer`, or give a network"),
        (
            {"methods": {"flat": layer_heatmaps(nn.Sequential(nn.Flatten()), "0")}},
            r"layer `0` gives no maps: expected .* got \[6, 240\]",
        ),
    ],
)
def test_arguments_that_are_refused(view, change, message):
    arguments = {"methods": {"red": _red}, **change}
    with refused(message):
        cover(arguments.pop("methods"), view, **arguments)


def test_images_that_cannot_be_compared(memory_view):
    with refused("they show none"):
        cover({"red": _red}, memory_view([PartImage(torch.zeros(3, 4, 4), {})]))
    with refused("all images are of one group"):
        CoverageStatistic(np.zeros((1, 2, 6, 1)), CoverageOptions(), ("red",), ["a"] * 6)
    CoverageStatistic(np.zeros((1, 1, 6, 1)), CoverageOptions(proportions=(0.1,)), ("red",), ["a"] * 6)


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_score_of_a_resample_equals_the_metric(reduce) -> None:
    rng = np.random.default_rng(0)
    iou = rng.random((3, 2, 7, 4)) * (rng.random((3, 2, 7, 4)) > 0.4)
    iou[:, :, rng.random((7, 4)) < 0.3] = np.nan
    iou[..., 3] = np.nan  # a part that no image shows
    weighed = CoverageStatistic(
        iou, CoverageOptions(iou_threshold=0.1, reduce=reduce, choose="same"), ("a", "b", "c"), "abcdefg"
    )
    rows = rng.integers(7, size=7)
    found = weighed(rows)
    choice = np.nanmean(iou[:, :, rows], (2, 3)).argmax(1)
    best = torch.from_numpy(iou[np.arange(3), choice][:, rows])
    expected = weigh_iou(best, 0.1, reduce).score.tolist()
    assert [found[f"waiou {name}"] for name in "abc"] == pytest.approx(expected)


def test_proportion_of_each_fold_is_best_on_the_others() -> None:
    rng = np.random.default_rng(0)
    iou = rng.random((2, 3, 9, 4))
    iou[:, :, rng.random((9, 4)) < 0.3] = np.nan
    groups = list("aabbcdefg")
    statistic = CoverageStatistic(iou, CoverageOptions(), ("a", "b"), groups)
    rows = rng.integers(9, size=9)
    numbers = list(dict.fromkeys(groups))
    fold = [numbers.index(group) % 5 for group in groups]
    chosen = np.empty((2, 9, 4))
    for method in range(2):
        for image, place in enumerate(rows):
            others = [row for row in rows if fold[row] != fold[place]]
            best = np.nanmean(iou[method][:, others], (1, 2)).argmax()
            chosen[method, image] = iou[method, best, place]
    expected = weigh_iou(torch.from_numpy(chosen)).score.tolist()
    found = statistic(rows)
    assert [found["waiou a"], found["waiou b"]] == pytest.approx(expected)
    assert found["mean_iou a"] == pytest.approx(np.nanmean(chosen[0]))


class _Channels:
    """A method whose concept of an image is its red channel, or also its green one in every second image."""

    def explain(self, images):
        concepts = torch.tensor([[3, 5]]).repeat(len(images), 1)
        second = images[:, 0].sum((1, 2)) > 8  # images with a second cube
        concepts[~second, 1] = -1
        return Explanation(
            images[:, :2], concepts, torch.tensor([[1.0, 2.0]]).expand(len(images), 2), second.long()
        )


def test_the_mask_of_the_object_is_preferred_to_the_exact_parts(memory_view):
    """The largest part alone is exact; the object covers every part a little."""
    masks = {name: torch.zeros(4, 4, dtype=torch.bool) for name in ("body", "head")}
    masks["body"][0, :3], masks["head"][1, 0] = True, True
    view = memory_view([PartImage(torch.rand(3, 4, 4), masks) for _ in range(6)])
    details = cover({"red": _red}, view, quick=False, proportions=(0.1,))["red"].details
    found = details["controls"]
    assert found["object"] == {"waiou": (3 / 4 + 1 / 4) / 2, "mean_iou": (3 / 4 + 1 / 4) / 2}
    assert found["exact parts"] == {"waiou": 1 / 2, "mean_iou": 1 / 2}
    # Both cover the body in all images, so that it counts half for each; the object alone covers the head.
    assert details["mask_controls"] == {"object": (3 / 8 + 1 / 4) / 2, "exact parts": (1 / 2 + 0) / 2}
    both = cover({"both": MASK_CONTROLS["exact parts"]}, view, k=2, proportions=(0.1,))["both"]
    assert {name: score.value for name, score in both.scores.items()} == found["object"]


def test_an_image_without_parts_has_no_mask_of_an_object(memory_view):
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[0, 0] = True
    items = [PartImage(torch.rand(3, 4, 4), {"head": mask} if row else {}) for row in range(6)]
    result = cover({"object": MASK_CONTROLS["object"]}, memory_view(items))["object"]
    assert result.failed == ("row-0",)
    assert result.scores["mean_iou"].value == 1


def test_networks_of_the_methods(view):
    class Own(_Channels):
        def classifier(self, images):
            raise AssertionError("the accuracy is that of the explained predictions")

    methods = {"one": _Channels(), "own": Own(), "two": _Channels(), "red": _red}
    results = cover(methods, view, labels=[0, 1] * 3)
    assert results["one"].details["accuracy"] == {"explained": 1.0}
    networks = [result.details.get("network") for result in results.values()]
    assert [one and (one["of"], one["accuracy"][0], one["chance"]) for one in networks] == [
        *(("one", 1.0, 0.5), ("own", 1.0, 0.5), ("one", 1.0, 0.5), None)
    ]


def test_controls_and_other_pooling_equal_runs_of_their_own(view):
    methods, few = {"red": _red, "both": lambda image: image[:, :2]}, (0.05, 0.2)
    results = cover(methods, view, quick=False, proportions=few)
    assert list(results) == ["red", "both"]
    alone = cover({"centre": CONTROLS["centre"]}, view, proportions=few)["centre"]
    controls = results["red"].details["controls"]
    assert controls["centre"] == {name: score.value for name, score in alone.scores.items()}
    assert controls["constant"] == {"waiou": 0, "mean_iou": 0}
    assert controls["ideal"] == {"waiou": 1, "mean_iou": 1}  # heatmaps have the size of the masks
    pooled = cover(methods, view, proportions=few, pooling="image")
    curves = {name: result.details["average_iou"] for name, result in pooled.items()}
    assert curves == {name: result.details["by_pooling"]["image"] for name, result in results.items()}
    tried = {one["setting"]: one for one in results["red"].details["sensitivity"]}
    assert tried["pooling = image"]["differs"] == [False]  # three groups are too few for an interval


def test_highest_and_lowest_covered_images(view):
    extremes = cover({"red": _red}, view, proportions=(0.1,))["red"].details["extremes"]
    iou = [value for _, value in extremes["highest"] + extremes["lowest"][::-1]]
    assert iou == sorted(iou, reverse=True)
    assert len({name for name, _ in extremes["highest"] + extremes["lowest"]}) == 6
