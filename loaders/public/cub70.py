"""Read CUB-70: part masks of 70 species of CUB-200-2011 (Behzadi-Khormouji and Oramas)."""

from pathlib import Path
from typing import Any, SupportsIndex

from loaders.errors import InputError
from loaders.public.cub200 import CUB200
from loaders.public.missing_files import require_path
from loaders.public.pixel_tensors import PartGroups, check_groups, read_part_masks

SOURCE = "https://github.com/hamedbehzadi/CUB70-PartSegmentationDataset"
_FOLDER = "AnnotationMasksPerclass"
CUB70_PARTS = (
    *("body", "head", "neck", "beak", "tail"),
    *("right_wing", "left_wing", "right_leg", "left_leg", "right_eye", "left_eye"),
)


class CUB70:
    """Photographs of birds with a mask for each visible part.

    ``data[row]`` is the dict of `CUB200` with ``parts``: bool tensors [height, width] by name. A part that is
    not visible has no file and no mask. Masks of another size are scaled to the photograph by the nearest
    pixel. Rows are the images that have a mask, in order of their numbers; according to the authors, classes
    11, 16 and 32 have no masks.

    Attributes:
        parts: names of the parts, or of the groups.
        ids: ids of all rows.

    Example:
        >>> CUB70("nowhere", "nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere/AnnotationMasksPerclass is missing; get it from
            https://github.com/hamedbehzadi/CUB70-PartSegmentationDataset
    """

    def __init__(
        self, root: Path | str, cub: Path | str, *, groups: PartGroups | None = None, linear: bool = False
    ) -> None:
        """List the masks.

        Args:
            root: the folder ``AnnotationMasksPerclass``, or its parent.
            cub: folder of CUB-200-2011, as `CUB200` takes it.
            groups: parts to unite under one name, as ``{"wings": ["right_wing", "left_wing"]}``; parts
                outside all groups are left out. None keeps each of `CUB70_PARTS`.
            linear: decode the images.

        Raises:
            InputError: a folder or list is missing, a mask has no image, or a group names an unknown part.
        """
        check_groups(groups, CUB70_PARTS)
        folder = Path(root)
        if folder.name != _FOLDER:
            folder = require_path(folder / _FOLDER, SOURCE)
        self.parts = tuple(groups or CUB70_PARTS)
        self._groups, self._images = groups, CUB200(cub, linear=linear)
        rows = {Path(name).stem: row for row, name in enumerate(self._images.names)}
        self._files: dict[int, dict[str, Path]] = {}
        for path in sorted(require_path(folder, SOURCE).glob("*/*.png")):
            stem, part = _split_name(path.stem)
            if part is None or path.name.startswith("."):
                continue
            if stem not in rows:
                raise InputError(f"{path}: there is no image {stem} in {self._images.folder}/images.txt")
            self._files.setdefault(rows[stem], {})[part] = path
        self._rows = sorted(self._files)
        names = [self._images.names[row] for row in self._rows]
        self.ids = tuple(name.removesuffix(Path(name).suffix) for name in names)
        if not self._rows:
            raise InputError(
                f"{folder}: expected <class>/<image>_<part>.png, found none; get it from {SOURCE}"
            )

    def __len__(self) -> int:
        """Count the images."""
        return len(self._rows)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image, its annotations and its masks."""
        place = self._rows[row]
        item = self._images[place]
        size = tuple(item["image"].shape[1:])
        return {**item, "parts": read_part_masks(self._files[place], SOURCE, size, self._groups)}


def _split_name(stem: str) -> tuple[str, str | None]:
    """Split a mask's name into image and part; image names contain underscores, and may begin alike.

    Example:
        >>> _split_name("Black_Footed_Albatross_0046_18_right_wing")
        ('Black_Footed_Albatross_0046_18', 'right_wing')
    """
    for part in sorted(CUB70_PARTS, key=len, reverse=True):
        if stem.endswith(f"_{part}"):
            return stem.removesuffix(f"_{part}"), part
    return stem, None
