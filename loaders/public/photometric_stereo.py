"""Read photometric stereo of 'apple', 'gourd1', 'gourd2' (Alldrin, Zickler, Kriegman, CVPR 2008)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float32
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.exr import read_exr
from candlelight.loaders.public.image_formats import read_indices, same_size, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, finite_numbers

SOURCE = PublicSource("https://vision.ucsd.edu/~nalldrin/research/cvpr08/datasets")
Lights = Literal["refined", "unrefined"]


class PhotometricStereo(PublicSamples):
    """Photographs of an object under one distant light at a time, with known light directions.

    A row is one photograph; `rows` lists the rows of an object, `stack` reads all its photographs.
    ``data[i]`` is a dict of ``id`` (``<object>/I_<n>``), ``object`` and

    * ``image``: float32 [3, H, W], scene-linear as stored, ambient light subtracted, unbounded;
    * ``mask``: bool [H, W], true where the file, of 0 and 1, is not 0;
    * ``light_direction``: float32 [3], towards the light, in the frame of the files: x right, y up, z towards
      the camera. ``light_direction * (1, -1, -1)`` is in this package's camera frame (y down, z forward);
    * ``light_intensity``: float32 [3], RGB.

    There is no ground truth of normals, and no split. Line k of the text files belongs to the k-th image in
    order of the image numbers, which may have gaps.

    Certain: names, axes and values, from the data set's own README. Uncertain: the number of images (the
    README names 112, 102 and 98).

    Example:
        >>> PhotometricStereo("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it from https://vision.ucsd.edu/~nalldrin/research/cvpr08/datasets
    """

    def __init__(
        self, root: Path | str, objects: Sequence[str] | None = None, lights: Lights = "refined"
    ) -> None:
        """List the photographs and read the lights, without reading an image.

        Args:
            root: folder with ``<object>/I_0000.exr`` and so on.
            objects: names of objects; None for all in the folder.
            lights: "refined" as recommended by the README (``light_directions_refined.txt``), or "unrefined"
                (``light_directions.txt``); intensities likewise.

        Raises:
            InputError: the folder, an object or a list of lights is missing, or a list is damaged or differs
                in length from the images.
        """
        check_choice("lights", lights, Lights)
        self._root = Path(root)
        folders = SOURCE.folders(self._root)
        found = [name for name in folders if any((self._root / name).glob("*[0-9].exr"))]
        expected = f"{self._root}: expected <object>/I_0000.exr"
        self.objects = SOURCE.some(found if objects is None else objects, expected)
        end = "_refined.txt" if lights == "refined" else ".txt"
        self._files: list[Path] = []
        self._rows: dict[str, range] = {}
        self._lights: dict[str, tuple[ndarray, ndarray]] = {}
        for name in self.objects:
            if name not in found:
                raise InputError(f"objects: expected names among {', '.join(found)}, got {name!r}")
            folder, first = self._root / name, len(self._files)
            names = (file for file in SOURCE.names(folder) if file.lower().endswith(".exr"))
            self._files += [folder / file for file in names if Path(file).stem[-1].isdigit()]
            self._rows[name] = range(first, len(self._files))
            self._lights[name] = (
                _read_triples(folder / f"light_directions{end}", len(self._rows[name])),
                _read_triples(folder / f"light_intensities{end}", len(self._rows[name])),
            )
        self.ids = tuple(f"{path.parent.name}/{path.stem}" for path in self._files)

    def rows(self, name: str) -> range:
        """List the rows of one object.

        Raises:
            InputError: there is no such object.
        """
        if name not in self._rows:
            raise InputError(f"object: expected one of {', '.join(self.objects)}, got {name!r}")
        return self._rows[name]

    def _read(self, number: int) -> dict[str, Any]:
        path = self._files[number]
        name = path.parent.name
        image, mask = read_exr(path, SOURCE), _read_mask(path.parent)
        same_size({"image": image, "mask": mask}, str(path))
        directions, intensities = self._lights[name]
        return {
            "object": name,
            "image": to_tensor(image),
            "mask": to_tensor(mask),
            "light_direction": to_tensor(directions[number - self._rows[name].start]),
            "light_intensity": to_tensor(intensities[number - self._rows[name].start]),
        }

    def stack(self, name: str) -> dict[str, Any]:
        """Read all photographs of an object.

        Returns:
            A dict of ``object``, ``images`` float32 [n, 3, H, W], ``mask`` bool [H, W],
            ``light_directions`` and ``light_intensities``, float32 [n, 3].

        Raises:
            InputError: there is no such object, or a file is missing, damaged or of another size.
        """
        import torch

        paths = [self._files[row] for row in self.rows(name)]
        images = {"mask": _read_mask(self._root / name)}
        images |= {path.name: read_exr(path, SOURCE) for path in paths}
        same_size(images, str(self._root / name))
        directions, intensities = self._lights[name]
        return {
            "object": name,
            "images": torch.stack([to_tensor(images[path.name]) for path in paths]),
            "mask": to_tensor(images["mask"]),
            "light_directions": to_tensor(directions),
            "light_intensities": to_tensor(intensities),
        }


def _read_mask(folder: Path) -> Bool[ndarray, "height width"]:
    return read_indices(folder / "mask.png", SOURCE) > 0


def _read_triples(path: Path, count: int) -> Float32[ndarray, "n 3"]:
    rows = list(SOURCE.parse(path, lambda line: finite_numbers(line.split(), 3), "three numbers"))
    if len(rows) != count:
        raise InputError(f"{path}: expected a line for each of {count} images, got {len(rows)} lines")
    return np.array(rows, np.float32)
