import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.intrinsic.lpips import FEATURE_STACKS, LPIPS, load_lpips
from tests.refusals import refused

PARAMETERS = {"alex": 2_469_696, "vgg": 14_714_688, "squeeze": 722_496}  # of the convolutional parts


def made_files(folder: Path, network: str) -> tuple[Path, Path, dict[str, Tensor]]:
    """Write random weights in the layout of both files; return the files and all weights."""
    draws, stack = torch.Generator().manual_seed(0), FEATURE_STACKS[network]
    backbone = {"classifier.1.weight": torch.zeros(2, 2)}
    for name, values in stack.build().state_dict().items():
        # The spread of a kernel keeps the size of the features from layer to layer.
        spread = (2 / values[0].numel()) ** 0.5 if values.ndim > 1 else 0.1
        backbone[f"features.{name}"] = spread * torch.randn(values.shape, generator=draws)
    heads = {
        f"lin{n}.model.1.weight": torch.rand(1, width, 1, 1, generator=draws)
        for n, width in enumerate(stack.channels)
    }
    paths = folder / "backbone.pth", folder / "heads.pth"
    torch.save(backbone, paths[0])
    torch.save(heads, paths[1], _use_new_zipfile_serialization=False)  # as the published heads
    return *paths, {**backbone, **heads}


@pytest.fixture(scope="module", params=["alex", "vgg", "squeeze"])
def loaded(request, tmp_path_factory) -> tuple[str, LPIPS, dict[str, Tensor]]:
    """Return the name of a network, its distance and its random weights."""
    *paths, weights = made_files(tmp_path_factory.mktemp(request.param), request.param)
    return request.param, load_lpips(request.param, *paths), weights


@pytest.fixture(scope="module")
def squeeze(tmp_path_factory) -> LPIPS:
    *paths, _ = made_files(tmp_path_factory.mktemp("squeeze"), "squeeze")
    return load_lpips("squeeze", *paths)


def convolve(weights: dict[str, Tensor], name: str, image: Tensor, **options: int) -> Tensor:
    name = f"features.{name}"
    return functional.conv2d(image, weights[f"{name}.weight"], weights[f"{name}.bias"], **options).relu()


def alexnet(weights: dict[str, Tensor], image: Tensor) -> list[Tensor]:
    first = convolve(weights, "0", image, stride=4, padding=2)
    second = convolve(weights, "3", functional.max_pool2d(first, 3, 2), padding=2)
    third = convolve(weights, "6", functional.max_pool2d(second, 3, 2), padding=1)
    fourth = convolve(weights, "8", third, padding=1)
    return [first, second, third, fourth, convolve(weights, "10", fourth, padding=1)]


def vgg16(weights: dict[str, Tensor], image: Tensor) -> list[Tensor]:
    found = []
    for block in (("0", "2"), ("5", "7"), ("10", "12", "14"), ("17", "19", "21"), ("24", "26", "28")):
        image = functional.max_pool2d(found[-1], 2) if found else image
        for name in block:
            image = convolve(weights, name, image, padding=1)
        found.append(image)
    return found


def squeezenet(weights: dict[str, Tensor], image: Tensor) -> list[Tensor]:
    def fire(index: int, values: Tensor) -> Tensor:
        few = convolve(weights, f"{index}.squeeze", values)
        sides = (
            convolve(weights, f"{index}.expand1x1", few),
            convolve(weights, f"{index}.expand3x3", few, padding=1),
        )
        return torch.cat(sides, 1)

    def half(values: Tensor) -> Tensor:
        return functional.max_pool2d(values, 3, 2, ceil_mode=True)

    found = [convolve(weights, "0", image, stride=2)]
    found.append(fire(4, fire(3, half(found[-1]))))
    found.append(fire(7, fire(6, half(found[-1]))))
    found.append(fire(9, half(found[-1])))
    for index in (10, 11, 12):
        found.append(fire(index, found[-1]))
    return found


FEATURES = {"alex": alexnet, "vgg": vgg16, "squeeze": squeezenet}


