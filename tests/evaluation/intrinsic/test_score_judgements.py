"""The scores of judgements: of comparisons by photograph, and one curve of all labels."""

import math

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.judgements import count_smooth, saw_curve, whdr
from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.models.retinex import constant_reflectance, constant_shading
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import Comparisons, JudgedImage
from tests.refusals import refused

VARIANT = {"variant": "cgintrinsics2018"}
SCORERS = [("whdr", {}), ("saw", VARIANT)]


def test_whdr_is_the_mean_over_photographs(judged) -> None:
    result = evaluate("whdr", judged, {"flat": constant_shading}, batch_size=2)["flat"]
    wanted = [float(whdr(item.image[None].double(), [item.comparisons])) for item in judged.items]
    assert result.columns["whdr"] == pytest.approx(wanted, nan_ok=True)
    assert 0 < result.score < 1
    assert result.score == pytest.approx(np.mean(wanted[:3]))
    assert (result.undefined, result.failed) == (1, ())


@pytest.mark.parametrize("variant", ["kovacs2017", "cgintrinsics2018", "challenge2018"])
def test_saw_is_one_curve_of_all_photographs(judged, variant) -> None:
    models = {"whole": constant_reflectance}
    result = evaluate("saw", judged, models, variant=variant, batch_size=2)["whole"]
    counts = [count_smooth(i.image[None], i.labels[None], variant, i.image[None])[0] for i in judged.items]
    curve = saw_curve(sum(counts), variant)
    assert result.score == pytest.approx(float(curve.score))
    assert result.details["recall"] == pytest.approx(curve.recall.tolist())
    assert result.details["precision"] == pytest.approx(curve.precision.tolist())
    if variant != "challenge2018":
        sizes = [sum(int((item.labels == label).sum()) for item in judged.items) for label in range(3)]
        assert result.details["weights"] == sizes
    assert (result.groups, result.failed) == (judged.ids, ())


def test_options_are_checked_and_reach_the_metrics_and_the_finished_steps(judged, tmp_path) -> None:
    for name, model, options, changed in (
        ("whdr", "constant-shading", {"threshold": 0.1}, {"threshold": 3.0}),
        ("saw", "constant-reflectance", VARIANT, {"variant": "kovacs2017"}),
    ):
        steps = [FinishedSteps(tmp_path / name) for _ in range(2)]
        one, other = (
            evaluate(name, judged, {"m": open_model(model)}, steps=kept, **given)["m"]
            for kept, given in zip(steps, (options, changed), strict=True)
        )
        assert one.score != other.score
        assert other.about.settings.items() >= changed.items()
        assert steps[1].reused == 0
        with refused("`power`: expected above 0, got 0"):
            evaluate(name, judged, {"m": constant_shading}, power=0.0, **options)
    with refused(r"^`variant`: expected one of kovacs2017, .*did you mean `kovacs2017`"):
        evaluate("saw", judged, {"m": constant_shading}, variant="kovacs")


@pytest.mark.parametrize(("name", "options"), SCORERS)
def test_power_is_that_of_a_model_which_raises_its_values(judged, name, options) -> None:
    def curved(image):
        return [part.clamp(min=0) ** 0.4545 for part in (image - 0.1, image - 0.1)]

    def linear(image):
        return image - 0.1, image - 0.1

    models = {"curved": curved, "linear": linear}
    plain = evaluate(name, judged, models, **options)
    found = evaluate(name, judged, {"m": linear}, power=0.4545, **options)["m"]
    assert found.score == pytest.approx(plain["curved"].score, rel=1e-6)
    assert found.score != plain["linear"].score
    assert found.about.settings == plain["curved"].about.settings | {"power": 0.4545}


@pytest.mark.parametrize(("name", "options"), SCORERS)
def test_failed_prediction_never_improves_the_score(judged, name, options) -> None:
    def noise(bad=None):
        def model(image):
            parts = [image.clone(), torch.rand(image.shape, generator=torch.Generator().manual_seed(0))]
            if bad is not None and image.shape[2] == 36:  # the second photograph
                parts[name == "saw"][0, 0, 0, 0] = bad
            return parts

        return model

    models = {"whole": noise(), "failing": noise(math.inf)}
    whole, failing = evaluate(name, judged, models, **options).values()
    assert failing.failed == ("row-1",)
    if name == "whdr":
        assert failing.columns["whdr"][1] == 1
        assert failing.score > whole.score
        rest = np.mean([whole.columns["whdr"][row] for row in (0, 2)])
        assert failing.mean_of_rest["whdr"] == pytest.approx(rest)
    else:
        assert failing.score < whole.score


