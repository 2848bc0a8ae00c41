"""Read Shading Annotations in the Wild (Kovacs, Bell, Snavely, Bala, CVPR 2017)."""

from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import read_rgb8, same_size, to_tensor
from candlelight.loaders.public.npy_numbers import read_numbers
from candlelight.loaders.public.pixel_tensors import image_tensor
from candlelight.loaders.public.saw_annotations import SOURCE, SAWAnnotations, read_saw_annotations

LABELS = {0: "discontinuity of normal or depth", 1: "shadow boundary", 2: "smooth", 100: "ignore"}
LABEL_FOLDER = "saw_data-filter_size_0-ignore_border_0.05-normal_gradmag_thres_1.5-depth_gradmag_thres_2.0"
_Split = Literal["train", "val", "test"]


class SAW:
    """Photographs with labels of smooth shading.

    ``data[i]`` is a dict of ``id`` (number of the photograph as text) and

    * ``image``: float32 [3, H, W], the 8-bit sRGB pixels decoded to scene-linear values in [0, 1];
    * ``labels``: int64 [H, W]: 0 not smooth, because normal or depth jump; 1 not smooth, the boundary of a
      shadow; 2 smooth; 100 ignore;
    * ``mask``: bool [H, W], true where the label is not 100.

    The benchmark separates smooth (2) from not smooth (0 and 1). Two conventions of scoring, of SAW and of
    CGIntrinsics, give different numbers.

    Certain: names, splits, labels. Uncertain: whether every number of a split has a file of labels, hence
    ``skip_missing``.

    Example:
        >>> SAW("nowhere", "test")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/saw_splits/test_ids.npy is missing; get it from https://github.com/kovibalu/saw_release (download_saw.sh)
    """  # noqa: E501

    def __init__(self, root: Path | str, split: _Split, skip_missing: bool = False) -> None:
        """Read the list of a split, without reading an image.

        Args:
            root: folder with ``saw_splits``, ``saw_images_512`` and ``saw_pixel_labels``; `annotations` also
                needs ``saw_annotations_json``.
            split: "train" (4142 photographs in the release), "val" (836) or "test" (1699).
            skip_missing: leave out photographs without a file of labels, and list them in ``missing``;
                otherwise reading such a row is an error.

        Raises:
            InputError: the folder is missing, there is no such split, or its list is damaged.
        """
        check_choice("split", split, _Split)
        self._images = Path(root) / "saw_images_512"
        self._labels = Path(root) / "saw_pixel_labels" / LABEL_FOLDER
        self._annotations = Path(root) / "saw_annotations_json"
        listed = _read_ids(Path(root) / "saw_splits" / f"{split}_ids.npy")
        lacking = [key for key in listed if skip_missing and not (self._labels / f"{key}.npy").is_file()]
        self.missing = tuple(lacking)
        self.ids = tuple(key for key in listed if key not in set(lacking))

    def __len__(self) -> int:
        """Count the photographs."""
        return len(self.ids)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one photograph and its labels.

        Raises:
            InputError: a file is missing or damaged, or the labels differ in size from the photograph.
        """
        key = self.ids[row]
        pixels = read_rgb8(self._images / f"{key}.png", SOURCE)
        labels = _read_labels(self._labels / f"{key}.npy")
        same_size({"image": pixels, "labels": labels}, str(self._labels / f"{key}.npy"))
        return {
            "id": key,
            "image": image_tensor(pixels, linear=True),
            "labels": to_tensor(labels),
            "mask": to_tensor(labels != 100),
        }

    def annotations(self, row: SupportsIndex) -> SAWAnnotations:
        """Read the annotations of one photograph, without the photograph.

        Raises:
            InputError: the file is missing or damaged.
        """
        return read_saw_annotations(self._annotations / f"{self.ids[row]}.json")


def _read_ids(path: Path) -> tuple[str, ...]:
    ids = read_numbers(path, SOURCE, "integers", 1)
    if ids.size and ids.min() < 0:
        raise InputError(f"{path}: expected numbers of photographs, got {ids.min()}")
    if len(np.unique(ids)) != len(ids):
        raise InputError(f"{path}: a photograph is listed twice; get it again from {SOURCE}")
    return tuple(map(str, ids.tolist()))


def _read_labels(path: Path) -> Int64[ndarray, "height width"]:
    labels = read_numbers(path, SOURCE, "integers", 2)
    if unknown := set(np.unique(labels).tolist()) - LABELS.keys():
        raise InputError(f"{path}: expected the labels 0, 1, 2 and 100, got {sorted(unknown)[0]}")
    return labels
