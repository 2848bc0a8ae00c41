"""Hidden layers of a network: record their outputs, and run a network in two halves around one."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, fx, nn

from candlelight.loaders.errors import InputError


class _AllRecorded(BaseException):
    """Signal that ends a forward pass; a BaseException, because a model may catch every Exception."""


class LayerOutput(NamedTuple):
    """Output of a layer for one image: the shape of its first tensor, and whether it is one of several."""

    alone: tuple[int, ...]
    several: bool


def match_layers(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """List the hidden layers that names or patterns fit, each once.

    Args:
        model: the network.
        patterns: names as ``model.named_modules()`` gives them, or patterns of `fnmatch` such as ``layer?``,
            where ``*`` fits dots too.

    Returns:
        Names in the order of the patterns; those of one pattern in the order of the network.

    Raises:
        InputError: no layer fits a pattern.

    Example:
        >>> match_layers(nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Flatten()), ["2", "[0-1]"])
        ['2', '0', '1']
    """
    known = [name for name, _ in model.named_modules() if name]
    found: dict[str, None] = {}
    for pattern in patterns:
        fitting = [name for name in known if name == pattern or fnmatchcase(name, pattern)]
        if not fitting:
            raise InputError(f"layer `{pattern}` is not in the model; expected one of: {', '.join(known)}")
        found |= dict.fromkeys(fitting)
    return list(found)


@contextmanager
def evaluation_mode(model: object) -> Iterator[None]:
    """Put a network into evaluation mode within a ``with`` block; afterwards restore each submodule's mode.

    Args:
        model: any callable; nothing happens unless it is a `torch.nn.Module`.

    Example:
        >>> model = nn.Dropout(0.5)
        >>> with evaluation_mode(model):
        ...     model(torch.ones(3))
        tensor([1., 1., 1.])
        >>> model.training
        True
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def run_recorded(
    model: nn.Module,
    layers: Collection[str],
    images: Float[Tensor, "batch channels height width"],
    differentiable: bool = False,
) -> tuple[object, dict[str, Tensor]]:
    """Run ``model`` on ``images`` in evaluation mode and record the outputs of named layers.

    Args:
        model: the network.
        layers: names as ``model.named_modules()`` gives them.
        images: one batch of the network's input.
        differentiable: make each recorded tensor a leaf of the graph, so that
            ``torch.autograd.grad(loss, recorded)`` gives its gradient without changing any ``.grad``.
            With several layers no gradient flows from a later one to an earlier one.

    Returns:
        The output of the model, and one tensor per layer; of a layer that returns a tuple or list, such as an
        attention module, the first tensor.

    Raises:
        InputError: a layer does not exist, does not run exactly once, or returns no tensor.

    Example:
        >>> model = nn.Sequential(nn.ReLU(), nn.Flatten())
        >>> output, recorded = run_recorded(model, ["0"], -torch.ones(1, 1, 1, 2))
        >>> recorded["0"].shape, recorded["0"].sum()
        (torch.Size([1, 1, 1, 2]), tensor(0.))
    """
    recorded: dict[str, Tensor] = {}
    with _recording(model, layers, lambda name: _recorder(name, recorded, differentiable)):
        with evaluation_mode(model), torch.set_grad_enabled(differentiable):
            output = model(images)
    _check_all_ran(layers, recorded)
    return output, recorded


def record_layers(
    model: nn.Module, layers: Collection[str], images: Float[Tensor, "batch channels height width"]
) -> dict[str, Tensor]:
    """Record the outputs of named layers, and stop the forward pass after the last of them.

    A layer that would run a second time after the last one goes unnoticed here. Call `run_recorded` on the
    same model once before: it refuses such layers.

    Args:
        model: the network.
        layers: names as ``model.named_modules()`` gives them, at least one.
        images: one batch of the network's input.

    Returns:
        One tensor per layer, which may share memory with ``images``.

    Raises:
        InputError: as `run_recorded`.

    Example:
        >>> model = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
        >>> record_layers(model, ["0"], torch.ones(1, 1, 1, 2))  # the Linear layer would fail on two numbers
        {'0': tensor([[[[1., 1.]]]])}
    """
    recorded: dict[str, Tensor] = {}
    with _recording(model, layers, lambda name: _recorder(name, recorded, False, len(set(layers)))):
        try:
            with evaluation_mode(model), torch.no_grad():
                model(images)
        except _AllRecorded:
            pass
    _check_all_ran(layers, recorded)
    return recorded


