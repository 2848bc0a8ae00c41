"""Read TID2013 (Ponomarenko et al., Signal Processing: Image Communication 30, 2015)."""

import re
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.folder_names import list_names
from candlelight.loaders.public.image_formats import read_rgb8
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.pixel_tensors import image_tensor
from candlelight.loaders.public.text_lists import read_lines, wrong_line
from candlelight.loaders.schema import FactorInfo, FactorValue

SOURCE = "https://ponomarenko.info/tid2013.htm"
REFERENCES, LEVELS = 25, 5
DISTORTIONS = (
    *("additive Gaussian noise", "noise stronger in colour", "spatially correlated noise", "masked noise"),
    *("high-frequency noise", "impulse noise", "quantisation noise", "Gaussian blur", "image denoising"),
    *("JPEG", "JPEG2000", "JPEG transmission errors", "JPEG2000 transmission errors"),
    *("non-eccentricity pattern noise", "local block-wise distortions", "mean shift", "contrast change"),
    *("change of colour saturation", "multiplicative noise", "comfort noise", "lossy compression of noise"),
    *("colour quantisation with dither", "chromatic aberrations", "sparse sampling and reconstruction"),
)
# Numbers of the distortions, from 1, in the groups of the data set's readme.
SUBSETS: dict[str, tuple[int, ...]] = {
    "noise": (*range(1, 10), 19, 21),
    "actual": (1, 3, 4, 5, 6, 8, 9, 10, 11, 19, 21),
    "simple": (1, 8, 10),
    "exotic": (*range(12, 18), 20, 23, 24),
    "new": tuple(range(18, 25)),
    "color": (2, 7, 10, 18, 22, 23),
}
_NAME = re.compile(r"i(\d\d)_(\d\d)_(\d)\.bmp")


