"""The section of the causal check: results made by hand, and pictures of planted classifiers."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.catalogue.coverage_options import CausalCheckOptions
from candlelight.evaluation.coverage import causal_check_report as causal_check_plot
from candlelight.evaluation.coverage.causal_check_report import (
    causal_check_pictures,
    causal_check_section,
    split_classifiers,
)
from candlelight.evaluation.coverage.explained_images import ExplainedImages
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.score_causal_check import ALL_PARTS, CAUSAL_CHECK
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import score, start
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import Provenance, StatisticResult, table
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages
from tests.evaluation.report.conftest import HOSTILE
from tests.snapshots import page_text

EFFECTS = {"beak": 0.1, "wing": 0.4, ALL_PARTS: 0.4, BACKGROUND_REGION: 0.2}


def result(name, densities, effects=EFFECTS, weights="a" * 64, agreement=0.5, failed=(), notes=()):
    """Make a result whose regions have these effects, at least 0, and densities; effects are losses."""
    regions = []
    for (region, effect), density in zip(effects.items(), densities, strict=True):
        numbers = {"effect": -effect, "effect_size": effect, "density": density, "share": density / 10}
        intervals = {key: [value, value - 0.05, value + 0.05] for key, value in numbers.items()}
        regions.append({"region": region, "images": 7, **intervals})
    model = {"name": name} | ({"classifier_sha256": weights} if weights else {})
    settings = {"scale": "probability", "pixels": "all", "k": 1, "proportion": 0.05, "size": None}
    about = Provenance("causal_check", 1, "higher", model, {"name": "birds", "rows": 7}, settings, {})
    scores = {"agreement": Score(agreement, agreement - 0.1, agreement + 0.1), "hit_rate": Score(0.6, 0.5, 1)}
    details = {"regions": regions, "chance": 0.3, "undefined": 0, "notes": list(notes)}
    return StatisticResult(about, scores, {}, ("a", "b"), tuple(failed), details)


def with_network(one, of, accuracy, oracle, points):
    network = {"of": of, "accuracy": [accuracy, accuracy - 0.1, accuracy + 0.1], "chance": 0.25}
    added = {"network": network, "oracle": oracle, "resolution": [points, points]}
    return replace(one, details=one.details | added)


@pytest.fixture
def results():
    own = {"beak": 0.3, "wing": 0.0, ALL_PARTS: 0.3, BACKGROUND_REGION: 0.1}
    return [
        result("kinds vebi", (2.0, 5.0, 4.0, 0.5), notes=["1 of 7 images are left out"]),
        result("kinds prototypes", (0.1, 0.2, 0.3, 1.0), own, weights=None, agreement=-0.3),
        result("kinds noise", (1.0, 1.1, 1.0, 0.9), agreement=0.05, failed=("bird-1",)),
        result("colours vebi", (1.0, 2.0, 3.0, 4.0), weights="b" * 64),
    ]


def test_results_are_split_by_the_classifier(results):
    first, second = split_classifiers(results)
    assert (first.classifier, [*first.results]) == ("kinds", ["vebi", "prototypes", "noise"])
    assert (second.classifier, [*second.results]) == ("", ["colours vebi"])
    unknown = [result(name, (1.0, 1.0, 1.0, 1.0), weights=None) for name in ("object", "ground")]
    assert [[*one.results] for one in split_classifiers(unknown)] == [["object", "ground"]]


def test_page_of_two_classifiers(results, tmp_path, snapshot):
    results.append(result(f"kinds {HOSTILE}", (np.nan,) * 4))
    page = write_report(tmp_path / "page.html", results, title="Results").read_text(encoding="utf-8")
    assert page_text(page) == snapshot


def test_page_with_oracles_and_accuracies_of_networks(results, tmp_path, snapshot):
    vebi = with_network(results[0], "kinds vebi", 0.9, {"agreement": 0.5, "hit_rate": 0.75}, 8)
    signed = {"agreement": 0.6, "hit_rate": 1.0, "signed_agreement": 0.7}
    prototypes = with_network(results[1], "kinds prototypes", 0.3, signed, 16)
    scores = prototypes.scores | {"signed_agreement": Score(0.2, 0.1, 0.3)}
    shown = [vebi, replace(prototypes, scores=scores), results[2]]
    page = write_report(tmp_path / "page.html", shown, title="Results").read_text(encoding="utf-8")
    assert f"{page_text(page)}\nOn the terminal:\n{table(shown)}\n" == snapshot


@pytest.fixture
def drawn(monkeypatch):
    """Title, row names, lengths and colours of the bars of each panel, by drawing."""
    found = []

    def keep(figure, name):
        panels = [axes for axes in figure.axes if axes.axison]
        found.append(
            [
                (
                    axes.get_title().replace("\n", " "),
                    [label.get_text() for label in axes.get_yticklabels()],
                    [bar.get_width() for bar in axes.patches],
                    [bar.get_facecolor()[3] for bar in axes.patches],
                )
                for axes in panels
            ]
        )
        return f"<svg>{name}</svg>"

    monkeypatch.setattr(causal_check_plot, "to_svg", keep)
    return found


def test_bars_are_sorted_by_the_effects_of_the_network_that_is_explained(results, drawn):
    causal_check_section(results, [])
    first, second = drawn
    rows = ["wing", BACKGROUND_REGION, "beak"]
    assert [panel[0] for panel in first] == [
        *("effect on the probability", "vebi 0.500", "noise 0.0500"),
        *("effect on the probability", "prototypes -0.300"),
    ]
    effects, vebi, noise, own, prototypes = first
    assert effects[1:] == (rows, [0.4, 0.2, 0.1], [1, 0, 1])  # the background is open
    assert vebi[2] == [5.0, 0.5, 2.0]
    assert noise[2] == [1.1, 0.9, 1.0]
    assert own[1:3] == (["beak", BACKGROUND_REGION, "wing"], [0.3, 0.1, 0.0])
    assert prototypes[2] == [0.1, 1.0, 0.2]
    assert [panel[0] for panel in second] == ["effect on the probability", "colours vebi 0.500"]


def test_many_parts_and_unknown_numbers(drawn):
    effects = {f"part {number:02}": 0.01 * number for number in range(30)}
    effects |= {ALL_PARTS: 0.29, BACKGROUND_REGION: 0.0}
    effects["part 29"] = np.nan
    densities = [1.0] * 32
    densities[28] = np.nan
    section = causal_check_section([result("map", densities, effects)], [])
    ((_, rows, sizes, _), (_, _, found, _)) = drawn[0]
    assert rows == [*(f"part {number:02}" for number in range(28, 16, -1)), BACKGROUND_REGION]
    assert sizes[0] == pytest.approx(0.28)
    assert np.isnan(found[0])
    _, regions, _ = (block for block in section.blocks if block.kind == "table")
    assert regions.folded
    assert regions.rows[-2][:3] == ("part 29", "7", "not defined")
    assert len(regions.rows) == 32


PLACES = {"head": (slice(4, 12), slice(4, 12)), "tail": (slice(20, 28), slice(20, 28))}


def item(row):
    """Make a gray image, and again with the head white, the tail white, and the background once or twice."""
    masks = {name: torch.zeros(32, 32, dtype=torch.bool) for name in PLACES}
    for name, place in PLACES.items():
        masks[name][place] = True
    masks[BACKGROUND_REGION] = ~(masks["head"] | masks["tail"])
    image = torch.full((3, 32, 32), 0.4 + 0.01 * row)
    changed = {name: image.masked_fill(mask, 1.0)[None] for name, mask in masks.items()}
    weak = image.masked_fill(masks[BACKGROUND_REGION], 0.45)
    changed[BACKGROUND_REGION] = torch.stack([weak, changed[BACKGROUND_REGION][0]])
    return CounterfactualImages(image, masks, None, changed)


def looks_at(name):
    place = PLACES.get(name, (slice(14, 18), slice(14, 18)))
    return lambda images: torch.stack([4 * images[:, 0][:, *place].mean((1, 2)), torch.zeros(len(images))], 1)


def points_at(name):
    return lambda images: torch.zeros_like(images[:, :1]).index_put(
        (torch.tensor(0), torch.tensor(0), item(0).masks[name]), torch.tensor(1.0)
    )


def blocks_of(methods, networks, view, classes=None, **options):
    """Check methods, and return the pictures of the page."""
    data = ExplainedImages(view, networks)
    run = start(CAUSAL_CHECK, CausalCheckOptions(**options), {"data": data}, methods, "cpu", 1)
    score(run)
    run.kept["checked"] = [(own, networks, classes) for own, networks, _ in run.kept["checked"]]
    return causal_check_pictures(run, {})["causal_check"]


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.uri.partition(",")[2]))))


def test_pictures_of_the_counterfactual_that_changes_the_prediction_most(memory_view):
    view = memory_view([item(row) for row in range(4)])
    methods = {"net right": points_at("tail"), "net wrong": points_at("head")}
    methods["net dead"] = lambda images: images[:, :1] * 0
    blocks = blocks_of(methods, looks_at("tail"), view, classes=("bright", "dark"))
    assert blocks[0].heading == "Heatmaps on net"
    assert [block.caption for block in blocks[1:]] == ["row-0", "row-2", "row-3"]
    captions = [one.caption.replace("\N{NO-BREAK SPACE}", " ") for one in blocks[1].pictures]
    before, after = (1 / (1 + np.exp(-4 * value)) for value in (0.4, 1.0))
    assert captions == [
        "image",
        f"tail changed: bright {before:.3f} to {after:.3f}",
        "right: density 16.0, rank 1 of 3",
        "wrong: density 0.00, rank 2 of 3",
        "dead: failed",
    ]
    plain, changed, right, *_ = map(pixels, blocks[1].pictures)
    step = len(plain) // 32
    assert (plain == 102).all()
    inside = (slice(22 * step, 26 * step),) * 2
    assert (changed[inside] == 255).all()
    assert (changed[: 19 * step, : 19 * step] == 102).all()
    edge = changed[23 * step, 19 * step : 21 * step, 0]
    assert edge[step - 1] == 0  # the black line outside
    assert right[inside].min(axis=(0, 1)).tolist() != right[0, 0].tolist()


def test_rows_of_pictures_for_each_network_and_only_the_changed_region(memory_view):
    class Own:
        """A method with a network of its own."""

        def explain(self, images):
            maps = points_at("head")(images)
            return Explanation(maps, torch.zeros(1, 1, dtype=torch.int64), maps.sum((2, 3)), torch.zeros(1))

        def classifier(self, images):
            return looks_at("head")(images)

    items = [item(row) for row in range(2)]
    for one in items:  # the light of another background falls on the head
        one.changed[BACKGROUND_REGION][:, :, one.masks["head"]] = 0.0
    view, own, shared = memory_view(items), Own(), looks_at("middle")
    networks = {"map": shared, "own": own.classifier}
    for pixels_of, light in (("all", 0), ("region", 102)):
        how = {"pixels": pixels_of, "scale": "logit"}
        blocks = blocks_of({"map": points_at("tail")}, shared, view, **how)
        assert blocks[0].heading == ""
        assert blocks[1].pictures[1].caption.startswith("background changed: class 0")
        changed = pixels(blocks[1].pictures[1])
        # The stronger one of two backgrounds, and on the head the light only if all pixels are shown.
        assert changed[64, 64, 0] == 255
        assert changed[len(changed) // 4, len(changed) // 4, 0] == light
    methods = {"map": points_at("tail"), "own": _explaining(own)}
    blocks = blocks_of(methods, networks, view, **how)
    assert [block.caption for block in blocks[1:]] == [
        *("row-0, network of map", "row-0, network of own", "row-1, network of map", "row-1, network of own")
    ]
    assert [block.pictures[1].caption.split()[0] for block in blocks[1:3]] == ["background", "head"]
    assert [len(block.pictures) for block in blocks[1:]] == [3, 3, 3, 3]


def _explaining(model):
    return NamedModel(ModelIdentity("own", "callable"), model, "srgb")


def test_no_effect_is_known(memory_view):
    view = memory_view([item(0), item(1)])

    def classify(images):
        return torch.where(images[:, :2, 0, 0] == 1, torch.nan, images[:, :2, 8, 8] * torch.nan)

    blocks = blocks_of({"map": points_at("head")}, classify, view)
    assert [picture.caption for picture in blocks[1].pictures] == ["image", "map"]


def test_pictures_of_each_size_are_in_their_section(memory_view):
    view = memory_view([item(0), item(1)])
    runs = {}
    for name, size in (("one", None), ("two", (16, 16)), ("three", None)):

        def resized(images):
            return looks_at("middle")(torch.nn.functional.interpolate(images, (32, 32)))

        methods = {f"{name} {kind}": (lambda images: images[:, :1]) for kind in ("map", "other")}
        data = ExplainedImages(view, resized)
        runs[name] = start(CAUSAL_CHECK, CausalCheckOptions(size=size), {"data": data}, methods, "cpu")
        score(runs[name])
    whole = replace(runs["one"], kept={"checked": [run.kept["checked"][0] for run in runs.values()]})
    sections = causal_check_pictures(whole, {})
    headings = {
        key: [one.heading for one in blocks if getattr(one, "heading", "")]
        for key, blocks in sections.items()
    }
    assert headings == {
        "causal_check": ["Heatmaps on one", "Heatmaps on three"],
        "causal_check-2": ["Heatmaps on two"],
    }
