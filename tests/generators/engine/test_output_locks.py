"""Group locks of holders in one process, in several processes, and after a holder was killed."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from candlelight.generators.engine.output_locks import (
    GROUP_LOCKS_FILE,
    RUN_LOCK_FILE,
    GroupLocks,
    description_lock,
    hold_folder,
)

HOLD = """
import sys, time
from pathlib import Path
from candlelight.generators.engine.output_locks import GroupLocks
locks = GroupLocks(Path(sys.argv[1]))
print(locks.try_lock("a"), flush=True)
time.sleep(60)
"""


@pytest.fixture
def new_locks(tmp_path):
    made = []

    def make():
        made.append(GroupLocks(tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_group_has_one_holder_until_it_is_closed_and_other_groups_stay_free(new_locks, tmp_path):
    first, second = GroupLocks(tmp_path), new_locks()
    assert [first.try_lock(name) for name in ("a", "b", "a")] == [True, True, True]
    assert [second.try_lock(name) for name in ("a", "b", "c")] == [False, False, True]
    assert not first.try_lock("c")
    first.close()  # locks of the process instead of the open file would also release those of the second
    third = new_locks()
    assert [third.try_lock(name) for name in ("a", "c")] == [True, False]


def test_a_killed_holder_leaves_no_lock_behind(new_locks, tmp_path):
    command = [sys.executable, "-c", HOLD, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not new_locks().try_lock("a")
        holder.kill()
    assert new_locks().try_lock("a")
    assert (tmp_path / GROUP_LOCKS_FILE).stat().st_size == 0


def test_two_thousand_groups_have_different_bytes(new_locks):
    first, second = new_locks(), new_locks()
    assert all(first.try_lock(f"{i:016x}") for i in range(2000))
    assert second.try_lock("g2000")
    assert not any(second.try_lock(f"{i:016x}") for i in range(0, 2000, 97))


def test_one_run_at_a_time_describes_the_folder(tmp_path):
    seen = []

    def describe():
        with description_lock(tmp_path):
            seen.append("second")

    with description_lock(tmp_path):
        thread = threading.Thread(target=describe)
        thread.start()
        time.sleep(0.2)
        seen.append("first")
    thread.join(10)
    assert seen == ["first", "second"]


def test_without_locks_every_holder_gets_every_group_but_other_errors_are_raised(new_locks, monkeypatch):
    def refuse(number):
        def fail(*_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "fcntl", fail)
        monkeypatch.setattr(fcntl, "lockf", fail)

    refuse(errno.ENOLCK)
    assert [new_locks().try_lock("a") for _ in range(2)] == [True, True]
    refuse(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        new_locks().try_lock("a")


@pytest.mark.parametrize(("mask", "mode"), [(0o002, 0o664), (0o022, 0o644)])
def test_locks_follow_the_umask(tmp_path, mask, mode):
    """A second user of a group continues a folder of the first, whose umask is 002."""
    out, before = tmp_path / "out", os.umask(mask)
    try:
        with hold_folder(out):
            GroupLocks(out).close()
            found = [(out / name).stat().st_mode & 0o777 for name in (RUN_LOCK_FILE, GROUP_LOCKS_FILE)]
    finally:
        os.umask(before)
    assert found == [mode, mode]


def test_group_locks_do_not_make_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        GroupLocks(tmp_path / "none")
