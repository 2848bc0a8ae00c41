import math

import pytest
import torch

from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.training import fine_tune
from candlelight.evaluation.views import ConceptSet
from candlelight.evaluation.views.image_tensors import encode
from tests.refusals import refused

LAYER = "reflectance.blocks.2"
QUICK = {"layer": LAYER, "seed": 0, "epochs": 2, "runs": 2}


@pytest.fixture(scope="module")
def network():
    return IntrinsicNet(width=3, seed=0)


@pytest.fixture
def given(scenes, memory_view):
    """Eight training scenes, two scenes under eight lights each, and eight negatives."""
    lit = scenes(2, seed=5)
    images = [
        encode((item.reflectance * item.shading * (0.2 + 0.1 * light)).clamp(0, 1))
        for item in lit.items
        for light in range(8)
    ]
    sets = (ConceptSet({"scene": 0}, tuple(range(8))), ConceptSet({"scene": 1}, tuple(range(8, 16))))
    other = scenes(8, seed=9)
    return {
        "data": scenes(8, seed=0),
        "concepts": memory_view(images, name="light", sets=sets, varies="illumination"),
        "negatives": memory_view([encode(item.image.clamp(0, 1)) for item in other.items], name="negative"),
    }


def states(network):
    return torch.cat([values.flatten() for values in network.state_dict().values()])


@pytest.mark.parametrize("probed", ["pixels", "prototypes"])
def test_desensitising_lowers_the_cosine_and_sensitising_raises_it(network, given, probed):
    options = QUICK | {"epochs": 5, "rate": 2e-2, "batch_size": 4, "refit": 5}
    options |= {"probed": probed, "prototypes": 3}
    last = {}
    for name, chosen in {
        "plain": {"weight": 0.0},
        "less": {"weight": 10.0},
        "more": {"weight": 10.0, "mode": "sensitise"},
    }.items():
        history = fine_tune(network, **given, **options, **chosen)[1]
        last[name] = history.concept[-1]
        assert len(history.regime) == len(history.accuracy) == 5
    assert last["less"] < 0.7 * last["plain"]
    assert 1 - last["more"] > 1.3 * last["plain"]


def test_result_depends_on_the_seed_alone(network, given):
    before, random_state = states(network), torch.get_rng_state()
    tuned, history = fine_tune(network, **given, **QUICK)
    again, same = fine_tune(network, **given, **QUICK)
    other, _ = fine_tune(network, **given, **{**QUICK, "seed": 1})
    assert torch.equal(states(tuned), states(again))
    assert history == same
    assert not torch.equal(states(tuned), states(other))
    assert torch.equal(states(network), before)
    assert not torch.equal(states(tuned), before)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not tuned.training
    assert all(parameter.requires_grad for parameter in network.parameters())


@pytest.mark.parametrize("regime", ["multi-illumination", "unsupervised"])
def test_other_regimes_run(network, given, regime):
    _, history = fine_tune(network, **given, **QUICK, regime=regime, batch_size=2)
    assert math.isfinite(history.regime[0] + history.concept[0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weight": -1.0}, "^`weight`: expected at least 0, got -1"),
        ({"mode": "forget"}, "mode"),
        ({"probed": "loss"}, "probed"),
    ],
)
def test_wrong_options_are_named(network, given, wrong, message):
    with refused(message):
        fine_tune(network, **given, **QUICK | wrong)


def test_data_that_cannot_be_used_are_named(network, given, scenes, memory_view):
    for wrong, message in (
        ({"data": scenes(2, seed=0, height=16, width=16)}, r"of one size, got \[\(16, 16\), \(24, 32\)\]"),
        ({"concepts": memory_view([], sets=(), varies=None)}, "^expected concept sets, got none"),
        ({"data": memory_view([], explains="image")}, "^expected training images, got none"),
        ({"negatives": memory_view([])}, r"^expected at least 2 images in each .* got none"),
    ):
        with refused(message):
            fine_tune(network, **given | wrong, **QUICK)


class Useless(torch.nn.Module):
    """A network with a layer that leads nowhere, and one whose activations are always 0."""

    def __init__(self) -> None:
        super().__init__()
        self.net = IntrinsicNet(width=2, seed=0)
        self.idle, self.dead = torch.nn.Identity(), torch.nn.Threshold(1e9, 0.0)

    def forward(self, image):
        self.idle(image)
        reflectance, shading = self.net(image)
        return reflectance + self.dead(reflectance), shading


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("idle", "^no weight influences the loss through layer `idle`"),
        ("dead", "^layer `dead` has equal activations for all concept images"),
    ],
)
def test_layers_that_teach_nothing_are_refused(given, layer, message):
    with refused(message):
        fine_tune(Useless(), **given, **QUICK | {"layer": layer})
