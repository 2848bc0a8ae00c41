import math

import pytest
import torch
from torch import nn

from candlelight.evaluation.causal import score_causal
from candlelight.evaluation.causal.causal_report import traversal_pictures
from candlelight.evaluation.causal.control_codes import supervised_codes
from candlelight.evaluation.causal.factor_table import tabulate_factors
from candlelight.evaluation.causal.score_decoder import find_decoder, score_decoder
from candlelight.evaluation.models import ModelIdentity, NamedModel
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo


class _Flat(nn.Module):
    """An encoder of the mean colour whose decoder gives flat images, or ``output`` of them."""

    def __init__(self, output=lambda images: images, size=32, codes=3):
        super().__init__()
        self.output, self.size, self.codes = output, size, codes

    def forward(self, image):
        return image.mean((2, 3))[:, : self.codes]

    def decode(self, codes):
        assert not self.training
        given = codes if self.codes == 3 else codes[:, [0, 0, 0]]
        return self.output(given[:, :, None, None].expand(-1, -1, self.size, self.size).clamp(0, 1))


def _fail(images):
    raise ValueError("no\nimages")


@pytest.fixture
def flat_view(memory_view):
    classes = torch.cartesian_prod(*[torch.arange(2)] * 2).repeat(6, 1)
    images = torch.full((len(classes), 3, 32, 32), 0.5)
    images[:, :2] = 0.2 + 0.6 * classes[:, :, None, None].float()
    infos = tuple(FactorInfo(name=name, kind="categorical", values=("a", "b")) for name in ("red", "green"))
    return memory_view(list(images), factors=infos, table=classes.double().numpy())


def _classify(images):
    right = torch.sigmoid(50 * (images[:, :2, 0, 0] - 0.5))
    return [torch.stack([1 - share, share], dim=1).log() for share in right.unbind(1)]


def _score(model, view, table):
    named = NamedModel(ModelIdentity("flat", "callable"), model, "srgb")
    codes = model(torch.stack(view.items)).double()
    accuracy = {"red": 1.0, "green": 1.0}
    return score_decoder(find_decoder(named, "cpu"), codes, view, table, _classify, accuracy, "farthest")


def test_a_network_in_training_mode_decodes_in_evaluation_mode(flat_view):
    model = _Flat().train()
    scores, _ = _score(model, flat_view, tabulate_factors(flat_view))
    assert scores["counterfactual_generativeness(1)"].value > 0.95
    assert model.training


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (_fail, r"^model `flat.decode` raised ValueError: no images .*, given float32 \[24, 3\]"),
        (lambda images: (images, images), r"^flat.decode: expected a tensor of images .*, got tuple$"),
        (lambda images: 2 * images, "apply a sigmoid"),
        (lambda images: images * math.nan, "apply a sigmoid"),
    ],
)
def test_decoders_that_do_not_fit_are_refused(flat_view, output, message):
    with pytest.raises(InputError, match=message):
        _score(_Flat(output), flat_view, tabulate_factors(flat_view))
    named = NamedModel(ModelIdentity("flat", "callable"), _Flat(output), "srgb")
    assert traversal_pictures({"flat": named}, flat_view, "cpu") == []


def test_fewer_codes_than_a_factor_needs_are_undefined(flat_view):
    scores, details = _score(_Flat(codes=1), flat_view, tabulate_factors(flat_view))
    assert scores["counterfactual_generativeness(1)"].value > 0
    assert math.isnan(scores["counterfactual_generativeness(2)"].value)
    assert list(details) == ["counterfactual_generativeness(1)"]


def test_a_decoder_that_cannot_be_scored_leaves_the_other_scores(flat_view, monkeypatch):
    trained = supervised_codes(flat_view, tabulate_factors(flat_view), epochs=1)
    hopeless = {"red": 0.5, "green": 0.5}
    for accuracy, reason in (
        (hopeless, "every factor is left out"),
        (None, "there is no supervised network"),
    ):

        def train(data, table, *, seed, device, accuracy=accuracy):
            if accuracy is None:
                raise InputError("small")
            return type(trained)(trained.codes, trained.heads, accuracy)

        monkeypatch.setattr("candlelight.evaluation.causal.control_codes.supervised_codes", train)
        found = score_causal({"flat": _Flat()}, flat_view, metrics=["irs"], controls=False)
        assert found["flat"].scores["irs"].value == pytest.approx(1)
        assert f"flat: no counterfactual_generativeness: {reason}" in " ".join(found["flat"].details["notes"])
