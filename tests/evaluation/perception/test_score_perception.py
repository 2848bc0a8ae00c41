"""Scores over scenes: alignment of scenes, draws, metrics without ratings, and answers of people."""

import math

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.perception import (
    DetectionLevels,
    MeasuredThresholds,
    PerceptionData,
    Transduction,
    TransformDistances,
    TransformFamily,
    detection_levels,
    fit_rated_pairs,
    measure_distances,
    open_distance,
    psychometric,
    published_transduction,
)
from candlelight.evaluation.perception.curve_scores import (
    CurveScores,
    level_without_ratings,
    people_order,
    transform_sensitivity,
)
from candlelight.evaluation.perception.measure_distances import SceneCurve, align_curves
from candlelight.evaluation.perception.perception_report import (
    order_table,
    perception_lines,
    perception_section,
    psychometric_plot,
    threshold_rows,
)
from candlelight.evaluation.run import intervals as resampled_intervals
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.views import RatedPair
from tests.refusals import refused

LINEAR = Transduction(1.0, 1.0)


def table(transform, distances, groups, magnitudes=(0, 1, 2), unit="degrees"):
    values = torch.tensor(distances, dtype=torch.float64)
    steps = torch.tensor(magnitudes, dtype=torch.float64)
    names = tuple(f"{transform}/{group}" for group in groups)
    numbers = values, 0 * values, torch.ones(len(values), dtype=torch.float64)
    return TransformDistances(transform, unit, steps, names, tuple(groups), *numbers)


def curve(name, distances, magnitudes, energies=None):
    values = torch.tensor(distances, dtype=torch.float64)
    steps = torch.tensor(magnitudes, dtype=torch.float64)
    moved = values.square() if energies is None else torch.tensor(energies, dtype=torch.float64)
    return SceneCurve(name, "degrees", steps, values, moved, 0 * values)


def scored(view, families, named, known, moves="image plane", detection=None, human=None, **options):
    people = MeasuredThresholds(detection or DetectionLevels(), human or {}, ("by hand",))
    data = PerceptionData(view, {moves: families}, people, transductions=known)
    return evaluate("transforms", data, named, device="cpu", **options)


@pytest.fixture
def scenes(memory_view):
    draws = torch.Generator().manual_seed(0)
    return memory_view([torch.rand(3, 12, 12, generator=draws) * (0.2 + 0.1 * row) for row in range(8)])


# ------------------------------------------------------------------------------------------------- alignment


def test_scenes_are_matched_by_group_and_undefined_ones_left_out_for_all() -> None:
    nan = math.nan
    x = table("translation x", [[0, 1, 2], [0, 3, 4], [0, 5, 6]], "abc")
    y = table("translation y", [[0, 7, 8], [0, 1, 0], [0, 2, 2]], "cab")  # in another order
    turned = table("rotation", [[0, 1, 1], [0, nan, 1], [0, 2, 2]], "abd")
    flat = [table(one.transform, np.ones((3, 3)), one.groups) for one in (x, y, turned)]
    found = align_curves({"physical": {"mine": [x, y, turned], "rmse": flat}}, "rmse")
    assert found.groups == ("a",)
    assert found.notes[0] == "scenes left out because a transform lacks them: 2"  # c and d
    assert found.notes[1:] == ["scenes left out because mine is undefined on them: 1, b"]
    mine = found.curves["physical"]["mine"]
    assert list(mine) == ["translation", "rotation"]
    assert mine["translation"].distances.tolist() == [[0, 1, 1]]
    assert mine["translation"].directions == ("translation x", "translation y")
    assert mine["translation"].energies.tolist() == [[1, 1, 1]]


def test_rows_of_one_group_keep_their_places_and_scales_below_one_are_left_out() -> None:
    scale = table("scale", [[5, 0, 2], [6, 0, 3]], "aa", (0.5, 1, 1.5), "factor")
    turned = table("rotation", [[0, 1, 2], [0, 3, 4]], "aa")
    found = align_curves({"physical": {"rmse": [scale, turned]}}, "rmse")
    assert found.groups == ("a", "a")
    curves = found.curves["physical"]["rmse"]
    assert curves["scale"].magnitudes.tolist() == [1, 1.5]
    assert curves["scale"].distances.tolist() == [[0, 2], [0, 3]]
    assert curves["rotation"].distances.tolist() == [[0, 1, 2], [0, 3, 4]]


