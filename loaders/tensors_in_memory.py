"""Load a whole image set into tensors in memory, the input of representation learning."""

from typing import TYPE_CHECKING

from candlelight.loaders.errors import require_module
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import layer

if TYPE_CHECKING:
    import torch

# Rows that are read with one call.
_BLOCK = 256


def load_tensors(frames: Frames) -> "dict[str, torch.Tensor]":
    """Load all of an image set.

    Args:
        frames: any reader of frames; all layers that it reads are loaded.

    Returns:
        Each layer under its name as a tensor [n, ...] of its stored dtype (three-channel layers channels
        first), ``index`` [n] and ``factors`` [n, k] (`Frames.factor_table`: float64, a column for each of
        ``frames.set_info.factors``). On a CPU ``tensor.index_select(0, rows)`` is ten times as fast as
        ``tensor[rows]``.

    Raises:
        InputError: a row is damaged.

    Example:
        >>> from candlelight.loaders import open_frames
        >>> data = load_tensors(open_frames("frames", layers=["image"]))  # doctest: +SKIP
        >>> for rows in torch.randperm(len(data["index"])).split(64):  # doctest: +SKIP
        ...     images, factors = (data[name].index_select(0, rows) for name in ("image", "factors"))
    """
    require_module("torch", "torch")
    import torch

    rows, size = len(frames), (frames.set_info.height, frames.set_info.width)
    data = {}
    for name in frames.layers:
        spec = layer(name)
        shape = (spec.channels, *size) if spec.channels else size
        data[name] = torch.empty((rows, *shape), dtype=getattr(torch, spec.dtype))
    for start in range(0, rows, _BLOCK):
        for row, sample in enumerate(frames.__getitems__(range(start, min(start + _BLOCK, rows))), start):
            for name in frames.layers:
                data[name][row] = sample[name]
    data["index"] = torch.tensor(frames.indices)
    data["factors"] = torch.tensor(frames.factor_table)
    return data
