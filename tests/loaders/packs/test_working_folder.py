import errno
import json
import multiprocessing
import os

import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.packs.working_folder import open_working_folder

OWN = ["candlelight.lock", "made-of.json"]


def stop(target, made_of, files):
    """Interrupt making the target after the given files are written."""

    def work():
        with open_working_folder(target, made_of) as folder:
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    return target.with_name(f".{target.name}.partial")


def test_pieces_of_an_interrupted_call_are_used_by_the_next_equal_call(tmp_path):
    target, made_of = tmp_path / "deep" / "pack", {"rows": "a" * 64, "size": [3, 4]}
    folder = stop(target, made_of, {"0.part": "kept", ".1": "not whole", "shards/.1": "not whole"})
    assert sorted(path.name for path in folder.rglob("*")) == ["0.part", *OWN, "shards"]
    assert json.loads((folder / "made-of.json").read_text()) == made_of
    with open_working_folder(target, dict(reversed(made_of.items()))) as folder:
        assert (folder / "0.part").read_text() == "kept"
        target.write_text("whole")
    assert list(target.parent.iterdir()) == [target]


def test_pieces_of_another_call_are_discarded(tmp_path):
    for damage in (lambda record: record.write_text("{"), lambda record: record.unlink(), lambda _: None):
        folder = stop(tmp_path / "pack", {"n": 1}, {"0.part": "old"})
        damage(folder / "made-of.json")
        with open_working_folder(tmp_path / "pack", {"n": 2}) as folder:
            assert sorted(path.name for path in folder.iterdir()) == OWN


def test_partly_removed_pieces_are_discarded(tmp_path, monkeypatch):
    """A process killed while it removes the pieces of a finished target leaves some pieces."""
    with monkeypatch.context() as patch:
        patch.setattr("candlelight.loaders.packs.working_folder._remove", lambda _: os.close(-1))
        with open_working_folder(tmp_path / "pack", {"n": 1}) as folder:
            (folder / "1.part").write_text("the second of two")
    assert (folder / "1.part").exists()
    with open_working_folder(tmp_path / "pack", {"n": 1}) as folder:
        assert not (folder / "1.part").exists()


def test_foreign_folders_and_links_are_kept(tmp_path):
    """A link or a foreign folder at the path of the working folder is refused."""
    other, folder = tmp_path / "other", tmp_path / ".pack.partial"
    other.mkdir()
    (other / "mine").touch()
    folder.symlink_to("other")
    with pytest.raises(InputError, match=r"pack.partial is not a folder; move it"):
        with open_working_folder(tmp_path / "pack", {}):
            pass
    folder.unlink()
    other.rename(folder)
    with pytest.raises(InputError, match=r"pack.partial holds `mine`, which"):
        with open_working_folder(tmp_path / "pack", {}):
            pass
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_a_call_without_finished_pieces_leaves_no_files(tmp_path):
    stop(tmp_path / "pack", {}, {".0": "half", "shards/grid/.0": "half"})
    assert not list(tmp_path.iterdir())


def hold(target, held, go):
    with open_working_folder(target, {}):
        held.set()
        go.wait(60)


def test_a_second_process_is_refused_until_the_first_process_ends(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, go = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path / "pack", held, go))
    process.start()
    assert held.wait(60)
    with pytest.raises(InputError, match=r"pack is being packed by another process; wait for it"):
        with open_working_folder(tmp_path / "pack", {}):
            pass
    assert (tmp_path / ".pack.partial").exists()
    with open_working_folder(tmp_path / "other", {}):
        pass
    process.kill()
    process.join()
    with open_working_folder(tmp_path / "pack", {}):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_on_a_removed_file_is_not_accepted(tmp_path, monkeypatch):
    """The first process removes the folder after the second opened the lock file, and before it locked."""
    import fcntl
    import shutil

    lock, calls = fcntl.flock, []

    def remove_first(handle, how):
        calls.append(handle)
        if len(calls) == 1:
            shutil.rmtree(tmp_path / ".pack.partial")
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with open_working_folder(tmp_path / "pack", {}) as folder:
        assert len(calls) == 2
        assert (folder / "made-of.json").exists()


def test_a_file_system_without_locks_is_supported(tmp_path, monkeypatch):

    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with open_working_folder(tmp_path / "pack", {}) as folder:
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
    expected = "pack: cannot be written: No space left on device; make room or name another"
    with pytest.raises(InputError, match=f"{expected}$") as caught:
        with open_working_folder(tmp_path / "pack", {}):
            write()
    assert ".partial" not in str(caught.value)


def test_a_target_whose_folder_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/pack: cannot be written: Not a directory; name another$"):
        with open_working_folder(tmp_path / "file" / "pack", {}):
            pass


def test_unrelated_errors_are_not_attributed_to_the_target(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), open_working_folder(tmp_path / "pack", {}):
        (tmp_path.parent / "elsewhere").read_bytes()
    with pytest.raises(RuntimeError, match="a defect"), open_working_folder(tmp_path / "pack", {}):
        raise RuntimeError("a defect")
