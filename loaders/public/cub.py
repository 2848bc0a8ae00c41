"""Read CUB-200-2011 (Wah, Branson, Welinder, Perona and Belongie, 2011), and CUB-70, its masks of parts."""

from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int8
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import (
    PartGroups,
    check_groups,
    image_tensor,
    read_mask,
    read_part_masks,
    read_rgb8,
    to_tensor,
)
from candlelight.loaders.public.public_files import (
    PublicSamples,
    PublicSource,
    categorical_factors,
    finite_numbers,
    path_inside,
    wrong_line,
)

SOURCE = PublicSource("https://www.vision.caltech.edu/datasets/cub_200_2011")
_NAME = "CUB_200_2011"
_Split = Literal["all", "train", "test"]
_Numbers = Iterator[tuple[int, list[float]]]
_MASKS_SOURCE = PublicSource("https://github.com/hamedbehzadi/CUB70-PartSegmentationDataset")
_MASKS = "AnnotationMasksPerclass"
_PartSplit = Literal["annotated", "train", "test"]
CUB70_SPLITS: tuple[_PartSplit, ...] = ("annotated", "train", "test")
_SPECIES = 70  # the first of CUB-200-2011
CUB70_PARTS = (
    *("body", "head", "neck", "beak", "tail"),
    *("right_wing", "left_wing", "right_leg", "left_leg", "right_eye", "left_eye"),
)


class Attributes(NamedTuple):
    """Annotators' answers about the attributes of each image, in the order of the rows.

    ``certainty`` is 1 not visible, 2 guessing, 3 probably, 4 definitely, 0 for no answer.
    """

    names: tuple[str, ...]
    present: Bool[ndarray, "n attributes"]
    certainty: Int8[ndarray, "n attributes"]


class CUB200(PublicSamples):
    """Photographs of birds of 200 species, with boxes, 15 points and 312 attributes.

    ``data[row]`` is a dict of ``id`` (str, path below ``images`` without suffix), ``number`` (int, the
    image's number in the lists), ``image`` (uint8 sRGB [3, height, width], or float32 scene-linear in [0, 1];
    gray fills all channels), ``label`` (int64, 0 to 199, index into ``classes``), ``bbox`` (float32 left,
    top, right, bottom in pixels; may leave the image), ``points`` (float32 [15, 2], x and y in pixels, 0
    where not visible), ``visible`` (bool [15]) and with ``segmentations`` ``mask`` (bool [height, width]).
    Rows are in order of the image numbers.

    Attributes:
        classes: names of the classes.
        points: names of the 15 points.

    Example:
        >>> CUB200("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/CUB_200_2011/images.txt is missing; get it from
            https://www.vision.caltech.edu/datasets/cub_200_2011
    """

    def __init__(
        self, root: Path | str, split: _Split = "all", *, segmentations: bool = False, linear: bool = False
    ) -> None:
        """Read the lists.

        Args:
            root: folder of the unpacked archive, or ``CUB_200_2011`` in it.
            split: "train" 5994 images, "test" 5794, or "all".
            segmentations: read the masks of ``segmentations.tgz`` too, next to or inside ``CUB_200_2011``.
            linear: decode the images.

        Raises:
            InputError: a list is missing or damaged, or does not match another list.
        """
        check_choice("split", split, _Split)
        root = Path(root)
        lists = [folder / "images.txt" for folder in (root / _NAME, root, root / _NAME / _NAME)]
        self.folder = SOURCE.find(*lists).parent  # some copies nest it in a folder of the same name
        names = _numbered(self.folder / "images.txt")
        classes = _numbered(self.folder / "classes.txt")
        labels = _whole(self.folder / "image_class_labels.txt", names, range(1, len(classes) + 1))
        chosen = set(names)
        if split != "all":
            parts = _whole(self.folder / "train_test_split.txt", names, range(2))
            chosen = {number for number, train in parts.items() if train == (split == "train")}
        self.numbers = tuple(number for number in names if number in chosen)
        self.names = tuple(names[number] for number in self.numbers)
        self.ids = tuple(name.removesuffix(Path(name).suffix) for name in self.names)
        self.labels = tuple(labels[number] - 1 for number in self.numbers)
        self.classes = tuple(classes.values())
        self.points = tuple(_numbered(self.folder / "parts" / "parts.txt").values())
        path = self.folder / "bounding_boxes.txt"
        boxes = _numbers(path, names, 4, "an image's number and 4 numbers")
        self._boxes = _complete(path, names, boxes)
        self._points = _points(self.folder / "parts" / "part_locs.txt", names, len(self.points))
        places = [folder / "segmentations" for folder in (self.folder.parent, self.folder)]
        self._masks = SOURCE.find(*places) if segmentations else None
        self._linear = linear

    def _read(self, number: int) -> dict[str, Any]:
        import torch

        image = self.numbers[number]
        pixels = read_rgb8(path_inside(self.folder / "images", self.names[number], "images.txt"), SOURCE)
        left, top, width, height = self._boxes[image]
        points = np.array(self._points[image], np.float32)
        item = {
            "number": image,
            "image": image_tensor(pixels, self._linear),
            "label": torch.tensor(self.labels[number]),
            "bbox": torch.tensor([left, top, left + width, top + height]),
            "points": to_tensor(points[:, :2]),
            "visible": to_tensor(points[:, 2] == 1),
        }
        if self._masks is not None:
            path = path_inside(self._masks, f"{self.ids[number]}.png", "images.txt")
            item["mask"] = to_tensor(read_mask(path, SOURCE, (pixels.shape[0], pixels.shape[1])))
        return item

    @cached_property
    def attributes(self) -> Attributes:
        """The 312 attributes, read at the first use, because the list has 3.7 million lines.

        Some lines have one column too many; the first four columns are read.

        Raises:
            InputError: a list is missing or damaged.
        """
        folders = (self.folder.parent, self.folder, self.folder / "attributes")
        names = _numbered(SOURCE.find(*(folder / "attributes.txt" for folder in folders)))
        rows = {number: row for row, number in enumerate(self.numbers)}
        certainty = np.zeros((len(self), len(names)), np.int8)
        present = np.zeros_like(certainty, bool)

        def parse(line: str) -> tuple[int, int, int, int] | None:
            image, attribute, there, sure = map(int, line.split(maxsplit=4)[:4])
            known = attribute in names and there in (0, 1) and 1 <= sure <= 4
            return (image, attribute, there, sure) if known else None

        path = self.folder / "attributes" / "image_attribute_labels.txt"
        expected = f"image, attribute 1 to {len(names)}, 0 or 1, certainty 1 to 4 and time"
        for image, attribute, there, sure in SOURCE.parse(path, parse, expected):
            if image in rows:
                present[rows[image], attribute - 1] = there
                certainty[rows[image], attribute - 1] = sure
        return Attributes(tuple(names.values()), present, certainty)


