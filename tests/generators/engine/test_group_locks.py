"""Group locks between holders in one process, in several, and after a holder was killed."""

import errno
import fcntl
import subprocess
import sys
import threading
import time

import pytest

from generators.engine.group_locks import GROUP_LOCKS_FILE, GroupLocks, description_lock

HOLD = """
import sys, time
from pathlib import Path
from generators.engine.group_locks import GroupLocks
claims = GroupLocks(Path(sys.argv[1]))
print(claims.take("a"), flush=True)
time.sleep(60)
"""


@pytest.fixture
def claims(tmp_path):
    made = []

    def make():
        made.append(GroupLocks(tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_group_has_one_holder_and_holders_share_the_rest(claims):
    first, second = claims(), claims()
    assert [first.take(name) for name in ("a", "b", "a")] == [True, True, True]
    assert [second.take(name) for name in ("a", "b", "c")] == [False, False, True]
    assert not first.take("c")


def test_closing_gives_up_a_holders_claims_and_no_others(claims, tmp_path):
    first, second = GroupLocks(tmp_path), claims()
    first.take("a")
    second.take("b")
    first.close()  # locks of the process instead of the file would take the second's with them
    third = claims()
    assert third.take("a")
    assert not third.take("b")


def test_a_killed_holder_leaves_nothing_behind(claims, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not claims().take("a")
        holder.kill()
    assert claims().take("a")
    assert (tmp_path / GROUP_LOCKS_FILE).stat().st_size == 0


def test_many_groups_share_no_byte(claims):
    first = claims()
    assert all(first.take(f"{i:016x}") for i in range(2000))
    second = claims()
    assert second.take("g2000")
    assert not any(second.take(f"{i:016x}") for i in range(0, 2000, 97))


def test_one_describes_at_a_time(tmp_path):
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


def test_without_locks_work_may_be_done_twice_but_is_done(claims, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(fcntl, "lockf", refuse)
    assert claims().take("a")
    assert claims().take("a")


def test_other_trouble_is_told(claims, monkeypatch):
    holder = claims()

    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        holder.take("a")
