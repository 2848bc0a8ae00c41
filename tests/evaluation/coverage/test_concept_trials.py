"""The studies of `benchmarks.trials` on tiny networks: their numbers by hand, and their tables."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.trials import causal_confounded, concept_checks, topics_completeness
from candlelight.evaluation import evaluate
from candlelight.evaluation.coverage.control_explainers import centre_blob
from candlelight.evaluation.coverage.explained_images import ExplainedImages, TrainingImages
from candlelight.evaluation.coverage.filter_methods import VEBI
from candlelight.evaluation.coverage.prototypes import PrototypeTraining, train_prototype_network
from candlelight.evaluation.coverage.score_causal_check import ALL_PARTS
from candlelight.evaluation.coverage.topic_completeness import LabelledMaps, ReconstructionTraining
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages, PartImage

CHANNELS = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def channel_images(count=12):
    """Draw dark images of three classes, each shown by a bright channel."""
    labels = torch.arange(count) % 3
    images = 0.2 * torch.rand(count, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    images[torch.arange(count), labels] += 0.7
    return TrainingImages(images, labels, "")


def test_completeness_of_topics_and_of_random_directions(tmp_path, capsys):
    data = channel_images()
    maps = LabelledMaps(data.images, data.labels)
    how = ReconstructionTraining(0, hidden=8, epochs=25, rate=0.3)
    cell = topics_completeness.directions_completeness(CHANNELS[1:], maps, maps, 3, how)
    assert (cell["found"].tolist(), cell["completeness"].shape) == ([3], (3,))
    assert cell["completeness"][0] == pytest.approx(1)  # three topics tell three channels apart
    found = np.array([[[0.0, 0.0, 0.0], cell["completeness"].tolist()]])
    curves = topics_completeness.CompletenessCurves((1, 3), np.concatenate([found, found]), np.ones((2, 2)))
    topics_completeness.print_completeness(curves)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split("|")[1].strip() == "rank correlation"
    assert last.split("|")[3].strip() == "1.0000 (1.0000 to 1.0000)"
    topics_completeness.draw_completeness(curves, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_random_activations_are_no_zeros():
    activations = torch.zeros(2, 3, 2, 2)
    activations[0, :, 1, 0] = torch.tensor([1.0, 2.0, 3.0])
    activations[1, :, 0, 1] = torch.tensor([4.0, 5.0, 6.0])
    drawn = topics_completeness.random_activations(activations, 2, torch.Generator().manual_seed(0))
    assert sorted(drawn.tolist()) == [[1, 2, 3], [4, 5, 6]]


def test_shares_add_up_to_the_gain(capsys):
    data = channel_images()
    maps = LabelledMaps(data.images, data.labels)
    how = ReconstructionTraining(0, hidden=8, epochs=3, rate=0.1)
    shap = topics_completeness.shap_shares(CHANNELS[1:], maps, maps, 2, how)
    assert float(shap["shares"].sum()) == pytest.approx(float(shap["ends"][0] - shap["ends"][1]))
    topics_completeness.print_shares(**shap)
    assert "|sum - gain|" in capsys.readouterr().out


def test_ablation_of_the_channels_of_the_classes():
    data = channel_images()
    found = concept_checks.chosen_ablation(CHANNELS, "0", data, data, VEBI(CHANNELS, "0", 1.0), draws=19)
    assert found["filters"].tolist() == [1, 1, 1]
    assert found["accuracies"].tolist() == [1, 0]
    assert found["random"].shape == (19,)


def test_pushed_prototypes_are_patches_of_their_class_unless_they_are_moved(capsys):
    data = channel_images()
    how = PrototypeTraining(0, per_class=2, dim=4, warm_epochs=1, epochs=2, batch_size=5)
    backbone = nn.Conv2d(3, 4, 2, stride=2)
    prototype_network = train_prototype_network(backbone, data.images, data.labels, how)
    check = concept_checks.check_patches(prototype_network, data.images, data.labels, batch_size=5)
    assert check.equal.all()
    assert check.own_class.all()
    assert check.difference == 0
    concept_checks.print_patches(check, ["red", "green", "blue"])
    whole = capsys.readouterr().out.splitlines()[5].split("|")[1:5]
    assert [cell.strip() for cell in whole] == ["all", "6", "6", str(len(check.patches.unique(dim=0)))]
    patches = prototype_network.patches
    prototype_network.prototypes[1, 0] += 0.25
    wrong = data.labels.clone()
    wrong[patches.images[5]] = 0
    check = concept_checks.check_patches(prototype_network, data.images, wrong, batch_size=5)
    assert check.equal.tolist() == [True, False, True, True, True, True]
    assert check.difference == pytest.approx(0.25)
    assert not check.own_class[5]
    assert check.own_class[:4].all()


def test_right_predictions():
    data = channel_images(4)
    test = TrainingImages(data.images, torch.tensor([0, 1, 2, 1]), "")
    assert concept_checks.right_predictions(CHANNELS, test).tolist() == [1, 1, 1, 0]


@pytest.fixture
def few_part_resamples(monkeypatch):
    few = partial(causal_confounded.resampled_interval, resamples=40)
    monkeypatch.setattr(causal_confounded, "resampled_interval", few)


@pytest.mark.usefixtures("few_part_resamples")
def test_rank_correlation_over_the_parts_that_both_know():
    iou = {"head": 0.1, "tail": 0.2, "wing": 0.3, "eye": 0.4, "body": 0.5, "neck": 0.6}
    effect = {"head": 0.1, "tail": 0.2, "wing": 0.3, "leg": 9.0, "stand": 0.0, "eye": 0.4, "body": 0.5}
    effect["neck"] = 0.6
    score = causal_confounded.part_agreement(iou, effect)
    assert (score.value, score.low, score.high) == (1, 1, 1)
    assert causal_confounded.part_agreement(iou, {part: -ord(part[0]) for part in iou}).value < 1


@pytest.mark.usefixtures("few_part_resamples")
def test_tables_of_coverage_and_effects(memory_view, capsys):
    masks = {name: torch.zeros(8, 8, dtype=torch.bool) for name in ("head", "tail", BACKGROUND_REGION)}
    masks["head"][:4, :4] = masks["tail"][4:, 4:] = True
    masks[BACKGROUND_REGION] = ~(masks["head"] | masks["tail"])
    rows, parts = [], []
    for shade in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        image = torch.full((3, 8, 8), shade)
        changed = {name: image.masked_fill(mask, 0.9)[None] for name, mask in masks.items()}
        rows.append(CounterfactualImages(image, masks, None, changed))
        parts.append(PartImage(image, {name: masks[name] for name in ("head", "tail")}))

    def classify(images):
        return torch.stack([images[:, 0, :4, :4].mean((1, 2)), images[:, 1].mean((1, 2))], 1)

    methods = {"plain red": lambda images: images[:, :1] * masks["head"], "plain blob": centre_blob}
    shown = ExplainedImages(memory_view(rows), classify)
    checks = list(evaluate("causal-check", shown, methods, device="cpu").values())
    causal_confounded.print_checks({"plain": checks})
    table = causal_confounded.region_rows(checks)
    assert [row[0] for row in table] == ["head", "tail", ALL_PARTS, BACKGROUND_REGION]
    assert {row[1] for row in table} == {6}
    scored = evaluate("coverage", memory_view(parts), methods, device="cpu", quick=True)
    assert scored["plain red"].details["mean_iou"] == [1, None]  # of the IoUs above 0
    shown = {"head": 6, "tail": 6}
    coverage = [causal_confounded.with_part_means(one, shown) for one in scored.values()]
    assert coverage[0].details["iou_by_part"] == {"head": pytest.approx(1 / 3), "tail": 0}
    found = causal_confounded.agreement_rows("plain", coverage, checks)
    assert [row["method"] for row in found] == ["red", "blob"]
    assert found[0]["rank"].value == 1  # the head has the largest effect and is the part that is covered
    assert "plain" in capsys.readouterr().out
