import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.control_explainers import CONTROLS, MASK_CONTROLS
from candlelight.evaluation.coverage.explained_images import ExplainedImages
from candlelight.evaluation.coverage.explanations import Explanation, explanation_heatmap
from candlelight.evaluation.coverage.score_coverage import layer_heatmaps
from candlelight.evaluation.coverage.thresholds import binarise, set_threshold
from candlelight.evaluation.coverage.waiou import CoverageStatistic, waiou, weigh_iou
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.predictions import open_heatmaps
from candlelight.evaluation.views import PartImage
from candlelight.evaluation.views.image_tensors import decode
from candlelight.loaders.errors import InputError

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


def _green(image):
    return image[:, 1:2]


def _flat(image):
    return torch.zeros_like(image[:, :1])


def test_each_method_covers_its_own_part(view):
    results = cover({"red": _red, "green": _green}, view)
    red, green = (results[name].details["parts"] for name in ("red", "green"))
    assert results["red"].about.settings["parts"] == ["cone", "cube"]
    assert red[0] < red[1]
    assert green[0] > green[1]


def test_tables_equal_the_steps_by_hand(view):
    methods = {"red": _red, "both": lambda image: image[:, :2]}
    shares = (0.05, 0.15)
    results = cover(methods, view, proportions=shares, iou_threshold=0.1)
    masks = torch.stack([torch.stack([item.masks["cone"], item.masks["cube"]]) for item in view.items])
    images = decode(torch.stack([item.image for item in view.items]))
    for share, proportion in enumerate(shares):
        binary = []
        for method in methods.values():
            explained = explanation_heatmap(method(images), 1)
            binary.append(binarise(explained.heatmap, set_threshold(explained, proportion)))
        expected = waiou(torch.stack(binary), masks, 0.1)
        for number, result in enumerate(results.values()):
            assert result.details["curve"][share] == pytest.approx(float(expected.score[number]))
    for result in results.values():
        average = result.details["average_iou"]
        assert result.details["best_proportion"] == int(np.argmax(average))


def test_dead_maps_score_less_than_a_right_explanation(view):
    results = cover({"flat": _flat, "right": lambda image: image[:, :2].amax(1, keepdim=True)}, view)
    assert results["flat"].score == 0
    assert results["flat"].failed == view.ids
    assert results["right"].score >= 0.5
    assert not results["right"].failed


def test_heatmap_that_is_not_finite_is_dead(view):
    def broken(image):
        maps = image[:, :1].clone()
        maps[0, 0, 0, 0] = torch.nan
        return maps

    result = cover({"broken": broken}, view, batch_size=6)["broken"]
    assert result.failed == (view.ids[0],)


def test_threshold_before_or_after_resizing(view):
    def coarse(image):
        return nn.functional.avg_pool2d(image[:, :1], 2)

    found = {
        place: cover({"coarse": coarse}, view, proportions=(0.05,), threshold_at=place)["coarse"]
        for place in ("mask", "map")
    }
    assert found["mask"].details["average_iou"] != found["map"].details["average_iou"]


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
    result = cover({"red": _red}, view, proportions=(0.2,), part=["cube"])["red"]
    assert result.about.settings["parts"] == ["cube"]
    # Two cubes are 16 of 80 pixels, the share that is asked for; one is 8, half of what is marked at least.
    assert result.details["mean_iou"][0] > 0.5


def test_heatmaps_from_files_score_like_their_method(view, tmp_path):
    for name, item in zip(view.ids, view.items, strict=True):
        np.save(tmp_path / f"{name}.npy", decode(item.image)[:1].numpy())
    method = cover({"red": _red}, view)["red"]
    files = cover({"red": open_heatmaps(tmp_path)}, view)["red"]
    assert files.details == method.details
    assert files.scores == method.scores
    (tmp_path / f"{view.ids[2]}.npy").unlink()
    with pytest.raises(InputError, match="1 is missing: `row-2`"):
        cover({"red": open_heatmaps(tmp_path)}, view)
    lacking = cover({"red": open_heatmaps(tmp_path)}, view, missing="fail")["red"]
    assert lacking.failed == ("row-2",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": {}}, "expected at least one model"),
        ({"methods": {"centre": _red}, "quick": False}, "a method and a control have the name `centre`"),
        ({"part": ["torus"]}, r"`part`: expected parts .* got torus; they show cone, cube"),
        ({"methods": {"one": lambda image: image.mean()}}, "expected heatmaps"),
    ],
)
def test_invalid_arguments_are_refused(view, change, message):
    arguments = {"methods": {"red": _red}, **change}
    with pytest.raises(InputError, match=message):
        cover(arguments.pop("methods"), view, **arguments)


def test_images_of_several_sizes_need_one(memory_view):
    items = [
        PartImage(torch.rand(3, *size), {"all": torch.ones(size, dtype=torch.bool)})
        for size in ((4, 6), (6, 4))
    ]
    with pytest.raises(InputError, match="images have several sizes"):
        cover({"red": _red}, memory_view(items))
    assert cover({"red": _red}, memory_view(items), size=(5, 5))["red"].score > 0


def test_images_without_parts(memory_view):
    items = [PartImage(torch.zeros(3, 4, 4), {})]
    with pytest.raises(InputError, match="they show none"):
        cover({"red": _red}, memory_view(items))


