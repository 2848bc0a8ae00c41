"""Steps of a longer work, each left out where a record proves that it would make the same files again."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from evaluation.results.result import package_versions
from loaders.files.atomic_files import replacing
from loaders.verification.checksums import file_sha256


def make_if_changed(
    record: Path,
    make: Callable[[], object],
    *,
    reads: Sequence[Path],
    writes: Sequence[Path],
    settings: Mapping[str, object] | None = None,
) -> bool:
    """Make files, unless a record says of what they were made and nothing of it has changed.

    Compared are the contents of all files read and written, the settings and the versions of candlelight,
    torch and numpy. A program that was edited without a new version is not noticed: remove the record.

    Args:
        record: JSON file that this function alone reads and writes; its folder is made if need be.
        make: writes the files; called at most once.
        reads: files and folders that they are made of.
        writes: files and folders that are made. The last part of each path has to differ from all others.
        settings: all else that decides what they hold: strings, numbers, lists and dictionaries of them.

    Returns:
        Whether they were made.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     square = Path(folder) / "square.txt"
        ...     def run(side):
        ...         make = lambda: square.write_text(str(side * side))
        ...         record = square.with_suffix(".json")
        ...         return make_if_changed(record, make, reads=[], writes=[square], settings={"side": side})
        ...     run(2), run(2), run(3), square.read_text()
        (True, False, True, '9')
    """
    made_of = {
        "settings": {**(settings or {}), "versions": package_versions()},
        "reads": _hashes(reads),
    }
    if _read(record) == _text(made_of, writes):
        return False
    record.unlink(missing_ok=True)
    make()
    record.parent.mkdir(parents=True, exist_ok=True)
    with replacing(record) as partial:
        partial.write_text(_text(made_of, writes), encoding="utf-8")
    return True


def path_sha256(path: Path) -> str:
    """Hash a file, or the names and contents of all files below a folder.

    Names that begin with a dot are left out: locks, and files in the making.

    Returns:
        SHA-256 in hexadecimal; "missing" where there is nothing.

    Raises:
        OSError: a file cannot be read.

    Example:
        >>> path_sha256(Path("nowhere"))
        'missing'
    """
    if path.is_file():
        return file_sha256(path)
    if not path.is_dir():
        return "missing"
    whole = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            whole.update(f"{file_sha256(file)}  {name.as_posix()}\n".encode())
    return whole.hexdigest()


def _hashes(paths: Sequence[Path]) -> dict[str, str]:
    return {path.name: path_sha256(path) for path in paths}


def _text(made_of: Mapping[str, object], writes: Sequence[Path]) -> str:
    return json.dumps({**made_of, "writes": _hashes(writes)}, indent=2, sort_keys=True) + "\n"


def _read(record: Path) -> str:
    """Read a record; nothing where there is none, or one that is damaged."""
    with suppress(OSError, UnicodeDecodeError):
        return record.read_text(encoding="utf-8")
    return ""
