"""Read CUB-200-2011 (Wah, Branson, Welinder, Perona and Belongie, 2011)."""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Bool, Float32, Int8
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import read_rgb8, to_tensor
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.pixel_tensors import image_tensor, read_mask
from candlelight.loaders.public.text_lists import each_line, path_inside, read_lines, wrong_line

SOURCE = "https://www.vision.caltech.edu/datasets/cub_200_2011"
_Split = Literal["all", "train", "test"]


class Attributes(NamedTuple):
    """Annotators' answers about the attributes of each image, in the order of the rows.

    ``certainty`` is 1 not visible, 2 guessing, 3 probably, 4 definitely, 0 for no answer.
    """

    names: tuple[str, ...]
    present: Bool[ndarray, "n attributes"]
    certainty: Int8[ndarray, "n attributes"]


class CUB200:
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
        self.folder = _find(Path(root))
        names = _numbered(self.folder / "images.txt")
        classes = _numbered(self.folder / "classes.txt")
        labels = _whole(self.folder / "image_class_labels.txt", names, len(classes))
        chosen = set(names)
        if split != "all":
            parts = _whole(self.folder / "train_test_split.txt", names, 1, low=0)
            chosen = {number for number, train in parts.items() if train == (split == "train")}
        self.numbers = tuple(number for number in sorted(names) if number in chosen)
        self.names = tuple(names[number] for number in self.numbers)
        self.labels = tuple(labels[number] - 1 for number in self.numbers)
        self.classes = tuple(classes[number] for number in sorted(classes))
        self.points = tuple(_numbered(self.folder / "parts" / "parts.txt").values())
        self._boxes = _boxes(self.folder / "bounding_boxes.txt", names)
        self._points = _points(self.folder / "parts" / "part_locs.txt", names, len(self.points))
        self._masks = _masks(self.folder) if segmentations else None
        self._linear = linear

    def __len__(self) -> int:
        """Count the images."""
        return len(self.names)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image and its annotations."""
        import torch

        place = range(len(self))[row]
        number, name = self.numbers[place], self.names[place]
        pixels = read_rgb8(path_inside(self.folder / "images", name, "images.txt"), SOURCE)
        left, top, width, height = self._boxes[number].tolist()
        points = self._points[number]
        item = {
            "id": name.removesuffix(Path(name).suffix),
            "number": number,
            "image": image_tensor(pixels, self._linear),
            "label": torch.tensor(self.labels[place]),
            "bbox": torch.tensor([left, top, left + width, top + height]),
            "points": to_tensor(points[:, :2]),
            "visible": to_tensor(points[:, 2] == 1),
        }
        if self._masks is not None:
            path = path_inside(self._masks, f"{item['id']}.png", "images.txt")
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
        lists = [folder / "attributes.txt" for folder in folders]
        names = _numbered(next((path for path in lists if path.is_file()), lists[0]))
        path = self.folder / "attributes" / "image_attribute_labels.txt"
        rows = {number: row for row, number in enumerate(self.numbers)}
        certainty = np.zeros((len(self), len(names)), np.int8)
        present = np.zeros_like(certainty, bool)
        for i, line in enumerate(each_line(path, SOURCE)):
            try:
                image, attribute, there, sure = map(int, line.split(maxsplit=4)[:4])
            except ValueError:
                raise wrong_line(path, i, line, "image, attribute, 0 or 1, certainty and time") from None
            if attribute not in names or there not in (0, 1) or not 1 <= sure <= 4:
                raise wrong_line(path, i, line, f"attribute 1 to {len(names)}, 0 or 1, certainty 1 to 4")
            if image in rows:
                present[rows[image], attribute - 1] = there
                certainty[rows[image], attribute - 1] = sure
        return Attributes(tuple(names.values()), present, certainty)


def _find(root: Path) -> Path:
    """Find the folder of the lists; some copies nest it in a folder of the same name."""
    name = "CUB_200_2011"
    for folder in (root, root / name, root / name / name):
        if (folder / "images.txt").is_file():
            return folder
    return require_path(root / name / "images.txt", SOURCE).parent


def _masks(folder: Path) -> Path:
    inner, outer = folder / "segmentations", folder.parent / "segmentations"
    return inner if inner.is_dir() else require_path(outer, SOURCE)


def _numbered(path: Path) -> dict[int, str]:
    """Read lines of a number and a name, which may contain spaces; numbers start at 1 and have no gaps."""
    names: dict[int, str] = {}
    for i, line in enumerate(read_lines(path, SOURCE)):
        number, _, name = line.strip().partition(" ")
        if number != str(i + 1) or not name.strip():
            raise wrong_line(path, i, line, f"{i + 1} and a name")
        names[i + 1] = name.strip()
    return names


def _whole(path: Path, names: dict[int, str], high: int, low: int = 1) -> dict[int, int]:
    """Read one line for each image: its number, and a whole number from ``low`` to ``high``."""
    found: dict[int, int] = {}
    for i, line in enumerate(read_lines(path, SOURCE)):
        try:
            image, value = map(int, line.split())
        except ValueError:
            raise wrong_line(path, i, line, "two whole numbers") from None
        if image not in names or not low <= value <= high:
            raise wrong_line(path, i, line, f"an image of images.txt and {low} to {high}")
        found[image] = value
    return _complete(path, found, names)


def _boxes(path: Path, names: dict[int, str]) -> dict[int, Float32[ndarray, " 4"]]:
    found: dict[int, Float32[ndarray, " 4"]] = {}
    for i, line in enumerate(read_lines(path, SOURCE)):
        image, numbers = _floats(path, i, line, 4)
        found[image] = numbers
    return _complete(path, found, names)


def _points(path: Path, names: dict[int, str], count: int) -> dict[int, Float32[ndarray, "count 3"]]:
    found: dict[int, Float32[ndarray, "count 3"]] = {n: np.zeros((count, 3), np.float32) for n in names}
    for i, line in enumerate(read_lines(path, SOURCE)):
        image, (point, *place) = _floats(path, i, line, 4)
        if image not in names or point not in range(1, count + 1):
            raise wrong_line(path, i, line, f"an image of images.txt and a point 1 to {count}")
        found[image][int(point) - 1] = place
    return found


def _floats(path: Path, i: int, line: str, count: int) -> tuple[int, Float32[ndarray, " count"]]:
    """Read a line of an image's number and finite numbers."""
    try:
        image, *numbers = line.split()
        values = np.array(numbers, np.float32)
        if values.shape == (count,) and np.isfinite(values).all():
            return int(image), values
    except ValueError:
        pass
    raise wrong_line(path, i, line, f"an image's number and {count} numbers")


def _complete(path: Path, found: dict[int, Any], names: dict[int, str]) -> dict[int, Any]:
    if missing := sorted(set(names) - set(found)):
        raise InputError(
            f"{path}: {len(missing)} images are not in it, first {missing[0]}; get it from {SOURCE}"
        )
    return found
