"""Read MPI3D (Gondal et al., NeurIPS 2019)."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from jaxtyping import UInt8
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.file_rows import open_array
from candlelight.loaders.public.grid_images import GridImages, find_file
from candlelight.loaders.schema import FactorInfo, FactorValue

SOURCE = "https://github.com/rr-learning/disentanglement_dataset"
Variant = Literal["toy", "realistic", "real", "complex"]
_Values = dict[str, tuple[FactorValue, ...]]

MPI3D_FILES: dict[str, tuple[str, ...]] = {
    "toy": ("mpi3d_toy.npz", "sim_toy_64x_ordered_without_heldout_factors.npz"),
    "realistic": ("mpi3d_realistic.npz", "sim_realistic_64x_ordered_without_heldout_factors.npz"),
    "real": ("mpi3d_real.npz",),
    "complex": ("real3d_complicated_shapes_ordered.npz",),
}
_VIEW: _Values = {
    "object_size": ("small", "large"),
    "camera_height": ("top", "center", "bottom"),
    "background_color": ("purple", "sea green", "salmon"),
    "horizontal_axis": tuple(range(40)),
    "vertical_axis": tuple(range(40)),
}
_WHOLE: _Values = {
    "object_color": ("white", "green", "red", "blue", "brown", "olive"),
    "object_shape": ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
    **_VIEW,
}
# The first release lacks two colours and two shapes.
_EARLY: _Values = {
    "object_color": ("green", "red", "blue", "brown"),
    "object_shape": ("cone", "cube", "hexagonal", "sphere"),
    **_VIEW,
}
_COMPLEX: _Values = {
    "object_color": ("yellow", "green", "olive", "red"),
    "object_shape": ("coffee-cup", "tennis-ball", "croissant", "beer-cup"),
    **_VIEW,
}


class MPI3D(GridImages):
    """Objects on a robot's arm, 64 x 64, every combination of seven factors, rendered or photographed.

    The file has no labels: its order is given in the data set's description. ``image`` is [3, height, width],
    sRGB 0..255, or scene-linear in [0, 1]. Only the requested images are read.

    Example:
        >>> MPI3D("nowhere", "real")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/mpi3d_real.npz is missing; get it from
            https://github.com/rr-learning/disentanglement_dataset
    """

    def __init__(
        self,
        root: Path | str,
        variant: Variant = "toy",
        *,
        sizes: Sequence[int] | None = None,
        linear: bool = False,
        cache: Path | None = None,
    ) -> None:
        """Find the images.

        Args:
            root: folder of the npz files, or one of them.
            variant: "toy" or "realistic" renders, "real" photographs, "complex" photographs of four other
                objects.
            sizes: number of values of each factor, in the order of ``factors``, for a file with only the
                first values of each factor; None for the whole grid of 1036800 images, or 460800 in the
                first release and in "complex".
            linear: return float32 scene-linear instead of uint8.
            cache: folder to unpack the images to, up to 13 GB, needed if the npz is compressed.

        Raises:
            InputError: the file is missing or damaged, or lacks one image for each point of the grid.
        """
        check_choice("variant", variant, Variant)
        path = find_file(Path(root), MPI3D_FILES[variant], SOURCE)
        rows = open_array(path, "images", None if cache is None else Path(cache))
        if len(rows.shape) != 4 or rows.shape[3] != 3:
            raise InputError(f"{path}: expected images of three channels, got {list(rows.shape)}")
        values = _COMPLEX if variant == "complex" else _WHOLE
        if variant != "complex" and rows.shape[0] == math.prod(map(len, _EARLY.values())):
            values = _EARLY
        if sizes is not None:
            values = _first(values, sizes)
        factors = [FactorInfo(name=n, kind="categorical", values=v) for n, v in values.items()]
        super().__init__(path, rows, factors, linear)

    def _pixels(self, stored: UInt8[ndarray, "height width ..."]) -> UInt8[ndarray, "height width channels"]:
        return stored


def _first(values: _Values, sizes: Sequence[int]) -> _Values:
    """Keep the first values of each factor, as many as ``sizes`` says."""
    limits = [len(known) for known in values.values()]
    if len(sizes) != len(limits) or not all(0 < size <= m for size, m in zip(sizes, limits, strict=True)):
        raise InputError(f"`sizes`: expected {len(limits)} numbers from 1 up to {limits}, got {list(sizes)}")
    return {name: known[:size] for (name, known), size in zip(values.items(), sizes, strict=True)}
