import numpy as np
import pytest
import torch

from candlelight.evaluation.perception import DetectionLevels, fit_psychometric, psychometric
from candlelight.evaluation.perception.experiment import measured_thresholds
from candlelight.evaluation.perception.experiment.answers import AnswerLog
from tests.evaluation.perception.experiment.conftest import answer
from tests.refusals import refused


@pytest.fixture
def write_log(tmp_path):
    """Write a log of answers of a psychometric function; a transform of None is of rated pairs."""

    def write(name, answers):
        path = tmp_path / f"{name}.jsonl"
        with AnswerLog(path, {"experiment": name}) as log:
            for transform, magnitudes, correct in answers:
                kind = "rated" if transform is None else "transform"
                for magnitude, right in zip(magnitudes.tolist(), correct.tolist(), strict=True):
                    shown = {"transform": transform, "magnitude": magnitude}
                    log.append(answer(len(log.records), kind=kind, correct=right, **shown))
        return path

    return write


def answers_of(threshold, slope, levels, repeats=30):
    shown = torch.tensor(levels, dtype=torch.float64).repeat_interleave(repeats)
    shares = psychometric(shown, threshold, slope)
    return shown, torch.arange(len(shown)) % repeats < (repeats * shares).round()


def test_both_axes_and_all_logs_are_one_threshold(write_log):
    x, y = answers_of(0.2, 40, np.linspace(0.05, 0.5, 8)), answers_of(0.25, 40, np.linspace(0.05, 0.5, 8))
    logs = [write_log("a", [("translation x", *x)]), write_log("b", [("translation y", *y)])]
    found = measured_thresholds(logs)
    shown, correct = (torch.cat(both) for both in zip(x, y, strict=True))
    fit = fit_psychometric(shown, correct.int(), torch.ones_like(correct, dtype=torch.int))
    assert found.human == {"translation": fit.score, "parallax x": fit.score}
    assert 0.2 < fit.score < 0.25
    assert found.detection == DetectionLevels()
    [note] = found.notes
    assert note.startswith(f"translation: threshold of people {fit.score:.4g} degrees, of 480 answers")


def test_parallax_may_have_its_own_threshold(write_log):
    levels = np.linspace(0.05, 0.5, 8)
    answers = [("parallax x", *answers_of(0.3, 40, levels)), ("translation x", *answers_of(0.2, 40, levels))]
    found = measured_thresholds([write_log("a", answers)])
    assert found.human == pytest.approx({"parallax x": 0.3, "translation": 0.2}, abs=0.01)


def test_a_threshold_below_the_unchanged_image_is_none(write_log):
    answers = [("scale", *answers_of(0.995, 30, np.linspace(1.01, 1.2, 8), 60))]
    found = measured_thresholds([write_log("a", answers)])
    assert found.human == {}
    [note] = found.notes
    assert note.startswith("scale: the fit to 480 answers failed (its threshold, 0.99")
    assert note.endswith("is no change at all); the published threshold holds, 1.026 factor")


def test_logs_without_answers(write_log):
    with refused("at least one log of answers, got none"):
        measured_thresholds([])
    with refused(r"a\.jsonl: has no answers yet; continue the experiment"):
        measured_thresholds([write_log("a", [])])


def test_an_answer_in_two_logs_is_refused(write_log, tmp_path):
    log = write_log("a", [("rotation", *answers_of(3, 2, np.linspace(1, 6, 8)))])
    copy = tmp_path / "merged.jsonl"
    copy.write_bytes(log.read_bytes())
    for other in (log, copy):
        with refused(r"the answer of ann to trial 0 stands in .*a.jsonl too; name one "):
            measured_thresholds([log, other])