class CUB70(PublicSamples):
    """Photographs of birds with a mask for each visible part.

    ``data[row]`` is the dict of `CUB200` with ``parts``: bool tensors [height, width] by name. A part that is
    not visible has no file and no mask. Masks of another size are scaled to the photograph by the nearest
    pixel. Rows are in order of the images' numbers. Only test images of CUB-200-2011 have masks; according to
    users of the data, those of classes 11, 16 and 32 have none.

    Attributes:
        parts: names of the parts, or of the groups.
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
        split: _PartSplit = "annotated",
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
        root = Path(root)
        folder = _MASKS_SOURCE.require(root if root.name == _MASKS else root / _MASKS)
        self.parts = tuple(groups or CUB70_PARTS)
        self._groups, self._masks = groups, masks
        annotated = split == "annotated"
        self._images = images = CUB200(cub, "all" if split == "annotated" else split, linear=linear)
        rows = {
            Path(name).stem: row
            for row, name in enumerate(images.names)
            if annotated or images.labels[row] < _SPECIES
        }
        self._files: dict[int, dict[str, Path]] = {} if annotated else {row: {} for row in rows.values()}
        for path in sorted(folder.glob("*/[!.]*.png")):
            stem, part = _split_name(path.stem)
            if part is not None and stem in rows:
                self._files.setdefault(rows[stem], {})[part] = path
            elif part is not None and annotated:  # else a mask of the other split
                raise InputError(f"{path}: there is no image {stem} in {images.folder}/images.txt")
        expected = "<class>/<image>_<part>.png" if annotated else f"images of split {split}"
        self._rows = _MASKS_SOURCE.some(sorted(self._files), f"{folder}: expected {expected}")
        self.ids = tuple(images.ids[row] for row in self._rows)
        self.factors = categorical_factors({"species": images.classes})
        self.factor_table: Float64[ndarray, "n 1"] = np.array([[images.labels[n]] for n in self._rows], float)

    def _read(self, number: int) -> dict[str, Any]:
        item = self._images[self._rows[number]]
        if not self._masks:
            return item
        size, files = tuple(item["image"].shape[1:]), self._files[self._rows[number]]
        return {**item, "parts": read_part_masks(files, _MASKS_SOURCE, size, self._groups)}


def _numbered(path: Path) -> dict[int, str]:
    """Read lines of a number and a name, which may contain spaces; numbers start at 1 and have no gaps."""
    names: dict[int, str] = {}
    for i, line in enumerate(SOURCE.lines(path)):
        number, _, name = line.strip().partition(" ")
        if number != str(i + 1) or not name.strip():
            raise wrong_line(path, i, line, f"{i + 1} and a name")
        names[i + 1] = name.strip()
    return names


def _whole(path: Path, names: Collection[int], known: range) -> dict[int, int]:
    """Read a known whole number for each image."""
    expected = f"two whole numbers, an image of images.txt and {known[0]} to {known[-1]}"
    found = _complete(path, names, _numbers(path, names, 1, expected, known))
    return {image: int(value) for image, (value,) in found.items()}


def _points(path: Path, names: Collection[int], count: int) -> dict[int, list[list[float]]]:
    """Read x, y and visibility of each point of each image; 0 for points that are not listed."""
    found = {image: [[0.0, 0.0, 0.0]] * count for image in names}
    expected = f"an image of images.txt and a point 1 to {count}, x, y, 0 or 1"
    for image, (point, *place) in _numbers(path, names, 4, expected, range(1, count + 1)):
        found[image][int(point) - 1] = place
    return found


def _numbers(
    path: Path, names: Collection[int], count: int, expected: str, known: range | None = None
) -> _Numbers:
    """Parse lines of an image's number and finite numbers, of which the first is a known one."""

    def parse(line: str) -> tuple[int, list[float]] | None:
        image, *words = line.split()
        numbers = finite_numbers(words, count)
        if numbers is None or int(image) not in names or (known and numbers[0] not in known):
            return None
        return int(image), numbers

    return SOURCE.parse(path, parse, expected)


def _complete(path: Path, names: Collection[int], lines: _Numbers) -> dict[int, list[float]]:
    """Require a line for each image."""
    found = dict(lines)
    if missing := [image for image in names if image not in found]:
        count = f"{len(missing)} images are not in it, first {missing[0]}"
        raise InputError(f"{path}: {count}; get it from {SOURCE}")
    return found


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
