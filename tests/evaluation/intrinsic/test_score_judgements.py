"""Scores of judgements on files in the layouts of IIW and SAW, on frames, and on views in memory."""

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic.judgements import count_smooth, saw_curve, whdr
from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.models.retinex import constant_reflectance, constant_shading
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.predictions import open_predictions
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import Comparisons, JudgedImage, open_data
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.saw import LABEL_FOLDER

SIZES = [(24, 36), (36, 24), (24, 36), (24, 36)]
SCORERS = {"whdr": "whdr", "saw_ap": "saw"}


def pixels(row):
    return np.random.default_rng(row).integers(1, 256, (*SIZES[row], 3), np.uint8)


@pytest.fixture
def iiw(tmp_path):
    """Four photographs of two sizes; the last has no valid comparison."""
    folder = tmp_path / "iiw" / "data"
    folder.mkdir(parents=True)
    for row in range(4):
        rng = np.random.default_rng([row, 1])
        points = [
            {"id": n, "x": x, "y": y, "opaque": True} for n, (x, y) in enumerate(rng.random((12, 2)).tolist())
        ]
        judged = [
            {"point1": a, "point2": b, "darker": str(answer), "darker_score": None if row == 3 else weight}
            for (a, b), answer, weight in zip(
                rng.integers(0, 12, (30, 2)).tolist(),
                rng.choice(["1", "2", "E"], 30),
                rng.random(30).tolist(),
                strict=True,
            )
        ]
        Image.fromarray(pixels(row)).save(folder / f"{row}.png")
        content = {"intrinsic_points": points, "intrinsic_comparisons": judged}
        (folder / f"{row}.json").write_text(json.dumps(content))
    return f"iiw:{tmp_path / 'iiw'}"


