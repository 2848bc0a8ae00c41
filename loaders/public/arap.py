"""Read ARAP (Bonneel, Kovacs, Paris, Bala: Intrinsic Decompositions for Image Editing, Eurographics 2017)."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.public.image_formats import read_linear, same_size, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource

SOURCE = PublicSource("https://perso.liris.cnrs.fr/nicolas.bonneel/intrinsicstar/ground_truth")
# Scenes that the paper of the concept sensitivity metric leaves out.
_CSM_EXCLUDES = frozenset("katie redhead skin strawberries toad revolution".split())
Scenes = Literal["all", "csm"]
# In order of preference, if one image exists in several formats.
_SUFFIXES = (".exr", ".hdr", ".png", ".jpg", ".jpeg")
_LIGHT = re.compile(r"_light([0-9]{1,9})$", re.IGNORECASE)
# Public code finds these words anywhere in a name: kitchen_shading_direct is not an input.
_NOT_INPUT = re.compile(r"_(albedo|shading|normal|depth|mask|alpha)(_|$)")


class ARAP(PublicSamples):
    """Photographs and renders of scenes with their albedo and shading, some under several lights.

    ``data[i]`` is a dict of ``id`` (file name of the input without its suffix), ``scene`` and ``light`` (of
    ``<scene>_light<N>``; -1 without a number) and

    * ``image``, ``reflectance``, ``shading``: float32 [3, H, W];
    * ``mask``: bool [H, W], above half of its file's largest value; all true where there is no file.

    Values are linear RGB, proportional to light: EXR and Radiance values unchanged, 8-bit values over 255
    without the sRGB curve, because the authors say that these are linear too. The scale of the ground truth
    differs between scenes by a factor of 200, and some scenes are almost black: fit a scale to each image.

    Two layouts are read. Flat: ``<scene>_light<N>.<ext>``, ``<same>_albedo.<ext>`` or
    ``<scene>_albedo.<ext>``, ``<same>_shading.<ext>``, of exr, hdr, png, jpg, jpeg, mixed within a scene. In
    folders, as code for the concept sensitivity metric expects: ``input/``, ``reflectance/``, ``shading/``,
    ``mask/``, with files of the same names and ``<same or scene>_mask`` or ``_alpha``. Names are compared
    without regard to case.

    Certain: both layouts, which public code reads. Uncertain: the file list of the server, and the licence.

    Example:
        >>> ARAP("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it from https://perso.liris.cnrs.fr/nicolas.bonneel/intrinsicstar/ground_truth
    """

    def __init__(self, root: Path | str, scenes: Scenes = "all") -> None:
        """List the inputs without reading an image.

        Args:
            root: the folder, in either layout.
            scenes: "csm" leaves out Katie, redhead, skin, strawberries, toad and revolution.

        Raises:
            InputError: the folder is missing or has no input.
        """
        check_choice("scenes", scenes, Scenes)
        root = SOURCE.require(Path(root))
        folders = (root / "input").is_dir()
        kinds = ("input", "reflectance", "shading", "mask")
        self._folders = {kind: root / kind if folders else root for kind in kinds}
        self._files = {kind: _by_stem(folder) for kind, folder in self._folders.items()}
        inputs = [path for stem, path in self._files["input"].items() if not _NOT_INPUT.search(stem)]
        excluded = _CSM_EXCLUDES if scenes == "csm" else frozenset()
        inputs = [path for path in inputs if scene_of(path.stem).lower() not in excluded]
        self._inputs = SOURCE.some(inputs, f"{self._folders['input']}: expected images")
        self.ids = tuple(path.stem for path in self._inputs)

    def _read(self, number: int) -> dict[str, Any]:
        path, stem = self._inputs[number], self.ids[number]
        images = {"image": read_linear(path, SOURCE)}
        for name, end in {"reflectance": "albedo", "shading": "shading"}.items():
            missing = self._folders[name] / f"{stem}_{end}.png"
            images[name] = read_linear(self._find(name, stem, end) or SOURCE.require(missing), SOURCE)
        mask = self._find("mask", stem, "mask", "alpha")
        images["mask"] = _read_mask(mask) if mask else np.ones(images["image"].shape[:2], bool)
        same_size(images, str(path))
        light = _LIGHT.search(stem)
        return {
            "scene": scene_of(stem),
            "light": int(light[1]) if light else -1,
            **{name: to_tensor(image) for name, image in images.items()},
        }

    def _find(self, kind: str, stem: str, *ends: str) -> Path | None:
        """Find a file of an input or else of its scene."""
        names = (f"{of}_{end}".lower() for of in (stem, scene_of(stem)) for end in ends)
        return next((self._files[kind][name] for name in names if name in self._files[kind]), None)


def _by_stem(folder: Path) -> dict[str, Path]:
    """Map lower-case names without suffix to files; of several formats, to the preferred format."""
    if not folder.is_dir():
        return {}
    paths = [folder / name for name in SOURCE.names(folder)]
    images = [path for path in paths if path.suffix.lower() in _SUFFIXES and path.is_file()]
    worst_first = sorted(images, key=lambda path: -_SUFFIXES.index(path.suffix.lower()))
    best = {path.stem.lower(): path for path in worst_first}
    return {path.stem.lower(): path for path in images if best[path.stem.lower()] == path}


def scene_of(stem: str) -> str:
    """Name the scene of an input by its file name without suffix.

    Example:
        >>> scene_of("old_room_light2"), scene_of("villa")
        ('old_room', 'villa')
    """
    return _LIGHT.sub("", stem)


def _read_mask(path: Path) -> Any:
    # The threshold is half of the file's largest value, because some masks hold 1 and some 255.
    mask = read_linear(path, SOURCE).max(axis=-1)
    return mask > mask.max() / 2