def layer_outputs(
    model: nn.Module, layers: Collection[str], image: Float[Tensor, "1 channels height width"]
) -> dict[str, LayerOutput]:
    """Run the whole model on one image, and describe what each layer gives; `batch_axis` needs the shapes.

    Raises:
        InputError: as `run_recorded`.

    Example:
        >>> layer_outputs(nn.Sequential(nn.Flatten()), ["0"], torch.ones(1, 3, 2, 2))
        {'0': LayerOutput(alone=(1, 12), several=False)}
    """
    found: dict[str, LayerOutput] = {}

    def describer(name: str) -> Callable[..., None]:
        recorded: dict[str, Tensor] = {}
        record = _recorder(name, recorded, differentiable=False)

        def describe(module: nn.Module, inputs: object, output: object) -> None:
            record(module, inputs, output)
            found[name] = LayerOutput(tuple(recorded[name].shape), not isinstance(output, Tensor))

        return describe

    with _recording(model, layers, describer):
        with evaluation_mode(model), torch.no_grad():
            model(image)
    _check_all_ran(layers, found)
    return {name: found[name] for name in layers}


def batch_axis(layer: str, values: Tensor, images: int, alone: tuple[int, ...]) -> int:
    """Find the axis of a layer's output that counts the images.

    Its length alone does not tell: [tokens, batch, channels] with as many tokens as images looks like
    [batch, tokens, channels]. The axis is the one whose length changes between one image and several.

    Args:
        layer: name of the layer, for the message.
        values: its output for several images, or for one.
        images: number of the images.
        alone: shape of its output for one image, from `layer_outputs`.

    Returns:
        Number of the axis; for one image the first axis of length 1, as the rows are the same for any.

    Raises:
        InputError: no axis counts the images.

    Example:
        >>> batch_axis("attention", torch.ones(4, 4, 8), images=4, alone=(4, 1, 8))
        1
    """
    shape, axes = tuple(values.shape), range(values.ndim)
    same = len(shape) == len(alone)
    found = [axis for axis in axes if same and (alone[axis], shape[axis]) == (1, images)]
    changed = [axis for axis in axes if same and alone[axis] != shape[axis]]
    if not found or changed != (found if images > 1 else []) or len(changed) > 1:
        raise InputError(
            f"layer `{layer}` gives shape {list(shape)} for {images} images and {list(alone)} for one; "
            "choose one with an axis that counts the images"
        )
    return found[0]


def check_images_first(
    model: nn.Module, layer: str, values: Tensor, images: Float[Tensor, "batch channels height width"]
) -> None:
    """Refuse tokens whose first axis does not count the images; the network runs again where lengths agree.

    Raises:
        InputError: as described.

    Example:
        >>> check_images_first(nn.Flatten(2), "0", torch.ones(2, 3, 4), torch.ones(2, 3, 2, 2))
    """
    if values.ndim != 3 or len(images) == 1 or len(values) == len(images) != values.shape[1]:
        return
    alone = layer_outputs(model, [layer], images[:1])[layer].alone
    if batch_axis(layer, values, len(images), alone) != 0:
        raise InputError(
            f"layer `{layer}` gives {list(values.shape)} for {len(images)} images, not in the order [images, "
            "tokens, channels]; choose a layer whose first axis counts the images"
        )


@contextmanager
def _recording(
    model: nn.Module, layers: Collection[str], hook: Callable[[str], Callable[..., Any]]
) -> Iterator[None]:
    """Register a forward hook on each layer within a ``with`` block."""
    modules = {name: module for name, module in model.named_modules() if name}
    for name in layers:
        if name not in modules:
            raise InputError(f"layer `{name}` is not in the model; expected one of: {', '.join(modules)}")
    hooks = [modules[name].register_forward_hook(hook(name)) for name in layers]
    try:
        yield
    finally:
        for one in hooks:
            one.remove()


def _check_all_ran(layers: Collection[str], recorded: Mapping[str, object]) -> None:
    for name in layers:
        if name not in recorded:
            raise InputError(f"layer `{name}` did not run in a forward pass; choose a layer that runs once")


