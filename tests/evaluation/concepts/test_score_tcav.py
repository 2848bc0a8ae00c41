import re
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import (
    Target,
    TCAVData,
    fit_cavs,
    layer_activations,
    layer_gradients,
    set_images,
)
from candlelight.evaluation.concepts.tcav_report import vectors_table
from candlelight.evaluation.models import ModelIdentity, NamedModel
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.result import table
from candlelight.evaluation.run.result_files import read_results, write_results
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import ConceptSet
from candlelight.evaluation.views.named_streams import named_generator
from tests.refusals import refused

SIDE = 6


class Means(nn.Module):
    """The layer `hidden` gives the mean of each colour; the logits are plus and minus the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.dead = nn.ReLU()
        self.unused = nn.Identity()

    def forward(self, image: Tensor) -> Tensor:
        means = self.hidden(image)
        return torch.stack([means[:, 0], -means[:, 0]], 1) + self.dead(-1 - means).sum(1, keepdim=True)


class Network(nn.Module):
    """Random weights; the gradients of a logit differ from image to image."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.one = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.Tanh())
            self.two = nn.Sequential(nn.Conv2d(6, 4, 3, stride=2), nn.Tanh())
            self.head = nn.Linear(4, 3)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.two(self.one(6 * image - 3)).square().mean((2, 3)))


@pytest.fixture
def planted(memory_view):
    """Flat images: red is 0.75 for the concept and 0.25 for the negatives; nothing else differs."""

    def flat(count, red, name):
        image = torch.full((3, SIDE, SIDE), 0.5)
        image[0] = red
        return memory_view([image] * count, name=name)

    tests = memory_view([torch.full((3, SIDE, SIDE), (row + 1) / 4) for row in range(3)], name="test")
    return {
        "concepts": {"red": flat(20, 0.75, "red")},
        "negatives": flat(24, 0.25, "negative"),
        "test": tests,
    }


@pytest.fixture
def noisy(memory_view):
    """Noise: concepts with a red or blue cast, negatives without, test images of several colours."""
    generator = torch.Generator().manual_seed(0)

    def noise(count, cast, name, groups=None):
        images = torch.rand(count, 3, SIDE, SIDE, generator=generator)
        return memory_view(list((images + torch.tensor(cast)[:, None, None]).clamp(0, 1)), groups, name)

    tests = noise(12, (0.0, 0.0, 0.0), "test", list("aabbccddeeff"))
    tests.items = [image * torch.rand(3, 1, 1, generator=generator) for image in tests.items]
    return {
        "concepts": {
            "red": noise(22, (0.3, 0.0, -0.2), "red"),
            "blue": noise(26, (-0.2, 0.0, 0.3), "blue"),
        },
        "negatives": noise(50, (0.0, 0.0, 0.0), "negative"),
        "test": tests,
        "layers": ["one", "two"],
        "target": "logit:1",
    }


def score_all(models, **options):
    """Score models; by default with the fastest classifier."""
    views = {name: options.pop(name, {}) for name in ("test", "negatives", "concepts", "controls")}
    options["layer"] = options.pop("layers")
    return evaluate("tcav", TCAVData(**views), models, **{"classifier": "mean", **options})


def score(model, **options):
    return score_all({"model": model}, **options)["model"]


@pytest.mark.parametrize(
    ("target", "share", "derivative"),
    [
        ("logit:0", 1, 1),
        ("logit:1", 0, -1),
        ("loss:logit:0", 0, -1),
        ("loss:logit:1", 1, 1),
        ("norm", 1, 2**0.5),  # the norm is sqrt(2) times red
    ],
)
def test_planted_channel_in_closed_form(planted, target, share, derivative):
    result = score(Means(), **planted, layers=["hidden"], target=target, runs=3, classifier="svm")
    assert result.columns["red at hidden"] == (share,) * 3
    torch.testing.assert_close(
        torch.tensor(result.columns["red at hidden, derivative"]), torch.full((3,), float(derivative))
    )
    (details,) = result.details["scores"]
    assert (details["score"], details["spread"], details["accuracy"], details["flat"]) == (share, 0, 1, 0)
    # The negatives are all equal, so there is no random vector to compare with.
    assert details["random"] is details["t_test_p"] is None
    assert not details["significant"]
    assert result.about.settings["gradient_of"] == ("loss" if target.startswith("loss") else "logit")
    assert result.about.better == "neither"