@pytest.fixture
def saw(tmp_path):
    """Four photographs of two sizes; the last has no label."""
    root = tmp_path / "saw"
    labels = root / "saw_pixel_labels" / LABEL_FOLDER
    for folder in (root / "saw_splits", root / "saw_images_512", labels):
        folder.mkdir(parents=True)
    for row, (height, width) in enumerate(SIZES):
        drawn = np.random.default_rng([row, 2]).choice([0, 1, 2, 2, 100], (height // 4, width // 4))
        np.save(
            labels / f"{row}.npy", np.kron(drawn, np.ones((4, 4), int)) if row < 3 else np.full((24, 36), 100)
        )
        Image.fromarray(pixels(row)).save(root / "saw_images_512" / f"{row}.png")
    np.save(root / "saw_splits" / "test_ids.npy", np.arange(4))
    return f"saw:{root}"


@pytest.fixture
def judged(iiw, saw):
    """The two views by the name of their score."""
    return {
        "whdr": open_data("judgements", iiw, split="all"),
        "saw_ap": open_data("judgements", saw, split="test"),
    }


def score(metric, models, view, **options):
    if metric == "saw_ap":
        options.setdefault("variant", "cgintrinsics2018")
    return evaluate(SCORERS[metric], view, models, **options)


def test_whdr_is_the_mean_over_photographs(judged):
    view = judged["whdr"]
    result = evaluate("whdr", view, {"flat": constant_shading}, batch_size=2)["flat"]
    wanted = [float(whdr(view[row].image[None].double(), [view[row].comparisons])) for row in range(4)]
    assert result.columns["whdr"] == pytest.approx(wanted, nan_ok=True)
    assert 0 < result.score < 1
    assert result.score == pytest.approx(np.mean(wanted[:3]))
    assert (result.undefined, result.failed, result.about.better) == (1, (), "lower")
    assert result.about.settings == {
        "threshold": 0.1,
        "power": 1.0,
        "missing": "error",
        "judgements": "human",
    }


@pytest.mark.parametrize("variant", ["kovacs2017", "cgintrinsics2018", "challenge2018"])
def test_saw_is_one_curve_of_all_photographs(judged, variant):
    view = judged["saw_ap"]
    result = evaluate("saw", view, {"whole": constant_reflectance}, variant=variant, batch_size=2)["whole"]
    items = [view[row] for row in range(4)]
    counts = [count_smooth(i.image[None], i.labels[None], variant, i.image[None])[0] for i in items]
    curve = saw_curve(sum(counts), variant)
    assert result.score == pytest.approx(float(curve.score))
    assert result.details["recall"] == pytest.approx(curve.recall.tolist())
    assert result.details["precision"] == pytest.approx(curve.precision.tolist())
    if variant != "challenge2018":
        sizes = [sum(int((item.labels == label).sum()) for item in items) for label in range(3)]
        assert result.details["weights"] == sizes
    assert (result.groups, result.failed, result.about.better) == (("0", "1", "2", "3"), (), "higher")
    settings = {"variant": variant, "power": 1.0}
    assert result.about.settings == settings | {"missing": "error", "judgements": "human"}


def test_threshold_reaches_the_comparisons(judged):
    models = {"flat": constant_shading}
    one, other = (evaluate("whdr", judged["whdr"], models, threshold=t)["flat"] for t in (0.1, 3.0))
    assert one.columns != other.columns
    assert other.about.settings["threshold"] == 3.0


@pytest.mark.parametrize("metric", SCORERS)
def test_power_is_that_of_a_model_which_raises_its_values(judged, metric):
    def curved(image):
        return [part.clamp(min=0) ** 0.4545 for part in (image - 0.1, image - 0.1)]

    def linear(image):
        return image - 0.1, image - 0.1

    wanted = score(metric, {"m": curved}, judged[metric])["m"]
    found = score(metric, {"m": linear}, judged[metric], power=0.4545)["m"]
    assert found.score == pytest.approx(wanted.score, rel=1e-6)
    assert found.score != score(metric, {"m": linear}, judged[metric])["m"].score
    assert found.about.settings == wanted.about.settings | {"power": 0.4545}
    with pytest.raises(InputError, match="`power`: expected above 0, got 0"):
        score(metric, {"m": linear}, judged[metric], power=0.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("metric", SCORERS)
def test_failed_prediction_never_improves_the_score(judged, metric, bad):
    def failing(image):
        parts = [image.clone(), torch.rand_like(image)]
        if image.shape[2] == 36:  # the second photograph
            parts[metric == "saw_ap"][0, 0, 0, 0] = bad
        return parts

    def noisy(image):
        return image, torch.rand_like(image)

    torch.manual_seed(0)
    whole = score(metric, {"m": noisy}, judged[metric])["m"]
    torch.manual_seed(0)
    result = score(metric, {"m": failing}, judged[metric])["m"]
    assert result.failed == ("1",)
    if metric == "whdr":
        assert result.columns["whdr"][1] == 1
        assert result.score > whole.score
        assert result.mean_of_rest["whdr"] == pytest.approx(
            np.mean([whole.columns["whdr"][row] for row in (0, 2)])
        )
    else:
        assert result.score < whole.score


@pytest.mark.parametrize(
    ("variant", "wanted"), [("kovacs2017", 0), ("cgintrinsics2018", 0.25), ("challenge2018", 0.25)]
)
def test_every_answer_of_a_failed_photograph_is_wrong(judged, variant, wanted):
    view = judged["saw_ap"]
    result = evaluate("saw", view, {"m": lambda image: (image, image * math.nan)}, variant=variant)["m"]
    assert result.failed == view.ids
    assert set(result.details["recall"]) == set(result.details["precision"]) == {0}
    assert result.score == wanted


def test_failed_photograph_without_judgements_stays_undefined(judged):
    result = evaluate("whdr", judged["whdr"], {"m": lambda image: (image * math.nan, image)})["m"]
    assert result.columns["whdr"][:3] == (1, 1, 1)
    assert math.isnan(result.columns["whdr"][3])


@pytest.mark.parametrize("metric", SCORERS)
def test_predictions_score_like_their_model(judged, metric, tmp_path):
    view = judged[metric]

    def save(row):
        reflectance, shading = constant_reflectance(view[row].image[None])
        np.savez(tmp_path / f"{view.ids[row]}.npz", reflectance=reflectance[0], shading=shading[0])

    for row in range(1, 4):
        save(row)
    files = open_predictions(tmp_path)
    with pytest.raises(InputError, match="1 is missing: `0`"):
        score(metric, {"m": files}, view)
    assert score(metric, {"m": files}, view, missing="fail")["m"].failed == ("0",)
    save(0)
    found = score(metric, {"m": open_predictions(tmp_path)}, view)["m"]
    assert found.score == score(metric, {"m": constant_reflectance}, view)["m"].score


@pytest.mark.parametrize("metric", SCORERS)
def test_interrupted_run_resumes_with_the_same_result(judged, metric, tmp_path):
    models = {"m": open_model("constant-reflectance")}
    plain = score(metric, models, judged[metric], batch_size=1)["m"]
    for reused in (0, 4):
        steps = FinishedSteps(tmp_path / "steps")
        found = score(metric, models, judged[metric], batch_size=1, steps=steps)["m"]
        assert found.to_json() == plain.to_json()
        assert steps.reused == reused
    changed = {"threshold": 0.2} if metric == "whdr" else {"variant": "kovacs2017"}
    steps = FinishedSteps(tmp_path / "steps")
    score(metric, models, judged[metric], batch_size=1, steps=steps, **changed)
    assert steps.reused == 0


def test_data_without_the_judgements_are_refused(judged):
    models = {"m": constant_shading}
    with pytest.raises(InputError, match=r"^the data have no comparisons; expected iiw:PATH or frames$"):
        evaluate("whdr", judged["saw_ap"], models)
    with pytest.raises(InputError, match=r"^the data have no labels; expected saw:PATH or frames$"):
        evaluate("saw", judged["whdr"], models, variant="kovacs2017")
    with pytest.raises(
        InputError, match=r"^`variant`: expected one of kovacs2017, .*did you mean `kovacs2017`"
    ):
        evaluate("saw", judged["saw_ap"], models, variant="kovacs")


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
    frames = [drawn_frame(row) for row in range(8)]
    view = memory_view([frame for frame, *_ in frames], groups=tuple("aabbccdd"), origin="synthetic")
    view.truth = frames
    return view


class Oracle:
    """A model that returns the truth, which it looks up by the image."""

    def __init__(self, view) -> None:
        self.frames = view.truth

    def __call__(self, image):
        found = [next(f for f in self.frames if f[0].image.equal(one)) for one in image]
        return torch.stack([0.5 * f[1] for f in found]), torch.stack([f[2] for f in found])


def test_truth_is_perfect_and_better_than_the_constants(frames):
    models = {"truth": Oracle(frames), "flat": constant_shading, "white": constant_reflectance}
    rates = {name: result.score for name, result in evaluate("whdr", frames, models).items()}
    assert rates["truth"] == 0
    assert rates["flat"] > 0.1
    assert rates["white"] > 0.1
    for variant in ("kovacs2017", "cgintrinsics2018", "challenge2018"):
        results = evaluate("saw", frames, models, variant=variant)
        precisions = {name: result.score for name, result in results.items()}
        assert precisions["truth"] == pytest.approx(1, abs=1e-3)
        assert precisions["flat"] == pytest.approx(0.5, abs=1e-3)
        assert precisions["white"] < precisions["truth"]
        assert results["truth"].about.settings["judgements"] == "synthetic"


def test_interval_is_over_groups_and_models_are_paired(frames):
    models = {"truth": Oracle(frames), "white": constant_reflectance}
    few = evaluate("saw", frames, models, variant="cgintrinsics2018")["white"]
    assert few.groups == tuple("abcd")
    assert math.isnan(few.scores["saw_ap"].low)
    frames.groups = frames.ids
    results = evaluate("saw", frames, models, variant="cgintrinsics2018")
    interval = results["white"].scores["saw_ap"]
    assert interval.low < interval.value < interval.high
    assert len(results["white"].replicates["saw_ap"]) == 40
    assert compare(results["truth"], results["white"]).difference.low > 0


def test_replicates_are_scores_of_drawn_images(frames):
    frames.groups = frames.ids
    result = evaluate("saw", frames, {"white": constant_reflectance}, variant="kovacs2017")["white"]
    counts = torch.stack([count_smooth(i.image[None], i.labels[None], "kovacs2017")[0] for i in frames.items])
    for draw, value in zip(
        np.random.default_rng(0).integers(8, size=(40, 8)), result.replicates["saw_ap"], strict=True
    ):
        assert value == pytest.approx(float(saw_curve(counts[draw].sum(0), "kovacs2017").score))
