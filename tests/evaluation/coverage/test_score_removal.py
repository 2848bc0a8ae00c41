"""Explanations scored by images without parts: planted classifiers whose only cue is known."""

import functools
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.coverage import explained_images, score_removal
from candlelight.evaluation.coverage.explained_images import ExplainedImages
from candlelight.evaluation.coverage.explainers import Explainer
from candlelight.evaluation.coverage.removal_report import removal_lines
from candlelight.evaluation.coverage.score_removal import BETTER
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.fingerprints import weights_sha256
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages, RegionChange
from tests.command_line import refusal, run
from tests.evaluation.commands.test_gpu_commands import check_numbers
from tests.refusals import refused

SIZE = 16
SLOTS = ("beak", "crest", "tail")
PLACES = {
    "beak": (slice(1, 6), slice(1, 5)),
    "crest": (slice(9, 15), slice(2, 6)),
    "tail": (slice(2, 7), slice(9, 15)),
    "box": (slice(11, 15), slice(11, 14)),
}
KINDS = {"a": 0.3, "b": 0.6, "c": 0.9}  # red of a variant of a part
# Each two classes share one part, and no part tells a class.
CLASSES = ("aab", "abc", "bcb", "cba")


@functools.cache
def mask_of(place):
    mask = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    mask[PLACES[place]] = True
    return mask


def draw(kinds, missing=(), box=True, shift=0.0, repaint=None):
    """Draw parts as red squares, by their variant, before a blue background; a box is green."""
    image = torch.zeros(3, SIZE, SIZE)
    image[2] = 0.2 + shift
    for slot, kind in zip(SLOTS, kinds, strict=True):
        if slot not in missing:
            image[2, mask_of(slot)] = 0.0
            image[0, mask_of(slot)] = KINDS[kind] if repaint != slot else 1.0
    if box:
        image[:, mask_of("box")] = torch.tensor([0.0, 0.8, 0.0])[:, None]
    return image


def item(label, row=0, subsets=None):
    kinds = CLASSES[label]
    names = dict(zip(SLOTS, (f"{slot}_{kind}" for slot, kind in zip(SLOTS, kinds, strict=True)), strict=True))
    masks = {names[slot]: mask_of(slot) for slot in SLOTS}
    masks[BACKGROUND_REGION] = ~torch.stack([*masks.values()]).any(0)
    nothing = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    shift = 0.01 * row
    if subsets is None:
        subsets = [some for count in (1, 2, 3) for some in itertools.combinations(SLOTS, count)]
    changes = [
        RegionChange(
            draw(kinds, some, shift=shift),
            {names[slot]: "removed" for slot in some},
            {slot: "absent" for slot in some},
            nothing,
        )
        for some in subsets
    ]
    background = {BACKGROUND_REGION: "removed"}
    changes.append(
        RegionChange(draw(kinds, box=False, shift=shift), background, {"box": "absent"}, mask_of("box"))
    )
    for slot in SLOTS:
        painted = draw(kinds, shift=shift, repaint=slot)
        changes.append(RegionChange(painted, {names[slot]: "recoloured"}, {"paint": slot}, nothing))
    for name, value, by in (("light", 5, 0.02), ("light", -5, -0.02), ("scene", "hall", 0.4)):
        scene = draw(kinds, shift=shift + by)
        changes.append(RegionChange(scene, {BACKGROUND_REGION: "scene"}, {name: value}, nothing))
    return CounterfactualImages(draw(kinds, shift=shift), masks, None, {}, tuple(changes))


LABELS = [0, 1, 2, 3]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(score_removal, "_STEPS", 2)


@pytest.fixture
def view(memory_view):
    return memory_view([item(label, row) for row, label in enumerate(LABELS)])


def reads_parts(images, weights=(4.0, 2.0, 1.0)):
    """Count, for each class, the weighted parts that an image shares with it: additive in the parts."""
    logits = []
    for kinds in CLASSES:
        total = 0.0
        for slot, kind, weight in zip(SLOTS, kinds, weights, strict=True):
            red = images[:, 0][:, mask_of(slot)].mean(1)
            total = total + weight * torch.exp(-(((red - KINDS[kind]) / 0.05) ** 2))
        logits.append(total)
    return torch.stack(logits, 1)


