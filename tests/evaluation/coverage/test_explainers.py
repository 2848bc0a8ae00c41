"""Explainers by text: those of captum against captum itself, closed forms, generators, and bad output."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.coverage import explainers
from candlelight.evaluation.coverage.explainers import (
    AttributionMethod,
    Explainer,
    captum_classes,
    occlusion_maps,
    open_explainer,
    rise_maps,
)
from candlelight.evaluation.coverage.explanations import explain_images
from candlelight.evaluation.coverage.filter_methods import GradCAM
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.loaders import errors
from tests.refusals import refused

SIDE = 16


@pytest.fixture
def network() -> nn.Sequential:
    torch.manual_seed(0)
    convolutions = (nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU())
    return nn.Sequential(*convolutions, nn.Dropout(0.5), nn.Flatten(), nn.Linear(4 * 25, 5))


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


TARGETS = torch.tensor([0, 3, 3, 1])


def grid(cells: int) -> torch.Tensor:
    place = torch.arange(SIDE) // (SIDE // cells)
    return (cells * place[:, None] + place).repeat(1, 3, 1, 1)


def named(model: object) -> NamedModel:
    return NamedModel(ModelIdentity("mine", "callable"), model, "srgb")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("IntegratedGradients,n_steps=20,baselines=0.5", {"n_steps": 20, "baselines": 0.5}),
        ("IntegratedGradients,method=riemann_trapezoid", {"method": "riemann_trapezoid"}),
        ("LayerGradCam", {}),
        ("LayerGradCam,relu_attributions=true", {"relu_attributions": True}),
        ("LayerIntegratedGradients,n_steps=7", {"n_steps": 7}),
        ("Saliency", {}),
        ("Saliency,abs=false", {"abs": False}),
        ("DeepLift,baselines=0.25", {"baselines": 0.25}),
        ("GuidedBackprop", {}),
        ("InputXGradient", {}),
        ("GradientShap,n_samples=3,stdevs=0.1", {"n_samples": 3, "stdevs": 0.1, "baselines": "zeros"}),
        ("FeatureAblation,grid=4", {"feature_mask": grid(4)}),
        ("ShapleyValueSampling,grid=2,n_samples=3", {"feature_mask": grid(2), "n_samples": 3}),
        ("KernelShap,grid=2,n_samples=30", {"feature_mask": grid(2), "n_samples": 30}),
        ("Lime,grid=2,n_samples=30", {"feature_mask": grid(2), "n_samples": 30}),
        ("Occlusion", {"sliding_window_shapes": (3, 2, 2), "strides": (3, 1, 1)}),
        (
            "Occlusion,sliding_window_shapes=8x4,strides=4",
            {"sliding_window_shapes": (3, 8, 4), "strides": (3, 4, 4)},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_maps_are_those_of_captum(network, images, text, arguments) -> None:
    attr = pytest.importorskip("captum.attr", reason="the extra `explain` is not installed")
    found = open_explainer(f"captum:{text}", network, "3", seed=5).explain(images, TARGETS)
    name, network = text.partition(",")[0], network.eval()
    layer = [network[3]] if name.startswith("Layer") else []
    program, expected = getattr(attr, name)(network, *layer), []
    if arguments.get("baselines") == "zeros":
        arguments = {**arguments, "baselines": torch.zeros(1, 3, SIDE, SIDE)}
    for image, target in zip(images.split(1), TARGETS.split(1), strict=True):
        torch.manual_seed(5)
        np.random.seed(5)  # noqa: NPY002
        expected.append(program.attribute(image.clone(), target=target, **arguments).sum(1))
    # Images in one batch differ from those alone by rounding.
    tolerance = {} if explainers._is_of(explainers._DRAWING, name) else {"atol": 1e-6, "rtol": 1e-4}
    torch.testing.assert_close(found, torch.cat(expected).detach(), **tolerance)


def test_occlusion_is_that_of_captum(network, images) -> None:
    attr = pytest.importorskip("captum.attr", reason="the extra `explain` is not installed")
    for window, stride in ((5, 3), (4, 4), (3, 1), (16, 5)):
        found = open_explainer(f"occlusion,window={window},stride={stride}", network).explain(images, TARGETS)
        how = {"sliding_window_shapes": (3, window, window), "strides": (3, stride, stride), "baselines": 0.5}
        expected = attr.Occlusion(network.eval()).attribute(images, target=TARGETS, **how)
        torch.testing.assert_close(found, expected[:, 0])


def test_only_classes_that_explain_an_image_alone_are_offered() -> None:
    pytest.importorskip("captum")
    known = captum_classes()
    wanted = {"IntegratedGradients", "LayerGradCam", "GradientShap", "Saliency", "DeepLift", "KernelShap"}
    assert wanted | {"FeatureAblation", "GuidedBackprop", "InputXGradient", "Occlusion"} <= known.keys()
    assert (
        not {"FeaturePermutation", "NoiseTunnel", "NeuronGradient", "LLMAttribution", "LayerLRP"}
        & known.keys()
    )


class Halves(nn.Module):
    """Give the mean of each half of an image as logits, left and right."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(1).unflatten(2, (2, -1)).mean((1, 3))