def literal(network: str, weights: dict[str, Tensor], images: tuple[Tensor, Tensor]) -> float:
    """Compute the distance of one pair [3, height, width] place by place."""
    mean, deviation = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    both = []
    for image in images:
        normalised = ((image * 2 - 1).permute(1, 2, 0) - mean) / deviation
        both.append(FEATURES[network](weights, normalised.permute(2, 0, 1)[None]))
    distance = 0.0
    for level, (one, other) in enumerate(zip(*both, strict=True)):
        head = weights[f"lin{level}.model.1.weight"].flatten()
        u, v = (values[0].permute(1, 2, 0).flatten(0, 1) for values in (one, other))  # a row for each place
        u, v = (values / (values.pow(2).sum(1, keepdim=True).sqrt() + 1e-10) for values in (u, v))
        distance += ((u - v).pow(2) @ head).mean().item()
    return distance


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.oracle
@pytest.mark.parametrize("network", FEATURE_STACKS)
def test_equals_the_package_of_the_authors(network, tmp_path, monkeypatch) -> None:
    """Its own heads, and random weights of a backbone, which it takes from a stand-in for torchvision."""
    backbone, _, weights = made_files(tmp_path, network)
    features = FEATURE_STACKS[network].build()
    own = {name.removeprefix("features."): one for name, one in weights.items() if name[:8] == "features"}
    features.load_state_dict(own)
    models = SimpleNamespace()
    for name in ("alexnet", "vgg16", "squeezenet1_1"):
        setattr(models, name, lambda pretrained: SimpleNamespace(features=features))
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    package = pytest.importorskip("lpips")
    monkeypatch.setattr(package.pretrained_networks, "tv", models)
    theirs = package.LPIPS(net=network, pnet_rand=True, verbose=False)
    heads = Path(package.__file__).parent / "weights" / "v0.1" / f"{network}.pth"
    one, other = drawn(1, 2, 3, 64, 80), drawn(2, 2, 3, 64, 80)
    with torch.no_grad():
        expected = theirs(one, other, normalize=True).flatten()
    found = load_lpips(network, backbone, heads)(one, other, torch.ones(2, 64, 80, dtype=torch.bool))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_equals_a_restatement_with_functional_calls(loaded) -> None:
    network, metric, weights = loaded
    assert sum(values.numel() for values in metric.features.parameters()) == PARAMETERS[network]
    assert not any(values.requires_grad for values in metric.features.parameters())
    prediction, target = drawn(1, 2, 3, 35, 50), drawn(2, 2, 3, 35, 50)
    mask = drawn(3, 2, 35, 50) < 0.7
    mask[0] = True
    found = metric(prediction, target, mask)
    for row in range(2):
        pair = prediction[row] * mask[row], target[row] * mask[row]
        assert found[row].item() == pytest.approx(literal(network, weights, pair), rel=1e-4)
    assert (found > 0).all()


def test_smallest_image(loaded) -> None:
    network, metric, _ = loaded
    side = FEATURE_STACKS[network].smallest
    image = drawn(5, 1, 3, side, side + 3)
    assert metric(image, image.flip(3), torch.ones(1, side, side + 3)) > 0
    with pytest.raises(RuntimeError, match=r"too small|can't be greater than"):  # hence the check
        metric.features(image[:, :, 1:])
    with refused(f"at least {side}x{side} pixels, got {side - 1}x{side + 3}"):
        metric(image[:, :, 1:], image[:, :, 1:], torch.ones(1, side - 1, side + 3))


def test_nothing_outside_the_mask_is_read(squeeze: LPIPS) -> None:
    prediction, target = drawn(11, 4, 3, 30, 30), drawn(12, 4, 3, 30, 30)
    mask = torch.ones(4, 30, 30)
    mask[:, 8:14] = 0
    plain = squeeze(prediction, target, mask)
    prediction[:, :, 9], target[:, :, 10] = torch.nan, torch.inf
    assert torch.equal(squeeze(prediction, target, mask), plain)
    assert torch.equal(squeeze(prediction, target, 0.5 * mask), plain)
    prediction[1, 0, 0, 0], target[2, 1, 0, 0], mask[3] = torch.nan, torch.inf, 0
    found = squeeze(prediction, target, mask)
    assert found.isnan().tolist() == [False, True, True, True]
    assert found[0] == plain[0]


