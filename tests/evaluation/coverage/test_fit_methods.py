"""Fit methods by name: their training images, the kept files, and the remains of a failing fit."""

from typing import get_args

import pytest
import torch
from torch import nn

from candlelight.evaluation.catalogue.coverage_options import ExplanationOptions, MethodName
from candlelight.evaluation.coverage import explained_images, filter_methods
from candlelight.evaluation.coverage.explained_images import (
    check_classifier,
    fit_method,
    make_method,
    order_classes,
    read_training_images,
)
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.steps import FinishedSteps
from tests.refusals import refused

LABELS = [0, 1, 0, 1]
SETTINGS = ExplanationOptions(("all",), topics=2, prototypes=2, epochs=1)


@pytest.fixture
def view(memory_view):
    draws = torch.Generator().manual_seed(0)
    return memory_view([torch.rand(3, 8, 8, generator=draws) for _ in LABELS])


def network(classes: int = 2) -> nn.Sequential:
    torch.manual_seed(0)
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, classes))
    return nn.Sequential(nn.Conv2d(3, 5, 3, stride=2), nn.ReLU(), *head)


def named(model: object = None, space: str = "srgb") -> NamedModel:
    return NamedModel(ModelIdentity("net", "weights", None, "abc"), model or network(), space)


def test_images_are_read_in_the_given_order(view) -> None:
    found = read_training_images(view, [3, 0], [1, 0], None)
    assert torch.equal(found.images, torch.stack([view.items[3], view.items[0]]))
    assert found.labels.tolist() == [1, 0]


def test_hash_depends_on_images_labels_and_size(view) -> None:
    choices = [([0, 1], [0, 1], None), ([0, 2], [0, 1], None), ([0, 1], [0, 0], None), ([1, 0], [0, 1], None)]
    choices += [([0, 1], [0, 1], (8, 6)), ([0, 1], [0, 1], (6, 6))]
    hashes = [read_training_images(view, *choice).sha256 for choice in choices]
    assert len(set(hashes)) == len(hashes)
    assert hashes == [read_training_images(view, *choice).sha256 for choice in choices]


def test_training_images_that_cannot_be_read(view, memory_view, monkeypatch) -> None:
    mixed = memory_view([torch.rand(3, 8, 8), torch.rand(3, 8, 6)])
    with refused(r"several sizes, \[8, 8\] and \[8, 6\]; give one `size` to resize"):
        read_training_images(mixed, [0, 1], [0, 1], None)
    assert read_training_images(mixed, [0, 1], [0, 1], (4, 4)).images.shape == (2, 3, 4, 4)
    with refused("expected images float32"):
        read_training_images(memory_view([torch.full((3, 4, 4), torch.nan)]), [0], [0], None)
    monkeypatch.setattr(explained_images, "_LARGEST", 1000)
    with refused(r"4 images of 8 x 8 need .* GiB; choose fewer of them \(`rows`\), or a smaller `size`"):
        read_training_images(view, range(4), LABELS, None)


@pytest.mark.parametrize("name", get_args(MethodName))
def test_a_fitted_method_is_kept_and_read_again(view, tmp_path, monkeypatch, name) -> None:
    training = read_training_images(view, range(4), LABELS, None)
    first, steps = (FinishedSteps(tmp_path / "a.json.partial") for _ in range(2))
    one, other = (fit_method(name, named(), "0", training, SETTINGS, some) for some in (first, steps))
    assert (first.computed, steps.reused) == ((0, 0) if name == "grad-cam" else (1, 1))
    assert one.identity == other.identity
    assert (one.identity.name, one.colour_space) == (f"net {name}", "srgb")
    for mine, its in zip(
        one.model.explain(training.images), other.model.explain(training.images), strict=True
    ):
        assert torch.equal(mine, its)
    for change in ({"settings": ExplanationOptions(("all",), seed=5, epochs=2)}, {"layer": "1"}):
        given = {"layer": "0", "settings": SETTINGS, **change}
        again = fit_method(name, named(), given["layer"], training, given["settings"], steps)
        assert again.identity.sha256 != one.identity.sha256
    assert steps.reused == (0 if name == "grad-cam" else 1)


