"""Load vision models of transformers as torch modules from sRGB images to logits or features."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.models.preprocessing import PREPROCESSOR, read_preprocessing
from candlelight.loaders.errors import DAMAGED, InputError, blame
from candlelight.loaders.hub.hub_cache import download_snapshot
from candlelight.loaders.verification.checksums import file_sha256, sums_text

CONFIG = "config.json"
_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json")
_PICKLED = ("pytorch_model.bin", "pytorch_model-*-of-*.bin", "pytorch_model.bin.index.json")
_CURE = "choose another model, or load it in Python: file.py:callable"


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
        raise blame(f"{folder}: cannot be read as a transformers model", error, _CURE) from error


def _check(network: Any, lacking: list[str], folder: Path) -> None:
    if network.main_input_name != "pixel_values":
        raise InputError(
            f"{folder}: expected a model of images, {type(network).__name__} takes "
            f"`{network.main_input_name}`; {_CURE}"
        )
    if lacking:  # transformers fills them with random numbers
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise InputError(f"{folder}: its weights lack `{lacking[0]}`{more}; save the whole model, or {_CURE}")


def _one_tensor(has_pooler: bool) -> Callable[[nn.Module, Any, Any], Tensor]:
    """Make a forward hook that selects one tensor of a transformers network's output."""

    def pick(network: nn.Module, _inputs: Any, output: Any) -> Tensor:
        if output.get("logits") is not None:
            return output["logits"]
        if has_pooler and output.get("pooler_output") is not None:
            return output["pooler_output"].flatten(1)
        last = output.get("last_hidden_state")
        if last is None or last.ndim not in (3, 4):
            raise InputError(f"{type(network).__name__} gives no logits, tokens or maps; {_CURE}")
        return last[:, 0] if last.ndim == 3 else last.mean((2, 3))

    return pick


def _there(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in folder.glob(pattern))
