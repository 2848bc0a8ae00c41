import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.run.hidden_layers import (
    batch_axis,
    check_images_first,
    evaluation_mode,
    layer_outputs,
    record_layers,
    run_recorded,
)
from tests.refusals import refused


class Twice(nn.Module):
    """A network that runs one layer twice, never runs another, and has a layer that returns no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Conv2d(3, 3, 1)
        self.idle = nn.Conv2d(3, 3, 1)
        self.words = Words()

    def forward(self, image: Tensor) -> Tensor:
        self.words(image)
        return self.shared(self.shared(image))


class Words(nn.Module):
    def forward(self, image: Tensor) -> tuple[None, dict[str, Tensor]]:
        return None, {"image": image}


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
        ("middle", "layer `middle` is not in the model; expected one of: shared, idle, words"),
        ("shared", "layer `shared` runs more than once"),
        ("idle", "layer `idle` did not run"),
        ("words", "layer `words` gives tuple; choose one that gives a tensor"),
    ],
)
def test_layers_that_cannot_be_read(layer, message):
    with refused(message):
        run_recorded(Twice(), [layer], torch.ones(1, 3, 2, 2))
    if layer != "shared":  # whose first run is enough to record it
        with refused(message):
            record_layers(Twice(), [layer], torch.ones(1, 3, 2, 2))


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


@pytest.mark.parametrize("differentiable", [False, True])
def test_a_layer_of_several_values_gives_its_first_tensor(attention, differentiable):
    model, images = attention(), torch.rand(2, 3, 2, 2)
    output, found = run_recorded(model, ["attention"], images, differentiable)
    torch.testing.assert_close(found["attention"].square().sum(0), output)
    assert layer_outputs(model, ["attention", "tokens_first"], images[:1]) == {
        "attention": ((4, 1, 3), True),
        "tokens_first": ((4, 1, 3), False),
    }
    if differentiable:
        (gradient,) = torch.autograd.grad(output.sum(), found["attention"])
        torch.testing.assert_close(gradient, 2 * found["attention"])


@pytest.mark.parametrize(
    ("shape", "images", "alone", "axis"),
    [
        ((4, 4, 3), 4, (4, 1, 3), 1),
        ((4, 4, 3), 4, (1, 4, 3), 0),
        ((3, 1, 1), 1, (3, 1, 1), 1),  # one image: its row is the same for either axis
        ((4, 1, 1), 4, (1, 1, 1), 0),
    ],
)
def test_the_batch_axis_is_the_one_that_grows(shape, images, alone, axis):
    assert batch_axis("layer", torch.ones(shape), images, alone) == axis


@pytest.mark.parametrize(
    ("shape", "images", "alone"),
    [
        ((4, 3), 4, (3,)),  # squeezed for one image
        ((8, 3), 4, (2, 3)),  # windows
        ((4, 4), 4, (1, 1)),  # products of images with each other
        ((4, 7), 4, (1, 5)),  # as many tokens as an image needs
        ((1, 5), 4, (1, 5)),  # a table of positions
        ((), 1, ()),
    ],
)
def test_layers_without_a_batch_axis(shape, images, alone):
    with refused(r"choose one with an axis that counts the images"):
        batch_axis("layer", torch.ones(shape), images, alone)


def test_maps_of_tokens_need_the_images_first(attention):
    model, images = attention(), torch.rand(4, 3, 2, 2)
    values = run_recorded(model, ["tokens_first"], images)[1]["tokens_first"]
    with refused(r"layer `tokens_first` gives \[4, 4, 3\] for 4 images, not in the order"):
        check_images_first(model, "tokens_first", values, images)
    check_images_first(nn.Sequential(nn.Flatten(2)), "0", images.flatten(2), images)
