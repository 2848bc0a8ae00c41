"""``SHA256SUMS``: what the files of a folder hash to, in the format that ``sha256sum -c`` reads."""

import errno
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from loaders.files.atomic_files import partial_name, replacing, sync

SUMS = "SHA256SUMS"
# What SUMS is about to be, while the files that it lists are replaced one after the other.
NEXT_SUMS = ".SHA256SUMS.next"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\0]+)")  # zeros are no part of a name, but what a lost block leaves


def sums_text(hashes: Mapping[str, str]) -> str:
    r"""Text of a ``SHA256SUMS``: a line for each file, by name.

    Args:
        hashes: SHA-256 in hexadecimal by file name.

    Example:
        >>> sums_text({"b": "1" * 64, "a": "0" * 64}) == "0" * 64 + "  a\n" + "1" * 64 + "  b\n"
        True
    """
    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))


def parse_sums(data: bytes) -> dict[str, str]:
    r"""Read the lines of a ``SHA256SUMS`` that are as `sums_text` writes them; damaged ones are left out.

    Example:
        >>> parse_sums(b"0" * 64 + b"  a\n" + b"X" * 64 + b"  b\n") == {"a": "0" * 64}
        True
    """
    lines = data.decode("utf-8", "replace").split("\n")
    return {found[2]: found[1] for line in lines if (found := _LINE.fullmatch(line))}


def file_sha256(path: Path) -> str:
    """Hash a file, in pieces; a pipe, which would be waited for, is refused."""
    if path.is_fifo():
        raise OSError(errno.EINVAL, "no regular file", str(path))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def matches_sums(path: Path) -> bool:
    """Compare one file with its line in the ``SHA256SUMS`` beside it; True where there is no such list.

    Example:
        >>> matches_sums(Path("nowhere") / "a")
        True
    """
    sums = path.with_name(SUMS)
    return not sums.exists() or parse_sums(sums.read_bytes()).get(path.name) == file_sha256(path)


def find_changed_files(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Compare the files of a folder with its ``SHA256SUMS``, and that with them.

    Args:
        folder: the folder.
        names: file names that it must list; ``SHA256SUMS`` itself is not one of them.

    Returns:
        What is wrong with each file that is not as it was written, ``SHA256SUMS`` among them; empty if all
        are. Files that `replace_files` was about to replace when it was killed are as they were written.
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
        wrong[SUMS] = "holds more than the lines that it should"
    return wrong


def _why(error: OSError) -> str:
    return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"


def replace_files(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> None:
    """Replace files of a folder, each in one step, and with them its ``SHA256SUMS``.

    Whoever is killed in between leaves files that are old or new and never neither, and what both hash to
    (`NEXT_SUMS`), so that `find_changed_files` can tell them from damaged ones.

    Args:
        folder: the folder.
        writers: by file name, what writes the file under the path that it is given.
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
