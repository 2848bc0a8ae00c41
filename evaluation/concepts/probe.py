"""A model whose activations are read, and the steps that every reading shares."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.concepts.activations import flatten_rows
from candlelight.evaluation.concepts.rows.row_storage import DEFAULT_STORAGE, RowStorage
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.running.hidden_layers import LayerOutput, layer_outputs, record_layers
from candlelight.evaluation.running.model_outputs import model_errors
from candlelight.evaluation.running.named_models import to_device
from candlelight.evaluation.running.out_of_memory import run_in_halves
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


def hidden_rows(
    probe: Probe, layers: Sequence[str], batch: Float[Tensor, "batch 3 height width"]
) -> tuple[Float[Tensor, "batch _"], ...]:
    """Record the outputs of hidden layers, a row for each image; halve the batch when memory runs out.

    Args:
        probe: the network, and how it is read.
        layers: names of the layers.
        batch: scene-linear images.

    Raises:
        InputError: a layer cannot be read, the network raises an exception, or one image needs too much
            memory.
    """

    def run(rows: slice) -> tuple[Tensor, ...]:
        image = to_device(probe.named, batch[rows], probe.device)
        with model_errors(probe.named.identity.name, image):
            shapes = [probe.alone(name, image) for name in layers]
            outputs = record_layers(probe.network(), set(layers), image)
            return tuple(
                flatten_rows(name, outputs[name], len(image), alone)
                for name, alone in zip(layers, shapes, strict=True)
            )

    return run_in_halves(run, len(batch))


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