def _recorder(
    name: str, recorded: dict[str, Tensor], differentiable: bool, enough: int | None = None
) -> Callable[[nn.Module, object, object], object]:
    """Make a forward hook that records the output of one layer and ends the pass after ``enough`` layers."""

    def record(_module: nn.Module, _inputs: object, output: object) -> object:
        parts: list[Any] = list(output) if isinstance(output, tuple | list) else [output]
        place = next((place for place, part in enumerate(parts) if isinstance(part, Tensor)), None)
        if place is None:
            raise InputError(f"layer `{name}` gives {type(output).__name__}; choose one that gives a tensor")
        if name in recorded:
            raise InputError(
                f"layer `{name}` runs more than once in a forward pass; choose one that runs once"
            )
        recorded[name] = parts[place].detach()
        if len(recorded) == enough:
            raise _AllRecorded
        # Clones, because a following in-place activation would overwrite the recorded tensor.
        recorded[name] = recorded[name].clone().requires_grad_(differentiable)
        if not differentiable:
            return None
        parts[place] = recorded[name].clone()
        if not isinstance(output, tuple | list):
            return parts[0]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)

    return record


def split_network(model: nn.Module, layer: str) -> tuple[nn.Module, nn.Module]:
    """Split a network into the part up to a hidden layer and the part after it.

    Running the second part on the output of the first gives the output of the network. The forward pass is
    traced once, in evaluation mode, so a dropout that is a function and no module stays switched off.

    Args:
        model: network that torch.fx can trace: its steps must not depend on the values of its input.
        layer: name as ``model.named_modules()`` gives it; its output must be all that the following layers
            read of the image.

    Returns:
        The network from the input to the output of the layer, and from there to the output of ``model``. Both
        hold the modules of ``model`` itself; copy it first to train them apart.

    Raises:
        InputError: the layer does not exist or does not run exactly once, the network cannot be traced, or a
            connection passes by the layer.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Conv2d(3, 5, 1), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(20, 2))
        >>> features, head = split_network(model, "0")
        >>> image = torch.rand(1, 3, 2, 2)
        >>> features(image).shape, torch.equal(head(features(image)), model(image))
        (torch.Size([1, 5, 2, 2]), True)
    """
    names = [name for name, _ in model.named_modules() if name]
    if layer not in names:
        raise InputError(f"layer `{layer}` is not in the model; expected one of: {', '.join(names)}")
    chosen = model.get_submodule(layer)
    # As a part of another module the model is called with its own hooks, such as a normalisation.
    root = nn.Sequential(model)
    try:
        with evaluation_mode(model):
            graph = _Tracer(chosen).trace(root)
    except Exception as error:  # the network's own code runs on symbols, and may raise any exception
        raise InputError(
            f"the network cannot be split at `{layer}`, because its steps depend on its input ({error}); "
            "give both parts as modules of their own, or choose Grad-CAM or VEBI, which need no parts"
        ) from error
    calls = [
        node
        for node in graph.nodes
        if node.op == "call_module" and root.get_submodule(str(node.target)) is chosen
    ]
    if len(calls) != 1:
        raise InputError(
            f"layer `{layer}` runs {len(calls)} times in a forward pass; choose one that runs once"
        )
    return fx.GraphModule(root, _until(graph, calls[0])), fx.GraphModule(root, _after(graph, calls[0], layer))


class _Tracer(fx.Tracer):
    """Tracer that does not look inside the chosen layer."""

    def __init__(self, chosen: nn.Module) -> None:
        super().__init__()
        self.chosen = chosen

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return m is self.chosen or super().is_leaf_module(m, module_qualified_name)


def _until(graph: fx.Graph, call: fx.Node) -> fx.Graph:
    part, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    needed = _needed(call)
    for node in graph.nodes:
        if node in needed or node.op == "placeholder":
            copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(copies[call])
    return part


def _after(graph: fx.Graph, call: fx.Node, layer: str) -> fx.Graph:
    part = fx.Graph()
    # Cloned, because an activation in place would overwrite the output of the layer.
    copies = {call: part.call_method("clone", (part.placeholder("activations"),))}
    (output,) = (node for node in graph.nodes if node.op == "output")
    needed = _needed(output, call)
    for node in graph.nodes:
        if node in needed and node.op == "placeholder":
            raise InputError(
                f"a connection passes by layer `{layer}`; choose the layer that joins both paths"
            )
        if node in needed and node is not call:
            copies[node] = part.node_copy(node, copies.__getitem__)
    return part


def _needed(node: fx.Node, end: fx.Node | None = None) -> set[fx.Node]:
    """Return a node and all nodes that it depends on, without those before ``end``."""
    found, waiting = set[fx.Node](), [node]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [] if node is end else node.all_input_nodes
    return found
