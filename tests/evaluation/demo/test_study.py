"""The study trains and scores again exactly if one of its inputs has changed."""

import pytest

from candlelight.evaluation.demo import rebuild, study
from candlelight.evaluation.run.result import MeanResult, Provenance, Score, StatisticResult
from candlelight.evaluation.run.result_files import write_results

SCORES = {
    "concepts": dict.fromkeys(("csm_s aligned, all sets", "csm_r aligned, all sets"), Score(1.0, 0.5, 2.0)),
    "coverage": dict.fromkeys(("waiou", "mean_iou"), Score(0.5, 0.4, 0.6)),
    "causal": dict.fromkeys(("irs", "unconfoundedness(1)"), Score(0.5, 0.4, 0.6)),
}


def results_of(evaluation, name=study.CODE_LAYER):
    about = Provenance(evaluation, 1, "higher", {"name": name}, {}, {}, {})
    if evaluation == "intrinsic":
        return MeanResult(about, ("a",), ("a",), {"lmse": (0.5,)}, ())
    return StatisticResult(about, SCORES[evaluation], {}, (), (), {})


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a study whose steps only record that they ran."""
    done = []

    def train(data, out, *settings):
        done.append("train")
        for name in (study.WEIGHTS, study.TRAINING):
            (out / name).write_text(f"{(data / 'frame').read_text()} {settings}")

    def score(data, out, *settings):
        done.append("score")
        for name in study.EVALUATIONS:
            names = (study.CODE_LAYER, study.CONTROL) if name == "coverage" else (study.CODE_LAYER,)
            write_results(out / f"{name}.json", [results_of(name, model) for model in names])
        (out / study.REPORT).touch()

    monkeypatch.setattr(study, "_train", train)
    monkeypatch.setattr(study, "_score", score)
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "frame").write_text("pixels")

    def run(**settings):
        done.clear()
        lines = []
        made = study.run_study(tmp_path / "frames", tmp_path / "study", tell=lines.append, **settings)
        assert len(lines) == 2
        assert len(made.summary()) == 4
        assert made.summary()[2].endswith(
            "0.500 by encoder.3, the best layer; 0.500 by control: middle of every image"
        )
        return list(done)

    run.folder = tmp_path
    return run


def test_a_second_run_does_nothing(run):
    assert run() == ["train", "score"]
    assert run() == []


@pytest.mark.parametrize("settings", [{"epochs": 3}, {"seed": 1}, {"device": "meta"}], ids=str)
def test_other_settings_train_and_score_again(run, settings):
    run()
    assert run(**settings) == ["train", "score"]


def test_another_frame_trains_and_scores_again(run):
    run()
    (run.folder / "frames" / "frame").write_text("pixel5")
    assert run() == ["train", "score"]


def test_another_version_trains_and_scores_again(run, monkeypatch):
    run()
    monkeypatch.setattr(rebuild, "RELEASE", "99")
    assert run() == ["train", "score"]


def test_deleted_scores_are_computed_again_with_the_same_network(run):
    run()
    (run.folder / "study" / "causal.json").unlink()
    assert run() == ["score"]
