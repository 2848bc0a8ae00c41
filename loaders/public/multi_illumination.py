"""Read Multi-Illumination Images in the Wild (Murmann et al., ICCV 2019), and MIDIntrinsics of them."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray
from numpy.lib.stride_tricks import sliding_window_view

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, blaming
from candlelight.loaders.public.exr import read_exr
from candlelight.loaders.public.hypersim import tone_factor
from candlelight.loaders.public.image_formats import (
    image_tensor,
    read_indices,
    read_rgb8,
    same_size,
    to_tensor,
)
from candlelight.loaders.public.public_files import PublicSamples, PublicSource

SOURCE = PublicSource(
    "https://projects.csail.mit.edu/illumination (multi_illumination_{train,test}_mip2_{jpg,exr}.zip)"
)
INTRINSICS = PublicSource("https://github.com/compphoto/MIDIntrinsics (midi_{train,test}_albedo.zip)")
_DIRECTIONS = 25
_PROBE_BORDER = 5  # pixels at the rim of the gray probe that may show the room
_BRIGHTEST = 1e30  # in place of infinity
_PROBE_SEEN = 0.01  # a pixel of the probe has a channel above this
# Directions in which the flash is visible itself, or lights the scene from behind the camera.
FRONTAL = (2, 3, 19, 20, 21, 22, 24)
_TEST_PREFIX = "everett"
PhotographFormat = Literal["jpg", "exr"]
_Split = Literal["all", "train", "test"]


class MultiIllumination(PublicSamples):
    """Photographs of indoor scenes, each lit by a flash from 25 directions.

    A row is one photograph; `rows` lists the rows of a scene, `stack` reads all photographs of a scene.
    ``data[i]`` is a dict of ``id`` (``<scene>/dir_<n>``), ``scene``, ``direction`` (0 to 24), ``frontal``
    (whether the direction is in `FRONTAL`) and

    * ``image``: float32 [3, H, W]; exr: scene-linear as stored, unbounded; jpg: decoded with the sRGB curve
      to [0, 1], possibly not the curve that encoded the files;
    * ``chrome`` and ``gray``, on request: the two probes, float32 [3, size, size], like ``image``;
    * ``materials``, on request: int64 [H, W], class numbers of the scene, the indices of its palette PNG;
    * ``chrome_box`` and ``gray_box``: float64 [4], x, y, width and height in pixels of mip 0 (6000 x 4000),
      NaN if ``meta.json`` lacks them.

    The flash is not white: divide by the colour of the gray probe to compare scenes.

    Certain: names, sizes, the palette, the test split, from the released kit and samples. Uncertain: the tone
    curve of the jpg files, and the names of the material classes.

    Example:
        >>> MultiIllumination("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it from https://projects.csail.mit.edu/illumination (multi_illumination_{train,test}_mip2_{jpg,exr}.zip)
    """  # noqa: E501

    def __init__(
        self,
        root: Path | str,
        split: _Split = "all",
        kind: PhotographFormat = "jpg",
        mip: int = 2,
        directions: Sequence[int] = tuple(range(_DIRECTIONS)),
        probes: int | None = None,
        materials: bool = False,
    ) -> None:
        """List the scenes and check that their photographs exist, without reading any.

        Args:
            root: folder of scenes, such as ``multi_illumination_test_mip2_jpg``.
            split: "test" takes scenes whose name begins with ``everett`` (30 in the release), "train" the
                others (985), "all" every scene of the folder.
            kind: "jpg", or "exr", which needs OpenEXR.
            mip: level of size m, 4000 // 2^m x 6000 // 2^m pixels (height, width).
            directions: numbers of the directions to read, 0 to 24.
            probes: size in pixels of the probe images, 256 in the released archives; None to read no probe.
            materials: whether to read the material classes.

        Raises:
            InputError: the folder or a photograph is missing, or no scene has this kind and size.
        """
        check_choice("split", split, _Split)
        check_choice("kind", kind, PhotographFormat)
        self.directions = tuple(int(number) for number in directions)
        if not self.directions or not set(self.directions) <= set(range(_DIRECTIONS)):
            raise InputError(f"directions: expected numbers from 0 to 24, got {list(directions)}")
        self._root, self._kind, self._mip = Path(root), kind, mip
        self._probes, self._materials = probes, materials
        sides = {"all": (True, False), "test": (True,), "train": (False,)}[split]
        folders = SOURCE.folders(self._root)
        held = (name for name in folders if name.startswith(_TEST_PREFIX) in sides and self._holds(name))
        expected = f"{self._root}: expected scenes with dir_<n>_mip{mip}.{kind}, split {split}"
        self.scenes = SOURCE.some(held, expected)
        self.ids = tuple(f"{scene}/dir_{number}" for scene in self.scenes for number in self.directions)

    def rows(self, scene: str) -> range:
        """List the rows of one scene, in order of ``directions``.

        Raises:
            InputError: there is no such scene.
        """
        if scene not in self.scenes:
            raise InputError(f"scene: expected one of {', '.join(self.scenes[:8])}, ..., got {scene!r}")
        first = self.scenes.index(scene) * len(self.directions)
        return range(first, first + len(self.directions))

    def stack(self, scene: str) -> Any:
        """Read all photographs of a scene as one tensor, float32 [directions, 3, H, W]: 450 MB at mip 2.

        Raises:
            InputError: there is no such scene, or a photograph is damaged or of another size.
        """
        import torch

        names = [self.ids[row] for row in self.rows(scene)]
        images = [self._pixels(self._photograph(scene, direction)) for direction in self.directions]
        same_size({name: image[0].numpy() for name, image in zip(names, images, strict=True)}, scene)
        return torch.stack(images)

    def _read(self, number: int) -> dict[str, Any]:
        import torch

        scene, place = divmod(number, len(self.directions))
        direction = self.directions[place]
        path = self._photograph(self.scenes[scene], direction)
        item = {
            "scene": path.parent.name,
            "direction": direction,
            "frontal": direction in FRONTAL,
            "image": self._pixels(path),
        }
        for probe in ("chrome", "gray") if self._probes is not None else ():
            file = f"dir_{direction}_{probe}{self._probes}.{self._kind}"
            item[probe] = self._pixels(path.parent / "probes" / file)
        if self._materials:
            materials = path.parent / f"materials_mip{self._mip}.png"
            classes = read_indices(materials, SOURCE)
            same_size({"image": item["image"][0].numpy(), "materials": classes}, str(materials))
            item["materials"] = to_tensor(classes.astype(np.int64))
        boxes = _read_boxes(path.parent / "meta.json")
        return item | {f"{probe}_box": torch.tensor(box) for probe, box in boxes.items()}

    def _holds(self, scene: str) -> bool:
        """Say whether a scene has photographs; if it has any, all directions must exist."""
        present = {path.name for path in (self._root / scene).iterdir()}
        if present.isdisjoint(self._photograph(scene, number).name for number in range(_DIRECTIONS)):
            return False
        for direction in self.directions:
            if self._photograph(scene, direction).name not in present:
                SOURCE.require(self._photograph(scene, direction))
        return True

    def _photograph(self, scene: str, direction: int) -> Path:
        return self._root / scene / f"dir_{direction}_mip{self._mip}.{self._kind}"

    def _pixels(self, path: Path) -> Any:
        if self._kind == "exr":
            return to_tensor(read_exr(path, SOURCE))
        return image_tensor(read_rgb8(path, SOURCE), linear=True)


class MIDIntrinsics(PublicSamples):
    """Photographs of `MultiIllumination` with an albedo of each scene (Careaga and Aksoy, TOG 2023).

    ``data[i]`` is a dict of ``id`` (``<scene>/dir_<n>``), ``scene``, ``direction``, ``frontal`` and

    * ``image``: float32 [3, H, W], linear, in [0, 1]: lit by white light, scaled and clipped;
    * ``reflectance``: float32 [3, H, W], one albedo for all directions of a scene, linear, in a scale of its
      own;
    * ``shading``: float32 [3, H, W], image / reflectance, 0 outside the mask;
    * ``mask``: bool [H, W], where the reflectance is above 0 in all channels, and no value is NaN.

    White light: red and blue are multiplied so that the median of the gray probe, without its rim, is gray.
    Scale: the 90th percentile of the brightness becomes 0.8 after the power 1/2.2, which is not applied.

    The albedo is no measurement: it is the median of a network's reflectance under 20 of the 25 lights (all
    but 2, 3, 20, 21 and 24), so methods of that family are favoured.

    Files: those of ``multi_illumination_{train,test}_mip2_exr.zip``, probes among them, and
    ``<scene>/albedo.exr`` beside the photographs. Certain: names and rules, from the authors' page and
    script. Uncertain: this reader has never been run on the real files.

    Example:
        >>> MIDIntrinsics("nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it from https://projects.csail.mit.edu/...
    """

    def __init__(
        self,
        root: Path | str,
        split: _Split = "all",
        mip: int = 2,
        directions: Sequence[int] = tuple(range(_DIRECTIONS)),
    ) -> None:
        """List the scenes and check that their photographs and albedos exist, without reading any.

        Args:
            root: folder of scenes, as for `MultiIllumination`, which also describes the other arguments.
            split: "test" (30 scenes), "train" (985) or "all".
            mip: level of the size; the albedo is of level 2.
            directions: numbers of the directions to read.

        Raises:
            InputError: the folder, a photograph or an albedo is missing, or no scene has this size.
        """
        self._root = Path(root)
        self._photographs = MultiIllumination(root, split, "exr", mip, directions)
        self.scenes, self.ids = self._photographs.scenes, self._photographs.ids
        for scene in self.scenes:
            INTRINSICS.require(self._root / scene / "albedo.exr")

    def _read(self, number: int) -> dict[str, Any]:
        item = self._photographs[number]
        folder = self._root / item["scene"]
        probe = folder / "probes" / f"dir_{item['direction']}_gray256.exr"
        gray = _probe_colour(read_exr(probe, SOURCE), probe)
        photograph = np.moveaxis(item["image"].numpy(), 0, 2)
        white = np.nan_to_num(photograph.astype(np.float64) * (gray[1] / gray), posinf=_BRIGHTEST)
        image = (tone_factor(white) * white).clip(0, 1).astype(np.float32)
        albedo = read_exr(folder / "albedo.exr", INTRINSICS)
        same_size({"image": image, "albedo": albedo}, str(folder / "albedo.exr"))
        known = ((albedo > 0) & np.isfinite(albedo) & ~np.isnan(photograph)).all(axis=-1)
        shading = np.divide(image, albedo, out=np.zeros_like(image), where=known[..., None])
        reflectance = np.where(np.isfinite(albedo), albedo, 0)
        layers = {"image": image, "reflectance": reflectance, "shading": shading, "mask": known}
        named = {name: item[name] for name in ("scene", "direction", "frontal")}
        return named | {name: to_tensor(layer) for name, layer in layers.items()}


def _probe_colour(probe: Float32[ndarray, "height width 3"], path: Path) -> Float64[ndarray, "3"]:
    """Take the median of a gray probe, of the pixels whose whole neighbourhood shows it."""
    seen = np.pad((probe > _PROBE_SEEN).any(axis=-1), _PROBE_BORDER)
    window = 2 * _PROBE_BORDER + 1
    inside = probe[sliding_window_view(seen, (window, window)).all(axis=(2, 3))]
    colour = np.median(inside, axis=0).astype(np.float64) if len(inside) else np.zeros(3)
    if not (np.isfinite(colour) & (colour > 0)).all():
        raise InputError(f"{path}: expected a gray ball that is lit in all channels; get it from {SOURCE}")
    return colour


def _read_boxes(path: Path) -> dict[str, Float64[ndarray, "4"]]:
    """Read the bounding boxes of the probes; NaN if the file or its fields are missing."""
    with blaming(f"{path}: cannot be read as JSON", f"get it again from {SOURCE}"):
        meta = json.loads(path.read_bytes()) if path.exists() else {}
    return {
        probe: np.array([_number(meta, probe, "bounding_box", key) for key in "xywh"])
        for probe in ("chrome", "gray")
    }


def _number(value: Any, *keys: str) -> float:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) and abs(value) < 2**31 else math.nan
