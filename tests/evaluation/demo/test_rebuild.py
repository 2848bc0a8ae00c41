"""Steps are skipped only if neither their inputs nor their outputs have changed."""

import pytest

from candlelight.evaluation.demo import rebuild
from candlelight.evaluation.demo.rebuild import make_if_changed, path_sha256


@pytest.fixture
def work(tmp_path):
    """A step that copies a folder's only file, counts its calls, and takes settings."""
    source, copy, record = tmp_path / "frames", tmp_path / "copy.txt", tmp_path / "records" / "copy.json"
    source.mkdir()
    (source / "a.txt").write_text("pixels")
    calls = []

    def make():
        calls.append(1)
        copy.write_text((source / "a.txt").read_text())

    def step(**settings):
        return make_if_changed(record, make, reads=[source], writes=[copy], settings=settings)

    step.source, step.copy, step.record, step.calls = source, copy, record, calls
    return step


def test_a_step_with_unchanged_inputs_is_skipped(work):
    assert work(seed=0, names=("a", "b"))
    assert not work(seed=0, names=("a", "b"))
    assert len(work.calls) == 1


CHANGES = {
    "a file that is read": lambda work, _: (work.source / "a.txt").write_text("pixel5"),
    "the name of a file that is read": lambda work, _: (work.source / "b.txt").touch(),
    "a file that was made": lambda work, _: work.copy.write_text("pixel5"),
    "a file that was made is gone": lambda work, _: work.copy.unlink(),
    "the record": lambda work, _: work.record.write_bytes(b"\xff"),
    "no record": lambda work, _: work.record.unlink(),
    "a version": lambda _, patch: patch.setattr(rebuild, "RELEASE", "99"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_makes_it_again(work, change, monkeypatch):
    work(seed=0)
    change(work, monkeypatch)
    assert work(seed=0)
    assert work.copy.read_text() == (work.source / "a.txt").read_text()
    assert not work(seed=0)


@pytest.mark.parametrize("settings", [{"seed": 1}, {"seed": 0, "epochs": 2}, {}], ids=str)
def test_other_settings_make_it_again(work, settings):
    work(seed=0)
    assert work(**settings)
    assert not work(**settings)


def test_a_step_that_failed_has_no_record(tmp_path):
    record, made = tmp_path / "record.json", tmp_path / "made.txt"

    def fail():
        made.write_text("half")
        raise KeyboardInterrupt

    make_if_changed(record, made.touch, reads=[], writes=[made], settings={"seed": 0})
    with pytest.raises(KeyboardInterrupt):
        make_if_changed(record, fail, reads=[], writes=[made], settings={"seed": 1})
    assert not record.exists()


def test_locks_do_not_change_the_hash(tmp_path):
    before = path_sha256(tmp_path)
    (tmp_path / ".lock").touch()
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial" / "a").touch()
    assert path_sha256(tmp_path) == before
