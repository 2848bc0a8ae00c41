"""Bad use of the commands gives one line, before anything is computed."""

import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import Provenance, StatisticResult
from candlelight.evaluation.run.result_files import write_results

RETINEX = ("--model", "retinex")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lmse", "nowhere"), "nothing to score: give a --model, or result files of another program"),
        (("lmse", "nowhere", *RETINEX), "nowhere: does not exist; expected a folder of frames"),
        (("lmse", "nowhere", *RETINEX, *RETINEX), "two models are named `retinex`"),
        (("lmse", "nowhere", "--model", "retinx"), "did you mean `retinex`?"),
        (
            ("lmse", "nowhere", *RETINEX, "--out", "no/folder.json"),
            "its folder does not exist",
        ),
        (
            ("lmse", "nowhere", *RETINEX, "--out", "a.txt"),
            "expected a file name that ends in .json",
        ),
        (
            ("lmse", "nowhere", *RETINEX, "--out", "a.csv", "--out", "a.csv"),
            "--out: expected different files, got one of a.csv, a.csv twice",
        ),
        (("lmse", "nowhere", *RETINEX, "--device", "abacus"), "--device abacus: not usable here"),
        (("lmse", "mitt:x", *RETINEX), "did you mean `mit`?"),
        (("lmse", "nowhere", "--predictions", "none"), "none"),
        (("codes", "nowhere", "--codes", "codes.npz"), "codes.npz: expected a file of codes, there is none"),
        (("report", "nowhere.json", "--out", "a.html"), "nowhere.json: cannot be read"),
        (("compare", "nowhere.json", "nowhere.json"), "nowhere.json: cannot be read"),
        (("compare", "nowhere.json"), "nowhere.json: cannot be read"),
    ],
)
def test_bad_use_gives_one_line(words, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["evaluate", *words])
    assert result.exit_code == 2, (result.output, result.exc_info)
    assert message in result.output
    assert result.output.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())


def test_a_page_of_an_edited_file_is_refused_in_one_line(tmp_path) -> None:
    about = Provenance("codes", 7, "higher", {"name": "vae"}, {}, {"factors": ["x", "y"]}, {})
    details = {"codes": [0], "matrix": 5, "parents": [0], "weights": [1.0], "matrices": {}}
    path = tmp_path / "irs.json"
    write_results(path, [StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), details)])
    result = CliRunner().invoke(main, ["evaluate", "report", str(path), "--out", str(tmp_path / "a.html")])
    assert result.exit_code == 2, (result.output, result.exc_info)
    assert f"{path}: cannot be shown, a field is missing or damaged" in result.output
    assert result.output.strip().count("\n") == 0
    assert not (tmp_path / "a.html").exists()