def test_occlusion_of_halves() -> None:
    image = torch.ones(1, 3, 2, 4)
    for target, left, right in ((0, 0.25, 0), (1, 0, 0.25)):
        found = occlusion_maps(Halves(), image, torch.tensor([target]), window=1, baseline=0)
        assert found.tolist() == [[[left, left, right, right]] * 2]
    wide = occlusion_maps(Halves(), image, torch.tensor([0]), window=1, stride=3, baseline=0)
    assert wide.tolist() == [[[0.25, 0, 0, 0], [0] * 4]]  # not all pixels are covered


def test_rise_of_a_probability_that_no_mask_changes() -> None:
    even = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 2))
    nn.init.zeros_(even[1].weight)
    nn.init.zeros_(even[1].bias)
    found = rise_maps(even, torch.ones(1, 3, SIDE, SIDE), torch.tensor([1]), masks=3000, share=0.3)
    # The standard error of the mean of 3000 draws of a cell is below 0.5 / 55 / 0.6.
    torch.testing.assert_close(found, torch.full_like(found, 0.5), atol=0.05, rtol=0)


def test_rise_is_the_mean_of_masks_weighted_by_the_probability(monkeypatch) -> None:
    """One cell is a mask that is the same everywhere, so that its map is known."""
    image, weights = torch.full((1, 3, 4, 4), 2.0), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    found = rise_maps(weights, image, torch.tensor([0]), masks=100, cells=1, share=0.5)
    draws = torch.Generator().manual_seed(0)
    opened = (torch.rand(64, 1, 1, 1, generator=draws) < 0.5).sum()
    for _ in range(2):
        torch.randint(4, (64,), generator=draws)
    opened += (torch.rand(36, 1, 1, 1, generator=draws) < 0.5).sum()
    torch.testing.assert_close(found, torch.full((1, 4, 4), float(opened) / 3 / 50))


