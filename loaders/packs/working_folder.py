"""Working folders in which a pack is built in parts, so that a killed call can be resumed.

Finished parts are kept in ``.<name>.partial`` in the folder of the target, with a record of their inputs. The
next call reuses the parts if its record is the same, and deletes them otherwise. The target gets its name
when it is complete.
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

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import lock_file, replacing

# A folder with files but without a lock file was made by another program.
_LOCK, _RECORD = "candlelight.lock", "made-of.json"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def open_working_folder(target: Path, made_of: Mapping[str, object]) -> Iterator[Path]:
    """Yield the folder to build ``target`` in, with the finished parts of an earlier, interrupted call.

    The folder is removed when the target is complete, and on an error before any part is finished. Names of
    unfinished parts begin with a dot.

    Args:
        target: the file or folder to be made; its parent folder is created if it is missing.
        made_of: JSON record of all inputs that determine the parts: hashes, options, versions.

    Raises:
        InputError: another process is making the same target, another program made the working folder, or
            the target cannot be written.
    """
    folder = target.with_name(f".{target.name}.partial")
    with _writing(target):
        _refuse_foreign(folder)
        handle = _lock(folder, target)
        try:
            _resume(folder, made_of)
            try:
                yield folder
            except BaseException:
                _drop_unfinished(folder)
                if not any(path.is_file() for part in _parts(folder) for path in (part, *part.rglob("*"))):
                    _clear(folder)
                raise
            _clear(folder)
        finally:
            os.close(handle)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn errors of the file system into one line that names the target."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py raises RuntimeError if closing a file fails
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
    # A link may lead to any folder, so it is refused whatever its name is.
    if folder.is_symlink() or folder.is_file():
        raise InputError(f"{folder} is not a folder; move it, or name another target")
    with suppress(FileNotFoundError):
        names = [path.name for path in folder.iterdir()]
        if names and _LOCK not in names:
            raise InputError(
                f"{folder} holds `{min(names)}`, which `candlelight pack` did not write; move it, or name "
                "another target"
            )


def _clear(folder: Path) -> None:
    """Remove the folder; the lock file goes last, so that a partly removed folder is still recognised."""
    with suppress(OSError):
        _empty(folder)
        (folder / _LOCK).unlink(missing_ok=True)
        folder.rmdir()


def _empty(folder: Path) -> None:
    # The record goes first, so that a partly emptied folder is never resumed.
    (folder / _RECORD).unlink(missing_ok=True)
    for path in _parts(folder):
        _remove(path)


def _lock(folder: Path, target: Path) -> int:
    """Lock the folder until the returned handle is closed or the process ends."""
    from fcntl import LOCK_EX, LOCK_NB  # not at module level: reading packs works on systems without fcntl

    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:  # another process has just finished and removed the folder
            continue
        try:
            lock_file(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise InputError(
                f"{target} is being packed by another process; wait for it, or name another target"
            ) from None
        except OSError:
            os.close(handle)
            raise
        # The lock is valid only if the folder still holds the locked file.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), (folder / _LOCK).stat()):
                return handle
        os.close(handle)


def _resume(folder: Path, made_of: Mapping[str, object]) -> None:
    record = json.dumps(made_of, indent=2, sort_keys=True)
    with suppress(OSError, UnicodeDecodeError):
        if (folder / _RECORD).read_text(encoding="utf-8") == record:
            _drop_unfinished(folder)
            return
    _empty(folder)
    with replacing(folder / _RECORD) as partial:
        partial.write_text(record, encoding="utf-8")


def _parts(folder: Path) -> list[Path]:
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
    """Hash a string, for the record of inputs."""
    return hashlib.sha256(text.encode()).hexdigest()