class TID2013:
    """Distorted images with their reference images and mean opinion scores.

    ``data[row]`` is a dict of ``id`` (str, as "i01_01_1"), ``index`` (int, line of the list of opinions, from
    0), ``image`` and ``reference`` (uint8 sRGB [3, 384, 512], or float32 scene-linear in [0, 1]), ``mos`` and
    ``mos_std`` (float32, mean opinion score from 0 to 9, higher is better, and its standard deviation) and
    ``factors`` (class numbers of reference, distortion and level, each from 0). Rows are in the list's order.
    Names are compared without case, because file names and lists of the archive differ in case.

    Attributes:
        factors: reference (1 to 25), distortion (by name) and level (1 to 5).
        factor_table: class numbers, one row per image.
        mos: opinion scores of all rows.
        mos_std: their standard deviations.

    Example:
        >>> TID2013("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/mos_with_names.txt is missing; get it from
            https://ponomarenko.info/tid2013.htm
    """

    def __init__(self, root: Path | str, *, linear: bool = False) -> None:
        """Read the lists.

        Args:
            root: folder ``tid2013``.
            linear: decode the images.

        Raises:
            InputError: a list is missing or damaged, or names a missing image.
        """
        self.root, self._linear = Path(root), linear
        path = self.root / "mos_with_names.txt"
        lines = [_parse(path, i, line) for i, line in enumerate(read_lines(path, SOURCE))]
        self.mos: Float64[ndarray, " n"] = np.array([mos for mos, _ in lines])
        self.mos_std = _numbers(self.root / "mos_std.txt", len(lines))
        self._numbers: Int[ndarray, "n 3"] = np.array([numbers for _, numbers in lines]).reshape(-1, 3)
        self._images = _by_name(self.root / "distorted_images")
        self._references = _by_name(self.root / "reference_images")
        for reference, distortion, level in self._numbers.tolist():
            _look_up(self._images, self.root / "distorted_images", _stem(reference, distortion, level))
            _look_up(self._references, self.root / "reference_images", f"i{reference:02d}")
        values: dict[str, tuple[FactorValue, ...]] = {
            "reference": tuple(range(1, REFERENCES + 1)),
            "distortion": DISTORTIONS,
            "level": tuple(range(1, LEVELS + 1)),
        }
        self.factors = tuple(
            FactorInfo(name=name, kind="categorical", values=listed) for name, listed in values.items()
        )
        self.factor_table: Float64[ndarray, "n 3"] = self._numbers - 1.0

    def __len__(self) -> int:
        """Count the distorted images."""
        return len(self.mos)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one distorted image, its reference, and its scores."""
        import torch

        place = range(len(self))[row]
        reference, distortion, level = self._numbers[place].tolist()
        stem = _stem(reference, distortion, level)
        original = _look_up(self._references, self.root / "reference_images", f"i{reference:02d}")
        return {
            "id": stem,
            "index": place,
            "image": image_tensor(read_rgb8(self._images[f"{stem}.bmp"], SOURCE), self._linear),
            "reference": image_tensor(read_rgb8(original, SOURCE), self._linear),
            "mos": torch.tensor(self.mos[place], dtype=torch.float32),
            "mos_std": torch.tensor(self.mos_std[place], dtype=torch.float32),
            "factors": {"reference": reference - 1, "distortion": distortion - 1, "level": level - 1},
        }

    def rows(self, subset: str) -> Int[ndarray, " n"]:
        """List the rows of a subset of the distortions.

        Args:
            subset: one of `SUBSETS`.

        Raises:
            InputError: there is no such subset.
        """
        check_choice("subset", subset, tuple(SUBSETS))
        return np.flatnonzero(np.isin(self._numbers[:, 1], SUBSETS[subset]))

    @cached_property
    def metrics(self) -> dict[str, Float64[ndarray, " n"]]:
        """Values of the published metrics in the archive, by name in capitals, one per row.

        Raises:
            InputError: a file of values is missing or damaged.
        """
        folder = self.root / "metrics_values"
        files = [folder / name for name in list_names(folder, SOURCE) if name.lower().endswith(".txt")]
        return {path.stem.upper(): _numbers(path, len(self)) for path in files}


def _parse(path: Path, i: int, line: str) -> tuple[float, tuple[int, int, int]]:
    """Read a score and a name; some names in the list have capitals."""
    score, _, name = line.strip().partition(" ")
    found = _NAME.fullmatch(name.strip().lower())
    try:
        numbers = tuple(int(number) for number in found.groups()) if found else (0, 0, 0)
        reference, distortion, level = numbers
        inside = 1 <= reference <= REFERENCES and 1 <= distortion <= len(DISTORTIONS) and 1 <= level <= LEVELS
        if inside and np.isfinite(float(score)):
            return float(score), (reference, distortion, level)
    except ValueError:
        pass
    raise wrong_line(path, i, line, "a score and iRR_TT_L.bmp")


def _numbers(path: Path, count: int) -> Float64[ndarray, " count"]:
    lines = read_lines(path, SOURCE)
    if len(lines) != count:
        raise InputError(
            f"{path}: expected {count} lines, one per image, got {len(lines)}; get it from {SOURCE}"
        )
    try:
        return np.array([float(line) for line in lines])
    except ValueError:
        raise InputError(f"{path}: expected one number in each line; get it from {SOURCE}") from None


def _by_name(folder: Path) -> dict[str, Path]:
    """Map the names of a folder's images, in small letters, to their paths."""
    names = list_names(folder, SOURCE)
    return {name.lower(): folder / name for name in names if name.lower().endswith(".bmp")}


def _look_up(files: dict[str, Path], folder: Path, stem: str) -> Path:
    return files[f"{stem}.bmp"] if f"{stem}.bmp" in files else require_path(folder / f"{stem}.bmp", SOURCE)


def _stem(reference: int, distortion: int, level: int) -> str:
    return f"i{reference:02d}_{distortion:02d}_{level}"