ONE = table("rotation", [[0, 1, 2]], "a")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"mine": [table("rotation", [[0, math.nan, 1]], "a")]}, "got none; undefined on all scenes: mine$"),
        ({"mine": [table("rotation", [[0, -0.5, 1]], "a")]}, "`distances of mine` must be .*, got -0.5"),
        ({"rmse": [ONE, table("scale", [[0, 1, 2]], "b")]}, "a scene on which every metric is defined"),
        (
            {
                "rmse": [
                    table(f"translation {axis}", [[0, 1]], "a", (0, end))
                    for axis, end in (("x", 1), ("y", 2))
                ]
            },
            "translation: expected the magnitudes of `translation x`",
        ),
    ],
)
def test_tables_that_cannot_be_aligned(tables, message) -> None:
    with refused(message):
        align_curves({"physical": {"rmse": [ONE], **tables}}, "rmse")


# ---------------------------------------------------------------------------------------------------- scores


def test_both_ends_of_a_colour_axis_are_averaged() -> None:
    ends = [("illuminant 510", [[0, 5, 9]]), ("illuminant -510", [[0, 1, 9]])]
    tables = [table(name, distances, "a", unit="steps") for name, distances in ends]
    found = align_curves({"physical": {"rmse": tables}}, "rmse").curves["physical"]["rmse"]
    assert "YB" not in found
    assert found["RG"].distances.tolist() == [[0, 3, 9]]
    assert found["RG"].energies.tolist() == [[0, 13, 81]]


def test_order_of_a_metric_without_ratings() -> None:
    curves = {
        "rotation": curve("rotation", [[0, 0.4]], [0, 7.2], [[0, 0.2]]),  # 0.2 at the threshold of people
        "scale": curve("scale", [[0, 1.0]], [1, 1.052], [[0, 0.1]]),  # 0.5
        "translation": curve("translation", [[0, 0.1]], [0, 0.1], [[0, 0.1]]),  # ends before it
        "RG": curve("RG", [[0, 0]], [0, 8], [[0, 0.1]]),  # never moves
    }
    human = {"rotation": 3.6, "scale": 1.026, "translation": 0.23, "RG": 1.383}
    level = level_without_ratings(curves, human)
    assert level == pytest.approx((0.2 + 0.5) / 2)
    order = CurveScores(curves, LINEAR, level).order
    assert order.order == ("scale", "rotation", "RG")  # energies of 0.012, 0.153 and infinity
    assert order.unknown == ("translation",)
    sensitivities, people = people_order(curves, human)
    assert math.isnan(sensitivities["translation"])
    assert people.order == ("RG", "scale", "rotation")  # energies of 0.003, 0.025 and 0.05
    assert level_without_ratings({"RG": curves["RG"]}, human) == math.inf
    assert level_without_ratings({"translation": curves["translation"]}, human) == pytest.approx(0.05)
    aside = {"parallax x": curve("parallax x", [[0, 0.1]], [0, 1])}  # has no place in the order
    assert level_without_ratings(aside, human) == math.inf
    assert CurveScores(aside, LINEAR, math.inf).sensitivities == {}


def test_rmse_has_one_sensitivity_on_any_grid_of_magnitudes_and_no_order() -> None:
    rmse = published_transduction("RMSE")
    steps = {"translation": [0, 0.3, 1], "rotation": [0, 5], "scale": [1, 1.1, 1.2, 2], "RG": [0, 1, 8]}
    rises = {"translation": [0, 0.01, 0.3], "rotation": [0, 0.5], "scale": [0, 0.019, 0.02, 0.1]}
    curves = {name: curve(name, [rises.get(name, [0, 0.1, 0.4])], some) for name, some in steps.items()}
    found = CurveScores(curves, rmse, 0.445, is_rmse=True)
    wanted = 1 / rmse.invert(0.445) ** 2
    assert found.sensitivities == pytest.approx(dict.fromkeys(curves, wanted))
    assert math.isnan(found.order.score)
    assert (found.order.order, found.order.is_human) == ((), False)


@pytest.mark.parametrize(("transform", "magnitude"), [("translation x", 2), ("rotation", 5), ("scale", 1.1)])
def test_a_canvas_does_not_change_the_energy_of_a_move(memory_view, transform, magnitude) -> None:
    digit = torch.zeros(3, 28, 28)
    digit[:, 8:20, 8:20] = torch.rand(3, 12, 12, generator=torch.Generator().manual_seed(0))
    found = []
    for side in (None, 56):
        identity = 1 if transform == "scale" else 0
        family = TransformFamily(transform, (identity, magnitude), pixels_per_degree=1, canvas=side)
        tables = measure_distances({"rmse": open_distance("rmse")}, memory_view([digit]), [family])
        [curve] = align_curves({"image plane": tables}, "rmse").curves["image plane"]["rmse"].values()
        found.append(transform_sensitivity(curve.energies, curve.magnitudes, magnitude))
    moved = family.transform(family.prepare(digit[None]), magnitude).images - family.prepare(digit[None])
    assert found == pytest.approx([digit.numel() / float(moved.square().sum())] * 2, rel=1e-4)


