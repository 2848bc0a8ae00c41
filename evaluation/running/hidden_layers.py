"""Run a network once and keep what chosen hidden layers gave, without leaving a trace on the network."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from loaders.errors import InputError


class _AllRecorded(BaseException):
    """Ends a forward pass; not an Exception, which a model may catch."""


@contextmanager
def evaluation_mode(model: object) -> Iterator[None]:
    """Put a network into evaluation mode for a while; each submodule gets its own mode back.

    Args:
        model: any callable; what is no `torch.nn.Module` has no mode and is left alone.

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
        images: one batch, whatever the network takes.
        differentiable: make each recorded tensor a leaf that the output depends on, so that
            ``torch.autograd.grad(loss, recorded)`` gives the gradient there and touches no ``.grad``.
            With several layers a later one is then cut off from an earlier one.

    Returns:
        The output of the model, and one tensor per layer.

    Raises:
        InputError: no such layer, a layer that does not run exactly once, or whose output is no tensor.

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
    """Run ``model`` on ``images`` no further than to the last of some layers, and record their outputs.

    Unlike `run_recorded` this cannot notice a layer that would run again behind the last one: let that
    function run once on the model before.

    Args:
        model: the network.
        layers: names as ``model.named_modules()`` gives them, at least one.
        images: one batch, whatever the network takes.

    Returns:
        One tensor per layer, which may share memory with ``images``.

    Raises:
        InputError: as `run_recorded`.

    Example:
        >>> model = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
        >>> record_layers(model, ["0"], torch.ones(1, 1, 1, 2))  # the next layer would not take two numbers
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
    """Hang a hook on each of some layers for a while."""
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
    """Forward hook that puts the output of one layer into ``recorded`` and stops where that holds enough."""

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
        # Copies: an in-place activation that follows would otherwise overwrite the record, or a leaf.
        recorded[name] = recorded[name].clone().requires_grad_(differentiable)
        return recorded[name].clone() if differentiable else None

    return record
