"""Folders in which a pack is made piece by piece, so that whoever was killed goes on where they were.

Finished pieces lie in ``.<name>.partial`` beside the target, with a record of what they are made of. The next
call takes them up if its record is the same, and throws them away if not. Nothing has the target's name
before it is whole.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from loaders.errors import InputError
from loaders.files.atomic_files import replacing

# A folder that lacks the first, and is not empty, is somebody else's.
_LOCK, _RECORD = "candlelight.lock", "made-of.json"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def open_working_folder(target: Path, made_of: Mapping[str, object]) -> Iterator[Path]:
    """Give the folder to make ``target`` in, with the finished pieces of an earlier call that was stopped.

    It is removed when the target is made, and when something is raised before any piece is finished. Names
    that begin with a dot are of pieces in the making.

    Args:
        target: the file or folder to be made; its parent is made if need be.
        made_of: what determines the pieces, as JSON: hashes, options, versions.

    Raises:
        InputError: another process is making the same target, a folder of that name is no earlier call's, or
            the target cannot be written.
    """
    folder = target.with_name(f".{target.name}.partial")
    with _writing(target):
        _refuse_foreign(folder)
        handle = _lock(folder, target)
        try:
            _take_up(folder, made_of)
            try:
                yield folder
            except BaseException:
                _drop_unfinished(folder)
                if not any(
                    path.is_file() for piece in _pieces(folder) for path in (piece, *piece.rglob("*"))
                ):
                    _clear(folder)
                raise
            _clear(folder)
        finally:
            os.close(handle)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Say in one line, and of the target, what the system refused."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py raises the second of what fails as it closes a file
        number = _errno(error)
        if not number or (isinstance(error, OSError) and _is_elsewhere(error.filename, target.parent)):
            raise
        remedy = "make room or name another" if number in _FULL else "name another"
        raise InputError(f"{target}: cannot be written: {os.strerror(number)}; {remedy}") from None


def _errno(error: BaseException | None) -> int | None:
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        if found := re.search(r"errno = (\d+)", str(error)):
            return int(found[1])
        error = error.__context__
    return None


def _is_elsewhere(name: object, folder: Path) -> bool:
    return isinstance(name, str) and not Path(name).is_relative_to(folder)


def _refuse_foreign(folder: Path) -> None:
    # The target of a link is never ours, whatever the link is called.
    if folder.is_symlink() or folder.is_file():
        raise InputError(f"{folder} is in the way, being no folder; move it, or name another target")
    with suppress(FileNotFoundError):
        names = [path.name for path in folder.iterdir()]
        if names and _LOCK not in names:
            raise InputError(
                f"{folder} is in the way: it holds `{min(names)}`, which `candlelight pack` did not write; "
                "move it, or name another target"
            )


def _clear(folder: Path) -> None:
    """Remove the folder; its lock goes last, so that what is half removed is still known as ours."""
    with suppress(OSError):
        _empty(folder)
        (folder / _LOCK).unlink(missing_ok=True)
        folder.rmdir()


def _empty(folder: Path) -> None:
    # The record goes first, so that half-removed pieces are never taken for all of them.
    (folder / _RECORD).unlink(missing_ok=True)
    for path in _pieces(folder):
        _remove(path)


def _lock(folder: Path, target: Path) -> int:
    """Lock the folder, for as long as the handle that is returned is open or the process lives."""
    from fcntl import LOCK_EX, LOCK_NB  # here, because reading packs works on systems that lack them

    from loaders.files.file_locks import lock_file

    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:  # the other process has just finished, and removed the folder
            continue
        try:
            lock_file(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise InputError(
                f"{target} is being packed by another process; wait for it, or name another place"
            ) from None
        except OSError:
            os.close(handle)
            raise
        # The lock counts only if its file still has its name.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), (folder / _LOCK).stat()):
                return handle
        os.close(handle)


def _take_up(folder: Path, made_of: Mapping[str, object]) -> None:
    record = json.dumps(made_of, indent=2, sort_keys=True)
    with suppress(OSError, UnicodeDecodeError):
        if (folder / _RECORD).read_text(encoding="utf-8") == record:
            _drop_unfinished(folder)
            return
    _empty(folder)
    with replacing(folder / _RECORD) as partial:
        partial.write_text(record, encoding="utf-8")


def _pieces(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name not in (_LOCK, _RECORD)]


def _drop_unfinished(folder: Path) -> None:
    for path in list(folder.rglob(".*")):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def text_sha256(text: str) -> str:
    """Hash a text, for the record of what pieces are made of."""
    return hashlib.sha256(text.encode()).hexdigest()
