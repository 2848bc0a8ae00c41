"""Read CANDLE (Reddy, Godfrey L and Balasubramanian, AAAI 2022)."""

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from pydantic import BaseModel, Field, model_validator

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.public.image_formats import image_tensor, read_rgb8
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, categorical_factors
from candlelight.loaders.schema import FactorInfo, FactorValue

SOURCE = PublicSource("https://github.com/causal-disentanglement/CANDLE")
FactorNumbering = Literal["simulator", "disentanglement_lib"]

# In the order of the simulator's product of all values; an image's id is its index in that product.
VALUES: dict[str, tuple[FactorValue, ...]] = {
    "scene": (
        *("indoor", "outdoor", "playground", "bridge", "city square", "hall", "grassland", "garage"),
        *("street", "beach", "station", "tunnel", "moonlit grass", "dusk city", "skywalk", "garden"),
    ),
    "lights": ("left", "middle", "right"),
    "object_type": ("cube", "sphere", "cylinder", "cone", "torus"),
    "color": ("red", "blue", "yellow", "purple", "orange"),
    "size": (1.5, 2, 2.5),
    "rotation": (0, 15, 30, 45, 60, 90),
}
# The loader of the paper's experiments has another order of factors, and swaps two scenes.
_LOADER_ORDER = ("object_type", "color", "size", "rotation", "scene", "lights")
_LOADER_SCENES = ("indoor", "playground", "outdoor", *VALUES["scene"][3:])
_UNITS = {"size": "m", "rotation": "degree"}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_Number = Annotated[float, Field(allow_inf_nan=False)] | int
_Pixel = Annotated[int, Field(gt=-(2**31), lt=2**31)]
_Corner = Annotated[list[_Pixel], Field(min_length=2, max_length=2)]


class _Object(BaseModel, strict=True):
    object_type: str
    color: str
    size: _Number
    rotation: _Number
    bounds: Annotated[list[_Corner], Field(min_length=2, max_length=2)]