def test_layers_of_models_without_layers(view):
    with pytest.raises(
        InputError, match="`layer`: `red` has no hidden layers; omit `layer`, or give a network"
    ):
        cover({"red": _red}, view, layer=["0"])


def test_layer_without_maps(view):
    method = layer_heatmaps(nn.Sequential(nn.Flatten()), "0")
    with pytest.raises(InputError, match=r"layer `0` gives no maps: expected .* got \[6, 240\]"):
        cover({"flat": method}, view)


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


def test_one_group_has_no_others_to_choose_on(view) -> None:
    alone = ["a"] * 6
    with pytest.raises(InputError, match="all images are of one group"):
        CoverageStatistic(np.zeros((1, 2, 6, 1)), CoverageOptions(), ("red",), alone)
    CoverageStatistic(np.zeros((1, 1, 6, 1)), CoverageOptions(proportions=(0.1,)), ("red",), alone)


class _Channels:
    """A method whose concept of an image is its red channel, or also its green one in every second image."""

    name = "channels"

    def explain(self, images):
        concepts = torch.tensor([[3, 5]]).repeat(len(images), 1)
        second = images[:, 0].sum((1, 2)) > 8  # images with a second cube
        concepts[~second, 1] = -1
        return Explanation(
            images[:, :2], concepts, torch.tensor([[1.0, 2.0]]).expand(len(images), 2), second.long()
        )

    def fit(self, images, labels):
        return self

    def state(self):
        return {}

    def restore(self, state):
        return self


def test_explanation_method_is_scored_by_its_concepts(view):
    whole = cover({"channels": _Channels()}, view, rank="score", labels=[0, 1] * 3)
    details = whole["channels"].details
    # By score, images with a second cube show the green cone, the others their red cube.
    assert details["labels"] == [3, 3]
    assert details["accuracy"] == {"explained": 1.0}
    assert details["counts"] == [3, 3]


def test_controls_are_compared_with_themselves_alone(view):
    results = cover({"red": _red}, view, quick=False)
    assert list(results) == ["red"]
    alone = cover({"centre": CONTROLS["centre"]}, view)["centre"]
    expected = {name: score.value for name, score in alone.scores.items()}
    controls = results["red"].details["controls"]
    assert controls["centre"] == expected
    assert controls["constant"] == {"waiou": 0, "mean_iou": 0}
    assert controls["ideal"] == {"waiou": 1, "mean_iou": 1}  # heatmaps have the size of the masks


def test_the_mask_of_the_object_is_preferred_to_the_exact_parts(memory_view):
    """The largest part alone is exact; the object covers every part a little."""
    masks = {name: torch.zeros(4, 4, dtype=torch.bool) for name in ("body", "head")}
    masks["body"][0, :3], masks["head"][1, 0] = True, True
    view = memory_view([PartImage(torch.rand(3, 4, 4), masks) for _ in range(6)])
    details = cover({"red": _red}, view, quick=False)["red"].details
    found = details["controls"]
    assert found["object"] == {"waiou": (3 / 4 + 1 / 4) / 2, "mean_iou": (3 / 4 + 1 / 4) / 2}
    assert found["exact parts"] == {"waiou": 1 / 2, "mean_iou": 1 / 2}
    # Both cover the body in all images, so that it counts half for each; the object alone covers the head.
    assert details["mask_controls"] == {"object": (3 / 8 + 1 / 4) / 2, "exact parts": (1 / 2 + 0) / 2}
    both = cover({"red": _red}, view, k=2, quick=False)["red"].details
    assert both["controls"]["exact parts"] == found["object"]


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
    networks = [result.details.get("network") for result in results.values()]
    assert [one and (one["of"], one["accuracy"][0], one["chance"]) for one in networks] == [
        *(("one", 1.0, 0.5), ("own", 1.0, 0.5), ("one", 1.0, 0.5), None)
    ]


def test_alternatives_equal_runs_of_their_own(view):
    methods = {"red": _red, "both": lambda image: image[:, :2]}
    results = cover(methods, view, quick=False)
    tried = {one["setting"]: one for one in results["red"].details["sensitivity"]}
    parameters = {
        "pooling = image": {"pooling": "image"},
        "k = 3": {"k": 3},
        "choose = same": {"choose": "same"},
    }
    for setting, change in parameters.items():
        run = cover(methods, view, **change)
        assert tried[setting]["scores"] == {name: pytest.approx(result.score) for name, result in run.items()}
        if setting == "pooling = image":
            curves = {name: result.details["average_iou"] for name, result in run.items()}
            assert curves == {name: result.details["by_pooling"]["image"] for name, result in results.items()}
    default = {name: result.score for name, result in results.items()}
    assert tried["pooling = image"]["differs"] == [False]  # three groups are too few for an interval
    for one in tried.values():
        assert one["order"] == sorted(one["scores"], key=lambda name: -one["scores"][name])
        same = (default["red"] - default["both"]) * (one["scores"]["red"] - one["scores"]["both"])
        assert one["agreement"] == (None if same == 0 else np.sign(same))


def test_highest_and_lowest_covered_images(view):
    extremes = cover({"red": _red}, view, proportions=(0.1,))["red"].details["extremes"]
    iou = [value for _, value in extremes["highest"] + extremes["lowest"][::-1]]
    assert iou == sorted(iou, reverse=True)
    assert len({name for name, _ in extremes["highest"] + extremes["lowest"]}) == 6
