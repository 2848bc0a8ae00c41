"""Staging folders of this process, of a living process, and of a killed process."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from candlelight.generators.engine.staging_folders import staging_folder

HOLD = """
import sys
from candlelight.generators.engine.staging_folders import staging_folder
with staging_folder() as folder:
    (folder / "sample").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_each_call_makes_a_private_folder_and_removes_it(place):
    with staging_folder() as first, staging_folder() as second:
        assert first != second
        assert first.parent == second.parent == place
        assert first.stat().st_mode & 0o777 == 0o700
        (first / "sample").mkdir()
    assert list(place.iterdir()) == []


def test_the_folder_is_removed_after_an_exception(place):
    with pytest.raises(KeyError), staging_folder():
        raise KeyError
    assert list(place.iterdir()) == []


def test_only_folders_of_killed_processes_are_removed(place):
    """The folder of another process stays while the process lives; the next call after its end removes it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        held = other.stdout.readline().strip()
        with staging_folder():
            assert os.path.isdir(held + "/sample")  # noqa: PTH112
        os.kill(other.pid, signal.SIGKILL)
    assert [str(path) for path in place.iterdir()] == [held]
    with staging_folder() as mine:
        assert list(place.iterdir()) == [mine]


def test_folders_of_others_stay(place):
    """A link that would lead the removal to another folder stays, and so does a folder without a lock."""
    with staging_folder() as mine:
        prefix = mine.name.removesuffix(mine.name.rpartition("-")[2])
    (place / "precious").mkdir()
    (place / "precious" / ".held").touch()
    (place / f"{prefix}link").symlink_to(place / "precious")
    (place / f"{prefix}bare").mkdir()
    with staging_folder():
        pass
    assert sorted(path.name for path in place.iterdir()) == sorted(
        ["precious", f"{prefix}link", f"{prefix}bare"]
    )
    assert (place / "precious" / ".held").exists()
