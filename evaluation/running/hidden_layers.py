"""Run a network and record the outputs of hidden layers; the network itself is left unchanged."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.loaders.errors import InputError


class _AllRecorded(BaseException):
    """Signal that ends a forward pass; a BaseException, because a model may catch every Exception."""


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
        The output of the model, and one tensor per layer.

    Raises:
        InputError: a layer does not exist, does not run exactly once, or does not return a tensor.

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


@contextmanager
def _recording(
    model: nn.Module, layers: Collection[str], hook: Callable[[str], Callable[..., Tensor | None]]
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


def _check_all_ran(layers: Collection[str], recorded: Mapping[str, Tensor]) -> None:
    for name in layers:
        if name not in recorded:
            raise InputError(f"layer `{name}` did not run in a forward pass; choose a layer that runs once")


def _recorder(
    name: str, recorded: dict[str, Tensor], differentiable: bool, enough: int | None = None
) -> Callable[[nn.Module, object, object], Tensor | None]:
    """Make a forward hook that records the output of one layer and ends the pass after ``enough`` layers."""

    def record(_module: nn.Module, _inputs: object, output: object) -> Tensor | None:
        if not isinstance(output, Tensor):
            raise InputError(f"layer `{name}` gives {type(output).__name__}; choose one that gives a tensor")
        if name in recorded:
            raise InputError(
                f"layer `{name}` runs more than once in a forward pass; choose one that runs once"
            )
        recorded[name] = output.detach()
        if len(recorded) == enough:
            raise _AllRecorded
        # Clones, because a following in-place activation would overwrite the recorded tensor.
        recorded[name] = recorded[name].clone().requires_grad_(differentiable)
        return recorded[name].clone() if differentiable else None

    return record
