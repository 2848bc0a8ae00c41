"""Activations and loss gradients of the two branches of an intrinsic image model, read from frames."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from evaluation.concepts.activations import (
    layer_activations,
    layer_gradients,
    output_gradient,
    pixel_loss,
)
from evaluation.hidden import evaluating
from evaluation.models.ground_truth import GroundTruth, decode_image, ground_truth
from evaluation.models.protocols import IntrinsicModel
from loaders.errors import InputError
from loaders.samples import Frames


@runtime_checkable
class Images(Protocol):
    """Rows of a dict with ``image`` (uint8 sRGB, 3 height width): frames, or a plain list of dicts."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Any: ...


class Branches(NamedTuple):
    """One flattened row per image for each branch, and the height and width of the images."""

    reflectance: Float[Tensor, "images r_dim"]
    shading: Float[Tensor, "images s_dim"]
    size: tuple[int, int]


@dataclass(frozen=True)
class Probe:
    """Where and how a model is read.

    Attributes:
        model: image to (reflectance, shading).
        layers: hidden layer of the reflectance and of the shading branch; None for the outputs.
        size: height and width that images are resized to; None leaves them.
        align_scale: see `pixel_loss`.
        batch_size: images per pass.
        device: where images go; the model has to be there.
    """

    model: IntrinsicModel
    layers: tuple[str, str] | None = None
    size: tuple[int, int] | None = None
    align_scale: bool = False
    batch_size: int = 16
    device: str = "cpu"

    def network(self) -> nn.Module:
        """The model as a network with hidden layers.

        Raises:
            InputError: it is none.
        """
        if not isinstance(self.model, nn.Module):
            raise InputError(
                f"hidden layers need a torch.nn.Module, got {type(self.model).__name__}; use layer='output'"
            )
        return self.model


def activations(probe: Probe, images: Images, rows: Sequence[int]) -> Branches:
    """Activations of both branches for some rows, float32.

    Args:
        probe: the model and where to read it.
        images: rows with an `image`.
        rows: which of them, at least one.

    Raises:
        InputError: no image, images of several sizes, or a layer that cannot be read.
    """
    parts = []
    for start in range(0, len(rows), probe.batch_size):
        batch = _read_images([images[int(row)] for row in rows[start : start + probe.batch_size]], probe)
        if probe.layers is None:
            r, s = _run(probe, batch)
        else:
            found = layer_activations(probe.network(), probe.layers, batch, probe.batch_size)
            r, s = (found[name] for name in probe.layers)
        parts.append(Branches(r.flatten(1).float(), s.flatten(1).float(), _size(batch)))
    return _joined(parts)


def gradients(probe: Probe, frames: Frames) -> Branches:
    """Gradients of the pixel loss of both branches at all rows, float32.

    The loss of the reflectance branch is measured against `albedo`, that of the shading branch against
    `shading` times the set's exposure, both where the albedo is above 0.

    Args:
        probe: the model and where to read it.
        frames: rows with `image`, `albedo` and `shading`.

    Raises:
        InputError: no frame, a missing layer of ground truth, or a hidden layer that does not lead to its
            branch's loss.
    """
    parts = []
    for start in range(0, len(frames), probe.batch_size):
        rows = range(start, min(start + probe.batch_size, len(frames)))
        truth = ground_truth([frames[row] for row in rows], frames.set_info.exposure)
        parts.append(_gradients(probe, _prepare(truth, probe)))
    return _joined(parts)


def _joined(parts: Sequence[Branches]) -> Branches:
    """All batches as one."""
    sizes = sorted({part.size for part in parts})
    if len(sizes) > 1:
        raise InputError(f"images have several sizes, {sizes}; give one `size` to resize them to")
    if not sizes:
        raise InputError("no images to read: negatives and test frames need at least one each")
    return Branches(
        torch.cat([part.reflectance for part in parts]), torch.cat([part.shading for part in parts]), sizes[0]
    )


def _size(images: Tensor) -> tuple[int, int]:
    return images.shape[-2], images.shape[-1]


def _gradients(probe: Probe, truth: GroundTruth) -> Branches:
    """Gradients of both branches for one batch."""
    targets = (truth.albedo, truth.shading)
    if probe.layers is None:
        r, s = (
            output_gradient(prediction.float(), target, truth.mask, probe.align_scale)
            for prediction, target in zip(_run(probe, truth.image), targets, strict=True)
        )
        return Branches(r, s, _size(truth.image))

    def gradient(branch: int, layer: str) -> Tensor:
        def loss(output: tuple[Tensor, Tensor], _rows: slice) -> Tensor:
            return pixel_loss(output[branch], targets[branch], truth.mask, probe.align_scale)

        return layer_gradients(probe.network(), layer, truth.image, loss, len(truth.image)).float()

    return Branches(gradient(0, probe.layers[0]), gradient(1, probe.layers[1]), _size(truth.image))


def _run(probe: Probe, images: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs of the model, without gradients."""
    with evaluating(probe.model), torch.no_grad():
        return probe.model(images)


def _read_images(samples: Sequence[dict[str, Any]], probe: Probe) -> Float[Tensor, "batch 3 height width"]:
    """Decode and resize each image, then stack: images of several sizes are welcome if ``size`` is given."""
    images = [_resize(decode_image(sample["image"])[None], probe.size) for sample in samples]
    sizes = {_size(image) for image in images}
    if len(sizes) > 1:
        raise InputError(f"images have several sizes, {sorted(sizes)}; give one `size` to resize them to")
    return torch.cat(images).to(probe.device)


def _prepare(truth: GroundTruth, probe: Probe) -> GroundTruth:
    """Resize the ground truth; a pixel into which any background was mixed has none any more."""
    covered = _resize(truth.mask[:, None].float(), probe.size)[:, 0]
    resized = replace(
        truth,
        image=_resize(truth.image, probe.size).to(probe.device),
        albedo=_resize(truth.albedo, probe.size).to(probe.device),
        shading=_resize(truth.shading, probe.size).to(probe.device),
        mask=(covered > 0.999).to(probe.device),
    )
    if not bool(resized.mask.flatten(1).any(1).all()):
        raise InputError(
            "a test frame has no pixel with an albedo above 0; leave it out, or use a larger `size`"
        )
    return resized


def _resize(images: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Resample linear images with an antialiasing filter."""
    if size is None or _size(images) == size:
        return images
    return functional.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)
