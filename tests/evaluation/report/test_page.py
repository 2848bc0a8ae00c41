"""Whole pages of results made by hand: their readable text is a snapshot; here is also what no text shows."""

import base64
import hashlib
import re
from dataclasses import replace

import matplotlib
import pytest
import torch

from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.result import MeanResult
from candlelight.evaluation.run.result_files import read_results, write_results
from tests.refusals import refused
from tests.snapshots import PageText, page_text

NAMES = {"href", "src", "srcset", "action", "data", "poster", "xlink:href", "formaction", "ping"}


@pytest.fixture
def write(tmp_path):
    """Write a report of results without sets and settings, and read it."""

    def text(*results) -> str:
        return write_report(tmp_path / "only.html", results, title="Bare").read_text(encoding="utf-8")

    return text


@pytest.fixture(scope="module")
def everything(plain, caught, intrinsic, concepts, coverage, causal):
    return {
        "title": "Demo <of> candlelight",
        "summary": ["One & two.", "<script>x</script>"],
        "sets": [plain, caught],
        "results": [*intrinsic, *concepts, *coverage, *causal],
        "settings": {"seed": "0", "<i>": "a & b"},
    }


@pytest.fixture(scope="module")
def text(tmp_path_factory, everything):
    path = write_report(tmp_path_factory.mktemp("page") / "report.html", **everything)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def elements(text):
    return PageText(text).elements


def test_page_of_everything(text, snapshot):
    assert page_text(text) == snapshot


def test_page_has_no_external_references_and_the_one_script_that_its_policy_allows(elements, text):
    assert text.startswith('<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n')
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    words = re.sub(r"base64,[\w+/=\s]*|<script>.*?</script>|sha256-[\w+/=]*", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|//|@import|url\((?!#)", words)
    assert not {"link", "iframe"} & {tag for tag, _ in elements}
    targets = [value for _, attrs in elements for name, value in attrs.items() if name in NAMES]
    assert targets
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in targets)
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    inside = {target[1:] for target in targets if target.startswith("#")}
    inside |= set(re.findall(r"url\(#([^)]*)\)", text))
    inside |= {attrs["aria-labelledby"] for _, attrs in elements if "aria-labelledby" in attrs}
    assert inside <= set(ids)
    [policy] = [attrs["content"] for _, attrs in elements if "http-equiv" in attrs]
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        policy
        == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


def test_pictures_drawings_and_tables_are_described(elements):
    def all_of(tag):
        return [attrs for name, attrs in elements if name == tag]

    assert all(image["alt"] for image in all_of("img"))
    drawings = [attrs for attrs in all_of("div") if attrs.get("role") == "img"]
    assert len(drawings) == len(all_of("svg")) == 8
    assert all(drawing["aria-label"] for drawing in drawings)
    assert {attrs["scope"] for attrs in all_of("th")} == {"col", "row"}
    regions = [attrs for attrs in all_of("div") if "scroll" in attrs.get("class", "").split()]
    assert len(regions) == len(all_of("table"))
    assert all(region["tabindex"] == "0" and region["aria-label"] for region in regions)


def test_names_that_look_like_markup_are_not_rewritten_in_drawings(write, intrinsic):
    name = 'href="#010203" id="x" url(#y)'
    result = intrinsic[1]
    page = write(replace(result, about=replace(result.about, model={"name": name})))
    assert page.count(name.replace('"', "&#34;")) >= 2  # table, note
    assert PageText(page).drawn.count(name) == 3  # a bar of each score


def test_same_input_gives_the_same_bytes_whatever_matplotlib_is_set_to(tmp_path, everything, text):
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        again = write_report(tmp_path / "again.html", **everything).read_text(encoding="utf-8")
        assert matplotlib.rcParams["font.size"] == 30
    assert again == text


def test_results_of_a_file_have_the_same_page(tmp_path, everything, text):
    write_results(tmp_path / "results.json", everything["results"])
    again = {**everything, "results": read_results(tmp_path / "results.json")}
    assert write_report(tmp_path / "again.html", **again).read_text(encoding="utf-8") == text


def test_undefined_scores_and_single_models(write, intrinsic, coverage, causal_result, snapshot):
    columns = dict.fromkeys(intrinsic[1].columns, (float("nan"),))
    nothing = MeanResult(intrinsic[1].about, ("a",), ("a",), columns, ())
    factors = torch.cartesian_prod(torch.arange(2), torch.arange(2))
    dead = causal_result("dead", torch.ones(4, 3), factors)
    assert page_text(write(nothing, coverage[0], dead)) == snapshot
    assert "<svg" not in write(dead)


def test_sections_and_settings_of_other_data_and_settings(write, intrinsic, concepts, snapshot):
    first, second = (
        replace(one, about=replace(one.about, model={"name": "abc", "weights": "abcdef" * 10 + letter * 4}))
        for one, letter in zip(intrinsic, "gh", strict=True)
    )
    elsewhere = replace(first, about=replace(first.about, data={"name": "elsewhere"}))
    layers = (None, ["reflectance.blocks.2", "shading.blocks.2"])
    split = [
        replace(one, about=replace(one.about, settings={"runs": 20, "recipe": "e" * 64, "layer": layer}))
        for one, layer in zip(concepts, layers, strict=True)
    ]
    assert page_text(write(first, second, elsewhere, *split)) == snapshot


def test_many_codes_are_drawn_without_numbers_and_every_encoder_is_drawn(write, causal_result):
    factors = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    codes = torch.rand(9, 40, generator=torch.Generator().manual_seed(0))
    page = write(*(causal_result(name, codes, factors) for name in ("many", "other")))
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 2
    assert len(re.findall("<text", drawings[0])) < 20


def test_a_page_without_results_is_its_title(write):
    assert page_text(write()) == "# Bare\n"


@pytest.mark.parametrize(
    ("metric", "name"), [("lmse", "lmse_shading"), ("csm", "sets"), ("waiou", "parts"), ("codes", "matrix")]
)
def test_results_that_lack_a_part_of_a_page_are_refused(write, everything, metric, name):
    result = next(one for one in everything["results"] if one.about.metric == metric)
    about = replace(result.about, settings={k: v for k, v in result.about.settings.items() if k != name})
    field = "columns" if metric == "lmse" else "details"
    kept = {k: v for k, v in getattr(result, field).items() if k != name}
    with refused(rf"^results of `{metric}` \(.*\) lack `{name}` for a page; make it.*$"):
        write(replace(result, about=about, **{field: kept}))


def test_an_existing_page_is_replaced_atomically(tmp_path):
    path = tmp_path / "new folder" / "r.html"
    for title in ("one", "two"):
        assert write_report(path, [], title=title) == path
    assert "two" in path.read_text()
    assert [item.name for item in path.parent.iterdir()] == ["r.html"]


@pytest.mark.parametrize("name", [".", "file/r.html"])
def test_a_path_that_cannot_be_written(tmp_path, name):
    (tmp_path / "file").touch()
    with refused(r"cannot be written: .+; name another file$"):
        write_report(tmp_path / name, [], title="Bare")
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


@pytest.mark.oracle
@pytest.mark.parametrize("width", [1000, 400])
def test_a_browser_shows_the_page_without_errors_and_requests(browser, text, tmp_path, width):
    file, problems, requests = tmp_path / "report.html", [], []
    file.write_text(text, encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    pictures = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    reaches = page.evaluate("document.documentElement.scrollWidth")
    heading = page.inner_text("h1")
    page.close()
    assert heading == "Demo <of> candlelight"
    assert problems == []
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert pictures
    assert min(pictures) > 0
    assert reaches <= width  # wide tables scroll by themselves
