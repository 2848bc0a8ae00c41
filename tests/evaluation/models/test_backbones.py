from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.build_backbone import BACKBONES, build_backbone, load_backbone
from candlelight.evaluation.run.hidden_layers import run_recorded
from tests.refusals import refused

SMALL = ("vgg_small", "densenet_small", "resnet_small")
# Totals of torchvision's networks with 1000 classes.
PARAMETERS = {
    "vgg19": 143_667_240,
    "vgg19_bn": 143_678_248,
    "densenet121": 7_978_856,
    "resnet50": 25_557_032,
}
# A few entries of torchvision's files of weights.
ENTRIES = {
    "vgg19": {
        "features.0.weight": (64, 3, 3, 3),
        "features.34.weight": (512, 512, 3, 3),
        "classifier.0.weight": (4096, 25088),
        "classifier.6.weight": (1000, 4096),
    },
    "vgg19_bn": {
        "features.1.running_var": (64,),
        "features.49.weight": (512, 512, 3, 3),
        "features.50.num_batches_tracked": (),
        "classifier.6.bias": (1000,),
    },
    "densenet121": {
        "features.norm0.bias": (64,),
        "features.denseblock1.denselayer6.conv1.weight": (128, 224, 1, 1),
        "features.denseblock4.denselayer16.conv2.weight": (32, 128, 3, 3),
        "features.transition3.conv.weight": (512, 1024, 1, 1),
        "features.norm5.running_mean": (1024,),
        "classifier.weight": (1000, 1024),
    },
    "resnet50": {
        "bn1.running_mean": (64,),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer2.0.conv2.weight": (128, 128, 3, 3),
        "layer3.5.bn3.weight": (1024,),
        "layer4.2.conv3.weight": (2048, 512, 1, 1),
        "fc.bias": (1000,),
    },
}
# Number of entries of a file, counters of batch normalisation included.
COUNTS = {"vgg19": 38, "vgg19_bn": 118, "densenet121": 727, "resnet50": 320}
LAYERS = {
    "vgg19": "features.35",
    "vgg19_bn": "features.51",
    "densenet121": "features.relu5",
    "resnet50": "layer4",
}


def empty(name: str, classes: int = 1000) -> Backbone:
    """Build a network of shapes without numbers, in no time and memory."""
    with torch.device("meta"):
        return BACKBONES[name](classes)


def drawn(name: str, classes: int = 5, seed: int = 0) -> Backbone:
    """Build a network whose batch normalisation is not the identity."""
    network = build_backbone(name, classes, seed=seed)
    draws = torch.Generator().manual_seed(seed)
    for key, values in network.state_dict().items():
        if "running" in key or values.ndim == 1:
            values.copy_(torch.rand(values.shape, generator=draws) + 0.5)
    return network


def images(size: int = 64, count: int = 2) -> Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(size))


@pytest.mark.parametrize("name", PARAMETERS)
def test_names_and_shapes_are_those_of_public_weights(name: str) -> None:
    network = empty(name)
    state = network.state_dict()
    assert sum(values.numel() for values in network.parameters()) == PARAMETERS[name]
    assert {key: tuple(state[key].shape) for key in ENTRIES[name]} == ENTRIES[name]
    assert len(state) == COUNTS[name]
    assert network.explained_layer == LAYERS[name]


