from dataclasses import replace

import numpy as np
import pytest
import torch

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage import coverage_report as coverage_plots
from candlelight.evaluation.coverage.coverage_pictures import coverage_pictures
from candlelight.evaluation.coverage.coverage_report import (
    comparison_labels,
    coverage_section,
    method_colours,
)
from candlelight.evaluation.coverage.coverage_tables import coverage_tables, make_comparison
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.filter_methods import GradCAM
from candlelight.evaluation.coverage.score_coverage import COVERAGE
from candlelight.evaluation.report.blocks import TextBlock
from candlelight.evaluation.report.drawing import COLOURS
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import score, start
from candlelight.evaluation.views import PartImage
from tests.evaluation.report.conftest import HOSTILE
from tests.snapshots import page_text


@pytest.fixture
def drawn(monkeypatch):
    """Lines of each drawing: label, colour, marker and numbers, by the name of the drawing."""
    found = {}

    def keep(figure, name):
        found[name] = [
            (line.get_color(), line.get_marker(), line.get_xdata(), line.get_ydata())
            for line in figure.axes[0].lines
            if len(line.get_xdata())
        ]
        return f"<svg>{name}</svg>"

    monkeypatch.setattr(coverage_plots, "to_svg", keep)
    return found


def test_page_of_three_classifiers(tmp_path, coverage_call, snapshot):
    first = coverage_call("kinds")
    first[1] = replace(first[1], details=first[1].details | {"concepts": 7})
    results = [*first, *coverage_call("colours", ("vebi", "own")), *coverage_call(HOSTILE)]
    pictures = {"waiou": [TextBlock("first pictures")], "waiou-3": [TextBlock("third pictures")]}
    path = write_report(tmp_path / "page.html", results, title="T", pictures=pictures)
    assert page_text(path.read_text(encoding="utf-8")) == snapshot


def test_lines_are_the_numbers_of_the_tables(coverage_call, drawn):
    results = coverage_call("kinds")
    coverage_section(results, [])
    colours = dict(zip(("vebi", "topics", "prototypes"), (COLOURS[0], COLOURS[2], COLOURS[1]), strict=True))
    lines = coverage_tables(results)
    expected = {
        (colours[method], {"set": "o", "image": "s"}[pooling]): []
        for _, _, _, method, pooling, _, _ in lines["figure5"][1:]
    }
    for _, _, _, method, pooling, share, value in lines["figure5"][1:]:
        expected[colours[method], {"set": "o", "image": "s"}[pooling]].append((100 * share, value))
    found = {(colour, marker): list(zip(x, y, strict=True)) for colour, marker, x, y in drawn["pooling"]}
    assert found.keys() == expected.keys()
    for key, pairs in expected.items():
        np.testing.assert_allclose(found[key], pairs)
    curves = {colour: y for colour, _, _, y in drawn["curve"]}
    for method, colour in colours.items():
        values = [line[5] for line in lines["figure7"][1:] if line[3] == method]
        np.testing.assert_allclose(curves[colour], values)


def test_a_score_that_is_not_defined_leaves_a_gap(coverage_call, drawn):
    results = coverage_call("kinds")
    results[0] = replace(results[0], details=results[0].details | {"curve": [None, 0.25, None]})
    coverage_section(results, [])
    assert np.isnan(drawn["curve"][0][3]).tolist() == [True, False, True]


def test_methods_keep_their_colours_in_other_comparisons():
    assert method_colours(["topics", "vebi"]) == list(reversed(method_colours(["vebi", "topics"])))
    many = method_colours(["topics", *map(str, range(9))])
    assert many[0] == COLOURS[2]
    assert many[1:8] == [colour for colour in COLOURS if colour != COLOURS[2]]
    assert many[8] == many[1]


def test_methods_of_equal_names_have_columns_of_their_own(coverage_call):
    first, *_ = coverage_call("kinds")
    assert list(make_comparison([first, first, *coverage_call("kinds")[1:]]).results) == [
        *("vebi", "vebi (2)", "topics", "prototypes")
    ]


