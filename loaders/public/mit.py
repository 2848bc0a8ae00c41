"""Read MIT Intrinsic Images (Grosse, Johnson, Adelson, Freeman, ICCV 2009)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import read_png16, same_size, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource

SOURCE = PublicSource("https://people.csail.mit.edu/rgrosse/intrinsic (intrinsic-data.tar.gz)")
MIT_SETS = {
    "set1": ("box", "cup1", "cup2", "dinosaur", "panther", "squirrel", "sun", "teabag2"),
    "set2": ("deer", "frog1", "frog2", "paper1", "paper2", "raccoon", "teabag1", "turtle"),
    "extra": ("apple", "pear", "phone", "potato"),
}
MIT_SPLITS = {
    **MIT_SETS,
    "grosse": MIT_SETS["set1"] + MIT_SETS["set2"],
    "barron-train": tuple("apple box cup1 dinosaur frog1 panther paper1 phone squirrel teabag2".split()),
    "barron-test": tuple("cup2 deer frog2 paper2 pear potato raccoon sun teabag1 turtle".split()),
}
_Split = Literal["all", "set1", "set2", "extra", "grosse", "barron-train", "barron-test"]
_LAYERS = ("image", "diffuse", "reflectance", "shading", "specular", "mask")


class MITIntrinsic(PublicSamples):
    """Objects of MIT Intrinsic Images, each with its reflectance, shading and highlights.

    ``data[i]`` is a dict of ``id`` (the object) and

    * ``image`` (``original.png``), ``diffuse``, ``reflectance``, ``specular``: float32 [3, H, W];
    * ``shading``: float32 [1, H, W];
    * ``mask``: bool [H, W], the object;
    * ``lights``, on request: float32 [10, 3, H, W], ``light01.png`` to ``light10.png``.

    Values are 16-bit values over 65535: linear, in [0, 1], 0 outside the object. White in the files is
    65025 = 255 x 255, here 0.99222, and most maxima of reflectance have this value; the benchmark of 2009
    divides by 255, Barron's code by 65535 like this reader. Image and diffuse share one unit, which differs
    from the unit of reflectance x shading: ``diffuse = reflectance * shading / k`` with its own k for each
    object, within 2.4 to 8.3 percent (relative RMSE). ``image = diffuse + specular`` except where highlights
    are clipped. The input of the benchmark of 2009 is ``diffuse``.

    Certain: names, bits, masks, scales and objects, from real files of Barron's copy. Uncertain: whether the
    images of the first archive have the size of Barron's copy.

    Example:
        >>> MITIntrinsic("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it from https://people.csail.mit.edu/rgrosse/intrinsic (intrinsic-data.tar.gz)
    """  # noqa: E501

    def __init__(
        self,
        root: Path | str,
        split: _Split = "all",
        objects: Sequence[str] | None = None,
        lights: bool = False,
    ) -> None:
        """List the objects without reading an image.

        Args:
            root: folder with ``data/<object>/``, ``data/test/<object>/`` or ``<object>/``; also the output
                of `candlelight.loaders.exports.export_mit.export_mit`.
            split: "all" takes every object of the folder; "grosse" the 16 objects of the paper, "set1" and
                "set2"; "extra" the four others; "barron-train" and "barron-test" the split of Barron and
                Malik.
            objects: names of objects, instead of a split.
            lights: whether to read the captures under ten more lights.

        Raises:
            InputError: the folder or an object is missing, or both a split and objects are given.
        """
        if split != "all" and (split not in MIT_SPLITS or objects is not None):
            raise InputError(
                f"split: expected all, {', '.join(MIT_SPLITS)}, or objects without a split, got {split!r}"
            )
        self._folder = _objects_folder(Path(root))
        found = SOURCE.folders(self._folder)
        wanted = MIT_SPLITS.get(split) if objects is None else tuple(objects)
        for name in wanted or ():
            if name not in found:
                SOURCE.require(self._folder / Path(name).name)
                raise InputError(f"objects: expected names of objects, got {name!r}")
        self.ids = found if wanted is None else wanted
        self._lights = tuple(f"light{number:02d}" for number in range(1, 11)) if lights else ()

    def _read(self, number: int) -> dict[str, Any]:
        import torch

        folder = self._folder / self.ids[number]
        images = {}
        for name in (*_LAYERS, *self._lights):
            path = folder / ("original.png" if name == "image" else f"{name}.png")
            images[name] = read_png16(path, SOURCE)
            expected = 2 if name in ("shading", "mask") else 3
            if images[name].ndim != expected:
                raise InputError(f"{path}: expected {'gray' if expected == 2 else 'RGB'}, got another PNG")
        same_size(images, str(folder))
        item = {name: to_tensor(images[name]) for name in _LAYERS}
        item |= {"shading": item["shading"][None], "mask": item["mask"] > 0}
        if self._lights:
            item["lights"] = torch.stack([to_tensor(images[light]) for light in self._lights])
        return item


def _objects_folder(root: Path) -> Path:
    """Find the folder of objects: below ``data/test``, below ``data``, or the root itself."""
    places = (root / "data" / "test", root / "data", SOURCE.require(root))
    found = (folder for folder in places if any(folder.glob("*/original.png")))
    return SOURCE.some(found, f"{root}: expected data/<object>/original.png")[0]
