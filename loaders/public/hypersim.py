"""Read Hypersim (Roberts et al., ICCV 2021) as Marigold-IID-Lighting is scored on it (prs-eth/Marigold)."""

import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64, Shaped, UInt8
from numpy import ndarray

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.file_rows import read_table
from candlelight.loaders.public.image_formats import image_tensor, read_rgb8, same_size, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, wrong_line

PREPARED = PublicSource(
    "https://github.com/prs-eth/Marigold (script/iid/dataset_preprocess, data_split/hypersim_iid)"
)
RELEASED = PublicSource("https://github.com/apple/ml-hypersim (dataset_download_images.py)")
_FIRST = re.compile(
    r"(?P<folder>(train|val|test)/(?P<scene>ai_[0-9]{3}_[0-9]{3}))/"
    r"rgb_(?P<camera>cam_[0-9]{2})_fr(?P<number>[0-9]{4})\.png"
)
# The columns of a list after the first.
_COLUMNS = {"albedo": "npy", "shading": "npy", "residual": "npy", "shading_stats": "json"}
_LAYERS = {"albedo": "diffuse_reflectance", "shading": "diffuse_illumination", "residual": "residual"}
_Split = Literal["train", "val", "test"]
_LISTS = {"train": "hypersim_train_filtered.txt", "val": "hypersim_val.txt", "test": "hypersim_test.txt"}
_Layer = Float64[ndarray, "height width 3"]
_HIGH = 0.98
_DARKEST = 1e-4  # frames below this brightness are made black
_BRIGHTEST = 1e30  # in place of infinity


class HypersimFrame(NamedTuple):
    """Names of a frame, from a line of a list.

    Attributes:
        folder: partition and scene, such as ``test/ai_001_010``.
        scene: such as ``ai_001_010``.
        camera: such as ``cam_00``.
        number: four digits.
    """

    folder: str
    scene: str
    camera: str
    number: str

    @property
    def name(self) -> str:
        """Name in files that Marigold prepares."""
        return f"{self.camera}_fr{self.number}"


class Hypersim(PublicSamples):
    """Rendered rooms with diffuse albedo, diffuse shading, and the residual of both.

    ``data[i]`` is a dict of ``id`` (``<scene>/<camera>_fr<number>``), ``scene`` and

    * ``image``: float32 [3, H, W], the 8-bit image, decoded by the sRGB curve;
    * ``reflectance``: float32 [3, H, W], diffuse albedo, linear, in [0, 1];
    * ``shading``, ``residual``: float32 [3, H, W], linear, in [0, 1], both in one unit of the frame;
    * ``reflectance_mask``, ``shading_mask``, ``residual_mask``: bool [H, W], where each is known; elsewhere
      it is 0;
    * ``mask``: bool [H, W], where reflectance and shading are known.

    Reflectance, shading and residual are linear. Shading and residual are clipped to [0, c] and divided by c,
    the larger of their 98th percentiles, anew for each frame (`hypersim_truth`). So
    ``reflectance * shading + residual`` is proportional to light below the cut-off; residual is light that is
    not diffuse.

    The image is tone-mapped: a factor for each frame, clipped at white, and the power 1/2.2. It is decoded by
    the sRGB curve all the same, as all 8-bit images of this package, so that encoding gives a model the very
    pixels of the file. The result differs from linear light by 0.0085 at most, but pixels of 18 of 255
    come out twice as bright, and darker ones more; ``linear_to_srgb(image) ** 2.2`` is proportional to light.

    Two layouts are read: the folder that Marigold's script writes (``test/<scene>/rgb_cam_00_fr0000.png``,
    ``albedo_...npy``, ``shading_...npy``, ``residual_...npy``), and, for scenes with a folder of their own in
    the root, the release (``<scene>/images/scene_cam_00_final_hdf5/frame.0000.color.hdf5`` and so on), which
    is tone-mapped at reading. A list of frames lies in the root.

    Certain: names, columns and rules, from the published code and its lists. Uncertain: this reader has never
    been run on the real files; half floats, and the size of 768 x 1024, are from memory.

    Example:
        >>> Hypersim("nowhere", "test")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/hypersim_test.txt is missing; get it from https://github.com/prs-eth/Marigold (script/iid/dataset_preprocess, data_split/hypersim_iid)
    """  # noqa: E501

    def __init__(self, root: Path | str, split: _Split) -> None:
        """Read the list of a split, without reading an image.

        Args:
            root: the folder, with the lists of Marigold's repository: ``hypersim_train_filtered.txt``,
                ``hypersim_val.txt``, ``hypersim_test.txt``. Where one is missing, the list of that partition
                which the script writes is read: ``filename_list_train.txt`` and so on.
            split: "test" (5238 frames of 44 scenes); "val", which in the repository's list is 70 frames of
                the folder ``test``, and in the script's list the partition of validation, on which
                Marigold-IID-Lighting was trained too; or "train".

        Raises:
            InputError: there is no such split, or its list is missing or damaged, or names other files than
                frames of Hypersim.
        """
        check_choice("split", split, _Split)
        self._root = Path(root)
        listed, written = self._root / _LISTS[split], self._root / f"filename_list_{split}.txt"
        self._frames = read_frame_list(written if written.is_file() and not listed.is_file() else listed)
        self.ids = tuple(self._frames)

    def _read(self, number: int) -> dict[str, Any]:
        frame = self._frames[self.ids[number]]
        read = _read_released if (self._root / frame.scene).is_dir() else _read_prepared
        layers = read(self._root, frame)
        truth = hypersim_truth(layers["albedo"], layers["shading"], layers["residual"])
        return {
            "scene": frame.scene,
            "image": image_tensor(layers["image"], linear=True),
            **{key: to_tensor(array) for key, array in truth.items()},
            "mask": to_tensor(truth["reflectance_mask"] & truth["shading_mask"]),
        }


