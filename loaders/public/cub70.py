"""Read CUB-70: part masks of 70 species of CUB-200-2011 (Behzadi-Khormouji and Oramas)."""

from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.cub200 import CUB200
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.pixel_tensors import PartGroups, check_groups, read_part_masks
from candlelight.loaders.schema import FactorInfo

SOURCE = "https://github.com/hamedbehzadi/CUB70-PartSegmentationDataset"
_FOLDER = "AnnotationMasksPerclass"
_Split = Literal["annotated", "train", "test"]
CUB70_SPLITS: tuple[_Split, ...] = ("annotated", "train", "test")
_SPECIES = 70  # the first of CUB-200-2011
CUB70_PARTS = (
    *("body", "head", "neck", "beak", "tail"),
    *("right_wing", "left_wing", "right_leg", "left_leg", "right_eye", "left_eye"),
)


class CUB70:
    """Photographs of birds with a mask for each visible part.

    ``data[row]`` is the dict of `CUB200` with ``parts``: bool tensors [height, width] by name. A part that is
    not visible has no file and no mask. Masks of another size are scaled to the photograph by the nearest
    pixel. Rows are in order of the images' numbers. Only test images of CUB-200-2011 have masks; according to
    users of the data, those of classes 11, 16 and 32 have none.

    Attributes:
        parts: names of the parts, or of the groups.
        ids: ids of all rows.
        factors: the species, one of the 200 of CUB-200-2011.
        factor_table: number of the species of each row, from 0.

    Example:
        >>> CUB70("nowhere", "nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/AnnotationMasksPerclass is missing; get it from
            https://github.com/hamedbehzadi/CUB70-PartSegmentationDataset
    """

    def __init__(
        self,
        root: Path | str,
        cub: Path | str,
        split: _Split = "annotated",
        *,
        groups: PartGroups | None = None,
        masks: bool = True,
        linear: bool = False,
    ) -> None:
        """List the masks.

        Args:
            root: the folder ``AnnotationMasksPerclass``, or its parent.
            cub: folder of CUB-200-2011, as `CUB200` takes it.
            split: "annotated" for the images that have a mask; "train" or "test" for the images of the first
                70 species in CUB's own split, with masks or without, as the coverage paper uses them.
            groups: parts to unite under one name, as ``{"wings": ["right_wing", "left_wing"]}``; parts
                outside all groups are left out. None keeps each of `CUB70_PARTS`.
            masks: read the masks; without them, items have no ``parts``.
            linear: decode the images.

        Raises:
            InputError: a folder or list is missing, a mask has no image, or a group names an unknown part.
        """
        check_choice("split", split, CUB70_SPLITS)
        check_groups(groups, CUB70_PARTS)
        folder = Path(root)
        if folder.name != _FOLDER:
            folder = require_path(folder / _FOLDER, SOURCE)
        self.parts = tuple(groups or CUB70_PARTS)
        self._groups, self._masks = groups, masks
        self._images = CUB200(cub, "all" if split == "annotated" else split, linear=linear)
        all_masked, species = split == "annotated", self._images.labels
        rows = {
            Path(name).stem: row
            for row, name in enumerate(self._images.names)
            if all_masked or species[row] < _SPECIES
        }
        self._files: dict[int, dict[str, Path]] = {} if all_masked else {row: {} for row in rows.values()}
        for path in sorted(require_path(folder, SOURCE).glob("*/*.png")):
            stem, part = _split_name(path.stem)
            if part is None or path.name.startswith("."):
                continue
            if stem not in rows:
                if all_masked:
                    raise InputError(f"{path}: there is no image {stem} in {self._images.folder}/images.txt")
                continue  # a mask of the other split
            self._files.setdefault(rows[stem], {})[part] = path
        self._rows = sorted(self._files)
        names = [self._images.names[row] for row in self._rows]
        self.ids = tuple(name.removesuffix(Path(name).suffix) for name in names)
        if not self._rows:
            expected = "<class>/<image>_<part>.png" if all_masked else f"images of split {split}"
            raise InputError(f"{folder}: expected {expected}, found none; get it from {SOURCE}")
        self.factors = (FactorInfo(name="species", kind="categorical", values=self._images.classes),)

    def __len__(self) -> int:
        """Count the images."""
        return len(self._rows)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image, its annotations and its masks."""
        place = self._rows[row]
        item = self._images[place]
        if not self._masks:
            return item
        size = tuple(item["image"].shape[1:])
        return {**item, "parts": read_part_masks(self._files[place], SOURCE, size, self._groups)}

    @property
    def factor_table(self) -> Float64[ndarray, "n 1"]:
        """Number of the species of each row, from 0."""
        return np.array([[self._images.labels[row]] for row in self._rows], np.float64)


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
