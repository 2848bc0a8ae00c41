"""Compare two recordings: equal in bytes, equal within a tolerance, or the first differences.

Only fractional numbers have a tolerance: words, integers, keys and the order of rows must be equal, so that
counts, ranks and verdicts are. A number in a text may also differ by a unit of its last digit, the pixels of
a picture by one of 256 levels, and the columns of a table by spaces.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.recording.outputs import PICTURES, PRINTED

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
_PICTURE = re.compile(r"\[(svg|png|jpeg) ([0-9a-f]{16})\]")
_SHOWN = 4  # differences of a command
_DRAWN = 1e-3  # difference of coordinates in drawings that always is within the tolerance
_TINY = 1e-12  # difference of stored numbers that always is within the tolerance


@dataclass
class Comparison:
    """The comparison of one command.

    Attributes:
        pictures: folders of the pictures.
        rtol: relative tolerance.
        slack: least tolerance of printed numbers; None for the unit of their last digit.
        differences: beyond the tolerance.
        inexact: files that are not equal in bytes.
        largest: largest relative difference within the tolerance.
    """

    pictures: tuple[Path, Path]
    rtol: float
    slack: float | None = None
    differences: list[str] = field(default_factory=list)
    inexact: list[str] = field(default_factory=list)
    largest: float = 0.0

    def close(self, one: float, other: float, slack: float = _TINY) -> bool:
        """Tell whether two numbers are equal within the tolerance, or differ by at most ``slack``."""
        if one == other or (math.isnan(one) and math.isnan(other)):
            return True
        difference, size = abs(one - other), max(abs(one), abs(other))
        if not difference <= max(slack, self.rtol * size):
            return False
        self.largest = max(self.largest, difference / size)
        return True

    def texts(self, where: str, one: str, other: str) -> None:
        """Compare texts by line, leaving out lines that start with ``$``, the commands themselves."""
        lines, others = (
            [" ".join(line.split()) for line in text.splitlines() if not line.startswith("$ ")]
            for text in (one, other)
        )
        for number, (line, changed) in enumerate(zip(lines, others, strict=False), 1):
            if line != changed and not self._line(line, changed):
                self.differences.append(f"{where}, line {number}: {line!r} and {changed!r}")
        if len(lines) != len(others):
            self.differences.append(f"{where}: {len(lines)} and {len(others)} lines")

    def _line(self, one: str, other: str) -> bool:
        shown, drawn = _PICTURE.findall(one), _PICTURE.findall(other)
        if len(shown) != len(drawn) or not all(map(self._picture, shown, drawn)):
            return False
        one, other = (_PICTURE.sub("", line) for line in (one, other))
        if _NUMBER.split(one) != _NUMBER.split(other):
            return False
        return all(map(self._printed, _NUMBER.findall(one), _NUMBER.findall(other)))

    def _printed(self, one: str, other: str) -> bool:
        """Compare printed numbers: equal as text if both are integers."""
        units = [_unit(text) for text in (one, other)]
        if one == other or min(units) == 1:
            return one == other
        return self.close(float(one), float(other), self.slack or 1.001 * min(units))

    def _picture(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        if one == other:
            return True
        if one[0] != other[0]:
            return False
        paths = [
            folder / f"{name}.{kind}"
            for folder, (kind, name) in zip(self.pictures, (one, other), strict=True)
        ]
        if one[0] == "svg":
            drawings = Comparison(self.pictures, self.rtol, _DRAWN)
            drawings.texts("", *(path.read_text(encoding="utf-8") for path in paths))
            return not drawings.differences
        pixels = [np.asarray(Image.open(path)).astype(int) for path in paths]
        return pixels[0].shape == pixels[1].shape and bool(abs(pixels[0] - pixels[1]).max() <= 1)

    def values(self, where: str, one: Any, other: Any) -> None:
        """Compare content of JSON."""
        if type(one) is not type(other):
            self.differences.append(f"{where}: {_short(one)} and {_short(other)}")
        elif isinstance(one, dict):
            if list(one) != list(other):
                self.differences.append(f"{where}: keys {_short(list(one))} and {_short(list(other))}")
            for key in one.keys() & other.keys() - {"hashes"}:
                self.values(f"{where}.{key}", one[key], other[key])
        elif isinstance(one, list):
            if len(one) != len(other):
                self.differences.append(f"{where}: {len(one)} and {len(other)} entries")
            for number, pair in enumerate(zip(one, other, strict=False)):
                self.values(f"{where}[{number}]", *pair)
        elif isinstance(one, str):
            self.texts(where, one, other)
        elif one != other and not (isinstance(one, float) and self.close(one, other)):
            self.differences.append(f"{where}: {one} and {other}")

    def arrays(self, where: str, one: Path, other: Path) -> None:
        """Compare stored tensors."""
        with np.load(one) as before, np.load(other) as after:
            for name in sorted(set(before.files) | set(after.files)):
                if name not in before.files or name not in after.files:
                    self.differences.append(f"{where}: tensor {name} is in one alone")
                    continue
                tensor, changed = before[name], after[name]
                if tensor.shape != changed.shape or tensor.dtype != changed.dtype:
                    self.differences.append(f"{where}: tensor {name} has another shape or dtype")
                elif tensor.dtype.kind not in "fc":
                    if not np.array_equal(tensor, changed):
                        self.differences.append(f"{where}: tensor {name}")
                elif not np.allclose(tensor, changed, rtol=self.rtol, atol=_TINY, equal_nan=True):
                    worst = float(np.nanmax(abs(tensor.astype(float) - changed)))
                    self.differences.append(f"{where}: tensor {name} by up to {worst:.3g}")


def compare(first: Path, second: Path, rtol: float, renamed: Mapping[str, str]) -> int:
    """Print a line for each command that is not equal in bytes, and return 1 if one differs, else 0."""
    commands = [
        {_rename(path.parent.name, names): path.parent for path in folder.glob(f"*/{PRINTED}")}
        for folder, names in ((first, renamed), (second, {}))
    ]
    counts = {"equal": 0, "close": 0, "DIFFERS": 0, "MISSING": 0}
    for name in sorted(commands[0].keys() | commands[1].keys()):
        pair = [some.get(name) for some in commands]
        if pair[0] is None or pair[1] is None:
            counts["MISSING"] += 1
            print(f"MISSING  {name}: only in {second if pair[0] is None else first}")
            continue
        found = _compare_command(pair[0], pair[1], rtol, renamed)
        verdict = "DIFFERS" if found.differences else "close" if found.inexact else "equal"
        counts[verdict] += 1
        if verdict == "close":
            print(f"close    {name}: {', '.join(found.inexact)}; relative difference {found.largest:.2g}")
        elif verdict == "DIFFERS":
            print(f"DIFFERS  {name}: {len(found.differences)} differences")
            for line in found.differences[:_SHOWN]:
                print(f"         {line[:400]}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return int(counts["DIFFERS"] + counts["MISSING"] > 0)


def _compare_command(first: Path, second: Path, rtol: float, renamed: Mapping[str, str]) -> Comparison:
    found = Comparison((first / PICTURES, second / PICTURES), rtol)
    before = {_rename(name, renamed): path for name, path in _files(first)}
    after = dict(_files(second))
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            found.differences.append(f"{name}: only in {'second' if name in after else 'first'}")
            continue
        if before[name].read_bytes() == after[name].read_bytes():
            continue
        if name.endswith(".arrays.npz"):
            found.inexact.append(name)
            found.arrays(name, before[name], after[name])
            continue
        one, other = (path.read_text(encoding="utf-8") for path in (before[name], after[name]))
        if (one := _rename(one, renamed)) == other:
            continue
        found.inexact.append(name)
        if name.endswith(".json"):
            found.values(name, json.loads(one), json.loads(other))
        else:
            found.texts(name, one, other)
    return found


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """List the recorded files of a command by name; pictures are compared where they are named."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.parent.name != PICTURES:
            yield str(path.relative_to(folder)), path


def _rename(text: str, names: Mapping[str, str]) -> str:
    """Replace whole words; words may hold hyphens."""
    for old, new in names.items():
        text = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new.replace("\\", r"\\"), text)
    return text


def _unit(text: str) -> float:
    """Return the unit of the last digit of a printed number; 1 for an integer."""
    mantissa, _, exponent = text.partition("e")
    if not exponent and "." not in mantissa:
        return 1.0
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 160 else f"{text[:160]}..."
