"""Read the files of one frame of Hypersim, as Marigold prepares them or as Hypersim is released."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.file_rows import read_table
from candlelight.loaders.public.image_formats import read_rgb8, same_size
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.npy_numbers import read_numbers
from candlelight.loaders.public.text_lists import each_line, wrong_line

PREPARED = "https://github.com/prs-eth/Marigold (script/iid/dataset_preprocess, data_split/hypersim_iid)"
RELEASED = "https://github.com/apple/ml-hypersim (dataset_download_images.py)"
_FIRST = re.compile(
    r"(?P<folder>(train|val|test)/(?P<scene>ai_[0-9]{3}_[0-9]{3}))/"
    r"rgb_(?P<camera>cam_[0-9]{2})_fr(?P<number>[0-9]{4})\.png"
)
# The columns of a list after the first.
_COLUMNS = {"albedo": "npy", "shading": "npy", "residual": "npy", "shading_stats": "json"}
_LAYERS = {"albedo": "diffuse_reflectance", "shading": "diffuse_illumination", "residual": "residual"}
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


class HypersimLayers(NamedTuple):
    """Layers of a frame.

    Attributes:
        image: the tone-mapped image, power 1/2.2.
        albedo: linear, in [0, 1] or not finite.
        shading: linear, any value.
        residual: linear, any value.
    """

    image: UInt8[ndarray, "height width 3"]
    albedo: Float64[ndarray, "height width 3"]
    shading: Float64[ndarray, "height width 3"]
    residual: Float64[ndarray, "height width 3"]


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
    for number, line in enumerate(each_line(path, PREPARED)):
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
    if not frames:
        raise InputError(f"{path}: expected frames, got none; get it from {PREPARED}")
    return frames


def read_prepared(root: Path, frame: HypersimFrame) -> HypersimLayers:
    """Read the png and the npy files that Marigold's script writes.

    Args:
        root: folder with ``test/<scene>/rgb_<camera>_fr<number>.png`` and so on.
        frame: the frame.

    Raises:
        InputError: a file is missing or damaged, has another shape, dtype or size, or holds albedo outside
            [0, 1].
    """
    folder = root / frame.folder
    image = read_rgb8(folder / f"rgb_{frame.name}.png", PREPARED)
    paths = {kind: folder / f"{kind}_{frame.name}.npy" for kind in _LAYERS}
    arrays = {kind: read_numbers(path, PREPARED, "floats", 3) for kind, path in paths.items()}
    layers = _checked(image, arrays, paths)
    known = layers.albedo[np.isfinite(layers.albedo)]
    if known.size and (known.min() < 0 or known.max() > 1):
        found = f"{known.min():g} to {known.max():g}"
        raise InputError(f"{paths['albedo']}: expected albedo from 0 to 1, got {found}")
    return layers


def read_released(root: Path, frame: HypersimFrame) -> HypersimLayers:
    """Read the HDF5 files of the release, and prepare them as Marigold's script does.

    Args:
        root: folder with ``<scene>/images/scene_<camera>_final_hdf5/frame.<number>.color.hdf5`` and so on.
        frame: the frame.

    Raises:
        InputError: a file is missing or damaged, or has another shape, dtype or size.
    """
    folder = root / frame.scene / "images" / f"scene_{frame.camera}_final_hdf5"
    names = {"image": "color", **_LAYERS}
    paths = {kind: folder / f"frame.{frame.number}.{name}.hdf5" for kind, name in names.items()}
    arrays = {kind: _read_dataset(path) for kind, path in paths.items()}
    layers = _checked(arrays.pop("image"), arrays, paths)
    return layers._replace(image=tone_map(layers.image), albedo=layers.albedo.clip(0, 1))


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
    nan = np.isnan(color).any(axis=-1)
    linear = np.nan_to_num(color, nan=0.0, posinf=_BRIGHTEST)
    brightness = 0.3 * linear[..., 0] + 0.59 * linear[..., 1] + 0.11 * linear[..., 2]
    high = 0.0 if nan.all() else np.percentile(brightness[~nan], 90)
    factor = 0.8**2.2 / high if high >= _DARKEST else 0.0
    encoded = np.maximum(factor * linear, 0) ** (1 / 2.2)
    return (encoded.clip(0, 1) * 255).astype(np.uint8)


def _read_dataset(path: Path) -> Float64[ndarray, "..."]:
    array = read_table(require_path(path, RELEASED), "dataset")
    if array.dtype.kind != "f":
        raise InputError(f"{path}: expected floats, got {array.dtype}; get it again from {RELEASED}")
    return array.astype(np.float64)


def _checked(image: ndarray, arrays: dict[str, ndarray], paths: dict[str, Path]) -> HypersimLayers:
    """Check that all layers are colour images of one size."""
    for kind, array in {"image": image, **arrays}.items():
        if array.ndim != 3 or array.shape[2] != 3:
            raise InputError(f"{paths[kind]}: expected [height, width, 3], got {list(array.shape)}")
    same_size({"image": image, **arrays}, str(paths["albedo"]))
    return HypersimLayers(image, **arrays)
