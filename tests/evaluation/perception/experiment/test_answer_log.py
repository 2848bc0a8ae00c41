import json

import numpy as np
import pytest

from candlelight.evaluation.perception.experiment import read_answers
from candlelight.evaluation.perception.experiment.answers import AnswerLog
from tests.evaluation.perception.experiment.conftest import answer
from tests.refusals import refused

SETTINGS = {"levels": 3, "data": {"name": "photographs", "split": None}, "seed": 0}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.jsonl"


@pytest.fixture
def begun(path):
    """A log with one answer."""
    with AnswerLog(path, SETTINGS) as log:
        log.append(answer(0))
    return path


def test_each_answer_is_on_disk_at_once_and_is_read_back(path):
    with AnswerLog(path, SETTINGS) as log:
        for trial in range(3):
            log.append(answer(trial, magnitude=trial / 3, correct=trial == 1))
            assert len(path.read_text().splitlines()) == trial + 2
        log.append(answer(0, observer="bob", kind="rated", transform=None, image="i01_01_1"))
        assert [log.answered(name) for name in ("ann", "bob")] == [{0, 1, 2}, {0}]
    assert json.loads(path.read_text().splitlines()[0])["settings"] == SETTINGS
    found = read_answers(path)
    np.testing.assert_array_equal(found.magnitudes, [0, 1 / 3, 2 / 3, 0.5])
    np.testing.assert_array_equal(found.correct, [False, True, False, True])
    np.testing.assert_array_equal(found.seconds, [1.25] * 4)
    assert found.kind == ("transform", "transform", "transform", "rated")
    assert found.transform == ("rotation", "rotation", "rotation", None)
    assert found.image == ("a.png", "a.png", "a.png", "i01_01_1")
    assert found.observer == ("ann", "ann", "ann", "bob")
    assert (len(found), found.settings) == (4, SETTINGS)


@pytest.mark.parametrize("keep", [1, 40, -1])
def test_a_torn_last_line_is_dropped(begun, keep):
    whole = begun.read_bytes()
    begun.write_bytes(whole + f"{answer(1).model_dump_json()}\n".encode()[:keep])
    assert len(read_answers(begun)) == 1
    with AnswerLog(begun, SETTINGS) as log:
        assert log.answered("ann") == {0}
        log.append(answer(1, seconds=7.0))
    assert begun.read_bytes().startswith(whole)
    np.testing.assert_array_equal(read_answers(begun).seconds, [1.25, 7])


def test_a_log_without_answers_is_begun_anew(path):
    for settings in (SETTINGS, {"levels": 4}):
        with AnswerLog(path, settings):
            pass
    assert read_answers(path).settings == {"levels": 4}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": 4}, "was begun with levels 3, got 4; repeat the settings to continue it"),
        ({"data": {"name": "b"}}, "was begun with data name photographs, got name b"),
        ({"pitch": 0.2}, "was begun with pitch none, got 0.2"),
    ],
)
def test_other_settings_are_refused(begun, changes, message):
    before = begun.read_bytes()
    with refused(message):
        AnswerLog(begun, {**SETTINGS, **changes})
    assert begun.read_bytes() == before


def test_a_second_program_is_refused_while_the_first_writes(path):
    with AnswerLog(path, SETTINGS), refused("another experiment writes to it"):
        AnswerLog(path, SETTINGS)
    with AnswerLog(path, SETTINGS) as log:
        assert log.records == []


@pytest.mark.parametrize("text", ["my notes", '{"format": "candlelight answers 9"}\n', "{}\n"])
def test_another_file_is_refused_and_kept(path, text):
    path.write_text(text)
    for call in (lambda: AnswerLog(path, SETTINGS), lambda: read_answers(path)):
        with refused('expected a first line with `format` "candlelight answers 1"'):
            call()
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps({**answer(1).model_dump(), "correct": 1}), "damaged at correct: .*; remove the line"),
        (json.dumps({**answer(1).model_dump(), "extra": 2}), "damaged at extra: .*; remove the line"),
        ("{", "damaged at JSON: .*; remove the line"),
        (
            answer(0, correct=False).model_dump_json(),
            "answers trial 0 of ann again, after line 2; remove one",
        ),
    ],
)
def test_a_damaged_or_repeated_line_is_named(begun, line, message):
    begun.write_text(f"{begun.read_text()}{answer(0, observer='bob').model_dump_json()}\n{line}\n")
    for call in (lambda: AnswerLog(begun, SETTINGS), lambda: read_answers(begun)):
        with refused(f"line 4 (is )?{message}"):
            call()


def test_a_folder_is_refused(tmp_path):
    with refused("cannot be written"):
        AnswerLog(tmp_path, SETTINGS)


def test_a_failed_write_leaves_no_part_of_an_answer(begun, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    before = begun.read_bytes()
    with AnswerLog(begun, SETTINGS) as log:
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", fail)
            with pytest.raises(OSError, match="No space left"):
                log.append(answer(1))
        assert begun.read_bytes() == before
        assert log.answered("ann") == {0}
        log.append(answer(1))
    assert len(read_answers(begun)) == 2


def replaced(path):
    """Write a copy and rename it, as editors and programs that sync folders do."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (replaced, "was replaced by another file"),
        (lambda path: path.rename(path.with_name("old")), "was deleted or moved"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "was changed by another program"),
    ],
    ids=["replaced", "moved", "cut"],
)
def test_no_answer_goes_to_a_file_that_left_its_place(path, change, problem):
    with AnswerLog(path, SETTINGS) as log:
        log.append(answer(0))
        change(path)
        with refused(f"{problem} during the experiment, so this answer is not logged"):
            log.append(answer(1))
        assert log.answered("ann") == {0}