def test_columns_are_named_by_data_or_number_where_classifiers_are_not_enough(coverage_call):
    calls = [coverage_call("kinds"), coverage_call("kinds", data="faces"), coverage_call("x", ("a",))]
    assert list(comparison_labels([make_comparison(call) for call in calls])) == [
        *("kinds, birds", "kinds, faces", "birds")
    ]
    calls = [coverage_call("kinds"), coverage_call("kinds"), coverage_call("x", ("a",))]
    assert list(comparison_labels([make_comparison(call) for call in calls])) == [
        *("kinds 1", "kinds 2", "comparison 3")
    ]


def scored(methods, view, **options):
    """Score methods at one share of points, and return the run."""
    chosen = CoverageOptions(proportions=(0.25,), quick=True, **options)
    run = start(COVERAGE, chosen, {"data": view}, methods, "cpu")
    score(run)
    return run


def test_pictures_of_the_images_that_each_method_covers_best_and_worst(memory_view):
    items = []
    for row in range(3):
        mask = torch.zeros(8, 8, dtype=torch.bool)
        mask[:4, : 2 * (row + 1)] = True
        items.append(PartImage(mask.float().expand(3, 8, 8), {"square": mask}))
    view = memory_view(items)
    methods = {
        "net whole": lambda image: image[:, :1],
        "net dead": lambda image: torch.full_like(image[:, :1], torch.nan),
    }
    run = scored(methods, view)
    results = run.kept["compared"][0][1]

    def blocks_with(**extremes):
        for name in results:
            found = extremes if name == "net whole" else {}
            results[name] = replace(results[name], details=results[name].details | {"extremes": found})
        return coverage_pictures(run, results)["waiou"]

    plain = blocks_with()
    blocks = blocks_with(highest=[["row-1", 1.0]], lowest=[["row-0", 0.5], ["row-2", None]])
    assert blocks[: len(plain)] == plain
    assert plain[0].heading == "Heatmaps on net"
    assert [block.caption for block in blocks[1:]] == [
        *("row-0", "row-1", "row-2"),
        *(f"whole: images with the {end} IoU (of the score's points)" for end in ("highest", "lowest")),
    ]
    highest, lowest = blocks[-2:]
    assert [picture.caption for picture in highest.pictures] == ["row-1: IoU 1.00"]
    assert [picture.caption for picture in lowest.pictures] == ["row-0: IoU 0.500", "row-2: IoU not defined"]
    # The same picture as in the row of this image.
    assert highest.pictures[0].uri == blocks[2].pictures[1].uri
    assert highest.pictures[0].alt == "Heatmap of whole on row-1, with its marked points."
    assert blocks[2].pictures[2].caption == "dead: failed"


class TwoConcepts(GradCAM):
    """A method whose first concept has the map of larger sum, and the second the larger score."""

    def explain(self, images):
        count = len(images)
        square = images[:, :1]
        maps = torch.cat([1 - square, square], 1)
        scores = torch.tensor([[0.0, 1.0]]).expand(count, -1)
        return Explanation(maps, torch.arange(2).expand(count, -1), scores, torch.zeros(count).long())


def test_pictures_show_the_maps_that_the_score_ranks_first(memory_view):
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[:2, :4] = True
    view = memory_view([PartImage(mask.float().expand(3, 8, 8), {"square": mask})])
    drawn = {}
    for rank in ("sum", "score"):
        run = scored({"two": TwoConcepts(torch.nn.Identity(), "")}, view, rank=rank)
        drawn[rank] = coverage_pictures(run, {})["waiou"][1].pictures[1].uri
    alone = coverage_pictures(scored({"alone": lambda image: image[:, :1]}, view), {})["waiou"]
    assert alone[1].pictures[1].uri == drawn["score"] != drawn["sum"]
