import itertools
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.causal import estimators
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.irs import irs, unconfoundedness
from candlelight.evaluation.causal.measure_codes import DEFAULT_METRICS, measure_codes
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.predictions import open_codes
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused

SIZES = (3, 4, 2)
CLASSES = torch.tensor(list(itertools.product(*(range(size) for size in SIZES))))
RESAMPLES = 10


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr("candlelight.evaluation.causal.measure_codes.MOST_RESAMPLES", RESAMPLES)


@pytest.fixture
def grid(memory_view):
    """All combinations of shape, angle (continuous) and light, encoded in pixels; the scene is constant."""
    image = (CLASSES * torch.tensor([0.4, 0.2, 0.8]))[:, :, None, None].expand(-1, -1, 2, 2)
    infos = (
        FactorInfo(name="shape", kind="categorical", values=("cube", "cone", "torus")),
        FactorInfo(name="angle", kind="continuous", low=0, high=1),
        FactorInfo(name="light", kind="categorical", values=("left", "right")),
        FactorInfo(name="scene", kind="categorical", values=("hall", "street")),
    )
    columns = (CLASSES[:, 0], CLASSES[:, 1] / 3, CLASSES[:, 2], torch.ones(len(CLASSES)))
    table = np.stack([np.asarray(column, np.float64) for column in columns], axis=1)

    def rows(count=24):
        return memory_view(list(image.float().contiguous())[:count], factors=infos, table=table[:count])

    return rows


def _pure(image):
    assert image.max() <= 1
    return image.mean((2, 3))


def score(encoder, view, factors=(), metrics=("irs", "unconfoundedness"), **options):
    options = {"controls": False, "batch_size": 64, **options}
    return evaluate("codes", view, {"encoder": encoder}, factors=factors, metrics=metrics, **options)[
        "encoder"
    ]


def test_pure_codes_score_one(grid):
    result = score(_pure, grid(), batch_size=5)
    assert result.score == pytest.approx(1)
    assert result.details["parents"] == [0, 1, 2]
    assert result.scores["unconfoundedness(1)"].value == 1
    assert result.about.settings["factors"] == ["shape", "angle", "light"]
    assert result.about.data["rows"] == 24
    notes = result.details["notes"]
    assert notes[0] == "images with each value: shape 8, angle 6, light 12"
    assert notes[1].startswith("irs, unconfoundedness: fewer than 20 images of some value: shape 8, angle 6")
    buffer = torch.empty(24, 3)

    def refilling(image):  # an encoder may reuse one output buffer
        buffer[: len(image)] = _pure(image)
        return buffer[: len(image)]

    assert score(refilling, grid(), batch_size=5).scores == result.scores


def test_finished_steps_are_reused_with_other_metrics(grid, tmp_path):
    folder = tmp_path / "steps"
    first = score(_pure, grid(), metrics=["irs"], steps=FinishedSteps(folder))
    again = FinishedSteps(folder)
    second = score(_pure, grid(), metrics=["irs", "mig"], steps=again)
    assert (again.reused, again.computed) == (1, 1)  # irs; mig
    assert second.scores["irs"] == first.scores["irs"]


@pytest.mark.slow
def test_all_metrics_of_pure_codes_and_of_controls(grid, monkeypatch):
    monkeypatch.setattr(estimators, "_STAGES", 12)
    results = evaluate("codes", grid(), {"encoder": _pure}, splits=2)
    # The images have fewer than 32 pixels a side, so that no network can be trained.
    assert list(results) == ["encoder", "random codes", "factors as codes"]
    own, random, truth = results.values()
    families = {name.partition("(")[0].partition(",")[0] for name in own.scores}
    assert families == set(DEFAULT_METRICS) - {"infomec"} | {"infom", "infoc", "infoe", "sufficiency"}
    # By definition, or by noise with 24 images, below 1 for pure codes, or as high for random ones.
    blind = ("unconfoundedness(2)", "sap", "explicitness", "infoc", "infom", "dci_es(explicitness)")
    for name, score in own.scores.items():
        if name not in blind and "candle2021" not in name:
            assert score.value == pytest.approx(1, abs=0.15), name
            assert not random.scores[name].value > score.value + 1e-9, name
    assert own.scores["mig"] == truth.scores["mig"]
    assert own.details["matrices"].keys() == {"information", "dci_fast"}
    assert any(note.startswith("supervised codes are left out: ") for note in own.details["notes"])
    assert results["random codes"].about.model == {"name": "random codes", "source": "control"}


def test_note_tells_how_many_images_have_each_value(grid):
    details = score(_pure, grid(23)).details
    assert details["class_sizes"] == [[7, 8, 8], [5, 6, 6, 6], [11, 12]]
    assert details["notes"][0] == "images with each value: shape 7 to 8, angle 5 to 6, light 11 to 12"


