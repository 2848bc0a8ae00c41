"""Read TID2013 (Ponomarenko et al., Signal Processing: Image Communication 30, 2015)."""

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import image_tensor, read_rgb8
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, categorical_factors

SOURCE = PublicSource("https://ponomarenko.info/tid2013.htm")
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


class TID2013(PublicSamples):
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
        lines = list(SOURCE.parse(self.root / "mos_with_names.txt", _parse, "a score and iRR_TT_L.bmp"))
        self.mos: Float64[ndarray, " n"] = np.array([mos for mos, _ in lines])
        self.mos_std = _numbers(self.root / "mos_std.txt", len(lines))
        self._numbers: Int[ndarray, "n 3"] = np.array([numbers for _, numbers in lines]).reshape(-1, 3)
        self.ids = tuple(f"i{numbers[0]:02d}_{numbers[1]:02d}_{numbers[2]}" for _, numbers in lines)
        self._images = _by_name(self.root / "distorted_images", self.ids)
        self._references = _by_name(self.root / "reference_images", [name[:3] for name in self.ids])
        self.factors = categorical_factors(
            {
                "reference": tuple(range(1, REFERENCES + 1)),
                "distortion": DISTORTIONS,
                "level": tuple(range(1, LEVELS + 1)),
            }
        )
        self.factor_table: Float64[ndarray, "n 3"] = self._numbers - 1.0

    def _read(self, number: int) -> dict[str, Any]:
        import torch

        reference, distortion, level = (self._numbers[number] - 1).tolist()
        return {
            "index": number,
            "image": image_tensor(read_rgb8(self._images[number], SOURCE), self._linear),
            "reference": image_tensor(read_rgb8(self._references[number], SOURCE), self._linear),
            "mos": torch.tensor(self.mos[number], dtype=torch.float32),
            "mos_std": torch.tensor(self.mos_std[number], dtype=torch.float32),
            "factors": {"reference": reference, "distortion": distortion, "level": level},
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
        files = [folder / name for name in SOURCE.names(folder) if name.lower().endswith(".txt")]
        return {path.stem.upper(): _numbers(path, len(self)) for path in files}


def _parse(line: str) -> tuple[float, tuple[int, int, int]] | None:
    """Read a score and a name; some names in the list have capitals."""
    score, _, name = line.strip().partition(" ")
    found = _NAME.fullmatch(name.strip().lower())
    reference, distortion, level = map(int, found.groups()) if found else (0, 0, 0)
    inside = 1 <= reference <= REFERENCES and 1 <= distortion <= len(DISTORTIONS) and 1 <= level <= LEVELS
    return (float(score), (reference, distortion, level)) if inside and np.isfinite(float(score)) else None


def _numbers(path: Path, count: int) -> Float64[ndarray, " count"]:
    numbers = np.array(list(SOURCE.parse(path, float, "one number in each line")))
    if len(numbers) != count:
        raise InputError(
            f"{path}: expected {count} lines, one per image, got {len(numbers)}; get it from {SOURCE}"
        )
    return numbers


def _by_name(folder: Path, stems: Iterable[str]) -> list[Path]:
    """Find the images of a folder by their names in small letters, without suffix."""
    files = {name.lower(): folder / name for name in SOURCE.names(folder)}
    names = [f"{stem}.bmp" for stem in stems]
    return [files[name] if name in files else SOURCE.require(folder / name) for name in names]
