"""Marigold-IID, a diffusion model, through the class of diffusers.

B. Ke et al.: Marigold: affordable adaptation of diffusion-based image generators for image analysis, 2025
(arXiv 2505.09358). The adapter was run with tiny random weights in the layout of diffusers, never with the
published weights.
"""

import json
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.models.published_methods import AdaptedNetwork, decode_srgb
from candlelight.loaders.errors import DAMAGED, InputError, blame, blaming, nearest_file
from candlelight.loaders.hub.hub_cache import download_snapshot

_INDEX = "model_index.json"
_PIPELINE = "MarigoldIntrinsicsPipeline"
_FILES = (
    _INDEX,
    *("*/*.json", "*/*.txt"),
    *("*/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"),
)
_CURE = "download it again, or give another model"
# Albedo below this explains nothing: a quotient by it would be noise.
_DARKEST = 1e-3


class MarigoldIID(AdaptedNetwork):
    """Marigold-IID as a model of scene-linear reflectance and shading.

    The lighting model predicts albedo A, shading S and a residual: ``image = s (A S + residual)``, with one
    scale s per image; the residual is left out here. The appearance model predicts no shading: the image
    divided by the albedo takes its place. Steps and resolution are those of the model's configuration,
    without an ensemble. Each image starts from the same noise, so that its result does not depend on others.

    The pipeline has no gradients, and its layers run several times for one image: neither gradients nor
    activations of hidden layers can be read.

    Args:
        pipeline: of diffusers.
        files: that were read.
        source: commit of a downloaded model, or None.
    """

    def __init__(self, pipeline: Any, files: dict[str, Path], source: str | None) -> None:
        super().__init__(f"{source or 'Marigold-IID'} by diffusers {version('diffusers')}", files)
        self.pipeline = pipeline
        pipeline.set_progress_bar_config(disable=True)
        self.unet, self.vae, self.text_encoder = pipeline.unet, pipeline.vae, pipeline.text_encoder

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance in [0, 1] and shading; scene-linear.
        """
        predicted = torch.stack([self._predict(one) for one in image])
        parts = {
            name: self._linear(name, predicted[:, place])
            for place, name in enumerate(target_names(self.pipeline))
        }
        reflectance = parts["albedo"]
        if "shading" in parts:
            return reflectance, parts["shading"]
        return reflectance, decode_srgb(image) / reflectance.clamp(min=_DARKEST)

    def _predict(self, image: Tensor) -> Tensor:
        """Predict all targets of one image [targets, 3, height, width]."""
        # Drawn on the CPU: the same noise on every device.
        noise = torch.Generator().manual_seed(0)
        return self.pipeline(image[None], generator=noise, output_type="pt").prediction

    def _linear(self, name: str, values: Tensor) -> Tensor:
        space = self.pipeline.target_properties[name].get("prediction_space", "srgb")
        return decode_srgb(values) if space == "srgb" else values


def load_marigold(folder: str | Path, device: str = "cpu", source: str | None = None) -> MarigoldIID:
    """Load Marigold-IID (appearance or lighting) from a folder that diffusers saved.

    Never run with the published weights.

    Args:
        folder: with ``model_index.json``, ``unet``, ``vae``, ``text_encoder``, ``tokenizer`` and
            ``scheduler``; weights are safetensors, without a variant such as ``fp16`` in their name.
        device: torch device; computation is in float32.
        source: commit of a downloaded model.

    Returns:
        The networks in evaluation mode.

    Raises:
        InputError: diffusers is not installed; or the folder is not a Marigold model of albedo, or damaged.

    Example:
        >>> load_marigold("marigold-iid-lighting-v1-1")  # doctest: +SKIP
    """
    folder = Path(folder)
    if not (folder / _INDEX).is_file():
        near = nearest_file(folder) if not folder.exists() else ""
        raise InputError(f"{folder}: expected a folder of diffusers, there is no {_INDEX} in it{near}")
    diffusers = _diffusers(str(folder))
    from safetensors import SafetensorError

    with blaming(f"{folder / _INDEX}: cannot be read as JSON", _CURE):
        kind = dict(json.loads((folder / _INDEX).read_text(encoding="utf-8"))).get("_class_name")
    if kind != _PIPELINE:
        raise InputError(f"{folder}: expected a model of {_PIPELINE}, got {kind}; {_CURE}")
    try:
        # Loading does not need accelerate, whose lack diffusers would report in several lines.
        options = {"local_files_only": True, "use_safetensors": True, "low_cpu_mem_usage": False}
        pipeline = diffusers.MarigoldIntrinsicsPipeline.from_pretrained(
            str(folder), dtype=torch.float32, **options
        )
    except (*DAMAGED, SafetensorError, ImportError) as error:
        raise blame(f"{folder}: cannot be read as a Marigold model", error, _CURE) from error
    if "albedo" not in target_names(pipeline):
        names = ", ".join(target_names(pipeline)) or "nothing"
        raise InputError(f"{folder}: expected a model that predicts `albedo`, it predicts {names}; {_CURE}")
    used = {str(path.relative_to(folder)): path for pattern in _FILES for path in folder.glob(pattern)}
    return MarigoldIID(pipeline, used, source).to(device).eval()


def download_marigold(name: str) -> tuple[Path, str]:
    """Download a Marigold model from the Hugging Face Hub, unless it is in the local cache.

    Args:
        name: OWNER/NAME.

    Returns:
        The folder, and ``name@commit``.

    Raises:
        InputError: diffusers is not installed, or the model does not exist or cannot be downloaded.
    """
    _diffusers(f"marigold:{name}")
    folder = download_snapshot(f"marigold:{name}: there is no such folder", name, list(_FILES))
    return folder, f"{name}@{folder.name}"


def target_names(pipeline: Any) -> list[str]:
    """List the targets that a pipeline predicts, in their order."""
    return list((pipeline.target_properties or {}).get("target_names", ()))


def _diffusers(source: str) -> Any:
    try:
        return import_module("diffusers")
    except ImportError as error:
        raise InputError(
            f'{source}: Marigold needs diffusers; `pip install "candlelight[diffusers]"`'
        ) from error
