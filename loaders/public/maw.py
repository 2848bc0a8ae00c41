"""Read Measured Albedo in the Wild (Wu et al. 2023, arXiv 2306.15662): regions with measured colours."""

from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Float32, Int64, UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.primaries import ADOBE_RGB, REC709, xyz_matrix
from candlelight.loaders.public.iiw import JudgedPhotograph, PointComparisons, valid_comparisons
from candlelight.loaders.public.image_formats import image_tensor, read_indices, read_rgb8, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, path_inside, wrong_line
from candlelight.loaders.regions import scale_regions

SOURCE = PublicSource("https://measuredalbedo.github.io (labels.zip, images_png.zip)")
_COLUMNS = "six columns: colours, mask, scene, photograph, picture of the albedo, judgements or None"
# Both spaces have the white D65, so there is no chromatic adaptation.
_TO_REC709 = np.linalg.solve(xyz_matrix(REC709), xyz_matrix(ADOBE_RGB))
_BRIGHTEST = 1.5  # a measured albedo may exceed 1 a little; more is another unit


class _Row(NamedTuple):
    """Files of one photograph."""

    image: Path
    colours: Path
    mask: Path
    judgements: Path | None


class MAW(PublicSamples):
    """Photographs with regions of one material, whose albedo was measured.

    ``data[i]`` is a dict of ``id`` (``<scene>/<photograph>``), ``scene`` and

    * ``image``: float32 [3, H, W], the 8-bit sRGB pixels decoded to scene-linear values in [0, 1];
    * ``regions``: int64 [H, W]: 0 outside all regions, n in the region whose colour is ``colours[n - 1]``;
    * ``colours``: float32 [n, 3], albedo in scene-linear Rec.709. The files hold linear Adobe RGB; colours
      outside Rec.709 are clipped to [0, 1], as in the benchmark.

    Region n is the n-th value of the mask in ascending order. The benchmark always takes the first value for
    the background, and so loses the first region of a mask without background. Here the number of colours
    decides: a mask with as many values as colours has no background, and one more value is the background;
    any other mask is refused. A mask of another size is stretched to its photograph by the nearest pixel,
    also where its aspect differs: the benchmark resizes both to 320 x 240, and so stretches it too.

    Certain: columns, paths, colours and regions, from the published code. Uncertain: the number of
    photographs (about 850), and whether masks have the size of the photographs. Some folders ``scene_<k>``
    hold several rooms.

    Example:
        >>> MAW("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/labels/meta.csv is missing; get it from https://measuredalbedo.github.io (labels.zip, images_png.zip)
    """  # noqa: E501

    def __init__(self, root: Path | str) -> None:
        """Read the list of photographs, without reading an image.

        Args:
            root: folder with ``labels`` (``meta.csv`` and the files that it names) and ``images_png``.

        Raises:
            InputError: the list is missing or damaged, names a photograph twice, or leads out of the folder.
        """
        root = Path(root)
        listed = root / "labels" / "meta.csv"
        self._rows: dict[str, _Row] = {}
        for number, line in enumerate(SOURCE.lines(listed)):
            words = line.split("\t")
            if len(words) != 6:
                raise wrong_line(listed, number, line, _COLUMNS)
            colours, mask, scene, photograph, _, judged = words
            name = f"{scene}/{photograph}"
            if name in self._rows:
                raise wrong_line(listed, number, line, f"one row for `{name}`")
            self._rows[name] = _Row(
                path_inside(root / "images_png", f"{name}.png", str(listed)),
                path_inside(root / "labels", colours, str(listed)),
                path_inside(root / "labels", mask, str(listed)),
                None if judged == "None" else path_inside(root / "labels", f"{judged}.json", str(listed)),
            )
        self.ids = SOURCE.some(self._rows, f"{listed}: expected photographs")

    def _read(self, number: int) -> dict[str, Any]:
        files = self._rows[self.ids[number]]
        pixels = read_rgb8(files.image, SOURCE)
        colours = _read_colours(files.colours)
        regions = _number_regions(read_indices(files.mask, SOURCE), len(colours), files)
        return {
            "scene": files.image.parent.name,
            "image": image_tensor(pixels, linear=True),
            "regions": to_tensor(scale_regions(regions, pixels.shape[:2])),
            "colours": to_tensor(colours),
        }

    def judgements(self, row: SupportsIndex) -> PointComparisons | None:
        """Read the judgements of relative reflectance of one photograph; None for photographs without any.

        Raises:
            InputError: the file is missing or damaged.
        """
        path = self._rows[self.ids[row]].judgements
        if path is None:
            return None
        found = SOURCE.json(path, JudgedPhotograph)
        return valid_comparisons(found.intrinsic_points, found.intrinsic_comparisons, path, SOURCE)


def _read_colours(path: Path) -> Float32[ndarray, "n 3"]:
    """Read linear Adobe RGB colours as scene-linear Rec.709."""
    colours = SOURCE.numbers(path, "floats", 2)
    if colours.shape[1] != 3:
        raise InputError(f"{path}: expected colours [n, 3], got {list(colours.shape)}")
    if not ((colours >= 0) & (colours <= _BRIGHTEST)).all():
        found = f"{colours.min():g} to {colours.max():g}"
        raise InputError(f"{path}: expected linear colours from 0 to {_BRIGHTEST:g}, got {found}")
    return np.clip(colours @ _TO_REC709.T, 0, 1).astype(np.float32)


def _number_regions(
    mask: UInt8[ndarray, "height width"], count: int, files: _Row
) -> Int64[ndarray, "height width"]:
    """Number the regions from 1, in ascending order of the values of the mask."""
    values = np.unique(mask)
    if len(values) not in (count, count + 1):
        raise InputError(
            f"{files.mask}: expected {count} regions, as {files.colours.name} has colours, and a background, "
            f"got {len(values)} values; get both again from {SOURCE}"
        )
    numbers = np.zeros(256, np.int64)
    numbers[values[len(values) - count :]] = np.arange(1, count + 1)
    return numbers[mask]
