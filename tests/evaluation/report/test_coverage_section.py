import re
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

HOSTILE = "<script>alert('1')</script>"


def tables(blocks):
    return {block.caption: block for block in blocks if block.kind == "table"}


def table(blocks, start):
    """The only table whose caption starts with this text; its rows by their first cells."""
    (found,) = (block for caption, block in tables(blocks).items() if caption.startswith(start))
    assert {len(row) for row in found.rows} == {len(found.head)}
    return found


def cells(block):
    return [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in block.rows]


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


def test_controls_stand_among_the_methods_in_the_order_of_mean_iou(coverage_call):
    blocks = coverage_section(coverage_call("kinds"), []).blocks
    found = table(blocks, "Methods and controls")
    assert cells(found) == [
        ["ideal", "ceiling: made of the annotated parts", "0.900", "0.950"],
        ["prototypes", "method", "0.310", ""],  # not 0.320, in sample
        ["topics", "method", "0.210", ""],
        ["centre", "trap: a blob in the middle of every image", "0.200", "0.300"],
        ["object", "trap: mask of the whole object", "0.150", "0.100"],
        ["exact parts", "ceiling of one map: mask of the largest part, or the k largest", "0.150", "0.400"],
        ["vebi", "method", "0.110", ""],
        ["noise", "floor: random numbers", "0.0500", "0.0600"],
        ["constant", "floor: one value everywhere", "0.00", "not defined"],
    ]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    assert any("each control is compared with itself only" in text for text in texts)
    assert [text for text in texts if "control" in text][1:] == [
        "Note. Mean IoU is not above that of the control centre: vebi.",
        "Note. Mean IoU is not above that of the control object: vebi.",
    ]
    (masks,) = (text for text in texts if "whole object" in text)
    assert "the mask of the whole object (0.08) to the exact masks of the parts (0.04)" in masks


def test_order_under_other_settings(coverage_call):
    found = table(coverage_section(coverage_call("kinds"), []).blocks, "WAIoU under other settings")
    assert found.head == ("setting", "vebi", "topics", "prototypes", "order, best first", "agreement")
    assert cells(found) == [
        ["k=3", "0.300", "0.200", "0.100", "vebi > topics > prototypes", "-1.00"],
    ]


def test_networks_labels_and_detectors(coverage_call):
    results = coverage_call("kinds")
    results[1] = replace(results[1], details=results[1].details | {"concepts": 7})
    blocks = coverage_section(results, []).blocks
    networks = table(blocks, "Networks that the methods explain")
    assert networks.head == ("", "vebi", "topics", "prototypes")
    assert [line[:3] for line in cells(networks)] == [
        ["accuracy of the classifier", "0.930", "0.930"],
        ["of the explained network", "0.900", "0.910"],
        ["chance level", "0.200", "0.200"],
        ["completeness", "0.750", "0.750"],
        ["concepts", "", "7"],
    ]
    notes = [block.text for block in blocks if isinstance(block, TextBlock) and "chance 0.2)" in block.text]
    assert len(notes) == 1
    assert "the network that kinds prototypes explains is not shown to be better" in notes[0]
    labels = table(blocks, "Images by label")
    assert labels.head == ("method", "head", "tail", "wing", "no part")
    assert cells(labels)[0] == ["vebi", "6 (60 %)", "3 (30 %)", "0 (0 %)", "1 (10 %)"]
    detectors = table(blocks, "Concepts of each method")
    assert detectors.head == ("method", "concepts", "detectors", "tail")
    assert cells(detectors)[0] == ["vebi", "64", "3", "1"]


def test_results_of_old_files_have_their_plots_and_no_further_tables(coverage):
    blocks = coverage_section(coverage, []).blocks
    assert len([block for block in blocks if block.kind == "plot"]) == 3
    assert list(tables(blocks))[1:] == [
        "WAIoU of each part; in brackets mean IoU and number of the images where a method covers the part",
        "Settings, data and versions",
    ]


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


def test_parts_have_their_factors_and_methods_their_best_share(coverage_call):
    found = table(coverage_section(coverage_call("kinds"), []).blocks, "WAIoU of each part")
    assert found.head == ("", "vebi", "topics", "prototypes")
    assert [line[:2] for line in cells(found)] == [
        ["best share of points", "10%"],
        ["mean IoU there, in sample ↑", "0.120"],
        ["head ↑", "0.0600 (0.120, 8)"],
        ["tail ↑", "0.0600 (0.500, 6)"],
        ["wing ↑", "not defined"],
    ]


def test_methods_of_equal_names_have_columns_of_their_own(coverage_call):
    first, *_ = coverage_call("kinds")
    assert list(make_comparison([first, first, *coverage_call("kinds")[1:]]).results) == [
        *("vebi", "vebi (2)", "topics", "prototypes")
    ]


def test_a_page_of_three_classifiers(tmp_path, coverage_call):
    results = [*coverage_call("kinds"), *coverage_call("colours", ("vebi", "own")), *coverage_call(HOSTILE)]
    pictures = {"waiou": [TextBlock("first pictures")], "waiou-3": [TextBlock("third pictures")]}
    path = write_report(tmp_path / "page.html", results, title="T", pictures=pictures)
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert re.findall(r'<section id="([^"]*)"', text) == [
        *("coverage", "coverage-2", "coverage-3", "coverage-classifiers")
    ]
    assert text.count("Coverage of parts: birds; kinds: vebi, topics, prototypes") == 2  # contents, heading
    first, second, third = (
        text.index(f'<section id="{key}"') for key in ("coverage", "coverage-2", "coverage-3")
    )
    assert first < text.index("first pictures") < second < third < text.index("third pictures")
    assert text.count("Blind to") == 1


def test_a_column_for_each_classifier(tmp_path, coverage_call):
    results = [*coverage_call("kinds"), *coverage_call("colours", ("own", "vebi"))]
    text = write_report(tmp_path / "page.html", results, title="T").read_text(encoding="utf-8")
    overview = text[text.index('<section id="coverage-classifiers"') :]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", overview)]
    assert rows == [
        *(["method", "kinds", "colours"], ["vebi", "0.120 at 0.1", "0.220 at 0.1"]),
        *(["topics", "0.220 at 0.1", ""], ["prototypes", "0.320 at 0.1", ""], ["own", "", "0.120 at 0.1"]),
        *(["method", "kinds", "colours"], ["classifier itself", "0.930", "0.930"]),
        *(["vebi", "0.900", "0.910"], ["topics", "0.910", ""], ["prototypes", "0.920", ""]),
        ["own", "", "0.900"],
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
    for name, result in results.items():
        results[name] = replace(result, details=result.details | {"extremes": {}})
    plain = coverage_pictures(run, results)["waiou"]
    extremes = {"highest": [["row-1", 1.0]], "lowest": [["row-0", 0.5], ["row-2", None]]}
    results["net whole"] = replace(
        results["net whole"], details=results["net whole"].details | {"extremes": extremes}
    )
    blocks = coverage_pictures(run, results)["waiou"]
    assert blocks[: len(plain)] == plain
    assert plain[0].heading == "Heatmaps on net"
    assert [block.caption for block in blocks[1:]] == [
        *(
            "row-0",
            "row-1",
            "row-2",
            "whole: images with the highest IoU (of the score's points)",
            "whole: images with the lowest IoU (of the score's points)",
        )
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