def test_settings_reach_the_methods() -> None:
    settings = ExplanationOptions(("all",), seed=3, bound=2.0, topics=4, prototypes=6, epochs=7)
    made = {name: make_method(name, network(), "0", settings) for name in get_args(MethodName)}
    assert made["vebi"].bound == 2
    assert (made["topics"].search.count, made["topics"].how.seed) == (4, 3)
    how = made["prototypes"].how
    assert (how.seed, how.per_class, how.epochs) == (3, 6, 7)


def test_a_fit_that_fails_keeps_nothing_and_names_the_method(view, tmp_path, monkeypatch) -> None:
    training, folder = read_training_images(view, range(4), LABELS, None), tmp_path / "a.json.partial"
    with monkeypatch.context() as patch:
        patch.setattr(filter_methods, "nonnegative_lasso", lambda *_: 1 / 0)
        with refused(r"^`net vebi`: model `net vebi` raised ZeroDivisionError"):
            fit_method("vebi", named(), "0", training, SETTINGS, FinishedSteps(folder))
    assert not folder.exists()
    fit_method("vebi", named(), "0", training, SETTINGS, FinishedSteps(folder))
    with refused(r"^`net prototypes`: layer `9` is not in the model"):
        fit_method("prototypes", named(), "9", training, SETTINGS, FinishedSteps(folder))


def test_backbone_is_split_at_its_last_convolution_alone() -> None:
    backbone = build_backbone("resnet_small", 2, seed=0)
    for name in ("topics", "prototypes"):
        make_method(name, backbone, "layer3", SETTINGS)
        with refused(r"expected the layer `layer3` .* got `layer2`; omit `explained_layer`"):
            make_method(name, backbone, "layer2", SETTINGS)
    assert make_method("vebi", backbone, "layer2", SETTINGS).layer == "layer2"


def with_head(value: float) -> nn.Sequential:
    model = network()
    nn.init.constant_(model[4].weight, value)
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (named(network(3)), "`net` gives 3 logits, but the images have 2 classes: a, b; give images of all"),
        (named(nn.Sequential(nn.Flatten(), nn.Linear(7, 2))), "`net` raised RuntimeError: mat1 and mat2"),
        (named(nn.Conv2d(3, 2, 1)), r"`net`: expected logits \[4, classes\] .*, got \[4, 2, 8, 8\]"),
        (named(space="linear"), "`net` takes linear images"),
        (named(with_head(torch.nan)), "not finite"),
        (named(with_head(0.0)), "the same logits for all images"),
    ],
)
def test_networks_that_are_no_classifiers_of_the_classes(view, model, message) -> None:
    with refused(message):
        check_classifier(model, torch.stack(view.items), ["a", "b"])


def test_the_check_of_a_classifier_leaves_it_as_it_is(view) -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), *network()).train()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    check_classifier(named(model), torch.stack(view.items), ["a", "b"])
    assert model.training
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())
    check_classifier(named(), torch.stack(view.items[:1]), ["a", "b"])


def test_classes_in_the_order_of_a_network() -> None:
    model = network()
    assert order_classes("net", model, ["b", "a"]) == ("b", "a")
    for names, expected in (({0: "a", 1: "b"}, ("a", "b")), ({0: "LABEL_0", 1: "LABEL_1"}, ("b", "a"))):
        model.config = type("Config", (), {"id2label": names})
        assert order_classes("net", model, ["b", "a"]) == expected
    model.config = type("Config", (), {"id2label": {0: "a", 1: "c"}})
    with refused("`net` has the classes a, c, the images b, a; choose another factor"):
        order_classes("net", model, ["b", "a"])
