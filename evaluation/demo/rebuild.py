"""Skip steps that would write the same files again, according to a record of their inputs and outputs."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from candlelight.evaluation.run.result import package_versions
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.verification.checksums import file_sha256
from candlelight.version import RELEASE


def make_if_changed(
    record: Path,
    make: Callable[[], object],
    *,
    reads: Sequence[Path],
    writes: Sequence[Path],
    settings: Mapping[str, object] | None = None,
) -> bool:
    """Make files, unless a record shows that neither their inputs nor the files have changed.

    The record holds hashes of all files read and written, the settings, and the versions of candlelight,
    torch and numpy. A change of the program without a new release is not noticed; remove the record then.

    Args:
        record: JSON file of this function; its folder is made if it does not exist.
        make: writes the files; called at most once.
        reads: input files and folders.
        writes: output files and folders. The last parts of all paths must differ.
        settings: everything else that the output depends on: strings, numbers, lists and dictionaries.

    Returns:
        True if the files were made, False if they were up to date.

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
    inputs = {
        "settings": {**(settings or {}), "versions": {**package_versions(), "candlelight": RELEASE}},
        "reads": _hashes(reads),
    }
    if _read(record) == _text(inputs, writes):
        return False
    record.unlink(missing_ok=True)
    make()
    record.parent.mkdir(parents=True, exist_ok=True)
    with replacing(record) as partial:
        partial.write_text(_text(inputs, writes), encoding="utf-8")
    return True


def path_sha256(path: Path) -> str:
    """Hash a file, or the names and contents of all files below a folder.

    Files and folders whose names begin with a dot are skipped, because they are locks and unfinished files.

    Returns:
        SHA-256 in hexadecimal; "missing" if the path does not exist.

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


def _text(inputs: Mapping[str, object], writes: Sequence[Path]) -> str:
    return json.dumps({**inputs, "writes": _hashes(writes)}, indent=2, sort_keys=True) + "\n"


def _read(record: Path) -> str:
    """Read a record; an empty text if it is missing or damaged."""
    with suppress(OSError, UnicodeDecodeError):
        return record.read_text(encoding="utf-8")
    return ""
