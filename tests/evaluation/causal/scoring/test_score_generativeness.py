import functools
import math
import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from candlelight.evaluation.causal.causal_report import GENERATIVENESS_PAGE
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, save_classifier
from candlelight.evaluation.run.evaluate import evaluate, find_evaluation, score, start
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused


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


INFOS = tuple(FactorInfo(name=name, kind="categorical", values=("a", "b")) for name in ("red", "green"))


def colours(memory_view, repeats):
    classes = torch.cartesian_prod(*[torch.arange(2)] * 2).repeat(repeats, 1)
    images = torch.full((len(classes), 3, 32, 32), 0.5)
    images[:, :2] = 0.2 + 0.6 * classes[:, :, None, None].float()
    return memory_view(list(images), factors=INFOS, table=classes.double().numpy())


@pytest.fixture
def flat_view(memory_view):
    return colours(memory_view, repeats=6)


class _Heads(nn.Module):
    """Logits of red and green, which are right."""

    def forward(self, images):
        right = torch.sigmoid(50 * (images[:, :2, 0, 0] - 0.5))
        return [torch.stack([1 - share, share], dim=1).log() for share in right.unbind(1)]


@pytest.fixture
def judged(monkeypatch):
    """Take the heads for the network that is trained on the images, with any accuracy."""

    def judge(red=1.0, green=1.0):
        def supervise(encoded, notes):
            return SimpleNamespace(heads=_Heads(), accuracy={"red": red, "green": green})

        monkeypatch.setattr("candlelight.evaluation.causal.score_generativeness.supervise", supervise)

    judge()
    return judge


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    few = functools.partial(resampled_interval, resamples=5)
    monkeypatch.setattr("candlelight.evaluation.causal.score_counterfactuals.resampled_interval", few)


NAME = "counterfactual_generativeness(1)"


def test_pure_codes_beat_a_random_choice_and_have_a_sign(flat_view, judged):
    judged(green=0.5)
    model = _Flat().train()
    result = evaluate("generativeness", flat_view, {"flat": model})["flat"]
    assert model.training
    assert result.score > 0.95
    scores = {name: one.value for name, one in result.scores.items()}
    assert scores[f"{NAME}, signed"] == pytest.approx(scores[NAME])
    # Of two codes that vary, the other one is chosen in half of the rows: then all others change the factor.
    assert scores[f"{NAME}, random choice"] == pytest.approx(scores[NAME], abs=0.01)
    assert abs(scores[f"{NAME}, signed, random choice"]) < 0.5
    details = result.details["decoder"][NAME]
    assert details["factors"] == ["red"]
    assert details["certainty"][0] > 0.99
    assert GENERATIVENESS_PAGE.lines([result])[0] == "Counterfactual generativeness on 1 of 2 factors: red"
    reason = "counterfactual_generativeness leaves out green (held-out accuracy 0.500, below 0.95)"
    assert reason in result.details["notes"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (_fail, r"model `flat.decode` raised ValueError: no images .*, given float32 \[24, 3\]"),
        (lambda images: (images, images), r"flat.decode: expected a tensor of images .*, got tuple"),
        (lambda images: 2 * images, ".*apply a sigmoid"),
        (lambda images: images * math.nan, ".*apply a sigmoid"),
    ],
)
def test_decoders_that_do_not_fit_are_a_note(flat_view, judged, output, message):
    record = find_evaluation("generativeness")
    choice = dict.fromkeys(("set_name", "split", "rows", "limit")) | {"data": flat_view}
    run = start(record, record.options(), choice, {"flat": _Flat(output)})
    found = score(run)
    assert re.match(f"flat: no counterfactual_generativeness: {message}", found["flat"].details["notes"][0])
    assert math.isnan(found["flat"].score)
    kinds = [block.caption.partition(" ")[0] for block in GENERATIVENESS_PAGE.pictures(run, found)]
    assert kinds == ["6"]  # of the images alone


def test_fewer_codes_than_a_factor_needs_are_undefined(flat_view, judged):
    result = evaluate("generativeness", flat_view, {"flat": _Flat(codes=1)})["flat"]
    assert result.score > 0
    assert math.isnan(result.scores["counterfactual_generativeness(2)"].value)
    assert list(result.details["decoder"]) == [NAME]


def test_a_hopeless_classifier_and_images_without_one_are_notes(flat_view, judged, monkeypatch):
    judged(0.5, 0.5)
    notes = evaluate("generativeness", flat_view, {"flat": _Flat()})["flat"].details["notes"]
    assert notes[0].startswith("flat: no counterfactual_generativeness: every factor is left out")
    monkeypatch.undo()
    small = [image[:, :8, :8] for image in flat_view.items]
    flat_view.items = small
    result = evaluate("generativeness", flat_view, {"flat": _Flat(size=8)})["flat"]
    assert math.isnan(result.score)
    assert result.details["notes"][0].startswith("supervised codes are left out")


def test_a_model_without_a_decoder_is_refused(flat_view):
    with refused("`mean`: expected a model with a method `decode`"):
        evaluate("generativeness", flat_view, {"mean": lambda images: images.mean((2, 3))})


def test_a_trained_network_tells_the_factors(memory_view):
    view = colours(memory_view, repeats=20)
    result = evaluate("generativeness", view, {"flat": _Flat()}, seed=1)["flat"]
    assert result.score > 0.9
    details = result.details["decoder"][NAME]
    assert details["factors"] == ["red", "green"]
    assert details["reconstruction_error"] < 1e-6
    assert min(details["inside"]) > 0.9 > 0.1 > max(details["outside"])


def test_classifiers_of_files_are_judged_on_images_that_they_did_not_learn(flat_view, tmp_path):
    network = build_backbone("resnet_small", 2, seed=0)
    rest = flat_view.ids[20:]
    for name, learned in (("some", flat_view.ids[:20]), ("all", flat_view.ids)):
        training = TrainedOn("green", flat_view.identity, (32, 32), learned, rest)
        save_classifier(network, ["b", "a"], tmp_path / f"{name}.pt", training)
    found = evaluate("generativeness", flat_view, {"flat": _Flat()}, classifiers=[tmp_path / "some.pt"])
    logits = network(torch.stack(flat_view.items[20:]))[:, [1, 0]]
    truth = torch.from_numpy(flat_view.table[20:, 1]).long()
    accuracy = float((logits.argmax(1) == truth).double().mean())
    assert f"green: held-out accuracy {accuracy:.3f}" in found["flat"].details["notes"][0]
    with refused(r"all\.pt: learned from all of the images"):
        evaluate("generativeness", flat_view, {"flat": _Flat()}, classifiers=[tmp_path / "all.pt"])
    with refused("expected a classifier of one of red, got `green`"):
        evaluate("generativeness", flat_view, {"flat": _Flat()}, classifiers=[tmp_path / "some.pt"] * 2)