# ----------------------------------------------------------------------------------------------------- files


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    backbone, heads, _ = made_files(tmp_path, "squeeze")
    return backbone, heads


def test_loading_draws_nothing_and_widens_half_precision(files: tuple[Path, Path]) -> None:
    for path in files:
        weights = torch.load(path, weights_only=True)
        torch.save({name: values.half() for name, values in weights.items()}, path)
    image, before = drawn(16, 1, 3, 20, 20), torch.get_rng_state()
    assert load_lpips("squeeze", *map(str, files))(image, 1 - image, image[:, 0] > -1) > 0
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("network", "name"),
    [("alex", "alexnet-owt-7be5be79"), ("vgg", "vgg16-397923af"), ("squeeze", "squeezenet1_1-b8a52dc0")],
)
def test_missing_files_are_named(files: tuple[Path, Path], network: str, name: str) -> None:
    with refused(rf"^expected {name}\.pth .*none\.pth does not exist"):
        load_lpips(network, files[0].with_name("none.pth"), files[1])
    with refused(r"^expected lpips/weights/v0\.1/squeeze\.pth .* does not exist"):
        load_lpips("squeeze", files[0], files[0].with_name("none"))


def _write(content: object) -> Callable[[Path], object]:
    return lambda path: torch.save(content, path)


def _below_zero(value: float) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        weights = torch.load(path, weights_only=True)
        weights["lin0.model.1.weight"][0, 0] = value
        torch.save(weights, path)

    return change


ALEX = {f"lin{n}.model.1.weight": torch.ones(1, width, 1, 1) for n, width in enumerate((64, 192))}
BACKBONE = r"backbone\.pth is not squeezenet1_1-b8a52dc0\.pth from [^\n]*, or is damaged: "
HEADS = r"heads\.pth is not lpips/weights/v0\.1/squeeze\.pth from [^\n]*: "


@pytest.mark.parametrize(
    ("changed", "change", "message"),
    [
        (0, _write({}), rf"{BACKBONE}.*expected `features\.0\.weight` \[64, 3, 3, 3\], got nothing"),
        # The first layer of SqueezeNet 1.0.
        (0, _write({"features.0.weight": torch.zeros(96, 3, 7, 7)}), rf"{BACKBONE}.*got \[96, 3, 7, 7\]"),
        (0, _write({"features.0.weight": 3}), rf"{BACKBONE}.*got nothing"),
        (0, _write([torch.zeros(3)]), rf"{BACKBONE}.*it holds no weights by name"),
        (0, _write(Path("object")), rf"{BACKBONE}.*it holds no weights, or more than weights"),
        (0, lambda path: path.write_bytes(path.read_bytes()[:1000]), BACKBONE),
        (0, lambda path: path.write_bytes(b"<html>404</html>"), BACKBONE),
        (0, lambda path: shutil.copy(path.with_name("heads.pth"), path), BACKBONE),
        (1, lambda path: shutil.copy(path.with_name("backbone.pth"), path), HEADS),
        (1, _write(ALEX), r"expected `lin1\.model\.1\.weight` \[1, 128, 1, 1\], got \[1, 192, 1, 1\]"),
        (1, _below_zero(-0.1), rf"{HEADS}.*expected weights of at least 0, got others"),
        (1, _below_zero(torch.nan), rf"{HEADS}.*expected weights of at least 0, got others"),
    ],
)
def test_damaged_and_other_files(files, changed, change, message) -> None:
    change(files[changed])
    with refused(rf"^[^\n]*{message}[^\n]*$"):
        load_lpips("squeeze", *files)


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_a_device_that_cannot_be_used(files: tuple[Path, Path], device: str) -> None:
    with refused(f"^`device` {device}: not usable here: [^\n]+$"):
        load_lpips("squeeze", *files, device)


def test_gray_images_are_refused(squeeze: LPIPS) -> None:
    gray = torch.ones(1, 1, 20, 20)
    with refused(r"`prediction` \[batch, 3, height, width\].*got \[1, 1, 20, 20\]"):
        squeeze(gray, gray, gray[0])
