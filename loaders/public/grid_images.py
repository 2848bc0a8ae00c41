"""Read dSprites, MPI3D and 3D Shapes: an image of every combination of factors, in one array."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int, UInt8
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.public.file_rows import open_array, read_table
from candlelight.loaders.public.image_formats import image_tensor
from candlelight.loaders.public.public_files import PublicSource, categorical_factors
from candlelight.loaders.schema import FactorValue

_Values = dict[str, tuple[FactorValue, ...]]
Variant = Literal["toy", "realistic", "real", "complex"]


@dataclass(frozen=True)
class GridLayout:
    """Layout of a file of images of a full grid of factors.

    Attributes:
        source: where to get the file, for messages.
        files: possible names of the file.
        images: name of the array of images.
        axes: axes of this array: 3 for images of 0 and 1, 4 for sRGB.
        factors: names of the columns of the labels; empty for a file without labels.
        labels: possible names of the array of labels.
        words: names of numbers in the labels, by factor; used if all numbers of the factor have one.
        units: units of factors.
    """

    source: PublicSource
    files: tuple[str, ...]
    images: str = "images"
    axes: int = 4
    factors: tuple[str, ...] = ()
    labels: tuple[str, ...] = ("labels",)
    words: Mapping[str, Mapping[FactorValue, FactorValue]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)


FILE_STEM = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
_DSPRITES = GridLayout(
    PublicSource("https://github.com/google-deepmind/dsprites-dataset"),
    (f"{FILE_STEM}.npz", f"{FILE_STEM}.hdf5", f"{FILE_STEM}.h5"),
    images="imgs",
    axes=3,
    factors=("color", "shape", "scale", "orientation", "posX", "posY"),
    labels=("latents_values", "latents/values"),
    words={"color": {1.0: "white"}, "shape": {1.0: "square", 2.0: "ellipse", 3.0: "heart"}},
    units={"orientation": "radian"},
)
# The description of the data set names other hues and scales than the labels.
_SHAPES3D = GridLayout(
    PublicSource("https://github.com/google-deepmind/3d-shapes"),
    ("3dshapes.h5", "look-at-object-room_floor-hueXwall-hueXobj-hueXobj-sizeXobj-shapeXview-azi.npz"),
    factors=("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
    words={"shape": dict(enumerate(("cube", "cylinder", "sphere", "capsule")))},
    units={"orientation": "degree"},
)
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


class GridImages:
    """Images of every combination of factors in one array; the row number is the grid index.

    ``data[row]`` is a dict of ``id`` (str), ``index`` (int), ``image`` (a tensor, channels first) and
    ``factors`` (name to class number); `candlelight.loaders.collate` batches such dicts. Forked and spawned
    workers may share a reader.

    Attributes:
        factors: the factors with their values, in the order of the grid.
        space: the grid.
    """

    def __init__(self, layout: GridLayout, root: Path | str, linear: bool, cache: Path | None) -> None:
        root = Path(root)
        places = [root] if root.is_file() else [root / name for name in layout.files]
        self._path, self._layout, self._linear = layout.source.find(*places), layout, linear
        self._rows = open_array(self._path, layout.images, None if cache is None else Path(cache))
        count, *size = self._rows.shape
        if len(size) + 1 != layout.axes or size[2:] not in ([], [3]):
            channels = "one channel" if layout.axes == 3 else "three channels"
            raise InputError(f"{self._path}: expected images of {channels}, got {[count, *size]}")
        values = self._values(count)
        self.factors = categorical_factors(values, layout.units)
        self.space = FactorSpace(tuple(values), tuple(values.values()))
        if count != self.space.size:
            raise InputError(
                f"{self._path}: expected {self.space.size} images, one for each point of the grid "
                f"{' x '.join(map(str, self.space.sizes))}, got {count}; get the file again"
            )

    def __len__(self) -> int:
        """Count the images."""
        return self.space.size

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image as a tensor, and its factors."""
        number = range(len(self))[row]
        position = np.unravel_index(number, self.space.sizes)
        return {
            "id": str(number),
            "index": number,
            "image": image_tensor(self._pixels(self._rows[number]), self._linear),
            "factors": {name: int(p) for name, p in zip(self.space.names, position, strict=True)},
        }

    @cached_property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Class numbers of every row, one column per factor."""
        return self.space.positions(np.arange(len(self))).astype(np.float64)

    def _values(self, count: int) -> _Values:
        """Return the values of each factor, from the labels of a file of ``count`` images."""
        names, words = self._layout.factors, self._layout.words
        labels = read_table(self._path, *self._layout.labels).astype(np.float64)
        values = dict(zip(names, number_values(self._path, labels, names), strict=True))
        named = {name: known for name, known in words.items() if {*values[name]} <= {*known}}
        return values | {name: tuple(known[v] for v in values[name]) for name, known in named.items()}

    def _pixels(self, stored: UInt8[ndarray, "height width ..."]) -> UInt8[ndarray, "height width channels"]:
        """Turn stored values into sRGB pixels."""
        if self._layout.axes == 4:
            return stored
        if stored.max() > 1:
            raise InputError(f"{self._path}: expected images of 0 and 1, got {stored.max()}; get it again")
        return 255 * stored[..., None]


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
        super().__init__(_DSPRITES, root, linear, cache)


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
        super().__init__(_SHAPES3D, root, linear, cache)


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
        self._variant, self._sizes = variant, sizes
        source = PublicSource("https://github.com/rr-learning/disentanglement_dataset")
        super().__init__(GridLayout(source, MPI3D_FILES[variant]), root, linear, cache)

    def _values(self, count: int) -> _Values:
        early = count == math.prod(map(len, _EARLY.values()))
        values = _COMPLEX if self._variant == "complex" else _EARLY if early else _WHOLE
        return values if self._sizes is None else _first(values, self._sizes)


def _first(values: _Values, sizes: Sequence[int]) -> _Values:
    """Keep the first values of each factor, as many as ``sizes`` says."""
    limits = [len(known) for known in values.values()]
    if len(sizes) != len(limits) or not all(0 < size <= m for size, m in zip(sizes, limits, strict=True)):
        raise InputError(f"`sizes`: expected {len(limits)} numbers from 1 up to {limits}, got {list(sizes)}")
    return {name: known[:size] for (name, known), size in zip(values.items(), sizes, strict=True)}


def number_values(
    path: Path, labels: Float64[ndarray, "n k"], names: Sequence[str]
) -> list[tuple[FactorValue, ...]]:
    """List the values of each factor from the labels of a full grid, and check that its rows are in order.

    Args:
        path: the file, for messages.
        labels: one row per image, values increasing along the grid, last factor fastest.
        names: names of the columns.

    Returns:
        The values of each factor, in their order.

    Raises:
        InputError: the labels are not a full grid in this order.

    Example:
        >>> labels = np.array([[0.0, 1.0], [0.0, 2.0], [0.5, 1.0], [0.5, 2.0]])
        >>> number_values(Path("3dshapes.h5"), labels, ["hue", "scale"])
        [(0.0, 0.5), (1.0, 2.0)]
    """
    if labels.ndim != 2 or labels.shape[1] != len(names) or not len(labels):
        raise InputError(f"{path}: expected labels of {', '.join(names)}, got {list(labels.shape)}")
    # The labels decide, because the values in papers sometimes differ from the values in files.
    pairs = [np.unique(column, return_inverse=True) for column in labels.T]
    sizes = [len(values) for values, _ in pairs]
    numbers: Int[ndarray, "k n"] = np.stack([inverse.reshape(-1) for _, inverse in pairs])
    ordered = math.prod(sizes) == len(labels) and np.array_equal(
        np.ravel_multi_index(tuple(numbers), sizes), np.arange(len(labels))
    )
    if not ordered:
        raise InputError(f"{path}: its labels are not those of a full grid in order; get the file again")
    return [tuple(values.tolist()) for values, _ in pairs]
