import errno
import fcntl
import multiprocessing
import os
import shutil

import pytest

from candlelight.loaders.packs.working_folder import open_working_folder
from tests.refusals import refused


def open_and_close(target):
    with open_working_folder(target):
        pass


def test_the_folder_is_empty_and_goes_even_after_an_error(tmp_path, caplog):
    target = tmp_path / "deep" / "pack"

    def stop():
        with open_working_folder(target) as folder:
            (folder / "shards").mkdir()
            (folder / "shards" / "0").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert not list(target.parent.iterdir())
    with open_working_folder(target):
        target.write_text("whole")
    assert list(target.parent.iterdir()) == [target]
    assert caplog.messages == []


def test_what_a_killed_call_left_is_removed_in_one_line(tmp_path, caplog):
    folder = tmp_path / ".pack.partial"
    (folder / "shards" / "grid").mkdir(parents=True)
    # Files of version 0.1, which continued such a pack.
    for name in ("candlelight.lock", "made-of.json", "000000000-000000004.part", "shards/grid/00000.parquet"):
        (folder / name).touch()
    with open_working_folder(tmp_path / "pack") as folder:
        assert [path.name for path in folder.iterdir()] == ["candlelight.lock"]
    assert caplog.messages == [f"{tmp_path}/pack: an earlier call was killed; its pack is begun anew"]
    assert not list(tmp_path.iterdir())


def test_foreign_folders_and_links_are_kept(tmp_path):
    folder = tmp_path / ".pack.partial"
    folder.mkdir()
    (folder / "mine").touch()
    with refused(r"pack.partial holds `mine`, which"):
        open_and_close(tmp_path / "pack")
    assert [path.name for path in folder.iterdir()] == ["mine"]
    folder.rename(tmp_path / "other")
    folder.symlink_to("other")
    with refused(r"pack.partial is a link; move it, or name another target"):
        open_and_close(tmp_path / "pack")


def hold(target, held, go):
    with open_working_folder(target):
        held.set()
        go.wait(60)


def test_a_second_process_is_refused_until_the_first_process_ends(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, go = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path / "pack", held, go))
    process.start()
    assert held.wait(60)
    with refused(r"pack is being packed by another process; wait for it"):
        open_and_close(tmp_path / "pack")
    assert (tmp_path / ".pack.partial").exists()
    open_and_close(tmp_path / "other")
    process.kill()
    process.join()
    open_and_close(tmp_path / "pack")
    assert not list(tmp_path.iterdir())


def test_a_lock_on_a_removed_file_is_not_accepted(tmp_path, monkeypatch):
    """The first process removes the folder after the second opened the lock file, and before it locked."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: shutil.rmtree(tmp_path / ".pack.partial"))
    with refused(r"pack is being packed by another process; wait for it"):
        open_and_close(tmp_path / "pack")


def test_a_file_system_without_locks_is_supported(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with open_working_folder(tmp_path / "pack") as folder:
        assert folder.is_dir()


def full(*_, **__):
    raise OSError(errno.ENOSPC, "Can't write raw data (time = now\n, errno = 28)")


def full_on_closing(*_, **__):
    try:
        full()
    finally:
        raise RuntimeError("Can't flush (file write failed\n)")


def full_on_closing_alone(*_, **__):
    raise RuntimeError(
        "Can't flush (file write failed: time = now\n, errno = 28, error message = 'No space')"
    )


@pytest.mark.parametrize("write", [full, full_on_closing, full_on_closing_alone])
def test_a_full_disk_is_reported_in_one_line_with_the_target(tmp_path, write):
    reason = "cannot be written: No space left on device; make room or name another"
    with refused(rf"^(?!.*\.partial).*pack: {reason}$"), open_working_folder(tmp_path / "pack"):
        write()


def test_a_target_whose_folder_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with refused(r"file/pack: cannot be written: Not a directory; name another$"):
        open_and_close(tmp_path / "file" / "pack")


def test_unrelated_errors_are_not_attributed_to_the_target(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), open_working_folder(tmp_path / "pack"):
        (tmp_path.parent / "elsewhere").read_bytes()
    with pytest.raises(RuntimeError, match="a defect"), open_working_folder(tmp_path / "pack"):
        raise RuntimeError("a defect")
