"""Read CelebAMask-HQ (Lee, Liu, Wu and Luo, CVPR 2020)."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.folder_names import list_names
from candlelight.loaders.public.image_formats import read_rgb8
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.pixel_tensors import PartGroups, check_groups, image_tensor, read_part_masks
from candlelight.loaders.public.text_lists import read_lines, wrong_line
from candlelight.loaders.schema import FactorInfo

SOURCE = "https://github.com/switchablenorms/CelebAMask-HQ"
_FOLDER = "CelebAMask-HQ-mask-anno"
_Split = Literal["all", "train", "val", "test"]
CELEBAMASK_SPLITS: tuple[_Split, ...] = ("all", "train", "val", "test")

# In the order of the official label numbers, which start at 1.
CELEBAMASK_PARTS = (
    *("skin", "nose", "eye_g", "l_eye", "r_eye", "l_brow", "r_brow", "l_ear", "r_ear"),
    *("mouth", "u_lip", "l_lip", "hair", "hat", "ear_r", "neck_l", "neck", "cloth"),
)
# Behzadi-Khormouji and Oramas, section 5.1. No group contains the hat.
PAPER_GROUPS: dict[str, tuple[str, ...]] = {
    "skin": ("skin", "neck", "l_ear", "r_ear"),
    "hair": ("hair", "l_brow", "r_brow"),
    "nose": ("nose",),
    "eyes": ("l_eye", "r_eye"),
    "mouth": ("mouth",),
    "lips": ("u_lip", "l_lip"),
    "eyeglass": ("eye_g",),
    "earring": ("ear_r",),
    "necklace": ("neck_l",),
    "cloth": ("cloth",),
}
_BOUNDS = {"train": (0, 162771), "val": (162771, 182638), "test": (182638, 2**31)}  # of CelebA's numbers
_PER_FOLDER = 2000


class CelebAMaskHQ:
    """Faces with a mask for each visible part.

    ``data[row]`` is a dict of ``id`` (str) and ``index`` (int), the number in the image's name, ``image``
    (uint8 sRGB [3, 1024, 1024], or float32 scene-linear in [0, 1]) and ``parts``: bool tensors of the image's
    size by name, scaled from 512 x 512 by the nearest pixel. A part that is not visible has no file and no
    mask. Masks may overlap. Rows are in order of ``index``.

    Attributes:
        parts: names of the parts, or of the groups.
        indices: numbers of the images.

    Example:
        >>> CelebAMaskHQ("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/CelebA-HQ-img is missing; get it from
            https://github.com/switchablenorms/CelebAMask-HQ
    """

    def __init__(
        self,
        root: Path | str,
        split: _Split = "all",
        *,
        groups: PartGroups | Literal["paper"] | None = None,
        masks: bool = True,
        linear: bool = False,
    ) -> None:
        """List the images.

        Args:
            root: folder ``CelebAMask-HQ``.
            split: CelebA's own split, as in the official script: "train" 24183, "val" 2993, "test" 2824
                images (the coverage paper swaps the last two); or "all".
            groups: parts to unite under one name, by that name; "paper" for `PAPER_GROUPS`. Parts outside
                all groups are left out. None keeps each of `CELEBAMASK_PARTS`.
            masks: read the masks; without them, items have no ``parts``.
            linear: decode the images.

        Raises:
            InputError: a folder or list is missing or damaged, or a group names an unknown part.
        """
        check_choice("split", split, CELEBAMASK_SPLITS)
        self._groups = PAPER_GROUPS if groups == "paper" else groups
        check_groups(self._groups, CELEBAMASK_PARTS)
        self.root, self.parts, self._linear = Path(root), tuple(self._groups or CELEBAMASK_PARTS), linear
        images = require_path(self.root / "CelebA-HQ-img", SOURCE)
        self._masks = require_path(self.root / _FOLDER, SOURCE) if masks else None
        stems = (name.removesuffix(".jpg") for name in list_names(images, SOURCE) if name.endswith(".jpg"))
        numbers = sorted(int(stem) for stem in stems if re.fullmatch("0|[1-9][0-9]{0,5}", stem))
        if split != "all":
            low, high = _BOUNDS[split]
            origin = _origins(self.root / "CelebA-HQ-to-CelebA-mapping.txt", numbers)
            numbers = [number for number in numbers if low <= origin[number] < high]
        if not numbers:
            raise InputError(f"{images}: expected images <number>.jpg of split {split}, found none")
        self.indices = np.array(numbers, np.int64)

    def __len__(self) -> int:
        """Count the images."""
        return len(self.indices)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image and its masks."""
        number = int(self.indices[row])
        pixels = read_rgb8(self.root / "CelebA-HQ-img" / f"{number}.jpg", SOURCE)
        item = {"id": str(number), "index": number, "image": image_tensor(pixels, self._linear)}
        if self._masks is None:
            return item
        folder = require_path(self._masks / str(number // _PER_FOLDER), SOURCE)
        files = {part: folder / f"{number:05d}_{part}.png" for part in CELEBAMASK_PARTS}
        files = {part: path for part, path in files.items() if path.is_file()}
        size = (pixels.shape[0], pixels.shape[1])
        return {**item, "parts": read_part_masks(files, SOURCE, size, self._groups)}

    @property
    def factors(self) -> tuple[FactorInfo, ...]:
        """CelebA's 40 attributes, each "no" or "yes"; the list is read at the first use."""
        values = ("no", "yes")
        return tuple(FactorInfo(name=name, kind="categorical", values=values) for name in self.attributes[0])

    @property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """0 for "no" and 1 for "yes", one row per image and one column per attribute."""
        return self.attributes[1].astype(np.float64)

    @cached_property
    def attributes(self) -> tuple[tuple[str, ...], Bool[ndarray, "n attributes"]]:
        """Names of CelebA's 40 attributes, and whether each row has them; read at the first use.

        Raises:
            InputError: the list is missing or damaged, or lacks an image.
        """
        path = self.root / "CelebAMask-HQ-attribute-anno.txt"
        _, head, *lines = [*read_lines(path, SOURCE), "", ""]
        names = tuple(head.split())
        found: dict[str, list[bool]] = {}
        for i, line in enumerate(filter(None, lines)):
            image, *values = line.split()
            if len(values) != len(names) or not set(values) <= {"-1", "1"}:
                raise wrong_line(path, i + 2, line, f"an image and {len(names)} of -1 and 1")
            found[image] = [value == "1" for value in values]
        missing = [n for n in self.indices.tolist() if f"{n}.jpg" not in found]
        if missing:
            raise InputError(f"{path}: {missing[0]}.jpg is not in it; get it from {SOURCE}")
        return names, np.array([found[f"{number}.jpg"] for number in self.indices.tolist()], bool)


def _origins(path: Path, numbers: Sequence[int]) -> dict[int, int]:
    """Read the CelebA number of each image; the list must hold all of ``numbers``."""
    origins: dict[int, int] = {}
    for i, line in enumerate(read_lines(path, SOURCE)[1:]):
        try:
            number, origin, _ = line.split()
            origins[int(number)] = int(origin)
        except ValueError:
            raise wrong_line(path, i + 1, line, "a number, CelebA's number and a file") from None
    if missing := [number for number in numbers if number not in origins]:
        raise InputError(f"{path}: {missing[0]}.jpg is not in it; get it from {SOURCE}")
    return origins
