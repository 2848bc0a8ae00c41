"""Find, list and read the files of public data sets, without trusting them: messages name file and source."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, SupportsIndex, TypeVar

import numpy as np
from numpy import ndarray
from pydantic import BaseModel, ValidationError

from candlelight.loaders.errors import InputError, blaming
from candlelight.loaders.files.safe_decoding import MAX_PIXELS
from candlelight.loaders.schema import FactorInfo, FactorValue

NumberKind = Literal["integers", "floats"]
_CODES = {"integers": "iu", "floats": "f"}  # kinds of numpy dtypes
_npy: Any = np.lib.format  # numpy 1.26 has no types for it
_Item = TypeVar("_Item")
_Record = TypeVar("_Record", bound=BaseModel)


@dataclass(frozen=True)
class PublicSource:
    """Where a public data set comes from: its files are found and read by it, and messages name both.

    Example:
        >>> PublicSource("https://ponomarenko.info/tid2013.htm").require(Path("nowhere/mos.txt"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/mos.txt is missing; get it from https://ponomarenko.info/tid2013.htm
    """

    address: str

    def __str__(self) -> str:
        return self.address

    def require(self, path: Path) -> Path:
        """Return a path that exists.

        Raises:
            InputError: the path is missing or cannot be reached.
        """
        try:
            found = path.exists()
        except OSError as error:  # for example a name that is too long, or a folder without permission
            raise InputError(f"{path} cannot be reached: {error.strerror}; get it from {self}") from None
        if not found:
            raise InputError(f"{path} is missing; get it from {self}")
        return path

    def find(self, usual: Path, *others: Path) -> Path:
        """Return the first path that exists, of those where copies of a data set have a file or folder.

        Raises:
            InputError: none exists; the message names the usual one.
        """
        return next((path for path in (usual, *others) if path.exists()), None) or self.require(usual)

    def some(self, found: Iterable[_Item], expected: str) -> tuple[_Item, ...]:
        """Return what was found, if anything.

        Args:
            found: files, or names of samples.
            expected: the folder or list, and a description of its content.

        Raises:
            InputError: nothing was found.

        Example:
            >>> PublicSource("https://example.org").some([], "data: expected <id>.json")
            Traceback (most recent call last):
            candlelight.loaders.errors.InputError: data: expected <id>.json, found none; get them from \
https://example.org
        """
        if not (items := tuple(found)):
            raise InputError(f"{expected}, found none; get them from {self}")
        return items

    def names(self, folder: Path) -> tuple[str, ...]:
        """List a folder in natural order, with numbers in order of value: ``dir_2`` comes before ``dir_10``.

        Returns:
            Names of files and folders, except names that begin with a dot (``.DS_Store``, ``._a.png``) or
            with ``__MACOSX``.

        Raises:
            InputError: there is no such folder.
        """
        if not self.require(folder).is_dir():
            raise InputError(f"{folder}: expected a folder, got a file; get it from {self}")
        found = (path.name for path in folder.iterdir())
        return tuple(sorted((name for name in found if not name.startswith((".", "__MACOSX"))), key=natural))

    def folders(self, folder: Path) -> tuple[str, ...]:
        """List the folders in a folder; order and errors as in `names`."""
        return tuple(name for name in self.names(folder) if (folder / name).is_dir())

    def lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a text file, UTF-8 or ASCII with any line endings, that are not blank.

        Raises:
            InputError: the file is missing or not text.
        """
        try:
            with self.require(path).open(encoding="utf-8-sig") as file:
                yield from (line.rstrip("\n") for line in file if line.strip())
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as text: {error}; get it from {self}") from None

    def parse(
        self, path: Path, parse: Callable[[str], _Item | None], expected: str, skip: int = 0
    ) -> Iterator[_Item]:
        """Parse the lines of a list that are not blank.

        Args:
            path: the list.
            parse: parses a line; for a wrong line, returns None or raises ValueError.
            expected: description of a correct line.
            skip: number of lines before the first to parse.

        Raises:
            InputError: the list is missing or not text, or a line is wrong; the message names the line.
        """
        for number, line in islice(enumerate(self.lines(path)), skip, None):
            try:
                parsed = parse(line)
            except ValueError:
                parsed = None
            if parsed is None:
                raise wrong_line(path, number, line, expected)
            yield parsed

    def numbers(self, path: Path, kind: NumberKind, axes: int) -> ndarray:
        """Read an npy file of integers or floats, and check its header before memory is allocated.

        Args:
            path: the file.
            kind: expected numbers.
            axes: expected number of axes.

        Returns:
            The numbers as int64 or float64.

        Raises:
            InputError: the file is missing, damaged or pickled, holds other numbers, or claims more values
                than `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
        """
        self.require(path)
        with blaming(f"{path}: cannot be read", f"get it again from {self}"):
            mapped = _npy.open_memmap(path, "r")  # numpy refuses pickled objects here
        if mapped.dtype.kind not in _CODES[kind] or mapped.ndim != axes:
            found = f"{mapped.dtype} {list(mapped.shape)}"
            raise InputError(f"{path}: expected {kind} of {axes} axes, got {found}; get it again from {self}")
        if mapped.size > MAX_PIXELS:
            raise InputError(f"{path}: expected at most {MAX_PIXELS} values, got {mapped.size}")
        return np.array(mapped, np.int64 if kind == "integers" else np.float64)

    def json(self, path: Path, kind: type[_Record], context: Any = None) -> _Record:
        """Read a JSON file and check its fields.

        Args:
            path: the file.
            kind: model of its content.
            context: context of the model's validators.

        Raises:
            InputError: the file is missing or damaged; the message names the field.
        """
        self.require(path)
        try:
            return kind.model_validate_json(path.read_bytes(), context=context)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(f"{path}: {where}: {first['msg']}; get it again from {self}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}; get it again from {self}") from None


class PublicSamples(ABC):
    """Samples of a public data set: row n is a dict, of ``id`` and the entries that the class describes.

    Attributes:
        ids: ids of all rows.
    """

    ids: tuple[str, ...]

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.ids)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one row.

        Raises:
            InputError: a file is missing or damaged, or does not fit the others.
        """
        number = range(len(self))[row]
        return {"id": self.ids[number], **self._read(number)}

    @abstractmethod
    def _read(self, number: int) -> dict[str, Any]:
        """Read the entries of a row except its id."""


def categorical_factors(
    values: Mapping[str, tuple[FactorValue, ...]], units: Mapping[str, str] | None = None
) -> tuple[FactorInfo, ...]:
    """Describe categorical factors by their values and units.

    Example:
        >>> categorical_factors({"size": (1.5, 2)}, {"size": "m"})[0].unit
        'm'
    """
    return tuple(
        FactorInfo(name=name, kind="categorical", values=listed, unit=(units or {}).get(name, ""))
        for name, listed in values.items()
    )


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that compares runs of digits by their value.

    Example:
        >>> sorted(["b", "a10", "a2", "1"], key=natural)
        ['1', 'a2', 'a10', 'b']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in parts)


def wrong_line(path: Path, number: int, line: str, expected: str) -> InputError:
    """Make the error that names a wrong line of a list.

    Args:
        path: the list.
        number: number of the line, from 0.
        line: text of the line.
        expected: description of a correct line.

    Example:
        >>> wrong_line(Path("mos.txt"), 0, "5,5", "one number")
        InputError("mos.txt, line 1: expected one number, got '5,5'")
    """
    return InputError(f"{path}, line {number + 1}: expected {expected}, got {line[:80]!r}")


def finite_numbers(words: Iterable[str], count: int) -> list[float] | None:
    """Parse words as finite numbers, for `PublicSource.parse`.

    Returns:
        The numbers; None if one is not finite, or there are more or less than ``count``.

    Raises:
        ValueError: a word is not a number.

    Example:
        >>> finite_numbers(["1", "2.5"], 2), finite_numbers(["1", "nan"], 2)
        ([1.0, 2.5], None)
    """
    numbers = list(map(float, words))
    return numbers if len(numbers) == count and all(map(math.isfinite, numbers)) else None


def path_inside(folder: Path, name: str, where: str) -> Path:
    """Return the path of a file named by a list; it must lie in a folder.

    Args:
        folder: the folder.
        name: path relative to the folder, from the list.
        where: name of the list, for the message.

    Raises:
        InputError: the name leads out of the folder.

    Example:
        >>> path_inside(Path("images"), "../../secret", "images.txt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: images.txt: '../../secret' leads out of images
    """
    path = folder / name
    if "\0" in name or not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{where}: {name!r} leads out of {folder}")
    return path
