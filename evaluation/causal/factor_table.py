"""Factors and codes of all images."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.causal.code_inputs import equal_width_classes
from candlelight.evaluation.causal.factor_data import FactorColumns
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.array_files import first_three
from candlelight.evaluation.run.batches import read_batches, run_in_halves
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.hidden_layers import batch_axis, evaluation_mode, layer_outputs, run_recorded
from candlelight.evaluation.run.model_outputs import checked_codes, model_errors
from candlelight.evaluation.run.named_models import models_of_layers, to_device
from candlelight.evaluation.run.predictions import Codes
from candlelight.evaluation.run.steps import batch_key, model_key
from candlelight.evaluation.views import Factors
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, encode
from candlelight.loaders.errors import InputError, argument, did_you_mean
from candlelight.loaders.schema import FactorInfo

HEADS_SIDE = 64  # longest side of the images that the network takes, in pixels


def shrink_for_heads(image: Float[Tensor, "3 height width"]) -> Float[Tensor, "3 rows columns"]:
    """Average an sRGB-encoded image in linear light to at most `HEADS_SIDE` pixels a side.

    Example:
        >>> import torch
        >>> shrink_for_heads(torch.full((3, 240, 320), 0.5)).shape
        torch.Size([3, 48, 64])
    """
    height, width = image.shape[1:]
    scale = HEADS_SIDE / max(height, width)
    if scale >= 1:
        return image
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    return encode(functional.adaptive_avg_pool2d(decode(image), shape))


@dataclass(frozen=True)
class FactorTable:
    """Factors of images, all of which vary.

    Attributes:
        names: name of each factor.
        values: numbers of each image; for values without an order, such as colours, their places in the list
            of values.
        classes: class of each image, from 0; continuous factors are cut into bins of equal width.
        categorical: columns whose factor is categorical.
        unordered: columns whose values are more than two and have no order; they are no numbers.
        turning: columns that are an angle over a full turn, whose values jump at its end.
    """

    names: tuple[str, ...]
    values: Float[Tensor, "images factors"]
    classes: Int[Tensor, "images factors"]
    categorical: tuple[int, ...]
    unordered: tuple[int, ...]
    turning: tuple[int, ...]

    @property
    def ordered(self) -> list[int]:
        """Columns whose values are numbers."""
        return [column for column in range(len(self.names)) if column not in self.unordered]

    def take(self, rows: Int[Tensor, " rows"]) -> "FactorTable":
        """Choose images, some of which may repeat."""
        return replace(self, values=self.values[rows], classes=self.classes[rows])


def tabulate_factors(data: Factors, names: Sequence[str] = (), bins: int = 20) -> FactorTable:
    """Choose factors of images by name, and make numbers and classes of them.

    Args:
        data: images with factors.
        names: factors in the order of the table; none chooses all that vary.
        bins: number of classes of a continuous factor.

    Raises:
        InputError: the table of the data has another shape or is not finite, a name is unknown, given twice
            or that of a factor with one value, fewer than two factors vary, or a factor has as many classes
            as images, or ``bins`` is below 2.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Rows:
        ...     identity, ids, groups = DataIdentity("rows", "memory"), tuple("abcd"), tuple("abcd")
        ...     known_ids = frozenset(ids)
        ...     factors = (
        ...         FactorInfo(name="size", kind="categorical", values=(1.5, 2, 2.5)),
        ...         FactorInfo(name="light", kind="continuous", low=0, high=1),
        ...     )
        ...     table = np.array([[0, 0.0], [1, 0.5], [2, 1.0], [2, 0.0]])
        ...     def __len__(self): return 4
        ...     def __getitem__(self, row): return torch.zeros(3, 8, 8)
        >>> found = tabulate_factors(Rows(), bins=2)
        >>> found.values.T.tolist(), found.classes.T.tolist(), found.ordered
        ([[1.5, 2.0, 2.5, 2.5], [0.0, 0.5, 1.0, 0.0]], [[0, 1, 2, 2], [0, 1, 1, 0]], [0, 1])
    """
    if bins < 2:
        raise InputError(f"`bins` must be at least 2, got {bins}")
    numbers = torch.from_numpy(np.array(data.table, dtype=np.float64))
    if numbers.shape != (len(data.ids), len(data.factors)) or not bool(numbers.isfinite().all()):
        raise InputError(
            f"`{data.identity.name}`: expected a table of {len(data.ids)} rows, {len(data.factors)} factors, "
            f"finite, got {list(numbers.shape)}"
            + ("" if bool(numbers.isfinite().all()) else ", some nan or inf")
        )
    varies = (numbers != numbers[:1]).any(0).tolist()
    columns = _columns(data.factors, names, varies)
    infos = [data.factors[column] for column in columns]
    chosen = [(info, numbers[:, column]) for info, column in zip(infos, columns, strict=True)]
    classes = torch.stack([_classes(info, column, bins) for info, column in chosen], dim=1)
    for info, column in zip(infos, classes.T, strict=True):
        if int(column.max()) + 1 == len(column):
            cure = f"give fewer {argument('bins')} than {bins}, or " if info.kind == "continuous" else ""
            raise InputError(
                f"`{info.name}` has another value, or bin, in each of the {len(column)} images, which makes "
                f"any code robust; {cure}leave it out ({argument('factors')})"
            )
    return FactorTable(
        tuple(info.name for info in infos),
        torch.stack([_values(info, column) for info, column in chosen], dim=1),
        classes,
        *(
            tuple(place for place, info in enumerate(infos) if holds(info))
            for holds in (_is_categorical, _is_unordered, _is_turning)
        ),
    )


def _columns(factors: Sequence[FactorInfo], names: Sequence[str], varies: Sequence[bool]) -> list[int]:
    """Find the columns of the named factors, or all that vary."""
    known = [info.name for info in factors]
    for place, name in enumerate(names):
        if name not in known:
            raise InputError(
                f"{argument('factors')}: expected factors of the data ({', '.join(known)}), got `{name}`"
                f"{did_you_mean(name, known)}"
            )
        if name in names[:place]:
            raise InputError(f"{argument('factors')}: `{name}` is given twice")
        if not varies[known.index(name)]:
            raise InputError(f"{argument('factors')}: `{name}` has one value among the images; leave it out")
    columns = [known.index(name) for name in names] or [
        column for column, several in enumerate(varies) if several
    ]
    if len(columns) < 2:
        found = [known[column] for column in columns]
        cure = f"; name more ({argument('factors')})" if names else ""
        raise InputError(f"at least two factors must vary among the images, got {found}{cure}")
    return columns


def _is_categorical(info: FactorInfo) -> bool:
    return info.kind == "categorical"


def _is_unordered(info: FactorInfo) -> bool:
    values = info.values or ()
    return len(values) > 2 and any(isinstance(value, str | bool) for value in values)


def _is_turning(info: FactorInfo) -> bool:
    if info.unit != "degrees" or info.low is None or info.high is None:
        return False
    return info.kind == "continuous" and info.high - info.low >= 360


def _values(info: FactorInfo, column: Float[Tensor, " images"]) -> Float[Tensor, " images"]:
    """Return the values of a factor as numbers."""
    if not info.values or any(isinstance(value, str | bool) for value in info.values):
        return column
    return torch.tensor(info.values, dtype=torch.float64)[column.long()]


def _classes(info: FactorInfo, column: Float[Tensor, " images"], bins: int) -> Int[Tensor, " images"]:
    """Return classes numbered from 0 without gaps."""
    classes = column if info.kind == "categorical" else equal_width_classes(column[None], bins)[0]
    return torch.unique(classes, return_inverse=True)[1]


@dataclass(frozen=True)
class Encoded:
    """Factors and codes of one call of an evaluation.

    Attributes:
        run: the call, with a model for each hidden layer, and with images alone as its data.
        table: the factors, on the CPU.
        codes: codes of each model, on the device of the run.
    """

    run: Run[Any]
    table: FactorTable
    codes: dict[str, Float[Tensor, "images codes"]]


def encode_data(run: Run[Any], known: Collection[str] = ()) -> Encoded:
    """Tabulate the factors, and compute the codes of all models.

    Args:
        run: the call.
        known: further ids that files of codes may have.

    Raises:
        InputError: see `tabulate_factors`; codes are not finite, or differ in number between images.
    """
    table = tabulate_factors(run.data, run.options.factors, run.options.bins)
    if layers := getattr(run.options, "layers", ()):
        run = replace(run, models=models_of_layers(run.models, layers, layer_codes))
    run.kept["models"] = run.models
    return Encoded(run, table, compute_codes(run, known))


def check_layers(models: Mapping[str, Any], layers: Sequence[str]) -> None:
    """Refuse a layer that is named twice, and layers of models without any.

    Raises:
        InputError: see above.

    Example:
        >>> check_layers({"retinex": len}, ["encoder.1"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `layers`: `retinex` has no hidden layers; leave it out, or \
give a network
    """
    if len(set(layers)) < len(layers):
        raise InputError(f"{argument('layers')}: expected different layers, got {', '.join(layers)}")
    if layers and not any(isinstance(getattr(one, "model", one), nn.Module) for one in models.values()):
        names = ", ".join(f"`{name}`" for name in models)
        raise InputError(
            f"{argument('layers')}: {names} has no hidden layers; leave it out, or give a network"
        )


def layer_codes(
    model: nn.Module, layer: str
) -> Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch codes"]]:
    """Make an encoder whose codes are the mean activations of the channels of a hidden layer.

    Args:
        model: the network.
        layer: name as ``model.named_modules()`` gives it. Its output must be [batch, channels, h, w] or
            [batch, tokens, channels] or [tokens, batch, channels], which is averaged over pixels or tokens,
            or [batch, channels].

    Returns:
        An encoder; it takes images in the colour space of the network.

    Example:
        >>> import torch
        >>> layer_codes(nn.Sequential(nn.Conv2d(3, 5, 3)), "0")(torch.zeros(2, 3, 9, 9)).shape
        torch.Size([2, 5])
    """

    def encode(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch codes"]:
        values = run_recorded(model, [layer], images)[1][layer]
        if values.ndim == 4:
            return values.mean((2, 3))
        if values.ndim == 3:
            alone = layer_outputs(model, [layer], images[:1])[layer].alone
            return values.movedim(batch_axis(layer, values, len(images), alone), 0).mean(1)
        if values.ndim == 2:
            return values
        raise InputError(f"layer `{layer}` gives {list(values.shape)}; expected 2, 3 or 4 axes")

    vars(encode)["colour_space"] = getattr(model, "colour_space", "srgb")
    vars(encode)["network"] = model
    return encode


def compute_codes(run: Run[Any], known: Collection[str] = ()) -> dict[str, Float[Tensor, "images codes"]]:
    """Compute the codes of all rows, or take them from files, on the device.

    Args:
        run: the call.
        known: see `encode_data`.
    """
    data, fingerprint, found = run.data, run.fingerprint, {}
    encoders = {name: named for name, named in run.models.items() if not isinstance(named.model, Codes)}
    parts: dict[str, list[Tensor]] = {name: [] for name in encoders}
    keys = {name: model_key(named, run.device, step="codes") for name, named in encoders.items()}
    without = not encoders and (isinstance(data, FactorColumns) or not run.models)  # no images to read
    batches = () if without else read_batches(data, run.batch_size, check_srgb_image, fingerprint, "encode")
    for batch in batches:
        images = batch.stack(lambda image: image)
        for name, named in encoders.items():

            def encode(named: NamedModel = named, images: Tensor = images) -> dict[str, Tensor]:
                return {"codes": encode_images(named, images, run.device)}

            step = run.steps.get_or_compute(batch_key(keys[name], batch, fingerprint), encode)
            parts[name].append(step["codes"])
    for row, name in enumerate(data.ids):
        fingerprint.add(name, torch.from_numpy(np.asarray(data.table)[row]))
    for name, some in parts.items():
        if len(widths := sorted({part.shape[1] for part in some})) > 1:
            raise InputError(
                f"`{name}`: expected as many codes of each image, got {widths[0]} and {widths[-1]} codes"
            )
    for name, named in run.models.items():
        rows = (
            torch.cat(parts[name])
            if name in parts
            else named.model.matched(data.ids, {*data.known_ids, *known}, None)
        )
        if failed := [data.ids[row] for row in (~rows.isfinite().all(1)).nonzero().flatten().tolist()]:
            raise InputError(f"`{name}`: codes must be finite, got nan or inf for {first_three(failed)}")
        found[name] = rows.to(run.device)
    return found


def encode_images(
    named: NamedModel, images: Float[Tensor, "batch 3 height width"], device: str
) -> Float[Tensor, "batch codes"]:
    """Compute the codes of sRGB-encoded images, on the device, in float32 at least.

    The batch is halved when memory runs out.
    """
    name, linear = named.identity.name, decode(images.to(device))

    def run(rows: slice) -> tuple[Tensor, ...]:
        given = to_device(named, linear[rows], device)
        with evaluation_mode(named.model), torch.no_grad(), model_errors(name, given):
            return (checked_codes(named.model(given), len(given), name),)

    (codes,) = run_in_halves(run, len(images))
    return codes.to(device, torch.promote_types(codes.dtype, torch.float32))