@pytest.mark.parametrize(
    "text", ["grad-cam", "rise,masks=70", "occlusion", "captum:KernelShap", "captum:Saliency"]
)
def test_maps_do_not_depend_on_the_batch_and_leave_no_trace(network, images, text) -> None:
    if text.startswith("captum"):
        pytest.importorskip("captum")
    network.train()
    before, weights = (torch.get_rng_state(), np.random.get_state()[1].copy()), copy.deepcopy(network)  # noqa: NPY002
    explainer = open_explainer(text, network, "3", seed=2)
    together = explainer.explain(images, TARGETS)
    alone = [explainer.explain(*one) for one in zip(images.split(1), TARGETS.split(1), strict=True)]
    if text in ("grad-cam", "occlusion", "captum:Saliency"):
        torch.testing.assert_close(together, torch.cat(alone))
    else:
        assert torch.equal(together, torch.cat(alone))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert all(module.training for module in network.modules())
    assert all(one.grad is None for one in network.parameters())
    for one, other in zip(network.state_dict().values(), weights.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    other = open_explainer(text, network, "3", seed=3).explain(images, TARGETS)
    assert torch.equal(other, together) == (text not in ("rise,masks=70", "captum:KernelShap"))


def test_grad_cam_of_the_predicted_class_is_the_method(network, images) -> None:
    mine = AttributionMethod(open_explainer("grad-cam", network, "3"), network).explain(images)
    for one, other in zip(mine, GradCAM(network, "3").explain(images), strict=True):
        assert torch.equal(one, other)


OWN = """
import torch
from near import SCALE

def saliency(network, images, targets, scale=1.0, note=""):
    assert not network.training
    images.requires_grad_()
    network(images).gather(1, targets[:, None]).sum().backward()
    return SCALE * scale * images.grad + 0 * torch.rand(1)

def broken(network, images, targets):
    return images[:, 0, 0] / 0
"""


def test_function_of_a_file(network, images, tmp_path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    (tmp_path / "near.py").write_text("SCALE = 2\n")
    explainer = open_explainer(f"{path}:saliency,scale=0.5,note=a b", network)
    assert explainer.name == "own.py:saliency,scale=0.5,note=a b"
    inputs = images.clone().requires_grad_()
    network.eval()(inputs).gather(1, TARGETS[:, None]).sum().backward()
    torch.testing.assert_close(explainer.explain(images, TARGETS), inputs.grad.sum(1))
    (tmp_path / "near.py").write_text("SCALE = 3\n")
    changed = open_explainer(f"{path}:saliency", network).facts["explainer_sha256"]
    assert changed != explainer.facts["explainer_sha256"]
    with refused("own.py has no function `salience`; did you mean `saliency`?"):
        open_explainer(f"{path}:salience", network)
    with refused(r"expected maps \[4, rows, columns\] or .*, got float32 \[4, 16\]"):
        open_explainer(f"{path}:broken", nn.Identity()).explain(images, TARGETS)


@pytest.mark.filterwarnings("ignore")
def test_functions_and_objects_of_python(network, images) -> None:
    attr = pytest.importorskip("captum.attr", reason="the extra `explain` is not installed")
    program = attr.IntegratedGradients(network.eval())
    found = open_explainer(program, network)
    assert found.name == "IntegratedGradients"
    expected = program.attribute(images, target=TARGETS).sum(1).detach()
    torch.testing.assert_close(found.explain(images, TARGETS), expected.float())
    noisy = open_explainer(attr.NoiseTunnel(program), network, seed=1)
    assert torch.equal(noisy.explain(images, TARGETS)[2:], noisy.explain(images[2:], TARGETS[2:]))
    bright = open_explainer(lambda network, images, targets: images.numpy(), network)
    torch.testing.assert_close(bright.explain(images, TARGETS), images.sum(1))
    with refused("`method`: expected a text, a function or an object of captum, got int"):
        open_explainer(3, network)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            lambda images: images[:3],
            r"expected maps \[4, rows, columns\] or \[4, 1 or 3, .* got float32 \[3, 3",
        ),
        (lambda images: images.repeat(1, 2, 1, 1), r"got float32 \[4, 6, 16, 16\]; return one map for each"),
        (lambda images: images.sum((1, 2)), r"got float32 \[4, 16\]"),
        (lambda images: images.int(), "floating-point, got int32"),
        (lambda images: images[:, :, :0], "got float32"),
        (lambda images: None, "got None"),
        (lambda images: images @ images[0, 0, :5], "model `mine` raised"),
        (lambda images: images.transpose(1, 3), r"got float32 \[4, 16, 16, 3\]"),
    ],
)
def test_output_that_is_no_map(images, output, message) -> None:
    with refused(message):
        Explainer("mine", lambda images, targets: output(images)).explain(images, TARGETS)


