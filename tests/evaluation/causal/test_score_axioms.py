"""Effectiveness, composition and reversibility of planted models of counterfactual images."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from candlelight.evaluation.causal import CounterfactualData
from candlelight.evaluation.causal.causal_report import AXIOMS_PAGE
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import evaluate, find_evaluation, score, start
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused

SIZES, NAMES = torch.tensor([3, 2, 2]), ("red", "green", "blue")
CLASSES = torch.tensor(list(itertools.product(*map(range, SIZES.tolist()))))


def paint(classes):
    """The factors are the values of the channels, from 0.1 to 0.9."""
    values = 0.1 + 0.8 * classes / (SIZES - 1)
    return values.float()[:, :, None, None].expand(-1, -1, 4, 4)


def view_of(memory_view, classes):
    infos = tuple(
        FactorInfo(name=name, kind="categorical", values=tuple(map(str, range(size))))
        for name, size in zip(NAMES, SIZES.tolist(), strict=True)
    )
    return memory_view(list(paint(classes)), factors=infos, table=classes.double().numpy())


@pytest.fixture
def grid(memory_view):
    return view_of(memory_view, CLASSES.repeat(4, 1))


@pytest.fixture(autouse=True)
def judged(monkeypatch):
    """A classifier that is right about red and green, and does not know blue."""

    def classify(images):
        found = ((images[:, :2].mean((2, 3)) - 0.1) / 0.8 * (SIZES[:2] - 1)).round().long()
        pairs = zip(found.T, SIZES.tolist(), strict=False)
        return [9.0 * functional.one_hot(one.clamp(0, size - 1), size) for one, size in pairs]

    heads = SimpleNamespace(heads=classify, accuracy={"red": 1.0, "green": 1.0})
    name = "candlelight.evaluation.causal.score_generativeness.supervise"
    monkeypatch.setattr(name, lambda encoded, notes: heads)


def render(images, factors, changed):
    return paint(changed) + images - paint(factors)


def entangle(images, factors, changed):
    """Change green, too, where red changes."""
    moved = changed.clone()
    moved[:, 1] = (changed[:, 1] + (changed[:, 0] != factors[:, 0])) % 2
    return paint(moved)


def fade(images, factors, changed):
    return 0.9 * render(images, factors, changed)


def values(view, model, **options):
    found = evaluate("axioms", view, {"model": model}, **options)
    return {name: {label: one.value for label, one in some.scores.items()} for name, some in found.items()}


def test_the_true_model_and_the_controls(grid):
    found = values(grid, render)
    perfect = dict.fromkeys(("effectiveness", "effectiveness, other factors"), 1.0)
    perfect |= dict.fromkeys(("composition", "composition, repeated"), 0.0)
    for name in ("model", "rendered counterfactual", "nearest other frame"):
        for label in ("effectiveness", "effectiveness, other factors", "effectiveness of red"):
            assert found[name][label] == 1, (name, label)
        assert np.isnan(found[name]["effectiveness of blue"])
    for label, value in perfect.items():
        assert found["model"][label] == pytest.approx(value, abs=1e-6)
    assert found["model"]["reversibility, repeated"] == pytest.approx(0, abs=1e-6)
    assert np.isnan(found["rendered counterfactual"]["composition"])
    given = found["input given back"]
    assert (given["effectiveness"], given["effectiveness, other factors"], given["reversibility"]) == (
        0,
        1,
        0,
    )
    assert found["mean image"]["composition"] > 0.1
    assert found["mean image"]["composition"] == found["mean image"]["composition, repeated"]


def test_an_entangled_model_fails_on_the_other_factors_and_on_the_way_back(grid):
    found = values(grid, entangle)["model"]
    assert found["effectiveness"] == 1
    assert found["effectiveness, other factors"] < 0.8
    # Red changes in a third of the pairs; after one cycle green has flipped there, a third of 0.8 off.
    assert found["composition"] == pytest.approx(0, abs=1e-6)
    assert found["reversibility"] == pytest.approx(0.8 / 9, abs=0.04)


def test_errors_of_a_fading_model_by_hand(grid):
    found = values(grid, fade, cycles=3)["model"]
    brightness = float(paint(CLASSES).mean())
    assert found["composition"] == pytest.approx(0.1 * brightness, abs=0.01)
    assert found["composition, repeated"] == pytest.approx((1 - 0.9**3) * brightness, abs=0.03)
    assert found["reversibility"] == pytest.approx(0.19 * brightness, abs=0.03)


class Planted(nn.Module):
    """Codes are the channels, the first of which also moves the second."""

    def __init__(self, mixed=0.0):
        super().__init__()
        self.mixed = mixed

    def forward(self, images):
        codes = images.mean((2, 3))
        return torch.stack([codes[:, 0], codes[:, 1] - self.mixed * codes[:, 0], codes[:, 2]], 1)

    def decode(self, codes):
        images = torch.stack([codes[:, 0], codes[:, 1] + self.mixed * codes[:, 0], codes[:, 2]], 1)
        return images[:, :, None, None].expand(-1, -1, 4, 4).clamp(0, 1)


def test_codes_of_a_decoder_are_set_to_those_of_an_image_with_the_new_class(grid):
    found = values(grid, Planted())["model"]
    assert found["effectiveness"] == found["effectiveness, other factors"] == 1
    assert found["reversibility, repeated"] == pytest.approx(0, abs=1e-6)
    found = values(grid, Planted(mixed=0.7))["model"]
    assert found["effectiveness, other factors"] < 1


def test_counterfactuals_of_confounded_images_and_the_strips_of_the_page(memory_view, tmp_path):
    toys = CLASSES[CLASSES[:, 0] % 2 == CLASSES[:, 1]].repeat(4, 1)
    data = CounterfactualData(view_of(memory_view, toys), view_of(memory_view, CLASSES))
    record = find_evaluation("axioms")
    choice = dict.fromkeys(("set_name", "split", "rows", "limit")) | {"data": data}
    run = start(record, record.options(), choice, {"model": render})
    found = score(run)
    assert found["model"].scores["effectiveness of green"].value == 1
    blocks = AXIOMS_PAGE.pictures(run, found)
    assert [picture.caption for picture in blocks[0].pictures] == list(NAMES)
    page = write_report(tmp_path / "p.html", [*found.values()], title="t", pictures={"axioms": blocks})
    assert "Axioms of counterfactual images" in page.read_text()
    alone = view_of(memory_view, torch.tensor([[0, 0, 0], [1, 1, 1]]).repeat(4, 1))
    with refused("no two images differ in one factor only"):
        evaluate("axioms", alone, {"model": render})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda images, *_: images[:, :1],
            r"expected images \[.*\], got \[64, 1, 4, 4\]",
        ),
        (lambda images, *_: images * torch.nan, r"expected images in \[0, 1\], got nan to nan"),
        (
            lambda images, *_: (255 * images).byte(),
            r"expected images in \[0, 1\], got [0-9]+ to [0-9]+; clamp",
        ),
        (lambda images, *_: None, "got NoneType"),
        (lambda images: images, "raised TypeError"),
    ],
)
def test_models_that_make_no_images_are_refused(grid, model, message):
    with refused(f".*{message}"):
        evaluate("axioms", grid, {"model": model})
    with refused("model `mean image`: the name is that of a control"):
        evaluate("axioms", grid, {"mean image": model})


def test_a_model_may_change_what_it_is_given(grid):
    def blank(images, factors, changed):
        for given in (images, factors, changed):
            given.zero_()
        return images

    assert values(grid, blank)["rendered counterfactual"]["effectiveness"] == 1
