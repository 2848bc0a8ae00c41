import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import pytest
import torch

from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.result import MeanResult
from candlelight.loaders.errors import InputError

HOSTILE = "<script>alert('1')</script>"  # as in conftest.py
VOID = {"meta", "img", "input", "link", "br", "hr", "wbr"}
NAMES = {"href", "src", "srcset", "action", "data", "poster", "xlink:href", "formaction", "ping"}


class Page(HTMLParser):
    """Parser that collects elements and table cells, and checks that all tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data.replace("\N{NO-BREAK SPACE}", " ")

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    def row(self, *start):
        """The only rows that start with these cells."""
        return [row for row in self.rows if row[: len(start)] == list(start)]


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
    return write_report(tmp_path_factory.mktemp("page") / "report.html", **everything).read_text(
        encoding="utf-8"
    )


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_is_one_well_formed_document(page, text):
    assert text.startswith("<!doctype html>")
    assert page.open == []
    assert page.all("html") == [{"lang": "en"}]
    assert page.all("meta")[0] == {"charset": "utf-8"}
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    ids = [attrs["id"] for _, attrs in page.elements if attrs.get("id")]
    assert len(ids) == len(set(ids))


def test_page_has_no_external_references(page, text):
    words = re.sub(r"base64,[\w+/=\s]*", "", text)
    assert not re.search(r"https?:|//|@import|url\((?!#)", words)
    assert page.all("script") == page.all("link") == page.all("iframe") == []
    targets = [value for _, attrs in page.elements for name, value in attrs.items() if name in NAMES]
    assert targets
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in targets)
    ids = {attrs.get("id") for _, attrs in page.elements}
    inside = {target[1:] for target in targets if target.startswith("#")}
    inside |= set(re.findall(r"url\(#([^)]*)\)", text))
    assert inside <= ids
    policy = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_every_picture_and_drawing_is_described(page):
    images = page.all("img")
    assert len(images) == 3  # seven layers make two sheets of `plain`, one layer makes one of `caught`
    assert all(image["alt"].startswith("Contact sheet of set ") for image in images)
    drawings = [attrs for attrs in page.all("div") if attrs.get("role") == "img"]
    assert len(drawings) == len(page.all("svg")) == 6  # three of them of coverage
    assert all(drawing["aria-label"] for drawing in drawings)
    labels = {attrs["id"] for _, attrs in page.elements if attrs.get("id")}
    named = [attrs["aria-labelledby"] for _, attrs in page.elements if "aria-labelledby" in attrs]
    assert set(named) <= labels
    assert len(page.all("label")) == len(page.all("input")) == 1  # of the sheets that a phone makes smaller


def test_tables_name_their_rows_and_columns(page):
    heads = [attrs.get("scope") for attrs in page.all("th")]
    assert set(heads) == {"col", "row"}
    regions = [attrs for attrs in page.all("div") if "scroll" in attrs.get("class", "").split()]
    assert len(regions) == len(page.all("table"))
    assert all(region["tabindex"] == "0" and region["aria-label"] for region in regions)


def test_hostile_names_stay_text(page, text):
    assert "<script" not in text
    assert "<of>" not in text
    assert "<b>" not in text
    assert "Demo <of> candlelight" in page.text
    assert f"Noise {HOSTILE} Licence" in page.text
    assert "first $x$ & <b>" in page.text


def test_names_that_look_like_markup_are_not_rewritten_in_drawings(write, intrinsic):
    name = 'href="#010203" id="x" url(#y)'
    result = intrinsic[1]
    text = write(replace(result, about=replace(result.about, model={"name": name})))
    page = Page(text)
    assert page.text.count(name) >= 3  # table, note, drawing
    assert page.open == []


def test_same_input_gives_the_same_bytes_whatever_matplotlib_is_set_to(tmp_path, everything, text):
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        again = write_report(tmp_path / "again.html", **everything).read_text(encoding="utf-8")
        assert matplotlib.rcParams["font.size"] == 30
    assert again == text


def test_set_tables(page):
    (color,) = [row for row in page.row("color") if len(row) == 4]
    assert color == [
        "color",
        "categorical",
        f"red, {HOSTILE} (4 each); never (none)",
        "changes",
    ]
    (size,) = [row for row in page.row("size (m)") if len(row) == 4]
    assert size == ["size (m)", "categorical", "1.5, 2 (4 each)", "fixed"]
    assert page.row("angle (degrees)")[0][2] == "0 to 70 (planned: 0.0 to 90.0)"
    assert page.row("samples") == [["samples", "8 of 9"], ["samples", "2 of 2"]]
    assert page.row("exposure")[0] == ["exposure", "0.5, the same for all samples"]
    identity = [row[1] for row in page.row("largest identity error")]
    reason = "with a shadow catcher, the passes do not add up to the image"
    assert identity == ["8.00e-07", f"not defined: {reason}"]
    assert page.row("largest stored error")[0][1] == "0.000400"
    assert page.row("clipped pixels")[0][1] == "3.50% on average, 7.00% at most"


def test_description_of_a_data_set_is_given_once(text):
    assert text.count("Licence CC0-1.0") == 1


def test_intrinsic_numbers(page):
    # LMSE 0.1, 0.2, 0.3: the t interval of three groups is the mean and 4.303 times 0.1 / sqrt(3).
    assert ["score", "first $x$ & <b>", "second"] in page.rows
    assert page.row("rows scored") == [["rows scored", "3 of 3", "2 of 3"]]
    assert page.row("failed") == [["failed", "0", "1"]]
    (lmse,), (reflectance,) = page.row("lmse ↓"), page.row("lmse_reflectance ↓")
    assert lmse[1] == "0.200 (-0.048 to 0.45)"
    assert lmse[2].startswith("0.0200 (")
    assert reflectance[1] == "0.400 (-0.097 to 0.90)"
    assert "second: 1 of 3 rows are left out, because LMSE is not defined" in page.text
    assert "second: 1 of 3 predictions failed (missing or not finite) and count as LMSE 1." in page.text
    assert "LMSE of the other rows is 0.0100" in page.text


def test_concept_numbers_and_why_some_are_missing(page):
    for alignment in ("aligned", "unaligned"):  # mean of 0.8 / 0.4 and 0.9 / 0.1
        assert page.row(f"csm_s {alignment}, all sets ↑")[0][1] == "5.50"
        assert page.row(f"csm_r {alignment}, all sets ↑")[0][1] == "∞"
    assert page.row("csm_s aligned, both branches ↑")[0][1] == "2.00"
    reason = "because the reflectance does not respond to some illumination set"
    assert f"model: csm_r aligned is infinite, {reason}" in page.text
    assert "blind: csm_s aligned is not defined" in page.text
    assert page.row("runs") == [["runs", "20", "", ""]]
    detail = page.row("blind", "albedo")[0]
    assert detail[2:6] == [f"scene {HOSTILE}, temperature 4500", "20", "aligned", "0.00 ± 0.050"]


def test_coverage_numbers(page):
    conv1, conv2 = (next(row for row in page.row(name) if len(row) == 5) for name in ("conv1", "conv2"))
    assert conv1 == ["conv1", "1%", "0.500", "0.250 (0.500, 1)", "not defined"]
    assert conv2 == ["conv2", "10%", "0.250", "0.125 (0.250, 1)", "not defined"]
    assert "WAIoU of torus is not defined: no image shows it." in page.text
    assert "conv2: 1 heatmaps are missing, not finite or constant" in page.text


def test_one_method_is_not_compared(write, coverage):
    assert "With one method, WAIoU is its mean IoU" in write(coverage[0])


def test_causal_numbers(page):
    assert page.row("irs ↑") == [["irs ↑", "1.00 (0.90 to 1.0)"]]
    assert page.row("mig ↑") == [["mig ↑", "not defined"]]
    assert page.row("0", "1.00")[0][-1] == "color"
    assert page.row("1")[0][-1] == "size"
    assert "IRS" in page.text
    assert "MIG: information of the code about the factor" in page.text
    assert "images with each value: color 2, size 3." in page.text


def test_an_encoder_without_codes_has_no_heat_map(write, causal_result):
    factors = torch.cartesian_prod(torch.arange(2), torch.arange(2))
    page = Page(write(causal_result("dead", torch.ones(4, 3), factors)))
    assert "dead: all images have the same codes, so IRS is 0." in page.text
    assert page.all("svg") == []


def test_many_codes_are_drawn_without_numbers(write, causal_result):
    factors = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    codes = torch.rand(9, 40, generator=torch.Generator().manual_seed(0))
    svg = re.search(r"<svg.*</svg>", write(causal_result("many", codes, factors)), re.DOTALL)[0]
    assert len(re.findall("<text", svg)) < 20


def test_models_without_defined_scores_are_drawn(write, intrinsic):
    columns = dict.fromkeys(intrinsic[1].columns, (float("nan"),))
    nothing = MeanResult(intrinsic[1].about, ("a",), ("a",), columns, ())
    page = Page(write(nothing))
    assert page.row("rows scored") == [["rows scored", "0 of 1"]]
    assert [row[1] for row in page.rows if row[0].endswith("↓")] == ["not defined"] * 7


def test_results_of_other_data_have_a_section_of_their_own(write, intrinsic):
    about = replace(intrinsic[0].about, data={"name": "elsewhere"})
    other = MeanResult(about, intrinsic[0].ids, intrinsic[0].groups, intrinsic[0].columns, ())
    page = Page(write(intrinsic[0], other))
    assert [section["id"] for section in page.all("section")] == ["intrinsic", "intrinsic-2"]
    assert "Intrinsic images: elsewhere" in page.text


def test_results_of_other_settings_have_a_title_of_their_own_and_are_explained_once(write, concepts):
    names = ["reflectance.blocks.2", "shading.blocks.2"]
    one, other = (
        replace(result, about=replace(result.about, settings={"runs": 20, "layer": layer}))
        for result, layer in zip(concepts, (None, names), strict=True)
    )
    page = Page(write(one, other))
    links = {attrs["href"] for attrs in page.all("a")}
    assert links == {"#concepts", "#concepts-2"}
    assert page.text.count("Concept sensitivity: tiny, 3 rows; layer none\n") == 2  # contents and heading
    assert page.text.count("; layer reflectance.blocks.2, shading.blocks.2\n") == 2
    assert page.text.count("Blind to") == 1


def test_scores_come_before_image_sets(page):
    sections = [section["id"] for section in page.all("section")]
    assert sections == ["intrinsic", "concepts", "codes", "coverage", "sets", "settings"]


def test_settings_name_shared_values_once_and_shorten_checksums(write, intrinsic):
    one, other = (
        replace(
            result,
            about=replace(
                result.about,
                model={"name": letter, "weights": letter * 64},
                settings={"recipe": "e" * 64},
            ),
        )
        for result, letter in zip(intrinsic, "ab", strict=True)
    )
    page = Page(write(one, other))
    assert page.row("recipe") == [["recipe", "e" * 12 + "…", "", ""]]
    assert page.row("model weights") == [["model weights", "", "a" * 12 + "…", "b" * 12 + "…"]]


def test_every_encoder_is_drawn(write, causal_result):
    factors = torch.cartesian_prod(torch.arange(3), torch.arange(2))
    results = [causal_result(name, factors.double(), factors) for name in ("one", "other")]
    assert len(Page(write(*results)).all("svg")) == 2


def test_metrics_without_results_are_left_out(write):
    text = write()
    page = Page(text)
    assert page.all("section") == page.all("a") == page.all("table") == []
    assert page.text.split()[:1] == ["Bare"]


@pytest.mark.parametrize(
    ("metric", "name"), [("lmse", "lmse_shading"), ("csm", "sets"), ("waiou", "parts"), ("codes", "matrix")]
)
def test_results_that_lack_a_part_of_a_page_are_one_line(write, everything, metric, name):
    result = next(one for one in everything["results"] if one.about.metric == metric)
    about = replace(result.about, settings={k: v for k, v in result.about.settings.items() if k != name})
    field = "columns" if metric == "lmse" else "details"
    kept = {k: v for k, v in getattr(result, field).items() if k != name}
    lost = replace(result, about=about, **{field: kept})
    with pytest.raises(InputError, match=rf"results of `{metric}` \(.*\) lack `{name}` for a page; make it"):
        write(lost)


def test_an_existing_page_is_replaced_atomically(tmp_path):
    path = tmp_path / "new folder" / "r.html"
    for title in ("one", "two"):
        assert write_report(path, [], title=title) == path
    assert "two" in path.read_text()
    assert [item.name for item in path.parent.iterdir()] == ["r.html"]


@pytest.mark.parametrize("blocked", ["folder", "parent is a file"])
def test_a_path_that_cannot_be_written(tmp_path, blocked):
    path = tmp_path / "r.html"
    if blocked == "folder":
        path.mkdir()
    else:
        path.write_text("")
        path = path / "r.html"
    with pytest.raises(InputError, match=r"r\.html cannot be written: .+; name another file") as caught:
        write_report(path, [], title="Bare")
    assert "\n" not in str(caught.value)
    assert [item.name for item in tmp_path.iterdir()] == ["r.html"]


def test_evaluation_is_imported_without_matplotlib():
    names = {"matplotlib", "jinja2", "PIL", "torch"}
    code = f"import sys, candlelight.evaluation; print({names} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


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
