"""Read Stanford-ORB (Kuang et al., NeurIPS 2023): photographs of objects, and their albedo."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Shaped
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.exr import read_exr
from candlelight.loaders.public.image_formats import read_indices, read_rgb8, same_size, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource

SOURCE = PublicSource("https://stanfordorb.github.io (blender_LDR or blender_HDR, ground_truth)")
_SCENES = {  # of each object, the numbers of its scenes
    **{"baking": (1, 2, 3), "grogu": (1, 2, 3), "pitcher": (1, 5, 7), "teapot": (1, 2, 6)},
    **{"cactus": (1, 5, 7), "curry": (1, 5, 7), "pepsi": (2, 3, 4), "cart": (2, 4, 6), "ball": (2, 3, 4)},
    **{"blocks": (2, 5, 6), "chips": (2, 3, 4), "gnome": (3, 5, 7), "cup": (3, 6, 7), "salt": (4, 5, 7)},
}
_LIGHT = {"teapot": 1, "grogu": 2, "gnome": 3, "cart": 4, "pitcher": 5, "blocks": 6, "cactus": 7}
ORB_SPLITS = {
    "full": tuple(f"{name}_scene{one:03d}" for name, scenes in _SCENES.items() for one in scenes),
    "light": tuple(f"{name}_scene{one:03d}" for name, one in _LIGHT.items()),
}
_Split = Literal["all", "full", "light"]
_ALBEDO = "pseudo_gt_albedo"


class StanfordORB(PublicSamples):
    """Test photographs of objects in rooms and outdoors, with albedo, and no shading.

    ``data[i]`` is a dict of ``id`` (``<capture>/<number>``, as ``teapot_scene001/0000``), ``capture`` and

    * ``image``: float32 [3, H, W], linear: the LDR image decoded, or the HDR image as stored, unbounded;
    * ``reflectance``: float32 [3, H, W], pseudo ground truth albedo, linear, in [0, 1];
    * ``mask``: bool [H, W], the object.

    Files of 2048 x 2048 pixels are reduced to 512 x 512 as by the authors' code: means over blocks of the
    stored values, before the sRGB curve is undone, and a mask of the means above one half.

    Files: ``blender_LDR/<capture>/test/0000.png`` and ``test_mask/0000.png``, or ``blender_HDR`` with .exr
    and the same masks, and ``ground_truth/<capture>/pseudo_gt_albedo/0000.png``. The README names the albedo
    .npy, but the authors' code and that of others reads .png.

    Certain: names, captures and rules, from the published code. Uncertain: this reader has never been run on
    the real files. According to issue 7 of the authors' repository, the albedo is darker than renders of the
    scans, and not quite aligned.

    Example:
        >>> StanfordORB("nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/ground_truth is missing; get it from https://stanford...
    """

    def __init__(self, root: Path | str, split: _Split = "all", side: int = 512) -> None:
        """List the photographs that have an albedo, without reading an image.

        Args:
            root: folder with ``ground_truth``, and ``blender_LDR`` or else ``blender_HDR``.
            split: "full" takes the benchmark's 42 captures, "light" its 7, "all" every capture of the folder.
            side: height in pixels to which larger files are reduced.

        Raises:
            InputError: a folder or a capture of the split is missing, or there is no photograph.
        """
        check_choice("split", split, _Split)
        root, self._side = Path(root), side
        self._truth = root / "ground_truth"
        captures = SOURCE.folders(self._truth) if split == "all" else ORB_SPLITS[split]
        self._images = SOURCE.find(root / "blender_LDR", root / "blender_HDR")
        found = [f"{capture}/{view}" for capture in captures for view in self._views(capture)]
        self.ids = SOURCE.some(found, f"{self._truth}: expected <capture>/{_ALBEDO}/0000.png")

    def _views(self, capture: str) -> list[str]:
        names = map(Path, SOURCE.names(self._truth / capture / _ALBEDO))
        return [name.stem for name in names if name.suffix == ".png"]

    def _read(self, number: int) -> dict[str, Any]:
        capture, _, view = self.ids[number].partition("/")
        folder = self._images / capture
        if self._images.name == "blender_HDR":
            path = folder / "test" / f"{view}.exr"
            image = self._reduced(read_exr(path, SOURCE), path)
        else:
            image = self._decoded(folder / "test" / f"{view}.png")
        outline = folder / "test_mask" / f"{view}.png"
        layers = {
            "image": image,
            "reflectance": self._decoded(self._truth / capture / _ALBEDO / f"{view}.png"),
            "mask": self._reduced(read_indices(outline, SOURCE), outline) > 127.5,
        }
        same_size(layers, str(folder / "test" / view))
        return {"capture": capture, **{name: to_tensor(layer) for name, layer in layers.items()}}

    def _decoded(self, path: Path) -> Float32[ndarray, "height width 3"]:
        return srgb_to_linear(self._reduced(read_rgb8(path, SOURCE), path) / 255).astype(np.float32)

    def _reduced(
        self, values: Shaped[ndarray, "height width *channels"], path: Path
    ) -> Shaped[ndarray, "smaller narrower *channels"]:
        """Average blocks, of 4 x 4 pixels for 2048 pixels."""
        height, width, *channels = values.shape
        factor = max(1, height // self._side)
        if height % factor or width % factor or height // factor > self._side:
            expected = f"{self._side} pixels a side or a multiple of it"
            raise InputError(f"{path}: expected {expected}, got {height} x {width}; get it from {SOURCE}")
        return values.reshape(height // factor, factor, width // factor, factor, *channels).mean((1, 3))
