"""Split a network at a hidden layer into two networks that share its weights."""

from torch import fx, nn

from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError


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
