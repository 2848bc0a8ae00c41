import functools
import json
import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import CSMData, set_images
from candlelight.evaluation.concepts.branches import branch_activations, branch_gradients
from candlelight.evaluation.concepts.permutation import exchange_derivatives, input_scores, permutation_test
from candlelight.evaluation.concepts.probe import Probe
from candlelight.evaluation.concepts.rows import RowStorage, StoredRows
from candlelight.evaluation.concepts.set_scores import (
    ALIGNMENTS,
    BRANCHES,
    RULES,
)
from candlelight.evaluation.concepts.sets import choose_sets
from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import ConceptSet, DecomposedImage
from candlelight.evaluation.views.image_tensors import decode, encode
from tests.refusals import refused

HEIGHT, WIDTH = 6, 8


def _scene(generator, albedos, lights):
    """Draw albedo and shading of a shape on a background, with one albedo and one light level per sample."""
    pattern = torch.rand(3, HEIGHT, WIDTH, generator=generator)
    ramp = torch.linspace(0.2, 1, WIDTH).expand(3, HEIGHT, WIDTH)
    albedo = torch.stack([0.2 + 0.7 * a * pattern for a in albedos])
    shading = torch.stack([0.3 + light * ramp for light in lights])
    return albedo, shading


@pytest.fixture
def sets(memory_view, decompositions):
    """Two albedo sets and two illumination sets of 12 images, 30 negatives, 10 test frames."""
    generator = torch.Generator().manual_seed(0)

    def concept(varies, fixed, values):
        level, images, found = torch.linspace(0, 1, 12), [], []
        for number, value in enumerate(values):
            base = torch.full((12,), (number + 1) / len(values))
            order = (level, base) if varies == "albedo" else (base, level)
            albedo, shading = _scene(generator, *order)
            rows = tuple(range(len(images), len(images) + 12))
            images += list(encode((albedo * shading).clamp(0, 1)))
            found.append(ConceptSet({fixed: value}, rows))
        return memory_view(images, name=varies, sets=tuple(found), varies=varies)

    negatives = torch.rand(30, 3, HEIGHT, WIDTH, generator=generator)
    levels = torch.rand(2, 10, generator=generator)
    albedo, shading = _scene(generator, *levels)
    albedo[:, :, 0, 0] = 0
    return {
        "albedo": concept("albedo", "light", ("left", "right")),
        "illumination": concept("illumination", "material", ("a", "b")),
        "negatives": memory_view(list(negatives), name="negative"),
        "test": decompositions(albedo, shading, groups=list("aabbccddee"), name="test"),
    }


