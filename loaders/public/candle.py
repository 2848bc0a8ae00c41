"""Read CANDLE (Reddy, Godfrey L and Balasubramanian, AAAI 2022)."""

import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from pydantic import BaseModel, ConfigDict, ValidationError

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.public.image_formats import read_rgb8
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.pixel_tensors import image_tensor
from candlelight.loaders.schema import FactorInfo, FactorValue

SOURCE = "https://github.com/causal-disentanglement/CANDLE"
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
_MAX_JSON = 2**20
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class _Object(BaseModel):
    model_config = ConfigDict(strict=True)
    object_type: str
    color: str
    size: int | float
    rotation: int | float
    bounds: list[list[int]]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True)
    scene: str
    lights: str | None = None
    objects: dict[str, _Object]


class Candle:
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
        files = _find(require_path(Path(root), SOURCE))
        entries = [_read_entry(path, number) for number, path in files]
        values = [_values(path, entry) for (_, path), entry in zip(files, entries, strict=True)]
        self.factors = _factors(files, values, codes)
        table = _table(self.factors, values)
        rows = np.lexsort(table.T[::-1])  # stable, first factor slowest: the order of `space`
        self.factor_table: Float64[ndarray, "n k"] = table[rows]
        self.indices = np.array([files[row][0] for row in rows], np.int64)
        self._paths = [files[row][1].with_suffix(".png") for row in rows]
        self._bounds = [next(iter(entries[row].objects.values())).bounds for row in rows]
        self._linear = linear

    def __len__(self) -> int:
        """Count the images."""
        return len(self._paths)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image as a tensor, its factors, and the bounds of its object."""
        import torch

        number = range(len(self))[row]
        pixels = read_rgb8(self._paths[number], SOURCE)
        (left, low), (right, high) = self._bounds[number]
        numbers = self.factor_table[number].astype(int).tolist()
        return {
            "id": self._paths[number].stem,
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
    for folder, subfolders, names in os.walk(root):
        subfolders.sort()
        present = set(names)
        for stem in (name.removesuffix(".json") for name in names if name.endswith(".json")):
            if not _NUMBER.fullmatch(stem):
                continue
            path = Path(folder, f"{stem}.json")
            if f"{stem}.png" not in present:
                require_path(path.with_suffix(".png"), SOURCE)
            if int(stem) in found:
                raise InputError(
                    f"{path}: number {stem} is also in {found[int(stem)].parent}; name one folder"
                )
            found[int(stem)] = path
    if not found:
        raise InputError(f"{root}: expected <id>.json and <id>.png, found none; get them from {SOURCE}")
    return sorted(found.items())


def _read_entry(path: Path, number: int) -> _Entry:
    try:
        if path.stat().st_size > _MAX_JSON:
            raise InputError(f"expected at most {_MAX_JSON} bytes")
        content = json.loads(path.read_bytes())
        if isinstance(content, dict) and list(content) == [str(number)]:  # the first release
            content = content[str(number)]
        entry = _Entry.model_validate(content)
        bounds = [record.bounds for record in entry.objects.values()]
        if len(bounds) != 1 or [len(corner) for corner in bounds[0]] != [2, 2]:
            raise InputError("expected one object with two corners")
        if max(abs(value) for corner in bounds[0] for value in corner) >= 2**31:
            raise InputError("its bounds are not pixels")
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the top level"
        raise InputError(f"{path}: is damaged at {where}: {problem['msg']}; get it from {SOURCE}") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: cannot be read: {reason}; get it from {SOURCE}") from None
    return entry


def _values(path: Path, entry: _Entry) -> dict[str, FactorValue]:
    record = next(iter(entry.objects.values()))
    lights = {} if entry.lights is None else {"lights": entry.lights}
    labels = record.model_dump(exclude={"bounds"})
    if not all(np.isfinite(labels[name]) for name in ("size", "rotation")):
        raise InputError(f"{path}: expected finite size and rotation; get it from {SOURCE}")
    return {"scene": entry.scene, **lights, **labels}


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
    return tuple(
        FactorInfo(
            name=name,
            kind="categorical",
            values=(*known[name], *sorted({row[name] for row in values} - set(known[name]))),
            unit=_UNITS.get(name, ""),
        )
        for name in names
    )


def _table(factors: tuple[FactorInfo, ...], values: list[dict[str, FactorValue]]) -> Float64[ndarray, "n k"]:
    columns = []
    for factor in factors:
        numbers = {value: number for number, value in enumerate(factor.values or ())}
        columns.append([float(numbers[row[factor.name]]) for row in values])
    return np.array(columns).T
