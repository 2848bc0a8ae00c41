"""The sections of CSM and of TCAV, on results made by hand, and the pictures of predictions."""

import math
import sys
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
from candlelight.evaluation.concepts.tcav_report import tcav_section
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import start
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.result import MeanResult, StatisticResult
from candlelight.evaluation.views import ConceptSet
from candlelight.evaluation.views.image_tensors import decode
from tests.evaluation.report.conftest import HOSTILE, about
from tests.snapshots import page_text

FRAMES = [f"frame {number}" for number in range(8)]


def one_set(concept, fixed, reflectance, shading, objects=None):
    def branch(value):
        score = BranchScore((value,) * len(FRAMES), 0.1, 0.9, 0.001, runs=(value, value))
        return dict.fromkeys(ALIGNMENTS, score)

    branches = {"reflectance": branch(reflectance), "shading": branch(shading)}
    return SetScore(concept, fixed, 20, branches, objects)


@pytest.fixture
def results(monkeypatch):
    def few(statistic, groups, seed):
        return resampled_interval(statistic, groups, seed, resamples=20)

    def result(name, sets):
        scores, replicates = few(Ratios(sets), FRAMES, 0)
        groups = [one for factors in table_factors(sets) for one in csm_by_factor(sets, factors, FRAMES)]
        details = {"sets": [one.describe() for one in sets], "groups": groups, "by_runs": score_by_runs(sets)}
        return StatisticResult(about("csm", name), scores, replicates, tuple(FRAMES), (), details)

    # The package has a function of the module's name.
    monkeypatch.setattr(sys.modules["candlelight.evaluation.concepts.csm"], "resampled_interval", few)
    sets = [
        one_set("albedo", {"temperature": 2500}, 0.8, 0.4, 1),
        one_set("albedo", {"temperature": 6500}, 0.3, 0.6, 3),
        one_set("illumination", {"temperature": 6500}, 0.0, 0.7, 3),
    ]
    still = [replace(one, branches=one_set("albedo", {}, 0.0, 0.0).branches) for one in sets]
    return [result("one", sets), result("still", still)]


def test_page_with_tables_by_factor_and_curves_over_runs(results, tmp_path, snapshot):
    page = write_report(tmp_path / "page.html", results, title="T").read_text(encoding="utf-8")
    assert page_text(page) == snapshot


def test_curves_are_of_the_concepts_that_are_there(results):
    plot = runs_plot(results)
    assert plot.svg.count("albedo sets") == plot.svg.count("illumination sets") == 1
    by_runs = [one for one in results[0].details["by_runs"] if one["concept"] == "albedo"]
    only = replace(results[0], details=results[0].details | {"by_runs": by_runs})
    assert "illumination" not in runs_plot([only]).svg
    bare = replace(results[0], details={"sets": []})
    assert (factor_tables([bare]), runs_plot([bare])) == ([], None)


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
    view.sets = (ConceptSet({"scene": "new"}, (0, 1)),)
    unscored = pictures_of(view, {"one": results[0]}, {"one": split})
    assert unscored[1].pictures[1].caption == "one: not scored"


CONTROL = {"images": 24, "effect": 3.0, "permutation_p": 0.01, "adjusted_p": 0.02}


def entry(layer, concept, score, **more):
    undefined = score is None
    random = ("random", "random_spread", "random_derivative", "random_derivative_spread")
    numbers = dict.fromkeys(("derivative", *random, "t_test_p"), None if undefined else 0.25)
    numbers |= {"spread": None if undefined else 0.1, "accuracy": None if undefined else 0.75}
    return {
        **{"layer": layer, "concept": concept, "images": 20, "score": score, "significant": False},
        **{"flat": None if undefined else 0.0, **numbers, **more},
    }


def tcav(name, *entries, notes=(), **settings):
    layers = list(dict.fromkeys(one["layer"] for one in entries))
    settings = {"layers": layers, "target": "logit:3", "gradient_of": "logit", "p": 0.05} | settings
    columns = {}
    for one in entries:
        value = math.nan if one["score"] is None else one["score"]
        columns[f"{one['concept']} at {one['layer']}"] = (value, value)
        columns[f"{one['concept']} at {one['layer']}, derivative"] = (-value, -value)
    details = {"scores": list(entries), "notes": notes}
    return MeanResult(
        about("tcav", name, "neither", **settings), ("x", "y"), ("x", "y"), columns, (), details
    )


def test_page_of_tcav_with_and_without_a_control(tmp_path, snapshot):
    tested = [entry("one", "red", 0.5, control=CONTROL), entry("one", HOSTILE, None)]
    results = [tcav(name, *tested, notes=["few images"]) for name in ("net", HOSTILE)]
    results.append(tcav("net", entry("two", "red", 0.5, flat=0.25), gradient_of="loss", target="norm"))
    page = write_report(tmp_path / "page.html", results, title="T").read_text(encoding="utf-8")
    assert page_text(page) == snapshot


def test_dots_are_filled_by_the_control_or_else_by_the_t_test():
    def filled(**more):
        blocks = tcav_section([tcav("net", entry("one", "red", 0.5, **more))], []).blocks
        return blocks[-2].svg.count("fill: #3b8fd0")

    hollow = filled()
    assert filled(significant=True) > hollow
    assert filled(control=CONTROL) > hollow
    assert filled(control=CONTROL | {"adjusted_p": 0.5}, significant=True) == hollow