def reads_background(images):
    blue = images[:, 2, -1, 0]
    return torch.stack([8 * blue, 4 - 8 * blue, 0 * blue, 0 * blue], 1)


def reads_logo(images):
    green = images[:, 1][:, mask_of("box")].mean(1)
    return torch.stack([3 * green, 1 - green, 0 * green, 0 * green], 1)


def attribution(make):
    return Explainer("mine", make)


def constant_image(images, targets):
    return torch.ones(len(images), SIZE, SIZE)


def check(view, network, methods=None, labels=LABELS, **options):
    data = ExplainedImages(view, network, labels)
    methods = methods or {"flat": attribution(constant_image)}
    return evaluate("removal", data, methods, device="cpu", **options)


def means(results, column):
    return {name: one.scores[column].value for name, one in results.items()}


def test_each_ideal_reaches_its_best_value_on_an_additive_classifier(view):
    results = check(view, reads_parts)
    effects, values = results["true effects"].scores, results["shapley"].scores
    for one in (effects, values):  # equal for an additive classifier
        assert one["single_deletion"].value == one["shapley"].value == 1
        assert one["infidelity"].value == pytest.approx(0, abs=1e-9)
    assert effects["target_sensitivity"].value == effects["distractibility"].value == 1
    assert effects["controlled"].value == 1
    assert results["sufficient set"].scores["preservation"].value == 1
    assert results["true effects"].details["accuracy_by_absent"][0] == [0, 1.0]
    assert results["true effects"].details["light"] == pytest.approx(0, abs=1e-9)


def test_effects_are_falls_of_the_logit_of_the_predicted_class(view):
    slots = {one["slot"]: one for one in check(view, reads_parts)["flat"].details["slots"]}
    for slot in SLOTS:
        falls = {"rendered": [], "recolouring": [], "gray": []}
        for label, kinds in enumerate(CLASSES):
            whole, gray = draw(kinds, shift=0.01 * label), draw(kinds, shift=0.01 * label)
            gray[:, mask_of(slot)] = 0.5
            shown = {
                "rendered": draw(kinds, [slot], shift=0.01 * label),
                "recolouring": draw(kinds, shift=0.01 * label, repaint=slot),
                "gray": gray,
            }
            for name, image in shown.items():
                before, after = reads_parts(torch.stack([whole, image]).double())
                falls[name].append(float(before.max() - after[before.argmax()]))
        for name, some in falls.items():
            assert slots[slot][name] == pytest.approx(sum(some) / 4, abs=1e-4), (slot, name)


def test_explanations_that_know_nothing_fail(view):
    results = check(view, reads_parts)
    above = {name: one.scores["single_deletion_above_moved"] for name, one in results.items()}
    assert above["true effects"].low > 0
    for name in ("noise", "flat"):
        assert above[name].low <= 0 <= above[name].high
    sensitivity = means(results, "target_sensitivity")
    assert sensitivity["one class"] == sensitivity["flat"] == sensitivity["edges"] == 0
    assert means(results, "single_deletion")["other class"] < 1


@pytest.mark.parametrize(("network", "region"), [(reads_background, BACKGROUND_REGION), (reads_logo, "box")])
def test_a_classifier_of_another_cue_has_no_effects_of_parts(view, network, region):
    results = check(view, network)
    details = results["true effects"].details
    assert all(one["rendered"] == pytest.approx(0, abs=1e-6) for one in details["slots"])
    assert math.isnan(means(results, "single_deletion")["true effects"])
    if region == "box":
        assert details["background_independence"] == 0
        # All parts are irrelevant: a map of the box alone calls none of them important.
        assert means(results, "distractibility")["true effects"] == 1


