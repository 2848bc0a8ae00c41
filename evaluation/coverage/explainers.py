"""Attribution explainers by text: Grad-CAM, RISE, occlusion, the classes of captum, and a user's function."""

import inspect
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import interpolate

from candlelight.evaluation.catalogue.coverage_options import split_explainer
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.filter_methods import (
    check_logits,
    filter_maps,
    grad_cam,
    network_device,
    weigh_filters,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.model_outputs import describe_output, model_errors
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError, argument, did_you_mean, require_module
from candlelight.loaders.files.python_files import code_sha256, functions_of, user_file

_Attribute = Callable[[Tensor, Tensor], Any]  # of images and classes


@dataclass(frozen=True, eq=False)
class Explainer:
    """An attribution explainer: how much each place of an image speaks for a class.

    Attributes:
        name: name in tables.
        attribute: called with images [n, 3, h, w], sRGB-encoded in [0, 1], and classes [n], with gradients
            switched on; returns maps [n, rows, columns] or [n, 1 or 3, rows, columns], whose channels are
            added up. Negative values speak against the class.
        seed: seed of torch and numpy before each call of ``attribute``. Their generators are restored.
        alone: whether each image is given by itself, so that random numbers do not depend on the batch.
        facts: origin of the explainer, for the provenance of results.

    Example:
        >>> bright = Explainer("bright", lambda images, targets: images)
        >>> bright.explain(torch.ones(1, 3, 1, 2), torch.tensor([0]))
        tensor([[[3., 3.]]])
    """

    name: str
    attribute: _Attribute
    seed: int = 0
    alone: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    def explain(
        self, images: Float[Tensor, "images 3 height width"], targets: Int[Tensor, " images"]
    ) -> Float[Tensor, "images rows columns"]:
        """Explain why images belong to classes.

        Args:
            images: sRGB-encoded in [0, 1], on the device of the network.
            targets: class of each image.

        Returns:
            Maps at the explainer's own resolution; nan everywhere if a value is not finite.

        Raises:
            InputError: the explainer raised an exception, or gives something else than maps.
        """
        check_shapes(images=(images, "images 3 height width"), targets=(targets, "images"))
        size, found = 1 if self.alone else max(1, len(images)), []
        with model_errors(self.name, images), torch.enable_grad():
            for some, classes in zip(torch.split(images, size), torch.split(targets, size), strict=True):
                with _seeded(self.seed, images.device):
                    output = self.attribute(some.detach().clone(), classes.clone())
                found.append(_checked_maps(output, len(some), self.name).to(images.device))
        return torch.cat(found)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch and numpy within a ``with`` block; captum draws from both."""
    cuda = device.type == "cuda"
    state = np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng([device] if cuda else []):
            # `torch.manual_seed` would change the generators of other devices, too.
            torch.default_generator.manual_seed(seed)
            if cuda:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _checked_maps(output: object, images: int, name: str) -> Float[Tensor, "images rows columns"]:
    """Add up the channels of maps; a map with a value that is not finite becomes nan."""
    part: Any = torch.from_numpy(output) if isinstance(output, np.ndarray) else output
    fits = isinstance(part, Tensor) and part.is_floating_point() and part.ndim in (3, 4) and part.numel() > 0
    if not (fits and len(part) == images and (part.ndim == 3 or part.shape[1] in (1, 3))):
        raise InputError(
            f"{name}: expected maps [{images}, rows, columns] or [{images}, 1 or 3, rows, columns], "
            f"floating-point, got {describe_output(output)}; return one map for each image"
        )
    maps: Tensor = part.detach().float()
    maps = maps.sum(1) if maps.ndim == 4 else maps
    return maps.masked_fill(~maps.flatten(1).isfinite().all(1)[:, None, None], torch.nan)


@dataclass(frozen=True, eq=False)
class AttributionMethod:
    """An explainer as an `ExplanationMethod` of one concept: it explains the predicted class.

    Attributes:
        explainer: the explainer.
        network: the classifier that it explains.

    Example:
        >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> method = AttributionMethod(open_explainer("occlusion,window=1", network), network)
        >>> image = torch.zeros(1, 3, 1, 2)
        >>> image[0, 2, 0, 1] = 1  # class 2 is predicted; 0.5 in place of the left pixel speaks for it more
        >>> method.explain(image)
        Explanation(maps=tensor([[[[-0.2500,  0.2500]]]]), concepts=tensor([[0]]), scores=tensor([[0.]]), \
predicted=tensor([2]))
    """

    explainer: Explainer
    network: nn.Module

    @property
    def name(self) -> str:
        """Name of the explainer."""
        return self.explainer.name

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "AttributionMethod":
        """Return the method itself: there is nothing to learn."""
        del images, labels
        return self

    def state(self) -> dict[str, Tensor]:
        """Collect nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> "AttributionMethod":
        """Return the method itself."""
        del state
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images; the score is the sum of the map.

        Returns:
            One map for each image; an image whose map is not finite has no concept. The predicted class is
            -1 if the logits are not finite, and then the image has no concept either.

        Raises:
            InputError: the network gives no logits, or as `Explainer.explain`.
        """
        images = images.to(network_device(self.network, images))
        with torch.no_grad():
            logits = _logits(self.network, images)
        lost = ~logits.isfinite().all(1)
        predicted = logits.nan_to_num().argmax(1)
        maps = self.explainer.explain(images, predicted)[:, None]
        failed = lost | maps.flatten(1).isnan().any(1)
        maps = maps.masked_fill(failed[:, None, None, None], 0)
        concepts = torch.where(failed, -1, 0)[:, None]
        return Explanation(maps, concepts, maps.sum((2, 3)), predicted.masked_fill(lost, -1))


def _logits(network: nn.Module, images: Tensor) -> Float[Tensor, "images classes"]:
    with evaluation_mode(network):
        return check_logits(network(images), len(images))


def open_explainer(
    method: Any, classifier: NamedModel | nn.Module, layer: str | None = None, seed: int = 0
) -> Explainer:
    """Open the explainer that a text names, of a classifier.

    Args:
        method: a text of `split_explainer` without vebi, topics and prototypes, which learn: "grad-cam";
            "rise", with the options of `rise_maps`; "occlusion", with those of `occlusion_maps`;
            ``captum:CLASS`` with numbers, true or false for options of the class, see `captum_classes`; or
            ``file.py:function``, the user's own code, which is run. In Python also an object of captum, or
            such a function: ``function(network, images, targets)`` returns what `Explainer.attribute` does.
        classifier: a network that gives logits [images, classes]; it runs in evaluation mode.
        layer: the explained layer of "grad-cam" and of captum's classes of layers; None for the
            ``explained_layer`` of the network.
        seed: seed of random numbers.

    Returns:
        The explainer. Maps of RISE, and of captum's classes that draw random numbers, do not depend on the
        other images of a batch, as images are explained one by one; other maps do by rounding, and those of a
        function as it is written.

    Raises:
        InputError: the text, a class, an option or the layer is wrong, or a file cannot be imported.
        ModuleNotFoundError: captum is not installed.

    Example:
        >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> open_explainer("rise,masks=20", network).explain(torch.ones(1, 3, 8, 9), torch.tensor([0])).shape
        torch.Size([1, 8, 9])
        >>> open_explainer("rise,mask=20", network)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `method` rise,mask=20: expected one of the options masks, \
cells, share, got mask; did you mean `masks`?
    """
    network = classifier.model if isinstance(classifier, NamedModel) else classifier
    layer = layer or getattr(network, "explained_layer", None)
    if not isinstance(method, str):
        return _of_python(method, network, seed)
    name, options = split_explainer(method)
    if name == "grad-cam":
        module_of(network, layer)

        def attribute(images: Tensor, targets: Tensor) -> Tensor:
            return grad_cam(weigh_filters(network, str(layer), images, targets))

        return Explainer(name, attribute, facts={"explainer": name, "explainer_layer": layer})
    if name in _OWN:
        function, kinds = _OWN[name]
        given = {key: _value(method, key, text, kinds) for key, text in options.items()}
        if name == "rise":
            given["seed"] = seed
        facts = {"explainer": method, **({"explainer_seed": seed} if name == "rise" else {})}
        return Explainer(method, partial(function, network, **given), facts=facts)
    if name.startswith("captum:"):
        return _of_captum(method, name.removeprefix("captum:"), options, network, layer, seed)
    if ".py:" in name:
        return _of_file(method, name, options, network, seed)
    raise InputError(
        f"{argument('method')} {method}: expected a method that learns nothing, such as grad-cam"
    )


def _of_python(method: Any, network: nn.Module, seed: int) -> Explainer:
    name = getattr(method, "__name__", type(method).__name__)
    facts = {"explainer": name, "explainer_seed": seed}
    if hasattr(method, "attribute"):
        return Explainer(name, partial(_attribute, method), seed, _is_of(_DRAWING, name), facts)
    if not callable(method):
        raise InputError(f"`method`: expected a text, a function or an object of captum, got {name}")
    return Explainer(name, partial(_evaluated, method, network), seed, facts=facts)


def _of_file(text: str, name: str, options: Mapping[str, str], network: nn.Module, seed: int) -> Explainer:
    place, _, attribute = name.rpartition(":")
    path = Path(place)
    with user_file(path) as module:
        function = getattr(module, attribute, None)
    if not callable(function):
        near = did_you_mean(attribute, functions_of(module))
        raise InputError(f"{argument('method')} {text}: {path.name} has no function `{attribute}`{near}")
    short = text.replace(place, path.name, 1)
    facts = {"explainer": short, "explainer_sha256": code_sha256(path.resolve()), "explainer_seed": seed}
    given = {key: _literal(value) for key, value in options.items()}
    return Explainer(short, partial(_evaluated, function, network, **given), seed, facts=facts)


def _evaluated(function: Callable[..., Any], network: nn.Module, *arguments: Tensor, **options: Any) -> Any:
    with evaluation_mode(network):
        return function(network, *arguments, **options)


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def module_of(network: nn.Module, layer: str | None) -> nn.Module:
    """Look up the module of a layer.

    Raises:
        InputError: no layer is named, or there is no such layer.

    Example:
        >>> module_of(nn.Sequential(nn.ReLU()), "0")
        ReLU()
    """
    known = {name: module for name, module in network.named_modules() if name}
    if layer is None:
        option = argument("explained_layer")
        raise InputError(f"name the layer to explain, usually the last convolution ({option})")
    if layer not in known:
        raise InputError(f"layer `{layer}` is not in the model; expected one of: {', '.join(known)}")
    return known[layer]


def _value(method: str, name: str, text: str, kinds: Mapping[str, type]) -> Any:
    """Convert the text of an option; whole numbers are at least 1."""
    where = f"{argument('method')} {method}:"
    if name not in kinds:
        known = ", ".join(kinds) or "none"
        raise InputError(
            f"{where} expected one of the options {known}, got {name}{did_you_mean(name, kinds)}"
        )
    kind, value = kinds[name], _literal(text)
    if kind is tuple:
        sides = tuple(_literal(one) for one in text.split("x"))
        value = sides * 2 if len(sides) == 1 else sides
        fits = len(value) == 2 and all(type(one) is int and one >= 1 for one in value)
    elif kind is float:
        fits = type(value) in (int, float) and math.isfinite(value)
    elif kind is int:
        fits = type(value) is int and value >= 1
    else:
        fits = kind is str or type(value) is kind
        value = text if kind is str else value
    if not fits:
        words = {int: "a whole number of at least 1", float: "a number", bool: "true or false"}
        raise InputError(f"{where} expected {name} {words.get(kind, 'such as 8 or 8x4')}, got {text}")
    return value


def rise_maps(
    network: nn.Module,
    images: Float[Tensor, "images 3 height width"],
    targets: Int[Tensor, " images"],
    masks: int = 1000,
    cells: int = 7,
    share: float = 0.5,
    seed: int = 0,
) -> Float[Tensor, "images height width"]:
    """Explain images by RISE: how probable the class is where a pixel is not covered.

    ``S(x) = 1 / (E[M] N) sum_i f(I * M_i) M_i(x)`` (Petsiuk et al. 2018, eq. 6), f the probability of the
    class. A mask M_i is a grid whose cells are open with some probability, resized bilinearly to a cell more
    than the image, and cut at a random place (sec. 3.2). All images have the same masks.

    Blind to: evidence against the class, which lowers the map of its place only below that of others; and to
    black as a colour: covered pixels are black.

    Args:
        network: a classifier that gives logits.
        images: sRGB-encoded in [0, 1].
        targets: class of each image.
        masks: number of masks N; the paper takes 4000 for VGG16 and 8000 for ResNet50.
        cells: cells along each side of a mask.
        share: probability that a cell is open.
        seed: seed of the masks, which are drawn on the CPU.

    Returns:
        Maps in [0, 1], but for chance in the number of open cells; larger speaks for the class.

    Raises:
        InputError: the share is not between 0 and 1, or the network gives no logits.

    Example:
        >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> image = torch.zeros(1, 3, 8, 8)
        >>> image[:, 1, :, :4] = 9  # evidence for class 1 lies on the left
        >>> found = rise_maps(network, image, torch.tensor([1]), masks=200)
        >>> bool(found[..., :2].mean() > found[..., 6:].mean())
        True
    """
    if not 0 < share < 1:
        raise InputError(f"`share` must be above 0 and below 1, got {share:g}")
    size, draws = images.shape[2:], torch.Generator().manual_seed(seed)
    cell = [math.ceil(side / cells) for side in size]
    found = images.new_zeros(len(images), *size)
    for start in range(0, masks, _MASKS):
        count = min(_MASKS, masks - start)
        grid = (torch.rand(count, 1, cells, cells, generator=draws) < share).float()
        large = interpolate(grid, [(cells + 1) * side for side in cell], mode="bilinear", align_corners=False)
        shifts = [torch.randint(side, (count,), generator=draws).tolist() for side in cell]
        drawn = [
            one[:, row : row + size[0], column : column + size[1]]
            for one, row, column in zip(large, *shifts, strict=True)
        ]
        opened = torch.stack(drawn).to(images)
        for place, target in enumerate(targets.tolist()):
            with torch.no_grad():
                scores = _logits(network, images[place] * opened).softmax(1)[:, target]
            found[place] += torch.einsum("m,mhw->hw", scores.to(opened), opened[:, 0])
    return found / (masks * share)


_MASKS = 64  # in one pass


def occlusion_maps(
    network: nn.Module,
    images: Float[Tensor, "images 3 height width"],
    targets: Int[Tensor, " images"],
    window: int | None = None,
    stride: int | None = None,
    baseline: float = 0.5,
) -> Float[Tensor, "images height width"]:
    """Explain images by occlusion: how much the logit of the class falls when a window is covered.

    A square moves over the image (Zeiler and Fergus 2014, sec. 4.2). A pixel has the mean fall over all
    squares that cover it, as in captum's Occlusion; squares are cut at the border, and a pixel that none
    covers has 0.

    Blind to: evidence that is there twice, of which either half can be covered without effect; and to gray as
    a colour: covered pixels are gray.

    Args:
        network: a classifier that gives logits.
        images: sRGB-encoded in [0, 1].
        targets: class of each image.
        window: side of the square in pixels; None for an eighth of the shorter side of the image.
        stride: step in pixels; None for half of the side, rounded down, and at least 1.
        baseline: value of covered pixels.

    Returns:
        Maps; larger speaks for the class, negative against it.

    Raises:
        InputError: the network gives no logits.

    Example:
        >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> image = torch.tensor([1.0, 0.0]).expand(1, 3, 2, 2)
        >>> occlusion_maps(network, image, torch.tensor([0]), window=1, baseline=0)
        tensor([[[0.2500, 0.0000],
                 [0.2500, 0.0000]]])
    """
    height, width = images.shape[2:]
    side = window or max(1, min(height, width) // 8)
    step = stride or max(1, side // 2)
    found, covering = images.new_zeros(len(images), height, width), images.new_zeros(height, width)
    with torch.no_grad():
        before = _logits(network, images).gather(1, targets[:, None])[:, 0]
        starts = (range(0, max(0, length - side) + step, step) for length in (height, width))
        for row, column in product(*starts):
            place = (..., slice(row, row + side), slice(column, column + side))
            covered = images.clone()
            covered[place] = baseline
            after = _logits(network, covered).gather(1, targets[:, None])[:, 0]
            found[place] += (before - after)[:, None, None].to(found)
            covering[place] += 1
    return found / covering.clamp(min=1)


_OWN: Mapping[str, tuple[Callable[..., Tensor], Mapping[str, type]]] = {
    "rise": (rise_maps, {"masks": int, "cells": int, "share": float}),
    "occlusion": (occlusion_maps, {"window": int, "stride": int, "baseline": float}),
}
_GIVEN = {"forward_func", "model", "layer", "inputs", "target", "baselines", "sliding_window_shapes"}
# Images are permuted within a batch; several baselines have no text; all orders of 64 features are too many;
# LRP fails for layers without a rule, and leaves attributes on the others.
_UNSUITED = ("FeaturePermutation", "DeepLiftShap", "ShapleyValues", "LRP")
_DRAWING = ("GradientShap", "KernelShap", "Lime", "ShapleyValueSampling", "NoiseTunnel")
_HIDDEN = {"return_convergence_delta", "return_input_shape", "show_progress", "verbose", "attr_dim_summation"}
_KINDS = {"baselines": float, "internal_batch_size": int, "sliding_window_shapes": tuple, "strides": tuple}
_CELLS = 8  # along each side, of features of several pixels


def captum_classes() -> dict[str, Any]:
    """List the classes of captum.attr that explain an image's class by a network, or by a layer of it.

    Raises:
        ModuleNotFoundError: captum is not installed.

    Example:
        >>> "IntegratedGradients" in captum_classes()  # doctest: +SKIP
        True
    """
    require_module("captum")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = import_module("captum.attr")
    found = {}
    for name, one in vars(library).items():
        if inspect.isclass(one) and issubclass(one, library.Attribution) and hasattr(one, "attribute"):
            parameters = _parameters(one.__init__) | _parameters(one.attribute)
            needed = {key for key, default in parameters.items() if default is inspect.Parameter.empty}
            if "target" in parameters and needed <= _GIVEN and not _is_of(_UNSUITED, name):
                found[name] = one
    return found


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of a method's parameters."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {one.name: one.default for one in parameters if one.kind not in variable}


def _is_of(names: Sequence[str], name: str) -> bool:
    """Tell whether a class, or its twin for layers, is among the names."""
    return name.removeprefix("Layer") in names


def _of_captum(
    text: str, name: str, options: Mapping[str, str], network: nn.Module, layer: str | None, seed: int
) -> Explainer:
    known = captum_classes()
    if name not in known:
        near = did_you_mean(name, known)
        raise InputError(
            f"{argument('method')} {text}: captum has no class `{name}` that explains images{near}; expected "
            f"one of {', '.join(known)}"
        )
    made, called = _parameters(known[name].__init__), _parameters(known[name].attribute)
    every = made | called
    kinds = {key: _KINDS.get(key) or type(default) for key, default in every.items() if key not in _HIDDEN}
    kinds = {key: kind for key, kind in kinds.items() if kind in (bool, int, float, str, tuple)}
    kinds |= {"grid": int} if "feature_mask" in every else {}
    given = {key: _value(text, key, value, kinds) for key, value in options.items()}
    arguments = {key: value for key, value in given.items() if key in made}
    arguments |= {"layer": module_of(network, layer)} if "layer" in made else {}
    program = known[name](network, **arguments)

    def attribute(images: Tensor, targets: Tensor) -> Tensor:
        call = {key: value for key, value in given.items() if key in called}
        size = images.shape[2:]
        if every.get("baselines") is inspect.Parameter.empty:  # a distribution: of one image
            call["baselines"] = torch.full_like(images[:1], call.get("baselines", 0.0))
        if "sliding_window_shapes" in every:
            window = call.get("sliding_window_shapes", (max(1, min(size) // 8),) * 2)
            strides = call.get("strides", tuple(max(1, side // 2) for side in window))
            call |= {"sliding_window_shapes": (3, *window), "strides": (3, *strides)}
        if "feature_mask" in every:
            cells = given.get("grid", _CELLS)
            rows, columns = (torch.arange(side, device=images.device) * cells // side for side in size)
            call["feature_mask"] = (rows[:, None] * cells + columns).expand(1, 1, -1, -1)
        with evaluation_mode(network):
            return _attribute(program, images, targets, **call)

    facts = {"explainer": text, "explainer_version": f"captum {version('captum')}", "explainer_seed": seed}
    facts |= {"explainer_layer": layer} if "layer" in made else {}
    return Explainer(text, attribute, seed, _is_of(_DRAWING, name), facts)


def _attribute(program: Any, images: Tensor, targets: Tensor, **options: Any) -> Tensor:
    """Call captum, and add up the channels of its maps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of hooks and of gradients that it switches on
        output = program.attribute(images.requires_grad_(), target=targets, **options)
    return filter_maps(output, "of captum").sum(1)
