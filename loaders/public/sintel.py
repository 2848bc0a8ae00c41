"""Read the intrinsic layers of MPI-Sintel (Butler, Wulff, Stanley, Black, ECCV 2012)."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import (
    image_tensor,
    read_indices,
    read_rgb8,
    same_size,
    to_tensor,
)
from candlelight.loaders.public.public_files import PublicSamples, PublicSource

SOURCE = PublicSource(
    "https://files.is.tue.mpg.de/jwulff/sintel/extras (MPI-Sintel-training_{clean_noshadingtextures,"
    "albedo_noshadingtextures,shading}.zip)"
)
_TRAIN = "alley_1 bamboo_1 bandage_1 cave_2 market_2 market_6 shaman_2 sleeping_1 temple_2".split()
_TEST = "alley_2 bamboo_2 bandage_2 cave_4 market_5 mountain_1 shaman_3 sleeping_2 temple_3".split()
_FOLDS = {
    "train": tuple(_TRAIN),
    "test": tuple(_TEST),
    "train-nodefect": tuple(scene for scene in _TRAIN if scene != "bandage_1"),
    "test-nodefect": tuple(scene for scene in _TEST if scene != "shaman_3"),
}
SINTEL_SPLITS = {
    **_FOLDS,
    "folds": _FOLDS["train"] + _FOLDS["test"],
    "folds-nodefect": _FOLDS["train-nodefect"] + _FOLDS["test-nodefect"],
}
_Split = Literal["all", "train", "test", "train-nodefect", "test-nodefect", "folds", "folds-nodefect"]
_RELEASED = {
    "image": "clean_noshadingtextures",
    "reflectance": "albedo_noshadingtextures",
    "shading": "shading",
}
_REPACKED = {"image": "MPI-main-clean", "reflectance": "MPI-main-albedo", "shading": "MPI-main-shading"}
_MASKS = "MPI-main-mask"
_REPACKED_NAME = re.compile(r"([a-z]+_[0-9]+)_(frame_[0-9]{4})\.png")
_KNOWN = 0.99  # a mask is above this share of white where the layers have no defect
_Files = dict[str, dict[str, Path]]  # of each id, the file of each layer


class Sintel(PublicSamples):
    """Frames of the film Sintel without shading in its textures, with albedo and shading.

    ``data[i]`` is a dict of ``id`` (``<scene>/frame_<number>``), ``scene`` and

    * ``image`` (the clean pass), ``reflectance``, ``shading``: float32 [3, H, W];
    * ``mask``: bool [H, W], where the layers have no defect; all true where there are no masks.

    The 8-bit values are decoded by the sRGB curve, so that encoding gives the stored values that papers
    compare. The curve of the shading is not documented. Image and reflectance x shading differ; papers also
    take the product for the image (ResynthSintel).

    Two layouts are read: the archives of the release, unpacked in one folder or in its folder ``training``
    (``clean_noshadingtextures/<scene>/frame_0001.png``, ``albedo_noshadingtextures/...``, and
    ``shading/<scene>/out_0001.png``, whose numbers may begin elsewhere, so that frames of a scene are matched
    in their order); and the copy for papers on intrinsic images (``MPI-main-clean/<scene>_frame_0001.png``,
    ``MPI-main-albedo``, ``MPI-main-shading`` and, if it is there, ``MPI-main-mask``).

    Certain: names and scenes, from public code and its lists. Uncertain: this reader has never been run on
    the real files.

    Example:
        >>> Sintel("nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/clean_noshadingtextures is missing; get it...
    """

    def __init__(self, root: Path | str, split: _Split = "all") -> None:
        """List the frames without reading an image.

        Args:
            root: the folder, in either layout.
            split: "all" takes the scenes that have all layers; "train" (440 frames) and "test" (450) are the
                scenes of the two folds, each of which is the test of the other; "train-nodefect" (390,
                without bandage_1) and "test-nodefect" (400, without shaman_3) are those of Fan et al. 2018;
                "folds" (890) and "folds-nodefect" (790) are both folds.

        Raises:
            InputError: a folder is missing, a scene of the split has not all layers, or its layers differ in
                their number of frames.
        """
        check_choice("split", split, _Split)
        root = Path(root)
        found = _repacked(root) if (root / _REPACKED["image"]).is_dir() else _released(root)
        scenes = {name.partition("/")[0] for name in found}
        wanted = scenes if split == "all" else SINTEL_SPLITS[split]
        for scene in wanted:
            if scene not in scenes:
                raise InputError(f"{root}: split {split} needs `{scene}` in all layers; get it from {SOURCE}")
        self._files = {name: files for name, files in found.items() if name.partition("/")[0] in wanted}
        self.ids = SOURCE.some(self._files, f"{root}: expected frames with image, albedo and shading")

    def _read(self, number: int) -> dict[str, Any]:
        files = dict(self._files[self.ids[number]])
        mask = files.pop("mask", None)
        layers = {name: read_rgb8(path, SOURCE) for name, path in files.items()}
        height_width = layers["image"].shape[:2]
        known = read_indices(mask, SOURCE) / 255 > _KNOWN if mask else np.ones(height_width, bool)
        same_size({**layers, "mask": known}, str(files["image"]))
        return {
            "scene": self.ids[number].partition("/")[0],
            **{name: image_tensor(pixels, linear=True) for name, pixels in layers.items()},
            "mask": to_tensor(known),
        }


def _released(root: Path) -> _Files:
    """Match the frames of each scene that all layers have, in their order."""
    base = root / "training" if (root / "training").is_dir() else root
    folders = {layer: base / name for layer, name in _RELEASED.items()}
    there = {layer: SOURCE.folders(folder) for layer, folder in folders.items()}
    found: _Files = {}
    for scene in there["image"]:
        if not all(scene in scenes for scenes in there.values()):
            continue
        frames = {layer: _pngs(folder / scene) for layer, folder in folders.items()}
        counts = {layer: len(paths) for layer, paths in frames.items()}
        if len(set(counts.values())) != 1:
            listed = ", ".join(f"{count} in {_RELEASED[layer]}" for layer, count in counts.items())
            raise InputError(f"{base}: expected as many frames of `{scene}` in all layers, got {listed}")
        for paths in zip(*frames.values(), strict=True):
            found[f"{scene}/{paths[0].stem}"] = dict(zip(frames, paths, strict=True))
    return found


def _repacked(root: Path) -> _Files:
    """Find frames by the names of their images; the other files have the same names."""
    folders = {layer: root / name for layer, name in _REPACKED.items()}
    if (root / _MASKS).is_dir():
        folders["mask"] = root / _MASKS
    matches = map(_REPACKED_NAME.fullmatch, SOURCE.names(folders["image"]))
    return {
        f"{match[1]}/{match[2]}": {layer: folder / match[0] for layer, folder in folders.items()}
        for match in matches
        if match
    }


def _pngs(folder: Path) -> list[Path]:
    return [folder / name for name in SOURCE.names(folder) if name.endswith(".png")]
