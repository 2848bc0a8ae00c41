import pytest
import torch

from candlelight.evaluation.models.model_protocols import IntrinsicModel
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.run.hidden_layers import run_recorded
from candlelight.loaders.errors import InputError


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("size", [(48, 64), (1, 1), (7, 30), (21, 8)])
def test_any_size_and_range_of_outputs(size: tuple[int, int]) -> None:
    image = drawn(2, 3, *size)
    image[0] = 0
    for output in IntrinsicNet(width=4, seed=0)(image):
        assert output.shape == image.shape
        assert output.isfinite().all()
        assert (output > 0).all()
    reflectance, _ = IntrinsicNet(width=4, seed=0)(image)
    assert (reflectance < 1).all()


def test_is_small_and_a_model() -> None:
    network = IntrinsicNet(seed=0)
    assert isinstance(network, IntrinsicModel)
    assert 100_000 < sum(values.numel() for values in network.parameters()) < 300_000


def test_weights_follow_the_seed_and_nothing_else() -> None:
    before = torch.get_rng_state()
    one, same, other = (IntrinsicNet(width=3, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(torch.get_rng_state(), before)


def test_documented_layers_can_be_hooked() -> None:
    shapes = {f"encoder.{level}": (4 * (level + 1), 16 >> level, 24 >> level) for level in range(4)}
    for branch in ("reflectance", "shading"):
        for block in range(3):
            shapes[f"{branch}.blocks.{block}"] = (4 * (3 - block), 4 << block, 6 << block)
        shapes[f"{branch}.head"] = (3, 16, 24)
    network = IntrinsicNet(width=4, seed=0)
    output, found = run_recorded(network, list(shapes), drawn(1, 3, 16, 24))
    assert {name: tuple(values.shape[1:]) for name, values in found.items()} == shapes
    torch.testing.assert_close(output[0], found["reflectance.head"].sigmoid())
    torch.testing.assert_close(output[1], torch.nn.functional.softplus(found["shading.head"]))


def test_images_of_a_batch_do_not_mix() -> None:
    network, images = IntrinsicNet(width=4, seed=0), drawn(3, 3, 13, 17)
    together = network(images)
    alone = network(images[1:2])
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a[1:2], b)


def test_branches_share_the_encoder_only() -> None:
    network = IntrinsicNet(width=3, seed=0)
    reflectance, _ = network(drawn(1, 3, 16, 16))
    reflectance.sum().backward()
    has_gradient = {
        name.split(".")[0] for name, values in network.named_parameters() if values.grad is not None
    }
    assert has_gradient == {"encoder", "reflectance"}
    assert all(values.grad.isfinite().all() for values in network.reflectance.parameters())


@pytest.mark.parametrize("width", [0, 257])
def test_width_out_of_range(width: int) -> None:
    with pytest.raises(InputError, match=rf"`width` must lie in 1\.\.256, got {width}"):
        IntrinsicNet(width=width, seed=0)
