import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.run.hidden_layers import split_network
from tests.refusals import refused


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.norm = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)
        self.act, self.linear = nn.ReLU(inplace=True), nn.Linear(3, 2)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.act(self.norm(self.one(images)))
        joined = self.other(maps) + maps
        return self.linear(joined.mean((2, 3)))


def images() -> Tensor:
    return torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("layer", ["one", "norm", "act"])
def test_parts_together_are_the_network(layer: str) -> None:
    model = Residual().eval()
    features, head = split_network(model, layer)
    activations = features(images())
    before = activations.clone()
    torch.testing.assert_close(head(activations), model(images()), rtol=0, atol=0)
    assert torch.equal(activations, before)  # the ReLU in place does not reach them


def test_parts_share_weights_and_only_their_own() -> None:
    model = Residual()
    features, head = split_network(model, "norm")
    assert {id(one) for one in features.parameters()} == {
        id(one) for part in (model.one, model.norm) for one in part.parameters()
    }
    assert {id(one) for one in head.parameters()} == {
        id(one) for part in (model.other, model.linear) for one in part.parameters()
    }
    assert model.training


def test_hooks_of_the_network_belong_to_the_first_part() -> None:
    model = Residual().eval()
    model.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 2 - 1,))
    features, head = split_network(model, "act")
    torch.testing.assert_close(head(features(images())), model(images()), rtol=0, atol=0)
    assert not torch.equal(features(images()), features(2 * images()))


def test_layer_that_another_path_passes_by() -> None:
    with refused("a connection passes by layer `other`; choose the layer that joins"):
        split_network(Residual(), "other")


def test_unknown_layer() -> None:
    with refused("layer `two` is not in the model; expected one of: 0, 1"):
        split_network(nn.Sequential(nn.ReLU(), nn.ReLU()), "two")


def test_layer_that_runs_twice() -> None:
    relu = nn.ReLU()
    with refused("layer `0` runs 2 times in a forward pass"):
        split_network(nn.Sequential(relu, nn.Conv2d(3, 3, 1), relu), "0")


def test_steps_that_depend_on_the_input() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 1)

        def forward(self, images: Tensor) -> Tensor:
            return self.conv(images) if images.sum() > 0 else images

    with refused("cannot be split at `conv`, because its steps depend on its input"):
        split_network(Branching(), "conv")
