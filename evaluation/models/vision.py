"""Vision models of transformers, with their preprocessing."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.loaders.errors import DAMAGED, InputError, blame, blaming
from candlelight.loaders.hub.hub_cache import download_snapshot
from candlelight.loaders.verification.checksums import file_sha256, sums_text

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


CONFIG = "config.json"
_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json")
_PICKLED = ("pytorch_model.bin", "pytorch_model-*-of-*.bin", "pytorch_model.bin.index.json")
_OTHER_MODEL = "choose another model, or load it in Python: file.py:callable"


def load_vision_model(folder: Path, device: str = "cpu") -> nn.Module:
    """Load a vision model that transformers saved; code in the folder is never run.

    The module is the network of transformers itself, so ``named_modules()`` lists its layers with their names
    in transformers. A hook before the network resizes and scales images as ``preprocessor_config.json``
    specifies, in torch and with gradients. A hook after the network selects one tensor of its output:

    - classifiers (``architectures`` in the configuration): the logits [batch, classes];
    - encoders with a trained pooler: its output [batch, features];
    - other encoders: the first token, the class token, or the mean of the last maps [batch, features].

    Args:
        folder: folder with ``config.json``, ``preprocessor_config.json`` and weights; safetensors are
            preferred to pickled weights.
        device: torch device.

    Returns:
        The network in evaluation mode, float32; it takes sRGB images [batch, 3, height, width] in [0, 1].

    Raises:
        InputError: transformers is not installed; or the folder is not a vision model, lacks weights or is
            damaged.

    Example:
        >>> load_vision_model(Path("vit")).named_modules()  # doctest: +SKIP
    """
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: expected a folder of a transformers model, there is no {CONFIG} in it")
    transformers = _transformers(str(folder))
    prepare = read_preprocessing(folder / PREPROCESSOR)
    options = {"trust_remote_code": False, "local_files_only": True}
    with _reading(folder):
        config = transformers.AutoConfig.from_pretrained(folder, **options)
        classifies = any("ForImageClassification" in name for name in config.architectures or ())
        kind = transformers.AutoModelForImageClassification if classifies else transformers.AutoModel
        network, loading = kind.from_pretrained(
            folder, config=config, dtype=torch.float32, weights_only=True, output_loading_info=True, **options
        )
    lacking = sorted(loading["missing_keys"])
    has_pooler = not any("pooler." in name for name in lacking)
    _check(network, [name for name in lacking if "pooler." not in name], folder)
    network.config.return_dict = True
    network.register_forward_pre_hook(lambda _, inputs: (prepare(inputs[0]), *inputs[1:]))
    network.register_forward_hook(_one_tensor(has_pooler))
    return network.to(device).eval()


def download_vision_model(name: str) -> tuple[Path, str]:
    """Download the configuration and weights of a Hugging Face model, unless they are in the local cache.

    Args:
        name: OWNER/NAME.

    Returns:
        The folder, and ``name@commit``.

    Raises:
        InputError: transformers is not installed, or the model does not exist or cannot be downloaded.
    """
    _transformers(f"hf:{name}")
    # Loaded from the folder: for a named model, transformers asks a public service to convert the weights.
    for weights in (_WEIGHTS, _PICKLED):
        folder = download_snapshot(f"hf:{name}", name, [CONFIG, PREPROCESSOR, *weights])
        if any(_there(folder, weights)):
            break
    return folder, f"{name}@{folder.name}"


def folder_sha256(folder: Path) -> str:
    """Hash the names and contents of a model's files: configuration, preprocessing and weights."""
    used = _there(folder, _WEIGHTS) or _there(folder, _PICKLED)
    files = [*_there(folder, (CONFIG, PREPROCESSOR)), *used]
    return sha256(sums_text({path.name: file_sha256(path) for path in files}).encode()).hexdigest()


def token_maps(tokens: Float[Tensor, "batch tokens features"]) -> Float[Tensor, "batch features side side"]:
    """Reshape the patch tokens of a vision transformer to square maps; other tokens are dropped.

    Args:
        tokens: output of a layer for square input images: first the class, distillation and register tokens,
            then the patch tokens, row by row.

    Raises:
        InputError: more than 8 tokens would be dropped, so the patches do not form a square.

    Example:
        >>> tokens = torch.arange(5.0).reshape(1, 5, 1)  # a class token and 2 x 2 patches
        >>> token_maps(tokens)[0, 0].tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    side = math.isqrt(tokens.shape[1])
    first = tokens.shape[1] - side**2
    if side == 0 or first > 8:
        raise InputError(f"expected tokens of square images, got {tokens.shape[1]}, which make no square")
    return tokens[:, first:].transpose(1, 2).reshape(len(tokens), -1, side, side)


def _transformers(source: str) -> Any:
    try:
        return import_module("transformers")
    except ImportError as error:
        raise InputError(
            f'{source}: vision models need transformers; `pip install "candlelight[transformers]"`'
        ) from error


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (*DAMAGED, SafetensorError, UnpicklingError) as error:
        raise blame(f"{folder}: cannot be read as a transformers model", error, _OTHER_MODEL) from error


def _check(network: Any, lacking: list[str], folder: Path) -> None:
    if network.main_input_name != "pixel_values":
        raise InputError(
            f"{folder}: expected a model of images, {type(network).__name__} takes "
            f"`{network.main_input_name}`; {_OTHER_MODEL}"
        )
    if lacking:  # transformers fills them with random numbers
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise InputError(
            f"{folder}: its weights lack `{lacking[0]}`{more}; save the whole model, or {_OTHER_MODEL}"
        )


def _one_tensor(has_pooler: bool) -> Callable[[nn.Module, Any, Any], Tensor]:
    """Make a forward hook that selects one tensor of a transformers network's output."""

    def pick(network: nn.Module, _inputs: Any, output: Any) -> Tensor:
        if output.get("logits") is not None:
            return output["logits"]
        if has_pooler and output.get("pooler_output") is not None:
            return output["pooler_output"].flatten(1)
        last = output.get("last_hidden_state")
        if last is None or last.ndim not in (3, 4):
            raise InputError(f"{type(network).__name__} gives no logits, tokens or maps; {_OTHER_MODEL}")
        return last[:, 0] if last.ndim == 3 else last.mean((2, 3))

    return pick


def _there(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in folder.glob(pattern))
