import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.running.hidden_layers import evaluation_mode, record_layers, run_recorded
from candlelight.loaders.errors import InputError


class Twice(nn.Module):
    """A network that runs one layer twice, never runs another, and has a layer that returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Conv2d(3, 3, 1)
        self.idle = nn.Conv2d(3, 3, 1)
        self.pair = Pair()

    def forward(self, image: Tensor) -> Tensor:
        return self.pair(self.shared(self.shared(image)))[0]


class Pair(nn.Module):
    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        return image, image


def test_mode_of_each_submodule_is_restored():
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm2d(3))
    model[1].eval()
    with evaluation_mode(model):
        assert not any(module.training for module in model.modules())
    assert [model.training, model[0].training, model[1].training] == [True, True, False]


def test_record_is_not_overwritten_by_an_in_place_activation():
    model = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True))
    output, found = run_recorded(model, ["0"], -torch.ones(1, 3, 2, 2))
    assert (found["0"] == -1).all()
    assert (output == 0).all()


def test_hooks_are_removed_even_after_an_error():
    model = nn.Sequential(nn.Conv2d(3, 2, 1))
    run_recorded(model, ["0"], torch.ones(1, 3, 2, 2))
    with pytest.raises(RuntimeError, match="channels"):
        run_recorded(model, ["0"], torch.ones(1, 4, 2, 2))
    assert not model[0]._forward_hooks


def test_recorded_leaf_leads_to_the_output():
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(inplace=True)).requires_grad_(False)
    output, found = run_recorded(model, ["0"], torch.ones(1, 3, 2, 2), differentiable=True)
    (gradient,) = torch.autograd.grad(output.sum(), found["0"])
    assert torch.equal(gradient, (found["0"] > 0).float())


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("middle", "layer `middle` is not in the model; expected one of: shared, idle, pair"),
        ("shared", "layer `shared` runs more than once"),
        ("idle", "layer `idle` did not run"),
        ("pair", "layer `pair` gives tuple; choose one that gives a tensor"),
    ],
)
def test_layers_that_cannot_be_read(layer, message):
    with pytest.raises(InputError, match=message):
        run_recorded(Twice(), [layer], torch.ones(1, 3, 2, 2))


class Counted(nn.Module):
    """A network of three layers, whose last layer must not run, and which catches every exception."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Identity(), nn.ReLU(inplace=True), nn.Linear(7, 7)

    def forward(self, image: Tensor) -> Tensor:
        try:
            return self.last(self.second(self.first(image)))
        except Exception:
            return image


def test_recording_ends_after_the_last_layer():
    model, images = Counted(), -torch.ones(2, 3, 2, 2)
    model.last.register_forward_pre_hook(lambda *_: pytest.fail("the last layer ran"))
    found = record_layers(model, ["second", "first"], images.clone())
    assert torch.equal(found["first"], images)
    assert torch.equal(found["second"], 0 * images)
    assert model.training
    assert not model.first._forward_hooks


@pytest.mark.parametrize(
    ("layer", "message"),
    [("middle", "is not in the model"), ("idle", "did not run"), ("pair", "gives tuple")],
)
def test_layers_that_cannot_be_recorded(layer, message):
    with pytest.raises(InputError, match=message):
        record_layers(Twice(), [layer], torch.ones(1, 3, 2, 2))
