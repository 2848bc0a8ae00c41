"""Read, write and check ``SHA256SUMS``: the hashes of a folder's files, in the format of ``sha256sum -c``."""

import errno
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from candlelight.loaders.files.safe_writing import partial_name, replacing, sync

SUMS = "SHA256SUMS"
# The future SUMS, while its files are replaced one after the other.
NEXT_SUMS = ".SHA256SUMS.next"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\0]+)")  # a lost block of a disk may read as zero bytes


def sums_text(hashes: Mapping[str, str]) -> str:
    r"""Return the text of a ``SHA256SUMS``: one line per file, sorted by name.

    Args:
        hashes: SHA-256 in hexadecimal by file name.

    Example:
        >>> sums_text({"b": "1" * 64, "a": "0" * 64}) == "0" * 64 + "  a\n" + "1" * 64 + "  b\n"
        True
    """
    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))


def parse_sums(data: bytes) -> dict[str, str]:
    r"""Parse a ``SHA256SUMS``; damaged lines are left out.

    Example:
        >>> parse_sums(b"0" * 64 + b"  a\n" + b"X" * 64 + b"  b\n") == {"a": "0" * 64}
        True
    """
    lines = data.decode("utf-8", "replace").split("\n")
    return {found[2]: found[1] for line in lines if (found := _LINE.fullmatch(line))}


def file_sha256(path: Path) -> str:
    """Hash a file in blocks; a pipe is refused, because reading it would wait for ever."""
    if path.is_fifo():
        raise OSError(errno.EINVAL, "no regular file", str(path))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def matches_sums(path: Path) -> bool:
    """Compare one file with its line in the ``SHA256SUMS`` of its folder; True if there is no such list.

    Example:
        >>> matches_sums(Path("nowhere") / "a")
        True
    """
    sums = path.with_name(SUMS)
    return not sums.exists() or parse_sums(sums.read_bytes()).get(path.name) == file_sha256(path)


def find_changed_files(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Compare the files of a folder with its ``SHA256SUMS``.

    Args:
        folder: the folder.
        names: file names that ``SHA256SUMS`` must list, without ``SHA256SUMS`` itself.

    Returns:
        Reason by file name for each changed or missing file, also for a changed ``SHA256SUMS``; empty if no
        file changed. Files of a killed `replace_files`, old or new, do not count as changed.
    """
    wrong: dict[str, str] = {}
    data = ahead = b""
    try:
        data = (folder / SUMS).read_bytes()
        ahead = (folder / NEXT_SUMS).read_bytes() if (folder / NEXT_SUMS).exists() else b""
    except OSError as error:
        wrong[SUMS] = _why(error)
    listed, coming = parse_sums(data), parse_sums(ahead)
    found: dict[str, str] = {}
    for name in sorted(names):
        try:
            found[name] = file_sha256(folder / name)
        except OSError as error:
            wrong[name] = _why(error)
        else:
            if SUMS not in wrong and found[name] not in (listed.get(name), coming.get(name)):
                wrong[name] = f"differs from its line in {SUMS}"
    if not wrong and not coming and sums_text(found).encode() != data:
        wrong[SUMS] = "has more than the expected lines"
    return wrong


def _why(error: OSError) -> str:
    return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"


def replace_files(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> None:
    """Replace files of a folder, each atomically, and their ``SHA256SUMS``.

    A killed call leaves complete files, old or new, and the hashes of both (`SUMS` and `NEXT_SUMS`), so that
    `find_changed_files` can distinguish them from damaged files.

    Args:
        folder: the folder.
        writers: by file name, a function that writes the file to a given path.
    """
    partials = {name: partial_name(folder / name) for name in writers}
    try:
        for name, write in writers.items():
            write(partials[name])
            sync(partials[name])
        hashes = {name: file_sha256(partial) for name, partial in partials.items()}
        with replacing(folder / NEXT_SUMS) as partial:
            partial.write_text(sums_text(hashes), encoding="utf-8")
        for name, partial in partials.items():
            partial.replace(folder / name)
        sync(folder)
        (folder / NEXT_SUMS).replace(folder / SUMS)
        sync(folder)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
