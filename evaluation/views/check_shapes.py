"""Check the shapes of tensors by the names of their axes, so that nothing is broadcast by accident."""

from collections.abc import Sequence

import torch
from torch import Tensor

from candlelight.loaders.errors import InputError


def check_shapes(**arguments: tuple[object, str]) -> None:
    """Refuse tensors whose shapes do not agree.

    Axes are written as in jaxtyping annotations: axes with the same name have the same length, ``*name``
    stands for any number of axes, ``_`` for one axis of any length, and a number for an axis of that length.

    Args:
        arguments: for each argument name, the tensor and its axes.

    Raises:
        InputError: an argument is not a tensor, or the shapes do not agree.

    Example:
        >>> check_shapes(target=(torch.zeros(2, 3), "batch width"), mask=(torch.zeros(1, 3), "batch width"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected `target` [batch, width], `mask` [batch, width], got \
[2, 3], [1, 3]
    """
    lengths: dict[str, object] = {}
    shapes = []
    agree = True
    for name, (value, axes) in arguments.items():
        shape = getattr(value, "shape", None)  # also of rows outside memory
        if shape is None or (not isinstance(value, Tensor) and not isinstance(shape, torch.Size)):
            raise InputError(
                f"`{name}` must be a torch tensor, got {type(value).__name__}; use torch.as_tensor"
            )
        shapes.append(list(shape))
        agree = _fits(shape, axes.split(), lengths) and agree
    if not agree:
        expected = ", ".join(f"`{name}` [{', '.join(axes.split())}]" for name, (_, axes) in arguments.items())
        raise InputError(f"expected {expected}, got {', '.join(map(str, shapes))}")


def check_bool(**tensors: Tensor) -> None:
    """Refuse tensors that are not boolean.

    Args:
        tensors: tensors by argument name.

    Raises:
        InputError: a tensor has another dtype.

    Example:
        >>> check_bool(mask=torch.tensor([0, 255]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `mask` must be boolean, got torch.int64; pass `mask > 0` if \
that is meant
    """
    for name, tensor in tensors.items():
        if tensor.dtype != torch.bool:
            raise InputError(
                f"`{name}` must be boolean, got {tensor.dtype}; pass `{name} > 0` if that is meant"
            )


def _fits(shape: Sequence[int], axes: Sequence[str], lengths: dict[str, object]) -> bool:
    """Tell whether a shape has these axes; ``lengths`` receives the lengths of axes with new names."""
    starred = next((place for place, axis in enumerate(axes) if axis.startswith("*")), None)
    known: list[object] = list(shape)
    if starred is not None and len(shape) >= len(axes) - 1:
        after = len(shape) - len(axes) + 1 + starred
        known = [*shape[:starred], tuple(shape[starred:after]), *shape[after:]]
    if len(known) != len(axes):
        return False
    return all(
        axis == "_" or lengths.setdefault(axis, int(axis) if axis.isdigit() else length) == length
        for axis, length in zip(axes, known, strict=True)
    )
