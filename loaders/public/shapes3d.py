"""Read 3D Shapes (Burgess and Kim, 2018)."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.file_rows import open_array, read_table
from candlelight.loaders.public.grid_images import GridImages, find_file, number_values
from candlelight.loaders.schema import FactorInfo, FactorValue

SOURCE = "https://github.com/google-deepmind/3d-shapes"
_FILES = (
    "3dshapes.h5",
    "look-at-object-room_floor-hueXwall-hueXobj-hueXobj-sizeXobj-shapeXview-azi.npz",
)
_FACTORS = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
_SHAPES = ("cube", "cylinder", "sphere", "capsule")


class Shapes3D(GridImages):
    """One shape in a coloured room, 64 x 64, every combination of six factors.

    Values are read from the file's labels, because its description names other hues and scales. ``image`` is
    [3, height, width], sRGB 0..255, or scene-linear in [0, 1].

    Example:
        >>> Shapes3D("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/3dshapes.h5 is missing; get it from
            https://github.com/google-deepmind/3d-shapes
    """

    def __init__(self, root: Path | str, *, linear: bool = False, cache: Path | None = None) -> None:
        """Read the labels.

        Args:
            root: ``3dshapes.h5``, or the npz that disentanglement_lib uses, or the folder of either.
            linear: return float32 scene-linear instead of uint8.
            cache: folder to unpack the images to, 6 GB: faster, and needed if the npz is compressed.

        Raises:
            InputError: the file is missing or damaged, or its labels are not a full grid.
        """
        path = find_file(Path(root), _FILES, SOURCE)
        values = number_values(path, read_table(path, "labels").astype(np.float64), _FACTORS)
        factors = [
            FactorInfo(
                name=name,
                kind="categorical",
                values=_named(found) if name == "shape" else found,
                unit="degree" if name == "orientation" else "",
            )
            for name, found in zip(_FACTORS, values, strict=True)
        ]
        rows = open_array(path, "images", None if cache is None else Path(cache))
        if len(rows.shape) != 4 or rows.shape[3] != 3:
            raise InputError(f"{path}: expected images of three channels, got {list(rows.shape)}")
        super().__init__(path, rows, factors, linear)

    def _pixels(self, stored: UInt8[ndarray, "height width ..."]) -> UInt8[ndarray, "height width channels"]:
        return stored


def _named(numbers: tuple[FactorValue, ...]) -> tuple[FactorValue, ...]:
    """Name shapes by number, if all numbers are in the description."""
    return tuple(_SHAPES[int(n)] for n in numbers) if set(numbers) <= set(range(len(_SHAPES))) else numbers