def read_frame_list(path: Path) -> dict[str, HypersimFrame]:
    """Read a list of frames.

    Args:
        path: text with five columns: image, albedo, shading, residual, and statistics, which are not read.

    Returns:
        Frames by id, ``<scene>/<camera>_fr<number>``, in order of the list.

    Raises:
        InputError: the list is missing or empty, has other columns or files of several frames in a line, or
            names a frame twice. Names in the list can never lead out of the folder.
    """
    frames: dict[str, HypersimFrame] = {}
    for number, line in enumerate(PREPARED.lines(path)):
        words = line.split()
        found = _FIRST.fullmatch(words[0])
        frame = HypersimFrame(*found.group("folder", "scene", "camera", "number")) if found else None
        if frame is None or words[1:] != [
            f"{frame.folder}/{kind}_{frame.name}.{suffix}" for kind, suffix in _COLUMNS.items()
        ]:
            columns = "test/ai_001_010/rgb_cam_00_fr0000.png and its albedo, shading, residual, shading_stats"
            raise wrong_line(path, number, line, f"the names of one frame, such as {columns}")
        key = f"{frame.scene}/{frame.name}"
        if key in frames:
            raise wrong_line(path, number, line, f"one line for `{key}`")
        frames[key] = frame
    PREPARED.some(frames, f"{path}: expected frames")
    return frames


def tone_map(color: Float64[ndarray, "height width 3"]) -> UInt8[ndarray, "height width 3"]:
    """Make the 8-bit image of a frame: a factor and the power 1/2.2, cut off to whole numbers.

    The factor takes the 90th percentile of the brightness 0.3 R + 0.59 G + 0.11 B to 0.8 of white. The
    script leaves pixels without an object out of the percentile; frames of its lists have none. NaN is made
    black and left out of the percentile, where the script would make the whole image black.

    Args:
        color: linear, any value.

    Example:
        >>> tone_map(np.full((1, 2, 3), 7.0))[0, 0]
        array([204, 204, 204], dtype=uint8)
    """
    linear = np.nan_to_num(color, nan=0.0, posinf=_BRIGHTEST)
    known = linear[~np.isnan(color).any(axis=-1)]
    encoded = np.maximum(tone_factor(known) * linear, 0) ** (1 / 2.2)
    return (encoded.clip(0, 1) * 255).astype(np.uint8)


def tone_factor(linear: Float64[ndarray, "*pixels 3"]) -> float:
    """Compute the factor of `tone_map`; 0 for dark pixels, and without pixels.

    Example:
        >>> round(tone_factor(np.full((2, 3), 0.5)) * 0.5, 6) == round(0.8**2.2, 6)
        True
    """
    brightness = 0.3 * linear[..., 0] + 0.59 * linear[..., 1] + 0.11 * linear[..., 2]
    high = np.percentile(brightness, 90) if brightness.size else 0.0
    return float(0.8**2.2 / high) if high >= _DARKEST else 0.0


