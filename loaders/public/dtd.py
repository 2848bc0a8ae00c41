"""Read DTD, Describable Textures (Cimpoi, Maji, Kokkinos, Mohamed and Vedaldi, CVPR 2014)."""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, SupportsIndex

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.folder_names import list_names
from candlelight.loaders.public.image_formats import read_rgb8
from candlelight.loaders.public.pixel_tensors import image_tensor
from candlelight.loaders.public.text_lists import path_inside, read_lines, wrong_line

SOURCE = "https://www.robots.ox.ac.uk/~vgg/data/dtd"
_Split = Literal["all", "train", "val", "test"]


class DTD:
    """Photographs of textures with 47 words, 120 photographs for each word.

    ``data[row]`` is a dict of ``id`` (str, as "banded/banded_0002"), ``image`` (uint8 sRGB [3, height, width]
    of any size, or float32 scene-linear in [0, 1]) and ``label`` (int64, index into ``classes``).

    Attributes:
        classes: the words, in alphabetical order.

    Example:
        >>> DTD("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/images is missing; get it
            from https://www.robots.ox.ac.uk/~vgg/data/dtd
    """

    def __init__(
        self, root: Path | str, split: _Split = "all", fold: int = 1, *, linear: bool = False
    ) -> None:
        """List the images.

        Args:
            root: folder ``dtd``, its parent, or the parent of ``dtd/dtd``, the layout of torchvision.
            split: "train", "val" or "test", 1880 images each; or "all".
            fold: number of the split, 1 to 10.
            linear: decode the images.

        Raises:
            InputError: a folder or list is missing or damaged.
        """
        if split not in ("all", "train", "val", "test") or fold not in range(1, 11):
            raise InputError(f"expected split all, train, val or test, and fold 1 to 10, got {split} {fold}")
        nested = (Path(root) / "dtd" / "dtd", Path(root) / "dtd")
        self._folder = next((folder for folder in nested if folder.is_dir()), Path(root))
        images = self._folder / "images"
        self.classes = tuple(sorted(name for name in list_names(images, SOURCE) if (images / name).is_dir()))
        if split == "all":
            paths = sorted(path for name in self.classes for path in (images / name).glob("*.jpg"))
            self.names = tuple(
                path.relative_to(images).as_posix() for path in paths if not path.name.startswith(".")
            )
        else:
            path = self._folder / "labels" / f"{split}{fold}.txt"
            self.names = tuple(self._listed(path, i, line) for i, line in enumerate(read_lines(path, SOURCE)))
        self._linear = linear

    def __len__(self) -> int:
        """Count the images."""
        return len(self.names)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image and its word."""
        import torch

        name = self.names[row]
        pixels = read_rgb8(path_inside(self._folder / "images", name, "the list"), SOURCE)
        return {
            "id": name.removesuffix(".jpg"),
            "image": image_tensor(pixels, self._linear),
            "label": torch.tensor(self.classes.index(name.partition("/")[0])),
        }

    @cached_property
    def words(self) -> dict[str, tuple[str, ...]]:
        """All words that fit each image, including its own, by the image's id.

        Raises:
            InputError: the list is missing or damaged.
        """
        path = self._folder / "labels" / "labels_joint_anno.txt"
        found: dict[str, tuple[str, ...]] = {}
        for i, line in enumerate(read_lines(path, SOURCE)):
            name, *words = line.split()
            if not words or not set(words) <= set(self.classes):
                raise wrong_line(path, i, line, "an image and words among the classes")
            found[name.removesuffix(".jpg")] = tuple(words)
        return found

    def _listed(self, path: Path, i: int, line: str) -> str:
        name = line.strip()
        if name.partition("/")[0] not in self.classes or not name.endswith(".jpg"):
            raise wrong_line(path, i, line, "<class>/<image>.jpg")
        return name