def test_a_classifier_of_one_part_tells_right_from_wrong_maps(view):
    def looks(slot):
        return attribution(lambda images, targets: mask_of(slot).float().expand(len(images), -1, -1))

    def network(images):
        return reads_parts(images, (4.0, 0.0, 0.0))

    results = check(view, network, {slot: looks(slot) for slot in SLOTS})
    for column in ("single_deletion", "shapley", "explainability", "completeness"):
        found = means(results, column)
        assert found["beak"] > max(found["crest"], found["tail"]), column
    assert means(results, "infidelity")["beak"] == pytest.approx(0, abs=1e-9)
    # Half of the sets without the beak lack the tail: (4 - 4 b)^2 + 4^2 + (4 b)^2 is least for b = 1 / 2.
    assert means(results, "infidelity")["tail"] == pytest.approx(0.75)


def test_failed_maps_are_the_worst_and_dead_classifiers_undefined(view):
    failing = attribution(lambda images, targets: torch.full((len(images), SIZE, SIZE), math.nan))
    results = check(view, reads_parts, {"failing": failing})
    one = results["failing"]
    assert one.failed == tuple(view.ids)
    assert set(one.details["curves"]["rendered"]["deletion"]) == {None}
    for column, score in one.scores.items():
        if column not in ("recolouring", "max_sensitivity"):
            worst = 1 if BETTER[column] == "lower" else -1 if "_above_" in column else 0
            assert score.value == worst, column
    dead = check(view, lambda images: reads_parts(images) * math.nan)
    assert all(math.isnan(score.value) for score in dead["flat"].scores.values())


def spoilt(place):
    """Explain by the image, but spoil one map: two other classes come first, then nearby images."""

    def explain(images, targets):
        maps = images.sum(1)
        maps[place] = math.nan
        return maps

    return attribution(explain)


def test_maps_of_other_classes_and_nearby_images_may_fail_alone(view):
    results = check(view, reads_parts, {"other": spoilt(1), "nearby": spoilt(-1), "none": spoilt([])})
    whole, sensitivity = means(results, "single_deletion"), means(results, "target_sensitivity")
    assert whole["other"] == whole["nearby"] == whole["none"]
    assert sensitivity["other"] == 0
    assert means(results, "max_sensitivity")["nearby"] == 1


def test_a_map_of_zeros_has_no_relative_change(view):
    first = attribution(
        lambda images, targets: images.sum(1) * (torch.arange(len(images)) > 0)[:, None, None]
    )
    assert math.isnan(check(view, reads_parts, {"first": first})["first"].scores["max_sensitivity"].value)


def test_outputs_that_are_not_finite_are_no_class(view):
    details = check(view, lambda images: reads_parts(images) * math.nan)["flat"].details
    assert details["network"]["accuracy"][0] == 0
    assert {value for _, value in details["accuracy_by_absent"]} == {0}
    assert not details["notes"]  # nothing falls


def test_images_of_one_class_leave_open_which_parts_tell_it(memory_view):
    results = check(memory_view([item(0, 0), item(0, 1)]), reads_parts, labels=[0, 0])
    assert math.isnan(results["true effects"].scores["controlled"].value)


def test_parts_without_pixels_after_resizing_count_as_hidden(memory_view):
    one = item(0)
    dot = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    dot[2, 2] = True
    view = memory_view([replace(one, masks={**one.masks, "beak_a": dot})])
    results = check(view, lambda images: reads_parts(images.repeat_interleave(2, 2).repeat_interleave(2, 3)),
                    labels=[0], size=(SIZE // 2, SIZE // 2))  # fmt: skip
    assert [one["slot"] for one in results["flat"].details["slots"]] == ["crest", "tail"]


def leaves_a_hook(network):
    return lambda images, targets: network.register_forward_hook(lambda *all: -all[2]) and images.sum(1)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("expected the number of a class for each of 4 images", {"labels": [0, 1]}),
        ("expected the number of a class for each of 4 images", {"labels": list(CLASSES)}),
        ("has 4 classes, but an image is of class number 4", {"labels": [0, 1, 2, 4]}),
        ("a control has the name `noise`", {"methods": {"noise": attribution(constant_image)}}),
        ("no counterfactual changes this factor alone", {"nearby": "lihgt"}),
        ("`batch_size` must be at least 1", {"batch_size": 0}),
        ("`limit`: expected data by name", {"limit": 1}),
        ("`method`: expected data by name", {"method": ("rise",)}),
    ],
)
def test_wrong_arguments_are_one_line(view, text, options):
    with refused(text):
        check(view, reads_parts, **options)