class _Entry(BaseModel, strict=True):
    scene: str
    lights: str | None = None
    objects: Annotated[dict[str, _Object], Field(min_length=1, max_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, content: Any, info: Any) -> Any:
        """Take the content of the first release, whose JSON lies under the number of the image."""
        nested = isinstance(content, dict) and [*content] == [info.context]
        return content[info.context] if nested else content

    @property
    def shown(self) -> _Object:
        """The only object."""
        return next(iter(self.objects.values()))

    def labels(self) -> dict[str, FactorValue]:
        """Return the factors; the first release has no lights."""
        labels = {"scene": self.scene, "lights": self.lights, **self.shown.model_dump(exclude={"bounds"})}
        return {name: value for name, value in labels.items() if value is not None}


class Candle(PublicSamples):
    """One object in one of sixteen scenes, 320 x 240, with the factors that its JSON gives.

    ``data[row]`` is a dict of ``id`` (str) and ``index`` (int), the number in the file's name, ``image``
    (uint8 sRGB [3, height, width], or float32 scene-linear in [0, 1]), ``factors`` (name to class number) and
    ``bbox`` (int64 left, top, right, bottom in pixels with y from the top, as in
    `candlelight.loaders.schema`; the files count y from the bottom, and bounds may leave the image). Rows are
    in order of the grid, which for the published set is the order of ``index``; `candlelight.loaders.collate`
    batches them.

    The published set has 12546 of the 21600 images of the full grid, with gaps in the numbers. The first
    release nests its JSON under the id and has no lights, so ``factors`` has no lights either. Folders that
    ``candlelight export --to candle`` wrote are read too, flat and nested.

    Attributes:
        factors: the factors; values outside CANDLE's own lists come last.

    Example:
        >>> Candle("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it
            from https://github.com/causal-disentanglement/CANDLE
    """

    def __init__(
        self, root: Path | str, *, codes: FactorNumbering = "simulator", linear: bool = False
    ) -> None:
        """Read every JSON: a few seconds for the published set.

        Args:
            root: folder of ``<id>.png`` and ``<id>.json``, at any depth; other files are ignored.
            codes: numbering of factors and scenes: "simulator" as in the ids, or "disentanglement_lib" as in
                the paper's experiments: object, colour, size, rotation, scene, lights, with the scene
                playground before outdoor.
            linear: decode the images.

        Raises:
            InputError: there is no image, a JSON is damaged or differs in its fields, or a PNG is missing.
        """
        check_choice("codes", codes, FactorNumbering)
        files = _find(SOURCE.require(Path(root)))
        entries = [SOURCE.json(path, _Entry, path.stem) for _, path in files]
        values = [entry.labels() for entry in entries]
        self.factors = _factors(files, values, codes)
        table = _table(self.factors, values)
        rows = np.lexsort(table.T[::-1])  # stable, first factor slowest: the order of `space`
        self.factor_table: Float64[ndarray, "n k"] = table[rows]
        self.indices = np.array([files[row][0] for row in rows], np.int64)
        self.ids = tuple(map(str, self.indices.tolist()))
        self._paths = [files[row][1].with_suffix(".png") for row in rows]
        self._bounds = [entries[row].shown.bounds for row in rows]
        self._linear = linear

    def _read(self, number: int) -> dict[str, Any]:
        import torch

        pixels = read_rgb8(self._paths[number], SOURCE)
        (left, low), (right, high) = self._bounds[number]
        numbers = self.factor_table[number].astype(int).tolist()
        return {
            "index": int(self.indices[number]),
            "image": image_tensor(pixels, self._linear),
            "factors": {factor.name: n for factor, n in zip(self.factors, numbers, strict=True)},
            "bbox": torch.tensor([left, len(pixels) - high, right, len(pixels) - low]),
        }

    @cached_property
    def space(self) -> FactorSpace:
        """The grid of the factors, with the points that exist.

        For the published set with the simulator's codes, grid indices are the numbers of the images.

        Raises:
            InputError: several images share all their factors.
        """
        names, values = zip(*((f.name, f.values or ()) for f in self.factors), strict=True)
        points = FactorSpace(names, values).indices(self.factor_table.astype(np.int64))
        unique = np.unique(points)
        if len(unique) < len(points):
            raise InputError(
                f"{len(points) - len(unique)} images share all factors with another image, so the images are "
                "not points of a grid; use `factor_table`"
            )
        return FactorSpace(names, values, unique)


def _find(root: Path) -> list[tuple[int, Path]]:
    """List the JSON files of images by number; each must have a PNG of the same name."""
    found: dict[int, Path] = {}
    for path in sorted(root.rglob("*.json")):
        number = int(path.stem) if _NUMBER.fullmatch(path.stem) else -1
        if number in found:
            raise InputError(f"{path}: number {number} is also in {found[number].parent}; name one folder")
        if number >= 0:
            SOURCE.require(path.with_suffix(".png"))
            found[number] = path
    return sorted(SOURCE.some(found.items(), f"{root}: expected <id>.json and <id>.png"))


def _factors(
    files: list[tuple[int, Path]], values: list[dict[str, FactorValue]], codes: FactorNumbering
) -> tuple[FactorInfo, ...]:
    names = [name for name in VALUES if name in values[0]]
    for (_, path), row in zip(files, values, strict=True):
        if len(row) != len(names):
            raise InputError(
                f"{path}: some images have lights and some do not: this folder mixes two releases"
            )
    known = dict(VALUES)
    if codes == "disentanglement_lib":
        names = [name for name in _LOADER_ORDER if name in names]
        known["scene"] = _LOADER_SCENES
    listed = {name: (*known[name], *sorted({row[name] for row in values} - {*known[name]})) for name in names}
    return categorical_factors(listed, _UNITS)


def _table(factors: tuple[FactorInfo, ...], values: list[dict[str, FactorValue]]) -> Float64[ndarray, "n k"]:
    numbers = {factor.name: {value: n for n, value in enumerate(factor.values or ())} for factor in factors}
    return np.array([[float(known[row[name]]) for name, known in numbers.items()] for row in values])
