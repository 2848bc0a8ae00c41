"""Compare rows of a pack with their own metadata: one check for both formats.

Hashes find changed bytes. A pack that somebody edited and hashed anew fits its hashes, so each row is also
compared with its metadata, from which `candlelight pack` made its columns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from candlelight.loaders.errors import DAMAGED
from candlelight.loaders.packed_frames import CHECK
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256
from candlelight.loaders.unexplained_light import unexplained_light

# A frame; values of its columns but layers and metadata as they are stored, None for null; the same values
# according to its metadata.
StoredRow = tuple[Frame, Mapping[str, object], Mapping[str, object]]


def check_rows(
    rows: Iterable[Callable[[], StoredRow]], file: Path, seen: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Check the rows of a file.

    Args:
        rows: functions that read the rows, in order; they raise one of `DAMAGED` for a row that has none.
        file: the file, for messages.
        seen: place by id of each sample of the image set that was seen before; samples of these rows are
            added.

    Yields:
        The first fault of each row and its `unexplained_light`, "" if there is none.
    """
    for number, read in enumerate(rows):
        row, light = f"row {number}", ""
        try:
            frame, found, due = read()
            light = unexplained_light(frame.metadata)
            fault = _fault(frame, found, due, f"{file.name}, {row}", seen)
            row += f" ({frame.metadata.id})"
        except DAMAGED as error:
            fault = reason(error, file).removeprefix(row).lstrip(": ")
        yield (f"{row}: {fault}" if fault else ""), light


def _fault(
    frame: Frame, found: Mapping[str, object], due: Mapping[str, object], place: str, seen: dict[str, str]
) -> str:
    if (first := seen.setdefault(frame.metadata.id, place)) != place:
        return f"expected each sample once, got it in {first} too"
    for name, value in due.items():
        if found[name] != value:
            got = "null" if found[name] is None else f"{found[name]!r:.60}"
            return f"column `{name}`: expected {value!r:.60}, as in its metadata, got {got}"
    for name, array in frame.layers.items():
        if array_sha256(array) != frame.metadata.layers.get(name):
            return f"layer `{name}` differs from its hash"
    return ""


def reason(error: BaseException, file: Path) -> str:
    """Return the message of an error without the file's name and the remedy, which are printed already."""
    return str(error).removeprefix(str(file)).lstrip(":, ").removesuffix(f"; {CHECK}")
