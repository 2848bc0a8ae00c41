"""A simulated CUDA tensor, for machines without a GPU.

It computes on the CPU, reports a CUDA device, and refuses the same operations as CUDA: operations with CPU
tensors, and conversion to an array.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


class Pretended(Tensor):
    """A CPU tensor that reports a CUDA device within `PretendedGpu`."""


class PretendedGpu(TorchFunctionMode):
    """Refuse the operations that CUDA refuses, and make `Pretended` tensors for the device ``cuda``."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        # Attributes of simulated tensors are read here, too, which costs the most without this.
        with torch._C.DisableTorchFunctionSubclass():
            return self._call(function, args, dict(kwargs or {}))

    def _call(self, function, args, kwargs):
        if function in _FACTS:
            return function(*args, **kwargs)
        given = _tensors(args) + _tensors(kwargs)
        on_gpu = any(isinstance(one, Pretended) for one in given)
        if on_gpu and function == Tensor.device.__get__:
            return GPU
        if on_gpu and function == Tensor.is_cuda.__get__:
            return True
        if on_gpu and function in (Tensor.numpy, Tensor.__array__) and not kwargs.get("force"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        moved = on_gpu if (device := _target(function, args, kwargs)) is None else device.type == "cuda"
        if device is None:
            _check_devices(function, args, given, kwargs)
        elif "device" in kwargs:
            kwargs["device"] = "cpu"
        if function is torch.autograd.grad:  # copies would be no part of the graph
            return tuple(move(Pretended, one) for one in function(*args, **kwargs))
        args = tuple("cpu" if function is Tensor.to and _is_device(one) else one for one in args)
        result = function(*_move_all(Tensor, args), **_move_all(Tensor, kwargs))
        return _move_all(Pretended if moved else Tensor, result)


GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
_MOVES = (Tensor.to, Tensor.cpu, Tensor.cuda, Tensor.copy_)
_INDEXING = (Tensor.__getitem__, Tensor.__setitem__)  # CUDA tensors take indices on the CPU


# Answers without a tensor, the same on every device.
_FACTS = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "requires_grad")),
    *(Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point, Tensor.is_complex, Tensor.__len__),
}


def move(kind: type[Tensor], one: object) -> object:
    return one.as_subclass(kind) if isinstance(one, Tensor) else one


def _move_all(kind: type[Tensor], one: Any) -> Any:
    """Move nested tensors; torch's own function for trees takes several times as long."""
    if isinstance(one, Tensor):
        return one.as_subclass(kind)
    if type(one) in (tuple, list):
        return type(one)([_move_all(kind, part) for part in one])
    if type(one) is dict:
        return {name: _move_all(kind, part) for name, part in one.items()}
    # A shape stays a shape: tree_map would make a tuple of it.
    named = isinstance(one, tuple) and not isinstance(one, torch.Size)
    return tree_map(lambda part: move(kind, part), one) if named else one


def _tensors(one: Any) -> list[Tensor]:
    if isinstance(one, Tensor):
        return [one]
    if isinstance(one, dict):
        one = one.values()
    elif not isinstance(one, tuple | list):
        return []
    return [found for part in one for found in _tensors(part)]


def _is_device(one: object) -> bool:
    return isinstance(one, torch.device | str)


def _device_of(one: Tensor) -> torch.device:
    return GPU if isinstance(one, Pretended) else CPU


def _target(function, args, kwargs) -> torch.device | None:
    """Return the device that a call requests for its result; None if the call follows its arguments."""
    if function in (Tensor.cpu, Tensor.copy_):
        return CPU if function is Tensor.cpu else _device_of(args[0])
    named = [kwargs["device"]] if kwargs.get("device") is not None else []
    if function is Tensor.to:
        named += [_device_of(one) if isinstance(one, Tensor) else one for one in args[1:]]
    devices = [torch.device(one) for one in named if _is_device(one)]
    generator = kwargs.get("generator")
    if devices and generator is not None and generator.device.type != devices[0].type:
        raise RuntimeError("expected the generator on the same device as the tensor")
    return devices[0] if devices else None


def _check_devices(function, args, given, kwargs) -> None:
    devices = {_device_of(one) for one in given if isinstance(one, Pretended) or one.ndim}
    devices |= {kwargs["generator"].device} if given and kwargs.get("generator") is not None else set()
    if function in _INDEXING and _device_of(args[0]) == GPU:
        return
    if len(devices) > 1:
        raise RuntimeError(f"{function}: expected all tensors on the same device, got cuda:0 and cpu")