def test_scores_and_replicates_of_mixed_codes_equal_the_metrics_themselves(grid):
    mix = torch.rand(3, 6, generator=torch.Generator().manual_seed(1))
    view = grid()
    result = score(lambda image: _pure(image) @ mix, view)
    codes = torch.stack([item[:, 0, 0] for item in view.items]) @ mix
    robust = irs(codes.double(), CLASSES)
    np.testing.assert_allclose(result.details["matrix"], robust.matrix, rtol=1e-4, atol=1e-4)
    for rho in (1, 2):
        assert result.scores[f"unconfoundedness({rho})"].value == float(unconfoundedness(robust, rho))
        candle = float(unconfoundedness(robust, rho, "candle2021"))
        assert result.scores[f"unconfoundedness({rho}), candle2021"].value == candle

    def expected(metric, repeats):
        def slow(rows):
            return {"": float(metric(irs(codes[rows], CLASSES[rows])))}

        return resampled_interval(slow, view.groups, seed=0, resamples=RESAMPLES, repeats=repeats)[1][""]

    np.testing.assert_allclose(
        result.replicates["irs"], expected(lambda found: found.score, False), atol=1e-5
    )
    disjoint = expected(lambda found: unconfoundedness(found, 2), True)
    np.testing.assert_allclose(result.replicates["unconfoundedness(2)"], disjoint)
    assert 0 <= min(disjoint) < max(disjoint) <= 1


def test_interval_of_irs_is_cut_at_one_but_its_replicates_are_not(grid, monkeypatch):
    monkeypatch.setattr("candlelight.evaluation.causal.measure_codes.MOST_RESAMPLES", 40)

    def one_row_off(image):
        return _pure(image) + 0.1 * (torch.arange(len(image)) == 5)[:, None]

    result = score(one_row_off, grid())
    assert max(result.replicates["irs"]) > 1
    assert result.scores["irs"].value < result.scores["irs"].high == 1


def test_negative_irs_lies_within_its_interval():
    classes = (torch.arange(200) % 2)[:, None].expand(-1, 2)
    codes = classes[:, :1].double()
    codes[:20] = 1 - codes[:20]  # a tenth of each class is wrong, with a deviation of 0.9 from its class
    table = FactorTable(("shape", "color"), classes.double(), classes, (0, 1), (), ())
    found = measure_codes(codes, table, [str(row) for row in range(200)], "irs").scores["irs"]
    assert found.value == pytest.approx(1 - 0.9 / 0.5)
    assert found.low < found.value < found.high


def test_equal_unconfoundedness_is_no_difference(grid):
    """Both encoders and most replicates have the same score; a few replicates may differ."""
    draws = torch.Generator().manual_seed(4)

    def noisy(image):
        return _pure(image) + 0.15 * torch.randn(len(image), 3, generator=draws)

    models = {"first": noisy, "second": noisy}
    found = evaluate("codes", grid(), models, metrics=["unconfoundedness"], controls=False, batch_size=64)
    pair = [result.replicates["unconfoundedness(1)"] for result in found.values()]
    assert [result.scores["unconfoundedness(1)"].value for result in found.values()] == [1, 1]
    assert min(map(min, pair)) < 1
    assert compare(*found.values(), "unconfoundedness(1)").p_value > 0.5


def test_seeds_of_one_method_are_pooled_and_their_interval_is_cut_at_the_bounds_of_the_score(grid):
    encoders = {"vae#0": lambda image: torch.ones(len(image), 3), "vae#1": _pure}
    found = evaluate("codes", grid(), encoders, metrics=["irs"], controls=False)
    assert list(found) == ["vae#0", "vae#1", "vae, 2 seeds"]
    pooled = found["vae, 2 seeds"]
    assert pooled.replicates["irs"] == tuple(found[name].score for name in encoders)
    irs_score = pooled.scores["irs"]
    assert (irs_score.value, irs_score.low, irs_score.high) == (pytest.approx(0.5), -1, 1)


def test_an_encoder_may_not_have_the_name_of_a_control(grid):
    with refused("a control is named `random codes`; give the encoder another name"):
        evaluate("codes", grid(), {"random codes": _pure}, metrics=["irs"])