def _blurry(image):
    """A black box: shading is the mean over each column of the gray image."""
    shading = image.mean((1, 2), keepdim=True).expand_as(image) + 0.05
    return image / shading, shading


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.encoder = nn.Conv2d(3, 5, 3, padding=1)
            self.reflectance = nn.Conv2d(5, 3, 1)
            self.shading = nn.Conv2d(5, 1, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.relu(self.encoder(image))
        return self.reflectance(hidden).sigmoid(), self.shading(hidden).exp()


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    few = functools.partial(resampled_interval, resamples=10)
    for module in ("concepts.csm", "concepts.score_csm"):  # the package has functions of their names
        monkeypatch.setattr(import_module(f"candlelight.evaluation.{module}"), "resampled_interval", few)


def score(model, sets, permutations=19, **options):
    data = CSMData(**{"controls": {}, **sets})
    return evaluate("csm", data, {"model": model}, permutations=permutations, **options)["model"]


def test_black_box_is_scored(sets):
    result = score(_blurry, sets, runs=10)
    found = result.details["sets"]
    assert [one["concept"] for one in found] == ["albedo", "albedo", "illumination", "illumination"]
    assert [one["images"] for one in found] == [12] * 4
    assert [one["fixed"] for one in found[1:3]] == [{"light": "right"}, {"material": "a"}]
    for branch in [one[name][alignment] for one in found for name in BRANCHES for alignment in ALIGNMENTS]:
        assert 0 <= branch["sensitivity"] <= 1
        assert 0.4 < branch["accuracy"] <= 1
    assert list(result.scores) == [
        f"{metric} {alignment}, {rule}"
        for rule in RULES
        for alignment in ALIGNMENTS
        for metric in ("csm_s", "csm_r")
    ]
    assert result.groups == tuple("abcde")
    frames = result.details["frames"]
    assert frames["ids"] == list(sets["test"].ids)
    for branch in BRANCHES:
        shares = [one[branch]["aligned"]["sensitivity"] for one in found[:2]]
        assert np.mean(frames[f"{branch} to albedo, aligned"]) == pytest.approx(np.mean(shares))
        assert len(frames[f"{branch} to illumination, unaligned"]) == 10


def uncorrected(result):
    """Leave out the p-values that are corrected for the number of sets."""
    text = json.dumps(result.details["sets"])
    return json.loads(text, object_hook=lambda one: {k: v for k, v in one.items() if k != "adjusted_p"})


def test_seed_classifier_and_significance(sets):
    whole = score(_blurry, sets, runs=3)
    part = score(_blurry, sets, runs=3, max_sets=1)
    assert score(_blurry, sets, runs=3, max_sets=1).to_json() == part.to_json()
    for options in ({"seed": 1}, {"classifier": "ridge"}, {"regularisation": 1.0}):
        result = score(_blurry, sets, runs=3, max_sets=1, **options)
        assert {name: result.about.settings[name] for name in options} == options
        assert uncorrected(result) != uncorrected(part)
    assert [one["concept"] for one in part.details["sets"]] == ["albedo", "illumination"]
    assert all(one in uncorrected(whole) for one in uncorrected(part))
    # The significance decides about the rules alone.
    exact = score(_blurry, sets, runs=3, significance="permutation")
    for result, name in ((whole, "t_test_p"), (exact, "adjusted_p")):
        for branch in (found["reflectance"]["aligned"] for found in result.details["sets"]):
            assert branch["significant"] == (branch[name] < 0.01)
            assert branch["adjusted_p"] >= branch["permutation_p"] >= 0.05
    assert whole.scores["csm_s aligned, all sets"] == exact.scores["csm_s aligned, all sets"]


def control_of(memory_view, view, varies="pose"):
    """Show the first image of each set with noise of its own, as a control of the sets."""
    generator = torch.Generator().manual_seed(5)
    images, found = [], []
    for one in view.sets:
        rows = tuple(range(len(images), len(images) + 12))
        noise = torch.randn(12, 3, HEIGHT, WIDTH, generator=generator) / 50
        images += [(view[one.rows[0]] + each).clamp(0, 1) for each in noise]
        found.append(ConceptSet(dict(one.fixed), rows))
    return memory_view(images, name="control", sets=tuple(found), varies=varies)


def test_controls_stand_beside_negatives(sets, memory_view, tmp_path):
    controls = {"albedo": control_of(memory_view, sets["albedo"])}
    first, steps = (FinishedSteps(tmp_path / "csm.partial") for _ in range(2))
    model = open_model("constant-shading")  # a model with an identity, whose steps are kept
    result = score(model, sets | {"controls": controls}, runs=2, steps=first)
    assert score(model, sets | {"controls": controls}, runs=2, steps=steps).to_json() == result.to_json()
    assert (first.computed, steps.reused) == (4, 4)
    plain = score(model, sets, runs=2)
    for name in ("csm_s aligned, all sets", "csm_r unaligned, all sets"):
        assert result.scores[name] == plain.scores[name]
    assert not any(name.startswith("csm_r") and "control" in name for name in result.scores)
    for one in result.details["sets"]:
        kinds = 4 if one["concept"] == "albedo" else 2
        assert [len(one[branch]) for branch in BRANCHES] == [kinds, kinds]
    *few, alone, constant = result.details["notes"]
    assert constant.startswith("`model`, shading: all images give one output")
    assert few == [
        f"smallest {kind}: at least 20 images are advised, got 12" for kind in ("concept set", "control")
    ]
    assert alone == (
        "csm_s against controls: intervals and verdicts need 6 or more scenes and controls, got 2 and 1; "
        "render more"
    )
    name = "csm_s aligned against control, all sets"
    assert result.units[name] == {"scenes": 2, "controls": 1}
    assert math.isnan(result.scores[name].low)
    assert "csm_s aligned, all sets" not in result.units


def test_scores_are_means_over_several_controls(sets, memory_view):
    one = control_of(memory_view, sets["albedo"])
    images = one.items + [(0.5 * image).sqrt() for image in one.items]  # in another material
    rows = len(one.items)
    many = [
        ConceptSet({**some.fixed, "material": number}, tuple(row + number * rows for row in some.rows))
        for number in (0, 1)
        for some in one.sets
    ]
    control = memory_view(images, name="control", sets=tuple(many), varies="pose")
    plain = sets | {"illumination": None}
    result = score(_blurry, plain | {"controls": {"albedo": control}}, runs=2)
    alone = score(_blurry, plain | {"controls": {"albedo": one}}, runs=2)
    name = "csm_s aligned against control, all sets"
    assert next(iter(result.scores)) == name
    assert {score.split()[0] for score in result.scores} == {"csm_s"}  # of one concept
    of_one = result.details["by_control"][name]
    assert of_one["material=0"] == pytest.approx(alone.scores[name].value)
    for found in (found["shading"] for found in result.details["sets"]):
        of_each = [found[f"aligned against control {k}"]["adjusted_p"] for k in (1, 2)]
        assert found["aligned against control"]["adjusted_p"] == max(of_each)


def test_permutation_test_of_a_set_is_that_of_its_activations(sets, memory_view):
    control = control_of(memory_view, sets["albedo"])
    result = score(_blurry, sets | {"controls": {"albedo": control}}, runs=2, max_sets=1)
    chosen = result.details["sets"][0]
    probe = Probe(identify_models({"m": _blurry}, [], "linear", None)["m"])
    slopes = branch_gradients(probe, None, sets["test"])
    found = next(one for one in sets["albedo"].sets if dict(one.fixed) == chosen["fixed"])
    other = next(one for one in control.sets if dict(one.fixed) == chosen["fixed"])
    concept = branch_activations(probe, None, set_images(sets["albedo"], found))
    against = branch_activations(probe, None, set_images(control, other))
    for branch in BRANCHES:
        rows = [one.rows[branch] for one in (concept, against, slopes["aligned"])]
        derivatives = exchange_derivatives(*rows, seed=0, permutations=19)
        test = permutation_test(input_scores(derivatives).mean(1)[None])
        score_found = chosen[branch]["aligned against control"]
        assert score_found["permutation_p"] == pytest.approx(float(test.p_value))
        assert score_found["effect"][0] == pytest.approx(float(test.effect))
        assert score_found["adjusted_p"] == score_found["permutation_p"]  # one set


@pytest.mark.parametrize("known", ["all channels", "some channels"])
def test_gradient_at_the_last_layer_equals_the_gradient_at_the_output(sets, known):
    if known == "some channels":
        items = sets["test"].items
        mostly = torch.rand(3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0)) < 0.8
        items[:] = [replace(item, shading_known=mostly, mask=item.mask & mostly.any(0)) for item in items]

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r, self.s = nn.Identity(), nn.Identity()

        def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
            reflectance, shading = _blurry(image)
            return self.r(reflectance), self.s(shading)

    source = identify_models({"last": Last()}, [], "linear", None)["last"]
    hidden = branch_gradients(Probe(source), ("r", "s"), sets["test"])
    output = branch_gradients(Probe(source), None, sets["test"])
    for alignment in ALIGNMENTS:
        torch.testing.assert_close(hidden[alignment].rows, output[alignment].rows)
    found = branch_activations(Probe(source), ("r", "s"), sets["negatives"])
    expected = branch_activations(Probe(source), None, sets["negatives"])
    torch.testing.assert_close(found.rows, expected.rows)
    assert found.size == expected.size == (HEIGHT, WIDTH)