def hypersim_truth(
    albedo: _Layer, shading: _Layer, residual: _Layer
) -> dict[str, Shaped[ndarray, "height width *channels"]]:
    """Scale shading and residual together, and find the pixels where each layer is known.

    Shading and residual are clipped to [0, c] and divided by c, the larger of their 98th percentiles
    (`cut_off`). So both have one unit, which differs from frame to frame, and values above c, infinities
    among them, become 1.

    A pixel of the shading or the residual is known where no channel is NaN, and nowhere if c is 0 or not
    finite. A pixel of the albedo is known where all channels are finite and not all are 0. Differences to the
    published code: there, NaN anywhere in shading or residual makes c, and so both layers, NaN; an infinite c
    makes finite values 0; and the masks have three channels.

    Args:
        albedo: linear.
        shading: linear, any value.
        residual: linear, any value.

    Returns:
        ``reflectance``, ``shading``, ``residual``: float32 (H W 3), linear, in [0, 1], 0 where not known; and
        the masks ``reflectance_mask``, ``shading_mask``, ``residual_mask``: bool (H W).

    Example:
        >>> gray = np.repeat(np.array([0.0, 2.0, 4.0, np.nan])[None, :, None], 3, axis=2)
        >>> truth = hypersim_truth(gray / 4, gray, 0 * gray)
        >>> truth["shading"][0, :, 0].round(3), truth["shading_mask"][0], truth["reflectance_mask"][0]
        (array([0. , 0.5, 1. , 0. ], dtype=float32), array([ True,  True,  True, False]), \
array([False,  True,  True, False]))
    """
    cut = cut_off(shading, residual)
    layers = {"reflectance": albedo, "shading": _scaled(shading, cut), "residual": _scaled(residual, cut)}
    masks = {f"{name}_mask": np.isfinite(layer).all(axis=-1) for name, layer in layers.items()}
    masks["reflectance_mask"] &= (albedo != 0).any(axis=-1)
    known = {
        name: np.where(masks[f"{name}_mask"][..., None], layer, 0).astype(np.float32)
        for name, layer in layers.items()
    }
    return {**known, **masks}


def cut_off(*layers: Float64[ndarray, "..."]) -> float:
    """Return the largest of the 98th percentiles of layers; 0 without values.

    A percentile is over all values of a layer, of all channels, except NaN. With n values in ascending order,
    it is at place 0.98 (n - 1) from 0, interpolated linearly. It may be infinite or NaN where values are
    infinite.

    Example:
        >>> cut_off(np.arange(101.0), np.array([0.0, 1.0, np.nan]))
        98.0
    """
    known = (layer[~np.isnan(layer)] for layer in layers)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        highs = [np.quantile(values, _HIGH) for values in known if values.size]
    return float(np.max(highs, initial=0))


def _scaled(layer: _Layer, cut: float) -> _Layer:
    return layer.clip(0, cut) / cut if 0 < cut < np.inf else np.full_like(layer, np.nan)


def _read_prepared(root: Path, frame: HypersimFrame) -> dict[str, ndarray]:
    """Read the png and the npy files that Marigold's script writes: albedo in [0, 1] or not finite."""
    folder = root / frame.folder
    paths = {kind: folder / f"{kind}_{frame.name}.npy" for kind in _LAYERS}
    arrays = {"image": read_rgb8(folder / f"rgb_{frame.name}.png", PREPARED)}
    arrays |= {kind: PREPARED.numbers(path, "floats", 3) for kind, path in paths.items()}
    _check_sizes(arrays, paths)
    known = arrays["albedo"][np.isfinite(arrays["albedo"])]
    if known.size and (known.min() < 0 or known.max() > 1):
        found = f"{known.min():g} to {known.max():g}"
        raise InputError(f"{paths['albedo']}: expected albedo from 0 to 1, got {found}")
    return arrays


def _read_released(root: Path, frame: HypersimFrame) -> dict[str, ndarray]:
    """Read the HDF5 files of the release, and prepare them as Marigold's script does."""
    folder = root / frame.scene / "images" / f"scene_{frame.camera}_final_hdf5"
    names = {"image": "color", **_LAYERS}
    paths = {kind: folder / f"frame.{frame.number}.{name}.hdf5" for kind, name in names.items()}
    arrays = {kind: _read_dataset(path) for kind, path in paths.items()}
    _check_sizes(arrays, paths)
    return arrays | {"image": tone_map(arrays["image"]), "albedo": arrays["albedo"].clip(0, 1)}


def _read_dataset(path: Path) -> Float64[ndarray, "..."]:
    array = read_table(RELEASED.require(path), "dataset")
    if array.dtype.kind != "f":
        raise InputError(f"{path}: expected floats, got {array.dtype}; get it again from {RELEASED}")
    return array.astype(np.float64)


def _check_sizes(arrays: dict[str, ndarray], paths: dict[str, Path]) -> None:
    """Check that all layers are colour images of one size."""
    for kind, array in arrays.items():
        if array.ndim != 3 or array.shape[2] != 3:
            raise InputError(f"{paths[kind]}: expected [height, width, 3], got {list(array.shape)}")
    same_size(arrays, str(paths["albedo"]))
