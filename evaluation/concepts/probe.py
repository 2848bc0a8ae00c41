"""Rows of activations and gradients of images, read from a model on its device."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.concepts.activations import batch_gradients, flatten_rows
from candlelight.evaluation.concepts.rows import DEFAULT_STORAGE, RowSource, RowStorage, StoredRows
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Batch, read_batches, run_in_halves
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.hidden_layers import LayerOutput, layer_outputs, record_layers
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.named_models import to_device
from candlelight.evaluation.views import View
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode
from candlelight.loaders.errors import InputError, argument


@dataclass(frozen=True)
class Probe:
    """A model, and the image size and device with which its activations are read.

    Attributes:
        named: the model, or predictions of another program.
        size: height and width to which images are resized; None does not resize.
        batch_size: images per pass.
        device: torch device of the model.
        storage: limit of the rows of one layer in memory; larger ones are kept in a temporary file.
    """

    named: NamedModel
    size: tuple[int, int] | None = None
    batch_size: int = 16
    device: str = "cpu"
    storage: RowStorage = DEFAULT_STORAGE
    _outputs: dict[tuple[str, tuple[int, ...]], LayerOutput] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.named.identity.name

    def network(self) -> nn.Module:
        """Return the model as a network.

        Raises:
            InputError: the model is not a `torch.nn.Module`, so it has no hidden layers.
        """
        if not isinstance(self.named.model, nn.Module):
            raise InputError(
                f"hidden layers need a torch.nn.Module, got {type(self.named.model).__name__}; omit the "
                "layer to read the outputs"
            )
        return self.named.model

    def alone(self, layer: str, image: Float[Tensor, "batch 3 height width"]) -> tuple[int, ...]:
        """Return the shape of a layer's output for one image, the first of a batch; the network runs once."""
        key = layer, tuple(image.shape[1:])
        if key not in self._outputs:
            self._outputs[key] = layer_outputs(self.network(), [layer], image[:1])[layer]
        return self._outputs[key].alone

    def notes(self) -> list[str]:
        """Word a note on each layer that was read and gives several values."""
        several = dict.fromkeys(layer for (layer, _), output in self._outputs.items() if output.several)
        return [f"layer `{layer}` gives several values; its first tensor is taken" for layer in several]


class LayerRows(NamedTuple):
    """One flattened row for each image, by layer, on the device; and the height and width of the images."""

    rows: dict[str, Float[Tensor, "images _"] | RowSource]
    size: tuple[int, int]


_Read = Callable[[Batch[Any]], tuple[Float[Tensor, "batch 3 height width"], Mapping[str, Tensor]]]


def probe_rows(
    probe: Probe, view: View[Any], read: _Read, image: Callable[[Any], Tensor] = check_srgb_image
) -> LayerRows:
    """Compute rows of all images of a view, float32, batch by batch.

    Args:
        probe: the model, and how it is read.
        view: the images.
        read: maps a batch to its images as the model sees them, and to rows by layer, on the device.
        image: returns the image of an item.

    Raises:
        InputError: there is no row, images have several sizes, see ``read``, or the temporary file cannot be
            written.
    """
    whole: dict[str, Tensor | StoredRows] = {}
    size: tuple[int, int] | None = None
    for batch in read_batches(view, probe.batch_size, image, Fingerprint(), view.identity.name):
        linear, parts = read(batch)
        size = common_size([size, (linear.shape[2], linear.shape[3])])
        for name, part in parts.items():
            rows = part.flatten(1).float()
            whole[name] = probe.storage.fill(whole.get(name), rows, batch.rows[0], len(view))
    return LayerRows({**whole}, common_size([size]))


def linear_images(probe: Probe, batch: Batch[Tensor]) -> Float[Tensor, "batch 3 height width"]:
    """Copy sRGB-encoded images to the device, decode them to scene-linear values, and resize them."""
    return resize_linear(decode(batch.stack(check_srgb_image).to(probe.device)), probe.size)


