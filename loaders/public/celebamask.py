"""Read CelebAMask-HQ (Lee, Liu, Wu and Luo, CVPR 2020)."""

import re
from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import (
    PartGroups,
    check_groups,
    image_tensor,
    read_part_masks,
    read_rgb8,
)
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, categorical_factors
from candlelight.loaders.schema import FactorInfo

SOURCE = PublicSource("https://github.com/switchablenorms/CelebAMask-HQ")
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
# Of CelebA's numbers.
_BOUNDS = {"train": range(162771), "val": range(162771, 182638), "test": range(182638, 2**31)}
_PER_FOLDER = 2000


class CelebAMaskHQ(PublicSamples):
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
        images = SOURCE.require(self.root / "CelebA-HQ-img")
        self._masks = SOURCE.require(self.root / _FOLDER) if masks else None
        stems = (name.removesuffix(".jpg") for name in SOURCE.names(images) if name.endswith(".jpg"))
        numbers = sorted(int(stem) for stem in stems if re.fullmatch("0|[1-9][0-9]{0,5}", stem))
        if split != "all":
            path = self.root / "CelebA-HQ-to-CelebA-mapping.txt"
            expected = "a number, CelebA's number and a file"
            origins = dict(SOURCE.parse(path, _origin, expected, skip=1))
            numbers = [n for n in numbers if _listed(path, origins, n) in _BOUNDS[split]]
        expected = f"{images}: expected images <number>.jpg of split {split}"
        self.ids = SOURCE.some(map(str, numbers), expected)
        self.indices = np.array(numbers, np.int64)

    def _read(self, number: int) -> dict[str, Any]:
        index = int(self.indices[number])
        pixels = read_rgb8(self.root / "CelebA-HQ-img" / f"{index}.jpg", SOURCE)
        item = {"index": index, "image": image_tensor(pixels, self._linear)}
        if self._masks is None:
            return item
        folder = SOURCE.require(self._masks / str(index // _PER_FOLDER))
        files = {part: folder / f"{index:05d}_{part}.png" for part in CELEBAMASK_PARTS}
        files = {part: path for part, path in files.items() if path.is_file()}
        size = (pixels.shape[0], pixels.shape[1])
        return {**item, "parts": read_part_masks(files, SOURCE, size, self._groups)}

    @property
    def factors(self) -> tuple[FactorInfo, ...]:
        """CelebA's 40 attributes, each "no" or "yes"; the list is read at the first use."""
        return categorical_factors(dict.fromkeys(self.attributes[0], ("no", "yes")))

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
        _, head, *_ = [*islice(SOURCE.lines(path), 2), "", ""]
        names = tuple(head.split())

        def parse(line: str) -> tuple[int, list[bool]] | None:
            image, *values = line.split()
            known = len(values) == len(names) and set(values) <= {"-1", "1"}
            return (int(image.removesuffix(".jpg")), [value == "1" for value in values]) if known else None

        found = dict(SOURCE.parse(path, parse, f"an image and {len(names)} of -1 and 1", skip=2))
        return names, np.array([_listed(path, found, number) for number in self.indices.tolist()], bool)


def _origin(line: str) -> tuple[int, int]:
    """Parse an image's number and CelebA's number."""
    number, origin, _ = line.split()
    return int(number), int(origin)


def _listed(path: Path, found: Mapping[int, Any], number: int) -> Any:
    """Look up an image in a list."""
    if number not in found:
        raise InputError(f"{path}: {number}.jpg is not in it; get it from {SOURCE}")
    return found[number]
