"""``candlelight evaluate protocols``: one, several and all, and the page."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.intrinsic.protocol_records import NEVER_COMPARE, PROTOCOLS
from candlelight.evaluation.run.result_files import read_results

PAGES = Path(__file__).parents[1] / "test_pages.py"
MODELS = ("--model", "constant-reflectance", "--model", "constant-shading")


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> Path:
    """Write frames of noise with the sets of the demo."""
    spec = spec_from_file_location("pages", PAGES)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    root = tmp_path_factory.mktemp("frames")
    module.write_noise(root)
    return root


def run(data: object, *words: object, code: int = 0) -> str:
    options = () if str(data).startswith("nowhere") else ("--set", "negatives", "--limit", "2")
    line = ["evaluate", "protocols", data, *options, *MODELS, "--device", "cpu", *words]
    result = CliRunner().invoke(main, [str(word) for word in line])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def lines_of(output: str) -> list[str]:
    """Leave out progress bars."""
    return [
        line for line in output.splitlines() if line and not re.search(r"it/s|row/s|\?it|: +[0-9]+%", line)
    ]


def test_all_protocols_on_rendered_frames(frames, tmp_path) -> None:
    out, page = tmp_path / "all.json", tmp_path / "all.html"
    text = run(frames, "--protocol", "all", "--out", out, "--report", page)
    lines = lines_of(text)
    start = next(row for row, line in enumerate(lines) if line.startswith("protocol "))
    names = [name for name in PROTOCOLS if name != "maw-2023"]  # noise has no regions of one material
    assert [line.split()[0] for line in lines[start + 1 : start + 17]] == names
    assert lines[start + 17].startswith("ranks ")
    assert "never comparable" in lines[start + 18]
    assert "note: left out: maw-2023: the data have no regions of one material" in lines
    changes = int(re.search(r"^(\d+) of 15 pairs", text, re.MULTILINE)[1])
    assert len(re.findall(r"^[a-z0-9-]+: .*; [a-z0-9-]+: ", text, re.MULTILINE)) == changes
    results = read_results(out)
    assert len(results) == 2 * len(names)
    shown = page.read_text()
    assert shown.count("Evaluation protocols") >= 1
    for words in (
        "Rank of each model by the main score",
        *(text.replace("'", "&#39;") for text in NEVER_COMPARE),
    ):
        assert words in shown
    assert not (tmp_path / "all.json.partial").exists()
    again = tmp_path / "again.html"
    done = CliRunner().invoke(main, ["evaluate", "report", str(out), "--out", str(again)])
    assert done.exit_code == 0, done.output
    assert "Rank of each model by the main score" in again.read_text()


def test_one_protocol_prints_the_usual_table(frames, tmp_path) -> None:
    files = [tmp_path / "one.json", tmp_path / "one.rows.csv"]
    text = run(frames, "--protocol", "mit-grosse", "--out", files[0], "--out", files[1])
    assert re.search(r"^constant-shading +lmse ↓ ", text, re.MULTILINE)
    assert "lmse ↓: constant-reflectance - constant-shading" in text
    about = json.loads(files[0].read_text())["results"][0]["about"]
    assert (about["metric"], about["settings"]["protocol"]) == ("mit-grosse", "mit-grosse")
    assert files[1].read_text().startswith("model,id,group,lmse,")


def test_several_protocols_in_their_own_order(frames) -> None:
    text = run(frames, "--protocol", "iiw-whdr, mit-barron", "--protocol", "mit-grosse")
    names = [line.split()[0] for line in lines_of(text)]
    assert names[names.index("protocol") + 1 :][:3] == ["mit-grosse", "mit-barron", "iiw-whdr"]
    assert "of 2 pairs of neighbouring protocols order the models differently" in text


def test_interrupted_run_resumes(frames, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("candlelight.evaluation.run.result_files.write_results", lambda *_: 1 / 0)
    out = tmp_path / "out.json"
    line = [
        "evaluate",
        "protocols",
        frames,
        "--set",
        "negatives",
        *MODELS,
        "--protocol",
        "mit-grosse,saw",
        "--out",
        out,
    ]
    assert CliRunner().invoke(main, [str(word) for word in line]).exit_code == 1
    monkeypatch.undo()
    assert (
        "4 of 4 steps were already finished" in CliRunner().invoke(main, [str(word) for word in line]).output
    )


def test_results_of_a_protocol_are_not_compared_with_others(frames, tmp_path) -> None:
    files = [tmp_path / f"{name}.json" for name in ("plain", "protocol")]
    words = (frames, "--set", "negatives", "--limit", 2, *MODELS, "--device", "cpu", "--out", files[0])
    assert CliRunner().invoke(main, ["evaluate", "whdr", *map(str, words)]).exit_code == 0
    run(frames, "--protocol", "iiw-whdr", "--out", files[1])
    done = CliRunner().invoke(main, ["evaluate", "compare", *map(str, files)])
    assert done.exit_code == 2
    assert "the results differ in settings.protocol, 'nothing' and 'iiw-whdr'" in done.output


@pytest.mark.slow
def test_files_of_another_program_are_resized(frames, tmp_path) -> None:
    from candlelight.evaluation.views import open_data

    view = open_data("decompositions", frames, set_name="negatives")
    for row, name in enumerate(view.ids):
        image = view[row].image
        np.savez(tmp_path / f"{name}.npz", reflectance=image, shading=np.ones(image.shape, np.float32))
    text = run(frames, "--protocol", "all", "--predictions", f"mine={tmp_path}")
    assert "note: mine: 2 of 2 predictions had another size than their image and were resized" in text
    assert "of 15 pairs" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--protocol", "mit-gross"), "protocol `mit-gross` is not known; "),
        (("--protocol", "arap-ordnal"), "did you mean `arap-ordinal`?"),
        (("--protocol", ","), "--protocol: expected a name, names separated by commas, or all, got none"),
        (("--protocol", "all,saw"), "--protocol: expected all, or names, got all, saw"),
    ],
)
def test_bad_options_give_one_line(frames, words, message) -> None:
    output = run(frames, *words, code=2)
    assert message in output
    assert len(lines_of(output)) == 1


@pytest.mark.parametrize(
    ("data", "protocol", "message"),
    [
        ("nowhere", "all", "no protocol fits the data; nowhere"),
        ("nowhere", "mit-grosse", "protocol `mit-grosse`: nowhere"),
        ("nowhere", "maw-2023,mit-grosse", "protocol `mit-grosse`: nowhere"),
    ],
)
def test_data_that_carry_nothing_give_one_line(data, protocol, message) -> None:
    output = run(data, "--protocol", protocol, code=2)
    assert message in output
    assert len(lines_of(output)) == 1


def test_photographs_carry_the_protocols_of_their_judgements(tmp_path) -> None:
    spec = spec_from_file_location("writers", PAGES.parents[1] / "evaluation" / "views" / "conftest.py")
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    made.write_iiw(tmp_path)
    line = ["evaluate", "protocols", f"iiw:{tmp_path}", "--split", "all", *MODELS, "--protocol"]
    done = CliRunner().invoke(main, [*line, "all"])
    assert done.exit_code == 0, done.output
    assert "left out: mit-grosse: " in done.output
    assert "`iiw` has no decompositions" in done.output
    assert "left out: saw: the data have no labels" in done.output
    assert len(re.findall("^note: left out: ", done.output, re.MULTILINE)) == len(PROTOCOLS) - 2
    refused = CliRunner().invoke(main, [*line, "mit-grosse"])
    assert refused.exit_code == 2
    assert "protocol `mit-grosse`: iiw:" in refused.output