@pytest.mark.parametrize(
    ("variant", "wanted"), [("kovacs2017", 0), ("cgintrinsics2018", 0.25), ("challenge2018", 0.25)]
)
def test_every_answer_of_a_failed_photograph_is_wrong(judged, variant, wanted) -> None:
    models = {"m": lambda image: (image, image * math.nan)}
    result = evaluate("saw", judged, models, variant=variant)["m"]
    assert result.failed == judged.ids
    assert set(result.details["recall"]) == set(result.details["precision"]) == {0}
    assert result.score == wanted


def test_failed_photograph_without_judgements_stays_undefined(judged) -> None:
    result = evaluate("whdr", judged, {"m": lambda image: (image * math.nan, image)})["m"]
    assert result.columns["whdr"][:3] == (1, 1, 1)
    assert math.isnan(result.columns["whdr"][3])


def drawn_frame(row):
    """A drawn scene with its judgements: patches of albedo under the edge of a shadow."""
    rng = np.random.default_rng(row)
    albedo = np.kron(rng.uniform(0.1, 0.9, (3, 2, 3)), np.ones((1, 20, 20)))
    shading = np.where(np.arange(60) < 30, 0.6, 0.9) * np.ones((3, 40, 1))
    labels = np.full((40, 60), 2)
    labels[:, 22:38] = 100
    labels[:20, 29:31], labels[20:, 29:31] = 0, 1
    points = rng.random((50, 2, 2))
    x, y = (points * (60, 40)).astype(int).transpose(2, 0, 1)
    one, two = albedo.mean(0)[y, x].T
    darker = np.select([two / one > 1.1, one / two > 1.1], [1, 2], 0)
    made = Comparisons(torch.from_numpy(points), torch.from_numpy(darker), torch.ones(50).double())
    image = torch.from_numpy(albedo * shading).float()
    return (
        JudgedImage(image, made, torch.from_numpy(labels)),
        torch.from_numpy(albedo),
        torch.from_numpy(shading),
    )


@pytest.fixture
def frames(memory_view):
    items = [drawn_frame(row)[0] for row in range(8)]
    return memory_view(items, groups=tuple("aabbccdd"), origin="synthetic")


@pytest.fixture
def truth(looked_up):
    images, albedo, shading = zip(*map(drawn_frame, range(8)), strict=True)
    return looked_up([frame.image for frame in images], [0.5 * one for one in albedo], shading)


def test_truth_is_perfect_and_better_than_the_constants(frames, truth) -> None:
    models = {"truth": truth, "flat": constant_shading, "white": constant_reflectance}
    rates = {name: result.score for name, result in evaluate("whdr", frames, models).items()}
    assert rates["truth"] == 0
    assert min(rates["flat"], rates["white"]) > 0.1
    for variant in ("kovacs2017", "cgintrinsics2018", "challenge2018"):
        results = evaluate("saw", frames, models, variant=variant)
        assert results["truth"].score == pytest.approx(1, abs=1e-3)
        assert results["flat"].score == pytest.approx(0.5, abs=1e-3)
        assert results["white"].score < results["truth"].score
        assert results["truth"].about.settings["judgements"] == "synthetic"


def test_interval_is_over_groups_and_models_are_paired(frames, truth) -> None:
    models = {"truth": truth, "white": constant_reflectance}
    few = evaluate("saw", frames, models, variant="cgintrinsics2018")["white"]
    assert few.groups == tuple("abcd")
    assert math.isnan(few.scores["saw_ap"].low)
    frames.groups = frames.ids
    results = evaluate("saw", frames, models, variant="cgintrinsics2018")
    interval = results["white"].scores["saw_ap"]
    assert interval.low < interval.value < interval.high
    assert len(results["white"].replicates["saw_ap"]) == 40
    assert compare(results["truth"], results["white"]).difference.low > 0


def test_replicates_are_scores_of_drawn_images(frames) -> None:
    frames.groups = frames.ids
    result = evaluate("saw", frames, {"white": constant_reflectance}, variant="kovacs2017")["white"]
    counts = torch.stack([count_smooth(i.image[None], i.labels[None], "kovacs2017")[0] for i in frames.items])
    for draw, value in zip(
        np.random.default_rng(0).integers(8, size=(40, 8)), result.replicates["saw_ap"], strict=True
    ):
        assert value == pytest.approx(float(saw_curve(counts[draw].sum(0), "kovacs2017").score))