def test_a_metric_that_never_moves_has_a_sensitivity_of_0_and_one_that_is_not_reached_none() -> None:
    curves = {"rotation": curve("rotation", [[0, 0]], [0, 9]), "scale": curve("scale", [[0, 0.1]], [1, 2])}
    found = CurveScores(curves, LINEAR, 0.5).sensitivities
    assert found["rotation"] == 0
    assert math.isnan(found["scale"])


def test_intervals_are_of_resampled_scenes_which_all_metrics_share(scenes) -> None:
    family = TransformFamily("rotation", (0, 2, 4, 8, 12), kernel="linear")
    named = {"rmse": open_distance("rmse"), "twice": open_distance("twice=rmse")}
    known = {"rmse": LINEAR, "twice": Transduction(2.0, 1.0)}
    levels = DetectionLevels((0.09, 0.1, 0.11), "made by hand")
    found = scored(scenes, (family,), named, known, detection=levels, seed=3)
    score = found["rmse"].scores["rotation"]
    [measured] = measure_distances(named, scenes, [family])["rmse"]
    draws = resampled_intervals.resampled_groups(8, 3, 40)
    means = [measured.distances[rows].mean(0) for rows in (np.arange(8), *draws)]
    value, *replicates = [float(np.interp(0.1, mean, family.magnitudes)) for mean in means]
    wanted = resampled_intervals.replicate_interval(value, replicates, 8)
    assert (score.value, score.low, score.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
    assert score.low < score.value < score.high
    [line] = [line for line in perception_lines([found["rmse"]])[0].splitlines() if "rotation" in line]
    assert f"{score.low:.2f} to {score.high:.2f}" in line
    # A metric of twice the distance has the smaller threshold in every draw.
    assert compare(found["rmse"], found["twice"], "rotation").difference.low > 0
    assert {"made by hand", "by hand"} <= set(found["rmse"].details["notes"])


def test_thresholds_of_people_replace_the_published_ones(scenes) -> None:
    named, known = {"rmse": open_distance("rmse")}, {"rmse": LINEAR}
    families = (TransformFamily("rotation", (0, 2, 4, 8, 12)), TransformFamily("scale", (1, 1.2)))
    levels = DetectionLevels((0.09, 0.1, 0.11))
    [before] = scored(scenes, families, named, known, detection=levels).values()
    threshold = before.scores["rotation"].value
    assert before.details["human"]["rotation"] == 3.6
    assert "thresholds of people: published" in before.details["notes"]
    for human, verdict in ((threshold, "human-like"), (threshold / 2, "less sensitive")):
        given = {"rotation": human}
        [found] = scored(scenes, families, named, known, detection=levels, human=given).values()
        thresholds = found.details["moves"]["image plane"]["thresholds"]
        assert (thresholds["rotation"]["human"], thresholds["rotation"]["verdict"]) == (human, verdict)
        assert thresholds["scale"]["human"] == 1.026
        assert found.about.settings["measured_human"] == given
        assert "thresholds of people: measured for rotation; published for scale" in found.details["notes"]
        # An energy at a smaller threshold is a larger sensitivity of people.
        people = found.details["people"]["image plane"]["sensitivities"]["rotation"]
        curve = found.details["moves"]["image plane"]["curves"][0]
        rmse = np.interp(human, curve["magnitudes"], curve["rmse"])
        assert people == pytest.approx(1 / rmse**2)
        assert [row[5] for row in threshold_rows([found])] == [f"{human:.4g}, measured", "1.026"]
    with refused("`human` must be one of: translation, rotation, scale"):
        scored(scenes, families, named, known, human={"rotate": 3.0})


def test_a_threshold_beyond_the_range_in_some_resamples(memory_view) -> None:
    images = [torch.full((3, 4, 4), 0.5) for _ in range(7)]
    ramp = torch.linspace(0, 1, 4).expand(3, 4, 4)
    view = memory_view([*images, ramp, ramp])
    family = TransformFamily("rotation", (0, 10))
    levels = DetectionLevels((0.003, 0.004, 0.005), "")
    found = scored(view, (family,), ["rmse"], {"rmse": LINEAR}, detection=levels)
    score = found["rmse"].scores["rotation"]
    assert score.value < 10
    assert score.high == math.inf  # draws without a ramp never move


@pytest.mark.parametrize(("largest", "verdict"), [(4, "less sensitive"), (3, "not reached")])
def test_a_metric_that_is_below_d_t_at_the_threshold_of_people(scenes, largest, verdict) -> None:
    families = (TransformFamily("rotation", (0, 1, largest)),)
    weak = Transduction(0.1, 1.0)  # D is below 0.1 everywhere, and people see 3.6 degrees
    found = scored(scenes, families, ["rmse"], {"rmse": weak}, "physical")["rmse"]
    one = found.details["moves"]["physical"]["thresholds"]["rotation"]
    assert (one["state"], one["verdict"]) == ("not reached", verdict)
    [line] = [line for line in perception_lines([found])[0].splitlines() if "rotation" in line]
    assert line.split()[3:] == ["not", "reached", "3.6", *verdict.split()]


def test_an_incomplete_order_tells_its_pairs_and_has_no_tick(scenes) -> None:
    families = TransformFamily("rotation", (0, 3.6, 20)), TransformFamily("scale", (1, 1.026, 1.3))
    found = scored(scenes, families, ["ssim"], {})
    assert found["ssim"].scores["order"].value == 1
    assert perception_lines([found["ssim"]])[0].splitlines()[-1].split()[:5] == [
        "ssim",
        *"1 of 1 pairs".split(),
    ]
    assert order_table([found["ssim"]]).rows[-1] == ("ssim", "1 of 1 pairs", "scale > rotation")


# --------------------------------------------------------------------------------------- ratings and answers


def test_rated_pairs_are_fitted_without_undefined_ones(memory_view) -> None:
    gray = torch.full((3, 20, 20), 0.25)
    items = [RatedPair(gray, gray + step / 10, 10 - 5 * step, 0.1) for step in range(2)]
    items += [RatedPair(gray, gray + 0.2, 10 - 5 * 2**0.5, 0.1), RatedPair(0 * gray, gray, 0.0, 0.1)]
    lmse_undefined = memory_view(items)
    found = fit_rated_pairs({"rmse": open_distance("rmse")}, memory_view(items[:3]), batch_size=2)["rmse"]
    assert (found.scale, found.exponent) == pytest.approx((0.5 * 10**0.5, 0.5), rel=1e-3)
    assert (found.pairs, found.converged) == (3, True)
    # Gray copies of gray images have no LMSE but 0, and black originals have none.
    failed = fit_rated_pairs({"lmse": open_distance("lmse")}, lmse_undefined)["lmse"]
    assert (failed.converged, failed.pairs) == (False, 3)
    assert failed.note.startswith("no fit: `distances` must differ")


def test_answers_give_the_levels_of_detection_and_a_plot() -> None:
    draws = torch.Generator().manual_seed(0)
    shown = torch.linspace(0.1, 0.9, 20).repeat_interleave(75)
    correct = torch.rand(1500, generator=draws) < psychometric(shown, 0.445, 20.0)
    found = detection_levels(shown, correct)
    assert found.levels == pytest.approx((0.39, 0.445, 0.499), abs=0.03)
    assert (sum(found.fit["trials"]), len(found.fit["levels"])) == (1500, 20)
    assert sum(found.fit["correct"]) == int(correct.sum())
    plot = psychometric_plot(found.fit)
    assert "Figure 3 of the paper" in plot.caption
    assert "1500 answers" in plot.caption
    single = detection_levels(torch.rand(1500, generator=draws), correct)  # each answer at a level of its own
    assert len(single.fit["levels"]) > 1000
    assert "1500 answers" in psychometric_plot(single.fit).caption


def test_answers_that_tell_little_leave_the_published_level(scenes) -> None:
    shown = torch.linspace(0.05, 0.9, 18)
    right = (100 * psychometric(shown, 0.445, 2.0)).round()
    flat = torch.cat([torch.arange(100) < count for count in right])
    too_flat = detection_levels(shown.repeat_interleave(100), flat)
    assert not too_flat.fit["converged"]
    assert "answers failed (too flat: its lower quartile, -0.1" in too_flat.note
    found = detection_levels(shown[:9].repeat_interleave(4), torch.arange(36) % 2 == 0)
    assert found.note.startswith("the fit to 36 answers failed (")
    assert too_flat.levels == found.levels == DetectionLevels().levels
    family = TransformFamily("rotation", (0, 8))
    result = scored(scenes, (family,), ["rmse"], {"rmse": LINEAR}, detection=found)
    section = perception_section(list(result.values()), ())
    assert any("The fit failed, and is not used" in getattr(block, "caption", "") for block in section.blocks)
    assert any("the fit to 36 answers failed" in getattr(block, "text", "") for block in section.blocks)
