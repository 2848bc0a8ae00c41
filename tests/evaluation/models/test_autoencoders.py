from pathlib import Path

import pytest
import torch

from candlelight.evaluation.models import IntrinsicNet, open_model, save_model
from candlelight.evaluation.models.autoencoders import (
    CodeDiscriminator,
    ConvVAE,
    load_autoencoder,
    save_autoencoder,
)
from candlelight.evaluation.models.network import weights_format
from candlelight.loaders.errors import InputError

# Weights and biases of the published table: convolutions and linear layers, from the image to the image.
ENCODER_64 = (16 * 3 * 32 + 32, 16 * 32 * 32 + 32, 4 * 32 * 64 + 64, 4 * 64 * 64 + 64, 1024 * 256 + 256)
DECODER_64 = (256 * 1024 + 1024, 16 * 64 * 64 + 64, 16 * 64 * 32 + 32, 16 * 32 * 32 + 32, 16 * 32 * 3 + 3)


def count(network: torch.nn.Module) -> int:
    return sum(values.numel() for values in network.parameters())


def test_the_published_number_of_weights() -> None:
    heads = 2 * (256 * 10 + 10) + 10 * 256 + 256
    assert count(ConvVAE(codes=10, side=64, seed=0)) == sum(ENCODER_64) + sum(DECODER_64) + heads
    assert count(CodeDiscriminator(10, seed=0)) == 10 * 1000 + 1000 + 5 * 1001 * 1000 + 2002


@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.parametrize("codes", [1, 7])
def test_codes_and_images(side: int, codes: int) -> None:
    network = ConvVAE(codes=codes, side=side, seed=0)
    images = torch.rand(2, 3, side, side)
    with torch.no_grad():
        means, log_variances = network.posterior(images)
        decoded = network.decode(means)
        assert torch.equal(network(images), means)
        assert torch.equal(decoded, network.logits(means).sigmoid())
    assert means.shape == log_variances.shape == (2, codes)
    assert decoded.shape == images.shape
    assert ((decoded > 0) & (decoded < 1)).all()
    assert network.colour_space == "srgb"


def test_weights_depend_on_the_seed_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = (ConvVAE(codes=3, side=32, seed=seed).state_dict() for seed in (0, 0, 1))
    torch.set_rng_state(before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["means.weight"], other["means.weight"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codes": 0}, r"`codes` must lie in 1\.\.1024, got 0"),
        ({"side": 48}, "expected images of 32 or 64 pixels, got 48; resize them"),
    ],
)
def test_bad_arguments(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConvVAE(**arguments, seed=0)


def test_images_of_another_size() -> None:
    with pytest.raises(InputError, match=r"expected images \[3, 32, 32\], on which .* got \[3, 64, 32\]"):
        ConvVAE(codes=2, side=32, seed=0)(torch.zeros(1, 3, 64, 32))


def test_a_file_is_a_model(tmp_path: Path) -> None:
    network = ConvVAE(codes=3, side=32, seed=0)
    path = save_autoencoder(network, tmp_path / "beta.pt", {"model": "beta-vae", "seed": 0})
    found = load_autoencoder(path)
    assert found.training == {"model": "beta-vae", "seed": 0}
    assert not found.network.training
    opened = open_model(str(path))
    assert (opened.identity.name, opened.identity.source, opened.colour_space) == ("beta", "weights", "srgb")
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(opened.model(images), network(images))
        assert torch.equal(opened.model.decode(network(images)), found.network.decode(network(images)))


def test_other_and_damaged_files(tmp_path: Path) -> None:
    other = save_model(IntrinsicNet(width=2, seed=0), tmp_path / "net.pt")
    with pytest.raises(InputError, match="expected a file of `save_autoencoder`, its format is not"):
        load_autoencoder(other)
    path = save_autoencoder(ConvVAE(codes=2, side=32, seed=0), tmp_path / "beta.pt", {})
    content = torch.load(path, weights_only=True)
    torch.save(content | {"architecture": {"codes": 2}}, path)
    with pytest.raises(InputError, match="damaged: expected architecture and training of an autoencoder"):
        load_autoencoder(path)
    torch.save(content | {"architecture": {"codes": 3, "side": 32}}, path)
    with pytest.raises(InputError, match=r"beta.pt: expected the weights of ConvVAE; other shapes"):
        load_autoencoder(path)
    path.write_bytes(b"nothing")
    assert weights_format(path) is None
