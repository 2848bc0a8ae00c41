"""Networks that ship: their contract, and the properties of the intrinsic network and the autoencoder."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.models.autoencoders import CodeDiscriminator, ConvVAE
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.model_protocols import IntrinsicModel
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.run.hidden_layers import run_recorded
from tests.refusals import refused

NETWORKS = {
    "intrinsic": lambda seed: IntrinsicNet(width=4, seed=seed),
    "autoencoder": lambda seed: ConvVAE(codes=3, side=32, seed=seed),
    "vgg_small": lambda seed: build_backbone("vgg_small", 5, seed=seed),
    "densenet_small": lambda seed: build_backbone("densenet_small", 5, seed=seed),
    "resnet_small": lambda seed: build_backbone("resnet_small", 5, seed=seed),
}


def drawn(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def count(network: nn.Module) -> int:
    return sum(values.numel() for values in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    with torch.random.fork_rng():
        before = torch.get_rng_state()
        one, same, other = (NETWORKS[name](seed).state_dict() for seed in (1, 1, 2))
        # The layers of the autoencoder draw weights that are then replaced.
        assert name == "autoencoder" or torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())
def test_images_of_a_batch_do_not_influence_each_other(make: Callable[[int], nn.Module]) -> None:
    network, images = make(0), drawn(3, 3, 32, 32)
    together, alone = network(images), network(images[1:2])
    together, alone = (found if isinstance(found, tuple) else (found,) for found in (together, alone))
    for part, one in zip(together, alone, strict=True):
        torch.testing.assert_close(part[1:2], one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: IntrinsicNet(width=0, seed=0), r"`width` must lie in 1\.\.256, got 0"),
        (lambda: IntrinsicNet(width=257, seed=0), r"`width` must lie in 1\.\.256, got 257"),
        (lambda: ConvVAE(codes=0, seed=0), r"`codes` must lie in 1\.\.1024, got 0"),
        (lambda: ConvVAE(side=48, seed=0), "expected images of 32 or 64 pixels, got 48; resize them"),
        (lambda: ConvVAE(side=32, seed=0)(drawn(1, 3, 64, 32)), r"images \[3, 32, 32\], .*got \[3, 64, 32\]"),
        (lambda: build_backbone("resnet5", 5, seed=0), r"must be one of: vgg19, .*did you mean `resnet50`"),
        (lambda: build_backbone("resnet50", 1, seed=0), "`classes` must be at least 2, got 1"),
        (
            lambda: NETWORKS["resnet_small"](0)(drawn(1, 3, 31, 40)),
            r"at least 32 x 32 pixels, got 31 x 40 \(",
        ),
    ],
)
def test_bad_arguments(call: Callable[[], object], message: str) -> None:
    with refused(message):
        call()


# ----------------------------------------------------------------------------------- intrinsic network


@pytest.mark.parametrize("size", [(1, 1), (21, 8)])
def test_any_size_and_range_of_outputs(size: tuple[int, int]) -> None:
    image = drawn(2, 3, *size)
    image[0] = 0
    reflectance, shading = NETWORKS["intrinsic"](0)(image)
    for output in (reflectance, shading):
        assert output.shape == image.shape
        assert output.isfinite().all()
        assert (output > 0).all()
    assert (reflectance < 1).all()


def test_the_intrinsic_network_is_small_and_a_model() -> None:
    network = IntrinsicNet(seed=0)
    assert isinstance(network, IntrinsicModel)
    assert 100_000 < count(network) < 300_000


def test_documented_layers_can_be_hooked() -> None:
    shapes = {f"encoder.{level}": (4 * (level + 1), 16 >> level, 24 >> level) for level in range(4)}
    for branch in ("reflectance", "shading"):
        for block in range(3):
            shapes[f"{branch}.blocks.{block}"] = (4 * (3 - block), 4 << block, 6 << block)
        shapes[f"{branch}.head"] = (3, 16, 24)
    output, found = run_recorded(NETWORKS["intrinsic"](0), list(shapes), drawn(1, 3, 16, 24))
    assert {name: tuple(values.shape[1:]) for name, values in found.items()} == shapes
    torch.testing.assert_close(output[0], found["reflectance.head"].sigmoid())
    torch.testing.assert_close(output[1], nn.functional.softplus(found["shading.head"]))


def test_branches_share_the_encoder_only() -> None:
    network = NETWORKS["intrinsic"](0)
    network(drawn(1, 3, 16, 16))[0].sum().backward()
    trained = {name.split(".")[0] for name, values in network.named_parameters() if values.grad is not None}
    assert trained == {"encoder", "reflectance"}
    assert all(values.grad.isfinite().all() for values in network.reflectance.parameters())


# ----------------------------------------------------------------------------------------- autoencoder

# Weights and biases of the published table: convolutions and linear layers, from the image to the image.
ENCODER_64 = (16 * 3 * 32 + 32, 16 * 32 * 32 + 32, 4 * 32 * 64 + 64, 4 * 64 * 64 + 64, 1024 * 256 + 256)
DECODER_64 = (256 * 1024 + 1024, 16 * 64 * 64 + 64, 16 * 64 * 32 + 32, 16 * 32 * 32 + 32, 16 * 32 * 3 + 3)


def test_the_published_number_of_weights() -> None:
    heads = 2 * (256 * 10 + 10) + 10 * 256 + 256
    assert count(ConvVAE(codes=10, side=64, seed=0)) == sum(ENCODER_64) + sum(DECODER_64) + heads
    assert count(CodeDiscriminator(10, seed=0)) == 10 * 1000 + 1000 + 5 * 1001 * 1000 + 2002


@pytest.mark.parametrize(("side", "codes"), [(32, 1), (64, 7)])
def test_codes_and_images(side: int, codes: int) -> None:
    network, images = ConvVAE(codes=codes, side=side, seed=0), drawn(2, 3, side, side)
    with torch.no_grad():
        means, log_variances = network.posterior(images)
        decoded = network.decode(means)
        assert torch.equal(network(images), means)
        assert torch.equal(decoded, network.logits(means).sigmoid())
    assert means.shape == log_variances.shape == (2, codes)
    assert decoded.shape == images.shape
    assert ((decoded > 0) & (decoded < 1)).all()