def test_maps_that_are_not_finite_explain_nothing(network, images) -> None:
    def holes(network, images, targets):
        maps = images[:, :1].clone()
        maps[1, 0, 0, 0] = torch.nan
        return maps

    found = open_explainer(holes, network).explain(images, TARGETS)
    assert found.isnan().flatten(1).all(1).tolist() == found.isnan().flatten(1).any(1).tolist()
    assert found.isnan().flatten(1).any(1).tolist() == [False, True, False, False]
    method = AttributionMethod(open_explainer(holes, network), network)
    explained = method.explain(images)
    assert explained.concepts.flatten().tolist() == [0, -1, 0, 0]
    assert explained.maps[1].abs().max() == 0
    assert torch.equal(explained.predicted, network.eval()(images).argmax(1))
    whole = explain_images(named(method), "abcd", images)
    assert whole.concepts.flatten().tolist() == [0, -1, 0, 0]


def test_dead_network(images) -> None:
    dead = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 2))
    nn.init.constant_(dead[1].weight, torch.nan)
    for text in ("rise,masks=3", "occlusion"):
        explained = AttributionMethod(open_explainer(text, dead), dead).explain(images)
        assert explained.predicted.tolist() == [-1] * 4
        assert explained.concepts.flatten().tolist() == [-1] * 4
        assert explained.maps.abs().max() == 0
    with refused(r"expected logits \[4, classes\] of the network, got \[4, 3, 16, 16\]"):
        AttributionMethod(open_explainer("occlusion", nn.Identity()), nn.Identity()).explain(images)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "captum:IntegratedGradient",
            "has no class `IntegratedGradient` that explains images; did you mean `In",
        ),
        ("captum:NoiseTunnel", "has no class `NoiseTunnel` that explains images; expected one of .*Saliency"),
        (
            "captum:IntegratedGradients,steps=3",
            "expected one of the options .*, got steps; did you mean `n_step",
        ),
        ("captum:IntegratedGradients,n_steps=few", "expected n_steps a whole number of at least 1, got few"),
        ("captum:IntegratedGradients,n_steps=0", "expected n_steps a whole number of at least 1, got 0"),
        (
            "captum:IntegratedGradients,n_steps=true",
            "expected n_steps a whole number of at least 1, got true",
        ),
        ("captum:IntegratedGradients,baselines=dark", "expected baselines a number, got dark"),
        ("captum:IntegratedGradients,method=guess", "model `captum:IntegratedGradients,method=guess` raised"),
        ("captum:Saliency,abs=0", "expected abs true or false, got 0"),
        ("captum:Occlusion,strides=4x", "expected strides such as 8 or 8x4, got 4x"),
        ("captum:LayerGradCam", "name the layer to explain, usually the last convolution"),
        ("grad-cam", "name the layer to explain, usually the last convolution"),
        ("vebi", "`method` vebi: expected a method that learns nothing, such as grad-cam"),
        ("sage", "`method` sage: expected all, vebi, .* or file.py:function"),
    ],
)
def test_texts_that_are_refused(network, images, text, message) -> None:
    if text.startswith("captum"):
        pytest.importorskip("captum")
    with refused(message):
        open_explainer(text, network).explain(images, TARGETS)


def test_layer_that_is_not_there(network) -> None:
    with refused("layer `9` is not in the model; expected one of: 0, 1, 2"):
        open_explainer("grad-cam", network, "9")


def test_captum_that_is_not_installed(network, monkeypatch) -> None:
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: None)
    message = r'^this needs captum, not installed here; run `pip install "candlelight\[explain\]"`$'
    with pytest.raises(ModuleNotFoundError, match=message):
        open_explainer("captum:Saliency", network)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "text", ["grad-cam", "rise,masks=70", "occlusion", "captum:KernelShap", "captum:DeepLift"]
)
def test_maps_of_a_gpu_are_those_of_the_cpu(network, images, text) -> None:
    if text.startswith("captum"):
        pytest.importorskip("captum")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    expected = open_explainer(text, network, "3").explain(images, TARGETS)
    network, state = network.cuda(), torch.cuda.get_rng_state()
    found = open_explainer(text, network, "3").explain(images.cuda(), TARGETS.cuda())
    assert found.device.type == "cuda"
    assert torch.equal(state, torch.cuda.get_rng_state())
    torch.testing.assert_close(found.cpu(), expected, atol=1e-4, rtol=1e-3)