def test_agreement_with_explicit_vectors(noisy):
    model, runs = Network(), 7
    result = score(model, **noisy, runs=runs, seed=5, classifier="svm")
    images = {name: torch.stack(view.items) for name, view in noisy["concepts"].items()}
    negatives, tests = (torch.stack(noisy[name].items) for name in ("negatives", "test"))
    for layer in noisy["layers"]:
        gradients = layer_gradients(model, layer, tests, lambda output, _: output[:, 1]).double()
        against = layer_activations(model, [layer], negatives)[layer]
        for name, some in images.items():
            rows = layer_activations(model, [layer], some)[layer]
            cavs = fit_cavs(rows, against, generator=named_generator(5, "concept"), runs=runs)
            vectors = cavs.weights @ torch.cat([rows, against]).double()
            derivatives = (vectors / vectors.norm(dim=1, keepdim=True)) @ gradients.T
            column = torch.tensor(result.columns[f"{name} at {layer}, derivative"], dtype=torch.float64)
            torch.testing.assert_close(
                column, derivatives.mean(0), rtol=1e-5, atol=1e-5 * float(column.std())
            )
            share = (derivatives > 0).double().mean(0)
            assert result.columns[f"{name} at {layer}"] == pytest.approx(share.tolist(), abs=1e-12)
            scores = (derivatives > 0).double().mean(1)
            found = next(
                one for one in result.details["scores"] if (one["layer"], one["concept"]) == (layer, name)
            )
            assert found["score"] == pytest.approx(float(scores.mean()))
            assert found["spread"] == pytest.approx(float(scores.std()))
            assert found["accuracy"] == pytest.approx(float(cavs.accuracy.mean()))


