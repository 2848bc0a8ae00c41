"""Read dSprites (Matthey, Higgins, Hassabis and Lerchner, 2017)."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.file_rows import open_array, read_table
from candlelight.loaders.public.grid_images import GridImages, find_file, number_values
from candlelight.loaders.schema import FactorInfo

SOURCE = "https://github.com/google-deepmind/dsprites-dataset"
FILE_STEM = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
_FACTORS = ("color", "shape", "scale", "orientation", "posX", "posY")
_WORDS = {"color": {1.0: "white"}, "shape": {1.0: "square", 2.0: "ellipse", 3.0: "heart"}}
_UNITS = {"orientation": "radian"}


class DSprites(GridImages):
    """White shapes on black, 64 x 64, every combination of six factors.

    ``image`` is [1, height, width] of 0 and 255 (the file holds 0 and 1), or of 0.0 and 1.0 if linear.
    Orientation has both 0 and 2 pi, which look alike. The file's ``metadata`` is a pickle and is not read.

    Example:
        >>> DSprites("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz is \
missing; get it
            from https://github.com/google-deepmind/dsprites-dataset
    """

    def __init__(self, root: Path | str, *, linear: bool = False, cache: Path | None = None) -> None:
        """Read the labels.

        Args:
            root: the npz or its HDF5 version, or the folder of either.
            linear: return float32 instead of uint8.
            cache: folder for the unpacked images, 3 GB; needed by the npz, which is compressed. Without a
                cache, each image of the HDF5 version takes a part of a second.

        Raises:
            InputError: the file is missing or damaged, or its labels are not a full grid.
        """
        path = find_file(Path(root), [f"{FILE_STEM}.npz", f"{FILE_STEM}.hdf5", f"{FILE_STEM}.h5"], SOURCE)
        table = read_table(path, "latents_values", "latents/values").astype(np.float64)
        values = number_values(path, table, _FACTORS)
        factors = [
            FactorInfo(
                name=name,
                kind="categorical",
                values=tuple(_WORDS.get(name, {}).get(float(v), v) for v in found),
                unit=_UNITS.get(name, ""),
            )
            for name, found in zip(_FACTORS, values, strict=True)
        ]
        rows = open_array(path, "imgs", None if cache is None else Path(cache))
        if len(rows.shape) != 3:
            raise InputError(f"{path}: expected images of one channel, got {list(rows.shape)}")
        super().__init__(path, rows, factors, linear)

    def _pixels(self, stored: UInt8[ndarray, "height width ..."]) -> UInt8[ndarray, "height width channels"]:
        if stored.max() > 1:
            raise InputError(f"{self._path}: expected images of 0 and 1, got {stored.max()}; get it again")
        return 255 * stored[..., None]
