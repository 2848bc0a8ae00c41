"""Read DTD, Describable Textures (Cimpoi, Maji, Kokkinos, Mohamed and Vedaldi, CVPR 2014)."""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import image_tensor, read_rgb8
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, path_inside

SOURCE = PublicSource("https://www.robots.ox.ac.uk/~vgg/data/dtd")
_Split = Literal["all", "train", "val", "test"]


class DTD(PublicSamples):
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
        self.classes = tuple(sorted(SOURCE.folders(images)))
        if split == "all":
            paths = (path for name in self.classes for path in sorted((images / name).glob("[!.]*.jpg")))
            self.names = tuple(path.relative_to(images).as_posix() for path in paths)
        else:
            path = self._folder / "labels" / f"{split}{fold}.txt"
            self.names = tuple(SOURCE.parse(path, self._listed, "<class>/<image>.jpg"))
        self.ids = tuple(name.removesuffix(".jpg") for name in self.names)
        self._linear = linear

    def _read(self, number: int) -> dict[str, Any]:
        import torch

        name = self.names[number]
        pixels = read_rgb8(path_inside(self._folder / "images", name, "the list"), SOURCE)
        label = torch.tensor(self.classes.index(name.partition("/")[0]))
        return {"image": image_tensor(pixels, self._linear), "label": label}

    @cached_property
    def words(self) -> dict[str, tuple[str, ...]]:
        """All words that fit each image, including its own, by the image's id.

        Raises:
            InputError: the list is missing or damaged.
        """
        path = self._folder / "labels" / "labels_joint_anno.txt"
        expected = "an image and words among the classes"
        return dict(SOURCE.parse(path, self._fitting, expected))

    def _fitting(self, line: str) -> tuple[str, tuple[str, ...]] | None:
        name, *words = line.split()
        return (name.removesuffix(".jpg"), tuple(words)) if words and {*words} <= {*self.classes} else None

    def _listed(self, line: str) -> str | None:
        name = line.strip()
        return name if name.partition("/")[0] in self.classes and name.endswith(".jpg") else None
