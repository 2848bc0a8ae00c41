"""Image processors of transformers, read from their JSON and implemented in torch with gradients.

The processors of transformers themselves work on 8-bit pixels, with torchvision or Pillow, without gradients.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from candlelight.loaders.errors import InputError, blaming

PREPROCESSOR = "preprocessor_config.json"
Size = tuple[int, int] | int
# Processors that only resize, crop, rescale and normalise. True: a single number as size means a square;
# False: it means the shorter edge.
_SQUARE = {
    **dict.fromkeys(("Beit", "Blip", "DINOv3ViT", "DeiT", "Pvt", "Siglip", "ViT"), True),
    **dict.fromkeys(("Bit", "CLIP", "ChineseCLIP", "ConvNext", "MobileNetV1", "MobileNetV2"), False),
}
_SUFFIXES = ("Fast", "Pil", "ImageProcessor", "FeatureExtractor")
_MODES: dict[Any, Literal["nearest-exact", "bilinear", "bicubic"]] = {
    0: "nearest-exact",
    2: "bilinear",
    3: "bicubic",
}
_CURE = "write the preprocessing in Python: file.py:callable"


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop, rescale and normalise images.

    Attributes:
        size: height and width; a single number is the shorter edge, with the aspect ratio kept; None does not
            resize.
        crop: height and width of the centre crop; None does not crop.
        mode: interpolation, with antialiasing.
        scale: factor for values in [0, 1], applied before the mean is subtracted.
        mean: mean of each channel.
        std: standard deviation of each channel.

    Example:
        >>> import torch
        >>> prepare = Preprocessing(4, (4, 4), "bilinear", 1.0, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        >>> prepare(torch.ones(1, 3, 8, 16)).shape, prepare(torch.ones(1, 3, 8, 16)).max()
        (torch.Size([1, 3, 4, 4]), tensor(1.))
    """

    size: Size | None
    crop: tuple[int, int] | None
    mode: Literal["nearest-exact", "bilinear", "bicubic"]
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch 3 rows columns"]:
        """Prepare sRGB images in [0, 1] for the network.

        Raises:
            InputError: the resized images are smaller than the crop.
        """
        images = _resized(images, self.size, self.mode)
        if self.crop is not None:
            images = _cropped(images, self.crop)
        mean, std = (images.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return (images * self.scale - mean) / std


def read_preprocessing(path: Path) -> Preprocessing:
    """Read the steps of an image processor from the JSON file that transformers saved.

    Args:
        path: ``preprocessor_config.json``.

    Raises:
        InputError: the file is missing or damaged; the processor has steps other than resizing, centre
            cropping, rescaling and normalising; or a number for these steps is missing.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing: expected a vision model with its preprocessing; {_CURE}")
    with blaming(f"{path}: cannot be read as JSON", "download it again"):
        config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(config).__name__}")
    kind = _kind(config, path)
    with blaming(f"{path}: its numbers cannot be used", _CURE):
        return _preprocessing(config, kind)


def _kind(config: dict[str, Any], path: Path) -> str:
    full = str(config.get("image_processor_type") or config.get("feature_extractor_type"))
    kind = full
    for suffix in _SUFFIXES:
        kind = kind.removesuffix(suffix)
    if kind not in _SQUARE:
        raise InputError(
            f"{path}: expected one of the image processors {', '.join(_SQUARE)}, got {full}; {_CURE}"
        )
    return kind


def _preprocessing(config: dict[str, Any], kind: str) -> Preprocessing:
    size = crop = None
    mode = _MODES[2]
    if config.get("do_resize", True):
        size = _size(_needed(config, "size"), _SQUARE[kind])
        if _needed(config, "resample") not in _MODES:
            raise ValueError(f"expected `resample` to be one of {list(_MODES)}, got {config['resample']}")
        mode = _MODES[config["resample"]]
    if config.get("do_center_crop", config.get("crop_size") is not None):
        crop = _square(_size(_needed(config, "crop_size"), True))
    if kind == "ConvNext" and isinstance(size, int):
        # As in training: below 384 pixels the shorter edge is resized to more than the crop.
        square, share = (size, size), config.get("crop_pct", 224 / 256)
        size, crop = (square, None) if size >= 384 else (int(size / share), square)
    scale = 255 * (config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 1)
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    if config.get("do_normalize", True):
        mean, std = _three(_needed(config, "image_mean")), _three(_needed(config, "image_std"))
    return Preprocessing(size, crop, mode, float(scale), mean, std)


def _needed(config: dict[str, Any], name: str) -> Any:
    if config.get(name) is None:
        raise ValueError(f"`{name}` is missing")
    return config[name]


def _size(size: Any, square: bool) -> Size:
    if isinstance(size, int):
        return (size, size) if square else size
    if isinstance(size, list):
        return (int(size[0]), int(size[1]))
    if set(size) == {"shortest_edge"}:
        return int(size["shortest_edge"])
    if set(size) == {"height", "width"}:
        return (int(size["height"]), int(size["width"]))
    raise ValueError(f"expected a size of height and width, or of the shortest edge, got {size}")


def _square(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _three(values: Any) -> tuple[float, ...]:
    numbers = tuple(map(float, values)) if isinstance(values, list) else (float(values),) * 3
    if len(numbers) != 3:
        raise ValueError(f"expected three channels, got {len(numbers)}")
    return numbers


def _resized(
    images: Tensor, size: Size | None, mode: Literal["nearest-exact", "bilinear", "bicubic"]
) -> Tensor:
    height, width = images.shape[-2:]
    if size is None:
        return images
    if isinstance(size, int):
        short = min(height, width)
        size = (int(size * height / short), int(size * width / short))
    if size == (height, width):
        return images
    # One axis after the other, each clamped like 8-bit pixels.
    for step in ((height, size[1]), size):
        images = functional.interpolate(images, step, mode=mode, antialias=mode != "nearest-exact")
        images = images.clamp(0, 1)
    return images


def _cropped(images: Tensor, crop: tuple[int, int]) -> Tensor:
    height, width = images.shape[-2:]
    if crop[0] > height or crop[1] > width:
        raise InputError(
            f"expected at least {crop[0]} x {crop[1]} pixels to crop, got {height} x {width}; {_CURE}"
        )
    top, left = (height - crop[0]) // 2, (width - crop[1]) // 2
    return images[..., top : top + crop[0], left : left + crop[1]]