def test_resizing_removes_mixed_pixels_from_the_mask(decompositions):
    albedo = torch.full((1, 3, 4, 4), 0.5)
    albedo[:, :, :, :3] = 0
    view = decompositions(albedo, torch.ones(1, 3, 4, 4))
    probe = Probe(identify_models({"blurry": _blurry}, [], "linear", None)["blurry"], size=(8, 8))
    found = branch_gradients(probe, None, view)["unaligned"].rows["reflectance"].reshape(3, 8, 8)
    assert (found[:, :, :6] == 0).all()
    assert (found[:, :, 7] != 0).all()


def _gray(memory_view, predicted_albedo, predicted_shading):
    """Bright concept images, black negatives, and a model whose errors are known factors."""
    bright = [torch.full((3, HEIGHT, WIDTH), 0.9)] * 4
    concept = {
        name: memory_view(bright, name=name, sets=(ConceptSet({}, tuple(range(4))),), varies=name)
        for name in ("albedo", "illumination")
    }
    half = torch.full((3, HEIGHT, WIDTH), 0.5)
    item = DecomposedImage(
        torch.full_like(half, 0.8), half, half, torch.ones(HEIGHT, WIDTH, dtype=torch.bool)
    )
    rest = {
        "negatives": memory_view([torch.zeros(3, HEIGHT, WIDTH)] * 4, name="black"),
        "test": memory_view([item] * 4, name="test", explains="image"),
    }

    def model(image):
        unit = image / image.amax().clamp(min=0.1)
        return predicted_albedo * unit, predicted_shading * unit

    return score(model, {**concept, **rest}, runs=3)