@pytest.mark.parametrize(
    ("name", "channels", "stride"),
    [
        ("vgg19", 512, 16),
        ("vgg19_bn", 512, 16),
        ("densenet121", 1024, 32),
        ("resnet50", 2048, 32),
        ("vgg_small", 128, 8),
        ("densenet_small", 90, 8),
        ("resnet_small", 256, 8),
    ],
)
def test_shapes(name: str, channels: int, stride: int) -> None:
    network = empty(name, classes=7).eval()
    assert network.classes == 7
    maps = network.maps(torch.empty(2, 3, 64, 96, device="meta"))
    assert maps.shape == (2, channels, 64 // stride, 96 // stride)
    assert network.logits(maps).shape == (2, 7)


@pytest.mark.parametrize("name", SMALL)
def test_explained_layer_gives_the_maps(name: str) -> None:
    network = drawn(name)
    output, recorded = run_recorded(network, [network.explained_layer], images())
    maps = recorded[network.explained_layer]
    assert torch.equal(maps, network.maps(images()))
    assert torch.equal(network.logits(maps), output)
    assert (maps >= 0).all()
    assert (maps > 0).any()


def norm(state: dict[str, Tensor], name: str, values: Tensor) -> Tensor:
    """Normalise by running statistics, written out."""
    weight, bias, mean, var = (
        state[f"{name}.{part}"][:, None, None] for part in ("weight", "bias", "running_mean", "running_var")
    )
    return (values - mean) / (var + 1e-5).sqrt() * weight + bias


def normalised(batch: Tensor) -> Tensor:
    channels = zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True)
    return torch.stack([(batch[:, n] - mean) / std for n, (mean, std) in enumerate(channels)], 1)


def vgg_by_hand(state: dict[str, Tensor], values: Tensor) -> Tensor:
    index = 0
    for stage, count in enumerate((1, 2, 2, 2)):
        values = functional.max_pool2d(values, 2) if stage else values
        for _ in range(count):
            weight, bias = state[f"features.{index}.weight"], state[f"features.{index}.bias"]
            values = norm(state, f"features.{index + 1}", functional.conv2d(values, weight, bias, padding=1))
            values, index = values.clamp(min=0), index + 3
        index += 1
    places = values.shape[2] // 2
    pooled = values.unfold(2, 2, 2).unfold(3, 2, 2).amax((4, 5))
    side = places // 2
    flat = pooled.unfold(2, side, side).unfold(3, side, side).mean((4, 5)).flatten(1)
    for layer in (0, 3):
        flat = (flat @ state[f"classifier.{layer}.weight"].T + state[f"classifier.{layer}.bias"]).clamp(min=0)
    return flat @ state["classifier.6.weight"].T + state["classifier.6.bias"]


def densenet_by_hand(state: dict[str, Tensor], values: Tensor) -> Tensor:
    conv = functional.conv2d
    values = conv(values, state["features.conv0.weight"], stride=2, padding=1)
    values = norm(state, "features.norm0", values).clamp(min=0)
    for block in (1, 2, 3):
        outputs = [values]
        for layer in (1, 2, 3, 4):
            name = f"features.denseblock{block}.denselayer{layer}"
            inner = norm(state, f"{name}.norm1", torch.cat(outputs, 1)).clamp(min=0)
            inner = norm(state, f"{name}.norm2", conv(inner, state[f"{name}.conv1.weight"])).clamp(min=0)
            outputs.append(conv(inner, state[f"{name}.conv2.weight"], padding=1))
        values = torch.cat(outputs, 1)
        if block < 3:
            name = f"features.transition{block}"
            values = conv(norm(state, f"{name}.norm", values).clamp(min=0), state[f"{name}.conv.weight"])
            values = values.unfold(2, 2, 2).unfold(3, 2, 2).mean((4, 5))
    values = norm(state, "features.norm5", values).clamp(min=0).mean((2, 3))
    return values @ state["classifier.weight"].T + state["classifier.bias"]


def resnet_by_hand(state: dict[str, Tensor], values: Tensor) -> Tensor:
    conv = functional.conv2d
    values = norm(state, "bn1", conv(values, state["conv1.weight"], stride=2, padding=1)).clamp(min=0)
    for stage in (1, 2, 3):
        for block in (0, 1):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            inner = norm(state, f"{name}.bn1", conv(values, state[f"{name}.conv1.weight"])).clamp(min=0)
            inner = conv(inner, state[f"{name}.conv2.weight"], stride=stride, padding=1)
            inner = norm(state, f"{name}.bn2", inner).clamp(min=0)
            inner = norm(state, f"{name}.bn3", conv(inner, state[f"{name}.conv3.weight"]))
            if block == 0:
                values = conv(values, state[f"{name}.downsample.0.weight"], stride=stride)
                values = norm(state, f"{name}.downsample.1", values)
            values = (inner + values).clamp(min=0)
    return values.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("vgg_small", vgg_by_hand),
        ("densenet_small", densenet_by_hand),
        ("resnet_small", resnet_by_hand),
    ],
)
def test_logits_equal_the_layers_written_out(name: str, by_hand) -> None:
    network, batch = drawn(name).double(), images().double()
    with torch.no_grad():
        assert torch.allclose(network(batch), by_hand(network.state_dict(), normalised(batch)), rtol=1e-9)


