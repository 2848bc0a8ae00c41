"""Tables by factor, the plot by runs and the pictures of predictions, on results made by hand."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from candlelight.evaluation.catalogue.concepts_options import CSMOptions
from candlelight.evaluation.concepts import CONCEPT_SENSITIVITY, CSMData
from candlelight.evaluation.concepts.concepts_pictures import csm_pictures
from candlelight.evaluation.concepts.concepts_report import factor_tables, runs_plot
from candlelight.evaluation.concepts.csm import csm_by_factor, score_by_runs, table_factors
from candlelight.evaluation.concepts.score_csm import scored_models
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BranchScore, Ratios, SetScore
from candlelight.evaluation.run.evaluate import start
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.result import Provenance, StatisticResult
from candlelight.evaluation.views import ConceptSet
from candlelight.evaluation.views.image_tensors import decode

FRAMES = [f"frame {number}" for number in range(8)]


def result(name, sets):
    scores, replicates = resampled_interval(Ratios(sets), FRAMES, seed=0)
    groups = [one for factors in table_factors(sets) for one in csm_by_factor(sets, factors, FRAMES)]
    details = {
        "sets": [one.describe() for one in sets],
        "groups": groups,
        "by_runs": score_by_runs(sets),
    }
    about = Provenance("csm", 2, "higher", {"name": name}, {"name": "tiny"}, {}, {})
    return StatisticResult(about, scores, replicates, tuple(FRAMES), (), details)


def one_set(concept, fixed, reflectance, shading, objects=None):
    def branch(value):
        score = BranchScore((value,) * len(FRAMES), 0.1, 0.9, 0.001, runs=(value, value))
        return dict.fromkeys(ALIGNMENTS, score)

    branches = {"reflectance": branch(reflectance), "shading": branch(shading)}
    return SetScore(concept, fixed, 20, branches, objects)


@pytest.fixture(scope="module")
def results():
    sets = [
        one_set("albedo", {"temperature": 2500}, 0.8, 0.4, 1),
        one_set("albedo", {"temperature": 6500}, 0.3, 0.6, 3),
        one_set("illumination", {"temperature": 6500}, 0.0, 0.7, 3),
    ]
    still = [replace(one, branches=one_set("albedo", {}, 0.0, 0.0).branches) for one in sets]
    return [result("one", sets), result("still", still)]


def test_one_table_is_open_and_holds_both_metrics(results):
    short, whole, *others = factor_tables(results)
    assert not short.folded
    assert all(table.folded for table in (whole, *others))
    assert [table.caption.split(":")[0] for table in (short, whole, *others)] == [
        *["CSM by objects"] * 2,
        *["CSM by temperature"] * 2,
    ]
    assert short.head == (
        *("objects", "model"),
        *("csm_s ↑", "reflectance to albedo ↑", "shading to albedo ↓", "sets"),
        *("csm_r ↑", "reflectance to illumination ↓", "shading to illumination ↑", "sets"),
    )
    cells = {row[:2]: [" ".join(cell.split()) for cell in row[2:]] for row in short.rows}
    assert cells["1", "one"] == ["2.00 (2.0 to 2.0)", "0.800", "0.400", "1", "", "", "", ""]
    assert cells["3", "one"][:4] == ["0.500 (0.50 to 0.50)", "0.300", "0.600", "1"]
    assert cells["3", "one"][4:] == ["∞ (∞ to ∞)", "0.00", "0.700", "1"]
    assert cells["3", "still"][4:] == ["not defined", "0.00", "0.00", "1"]


def test_the_whole_table_has_every_order_and_alignment(results):
    whole = factor_tables(results)[1]
    rows = [row for row in whole.rows if row[:4] == ("1", "one", "csm_s", "unaligned")]
    assert len(rows) == 1
    assert [cell.split()[0] for cell in rows[0][4:]] == [
        "1",
        "2.00",
        "2.00",
        "0.667",
        "0.667",
        "0.800",
        "0.400",
    ]
    assert len(whole.rows) == 3 * 2 * 2
    assert len(whole.head) == len(whole.rows[0])


def test_results_without_groups_have_no_tables_and_no_plot(results):
    bare = replace(results[0], details={"sets": []})
    assert factor_tables([bare]) == []
    assert runs_plot([bare]) is None


def test_the_plot_names_the_last_values_and_draws_both_branches_of_both_concepts(results):
    plot = runs_plot(results)
    assert (
        "one: reflectance to albedo 0.550, shading to albedo 0.500, reflectance to illumination 0.00"
        in plot.alt
    )
    assert "still: reflectance to albedo 0.00" in plot.alt
    assert plot.svg.count("albedo sets") == plot.svg.count("illumination sets") == 1
    only = json.loads(results[0].to_json())["details"]
    only["by_runs"] = [one for one in only["by_runs"] if one["concept"] == "albedo"]
    assert "illumination" not in runs_plot([replace(results[0], details=only)]).svg


def pictures_of(view, results, models, **options):
    """Show the albedo sets of a view, without scoring the models."""
    data = CSMData(test=view, negatives=view, albedo=view)
    run = start(CONCEPT_SENSITIVITY, CSMOptions(**options), {"data": data}, models)
    run.kept["models"] = scored_models(run)
    return csm_pictures(run, results)


def test_pictures_show_the_least_similar_image_and_the_scores_of_the_set(results, memory_view):
    images = [torch.full((3, 8, 10), value) for value in (0.5, 0.5, 0.9, 0.6)]
    view = memory_view(
        images, name="albedo", sets=(ConceptSet({"temperature": 2500}, (0, 1, 2, 3)),), varies=None
    )
    seen = []

    def split(image):
        seen.append(image)
        return image, torch.ones_like(image)

    models = {"one": split, "still": split}
    blocks = pictures_of(view, dict(zip(models, results, strict=True)), models)
    assert [len(block.pictures) for block in blocks] == [4, 3]
    _, one, still = blocks[1].pictures
    assert " ".join(one.caption.split()) == "one: reflectance 0.800, shading 0.400, csm_s 2.00"
    assert " ".join(still.caption.split()) == "still: reflectance 0.00, shading 0.00, csm_s not defined"
    assert f"{view.ids[0]} and {view.ids[2]}" in one.alt
    np.testing.assert_allclose(seen[1][0].cpu(), decode(images[2]))
    assert one.width > blocks[1].pictures[0].width
    small = pictures_of(view, {"one": results[0]}, {"one": split}, size=(4, 5))
    assert seen[-1].shape == (1, 3, 4, 5)
    assert len(small) == 2


def test_a_set_that_was_not_scored_says_so(results, memory_view):
    view = memory_view(
        [torch.zeros(3, 8, 8)] * 2, name="albedo", sets=(ConceptSet({"scene": "new"}, (0, 1)),), varies=None
    )
    pictures = pictures_of(view, {"one": results[0]}, {"one": lambda image: (image, image)})
    assert pictures[1].pictures[1].caption == "one: not scored"
    assert not math.isnan(results[0].scores["csm_s aligned, all sets"].value)
