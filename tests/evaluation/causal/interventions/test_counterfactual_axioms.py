import pytest
import torch
from torch import nn
from torch.nn import functional

from candlelight.evaluation.causal.effects import (
    composition,
    effectiveness,
    reversibility,
)
from tests.refusals import refused

# Two factors of three and four classes, each the brightness of one pixel.
CLASSES = torch.cartesian_prod(torch.arange(3), torch.arange(4))
IMAGES = (CLASSES / torch.tensor([2, 3]))[:, None, None, :]
OTHERS = (CLASSES + torch.tensor([1, 0])) % torch.tensor([3, 4])


def classify(images):
    """Give logits of the nearest classes."""
    found = [(images[:, 0, 0, factor] * (size - 1)).round().long() for factor, size in enumerate((3, 4))]
    return [9.0 * functional.one_hot(one, size) for one, size in zip(found, (3, 4), strict=True)]


def render(images, factors, changed):
    """The true counterfactual: add the difference of the factors."""
    return images + ((changed - factors) / torch.tensor([2, 3]))[:, None, None, :]


def keep(images, factors, changed):
    return images


def fade(images, factors, changed):
    """The true counterfactual with the contrast of nine tenths."""
    return 0.9 * render(images, factors, changed)


def test_rendered_counterfactuals_satisfy_all_axioms():
    made = render(IMAGES, CLASSES, OTHERS)
    assert effectiveness(classify, made, OTHERS).tolist() == [[1, 1]] * 12
    assert composition(render, IMAGES, CLASSES, cycles=10).tolist() == [0] * 12
    torch.testing.assert_close(reversibility(render, IMAGES, CLASSES, OTHERS, 10), torch.zeros(12))


def test_doing_nothing_is_not_effective():
    # The factor that was to change did not; the other one stayed as it should.
    assert effectiveness(classify, keep(IMAGES, CLASSES, OTHERS), OTHERS).tolist() == [[0, 1]] * 12
    assert effectiveness(classify, IMAGES[:0], OTHERS[:0]).shape == (0, 2)


def test_errors_by_hand():
    torch.testing.assert_close(composition(fade, IMAGES, CLASSES), 0.1 * IMAGES.mean((1, 2, 3)))
    torch.testing.assert_close(
        composition(fade, IMAGES, CLASSES, cycles=3), (1 - 0.9**3) * IMAGES.mean((1, 2, 3))
    )
    # One cycle is there, 0.9 (x + d), and back, 0.9 (0.9 (x + d) - d).
    change = ((OTHERS - CLASSES) / torch.tensor([2, 3]))[:, None, None, :]
    back = 0.81 * IMAGES - 0.09 * change
    torch.testing.assert_close(
        reversibility(fade, IMAGES, CLASSES, OTHERS), (back - IMAGES).abs().mean((1, 2, 3))
    )


def test_each_cycle_of_reversibility_goes_there_and_back():
    calls = []

    def recording(images, factors, changed):
        calls.append((factors, changed))
        return images

    reversibility(recording, IMAGES, CLASSES, CLASSES, cycles=2)
    assert len(calls) == 4
    calls.clear()
    composition(recording, IMAGES, CLASSES, cycles=2)
    assert len(calls) == 2
    calls.clear()
    reversibility(recording, IMAGES, CLASSES, OTHERS, cycles=1)
    assert torch.equal(calls[0][0], calls[1][1])
    assert torch.equal(calls[0][1], calls[1][0])
    assert not torch.equal(calls[0][0], calls[0][1])


def test_networks_run_in_evaluation_mode_without_gradients():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.gain = nn.Dropout(0.9), nn.Parameter(torch.ones(()))

        def forward(self, images, *_):
            return self.gain * self.drop(images)

    network = Network()
    found = composition(network, IMAGES, CLASSES)
    assert found.tolist() == [0] * 12
    assert not found.requires_grad
    assert network.training


def test_nan_in_a_counterfactual_fails_that_image_alone():
    def broken(images, factors, changed):
        images = images.clone()
        images[0, 0, 0, 0] = torch.nan
        return images

    found = composition(broken, IMAGES, CLASSES)
    assert found.isnan().tolist() == [True] + [False] * 11
    hits = effectiveness(classify, broken(IMAGES, CLASSES, CLASSES), CLASSES)
    assert hits.tolist() == [[0, 0]] + [[1, 1]] * 11


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: composition(keep, IMAGES, CLASSES[:3]),
            r"expected `images` .*, `factors` \[batch, factors\], got",
        ),
        (lambda: reversibility(keep, IMAGES, CLASSES, CLASSES[:3]), r"`changed` .* got \[12, 2\], \[3, 2\]"),
        (lambda: effectiveness(classify, IMAGES, CLASSES[:, :1]), "each of the 1 factors, got 2"),
        (lambda: effectiveness(classify, IMAGES, CLASSES.double()), "must be class indices, got fl"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with refused(message):
        call()
