"""`evaluate causal-check` on counterfactuals in memory; methods learn from generated photographs."""

import pytest
import torch

from candlelight.evaluation.coverage import explained_images
from candlelight.evaluation.coverage.score_causal_check import ALL_PARTS
from candlelight.evaluation.models import open_model
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages
from tests.command_line import refusal, run
from tests.evaluation.commands.test_gpu_commands import check_numbers

SIDE = 32
PLACES = {"head": (slice(0, 16), slice(0, 16)), "tail": (slice(16, 32), slice(0, 16))}


CHECK = ("evaluate", "causal-check", "frames", "--device", "cpu")


@pytest.fixture
def frames(memory_view, monkeypatch):
    """Open three images, each with a counterfactual of the head, of the tail and of the background."""
    draws = torch.Generator().manual_seed(0)
    items = []
    for _ in range(3):
        image = torch.rand(3, SIDE, SIDE, generator=draws)
        masks = {name: torch.zeros(SIDE, SIDE, dtype=torch.bool) for name in PLACES}
        for name, place in PLACES.items():
            masks[name][place] = True
        masks[BACKGROUND_REGION] = ~(masks["head"] | masks["tail"])
        other = torch.rand(3, SIDE, SIDE, generator=draws)
        changed = {name: other.where(mask, image)[None] for name, mask in masks.items()}
        items.append(CounterfactualImages(image, masks, None, changed))
    kinds = {"species": ("001.Black_footed_Albatross", *2 * ("002.Laysan_Albatross",))}
    view, asked = memory_view(items, factor_values=kinds.get), []
    monkeypatch.setattr(
        explained_images, "open_data", lambda kind, **choice: asked.append((kind, choice)) or view
    )
    return view, asked


def test_methods_are_compared_with_controls(frames, birds, make_classifier, tmp_path) -> None:
    view, asked = frames
    out = tmp_path / "a.json"
    methods = [word for name in ("vebi", "prototypes", "grad-cam") for word in ("--method", name)]
    given = ("--fit", f"{birds}:test", "--epochs", 1, "--prototypes", 2, "--set", "one", "--limit", 3)
    text = run(*CHECK, "--model", make_classifier(), *methods, *given, "--out", out)
    choice = {"data": "frames", "set_name": "one", "split": None, "rows": None, "limit": 3}
    assert asked == [("counterfactuals", choice)]
    results = {result.about.model["name"]: result for result in read_results(out)}
    names = ("vebi", "prototypes", "grad-cam", "noise", "centre", "object", "part areas")
    assert list(results) == [f"kinds {name}" for name in names]
    network = open_model(str(make_classifier())).model
    effects = {name: [] for name in (*PLACES, BACKGROUND_REGION)}
    right = 0
    for row in range(len(view)):
        with torch.no_grad():
            before = network(view[row].image[None]).softmax(1)
            top = int(before.argmax())
            right += top == min(row, 1)
            for name, changed in view[row].changed.items():
                effects[name].append(float(network(changed).softmax(1)[0, top] - before[0, top]))
    for name in names:
        regions = {one["region"]: one for one in results[f"kinds {name}"].details["regions"]}
        assert list(regions) == ["head", "tail", ALL_PARTS, BACKGROUND_REGION]
        if name != "prototypes":  # a network of its own
            for region, values in effects.items():
                assert regions[region]["effect"][0] == pytest.approx(sum(values) / 3, abs=1e-6)
    networks = [results[f"kinds {name}"].details["network"] for name in names]
    assert [one["of"] for one in networks] == ["kinds vebi", "kinds prototypes", *5 * ["kinds vebi"]]
    assert networks[0]["accuracy"][0] == pytest.approx(right / 3)
    assert networks[0]["chance"] == pytest.approx(2 / 3)
    assert text.count("; they explain different networks (accuracy kinds vebi") == 1
    explained = (
        "the network that kinds vebi, grad-cam, noise, centre, object, part areas explain is not shown"
    )
    assert explained in text
    vebi_effect = results["kinds vebi"].details["regions"][0]["effect"]
    assert results["kinds prototypes"].details["regions"][0]["effect"] != vebi_effect
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.gpu
def test_numbers_on_a_gpu_are_those_of_the_cpu(frames, birds, make_classifier, tmp_path) -> None:
    words = (
        "--model",
        make_classifier(),
        "--method",
        "grad-cam",
        "--method",
        "vebi",
        "--fit",
        f"{birds}:test",
    )
    check_numbers(tmp_path, "causal-check", "frames", *words)


def test_options_reach_the_metric(frames, birds, make_classifier, tmp_path) -> None:
    words = ("--model", make_classifier(), "--method", "vebi", "--fit", f"{birds}:test", "--size", 40, 40)
    words += ("--scale", "logit", "--pixels", "region", "--k", 2, "--proportion", 0.2)
    run(*CHECK, *words, "--out", tmp_path / "a.json")
    (settings, *_) = (result.about.settings for result in read_results(tmp_path / "a.json"))
    chosen = {"scale": "logit", "pixels": "region", "k": 2, "proportion": 0.2, "size": [40, 40]}
    assert settings.items() >= chosen.items()


def test_several_classifiers(frames, birds, make_classifier, tmp_path) -> None:
    words = ("--model", make_classifier(), "--model", f"other={make_classifier('five', seed=5)}")
    frames[0].factor_values = {"species": ("another kind",) * 3}.get
    text = run(*CHECK, *words, "--method", "grad-cam", "--fit", f"{birds}:test", "--out", tmp_path / "a.json")
    assert "accuracy" not in text
    found = read_results(tmp_path / "a.json")
    methods = ("grad-cam", "noise", "centre", "object", "part areas")
    names = [f"{name} {method}" for name in ("kinds", "other") for method in methods]
    assert [one.about.model["name"] for one in found] == names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--fit {}:test", ":test: needs a --method"),
        ("", "give a --method, or heatmaps of another program (--heatmaps)"),
        ("--method all", "name the images from which vebi and topics and prototypes learn (--fit)"),
        ("--method vebi --fit {}:train --fit-limit 2 --label x", "--label x: expected"),
        ("--method vebi --fit {}:test --proportion 1", "--proportion"),
        ("--method vebi --fit {}:test --explained-layer fc", "layer `fc` gives no maps"),
    ],
)
def test_bad_use_gives_one_line(frames, birds, make_classifier, words, message) -> None:
    given = words.format(birds).split()
    assert message in refusal(*CHECK, "--model", make_classifier(), *given)
