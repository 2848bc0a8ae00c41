"""Read InteriorVerse (Zhu et al., SIGGRAPH Asia 2022), as released or by the lists of prs-eth/Marigold."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.public.exr import read_exr
from candlelight.loaders.public.image_formats import same_size, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource

SOURCE = PublicSource("https://interiorverse.github.io (material and geometry, 85 degrees)")
_Split = Literal["train", "val", "test"]
_SCENE = re.compile(r"[A-Za-z0-9_-]+")
_FIRST = re.compile(rf"scenes_85/({_SCENE.pattern}/[0-9]+)_im\.exr")
_IMAGE = re.compile(r"([0-9]+)_im\.exr")
_LARGEST = 65504.0  # of half precision, in place of infinity
_COLUMNS = ("im", "albedo", "material", "mask")


class InteriorVerse(PublicSamples):
    """Rendered rooms with albedo, and no shading.

    ``data[i]`` is a dict of ``id`` (``<scene>/<number>``), ``scene`` and

    * ``image``: float32 [3, H, W], scene-linear radiance, unbounded;
    * ``reflectance``: float32 [3, H, W], albedo, linear;
    * ``roughness`` and ``metallic``, on request: float32 [1, H, W], in [0, 1];
    * ``mask``: bool [H, W], valid pixels with a finite albedo.

    NaN becomes 0 and infinity 65504; nothing is clipped. Clipping to [0, 1] then gives Marigold's values.

    Two layouts are read: a folder of the release (``dataset_85`` or the root, with ``<scene>/000_im.exr``,
    ``000_albedo.exr``, ``000_mask.exr`` and so on, and ``test.txt``, a scene in each line), and ``scenes_85``
    with a list of Marigold's repository in the root, ``interiorverse_test_scenes_85.txt`` (2672 frames of 210
    scenes), which comes first. A copy without some frames is read by a list without their lines.

    Certain: names, lists and meanings, from the authors' page and from public code. Uncertain: this reader
    has never been run on the real files; the name of the only channel of masks, which is taken to be Y.

    Example:
        >>> InteriorVerse("nowhere", "test")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset_85/test.txt is missing; get it from \
https://interiorverse.github.io (material and geometry, 85 degrees)
    """

    def __init__(self, root: Path | str, split: _Split, material: bool = False) -> None:
        """List the frames of a split without reading an image.

        Args:
            root: the folder that holds ``dataset_85``, or this folder itself (that of 120 degrees is alike);
                or the folder that holds ``scenes_85`` and a list of Marigold.
            split: "train", "val" or "test".
            material: whether to read roughness and metallic.

        Raises:
            InputError: the list or a scene is missing, or the list is damaged.
        """
        check_choice("split", split, _Split)
        root, self._material = Path(root), material
        listed = root / f"interiorverse_{split}_scenes_85.txt"
        if listed.is_file():
            self._folder = root / "scenes_85"
            expected = "scenes_85/<scene>/000_im.exr and its albedo, material and mask"
            found = list(SOURCE.parse(listed, _listed_frame, expected))
        else:
            self._folder = root if (root / f"{split}.txt").is_file() else root / "dataset_85"
            listed = self._folder / f"{split}.txt"
            scenes = SOURCE.parse(listed, _scene, "the name of a scene")
            found = [f"{scene}/{frame}" for scene in scenes for frame in self._frames(scene)]
        self.ids = SOURCE.some(found, f"{listed}: expected frames")

    def _frames(self, scene: str) -> tuple[str, ...]:
        matches = map(_IMAGE.fullmatch, SOURCE.names(self._folder / scene))
        numbers = (match[1] for match in matches if match)
        return SOURCE.some(numbers, f"{self._folder / scene}: expected 000_im.exr")

    def _read(self, number: int) -> dict[str, Any]:
        frame = self.ids[number]
        names = _COLUMNS if self._material else ("im", "albedo", "mask")
        layers = {name: read_exr(self._folder / f"{frame}_{name}.exr", SOURCE) for name in names}
        same_size(layers, str(self._folder / frame))
        known = (layers["mask"] > 0).all(axis=-1) & np.isfinite(layers["albedo"]).all(axis=-1)
        item = {
            "scene": frame.partition("/")[0],
            "image": to_tensor(_finite(layers["im"])),
            "reflectance": to_tensor(_finite(layers["albedo"])),
            "mask": to_tensor(known),
        }
        if self._material:
            material = to_tensor(_finite(layers["material"]))
            item |= {"roughness": material[:1], "metallic": material[1:2]}
        return item


def _scene(line: str) -> str | None:
    return line.strip() if _SCENE.fullmatch(line.strip()) else None


def _listed_frame(line: str) -> str | None:
    """Read the frame of a line of four columns, which name files of this frame alone."""
    words = line.split()
    first = _FIRST.fullmatch(words[0])
    own = first and [f"scenes_85/{first[1]}_{layer}.exr" for layer in _COLUMNS] == words
    return first[1] if first and own else None


def _finite(layer: Float32[ndarray, "height width 3"]) -> Float32[ndarray, "height width 3"]:
    return np.nan_to_num(layer, nan=0.0, posinf=_LARGEST, neginf=0.0)