def test_constant_models_have_no_metrics_and_are_told_from_ideal_ones(sets):
    def constant(image):
        return torch.full_like(image, 0.5), torch.ones_like(image)

    def key(image):
        return tuple(image.flatten()[50:60].mul(1e4).round().tolist())

    truth = {key(one.image): (one.reflectance, one.shading) for one in sets["test"].items}

    def ideal(image):
        pairs = [truth.get(key(one), (one, one)) for one in image]
        return tuple(torch.stack(some) for some in zip(*pairs, strict=True))

    perfect, still = (score(model, sets, runs=3) for model in (ideal, constant))
    for result, names, words in (
        (perfect, [f"{branch} aligned and unaligned" for branch in BRANCHES], "an ideal branch"),
        (still, BRANCHES, "a constant branch"),
    ):
        _, *notes = result.details["notes"]
        assert [note.partition(":")[0] for note in notes] == [f"`model`, {name}" for name in names]
        assert all(words in note for note in notes)
    for branch in (one[name]["unaligned"] for one in still.details["sets"] for name in BRANCHES):
        assert (branch["sensitivity"], branch["accuracy"], branch["t_test_p"]) == (0, 0.5, 1)
    assert all(math.isnan(one.value) for one in still.scores.values())
    assert json.loads(still.to_json())["scores"]["csm_s aligned, all sets"]["value"] is None


@pytest.mark.parametrize(
    ("albedo", "shading", "r", "s"),
    [(0.4, 0.6, 1, 0), (0.6, 0.4, 0, 1), (0.4, 0.4, 1, 1), (0.5, 0.4, 0, 1)],
    ids=["too dark and bright", "too bright and dark", "both too dark", "right counts as insensitive"],
)
def test_known_sensitivities(memory_view, albedo, shading, r, s):
    # Along the concept a branch becomes brighter, which lowers the loss only if it was too dark.
    result = _gray(memory_view, albedo, shading)
    for one in result.details["sets"]:
        found = [one[branch]["unaligned"]["sensitivity"] for branch in BRANCHES]
        assert found == [r, s]
        # Exact up to scale: the aligned loss is 0 and cannot fall.
        assert [one[branch]["aligned"]["sensitivity"] for branch in BRANCHES] == [0, 0]
        assert one["reflectance"]["aligned"]["accuracy"] == 1
    assert result.scores["csm_s unaligned, all sets"].value == (r / s if s else math.inf)
    assert result.scores["csm_r unaligned, all sets"].value == (s / r if r else math.inf)
    assert math.isnan(result.scores["csm_s aligned, all sets"].value)


def test_predictions_score_like_their_model(sets, tmp_path):
    for view in sets.values():
        for name, item in zip(view.ids, view.items, strict=True):
            image = item.image.clamp(max=1) if hasattr(item, "image") else decode(item)
            reflectance, shading = _blurry(image[None])
            np.savez(tmp_path / f"{name}.npz", reflectance=reflectance[0], shading=shading[0])
    one, other = (score(model, sets, runs=2, max_sets=1) for model in (_blurry, open_predictions(tmp_path)))
    assert one.details == other.details
    assert one.scores == other.scores
    with refused("predictions are scored at their own size"):
        score(open_predictions(tmp_path), sets, runs=2, size=(3, 3))


@pytest.mark.parametrize(
    ("layer", "read"), [("encoder", "encoder"), ("reflectance,shad*", ["reflectance", "shading"])]
)
def test_hidden_layers(sets, layer, read):
    model = Net()
    result = score(model, sets, runs=3, layer=[layer])
    assert result.about.model["layer"] == read
    assert len(result.details["sets"]) == 4
    assert all(parameter.grad is None for parameter in model.parameters())


def test_sizes_may_differ_if_one_is_given(sets, memory_view):
    sets["negatives"] = memory_view([torch.zeros(3, 2 + row, 5) for row in range(8)])
    for batch_size in (1, 16):
        with refused("images have several sizes, .* give one `size` to resize them"):
            score(_blurry, sets, runs=2, batch_size=batch_size)
    assert score(_blurry, sets, runs=2, size=(5, 5)).about.settings["size"] == [5, 5]
    # As many pixels as the other images, but height and width are exchanged.
    sets["negatives"] = memory_view([torch.zeros(3, WIDTH, HEIGHT)] * 8)
    with refused(r"several sizes, \[\(6, 8\), \(8, 6\)\]; give one `size`"):
        score(_blurry, sets, runs=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": ["a,b,c"]}, "`layer` a,b,c: expected NAME, or REFLECTANCE,SHADING"),
        ({"layer": ["a,"]}, "`layer` a,: expected NAME, or REFLECTANCE,SHADING"),
        ({"layer": ["encoder,*"]}, "as many layers of the reflectance as of the shading, got 1 and 3"),
        ({"albedo": "none"}, "`albedo`: the data are open already; omit it"),
        ({"planted": True}, "`planted`: needs the ground truth of all images, `truth` of"),
        ({"classifier": "svn"}, "`classifier`: expected one of svm, .*, got svn; did you mean"),
    ],
)
def test_refused_options(sets, options, message):
    with refused(message):
        score(Net(), sets, runs=2, **options)


