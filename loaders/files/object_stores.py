"""Read folders of frames that were copied to an object store, or to any other URL that `fsspec` supports.

The layout is the same as in a local folder (`candlelight.loaders.frames`); a folder without
``metadata.json`` is not a sample.
"""

import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.urls import without_password
from candlelight.loaders.frames import METADATA, frame_path

PAUSES = (1.0, 2.0, 4.0, 8.0)  # s between tries; an error that lasts longer ends the run
LISTERS = 8  # listing requests at a time
# Errors that another try does not solve.
_HOPELESS = (
    *(PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError),
    *(AttributeError, ImportError, MemoryError, TypeError),
)

_Result = TypeVar("_Result")


def open_store(url: str) -> "Store":
    """Open a folder of frames by its URL, such as ``s3://bucket/frames``; nothing is read yet.

    Credentials and endpoints come from fsspec's configuration and the store's own tools.

    Raises:
        InputError: the protocol is unknown, or its package is not installed.

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
    except Exception as error:  # the package of each store has its own exceptions
        known = url.partition(":")[0].lower() in fsspec.available_protocols()
        expected = (
            "" if known else "; expected s3://, gs://, az://, hf://, sftp://, hdfs:// or another of fsspec's"
        )
        raise InputError(f"{name}: cannot be opened: {_reason(error)}{expected}") from None
    return Store(url.rstrip("/"), fs, path.rstrip("/"))


@dataclass(frozen=True)
class Store:
    """A folder at a URL. A failed request is repeated a few times, and then raises an InputError of one line.

    ``url`` is its URL, ``fs`` the file system of fsspec, ``path`` the folder in this file system.
    """

    url: str
    fs: Any
    path: str

    @property
    def name(self) -> str:
        """URL without password, for messages."""
        return without_password(self.url)

    def read(self, name: str) -> bytes | None:
        """Read a file; None if it does not exist.

        Raises:
            InputError: the store does not answer, or refuses.
        """
        try:
            return bytes(self._try(lambda: self.fs.cat_file(self._at(name))))
        except FileNotFoundError:
            return None

    def names(self, folder: str = "") -> list[str]:
        """List the names directly in a folder; empty if the folder does not exist.

        Raises:
            InputError: the store does not answer, or refuses.
        """

        def look() -> list[str]:
            self.fs.invalidate_cache()
            return list(self.fs.ls(self._at(folder), detail=False))

        try:
            found = {name.strip("/") for name in self._try(look)}
        except FileNotFoundError:
            return []
        # An object whose name ends in a slash stands for the folder itself.
        return sorted(name.rpartition("/")[2] for name in found - {self._at(folder).strip("/"), ""})

    def complete(self, set_name: str, thousands: Iterable[int] | None = None) -> dict[int, int]:
        """List the complete samples of a set, a thousand at a time, so that memory stays bounded.

        Args:
            set_name: name of the image set.
            thousands: numbers of the thousands of samples to list; None for all.

        Returns:
            Size of each sample in bytes, by the sample's number, in order.

        Raises:
            InputError: the store does not answer, or refuses.
        """
        if thousands is None:
            names = self.names(f"samples/{set_name}")
            thousands = [int(name) for name in names if name.isdecimal()]
        with ThreadPoolExecutor(LISTERS) as pool:
            parts = pool.map(partial(self._thousand, set_name), sorted(thousands))
            return {index: size for part in parts for index, size in part}

    def fetch(self, folder: str, target: Path) -> None:
        """Copy the files of a folder, without subfolders, to a local folder.

        Args:
            folder: path in the store, such as ``samples/candle/0003/003541``.
            target: local folder, created if it is missing.

        Raises:
            InputError: the store does not answer, or refuses.
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
            found = self._try(partial(self._find, folder))
        except FileNotFoundError:
            return []
        sizes: dict[int, int] = {}
        whole = set()
        for name, entry in found.items():
            sample, _, file = name.rpartition("/")
            digits = sample.rpartition("/")[2]
            # A folder that was moved or renamed by hand lies at the wrong path.
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

    def _try(self, do: Callable[[], _Result]) -> _Result:
        """Send a request, and repeat it after a pause; pass FileNotFoundError on."""
        pauses = iter(PAUSES)
        while True:
            try:
                return do()
            except FileNotFoundError:
                raise
            except Exception as error:  # the package of each store has its own exceptions
                if _is_hopeless(error) or (pause := next(pauses, None)) is None:
                    raise InputError(f"{self.name}: cannot be read: {_reason(error)}") from None
            time.sleep(pause)


def _is_hopeless(error: Exception) -> bool:
    # By name, because exceptions of several packages share no base class.
    named = re.search("credential|authenticat|forbidden", type(error).__name__, re.IGNORECASE)
    return isinstance(error, _HOPELESS) or named is not None


def _reason(error: Exception) -> str:
    # Cut off: libhdfs lists all places where it searched for Java.
    return " ".join(str(error).split())[:300] or type(error).__name__
