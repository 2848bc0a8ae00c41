"""Folders of frames that lie elsewhere: on an object store, or wherever else `fsspec` reaches by a URL.

The layout is that of a local folder (`loaders.frames`). An object store cannot rename a folder, but it takes
one object whole or not at all; so a sample's ``metadata.json`` goes last, and what has none is not a sample.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from loaders.errors import InputError
from loaders.files.urls import without_password
from loaders.frames import METADATA, frame_path

PAUSES = (1.0, 2.0, 4.0, 8.0)  # s between tries; what does not pass in that time ends the run
LISTERS = 8  # requests for lists at a time
# Protocols whose put of one object is whole or nothing. On any other a file is put aside and renamed.
OBJECT_STORES = {
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "tos", "tosfs", "r2"),
    *("hf", "memory"),
}
# What another try does not mend.
_HOPELESS = (
    *(FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError),
    *(AttributeError, ImportError, MemoryError, TypeError),
)

_Result = TypeVar("_Result")


def open_store(url: str) -> "Store":
    """Reach a folder of frames by its URL, such as ``s3://bucket/frames``; nothing is read yet.

    Credentials and endpoints are those of fsspec's own configuration and of the store's own tools.

    Raises:
        InputError: the protocol is not known, or its package is not installed.

    Example:
        >>> open_store("memory://frames").read("dataset.json") is None
        True
    """
    import fsspec

    name = without_password(url)
    try:
        fs, path = fsspec.url_to_fs(url)
    except ImportError as error:
        package = getattr(error.__cause__, "name", None) or url.partition(":")[0]
        raise InputError(f"{name}: needs a package; run `pip install {package.partition('.')[0]}`") from None
    except Exception as error:  # each store's package has exceptions of its own
        known = url.partition(":")[0].lower() in fsspec.available_protocols()
        expected = (
            "" if known else "; expected s3://, gs://, az://, hf://, sftp://, hdfs:// or another of fsspec's"
        )
        raise InputError(f"{name}: cannot be opened: {_reason(error)}{expected}") from None
    return Store(url.rstrip("/"), fs, path.rstrip("/"))


@dataclass(frozen=True)
class Store:
    """A folder elsewhere. What fails is tried again for a while, and then is an InputError of one line.

    ``url`` says how to reach it, ``fs`` is the file system of fsspec, ``path`` the folder in that.
    """

    url: str
    fs: Any
    path: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return without_password(self.url)

    def read(self, name: str) -> bytes | None:
        """Read a file, None if it is not there.

        Raises:
            InputError: the store does not answer, or refuses.
        """
        try:
            return bytes(self._try("read", lambda: self.fs.cat_file(self._at(name)), missing=True))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all.

        Raises:
            InputError: the store does not answer, or refuses.
        """
        self._try("written", partial(self._write, name, data))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there.

        Raises:
            InputError: the store does not answer, or refuses.
        """
        try:
            self._try("written", lambda: self.fs.rm_file(self._at(name)), missing=True)
        except FileNotFoundError:
            pass

    def names(self, folder: str = "") -> list[str]:
        """List the names directly in a folder; none if it is not there.

        Raises:
            InputError: the store does not answer, or refuses.
        """

        def look() -> list[str]:
            self.fs.invalidate_cache()
            return list(self.fs.ls(self._at(folder), detail=False))

        try:
            found = {name.strip("/") for name in self._try("read", look, missing=True)}
        except FileNotFoundError:
            return []
        # An object whose name ends in a slash stands for the folder itself.
        return sorted(name.rpartition("/")[2] for name in found - {self._at(folder).strip("/"), ""})

    def complete(self, set_name: str, thousands: Iterable[int] | None = None) -> dict[int, int]:
        """List the samples of a set that are there, a thousand at a time, so that memory stays bounded.

        Args:
            set_name: name of the image set.
            thousands: which thousands of samples to look for; None for all.

        Returns:
            The bytes of each sample by its number, in order.

        Raises:
            InputError: the store does not answer, or refuses.
        """
        if thousands is None:
            names = self.names(f"samples/{set_name}")
            thousands = [int(name) for name in names if name.isdecimal()]
        with ThreadPoolExecutor(LISTERS) as pool:
            parts = pool.map(partial(self._thousand, set_name), sorted(thousands))
            return {index: size for part in parts for index, size in part}

    def put_samples(self, root: Path, folders: Sequence[Path]) -> None:
        """Copy whole samples from a local folder of frames: all their data first, then what makes them so.

        Args:
            root: the local folder.
            folders: of the samples, below it.

        Raises:
            InputError: the store does not answer, or refuses; no sample is there in part.
        """
        files = [file for folder in folders for file in sorted(folder.iterdir()) if file.name != METADATA]
        for file in files:
            self._try("written", partial(self._put, file.relative_to(root).as_posix(), file))
        for folder in folders:
            file = folder / METADATA
            self.write(file.relative_to(root).as_posix(), file.read_bytes())

    def fetch(self, folder: str, target: Path) -> None:
        """Copy the files of a folder to this machine, not what lies deeper.

        Args:
            folder: its name, as ``samples/candle/0003/003541``.
            target: local folder, made if need be.

        Raises:
            InputError: the store does not answer, or refuses, or the folder is gone.
        """
        target.mkdir(parents=True, exist_ok=True)
        for name in self.names(folder):
            if (data := self.read(f"{folder}/{name}")) is not None:
                (target / name).write_bytes(data)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if name else self.path

    def _thousand(self, set_name: str, number: int) -> list[tuple[int, int]]:
        folder = self._at(frame_path(Path(), set_name, number * 1000).parent.as_posix())
        try:
            found = self._try("read", partial(self._find, folder), missing=True)
        except FileNotFoundError:
            return []
        sizes: dict[int, int] = {}
        whole = set()
        for name, entry in found.items():
            sample, _, file = name.rpartition("/")
            digits = sample.rpartition("/")[2]
            # A folder that was moved or renamed by hand is not where its number belongs.
            if digits.isdecimal() and sample.endswith(frame_path(Path(), set_name, int(digits)).as_posix()):
                sizes[int(digits)] = sizes.get(int(digits), 0) + (entry.get("size") or 0)
                if file == METADATA:
                    whole.add(int(digits))
        return [(index, sizes[index]) for index in sorted(whole)]

    def _find(self, folder: str) -> dict[str, Any]:
        self.fs.invalidate_cache()
        try:
            return dict(self.fs.find(folder, detail=True))
        finally:
            self.fs.invalidate_cache()  # a million names would stay in memory

    def _put(self, name: str, file: Path) -> None:
        self._make_folder(name)
        self.fs.put_file(str(file), self._at(name))

    def _write(self, name: str, data: bytes) -> None:
        if _is_object_store(self.fs):
            self.fs.pipe_file(self._at(name), data)
            return
        self._make_folder(name)
        folder, slash, file = name.rpartition("/")
        aside = self._at(f"{folder}{slash}.{file}.{uuid.uuid4().hex}.partial")
        self.fs.pipe_file(aside, data)
        self.fs.mv(aside, self._at(name))

    def _make_folder(self, name: str) -> None:
        # On an object store folders need no making, and asking for one may make a bucket.
        if not _is_object_store(self.fs):
            self.fs.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)

    def _try(self, done: str, do: Callable[[], _Result], missing: bool = False) -> _Result:
        """Do something, again after a pause if it may pass; with ``missing``, let FileNotFoundError out."""
        pauses = iter(PAUSES)
        while True:
            try:
                return do()
            except Exception as error:  # each store's package has exceptions of its own
                if missing and isinstance(error, FileNotFoundError):
                    raise
                if _is_hopeless(error) or (pause := next(pauses, None)) is None:
                    raise InputError(f"{self.name}: cannot be {done}: {_reason(error)}") from None
            time.sleep(pause)


def _is_object_store(fs: Any) -> bool:
    # What stands before another, as dir:: does; hdfs:// stands before one of Arrow's, which has no protocol.
    while hasattr(inner := getattr(fs, "fs", None), "protocol"):
        fs = inner
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    return not protocols.isdisjoint(OBJECT_STORES)


def _is_hopeless(error: Exception) -> bool:
    # Names are all that the exceptions of several packages have in common.
    named = re.search("credential|authenticat|forbidden", type(error).__name__, re.IGNORECASE)
    return isinstance(error, _HOPELESS) or named is not None


def _reason(error: Exception) -> str:
    return (
        " ".join(str(error).split())[:300] or type(error).__name__
    )  # libhdfs lists where it looked for Java
