import math

from candlelight.evaluation.concepts.tcav_report import tcav_section
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.result import MeanResult, Provenance

HOSTILE = "<script>alert('1')</script>"


def entry(layer, concept, score, **more):
    undefined = score is None
    random = ("random", "random_spread", "random_derivative", "random_derivative_spread")
    numbers = dict.fromkeys(("derivative", *random, "t_test_p"), None if undefined else 0.25)
    numbers |= {"spread": None if undefined else 0.1, "accuracy": None if undefined else 0.75}
    return {
        **{"layer": layer, "concept": concept, "images": 20, "score": score, "significant": False},
        **{"flat": None if undefined else 0.0, **numbers, **more},
    }


def result(name, *entries, notes=(), **settings):
    layers = list(dict.fromkeys(one["layer"] for one in entries))
    settings = {"layers": layers, "target": "logit:3", "gradient_of": "logit", "p": 0.05} | settings
    about = Provenance("tcav", 1, "neither", {"name": name}, {"name": "tiny"}, settings, {})
    columns = {}
    for one in entries:
        value = math.nan if one["score"] is None else one["score"]
        columns[f"{one['concept']} at {one['layer']}"] = (value, value)
        columns[f"{one['concept']} at {one['layer']}, derivative"] = (-value, -value)
    return MeanResult(about, ("x", "y"), ("x", "y"), columns, (), {"scores": list(entries), "notes": notes})


def blocks(*results):
    return tcav_section(list(results), []).blocks


def test_rows_of_the_table():
    control = {"images": 24, "effect": 3.0, "permutation_p": 0.01, "adjusted_p": 0.02}
    found = result("net", entry("one", "red", 0.5, control=control), entry("one", "blue", None))
    table, *notes, plot, _ = blocks(found)
    assert len(set(map(len, (table.head, *table.rows)))) == 1
    red, blue = table.rows
    assert red[:3] == ("net", "one", "red (20)")
    assert red[3].startswith("0.500 (")
    assert red[6].startswith("-0.500 (")
    assert red[-2:] == ("0.25", "0.020")
    assert blue[3] == blue[6] == "not defined"
    assert blue[-1] == "no control"
    (note,) = notes
    assert note.text.startswith("Note. net, blue at one: not defined, because all images have the same")
    assert "net, red at one: 0.500" in plot.alt
    assert "raises logit:3" in plot.caption


def test_notes_on_tests_and_flat_derivatives():
    found = result("net", entry("one", "red", 0.5, flat=0.25), gradient_of="loss", target="norm")
    _, untested, flat, plot, _ = blocks(found)
    assert "permutation test needs control images" in untested.text
    assert "net, red at one: 25 % of the derivatives are 0" in flat.text
    assert "lowers norm" in plot.caption


def test_notes_on_few_images_are_shown_once():
    control = {"images": 24, "effect": 3.0, "permutation_p": 0.01, "adjusted_p": 0.02}
    one, other = (
        result(name, entry("one", "red", 0.5, control=control), notes=["few images"]) for name in "ab"
    )
    _, *notes, _, _ = blocks(one, other)
    assert [note.text for note in notes] == ["Note. few images."]


def test_dots_are_filled_by_the_control_or_else_by_the_t_test():
    def filled(**more):
        svg = blocks(result("net", entry("one", "red", 0.5, **more)))[-2].svg
        return svg.count("fill: #3b8fd0")

    control = {"images": 24, "effect": 3.0, "permutation_p": 0.01, "adjusted_p": 0.02}
    hollow = filled()
    assert filled(significant=True) > hollow
    assert filled(control=control) > hollow
    assert filled(control=control | {"adjusted_p": 0.5}, significant=True) == hollow


def test_page_of_several_networks_escapes_names(tmp_path):
    entries = [entry(layer, name, 0.5) for layer in ("one", "two") for name in ("red", HOSTILE)]
    results = [result(name, *entries) for name in ("net", HOSTILE)]
    path = write_report(tmp_path / "page.html", results, title="T")
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("<h2") == 1
    again = write_report(tmp_path / "again.html", results, title="T")
    assert again.read_bytes() == path.read_bytes()