def test_a_method_that_changes_the_classifier_is_refused(view):
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with refused("the classifier gives other logits"):
        check(view, network, {"hook": attribution(leaves_a_hook(network))}, [0, 0, 0, 0])


def test_an_explainer_in_place_of_a_classifier_is_refused():
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with refused("`mine` is an explainer, whose images are `ExplainedImages"):
        evaluate("removal", "frames", {"mine": attribution(leaves_a_hook(network))})


def test_finished_steps_depend_on_the_classifier_and_on_all_options(memory_view, tmp_path):
    view = memory_view([item(0), item(1)])

    def classifier(weight):
        network = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 4, bias=False))
        nn.init.normal_(network[2].weight, generator=torch.Generator().manual_seed(weight))
        sha256 = weights_sha256(network)
        return NamedModel(ModelIdentity("net", "file", sha256=sha256), network, "srgb")

    method = Explainer("mine", lambda images, targets: images.sum(1))

    def numbers(steps, weight, **options):
        named = classifier(weight)
        maps = NamedModel(ModelIdentity("mine", "file", sha256="0"), method, "srgb")
        found = check(view, named, {"mine": maps}, [0, 1], steps=steps, **options)
        return found["mine"].columns, found["mine"].details

    for weight, options in ((1, {}), (2, {}), (2, {"widen": 2}), (2, {"nearby": "scene"})):
        kept = numbers(FinishedSteps(tmp_path / "a.partial"), weight, **options)
        assert repr(kept) == repr(numbers(FinishedSteps(), weight, **options))


def test_fewer_sets_leave_checks_undefined_and_estimate_shapley_values(memory_view):
    few = [("beak",), ("crest",), ("tail",), SLOTS, ("beak", "crest")]
    view = memory_view([item(label, row, few) for row, label in enumerate(LABELS)])
    results = check(view, reads_parts)
    assert results["shapley"].scores["shapley"].value == 1
    alone = memory_view([item(label, row, few[:3]) for row, label in enumerate(LABELS)])
    results = check(alone, reads_parts)
    assert results["true effects"].scores["single_deletion"].value == 1
    assert math.isnan(results["true effects"].scores["shapley"].value)
    assert "shapley" not in results  # the control of values that nobody knows
    # No set of important parts is rendered both alone and absent.
    assert math.isnan(results["flat"].scores["completeness"].value)


def test_lines_name_the_better_method_and_leave_out_what_is_undefined(memory_view):
    alone = [("beak",), ("crest",), ("tail",)]
    view = memory_view([item(row % 4, row, alone) for row in range(8)])

    def paint(images, targets):
        return sum(
            weight * mask_of(slot).float() for slot, weight in zip(SLOTS, (4, 2, 1), strict=True)
        ).expand(len(images), -1, -1)

    methods = {"flat": attribution(constant_image), "right": attribution(paint)}
    text = "\n".join(removal_lines([*check(view, reads_parts, methods, LABELS * 2).values()]))
    assert "right is better than flat\nsingle_deletion_above_moved ↑: flat - right = -" in text
    assert re.search(r"^accuracy of .* by number of absent parts: 0: 1.00, 1: ", text, re.M)
    assert (
        "note: Undefined for all images, without their counterfactuals (docs/removal.md): shapley, comp"
        in text
    )
    assert "shapley_above_moved" not in text


def test_a_part_that_never_goes_alone_is_refused(memory_view):
    view = memory_view([item(0, 0, [("beak", "tail")])])
    with refused("each part is taken away alone, got `beak_a` only together with others"):
        check(view, reads_parts, labels=[0])
    bare = memory_view([item(0, 0, [])])
    with refused("each part is taken away alone, got none"):
        check(bare, reads_parts, labels=[0])


def test_scores_do_not_depend_on_the_batch_size(memory_view):
    view = memory_view([item(0), item(1)])
    one, other = (check(view, reads_parts, labels=[0, 1], batch_size=size) for size in (7, 64))
    for name, result in one.items():
        assert result.columns == other[name].columns