@pytest.mark.parametrize("name", SMALL)
def test_initial_activations_neither_vanish_nor_explode(name: str) -> None:
    network = build_backbone(name, 5, seed=0).train()
    maps = network.maps(images(count=4))
    assert 0.1 < maps.square().mean().sqrt() < 10
    assert network.eval().logits(maps).softmax(1).max() < 0.5


def stored(network: Backbone, path: Path, **changes: object) -> Path:
    torch.save({**network.state_dict(), **changes}, path)
    return path


@pytest.mark.parametrize("name", SMALL)
def test_public_weights_are_loaded_and_another_number_of_classes_keeps_a_random_head(
    name: str, tmp_path: Path
) -> None:
    public = drawn(name)
    path = stored(public, tmp_path / "public.pth")
    found = load_backbone(name, path, 5)
    assert torch.equal(found(images()), public(images()))
    assert not found.training
    found = load_backbone(name, path, 3, seed=4)
    assert torch.equal(found.head.weight, build_backbone(name, 3, seed=4).head.weight)
    assert torch.equal(found.head.bias, torch.zeros(3))
    assert torch.equal(found.maps(images()), public.maps(images()))
    if name == "vgg_small":  # the hidden linear layers are no head
        assert torch.equal(found.classifier[3].weight, public.classifier[3].weight)


def test_old_spelling_of_densenet_and_missing_counters(tmp_path: Path) -> None:
    network = drawn("densenet_small")
    old = {}
    for key, values in network.state_dict().items():
        for part in ("norm1", "norm2", "conv1", "conv2") if "denselayer" in key else ():
            key = key.replace(f".{part}.", f".{part[:-1]}.{part[-1]}.")
        if not key.endswith("num_batches_tracked"):
            old[key] = values
    assert "features.denseblock2.denselayer3.norm.1.running_mean" in old
    assert "features.denseblock1.denselayer4.conv.2.weight" in old
    torch.save(old, tmp_path / "old.pth")
    assert torch.equal(load_backbone("densenet_small", tmp_path / "old.pth", 5)(images()), network(images()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extra": torch.zeros(1)}, r"resnet_small: expected the weights of ResNet; unexpected: extra; give"),
        ({"conv1.weight": torch.zeros(16, 3, 7, 7)}, r"other shapes: conv1\.weight \[16, 3, 7, 7\] instead"),
        ({"fc.weight": torch.zeros(5, 9)}, r"other shapes: fc\.weight \[5, 9\] instead of \[5, 256\]"),
        ({"fc.weight": torch.zeros(5, 256, 1)}, r"other shapes: fc\.weight \[5, 256, 1\] instead"),
        ({"bn1.weight": torch.full((16,), torch.nan)}, r"`bn1\.weight` has a value that is nan or infinite"),
        ({"epoch": 3}, "expected tensors by name, got epoch of int"),
        ({"state": Path("x")}, "would run code in the file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = stored(build_backbone("resnet_small", 5, seed=0), tmp_path / "public.pth", **changes)
    with refused(message):
        load_backbone("resnet_small", path, 5)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = stored(build_backbone("vgg_small", 5, seed=0), tmp_path / "public.pth")
    with refused(r"expected the weights of ResNet; missing: conv1\.weight, .* more"):
        load_backbone("resnet_small", path, 5)