def test_a_factor_with_another_value_in_each_image_is_named(memory_view):
    infos = (
        FactorInfo(name="number", kind="categorical", values=tuple(range(12))),
        FactorInfo(name="angle", kind="continuous", low=0, high=1),
        FactorInfo(name="light", kind="categorical", values=("left", "right")),
    )
    table = np.stack([np.arange(12), np.arange(12) / 11, np.arange(12) % 2], axis=1)
    view = memory_view([torch.rand(3, 2, 2) for _ in table], factors=infos, table=table)
    with refused(r"`number` has another .* 12 images, .* robust; leave it out"):
        score(_pure, view)
    with refused(r"`angle` .*robust; give fewer `bins` than 20, or leave it out"):
        score(_pure, view, ["angle", "light"])


def test_factors_are_chosen_by_name_in_their_order(grid):
    result = score(_pure, grid(), ["light", "shape"])
    assert result.about.settings["factors"] == ["light", "shape"]
    assert result.details["parents"][0] == 1


def test_bins_of_a_continuous_factor(grid):
    # In two bins, angles 0 and 1/3 are one class: the angle's code then moves within it.
    result = score(_pure, grid(), bins=2)
    assert result.details["matrix"][1][1] == pytest.approx(1 - (1 / 6) / 0.5, abs=0.01)


def test_network_is_evaluated_without_gradients(grid):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(12, 4))
    one, other = (score(model, grid()).to_json() for _ in range(2))
    assert one == other
    assert model.training


def test_encoder_with_linear_colour_space_receives_linear_images(grid):
    class Linear:
        colour_space = "linear"

        def __call__(self, image):
            self.brightest = float(image.max())
            return image.mean((2, 3))

    encoder = Linear()
    score(encoder, grid())
    assert encoder.brightest == pytest.approx(((0.8 + 0.055) / 1.055) ** 2.4, abs=1e-5)


def test_codes_from_a_file_score_like_their_encoder(grid, tmp_path):
    view = grid()
    codes = torch.stack([_pure(item[None])[0] for item in view.items]).numpy()
    np.savez(tmp_path / "codes.npz", ids=np.array(view.ids)[::-1], codes=codes[::-1])
    one, other = (score(source, view) for source in (_pure, open_codes(tmp_path / "codes.npz")))
    assert one.about.data == other.about.data
    np.testing.assert_allclose(one.details["matrix"], other.details["matrix"], atol=1e-6)
    assert one.score == pytest.approx(other.score, abs=1e-6)


def test_collapsed_encoder_and_strict_json(grid):
    result = score(lambda image: torch.ones(len(image), 3), grid())
    assert result.score == 0
    assert math.isnan(result.scores["unconfoundedness(1)"].value)
    assert json.loads(result.to_json())["scores"]["unconfoundedness(2)"]["value"] is None


def test_codes_and_factors_need_no_images(grid, tmp_path):
    view = grid()
    codes = torch.stack([_pure(item[None])[0] for item in view.items]).numpy()
    columns = {
        "shape": CLASSES[:, 0].numpy(),
        "angle": view.table[:, 1],
        "light": view.table[:, 2].astype(int),
    }
    options = {"metrics": ["irs", "mig"], "device": "cpu"}
    found = evaluate("codes", columns, {"mine": codes}, **options)
    assert list(found) == ["mine", "random codes", "factors as codes"]
    with_images = score(_pure, view, metrics=["irs", "mig"])
    assert found["mine"].score == pytest.approx(with_images.score, abs=1e-6)
    assert found["mine"].scores["mig"].value == pytest.approx(with_images.scores["mig"].value, abs=1e-6)
    assert "supervised codes are left out: `columns` is a table" in " ".join(found["mine"].details["notes"])
    with refused("`columns` is a table of factors without images, for codes alone"):
        evaluate("codes", columns, {"encoder": _pure}, **options)


@pytest.mark.parametrize(
    ("count", "encoder", "options", "message"),
    [
        (0, _pure, {}, "at least two factors must vary"),
        (24, _pure, {"metrics": ["mcg"]}, "`metrics`: expected one of irs, .*, got mcg; did you mean `mig`"),
        (24, _pure, {"factors": ["shap"]}, "expected factors of the data .*`shap`; did you mean `shape`"),
        (24, _pure, {"factors": ["shape", "shape"]}, "`shape` is given twice"),
        (24, _pure, {"factors": ["shape", "scene"]}, "`scene` has one value among the images"),
        (2, _pure, {}, r"at least two factors must vary among the images, got \['light'\]"),
        (24, _pure, {"bins": 1}, "`bins`: expected at least 2, got 1"),
        (24, lambda image: _pure(image)[:, : len(image) - 3], {"batch_size": 5}, "1 and 2 codes"),
        (24, lambda image: image, {}, "pool the maps"),
        (24, lambda image: _pure(image) * math.nan, {}, "finite"),
    ],
)
def test_invalid_arguments_are_refused(grid, count, encoder, options, message):
    with refused(message):
        score(encoder, grid(count), **options)