NETWORK = """
from torch import nn

from tests.evaluation.coverage.test_score_removal import CLASSES, reads_parts


class Net(nn.Module):
    class_names = CLASSES
    colour_space = "srgb"

    def forward(self, images):
        return reads_parts(images)


def gradient(model, images, targets):
    images.requires_grad_(True)
    model(images).gather(1, targets[:, None]).sum().backward()
    return images.grad * images
"""


@pytest.fixture
def frames(memory_view, monkeypatch, tmp_path):
    """Open images of all classes in place of frames, and change to a folder with a network."""
    names = [CLASSES[label] for label in LABELS]
    view = memory_view([item(label) for label in LABELS], factor_values={"class": tuple(names)}.get)
    monkeypatch.setattr(explained_images, "open_data", lambda kind, **choice: view)
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NETWORK, encoding="utf-8")
    return view


COMMAND = ("evaluate", "removal", "frames", "--model", "net.py:Net", "--method", "net.py:gradient")


def test_command_makes_scores_and_page(frames):
    text = run(*COMMAND, "--label", "class", "--out", "a.json", "--report", "a.html")
    assert "single_deletion_above_moved ↑" in text
    assert "infidelity ↓" in text
    results = {one.about.model["name"]: one for one in read_results(Path("a.json"))}
    assert list(results)[:2] == ["net.py:Net net.py:gradient", "net.py:Net true effects"]
    sources = {one.about.model["source"] for name, one in results.items() if "gradient" not in name}
    assert sources == {"control"}  # never the best of a column
    page = Path("a.html").read_text(encoding="utf-8")
    for shown in (
        "without beak",
        "Accuracy of the explained classifier",
        "Usual scores",
        "Curves of the prob",
    ):
        assert shown in page, shown
    run(*COMMAND, "--label", "class", "--out", "b.json")
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_command_keeps_all_steps(frames):
    steps = FinishedSteps(Path("a.json.partial"))
    choice = {"method": ("net.py:gradient",), "label": "class", "steps": steps}
    evaluate("removal", "frames", ["net.py:Net"], device="cpu", **choice)
    assert steps.computed == len(frames) * (1 + 1 + 8)  # the effects, the method and the controls


def test_a_label_of_other_values_is_refused(frames):
    wanted = "expected a factor of DATA whose values are classes of `net.py:Net`: aab, abc, bcb, cba"
    assert refusal(*COMMAND, "--label", "kind") == f"Error: --label kind: {wanted}"


def test_classes_without_images_are_noted(view):
    network = lambda images: nn.functional.pad(reads_parts(images), (0, 1))  # noqa: E731
    (noted,) = check(view, network)["flat"].details["notes"]
    assert noted.startswith("no image shows 1 of the 5 classes")


@pytest.mark.gpu
def test_numbers_on_a_gpu_are_those_of_the_cpu(frames, tmp_path):
    check_numbers(tmp_path, *COMMAND[1:], "--label", "class", "--method", "rise,masks=20")


def test_files_explain_the_image_alone(frames):
    folder = Path("maps")
    folder.mkdir()
    for name in frames.ids:
        np.save(folder / f"{name}.npy", mask_of("beak").float().numpy()[None])
    run(*COMMAND, "--label", "class", "--heatmaps", "maps", "--out", "a.json")
    results = {one.about.model["name"]: one for one in read_results(Path("a.json"))}
    (file,) = (one for name, one in results.items() if name.endswith("maps"))
    assert file.scores["single_deletion"].value > 0.5
    for column in ("target_sensitivity", "max_sensitivity", "randomised"):
        assert math.isnan(file.scores[column].value), column


def test_a_classifier_that_never_saw_absent_parts_is_noted(view):
    def surprised(images):
        logits = reads_parts(images)
        missing = torch.stack([images[:, 2][:, mask_of(slot)].mean(1) > 0.1 for slot in SLOTS]).any(0)
        return torch.where(missing[:, None], logits.roll(1, 1), logits)

    noted = check(view, surprised)["flat"].details["notes"][0]
    assert (
        "seems never to have seen absent parts: its accuracy falls from 1 to 0 when one part is abs" in noted
    )
    assert not check(view, reads_parts)["flat"].details["notes"]
