"""Activations of hidden layers of any network for a view of images, and gradients of a target by them."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.activations import batch_gradients
from candlelight.evaluation.concepts.probe import (
    Probe,
    check_finite_rows,
    common_size,
    hidden_rows,
    resize_linear,
)
from candlelight.evaluation.concepts.rows.row_source import RowSource
from candlelight.evaluation.concepts.rows.stored_rows import StoredRows
from candlelight.evaluation.concepts.targets import Target
from candlelight.evaluation.running.batches import Batch, Fingerprint, check_srgb_image, read_batches
from candlelight.evaluation.running.model_outputs import model_errors
from candlelight.evaluation.running.named_models import decode, to_device
from candlelight.evaluation.running.out_of_memory import run_in_halves
from candlelight.loaders.views import Images


class LayerRows(NamedTuple):
    """One flattened row for each image, for each layer; and the height and width of the images."""

    rows: dict[str, Float[Tensor, "images _"] | RowSource]
    size: tuple[int, int]


def read_activations(
    probe: Probe, layers: Sequence[str], images: Images, fingerprint: Fingerprint
) -> LayerRows:
    """Compute the outputs of hidden layers for all images, float32, on the device of the probe.

    One pass reads all layers, and stops after the last of them. `read_gradients` refuses layers that run
    twice.

    Args:
        probe: the network, and how it is read.
        layers: names of the layers, at least one.
        images: a view of images, sRGB-encoded.
        fingerprint: the images are added to it.

    Raises:
        InputError: there is no image, images have several sizes, a layer cannot be read, or an activation is
            not finite.
    """
    whole: dict[str, Tensor | StoredRows] = {}
    size = None
    for batch in read_batches(images, probe.batch_size, _pixels, fingerprint, images.identity.name):
        linear = _prepared(probe, batch)
        size = common_size([size, (linear.shape[2], linear.shape[3])])
        parts = hidden_rows(probe, layers, linear)
        for layer, part in zip(layers, parts, strict=True):
            values = part.float().to(probe.device)
            check_finite_rows(f"model `{probe.named.identity.name}`, layer `{layer}`", values, batch.ids)
            whole[layer] = probe.storage.fill(whole.get(layer), values, batch.rows[0], len(images.ids))
    assert size is not None  # `read_batches` refuses an empty view
    return LayerRows({**whole}, size)


def read_gradients(
    probe: Probe, layers: Sequence[str], images: Images, target: Target, fingerprint: Fingerprint
) -> LayerRows:
    """Compute the gradients of a target by the outputs of hidden layers for all images, float32.

    Each layer needs a pass of its own.

    Args:
        probe: as in `read_activations`.
        layers: as there.
        images: as there.
        target: the scalar function of the output.
        fingerprint: as there.

    Raises:
        InputError: as `read_activations`; or the target does not fit the output, does not depend on a layer,
            or its value or gradient is not finite.
    """
    whole: dict[str, Tensor | StoredRows] = {}
    size = None
    for batch in read_batches(images, probe.batch_size, _pixels, fingerprint, "gradients"):
        linear = _prepared(probe, batch)
        size = common_size([size, (linear.shape[2], linear.shape[3])])
        for layer in layers:
            part = _gradients(probe, layer, linear, target, batch.ids)
            whole[layer] = probe.storage.fill(whole.get(layer), part, batch.rows[0], len(images.ids))
    assert size is not None
    return LayerRows({**whole}, size)


def _pixels(image: Tensor) -> Tensor:
    return image


def _prepared(probe: Probe, batch: Batch[Tensor]) -> Tensor:
    """Decode the images of a batch to scene-linear values, and resize them."""
    linear = decode(batch.stack(check_srgb_image))
    return resize_linear(linear, probe.size)


def _gradients(probe: Probe, layer: str, linear: Tensor, target: Target, ids: Sequence[str]) -> Tensor:
    """Compute the gradients of one batch; halve the batch when memory runs out."""
    name = probe.named.identity.name

    def run(rows: slice) -> tuple[Tensor]:
        image = to_device(probe.named, linear[rows], probe.device)

        def scalar(output: object, _rows: slice) -> Tensor:
            values = target.values(output, len(image))
            check_finite_rows(f"target `{target.name}` of model `{name}`", values[:, None], ids[rows])
            return values

        with model_errors(name, image):
            every, alone = slice(0, len(image)), probe.alone(layer, image)
            found = batch_gradients(probe.network(), layer, image, scalar, every, alone).float()
        check_finite_rows(f"gradient of model `{name}`, layer `{layer}`", found, ids[rows])
        return (found,)

    return run_in_halves(run, len(linear))[0]