@pytest.mark.oracle
def test_captum_agrees_within_the_spread(noisy, memory_view, tmp_path):
    library = pytest.importorskip("captum.concept")
    model, scores = Network(), []
    # A faint concept, whose vectors differ much from run to run.
    images = 0.1 + 0.9 * torch.rand(30, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    images[:, 0] *= 0.8
    noisy |= {"concepts": {"faint": memory_view(list(images), name="faint")}, "layers": ["two"]}
    [found] = score(model, **noisy, runs=30, classifier="svm").details["scores"]
    sets = [
        library.Concept(number, name, torch.utils.data.DataLoader(some, batch_size=64))
        for number, name, some in [(0, "faint", images), (1, "none", torch.stack(noisy["negatives"].items))]
    ]
    for run in range(12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tcav = library.TCAV(model, ["two"], save_path=str(tmp_path / str(run)))
            got = tcav.interpret(torch.stack(noisy["test"].items), [sets], target=1)
        scores.append(float(got["0-1"]["two"]["sign_count"][0]))
    assert abs(found["score"] - np.mean(scores)) < max(found["spread"], np.std(scores))


def test_scores_depend_on_the_seed_alone(noisy):
    whole = score(Network(), **noisy, runs=4)
    assert score(Network(), **noisy, runs=4).to_json() == whole.to_json()
    assert score(Network(), **noisy, runs=4, seed=1).columns != whole.columns
    # Other concepts, layers and models, the batches, and the mode of the network change nothing.
    alone = noisy | {"concepts": {"blue": noisy["concepts"]["blue"]}, "layers": ["tw?"]}
    model, linear = Network().train(), Network()
    linear.colour_space = "linear"
    both = score_all({"srgb": model, "linear": linear}, **alone, runs=4, batch_size=5)
    assert both["srgb"].about.settings["layers"] == ["two"]
    assert both["srgb"].columns["blue at two"] == whole.columns["blue at two"]
    column = "blue at two, derivative"
    assert both["srgb"].columns[column] == pytest.approx(whole.columns[column])
    assert both["linear"].columns[column] != pytest.approx(whole.columns[column])
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_control_tells_a_concept_from_its_scene(memory_view, noisy):
    generator = torch.Generator().manual_seed(1)

    def scene(cast, name):
        """Images of one scene, which differ from the negatives in all colours, with or without red."""
        images = 0.3 + 0.4 * torch.rand(24, 3, SIDE, SIDE, generator=generator)
        images[:, 0] += cast
        return memory_view(list(images), name=name)

    options = {
        **noisy,
        "concepts": {"red": scene(0.2, "red"), "nothing": scene(0.0, "nothing"), "free": scene(0.0, "free")},
        "controls": {"red": scene(0.0, "plain"), "nothing": scene(0.0, "control")},
        "layers": ["hidden"],
        "target": "logit:0",
    }
    result = score(Means(), **options, runs=10, permutations=199)
    red, nothing, free = (one.get("control") for one in result.details["scores"])
    assert free is None
    assert red["permutation_p"] == red["adjusted_p"] == pytest.approx(1 / 200)
    assert red["effect"] > 4
    assert 0.05 < nothing["permutation_p"] <= nothing["adjusted_p"]
    assert red["images"] == 24
    assert result.about.settings["permutations"] == 199
    # The permutation test has the sign of the target.
    turned = score(Means(), **options | {"target": "loss:logit:0"}, runs=10, permutations=199)
    assert turned.details["scores"][0]["control"]["effect"] == pytest.approx(-red["effect"])


def test_an_effect_against_the_control_with_the_other_sign_is_noted(memory_view, noisy):
    generator = torch.Generator().manual_seed(1)

    def scene(red):
        """Images that are redder than the negatives, with or without the concept, which takes red away."""
        images = 0.2 * torch.rand(24, 3, SIDE, SIDE, generator=generator)
        images[:, 0] += red
        return memory_view(list(images), name=f"red {red}")

    options = noisy | {"concepts": {"less": scene(0.7)}, "layers": ["hidden"], "target": "logit:0"}
    result = score(Means(), **options, controls={"less": scene(0.8)}, runs=3, permutations=99)
    (one,) = result.details["scores"]
    assert one["derivative"] > 0 > one["control"]["effect"]
    note = "`less` at hidden: the effect against its control is -"
    assert any(line.startswith(note) for line in result.details["notes"])
    assert re.search(
        r"effect against control +p of permutation .*\n.* -[0-9.]+ +0.01 ", vectors_table([result])
    )
    options["controls"] = {"less": scene(0.6)}
    result = score(Means(), **options, runs=3, permutations=99)
    assert not any("effect against" in line for line in result.details["notes"])


@pytest.mark.parametrize(
    ("names", "other", "tested", "note"),
    [
        ([0, 1, 2, 3], [4, 5, 6, 7], True, None),
        ([0, 1], [0, 1], True, None),
        ([0, 1], [2, 3], False, "control of `red`: too few scenes for a permutation test; use at least 4 in"),
        (None, None, True, "permutation test of `red`: no scenes are known, so all images count as"),
    ],
)
def test_images_of_a_scene_are_not_exchanged_one_by_one(memory_view, noisy, names, other, tested, note):
    red = noisy["concepts"]["red"].items[:20]
    groups = [
        None if one is None else [f"{one[row % len(one)]}" for row in range(20)] for one in (names, other)
    ]
    views = [memory_view(red, one, name) for one, name in zip(groups, ("red", "control"), strict=True)]
    options = noisy | {"concepts": {"red": views[0]}, "controls": {"red": views[1]}, "layers": ["one"]}
    details = score(Network(), **options, runs=3, permutations=99).details
    control = details["scores"][0]["control"]
    assert control["scenes"] == (None if names is None else [len(names), len(other)])
    assert (control["adjusted_p"] is not None) == tested
    assert [line.startswith(note) for line in details["notes"]] == ([] if note is None else [True])


def test_scores_and_derivatives_are_compared_with_those_of_random_vectors(noisy, memory_view):
    draws = torch.Generator().manual_seed(9)
    noisy["concepts"]["none"] = memory_view(list(torch.rand(50, 3, SIDE, SIDE, generator=draws)), name="none")
    options = {**noisy, "layers": ["hidden"], "target": "logit:0"}
    red, blue, none = score(Means(), **options, runs=20).details["scores"]
    assert (red["score"], blue["score"]) == (1, 0)
    assert (red["significant"], none["significant"]) == (True, False)
    assert 0.2 < red["random"] < 0.8
    # A logit that is linear in the activations: one vector counts for all images or for none.
    assert red["random_spread"] > 0.4
    for one, is_far in ((red, True), (none, False)):
        apart = abs(one["derivative"] - one["random_derivative"]) / one["random_derivative_spread"]
        assert (apart > 1) == is_far


def test_dead_layer_is_undefined(planted):
    options = {**planted, "layers": ["dead", "hidden"], "target": "logit:0"}
    options["controls"] = {"red": planted["negatives"]}
    result = score(Means(), **options, runs=3, permutations=9)
    dead, hidden = result.details["scores"]
    assert dead["score"] is dead["derivative"] is dead["accuracy"] is dead["t_test_p"] is None
    assert not dead["significant"]
    assert dead["control"]["permutation_p"] == 1
    assert hidden["score"] == 1
    assert np.isnan(result.columns["red at dead"]).all()
    assert re.search(r"red at dead +undefined", table([result]))


def test_flat_target_counts_as_insensitive(noisy):
    flat = Target("flat", lambda output: 0 * output[:, 0])
    result = score(Network(), **noisy | {"target": flat}, runs=3)
    for one in result.details["scores"]:
        assert (one["score"], one["derivative"], one["flat"], one["random"]) == (0, 0, 1, 0)
        assert one["t_test_p"] == 1


def test_results_are_read_back_and_compared_without_a_better_one(noisy, tmp_path):
    other = Network()
    with torch.no_grad():
        other.head.weight.neg_()
    results = list(score_all({"one": Network(), "other": other}, **noisy, runs=3, classifier="svm").values())
    path = tmp_path / "tcav.json"
    write_results(path, results)
    assert [one.to_json() for one in read_results(path)] == [one.to_json() for one in results]
    write_results(tmp_path / "tcav.rows.csv", results)
    found = compare(*results)
    assert found.winner is None
    assert str(found).startswith("one and other differ\nred at one: one - other = -1 (")
    assert "↑" not in table(results)
    assert "↓" not in table(results)


def test_interrupted_run_resumes(noisy, memory_view, tmp_path):
    model = NamedModel(ModelIdentity("model", "weights", None, "0" * 64), Network(), "srgb")
    noisy["layers"] = ["two"]

    def run(**changed):
        steps = FinishedSteps(tmp_path / "tcav.json.partial")
        kept = score(model, **{**noisy, "runs": 2, **changed}, steps=steps)
        return steps.reused, steps.computed, kept.to_json()

    whole = score(model, **noisy, runs=2).to_json()
    assert run() == (0, 2, whole)
    assert run() == (2, 0, whole)
    assert run(target="logit:2")[:2] == (0, 2)
    control = noisy["negatives"].items
    for groups, found in ((None, (0, 2)), (list("abcde") * 10, (1, 1))):  # only the test of red has changed
        assert run(controls={"red": memory_view(control, groups)}, permutations=9)[:2] == found
    # A function that is given in Python may change, so nothing is kept.
    assert run(target=Target("own", lambda output: output[:, 0]))[:2] == (0, 0)


def test_few_images_are_noted(noisy, memory_view):
    few = memory_view(noisy["concepts"]["red"].items[:19], name="few")
    noisy["concepts"] = {"red": few}
    result = score(Network(), **noisy, runs=2)
    assert result.details["notes"] == ["concept `red`: at least 20 images are advised, got 19"]
    noisy["concepts"] = {"red": memory_view([image / 2 for image in few.items] * 2, name="red")}
    noisy["negatives"] = memory_view(noisy["negatives"].items[:4], name="negatives")
    result = score(Network(), **noisy, runs=2, controls={"red": few}, permutations=9)
    assert result.details["notes"][:3] == [
        "control of `red`: at least 20 images are advised, got 19",
        "negatives: at least 20 images are advised, got 4",
        "concept `red`: 38 images beside 4 negatives, so each run draws 4 of both; use 76 negatives or more",
    ]


def test_set_images_are_the_rows_of_one_set(noisy, memory_view):
    red, blue = noisy["concepts"]["red"], noisy["concepts"]["blue"]
    sets = (ConceptSet({"colour": "red"}, tuple(range(22))), ConceptSet({"colour": "blue"}, (47, 22)))
    view = memory_view(red.items + blue.items, name="both", sets=sets, varies=None)
    blues = set_images(view, sets[1])
    assert blues.ids == blues.groups == ("both-47", "both-22")
    assert len(blues) == 2
    assert blues[0] is view.items[47]
    noisy["concepts"] = {"red": set_images(view, sets[0])}
    result = score(Network(), **noisy, runs=2)
    assert result.details["scores"][0]["images"] == 22


class Broken(Network):
    """The output, or the activation of one layer, is nan for images that are brighter than a level."""

    def __init__(self, part, level):
        super().__init__()
        self.part, self.level = part, level

    def forward(self, image):
        bright = torch.where(image.mean((1, 2, 3)) > self.level, torch.nan, 0.0)[:, None]
        if self.part == "output":
            return super().forward(image) + bright
        return super().forward(image + bright[:, :, None, None])


def test_nan_names_the_image(noisy):
    with refused(r"target `logit:1` of model `model`: .* nan or inf for image `test-2`"):
        score(Broken("output", 0.35), **noisy, runs=2)
    noisy["negatives"].items = [0.5 * image for image in noisy["negatives"].items]
    with refused(r"model `model`, layer `one`: .* nan or inf for image `red-\d+`"):
        score(Broken("input", 0.4), **noisy, runs=2)
    infinite = Target("root", lambda output: (output - output.detach())[:, 0].sqrt())
    with refused(r"gradient of model `model`, layer `one`: .* for image `test-0`"):
        score(Network(), **noisy | {"target": infinite}, runs=2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layers": ["one", "three*"]}, r"layer `three\*` is not in the model; expected one of: one, .*head"),
        ({"layers": []}, "`layer`: expected at least one hidden layer, got none"),
        ({"target": "logit:3"}, r"target logit:3: .* a class 3, counted from 0, got float32 \[\d+, 3\]"),
        ({"target": Target("no", lambda output: output.detach()[:, 0])}, "target does not depend on layer"),
        ({"concepts": {}}, "`concept`: expected at least one concept, got none"),
        ({"concept": ["red=red"]}, "`concept`: the data are open already; omit it"),
    ],
)
def test_bad_arguments(noisy, changed, message):
    with refused(message):
        score(Network(), **{**noisy, "runs": 2, **changed})


def test_models_and_images_that_do_not_fit(noisy, memory_view):
    one = memory_view([noisy["test"].items[0]], name="one")
    red = noisy["concepts"]["red"].items
    both = memory_view([*noisy["negatives"].items, red[3].clone(), red[7]], name="others")
    for model, change, message in (
        (Means(), {"layers": ["unused"]}, "layer `unused` did not run in a forward pass"),
        (lambda image: image.mean((2, 3)), {}, "`model` has no hidden layers: TCAV needs a torch.nn.Module"),
        (Network(), {"controls": {"green": one}}, "control `green`: expected one of the concepts, red, blue"),
        (Network(), {"concepts": {"one": one}}, "^concept `one`: expected at least 2 images, got 1; add ima"),
        (Network(), {"controls": {"red": one}}, "^control of concept `red`: expected at least 2 images, got"),
        (Network(), {"negatives": memory_view([], name="none")}, "no rows to read: `none` is empty"),
        (
            Network(),
            {"negatives": both},
            "concept `red`: 2 of 22 images, such as `red-3`, are negatives too; give other `negatives`",
        ),
    ):
        with refused(message):
            score(model, **{**noisy, "runs": 2, **change})


def test_tokens_may_come_before_images_and_with_other_values(noisy, attention):
    layers = {"layers": ["attention", "images_first"]}  # 16 tokens, 16 images of a batch
    details = score(attention(side=4), **noisy | layers, runs=3).details
    assert details["notes"] == ["layer `attention` gives several values; its first tensor is taken"]
    names = ("score", "derivative", "accuracy")
    for one, other in zip(details["scores"][:2], details["scores"][2:], strict=True):
        assert [one[name] for name in names] == pytest.approx([other[name] for name in names])


def test_sizes_may_differ_if_one_is_given(noisy, memory_view):
    wide = memory_view([torch.rand(3, SIDE, SIDE + 2) for _ in range(20)])
    mixed = {"mixed": memory_view([*(image / 2 for image in wide.items), torch.rand(3, 9, 9)])}
    for change, sizes in (
        ({"negatives": wide}, "(6, 6), (6, 8)"),
        ({"test": wide}, "(6, 6), (6, 8)"),
        ({"concepts": {"wide": wide}}, "(6, 6), (6, 8)"),
        ({"concepts": mixed, "negatives": wide, "test": wide}, "(6, 8), (9, 9)"),
    ):
        with refused(re.escape(f"several sizes, [{sizes}]; give one `size`")):
            score(Network(), **noisy | change, runs=2)
    result = score(Network(), **noisy | {"concepts": mixed}, runs=2, size=(7, 7))
    assert result.about.settings["size"] == [7, 7]