def test_refused_models(sets):
    with refused("layer encoder: `model` has no hidden layers"):
        score(_blurry, sets, runs=2, layer=["encoder"])
    with refused("gives nan, inf or nothing for `negative-0`"):
        score(lambda image: (image / 0, image), sets, runs=2)
    spoilt = Net()
    spoilt.register_forward_hook(lambda _module, _images, output: (output[0], output[1] / 0))
    with refused("gives nan, inf or nothing for `test-0`"):
        score(spoilt, sets, runs=2, layer=["encoder"])


def first_alone(view, fixed):
    """Keep one image of a set with a fixed factor."""
    kept = (ConceptSet(one.fixed, one.rows[:1]) if dict(one.fixed) == fixed else one for one in view.sets)
    view.sets = tuple(kept)
    return view


LEFT, RIGHT = {"light": "left"}, {"light": "right"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda sets, _: {"albedo": sets["illumination"], "illumination": sets["albedo"]},
            "given for albedo, but in its sets the illumination varies; swap",
        ),
        (
            lambda sets, view: {"albedo": control_of(view, sets["albedo"], "camera")},
            "in its sets the camera varies; name a set in which the albedo",
        ),
        (
            lambda sets, _: {"albedo": first_alone(sets["albedo"], LEFT)},
            "^albedo set with light=left: expected at least 2 images, got 1",
        ),
        (
            lambda *_: {"albedo": None, "illumination": None},
            "expected concept sets of albedo or illumination",
        ),
        (lambda _, view: {"negatives": view([])}, "no rows to read: `row` is empty"),
        (
            lambda sets, _: {"controls": {"albedo": sets["illumination"]}},
            "`illumination` was given as the control of albedo, but in its sets",
        ),
        (
            lambda sets, view: {"albedo": None, "controls": {"albedo": control_of(view, sets["albedo"])}},
            "control of albedo: there are no albedo sets to compare with it",
        ),
        (
            lambda sets, view: {"controls": {"albedo": first_alone(control_of(view, sets["albedo"]), RIGHT)}},
            "control of the albedo set with .*light=right.*: expected at least 2 images, got 1",
        ),
    ],
)
def test_refused_sets(sets, memory_view, change, message):
    with refused(message):
        score(_blurry, **{"sets": {**sets, **change(sets, memory_view)}}, runs=2)


def test_refused_test_frames_and_controls(sets, decompositions):
    black = torch.zeros(1, 3, HEIGHT, WIDTH)
    with refused("a test frame has no pixel with an albedo above 0"):
        score(_blurry, {**sets, "test": decompositions(black, black, name="test")}, runs=2)
    with refused("`controls` must be one of: albedo, illumination"):
        choose_sets(sets["albedo"], sets["illumination"], {"colour": sets["albedo"]}, max_sets=None, seed=0)


def test_scores_do_not_depend_on_the_memory(sets):
    options = {"runs": 3, "layer": ["encoder"], "max_sets": 1}
    in_memory, in_files = (score(Net(), sets, **options, memory=memory) for memory in (None, 0))
    assert in_files.to_json() == in_memory.to_json()


@pytest.mark.parametrize("layers", [None, ("encoder", "shading")])
def test_rows_of_branches_are_in_files_beyond_the_limit(sets, tmp_path, layers):
    named, found = identify_models({"net": Net()}, [], "linear", None)["net"], []
    for storage in (RowStorage(), RowStorage(0, tmp_path)):
        probe = Probe(named, batch_size=6, storage=storage)
        of_loss = branch_gradients(probe, layers, sets["test"])
        found.append([branch_activations(probe, layers, sets["negatives"]), *of_loss.values()])
    for in_memory, in_file in zip(*found, strict=True):
        for branch in BRANCHES:
            assert isinstance(in_file.rows[branch], StoredRows)
            assert torch.equal(in_file.rows[branch].columns(slice(None)), in_memory.rows[branch])
