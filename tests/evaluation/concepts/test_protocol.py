import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evaluation.concepts.branches import Probe, activations, gradients
from evaluation.concepts.cav import fit_cavs
from evaluation.concepts.protocol import score_concepts
from evaluation.concepts.sensitivity import sensitivity
from evaluation.models.ground_truth import decode_image
from loaders.colour import to_display
from loaders.errors import InputError
from loaders.schema import FactorInfo

HEIGHT, WIDTH = 6, 8


def _image(albedo, shading):
    return torch.from_numpy(to_display((albedo * shading).clamp(0, 1).numpy()))


def _scene(generator, albedos, lights):
    """Albedo and shading of a shape on a background: one albedo level and one light level per sample."""
    pattern = torch.rand(3, HEIGHT, WIDTH, generator=generator)
    ramp = torch.linspace(0.2, 1, WIDTH).expand(3, HEIGHT, WIDTH)
    albedo = torch.stack([0.2 + 0.7 * a * pattern for a in albedos])
    shading = torch.stack([0.3 + light * ramp for light in lights])
    return albedo, shading


@pytest.fixture
def sets(memory_frames):
    """Two albedo sets and three illumination sets of 12 images, 30 negatives, 10 test frames."""
    generator = torch.Generator().manual_seed(0)

    def concept(varies, fixed, count, values):
        infos = [
            FactorInfo(name=varies, kind="continuous", low=0, high=1),
            FactorInfo(name=fixed, kind="categorical", values=values),
        ]
        level = torch.linspace(0, 1, count)
        parts = []
        for number in range(len(values)):
            base = torch.full((count,), (number + 1) / len(values))
            order = (level, base) if varies == "paint" else (base, level)
            parts.append(_image(*_scene(generator, *order)))
        columns = {varies: level.tolist() * len(values), fixed: np.repeat(range(len(values)), count).tolist()}
        return memory_frames({"image": torch.cat(parts)}, columns, infos, varies=[varies])

    negatives = torch.randint(0, 256, (30, 3, HEIGHT, WIDTH), generator=generator, dtype=torch.uint8)
    albedo, shading = _scene(
        generator, torch.rand(10, generator=generator), torch.rand(10, generator=generator)
    )
    albedo[:, :, 0, 0] = 0
    layers = {"image": _image(albedo, shading), "albedo": albedo.half(), "shading": shading.half() / 2}
    return {
        "concept_frames_albedo": concept("paint", "light", 12, ("left", "right")),
        "concept_frames_illumination": concept("angle", "material", 12, ("a", "b", "c")),
        "negatives": [{"image": image} for image in negatives],
        "test_frames": memory_frames(layers, exposure=2.0),
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
            self.shading = nn.Conv2d(5, 3, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.relu(self.encoder(image))
        return self.reflectance(hidden).sigmoid(), self.shading(hidden).exp()


def test_black_box_is_scored(sets):
    scores = score_concepts(_blurry, **sets, runs=20)
    assert [(s.concept, s.images) for s in scores.sets] == [("albedo", 12)] * 2 + [("illumination", 12)] * 3
    assert [s.factors for s in scores.sets] == [
        {"light": "left"},
        {"light": "right"},
        {"material": "a"},
        {"material": "b"},
        {"material": "c"},
    ]
    for branch in [b for s in scores.sets for b in (s.reflectance, s.shading)]:
        assert 0 <= branch.sensitivity <= 1
        assert 0.4 < branch.accuracy <= 1
        assert branch.significant == (branch.p_value < 0.01)


def test_scores_equal_the_steps_by_hand(sets):
    scores = score_concepts(_blurry, **sets, runs=15, seed=4)
    truth = sets["test_frames"]
    image = decode_image(torch.stack([s["image"] for s in truth.samples]))
    predicted = _blurry(image)
    mask = (torch.stack([s["albedo"] for s in truth.samples]) > 0).any(1)[:, None]
    assert not mask[:, :, 0, 0].any()
    for branch, layer, exposure in ((0, "albedo", 1), (1, "shading", 2)):
        target = torch.stack([s[layer] for s in truth.samples]).float() * exposure
        slope = (mask * (predicted[branch] - target)).flatten(1)
        concept = decode_image(torch.stack([s["image"] for s in sets["concept_frames_albedo"].samples[:12]]))
        against = decode_image(torch.stack([s["image"] for s in sets["negatives"]]))
        cavs = fit_cavs(
            _blurry(concept)[branch].flatten(1),
            _blurry(against)[branch].flatten(1),
            generator=torch.Generator().manual_seed(0),
            runs=400,
        )
        found = getattr(scores.sets[0], ("reflectance", "shading")[branch])
        # Other draws: equal up to the error of the mean of 15 runs.
        assert (
            abs(found.sensitivity - float(sensitivity(cavs, slope).mean()))
            < 4 * found.spread / 15**0.5 + 0.02
        )


def test_same_seed_same_scores_and_max_sets_is_a_subset(sets):
    whole = score_concepts(_blurry, **sets, runs=5)
    assert score_concepts(_blurry, **sets, runs=5).to_json() == whole.to_json()
    assert score_concepts(_blurry, **sets, runs=5, seed=1).to_json() != whole.to_json()
    part = score_concepts(_blurry, **sets, runs=5, max_sets=1)
    assert [s.concept for s in part.sets] == ["albedo", "illumination"]
    assert all(s in whole.sets for s in part.sets)


def test_batches_do_not_matter(sets):
    one, other = (score_concepts(Net(), **sets, runs=4, batch_size=b).sets for b in (3, 64))
    for a, b in zip(one, other, strict=True):
        assert a.reflectance.sensitivity == pytest.approx(b.reflectance.sensitivity, abs=0.051)
        assert a.shading.accuracy == pytest.approx(b.shading.accuracy, abs=0.051)


@pytest.mark.parametrize("layer", ["encoder", ("reflectance", "shading")])
def test_hidden_layers(sets, layer):
    model = Net()
    scores = score_concepts(model, **sets, runs=6, layer=layer)
    assert len(scores.sets) == 5
    assert scores.settings["layer"] == layer
    assert all(parameter.grad is None for parameter in model.parameters())


def test_gradient_at_the_last_layer_is_that_at_the_output(sets):
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r, self.s = nn.Identity(), nn.Identity()

        def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
            reflectance, shading = _blurry(image)
            return self.r(reflectance), self.s(shading)

    for align in (False, True):
        hidden = gradients(Probe(Last(), layers=("r", "s"), align_scale=align), sets["test_frames"])
        output = gradients(Probe(Last(), align_scale=align), sets["test_frames"])
        torch.testing.assert_close(hidden.reflectance, output.reflectance)
        torch.testing.assert_close(hidden.shading, output.shading)
    found = activations(Probe(Last(), layers=("r", "s")), sets["negatives"], range(5))
    expected = activations(Probe(Last()), sets["negatives"], range(5))
    torch.testing.assert_close(found.reflectance, expected.reflectance)
    torch.testing.assert_close(found.shading, expected.shading)
    assert found.size == expected.size == (HEIGHT, WIDTH)


def test_resizing_leaves_mixed_pixels_out(memory_frames):
    albedo = torch.full((1, 3, 4, 4), 0.5)
    albedo[:, :, :, :3] = 0
    layers = {"image": torch.full((1, 3, 4, 4), 99, dtype=torch.uint8), "albedo": albedo.half()}
    frames = memory_frames({**layers, "shading": torch.ones(1, 3, 4, 4).half()})
    found = gradients(Probe(_blurry, size=(8, 8)), frames).reflectance.reshape(3, 8, 8)
    assert (found[:, :, :6] == 0).all()
    assert (found[:, :, 7] != 0).all()


def test_sizes_may_differ_if_one_is_given(sets):
    mixed = [{"image": torch.zeros(3, 2 + row, 5, dtype=torch.uint8)} for row in range(8)]
    sets = {**sets, "negatives": mixed}
    for batch_size in (1, 16):
        with pytest.raises(
            InputError, match=r"images have several sizes, .* give one `size` to resize them to"
        ):
            score_concepts(_blurry, **sets, runs=2, batch_size=batch_size)
    scores = score_concepts(_blurry, **sets, runs=2, size=(5, 5))
    assert scores.settings["size"] == (5, 5)
    # As many pixels as the others, but turned.
    sets["negatives"] = [{"image": torch.zeros(3, WIDTH, HEIGHT, dtype=torch.uint8)}] * 8
    with pytest.raises(InputError, match=r"differ in size, \[\(6, 8\), \(8, 6\)\]; give one `size`"):
        score_concepts(_blurry, **sets, runs=2)


def test_albedo_sets_and_metrics_from_known_sensitivities(sets):
    scores = score_concepts(_blurry, **sets, runs=20)
    kept = [s for s in scores.sets if s.concept == "illumination"]
    result = scores.csm("ratio_of_means", significant_only=False)
    expected = np.mean([s.shading.sensitivity for s in kept]) / np.mean(
        [s.reflectance.sensitivity for s in kept]
    )
    assert float(result.csm_r) == pytest.approx(expected)
    passed = [s for s in kept if s.reflectance.significant and s.shading.significant]
    assert len(scores.csm().r_illumination) == len(passed)


def _gray_sets(memory_frames, predicted_albedo, predicted_shading):
    """Bright concept images, black negatives, and a model that is off the ground truth by known factors."""
    bright = torch.full((4, 3, HEIGHT, WIDTH), 230, dtype=torch.uint8)
    level = FactorInfo(name="level", kind="categorical", values=(0,))
    concept = memory_frames({"image": bright}, {"level": [0] * 4}, [level], varies=["level"])
    layers = {"image": bright, "albedo": torch.full(bright.shape, 0.5).half()}
    test = memory_frames({**layers, "shading": torch.full(bright.shape, 0.5).half()})
    black = [{"image": torch.zeros(3, HEIGHT, WIDTH, dtype=torch.uint8)}] * 4

    def model(image):
        unit = image / image.amax().clamp(min=0.1)
        return predicted_albedo * unit, predicted_shading * unit

    return score_concepts(model, concept, concept, black, test, runs=3)


@pytest.mark.parametrize(
    ("albedo", "shading", "r", "s"),
    [(0.4, 0.6, 1, 0), (0.6, 0.4, 0, 1), (0.4, 0.4, 1, 1), (0.5, 0.4, 0, 1)],
    ids=[
        "too dark and too bright",
        "too bright and too dark",
        "both too dark",
        "exactly right counts as insensitive",
    ],
)
def test_sensitivities_that_are_known(memory_frames, albedo, shading, r, s):
    # Along the concept a branch grows brighter: that helps what is too dark and nothing else.
    scores = _gray_sets(memory_frames, albedo, shading)
    for each in scores.sets:
        assert (each.reflectance.sensitivity, each.shading.sensitivity) == (r, s)
        assert each.reflectance.accuracy == each.shading.accuracy == 1
    result = scores.csm(significant_only=False)
    assert float(result.csm_s) == (r / s if s else math.inf)
    assert float(result.csm_r) == (s / r if r else math.inf)


def test_constant_model_has_no_metrics(sets):
    def constant(image):
        return torch.full_like(image, 0.5), torch.ones_like(image)

    scores = score_concepts(constant, **sets, runs=5)
    for s in scores.sets:
        assert s.reflectance.sensitivity == s.shading.sensitivity == 0
        assert s.shading.accuracy == 0.5
        assert s.shading.p_value == 1
    assert math.isnan(scores.csm().csm_s)
    assert json.loads(scores.to_json())["all_sets"]["mean_of_ratios"]["csm_s"] is None


def test_json_is_strict_and_complete(sets):
    result = json.loads(score_concepts(_blurry, **sets, runs=4, max_sets=1).to_json())
    assert result["better"] == "higher"
    assert result["settings"]["runs"] == 4
    assert result["all_sets"]["ratio_of_means"]["illumination_sets"] == 1
    assert {"csm_s", "csm_r", "bounded_s", "bounded_r"} <= result["significant_sets"]["mean_of_ratios"].keys()
    assert result["sets"][0]["reflectance"].keys() == {
        "sensitivity",
        "spread",
        "accuracy",
        "p_value",
        "significant",
    }


def test_image_set_that_is_no_concept_set(sets, memory_frames):
    plain = memory_frames({"image": torch.zeros(2, 3, HEIGHT, WIDTH, dtype=torch.uint8)})
    with pytest.raises(
        InputError, match="image set `memory` is no concept set: its `varies` names no factor"
    ):
        score_concepts(_blurry, **{**sets, "concept_frames_albedo": plain}, runs=2)


def test_hidden_layer_of_a_black_box(sets):
    with pytest.raises(
        InputError, match=r"hidden layers need a torch\.nn\.Module, got function; use layer='output'"
    ):
        score_concepts(_blurry, **sets, runs=2, layer="encoder")


def test_no_negatives(sets):
    with pytest.raises(
        InputError, match="no images to read: negatives and test frames need at least one each"
    ):
        score_concepts(_blurry, **{**sets, "negatives": []}, runs=2)


def test_unusable_test_frames(sets, memory_frames):
    image = torch.zeros(1, 3, HEIGHT, WIDTH, dtype=torch.uint8)
    black = torch.zeros(1, 3, HEIGHT, WIDTH).half()
    for layers, message in (
        ({"image": image}, "has no `albedo` layer"),
        (
            {"image": image, "albedo": black, "shading": black},
            "a test frame has no pixel with an albedo above 0",
        ),
        ({"image": image[:0], "albedo": black[:0], "shading": black[:0]}, "no images to read"),
    ):
        with pytest.raises(InputError, match=message):
            score_concepts(_blurry, **{**sets, "test_frames": memory_frames(layers)}, runs=2)
