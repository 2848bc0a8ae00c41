"""Groups of pictures, such as the object that several of them show, from a table of the user."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from candlelight.loaders.errors import InputError, blaming
from candlelight.loaders.files.decode_image import IMAGE_SUFFIXES
from candlelight.loaders.public.text_lists import wrong_line

_FORMAT = "expected a CSV file with the columns picture,group"


@dataclass(frozen=True)
class PictureGroups:
    """Groups of the pictures of some folders, as `read_picture_groups` reads them.

    Attributes:
        table: file of the groups.
        groups: group of each picture, by its absolute path.
    """

    table: Path
    groups: Mapping[Path, str]

    def of(self, folder: Path, names: Sequence[str]) -> tuple[str, ...]:
        """Look up the groups of pictures.

        Args:
            folder: folder of the pictures.
            names: paths of the pictures in the folder.

        Raises:
            InputError: the table has no row for a picture.
        """
        places = {name: _place(folder / name) for name in names}
        if missing := [name for name, place in places.items() if place not in self.groups]:
            raise InputError(
                f"{self.table}: expected a row for each picture of {folder}, got none for {len(missing)} of "
                f"{len(names)}, such as {missing[0]}; add rows"
            )
        return tuple(self.groups[place] for place in places.values())


def read_picture_groups(path: Path | str) -> PictureGroups:
    r"""Read a table of the groups of pictures, for `open_images`.

    Args:
        path: a CSV file with the columns ``picture``, a path relative to the folder of the file, and
            ``group``, any text; other columns are ignored.

    Raises:
        InputError: the file cannot be read or lacks a column; or a row has no group, names no picture, or
            names the picture of an earlier row.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as name:
        ...     (folder := Path(name) / "striped").mkdir()
        ...     (folder / "1.png").touch()
        ...     _ = Path(name, "groups.csv").write_text("picture,group\nstriped/1.png,vase\n")
        ...     read_picture_groups(f"{name}/groups.csv").of(folder, ["1.png"])
        ('vase',)
    """
    path = Path(path)
    with (
        blaming(f"{path}: cannot be read as a table of groups", _FORMAT),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        header, *rows = [*csv.reader(file, skipinitialspace=True, strict=True)] or [[]]
    if not {"picture", "group"} <= set(header):
        raise InputError(f"{path}: {_FORMAT}, got {','.join(header)[:80]!r}")
    groups: dict[Path, str] = {}
    for number, row in enumerate(rows, 1):
        if not row:  # a blank line
            continue
        cells, text = dict(zip(header, row, strict=False)), ",".join(row)
        picture = path.parent / cells.get("picture", "")
        if picture.suffix.lower() not in IMAGE_SUFFIXES or not picture.is_file():
            raise wrong_line(path, number, text, "the path of a picture, relative to the folder of the table")
        if _place(picture) in groups:
            raise wrong_line(path, number, text, "one row for each picture")
        if not cells.get("group"):
            raise wrong_line(path, number, text, "a group")
        groups[_place(picture)] = cells["group"]
    return PictureGroups(path, groups)


def _place(picture: Path) -> Path:
    """Return the absolute path of a picture; a link keeps its own name, so it may have its own group."""
    return picture.parent.resolve() / picture.name