def hidden_rows(
    probe: Probe, layers: Sequence[str], image: Float[Tensor, "batch 3 height width"], ids: Sequence[str]
) -> tuple[Float[Tensor, "batch _"], ...]:
    """Record the outputs of hidden layers, a row for each image; halve the batch when memory runs out.

    One pass reads all layers, and stops after the last of them; `hidden_gradients` refuses layers that run
    twice.

    Args:
        probe: the network, and how it is read.
        layers: names of the layers, at least one.
        image: scene-linear images, on the device.
        ids: ids of the images.

    Raises:
        InputError: a layer cannot be read, an activation is not finite, the network raises an exception, or
            one image needs too much memory.
    """

    def run(rows: slice) -> tuple[Tensor, ...]:
        given = to_device(probe.named, image[rows], probe.device)
        with model_errors(probe.name, given):
            shapes = [probe.alone(name, given) for name in layers]
            outputs = record_layers(probe.network(), set(layers), given)
            return tuple(
                flatten_rows(name, outputs[name], len(given), alone)
                for name, alone in zip(layers, shapes, strict=True)
            )

    found = run_in_halves(run, len(image))
    for layer, values in zip(layers, found, strict=True):
        check_finite_rows(f"model `{probe.name}`, layer `{layer}`", values, ids)
    return found


def hidden_gradients(
    probe: Probe,
    layer: str,
    image: Float[Tensor, "batch 3 height width"],
    ids: Sequence[str],
    loss: Callable[[object, Tensor, slice], Float[Tensor, " _"]],
) -> Float[Tensor, "batch _"]:
    """Compute gradients by the output of a hidden layer, a row for each image; halve the batch as above.

    Args:
        probe: the network, and how it is read.
        layer: name of the layer.
        image: scene-linear images, on the device.
        ids: ids of the images.
        loss: maps the output of the network, its input and the slice of the batch to a number for each image.

    Raises:
        InputError: as `hidden_rows`; or the loss does not depend on the layer, or a gradient is not finite.
    """

    def run(rows: slice) -> tuple[Tensor]:
        given = to_device(probe.named, image[rows], probe.device)
        with model_errors(probe.name, given):
            found = batch_gradients(
                probe.network(),
                layer,
                given,
                lambda output, _: loss(output, given, rows),
                slice(0, len(given)),
                probe.alone(layer, given),
            )
        check_finite_rows(f"gradient of model `{probe.name}`, layer `{layer}`", found, ids[rows])
        return (found,)

    return run_in_halves(run, len(image))[0]


def resize_linear(
    images: Float[Tensor, "batch channels height width"], size: tuple[int, int] | None
) -> Float[Tensor, "batch channels new_height new_width"]:
    """Resample scene-linear images with an antialiasing filter; None keeps their size.

    Example:
        >>> resize_linear(Tensor([[[[0.0, 1.0]]]]), (1, 1))
        tensor([[[[0.5000]]]])
    """
    if size is None or tuple(images.shape[2:]) == size:
        return images
    return functional.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)


def common_size(sizes: Sequence[tuple[int, int] | None]) -> tuple[int, int]:
    """Return the one size of images; None is left out.

    Raises:
        InputError: there are several sizes.

    Example:
        >>> common_size([None, (2, 3), (2, 3)])
        (2, 3)
    """
    known = sorted({size for size in sizes if size is not None})
    if len(known) > 1:
        raise InputError(f"images have several sizes, {known}; give one {argument('size')} to resize them to")
    return known[0]


def check_finite_rows(what: str, values: Float[Tensor, "rows _"], ids: Sequence[str]) -> None:
    """Check that rows are finite.

    Args:
        what: the values, for the message.
        values: one row for each image.
        ids: ids of the images.

    Raises:
        InputError: a row is nan or inf; the message names the first one.

    Example:
        >>> check_finite_rows("layer `a`", Tensor([[0.0], [float("nan")]]), ["one", "two"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: layer `a`: expected finite numbers, got nan or inf for image \
`two`
    """
    wrong = ~values.detach().isfinite().all(1)
    if bool(wrong.any()):
        first = ids[int(wrong.nonzero()[0])]
        raise InputError(f"{what}: expected finite numbers, got nan or inf for image `{first}`")
